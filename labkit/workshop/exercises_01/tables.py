"""What the exercises with a table to fill in share."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from labkit.workshop.exercises import Mistake


def require_filled(answer: Any, keys: Iterable[str]) -> None:
    """Raises `Mistake` for an answer that is no mapping, or has blanks left."""
    if not isinstance(answer, Mapping):
        raise Mistake("wrong_type", f"The answer is a dict, not a `{type(answer).__name__}`.")
    blank = [key for key in keys if answer.get(key) in (None, ...)]
    if blank:
        raise Mistake("incomplete", f"Still to fill in: {', '.join(f'`{key}`' for key in blank)}.")
