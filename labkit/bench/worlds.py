"""Speed of our worlds: steps against gymnasium's own small world, clones against a deep copy.

A search makes a clone for every node and steps it, and a study plays thousands of episodes: the worlds must
not be what one waits for. Rates are per second of processor time, so that other work on the machine does not
count; everything timed here runs on one core.
"""

from __future__ import annotations

import copy
import random
import time
from collections.abc import Callable, Sequence
from typing import Any

import gymnasium

from labkit.bench import benchmark
from labkit.envs.craft.env import CraftWorld
from labkit.envs.phone.env import PhoneWorld
from labkit.envs.world import World


def recorded_walk(env: World, steps: int, seed: int = 0) -> list[str]:
    """Admissible actions of a random walk from `reset(seed)`, so that choosing them is not timed."""
    draw = random.Random(seed)
    env.reset(seed=seed)
    walk = []
    for _ in range(steps):
        walk.append(draw.choice(env.admissible_actions()))
        env.step(walk[-1])
        if env.is_over:
            env.reset()
    return walk


def step_rate(env: gymnasium.Env[Any, Any], actions: Sequence[Any], seed: int = 0) -> float:
    """Steps per second of one core from `reset(seed)`; the resets between episodes are in it."""
    env.reset(seed=seed)
    start = time.process_time()
    for action in actions:
        _, _, terminated, truncated, _ = env.step(action)
        if terminated or truncated:
            env.reset()
    return len(actions) / (time.process_time() - start)


def call_rate(call: Callable[[], object], times: int) -> float:
    """Calls per second of one core."""
    start = time.process_time()
    for _ in range(times):
        call()
    return times / (time.process_time() - start)


def frozen_lake_rate(steps: int = 20_000) -> float:
    """Steps per second of FrozenLake, the small world that comes with gymnasium, without wrappers."""
    lake = gymnasium.make("FrozenLake-v1").unwrapped
    draw = random.Random(0)
    return step_rate(lake, [draw.randrange(4) for _ in range(steps)])


@benchmark("phone_steps", unit="steps/s")
def phone_steps() -> tuple[float, float]:
    """A random walk of 20,000 steps in PhoneWorld, against one in FrozenLake."""
    env = PhoneWorld()
    return step_rate(env, recorded_walk(env, 20_000)), frozen_lake_rate()


@benchmark("phone_clones", unit="clones/s")
def phone_clones() -> tuple[float, float]:
    """Copies of PhoneWorld per second: `clone`, against `copy.deepcopy` of the environment."""
    env = PhoneWorld(tasks=PhoneWorld().tasks[:1])
    env.reset(seed=0)
    return call_rate(env.clone, 20_000), call_rate(lambda: copy.deepcopy(env), 200)


@benchmark("craft_steps", unit="steps/s")
def craft_steps() -> tuple[float, float]:
    """A random walk of 20,000 steps in CraftWorld, against one in FrozenLake; drawing tasks is in it."""
    env = CraftWorld()
    return step_rate(env, recorded_walk(env, 20_000)), frozen_lake_rate()


@benchmark("craft_clones", unit="clones/s")
def craft_clones() -> tuple[float, float]:
    """Copies of CraftWorld per second: `clone`, against `copy.deepcopy` of the environment."""
    env = CraftWorld()
    env.reset(seed=0)
    env.step("wait")
    return call_rate(env.clone, 20_000), call_rate(lambda: copy.deepcopy(env), 200)
