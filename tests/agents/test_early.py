"""Training with early experience: what each method trains on and when, equal updates, and that it learns."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import pytest
import torch

from labkit.agents.cloning import craft_demonstrations, phone_demonstrations
from labkit.agents.early import (
    METHODS,
    EarlyConfig,
    expert_episodes,
    reflective_episodes,
    start_early,
    world_model_data,
)
from labkit.agents.experience import branch_off
from labkit.agents.forms import WordForm
from labkit.agents.lm_policies import TinyPolicy
from labkit.agents.rationales import reflections, shuffled_reflections
from labkit.agents.react import play
from labkit.agents.words import tokenizer
from labkit.envs.craft.env import CraftWorld
from labkit.envs.phone.env import PhoneWorld
from labkit.lm import sft
from labkit.lm.models import TinyConfig, tiny_model
from labkit.lm.training import OptimizerConfig, train

WORDS = tokenizer()
FORM = WordForm(WORDS)
NAMES = WORDS.convert_ids_to_tokens(list(range(len(WORDS))))
SMALL = EarlyConfig(demonstrations=4, k=2, updates=5, world_model_updates=2, steps_per_update=12)


def model(width=32):
    return tiny_model(TinyConfig(1, width, 2, 2 * width, 512, width**-0.5), WORDS, 0)


@pytest.fixture
def batches(monkeypatch):
    """`batches(config)`: for each update the rows it trains on, as pairs of words and which are kept."""

    def run(config, seed=0, **given):
        parts, original = [], sft.sft_loss_sum
        monkeypatch.setattr(sft, "sft_loss_sum", lambda m, batch: parts.append(batch) or original(m, batch))
        state, algorithm = start_early(model(), WORDS, config, seed, **given)
        found = []
        train(state, algorithm, callbacks=[lambda state: found.append(rows(parts)) or parts.clear()])
        monkeypatch.setattr(sft, "sft_loss_sum", original)
        assert len(state.history) == state.step
        return found

    return run


def rows(parts):
    return [
        list(zip([NAMES[i] for i in ids[real]], keep[real].tolist(), strict=True))
        for part in parts
        for ids, keep, real in zip(part.ids, part.completion_mask, part.attention_mask, strict=True)
    ]


def spans(row):
    """What a row trains on: runs of kept words, each with the word before it."""
    found, before = [], None
    for word, keep in row:
        if keep and not (found and found[-1][2]):
            found.append([before, [word], True])
        elif keep:
            found[-1][1].append(word)
        elif found:
            found[-1][2] = False
        before = word
    return [(marker, " ".join(words)) for marker, words, _ in found]


def prompt(triple):
    """The words that its next observation follows."""
    shown = f"<bos> {triple.goal}"
    for step in triple.steps:
        shown += f" <obs> {step.observation} <act> {step.action} <eos>"
    return " ".join(f"{shown} <obs>".split())


def written(demonstrations):
    """What imitation may train on: each step as it is to be written."""
    return {FORM.write(step.thought, step.action) for d in demonstrations for step in d.steps}


@pytest.mark.parametrize("world", ["phone", "craft"])
@pytest.mark.parametrize("method", METHODS)
def test_each_method_makes_as_many_updates(batches, method, world):
    assert len(batches(replace(SMALL, method=method, world=world))) == SMALL.updates


@pytest.mark.parametrize("world", ["phone", "craft"])
@pytest.mark.parametrize("method", ["iwm", "iwm-random"])
def test_the_world_model_comes_first_and_trains_observations_only_then_actions_only(batches, method, world):
    config = replace(SMALL, method=method, world=world)
    shown = expert_episodes(config, 0)
    found = batches(config)
    led_to = {prompt(t): t.last_observation for b in branch_off(shown, config.k, 0) for t in b.outcomes}
    for row in [row for update in found[:2] for row in update]:
        ((marker, text),) = spans(row)
        assert marker == "<obs>" and row[-1] == ("<eos>", True)
        true = " ".join(led_to[" ".join(word for word, keep in row if not keep)].split())
        assert method == "iwm-random" or text == f"{true} <eos>"
    for row in [row for update in found[2:] for row in update]:
        assert all(text in written(shown) and marker != "<obs>" for marker, text in spans(row))
    assert all(len(update) == config.steps_per_update for update in found[:2])
    outcomes = {text for update in found[:2] for row in update for _, text in spans(row)}
    assert len(outcomes) > 5


@pytest.mark.parametrize("method", METHODS)
def test_every_update_trains_on_as_many_steps(batches, method):
    config = replace(SMALL, method=method)
    longest = max(len(d.steps) for d in expert_episodes(config, 0))
    for update in batches(config):
        number = sum(len(spans(row)) for row in update)
        # Whole episodes overshoot by less than one of them, for each pool that is drawn from.
        assert config.steps_per_update <= number < config.steps_per_update + 2 * longest


def test_imitation_trains_on_the_steps_of_the_demonstrations_and_on_nothing_else(batches):
    shown = expert_episodes(SMALL, 0)
    assert not any(step.thought for d in shown for step in d.steps)
    texts = {text for update in batches(SMALL) for row in update for _, text in spans(row)}
    assert texts == written(shown)


@pytest.mark.parametrize("share", [0.25, 0.5, 1.0])
@pytest.mark.parametrize("method", ["sr", "sr-shuffled"])
def test_the_asked_share_of_the_steps_comes_with_a_rationale(batches, method, share):
    config = replace(SMALL, method=method, reflection_share=share, steps_per_update=200, updates=1)
    shown = expert_episodes(config, 0)
    branchings = branch_off(shown, config.k, 0)
    told = reflections(branchings) if method == "sr" else shuffled_reflections(branchings, 0)
    allowed = {
        FORM.write(text, b.expert.steps[-1].action)
        for b, texts in zip(branchings, told, strict=True)
        for text in texts
    }
    (update,) = batches(config)
    texts = [text for row in update for _, text in spans(row)]
    thought = [text for text in texts if text.startswith("<think>")]
    assert set(thought) <= allowed and set(texts) - set(thought) <= written(shown)
    assert len(thought) / len(texts) == pytest.approx(share, abs=0.05)


@pytest.mark.parametrize("share", [0.25, 0.75])
def test_the_asked_share_of_the_later_steps_still_predicts_observations(batches, share):
    config = replace(
        SMALL, method="iwm", world_model_share=share, steps_per_update=200, updates=2, world_model_updates=1
    )
    first, later = batches(config)
    assert {marker for row in first for marker, _ in spans(row)} == {"<obs>"}
    predicted = [marker == "<obs>" for row in later for marker, _ in spans(row)]
    assert sum(predicted) / len(predicted) == pytest.approx(share, abs=0.05)
    # A share of no world model is none.
    imitation = replace(config, method="imitation")
    assert not any(
        marker == "<obs>" for update in batches(imitation) for row in update for marker, _ in spans(row)
    )


def test_rationales_become_the_thoughts_of_the_demonstration_a_round_each():
    (demonstration,) = [d for d in phone_demonstrations(9, 0) if len(d.steps) == 3][:1]
    branchings = branch_off([demonstration], 3, 0)
    first, second = reflective_episodes([demonstration], branchings, [["a", "b"], [], ["c"]])
    assert [(s.thought, s.trained) for s in first.steps] == [
        ("a", True),
        (demonstration.steps[1].thought, False),
        ("c", True),
    ]
    assert [(s.thought, s.trained) for s in second.steps] == [
        ("b", True),
        (demonstration.steps[1].thought, False),
        ("c", True),
    ]
    for found in (first, second):
        assert [(s.observation, s.action) for s in found.steps] == [
            (s.observation, s.action) for s in demonstration.steps
        ]
    assert reflective_episodes([demonstration], branchings, [[], [], []]) == []


def test_rationales_go_to_the_episode_that_they_are_of():
    shown = expert_episodes(SMALL, 0)
    texts = [[f"{b.expert.goal} {len(b.expert.steps)}"] for b in branch_off(shown, 1, 0)]
    found = reflective_episodes(shown, branch_off(shown, 1, 0), texts)
    assert [[s.thought for s in d.steps] for d in found] == [
        [f"{d.goal} {t}" for t in range(1, len(d.steps) + 1)] for d in shown
    ]


@pytest.mark.parametrize("make", [phone_demonstrations, craft_demonstrations])
def test_random_next_states_are_the_same_ones_dealt_out_otherwise(make):
    branchings = branch_off(make(8, 0), 3, 0)
    true, dealt = (world_model_data(branchings, at_random, 0) for at_random in (False, True))
    assert true == [triple for b in branchings for triple in b.outcomes]
    assert [replace(t, last_observation="") for t in true] == [replace(t, last_observation="") for t in dealt]
    observations = [[t.last_observation for t in triples] for triples in (true, dealt)]
    assert Counter(observations[0]) == Counter(observations[1])
    moved = sum(a != b for a, b in zip(*observations, strict=True)) / len(true)
    # Some observations are frequent, so that chance gives a triple its own again.
    by_chance = sum((n / len(true)) ** 2 for n in Counter(observations[0]).values())
    assert moved == pytest.approx(1 - by_chance, abs=0.1) and moved > 0.7
    assert world_model_data(branchings, True, 0) == dealt != world_model_data(branchings, True, 1)


@pytest.mark.parametrize("method", METHODS)
def test_masked_words_get_no_gradient_and_kept_ones_do(monkeypatch, method):
    policy, logits, seen, original = model(), [], [], sft.sft_loss_sum
    policy.lm_head.register_forward_hook(lambda m, a, out: out.retain_grad() or logits.append(out))
    monkeypatch.setattr(sft, "sft_loss_sum", lambda m, batch: seen.append(batch) or original(m, batch))
    state, algorithm = start_early(policy, WORDS, replace(SMALL, method=method), 0)
    algorithm(state)
    assert len(seen) == len(logits) > 0
    for batch, out in zip(seen, logits, strict=True):
        expected = torch.zeros(batch.ids.shape, dtype=torch.bool)
        expected[:, :-1] = batch.completion_mask[:, 1:]  # the logit that predicts token t stands at t - 1
        assert torch.equal(out.grad.ne(0).any(-1), expected)


@pytest.mark.parametrize("method", METHODS)
def test_the_seed_decides_what_is_learnt(method):
    config = replace(SMALL, method=method, updates=3, world_model_updates=2)

    def learnt(seed):
        state = train(*start_early(model(), WORDS, config, seed))
        return torch.cat([p.flatten() for p in state.model.parameters()]), state.history

    (one, history), (again, same), (other, _) = learnt(0), learnt(0), learnt(1)
    assert torch.equal(one, again) and history == same and not torch.equal(one, other)


def test_demonstrations_and_proposals_that_are_given_are_used(batches):
    (demonstration,) = expert_episodes(replace(SMALL, demonstrations=1), 3)
    asked = []

    def propose(contexts):
        asked.extend(contexts)
        return [["open Bluetooth"]] * len(contexts)

    config = replace(SMALL, method="iwm", k=1)
    found = batches(config, demonstrations=[demonstration], propose=propose)
    assert len(asked) == len(demonstration.steps)
    words = {" ".join(word for word, _ in row) for update in found for row in update}
    assert all(text.startswith(f"<bos> {demonstration.goal} <obs>") for text in words)
    acts = {text.split("<act> ")[-1].split(" <eos>")[0] for text in words if text.count("<act>")}
    assert "open Bluetooth" in acts
    assert acts <= {"open Bluetooth", *(s.action for s in demonstration.steps)}


@pytest.mark.parametrize("world, make", [("phone", PhoneWorld), ("craft", CraftWorld)])
@pytest.mark.parametrize("method", ["imitation", "iwm", "sr"])
def test_a_tiny_model_learns_one_demonstration_by_heart(method, world, make):
    config = EarlyConfig(
        world,
        method,
        k=2,
        updates=60 if method != "sr" else 90,
        world_model_updates=15,
        steps_per_update=12,
        reflection_share=1.0,
        optimizer=OptimizerConfig(learning_rate=1e-2, warmup_steps=5, schedule="cosine"),
    )
    shown = expert_episodes(config, 1)
    demonstration = min((d for d in shown if len(d.steps) > 2), key=lambda d: len(d.steps))
    state = train(*start_early(model(), WORDS, config, 0, demonstrations=[demonstration]))
    policy = TinyPolicy(state.model, WORDS, thoughts=config.thinks)
    task = make.unpack_task(demonstration.task)
    (found,) = play([make(max_steps=len(demonstration.steps))], policy, [task])
    assert found.success and [s.action for s in found.steps] == [s.action for s in demonstration.steps]
    assert all(bool(step.thought) == (method == "sr") for step in found.steps)


def test_what_there_is_not_is_refused():
    with pytest.raises(ValueError, match="method 'dagger' is not one of imitation, iwm, iwm-random, sr"):
        EarlyConfig(method="dagger")
    with pytest.raises(ValueError, match="world 'web' is not one of phone, craft"):
        EarlyConfig(world="web")


@pytest.mark.parametrize("number", [0, 300, 301])
def test_a_stage_without_an_update_is_refused(number):
    with pytest.raises(ValueError, match=f"world_model_updates is {number} of 300 updates"):
        EarlyConfig(method="iwm", updates=300, world_model_updates=number)
    EarlyConfig(method="imitation", updates=300, world_model_updates=number)


@pytest.mark.parametrize("share", [0.0, -0.5, 1.01])
def test_a_share_of_rationales_that_is_none_is_refused(share):
    with pytest.raises(ValueError, match=f"reflection_share is {share}; it is above 0 and at most 1"):
        EarlyConfig(method="sr", reflection_share=share)


@pytest.mark.parametrize("share", [-0.1, 1.0])
def test_a_share_that_leaves_no_imitation_is_refused(share):
    with pytest.raises(ValueError, match=f"world_model_share is {share}; it is 0 or more and below 1"):
        EarlyConfig(method="iwm", world_model_share=share)


def test_nothing_to_learn_from_is_refused(monkeypatch):
    model = tiny_model(TinyConfig(1, 16, 2, 16, 512), tokenizer(), 0)
    with pytest.raises(ValueError, match="0 demonstrations hold no step to learn from"):
        start_early(model, tokenizer(), EarlyConfig(), 0, demonstrations=[])
    monkeypatch.setattr("labkit.agents.early.reflections", lambda branchings: [[] for _ in branchings])
    with pytest.raises(ValueError, match="no rationale can be told of .* states with k = 4"):
        start_early(model, tokenizer(), EarlyConfig(method="sr", demonstrations=2), 0)
