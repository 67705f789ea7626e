"""Shares over many graded responses."""

from __future__ import annotations

from collections.abc import Sequence

from labkit.envs.points24.grading import Verdict
from labkit.envs.points24.play import read_correctly
from labkit.envs.points24.rules import Rule


def reading_accuracy(verdicts: Sequence[Verdict], hands: Sequence[Sequence[int]], rule: Rule) -> float:
    """Share of responses, 0 to 1, that wrote down what all four cards count, solved or not.

    `verdicts[i]` is about a response to `hands[i]`; one that wrote down no values counts as not read.
    """
    read = [read_correctly(verdict, hand, rule) for verdict, hand in zip(verdicts, hands, strict=True)]
    return sum(read) / len(read)
