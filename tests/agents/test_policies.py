"""Policies without a network: scripts, replays, experts and chance."""

from collections import Counter

import pytest
import torch

from labkit.agents.forms import WordForm
from labkit.agents.policies import NoisyExpert, Recorded, Scripted, random_policy
from labkit.agents.react import Episode, Written, play
from labkit.agents.thoughts import expert_thought
from labkit.agents.words import tokenizer
from labkit.envs.phone.env import PhoneWorld
from labkit.envs.phone.goals import Task, single
from labkit.envs.trajectory import Step, Trajectory

WIFI = Task(single("open", "wifi"))


def context(task=WIFI):
    return Episode(PhoneWorld(), task).context


def generator(seed=0):
    return torch.Generator().manual_seed(seed)


def test_a_script_goes_on_with_its_last_text():
    (found,) = play([PhoneWorld(max_steps=4)], Scripted(["Action: open Maps", "Action: back"]), [WIFI])
    assert [step.action for step in found.steps] == ["open Maps", "back", "back", "back"]
    with pytest.raises(ValueError, match="at least one text"):
        Scripted([])


def test_a_script_has_its_own_place_in_every_episode_of_a_batch():
    first, second = Episode(PhoneWorld(), WIFI), Episode(PhoneWorld(), WIFI)
    script = Scripted(["Action: open Maps", "Action: back"])
    first.advance(Written("Action: open Chat"), script.form)
    texts = [w.text for w in script.write([first.context, second.context], generator())]
    assert texts == ["Action: back", "Action: open Maps"]


def test_a_recording_writes_what_was_written_ids_too_and_ends():
    form = WordForm(tokenizer())
    steps = (
        Step("o1", "WiFi off", "back", ids=(5, 3), logprobs=(-1.0, -2.0)),
        Step("o2", "", "home"),
        Step("o3", "", "", failures=("format",), written="<think> hm"),
    )
    again = Recorded(Trajectory("w", {}, "g", steps, "o4", False, True, policy="me"), form)
    episode = Episode(PhoneWorld(), WIFI)
    written = []
    for _ in steps:
        written += again.write([episode.context], generator())
        episode.advance(written[-1], form)
    assert written == [
        Written("<think> WiFi off <act> back <eos>", (5, 3), (-1.0, -2.0)),
        Written("<act> home <eos>"),
        Written("<think> hm"),
    ]
    assert again.name == "me again"
    with pytest.raises(IndexError):
        again.write([episode.context], generator())


def test_without_noise_it_does_and_thinks_what_the_expert_does_and_thinks():
    world = PhoneWorld()
    (found,) = play([PhoneWorld()], NoisyExpert(0.0, expert_thought), [WIFI])
    world.reset(options={"task": WIFI})
    for step in found.steps:
        assert (step.thought, step.action) == (expert_thought(world), world.expert_action())
        world.step(step.action)
    assert world.is_over and found.policy == "expert"
    assert all(step.thought == "" for step in play([PhoneWorld()], NoisyExpert(0.0), [WIFI])[0].steps)


def test_chance_takes_every_admissible_action_equally_often_and_thinks_nothing():
    draws = random_policy().write([context()] * 2000, generator())
    counts = Counter(written.text for written in draws)
    actions = context().world.admissible_actions()
    assert set(counts) == {f"Action: {action}" for action in actions}
    # 500 each on average; five standard deviations of a count are 97.
    assert all(abs(count - 2000 / len(actions)) < 97 for count in counts.values())


@pytest.mark.parametrize("noise", [0.25, 0.75])
def test_with_noise_that_share_of_the_steps_is_drawn_at_random(noise):
    draws = NoisyExpert(noise, expert_thought).write([context()] * 2000, generator())
    # Only the expert thinks.
    share = sum("Thought:" not in written.text for written in draws) / 2000
    assert abs(share - noise) < 5 * (noise * (1 - noise) / 2000) ** 0.5


def test_all_chance_comes_from_the_generator():
    policy, contexts = NoisyExpert(0.5), [context()] * 30
    once = policy.write(contexts, generator(1))
    torch.manual_seed(9)
    assert policy.write(contexts, generator(1)) == once != policy.write(contexts, generator(2))


@pytest.mark.parametrize("noise", [-0.1, 1.1, float("nan")])
def test_a_noise_that_is_no_probability_is_refused(noise):
    with pytest.raises(ValueError, match="probability"):
        NoisyExpert(noise)


def test_names_for_tables():
    assert [NoisyExpert(noise).name for noise in (0, 0.25, 1)] == [
        "expert",
        "expert with 25% noise",
        "random",
    ]


def test_an_expert_that_knows_no_action_says_so():
    class Clueless(PhoneWorld):
        def expert_action(self):
            return None

    with pytest.raises(ValueError, match="Clueless knows no action for 'open the WiFi'"):
        play([Clueless()], NoisyExpert(0.0), [WIFI])
    assert play([Clueless(max_steps=2)], random_policy(), [WIFI])
