"""What of the history h_t a policy is shown.

h_t = ((o_1, ρ_1, a_1), ..., (o_{t-1}, ρ_{t-1}, a_{t-1})) is everything before step t. A prompt has limited
room, and studies ask what each part of it is good for: so a `History` says what is kept.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

from labkit.envs.trajectory import Step

KINDS = ("full", "window", "summary", "none")


@dataclass(frozen=True)
class History:
    """What is kept of h_t. Raises ValueError for settings that do not go together."""

    kind: Literal["full", "window", "summary", "none"] = "full"
    """`full`: all steps. `window`: the last few. `summary`: the actions alone, as one line, without
    observations and thoughts. `none`: nothing, so that the policy sees o_t only."""
    window: int = 2
    """Steps that a window keeps."""
    thoughts: bool = True
    """Whether thoughts stay in the history. Without, the policy may think, and forgets that it did."""
    observations: bool = True
    """Whether observations after the first are shown, the present one included. Without, the policy reasons
    and acts blindly from o_1 on."""

    def __post_init__(self) -> None:
        if self.kind not in KINDS:
            raise ValueError(f"history kind {self.kind!r} is not one of {', '.join(KINDS)}")
        if self.window < 1:
            raise ValueError(f"window is {self.window}; it keeps at least 1 step (use kind='none' for none)")
        if not self.observations and self.kind != "full":
            raise ValueError("a policy without observations needs its full history: kind='full'")


FULL = History()


@dataclass(frozen=True)
class Shown:
    """The part of (h_t, o_t) that a prompt holds."""

    steps: tuple[Step, ...]
    """Steps shown, oldest first; a thought that is left out is ""."""
    summary: tuple[str, ...] | None
    """Actions done so far, where they are shown as a summary."""
    observation: str | None
    """o_t; None if it is not shown."""
    blind: bool = False
    """Whether of the steps' observations only the first is shown."""


def shown(history: History, steps: Sequence[Step], observation: str) -> Shown:
    """What is shown at step t: `steps` is h_t, `observation` is o_t."""
    if history.kind == "summary":
        return Shown((), tuple(step.action for step in steps), observation)
    first = len(steps) - {"full": len(steps), "window": history.window, "none": 0}[history.kind]
    kept = list(steps[max(first, 0) :])
    if not history.thoughts:
        kept = [step if _thoughtless(step) else _forgotten(step) for step in kept]
    blind = not history.observations
    return Shown(tuple(kept), None, None if blind and kept else observation, blind)


def _thoughtless(step: Step) -> bool:
    # Text that is kept as it was written may hold a thought that could not be read.
    return not step.thought and step.written is None


def _forgotten(step: Step) -> Step:
    # What was sampled held the thought, so that its ids are of no use without it.
    return replace(step, thought="", ids=(), logprobs=(), written=None)
