"""The equations of notebook 01, evaluated independently, against labkit's objects."""

from __future__ import annotations

import random

import pytest
import torch

from labkit.agents.forms import TextForm
from labkit.agents.lm_policies import TinyPolicy
from labkit.agents.policies import NoisyExpert
from labkit.agents.react import Context, Episode, Written, play
from labkit.agents.words import tokenizer
from labkit.envs.craft import rules as craft
from labkit.envs.craft.env import CraftWorld
from labkit.envs.craft.tasks import make_task
from labkit.envs.phone.env import PhoneWorld
from labkit.envs.phone.goals import Task, single
from labkit.envs.phone.rules import State, observe, transition
from labkit.envs.trajectory import Step
from labkit.lm.models import TinyConfig, tiny_model
from labkit.workshop.exercises_01.truncation import one_step_target

WIFI = Task(single("on", "wifi"), airplane=True)


def equation(tag: str):
    return pytest.mark.parametrize("tag", [tag])


@equation("01.1")
def test_the_observation_is_a_function_of_the_state_alone(tag: str) -> None:
    seen: dict[State, str] = {}
    rng, world = random.Random(0), PhoneWorld(max_steps=400)
    observation, _ = world.reset(options={"task": WIFI})
    while not world.is_over:
        assert seen.setdefault(world.state, observation) == observation == observe(WIFI.layout, world.state)
        observation, *_ = world.step(rng.choice(world.admissible_actions()))
    assert len(set(seen.values())) < len(seen), "no two states shared an observation: the walk proves little"


@equation("01.2")
def test_the_next_state_is_a_function_of_state_and_action(tag: str) -> None:
    rng, world = random.Random(1), PhoneWorld(max_steps=100)
    world.reset(options={"task": WIFI})
    while not world.is_over:
        before, action = world.state, rng.choice(world.admissible_actions())
        observation, *_ = world.step(action)
        assert world.state == transition(WIFI.layout, before, action)
        assert observation == observe(WIFI.layout, world.state)
    task = make_task("rope", names="fixed")
    state = craft.State((0,) * len(task.items), task.target)
    # By hand: to get an item adds one of it.
    got = craft.transition(task, state, "get wool")
    assert dict(zip(task.items, got.inventory, strict=True)) == {
        item: int(item == "wool") for item in task.items
    }


class Blind(CraftWorld):
    """A world that refuses to be looked at."""

    @property
    def state(self):
        raise AssertionError("the policy looked at the state")

    def admissible_actions(self):
        raise AssertionError("the policy looked at the admissible actions")


@equation("01.3")
def test_the_policy_depends_on_goal_history_and_observation_alone(tag: str) -> None:
    torch.manual_seed(0)
    words = tokenizer()
    policy = TinyPolicy(tiny_model(TinyConfig(1, 16, 2, 32, 512), words, 0).eval(), words, thoughts=True)
    world, other = Blind(), PhoneWorld()
    _, info = world.reset(options={"task": make_task("rope", names="fixed")})
    other.reset(options={"task": WIFI})
    step = Step("have : nothing", "get wool", "get wool")
    contexts = [Context(info["goal"], (step,), "have : 1 wool", w) for w in (world, other)]
    one, same = policy.write(contexts, torch.Generator().manual_seed(0))
    assert one.text == same.text
    changed = [
        Context("open the WiFi", (step,), "have : 1 wool", other),
        Context(info["goal"], (), "have : 1 wool", other),
        Context(info["goal"], (step,), "have : 2 wool", other),
    ]
    prompts = {policy.form.prompt(c.goal, c.history, c.observation) for c in [contexts[0], *changed]}
    assert len(prompts) == 4


@equation("01.4")
def test_the_history_holds_what_came_before_and_nothing_else(tag: str) -> None:
    episode, form = Episode(PhoneWorld(), WIFI), TextForm()
    triples: list[tuple[str, str, str]] = []
    for action in ("open Settings", "back", "open Maps"):
        assert [(s.observation, s.thought, s.action) for s in episode.history] == triples
        triples.append((episode.observation, f"now {action}", action))
        episode.advance(Written(form.write(f"now {action}", action)), form)
    trajectory = episode.trajectory()
    for t in range(1, 4):
        assert [(s.observation, s.thought, s.action) for s in trajectory.history(t)] == triples[: t - 1]


@equation("01.5")
@pytest.mark.parametrize("max_steps", [2, 24])
def test_what_is_cut_off_keeps_its_value_and_what_is_over_has_none(tag: str, max_steps: int) -> None:
    task = Task(single("open", "wifi"))
    (trajectory,) = play([PhoneWorld(max_steps=max_steps)], NoisyExpert(0.0), [task])
    last, value, gamma = trajectory.steps[-1], 0.5, 0.9
    target = one_step_target(last.reward, value, trajectory.terminated, trajectory.truncated, gamma)
    # The way has three steps, the last of which pays 1: after a budget of two nothing was paid yet.
    assert target == pytest.approx(0.45 if max_steps == 2 else 1.0)
