"""What the checks on losses share: the gradient of an answer, where the formula promises one."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from labkit.workshop.checking import close
from labkit.workshop.exercises import Mistake

NO_GRADIENT = (
    "The numbers are right, but no gradient flows from them to the policy: it would never learn. Look for "
    "`.item()`, `.detach()`, `float(...)` or `no_grad` in a place where none belongs."
)


def gradient_of(
    answer: Callable[..., Tensor],
    variable: Sequence[float] | Tensor,
    arguments: Callable[[Tensor], tuple],
    weights: Tensor | float = 1.0,
) -> Tensor:
    """Gradient at `variable` of the weighted sum of `answer(*arguments(variable))`.

    Raises `Mistake` if none flows. What does not depend on `variable` at all counts as none.
    """
    leaf = torch.as_tensor(variable, dtype=torch.float64).clone().requires_grad_()
    result = answer(*arguments(leaf))
    if not (isinstance(result, Tensor) and result.requires_grad):
        raise Mistake("no_gradient", NO_GRADIENT)
    (gradient,) = torch.autograd.grad((result * weights).sum(), leaf, allow_unused=True)
    if gradient is None:
        raise Mistake("no_gradient", NO_GRADIENT)
    return gradient


def agree(one: Sequence[float], other: Sequence[float], tolerance: float = 1e-4) -> bool:
    """Whether two lists of numbers are the same up to rounding."""
    return len(one) == len(other) and all(close(a, b, tolerance) for a, b in zip(one, other, strict=True))
