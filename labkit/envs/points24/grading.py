"""The verifier's vocabulary: every response has exactly one named outcome."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from fractions import Fraction


class Outcome(StrEnum):
    """What became of a response. When several apply, the first in this list is given."""

    NO_ANSWER = "no_answer"
    """Nothing that claims to be an answer: empty, cut off, or without a formula."""
    ILLEGAL = "illegal"
    """An answer that breaks the form or the arithmetic: a false step, a division by zero."""
    MISREAD_CARDS = "misread_cards"
    """The values written for the cards are not what the rule says they count."""
    WRONG_NUMBERS = "wrong_numbers"
    """The formula does not use every value exactly once."""
    WRONG_VALUE = "wrong_value"
    """A legal formula over the right numbers that reaches something else than the target."""
    CORRECT = "correct"
    """Reaches the target."""


@dataclass(frozen=True)
class Verdict:
    """A graded response."""

    outcome: Outcome
    values_read: tuple[int, ...] | None = None
    """The card values the response wrote down, None if it has none."""
    value: Fraction | None = None
    """What the formula comes to, None if there is no legal formula."""

    @property
    def correct(self) -> bool:
        return self.outcome is Outcome.CORRECT


class RewardTable(Mapping[Outcome, float]):
    """A mapping one cannot change, but can copy and pickle, as gymnasium and worker processes must."""

    def __init__(self, values: Mapping[Outcome, float]) -> None:
        self._values = dict(values)

    def __getitem__(self, outcome: Outcome) -> float:
        return self._values[outcome]

    def __iter__(self) -> Iterator[Outcome]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)

    def __repr__(self) -> str:
        return f"reward_table({', '.join(f'{o.value}={v:g}' for o, v in self._values.items())})"


def reward_table(**values: float) -> Mapping[Outcome, float]:
    """A reward for each outcome: all six named, one value each, none added to another."""
    names = {outcome.value for outcome in Outcome}
    if wrong := sorted(names ^ set(values)):
        raise ValueError(
            f"a reward table needs one value for each of {', '.join(sorted(names))}; "
            f"missing or unknown: {', '.join(wrong)}"
        )
    named = {Outcome(name): float(value) for name, value in values.items()}
    return RewardTable(named)


PAPER_REWARDS = reward_table(
    correct=5, no_answer=-1, wrong_numbers=-2, misread_cards=-2, illegal=-3, wrong_value=-1
)
"""The shape of the public code of Chu et al. (2025): +5, -1 no solution, -2 wrong numbers, -3 illegal.
It has no outcome of its own for misread cards (we give it the value of wrong numbers) and none for a
legal formula that misses the target (we give it the value of no solution)."""

BINARY_REWARDS = reward_table(
    correct=1, no_answer=0, wrong_numbers=0, misread_cards=0, illegal=0, wrong_value=0
)
"""1 for a solved hand, else 0."""
