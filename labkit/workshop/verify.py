"""The cell beside a displayed equation: what one gets by hand, and what labkit's function gives."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

Numbers = float | Sequence[float] | Sequence[Sequence[float]] | Tensor


def verify(equation: str, by_hand: Numbers, labkit: Numbers, tolerance: float = 5e-4) -> None:
    """Print both sides of an equation, evaluated; ValueError if they differ by more than `tolerance`.

    By hand one rounds to three or four digits, hence the tolerance. `equation` is its number, e.g. `02.6`.
    """
    hand, ours = (torch.as_tensor(side, dtype=torch.float64).detach() for side in (by_hand, labkit))
    if hand.shape != ours.shape or not torch.allclose(hand, ours, rtol=0.0, atol=tolerance):
        raise ValueError(f"({equation}) does not hold: by hand {_text(hand)}, labkit {_text(ours)}")
    print(f"({equation})  by hand {_text(hand)}\n{' ' * len(equation)}     labkit  {_text(ours)}  ✓")


def _text(numbers: Tensor) -> str:
    if numbers.dim() == 0:
        return f"{float(numbers):.4g}"
    return "[" + ", ".join(_text(part) for part in numbers) + "]"
