"""One episode as data: what the policy saw, thought and did. Every notebook on agents uses these two.

Written as JSON lines, one trajectory a line, and checked when read.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Any, Self

from pydantic import ConfigDict, TypeAdapter, ValidationError

from labkit.files import atomic_write_text

_STRICT = ConfigDict(strict=True, extra="forbid")


@dataclass(frozen=True)
class Step:
    """One turn of the loop: o_t, then (ρ_t, a_t), then what the world made of it.

    Raises ValueError for log-probs that are not one a token, and for numbers that are not finite.
    """

    observation: str
    """o_t: what the policy saw before it acted."""
    thought: str
    """ρ_t; "" if there was none."""
    action: str
    """a_t as read from what the policy wrote; "" if none could be read."""
    reward: float = 0.0
    """Reward of the step."""
    admissible: bool = True
    """Whether the action could be done."""
    failures: tuple[str, ...] = ()
    """Kinds of failure, see `labkit.agents.react`."""
    written: str | None = None
    """What the policy wrote, where that is more or other than thought and action in its form; else None."""
    ids: tuple[int, ...] = ()
    """Token ids that the policy sampled, if it samples tokens."""
    logprobs: tuple[float, ...] = ()
    """Their log-probs under the distribution they were sampled from, in nats; one an id, or none at all."""
    trained: bool = True
    """Training mask: whether the tokens of thought and action are trained on. Observations never are."""
    choices: tuple[str, ...] = ()
    """Some of the actions that could have been done at o_t, where that was recorded."""

    __pydantic_config__ = _STRICT

    def __post_init__(self) -> None:
        if len(self.logprobs) not in (0, len(self.ids)):
            raise ValueError(
                f"{len(self.logprobs)} logprobs for {len(self.ids)} ids; give one an id, or none"
            )
        if not all(map(math.isfinite, (self.reward, *self.logprobs))):
            raise ValueError("reward and logprobs must be finite: what was done cannot have probability 0")


@dataclass(frozen=True)
class Trajectory:
    """One episode. Raises ValueError if it is both terminated and truncated."""

    world: str
    """Gymnasium id of the world."""
    task: Mapping[str, Any]
    """The task as plain data: `World.pack_task` made it, `World.unpack_task` takes it."""
    goal: str
    """g: the goal in words."""
    steps: tuple[Step, ...]
    """What was done, in order."""
    last_observation: str
    """What came back after the last step."""
    terminated: bool
    """Whether the world was over by its own rules, as a rule because the goal held."""
    truncated: bool
    """Whether the budget of steps was used up first."""
    policy: str = ""
    """Name of the policy."""
    seed: int | None = None
    """Seed of the episode."""

    __pydantic_config__ = _STRICT

    def __post_init__(self) -> None:
        if self.terminated and self.truncated:
            raise ValueError(
                "a trajectory is not both terminated and truncated: the last state of one that was cut off "
                "still has a value, a terminal state has none"
            )

    @property
    def reward(self) -> float:
        """Sum of the steps' rewards."""
        return sum(step.reward for step in self.steps)

    @property
    def success(self) -> bool:
        """Whether the world was over because the goal held: it was, and the last step was paid for."""
        return self.terminated and bool(self.steps) and self.steps[-1].reward > 0

    def history(self, t: int) -> tuple[Step, ...]:
        """h_t: the steps before step t, counted from 1. Step t itself is not in it.

        Raises IndexError for a t that is not 1 ... T + 1.
        """
        if not 1 <= t <= len(self.steps) + 1:
            raise IndexError(f"t is {t}; this trajectory has steps 1 to {len(self.steps)}")
        return self.steps[: t - 1]

    def observation(self, t: int) -> str:
        """o_t, t from 1 to T + 1 (what came back after the last step). Raises IndexError for another t."""
        self.history(t)
        return self.last_observation if t == len(self.steps) + 1 else self.steps[t - 1].observation

    def with_mask(self, trained: Iterable[bool]) -> Self:
        """The same episode with another training mask, one value a step."""
        pairs = zip(self.steps, trained, strict=True)
        return replace(self, steps=tuple(replace(step, trained=bool(keep)) for step, keep in pairs))


@lru_cache(maxsize=1)
def _adapter() -> TypeAdapter[Trajectory]:
    return TypeAdapter(Trajectory)


def save_trajectories(trajectories: Iterable[Trajectory], path: Path | str) -> Path:
    """Write trajectories as JSON lines: the whole file, or none of it. Fields with their default are left
    out."""
    lines = [_adapter().dump_json(trajectory, exclude_defaults=True).decode() for trajectory in trajectories]
    return atomic_write_text(path, "".join(f"{line}\n" for line in lines))


def load_trajectories(path: Path | str) -> tuple[Trajectory, ...]:
    """Read what `save_trajectories` wrote.

    Raises FileNotFoundError, and ValueError naming file, line and field for what is no trajectory.
    """
    path, found = Path(path), []
    for number, line in enumerate(path.read_bytes().split(b"\n"), 1):
        if line.strip():
            try:
                found.append(_adapter().validate_json(line))
            except ValidationError as error:
                first = error.errors()[0]
                where = ".".join(map(str, first["loc"])) or "the whole line"
                raise ValueError(
                    f"line {number} of {path} is not a trajectory: {where}: {first['msg']}. Each line is one "
                    "JSON object as `labkit.envs.trajectory.save_trajectories` writes it; make the file again"
                ) from error
    return tuple(found)
