"""What the examinations of exercises share: calling an answer, and reading what it returned."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Mapping, Sequence
from numbers import Real
from typing import Any

import torch
from torch import Tensor

from labkit.workshop.exercises import Mistake


def call(answer: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """The answer's result on copies of the arguments.

    Raises NotImplementedError if it returns nothing, `Mistake` if it is no function or changes what it
    was given.
    """
    require_function(answer)
    given, named = copy.deepcopy((args, kwargs))
    result = answer(*given, **named)
    if result is None or result is ...:
        raise NotImplementedError("your function returns nothing; is a `return` missing?")
    if not _same((args, kwargs), (given, named)):
        raise Mistake(
            "changes_inputs",
            "Your function changes what it is given. Whoever calls it still needs the original: work on a "
            "copy.",
        )
    return result


def require_function(answer: Any) -> None:
    """Raises `Mistake` for an answer that cannot be called."""
    if not callable(answer):
        raise Mistake(
            "not_a_function",
            f"The check needs the function itself, not what it returns (`{type(answer).__name__}`): give its "
            "name without brackets.",
        )


def _same(one: Any, other: Any) -> bool:
    if isinstance(one, Tensor):
        return isinstance(other, Tensor) and one.shape == other.shape and bool((one == other).all())
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(_same(one[k], other[k]) for k in one)
    if isinstance(one, list | tuple) and isinstance(other, list | tuple):
        return len(one) == len(other) and all(map(_same, one, other))
    return one == other


def to_tensor(result: Any, shape: Sequence[int], what: str) -> Tensor:
    """A result as a tensor of the given shape; `what` names it. Raises `Mistake` if it is something else."""
    try:
        tensor = torch.as_tensor(result).detach()
    except (TypeError, ValueError, RuntimeError):
        raise Mistake(
            "wrong_type", f"Your function returns a `{type(result).__name__}`; {what} is a tensor."
        ) from None
    if tuple(tensor.shape) != tuple(shape):
        raise Mistake(
            "wrong_shape",
            f"Your function returns shape `{tuple(tensor.shape)}`; {what} has shape `{tuple(shape)}`.",
        )
    return tensor


def to_number(result: Any, what: str) -> float:
    """A result as a float. Raises `Mistake` if it is not one number."""
    if isinstance(result, Tensor):
        result = to_tensor(result, (), what) if result.numel() != 1 else result.detach()
    if isinstance(result, bool) or not (isinstance(result, Real) or hasattr(result, "__float__")):
        raise Mistake(
            "wrong_type", f"Your function returns a `{type(result).__name__}`; {what} is one number."
        )
    return float(result)


def close(one: float, other: float, tolerance: float = 1e-4) -> bool:
    """Whether two numbers agree; NaN agrees with NaN."""
    if math.isnan(one) or math.isnan(other):
        return math.isnan(one) and math.isnan(other)
    return abs(one - other) <= tolerance * max(1.0, abs(other))


def first_match(
    got: Sequence[float], candidates: Mapping[str, Sequence[float]], tolerance: float = 1e-4
) -> str | None:
    """Name of the first candidate whose numbers are all those of `got`, or None."""
    for name, numbers in candidates.items():
        if len(numbers) == len(got) and all(
            close(g, n, tolerance) for g, n in zip(got, numbers, strict=True)
        ):
            return name
    return None
