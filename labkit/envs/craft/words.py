"""The closed vocabulary of CraftWorld, for models whose tokens are words."""

from __future__ import annotations

from labkit.envs.craft.recipes import ITEMS
from labkit.envs.craft.rules import CAPACITY, WAIT

WORDS = ("recipes", "goal", ":", ",", "get", "craft", "using", WAIT, "have", "nothing")
"""Words of goals, observations and actions, apart from numbers and the names of items."""
REFUSALS = ("cannot", "do", "that", "missing", "full")
"""Words for what cannot be done."""


def vocabulary() -> tuple[str, ...]:
    """Every word of every goal, observation and action, once each, in a fixed order.

    Words are what white space separates; the end of a line needs no word, since each line of a recipe book
    begins with `craft`. Special tokens and words for thoughts are the model's to add.
    """
    return (*WORDS, *REFUSALS, *(str(count) for count in range(1, CAPACITY + 1)), *sorted(ITEMS))
