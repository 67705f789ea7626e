"""Training sets of known and unknown facts, and what fitting them does to accuracy.

Sources: Gekhman et al. 2024 (arXiv 2405.05904), sections 4 to 6.
"""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from labkit.knowledge.categories import CATEGORIES, Category, Knowledge


def balanced(
    found: Sequence[Knowledge], seed: int, groups: Callable[[Category], str] | None = None
) -> list[Knowledge]:
    """As many facts of each group, relation by relation, as the smallest group of the relation has.

    `groups` names a category's group: known or unknown by default, or `str` for the four categories apart.
    Without this, Unknown facts would come from hard relations and Known ones from easy ones.
    """
    groups = known_or_unknown if groups is None else groups
    members: dict[str, dict[str, list[Knowledge]]] = defaultdict(lambda: defaultdict(list))
    names = {groups(category) for category in CATEGORIES}
    for k in found:
        members[k.fact.relation][groups(k.category)].append(k)
    kept: set[int] = set()
    for relation, by_group in members.items():
        size = min(len(by_group[name]) for name in names)
        for name in sorted(names):
            chosen = random.Random(f"{seed} {relation} {name}").sample(by_group[name], size)
            kept |= set(map(id, chosen))
    return [k for k in found if id(k) in kept]


def known_or_unknown(category: Category) -> str:
    """`"Unknown"` for `Category.UNKNOWN`, `"Known"` for the other three."""
    return "Unknown" if category is Category.UNKNOWN else "Known"


def mix(
    found: Sequence[Knowledge], size: int, unknown_share: float, seed: int, *, known_only: bool = False
) -> list[Knowledge]:
    """`size` facts drawn at random, `unknown_share` of them Unknown; in random order.

    `known_only` leaves the Unknown ones out afterwards: the paper's ablation, the same Known ones alone. Sets
    of one seed are nested: a larger share keeps the Unknown facts of a smaller one.

    Raises `ValueError` if there are too few facts of either kind.
    """
    if not 0 <= unknown_share <= 1:
        raise ValueError(f"unknown_share is {unknown_share}; it lies between 0 and 1")
    wanted = {"Unknown": round(size * unknown_share)}
    wanted["Known"] = size - wanted["Unknown"]
    chosen: list[Knowledge] = []
    for group, number in wanted.items():
        members = [k for k in found if known_or_unknown(k.category) == group]
        if len(members) < number:
            raise ValueError(f"{number} {group} facts asked for, {len(members)} given; choose a smaller size")
        random.Random(f"{seed} {group}").shuffle(members)
        if not (known_only and group == "Unknown"):
            chosen += members[:number]
    random.Random(f"{seed} order").shuffle(chosen)
    return chosen


def fitted_shares(correct: Sequence[bool], categories: Sequence[Category]) -> tuple[float, float]:
    """Shares of a training set that are Known and answered right, and Unknown and answered right.

    Both are shares of the whole set, as in the paper's linear model. Raises `ValueError` for an empty one.
    """
    if not categories:
        raise ValueError("no examples, hence no shares")
    pairs = list(zip(correct, categories, strict=True))
    known = sum(c for c, k in pairs if k is not Category.UNKNOWN)
    return known / len(pairs), sum(c for c, k in pairs if k is Category.UNKNOWN) / len(pairs)


@dataclass(frozen=True)
class LinearFit:
    """accuracy ≈ intercept + known · (Known fitted) + unknown · (Unknown fitted)."""

    intercept: float
    known: float
    """Accuracy gained by fitting Known examples, per unit of their share."""
    unknown: float
    """The same for Unknown ones: negative where they harm."""
    r_squared: float
    """Share of the variance of accuracy that is explained; NaN if accuracy does not vary."""

    def predict(self, known_fitted: Sequence[float], unknown_fitted: Sequence[float]) -> np.ndarray:
        """Accuracy `[n]` by the fit."""
        return (
            self.intercept + self.known * np.asarray(known_fitted) + self.unknown * np.asarray(unknown_fitted)
        )


def fit_linear(
    known_fitted: Sequence[float], unknown_fitted: Sequence[float], accuracy: Sequence[float]
) -> LinearFit:
    """Least-squares fit of the paper's equation (section 4.3); all three are `[n]`, of n checkpoints or runs.

    Raises `ValueError` if the shares do not determine the three coefficients.
    """
    design = np.column_stack([np.ones(len(known_fitted)), known_fitted, unknown_fitted])
    target = np.asarray(accuracy, dtype=float)
    coefficients, _, rank, _ = np.linalg.lstsq(design, target, rcond=None)
    if rank < 3:
        raise ValueError(
            f"{len(target)} points determine {rank} of 3 coefficients; both shares must vary, each on its own"
        )
    total = ((target - target.mean()) ** 2).sum()
    left = ((target - design @ coefficients) ** 2).sum()
    r_squared = 1 - left / total if total > 0 else float("nan")
    return LinearFit(*map(float, coefficients), float(r_squared))
