"""The closed vocabulary of PhoneWorld, for models whose tokens are words."""

from __future__ import annotations

from functools import lru_cache

from labkit.envs.phone.env import NOT_POSSIBLE
from labkit.envs.phone.goals import WORDING
from labkit.envs.phone.layout import NAMES

SCREEN_WORDS = (
    "Home airplane : , Results Result on off location allowed denied Allow ? allow deny Blocked by ok"
)
"""What screens say besides names."""
ACTION_WORDS = "open back home toggle reset search"
"""Verbs of actions; `allow`, `deny` and `ok` are on screens as well."""


@lru_cache(maxsize=1)
def vocabulary() -> tuple[str, ...]:
    """Every word of every goal, observation and action on every phone, once each, in a fixed order.

    Words are what white space separates. Special tokens and words for thoughts are the model's to add.
    """
    goals = " ".join(WORDING.values()).replace("{}", "") + " and"
    texts = (SCREEN_WORDS, NOT_POSSIBLE, ACTION_WORDS, goals, *(" ".join(names) for names in NAMES.values()))
    return tuple(dict.fromkeys(word for text in texts for word in text.split()))
