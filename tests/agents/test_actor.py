"""The actor's log-probs of whole actions, against one token at a time."""

from __future__ import annotations

import math

import pytest
import torch

from labkit.agents.actor import Actor
from labkit.agents.forms import WordForm
from labkit.agents.history import History
from labkit.agents.mcts import Search
from labkit.agents.phases import SearchConfig
from labkit.agents.react import Episode, Written
from labkit.agents.words import ACT, tokenizer, vocabulary
from labkit.envs.craft.env import CraftWorld
from labkit.envs.phone.env import PhoneWorld
from tests.agents.episodes import ROPE, WIFI
from tests.tiny import llama, one_by_one_logprobs

FORM = WordForm(tokenizer())


@pytest.fixture(scope="module")
def model():
    return llama(3, words=vocabulary(), sharpness=3.0)


def contexts():
    """Starts and later steps of both worlds."""
    found = []
    for world, task, actions in (
        (PhoneWorld(), WIFI, ("open Settings", "toggle WiFi")),
        (CraftWorld(), ROPE, ("get wool", "craft thread", "wait")),
    ):
        episode = Episode(world, task)
        found.append(episode.context)
        for action in actions:
            episode.advance(Written(FORM.write("", action)), FORM)
        found.append(episode.context)
    # What a policy sees does not change when its world moves on.
    return found[1::2]


@pytest.mark.parametrize("batch_size", [1, 64])
@pytest.mark.parametrize("history", [History(), History("none")], ids=["full", "none"])
def test_scores_are_those_of_one_token_at_a_time(model, batch_size, history):
    given = contexts()
    actions = [[*c.world.admissible_actions(), "open WiFi"] for c in given]
    found = Actor(model, FORM, history, batch_size=batch_size).scores(given, actions)
    for context, names, scores in zip(given, actions, found, strict=True):
        prompt = FORM.prompt_ids(context.goal, context.history, context.observation, history)
        prompt += FORM.ids(ACT)
        for name, score in zip(names, scores, strict=True):
            alone = one_by_one_logprobs(model, prompt, FORM.ids(f"{name} <eos>"))
            assert score == pytest.approx(float(alone.sum()), abs=2e-3)


@pytest.mark.parametrize("temperature", [0.5, 1.0, 4.0])
def test_priors_are_a_softmax_over_what_can_be_done(model, temperature):
    given = contexts()
    actor = Actor(model, FORM, temperature=temperature)
    actions = [c.world.admissible_actions() for c in given]
    for guess, names, scores in zip(actor.guess(given), actions, actor.scores(given, actions), strict=True):
        assert guess.actions == names and guess.value is None
        weights = [math.exp((s - max(scores)) / temperature) for s in scores]
        assert guess.priors == pytest.approx([w / sum(weights) for w in weights], abs=1e-4)


def test_an_actor_guides_a_search_in_batches_or_alone(model):
    start = Episode(PhoneWorld(), WIFI).context
    torch.manual_seed(0)
    before = torch.random.get_rng_state()
    found = []
    for size in (1, 8):
        config = SearchConfig(simulations=64, depth=6, rule="puct", c=1.0, batch_size=size)
        search = Search(start, config, Actor(model, FORM).guess).run()
        assert search.simulations == 64 and all(node.prior > 0 for node in search.root)
        priors = {child.action: child.prior for child in search.root.children}
        priors |= {action: prior for prior, action in search.root.untried or ()}
        found.append(priors)
    assert found[0] == pytest.approx(found[1], abs=1e-5)
    assert torch.equal(torch.random.get_rng_state(), before)


def test_settings_that_do_not_fit_are_refused(model):
    with pytest.raises(ValueError, match="temperature is 0"):
        Actor(model, FORM, temperature=0)
    with pytest.raises(ValueError, match="1 lists of actions for 2 contexts"):
        Actor(model, FORM).scores(contexts(), [["back"]])
