"""The cell beside a displayed equation: what one gets by hand, and what labkit's function gives."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

Numbers = float | Sequence[float] | Sequence[Sequence[float]] | Tensor


def verify(equation: str, by_hand: Any, labkit: Any, tolerance: float = 5e-4) -> None:
    """Print both sides of an equation, evaluated; ValueError if they differ.

    Numbers (`Numbers`) may differ by `tolerance`: by hand one rounds to three or four digits. Sides of
    another kind, say texts or states, must be equal. `equation` is its number, e.g. `02.6`.
    """
    if not _is_numbers(by_hand):
        if by_hand != labkit:
            raise ValueError(f"({equation}) does not hold: by hand {by_hand!r}, labkit {labkit!r}")
        print(f"({equation})  by hand {by_hand}\n{' ' * len(equation)}     labkit  {labkit}  ✓")
        return
    hand, ours = (torch.as_tensor(side, dtype=torch.float64).detach() for side in (by_hand, labkit))
    if hand.shape != ours.shape or not torch.allclose(hand, ours, rtol=0.0, atol=tolerance):
        raise ValueError(f"({equation}) does not hold: by hand {_text(hand)}, labkit {_text(ours)}")
    print(f"({equation})  by hand {_text(hand)}\n{' ' * len(equation)}     labkit  {_text(ours)}  ✓")


def _is_numbers(side: Any) -> bool:
    if isinstance(side, list | tuple):
        return all(map(_is_numbers, side))
    return isinstance(side, int | float | Tensor) or hasattr(side, "__array__")


def _text(numbers: Tensor) -> str:
    if numbers.dim() == 0:
        return f"{float(numbers):.4g}"
    return "[" + ", ".join(_text(part) for part in numbers) + "]"
