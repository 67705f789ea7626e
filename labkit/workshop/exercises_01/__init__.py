"""Exercises of notebook 01, the ReAct formalism: a module each, text and check together."""

from labkit.workshop.exercises import register
from labkit.workshop.exercises_01 import (
    aliases,
    failures,
    history,
    mask,
    parse,
    policy,
    transition,
    truncation,
)

register(
    transition.EXERCISE,
    aliases.EXERCISE,
    history.EXERCISE,
    parse.EXERCISE,
    failures.EXERCISE,
    policy.EXERCISE,
    truncation.EXERCISE,
    mask.EXERCISE,
)
