"""Revision trajectories: an error, the thought that it was one, and the way on (Agent-R, arXiv 2501.11425).

    τ_i  initial     steps 1 ... t that a bad and a good episode of one task share
    τ_b  bad         τ_i, then what went wrong
    τ_g  good        τ_i, then what earned more: r(τ_g) - r(τ_b) ≥ β and r(τ_g) ≥ α
    τ_r  revision    τ_b up to the transition point t', a revision signal, then what τ_g did after τ_i

In τ_r only signal and good part are trained on. The signal is the thought of the first step after t': the
public code writes it with an action that does nothing, which not every world has. The good part begins in
another state here than it did in τ_g, so each τ_r is executed, and only one that earns τ_g's reward is kept
(`labkit.agents.splicing`).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from labkit.envs.trajectory import Step, Trajectory

SIGNALS = (
    "wrong ; try again",
    "no ; try instead",
    "last wrong ; then again",
    "not better ; try again",
    "worse ; instead",
    "had wrong ; try better",
    "wrong before ; then better",
    "not possible ; try again",
    "wrong because not in here ; again",
    "know better ; instead",
)
"""Ten revision signals in the words of the tiny agents (`labkit.agents.words`)."""
ALPHAS = (0.5, 0.7, 1.0)
"""Agent-R's floors α of its three iterations."""


@dataclass(frozen=True)
class Conditions:
    """When two episodes make a pair. Both bounds are inclusive: with `alpha` 1 perfect episodes are good.

    Raises ValueError for a gap that is not positive: a pair must differ.
    """

    alpha: float = ALPHAS[0]
    """Floor α: what a good episode earns at least."""
    beta: float = 0.2
    """Gap β: how much more it earns than the bad one, at least."""

    def __post_init__(self) -> None:
        if not self.beta > 0:
            raise ValueError(f"beta is {self.beta}; the gap between good and bad is above 0")

    def admits(self, bad: float, good: float) -> bool:
        """Whether rewards r(τ_b) and r(τ_g) fulfil them.

        >>> Conditions(0.5, 0.2).admits(0.3, 0.5), Conditions(1.0).admits(0.0, 0.9)
        (True, False)
        """
        return _least(good - bad, self.beta) and _least(good, self.alpha)


def _least(value: float, bound: float) -> bool:
    # Rewards are sums of fractions, whose last digit is chance.
    return value > bound or math.isclose(value, bound, abs_tol=1e-9)


@dataclass(frozen=True)
class Pair:
    """τ_b and τ_g of one task, as far as they agree and from there on.

    Raises ValueError for episodes of different tasks, and where one goes on where the other ends.
    """

    bad: Trajectory
    """τ_b."""
    good: Trajectory
    """τ_g."""

    def __post_init__(self) -> None:
        if (self.bad.world, self.bad.task) != (self.good.world, self.good.task):
            raise ValueError(
                f"bad and good are of different tasks ({self.bad.goal!r}, {self.good.goal!r}); pair episodes "
                "of one task in one world"
            )
        if self.shared == min(len(self.bad.steps), len(self.good.steps)):
            raise ValueError(
                f"of {len(self.bad.steps)} bad and {len(self.good.steps)} good steps the first {self.shared} "
                "agree: one episode is the beginning of the other, so neither took a wrong turn"
            )

    @property
    def shared(self) -> int:
        """t: the number of steps of τ_i, the longest beginning with the same actions."""
        pairs = zip(self.bad.steps, self.good.steps, strict=False)
        return next(
            (t for t, (bad, good) in enumerate(pairs) if bad.action != good.action),
            min(len(self.bad.steps), len(self.good.steps)),
        )

    @property
    def initial(self) -> tuple[Step, ...]:
        """τ_i."""
        return self.bad.steps[: self.shared]


@dataclass(frozen=True)
class Revision:
    """τ_r, as it was executed."""

    trajectory: Trajectory
    """τ_r; its mask keeps what follows the transition point."""
    pair: Pair
    """What it was made of."""
    transition_point: int
    """t': the last step of τ_b in it, counted from 1."""
    signal: str
    """The revision signal."""

    @property
    def length(self) -> int:
        """Revision length: steps in the wrong direction until the signal."""
        return self.transition_point - self.pair.shared
