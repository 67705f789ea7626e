"""Recorded episodes of the worlds that run in Java, to read on without them.

The simulator's expert played them; `python -m labkit.envs.recorded` wrote them and writes them anew.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from labkit.envs.world import World

FOLDER = Path(__file__).parent


@dataclass(frozen=True)
class Step:
    """One transition."""

    admissible: tuple[str, ...]
    """Some of the actions that could have been done, the one that was among them if it was listed; sorted."""
    action: str
    """What was done."""
    observation: str
    """What came back."""
    reward: float
    """Reward of the step, rounded to six digits."""
    terminated: bool
    """Whether the episode was over by the world's own rules."""
    truncated: bool
    """Whether the budget was used up."""


@dataclass(frozen=True)
class Episode:
    """One episode, as it was played."""

    world: str
    """Id of the environment."""
    task: dict[str, Any]
    """Fields of its task."""
    goal: str
    """The goal in words."""
    first: str
    """The first observation."""
    steps: tuple[Step, ...] = field(default=())
    """What was done, in order."""


def load_episodes(name: str) -> tuple[Episode, ...]:
    """The recorded episodes of a world, `scienceworld` or `textworld_express`.

    Raises ValueError for a world of which there are none.
    """
    path = FOLDER / f"{name}.jsonl"
    if not path.is_file():
        known = sorted(path.stem for path in FOLDER.glob("*.jsonl"))
        raise ValueError(f"no recorded episodes of {name!r}; there are some of {', '.join(known)}")
    return tuple(_episode(json.loads(line)) for line in path.read_text(encoding="utf-8").splitlines())


def save_episodes(episodes: list[Episode], path: Path) -> None:
    """Write episodes, one JSON object a line."""
    lines = [json.dumps(asdict(episode), ensure_ascii=True) for episode in episodes]
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")


def record(world: World, id: str, task: Any, listed: int = 12) -> Episode:
    """Let a world's expert play one task.

    `listed`: how many admissible actions to keep of each step, taken evenly from the sorted list; there can
    be a thousand. Raises RuntimeError if the expert does not end it.
    """
    first, info = world.reset(options={"task": task})
    steps: list[Step] = []
    while not world.is_over:
        action = world.expert_action()
        if action is None:
            raise RuntimeError(f"the expert knows no action after {len(steps)} steps of {task}")
        choices = world.admissible_actions()
        kept = set(choices[:: max(1, -(-len(choices) // listed))]) | ({action} & set(choices))
        observation, reward, terminated, truncated, _ = world.step(action)
        steps.append(Step(tuple(sorted(kept)), action, observation, round(reward, 6), terminated, truncated))
    return Episode(id, asdict(task), info["goal"], first, tuple(steps))


def _episode(fields: dict[str, Any]) -> Episode:
    steps = tuple(Step(**{**step, "admissible": tuple(step["admissible"])}) for step in fields.pop("steps"))
    return Episode(**fields, steps=steps)
