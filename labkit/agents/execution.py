"""Doing given actions in a fresh world: what an episode put together by hand or by search really earns."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import gymnasium

import labkit.envs  # noqa: F401  (registers the worlds)
from labkit.agents.react import INADMISSIBLE
from labkit.agents.words import FINISH
from labkit.envs.trajectory import Step, Trajectory


def execute(world: str, task: Any, steps: Iterable[Step]) -> Trajectory:
    """Do the actions of `steps` in a fresh world (gymnasium id, packed task); thoughts and masks are kept.

    Stops where the world is over, and before `finish`, which is said to no world. Observations and rewards
    are what came back.
    """
    steps = list(steps)
    env = gymnasium.make(world, max_steps=len(steps) + 1, disable_env_checker=True).unwrapped
    observation, info = env.reset(options={"task": env.unpack_task(task)})
    done, terminated, truncated = [], False, False
    for step in steps:
        if terminated or truncated or step.action == FINISH:
            break
        before = observation
        observation, reward, terminated, truncated, answer = env.step(step.action)
        admissible = answer["admissible"]
        failures = tuple(kind for kind in step.failures if kind != INADMISSIBLE)
        failures += (INADMISSIBLE,) * (not admissible)
        done.append(
            replace(step, observation=before, reward=reward, admissible=admissible, failures=failures)
        )
    return Trajectory(world, task, info["goal"], tuple(done), observation, terminated, truncated)


def replays(trajectory: Trajectory) -> bool:
    """Whether a fresh world answers each action with what is stored: observations, rewards and the end."""
    again = execute(trajectory.world, trajectory.task, trajectory.steps)
    return _facts(again) == _facts(trajectory)


def _facts(t: Trajectory) -> tuple[Any, ...]:
    steps = [(s.observation, s.action, s.reward, s.admissible) for s in t.steps]
    return steps, t.last_observation, t.terminated, t.goal
