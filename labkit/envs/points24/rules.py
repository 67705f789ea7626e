"""What a card counts: the rule is data, so that a study can train on one and test on another."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

RANKS = ("A", "2", "3", "4", "5", "6", "7", "8", "9", "10", "J", "Q", "K")
FIRST_FACE = 11

_WORDINGS = (
    "J, Q and K count {j}, {q} and {k}.",
    "In this game a jack is worth {j}, a queen {q} and a king {k}.",
    "Card values: J={j}, Q={q}, K={k}; every other card counts its own number and A counts 1.",
    "Treat J as {j}, Q as {q}, K as {k}.",
)


@dataclass(frozen=True)
class Rule:
    """Values of the three face cards; every other card counts its rank (ace 1)."""

    jack: int
    """Value of J, 1 to 99."""
    queen: int
    """Value of Q, 1 to 99."""
    king: int
    """Value of K, 1 to 99."""

    def __post_init__(self) -> None:
        for name, value in zip("JQK", self.faces, strict=True):
            if not (isinstance(value, int) and 1 <= value <= 99):
                raise ValueError(f"{name} counts {value!r}; a card value is an integer from 1 to 99")

    @property
    def faces(self) -> tuple[int, int, int]:
        """Values of (J, Q, K)."""
        return self.jack, self.queen, self.king

    @property
    def name(self) -> str:
        """Short name for tables, e.g. `faces=10` or `faces=11,12,13`."""
        distinct = sorted(set(self.faces))
        return "faces=" + ",".join(map(str, self.faces if len(distinct) > 1 else distinct))

    def value(self, rank: int) -> int:
        """What one card counts; `rank` is 1 (ace) to 13 (king)."""
        if not 1 <= rank <= 13:
            raise ValueError(f"rank {rank!r} is not between 1 (ace) and 13 (king)")
        return rank if rank < FIRST_FACE else self.faces[rank - FIRST_FACE]

    def values(self, hand: Sequence[int]) -> tuple[int, ...]:
        """What each card of a hand counts, in the order of the hand."""
        return tuple(self.value(rank) for rank in hand)

    def text(self, wording: int = 0) -> str:
        """The rule in words, for models that read English; several wordings to choose from."""
        j, q, k = self.faces
        return _WORDINGS[wording % len(_WORDINGS)].format(j=j, q=q, k=k)


FACES_AS_TEN = Rule(10, 10, 10)
"""All face cards count 10: the rule the paper trains on (Chu et al. 2025, section 5.1)."""
FACES_AS_RANK = Rule(11, 12, 13)
"""J, Q, K count 11, 12, 13: the paper's out-of-distribution rule."""


def has_face(hand: Sequence[int]) -> bool:
    """Whether a hand holds a card on which two rules can differ."""
    return any(rank >= FIRST_FACE for rank in hand)
