"""Recorded episodes of the worlds that run in Java, to read on without them.

The simulator's expert played them; `python -m labkit.envs.recorded` wrote them and writes them anew.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from labkit.envs.trajectory import Step, Trajectory, load_trajectories
from labkit.envs.world import World

FOLDER = Path(__file__).parent


def load_episodes(name: str) -> tuple[Trajectory, ...]:
    """The recorded episodes of a world, `scienceworld` or `textworld_express`.

    Raises ValueError for a world of which there are none.
    """
    path = FOLDER / f"{name}.jsonl"
    if not path.is_file():
        known = sorted(path.stem for path in FOLDER.glob("*.jsonl"))
        raise ValueError(f"no recorded episodes of {name!r}; there are some of {', '.join(known)}")
    return load_trajectories(path)


def record(world: World, task: Any, listed: int = 12) -> Trajectory:
    """Let a world's expert play one task, without thoughts.

    `listed`: how many admissible actions to keep of each step as its `choices`, taken evenly from the sorted
    list; there can be a thousand. Rewards are rounded to six digits. Raises RuntimeError if the expert does
    not end it.
    """
    observation, info = world.reset(options={"task": task})
    steps: list[Step] = []
    terminated = truncated = False
    while not world.is_over:
        action = world.expert_action()
        if action is None:
            raise RuntimeError(f"the expert knows no action after {len(steps)} steps of {task}")
        choices = world.admissible_actions()
        kept = set(choices[:: max(1, -(-len(choices) // listed))]) | ({action} & set(choices))
        seen = observation
        observation, reward, terminated, truncated, _ = world.step(action)
        steps.append(Step(seen, "", action, round(reward, 6), choices=tuple(sorted(kept))))
    packed = world.pack_task(task)
    return Trajectory(
        world.id, packed, info["goal"], tuple(steps), observation, terminated, truncated, policy="expert"
    )
