"""How an environment answers a batch of attempts."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Judgement:
    """What the environment says of one attempt."""

    reward: float
    """Reward of the attempt; an episode earns that of its last one."""
    feedback_ids: tuple[int, ...] | None = None
    """Tokens shown before the next attempt; None ends the episode."""


Judge = Callable[[Sequence[int], Sequence[Sequence[int]]], Sequence[Judgement]]
"""`judge(rows, completions)`: a judgement of each completion; `rows` are its rows in the rollout."""
