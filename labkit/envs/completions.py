"""Completions and dataset columns as TRL hands them to a reward function."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

Completion = str | Sequence[Mapping[str, Any]]
"""Text, or the chat messages of a conversational dataset."""


def completion_text(completion: Completion | None) -> str:
    """What the policy said last: the string, or the content of the last message if the policy wrote it.

    A conversation that ends in a tool's result has no last word of the policy: "".
    """
    if completion is None or isinstance(completion, str):
        return completion or ""
    last = completion[-1] if completion else {}
    content = last.get("content") if last.get("role", "assistant") == "assistant" else None
    if content is None or isinstance(content, str):
        return content or ""
    return "".join(part.get("text") or "" for part in content)


def column(name: str, values: Sequence[Any] | None, rows: int) -> Sequence[Any]:
    """A column of the dataset, one value a completion; ValueError if it is missing or of another length."""
    if values is None:
        raise ValueError(f"the dataset has no column {name!r}, which this reward needs")
    if len(values) != rows:
        raise ValueError(f"column {name!r} has {len(values)} rows for {rows} completions")
    return values
