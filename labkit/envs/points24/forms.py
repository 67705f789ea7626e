"""The two ways of writing a task and its answer, behind one interface on text."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from labkit.envs.points24 import compact, json_form
from labkit.envs.points24.data import Hand, multiset, split_hands
from labkit.envs.points24.grading import Outcome, Verdict
from labkit.envs.points24.rules import Rule
from labkit.envs.points24.solver import TARGET, is_solvable


@dataclass(frozen=True)
class Form:
    """A form of prompt and response."""

    name: str
    """`compact` or `json`."""
    prompt: Callable[[Sequence[int], Rule, int, int], str]
    """`prompt(hand, rule, target, wording)`; the compact form has one wording."""
    grade: Callable[[str, Sequence[int], Rule, int], Verdict]
    """`grade(response, hand, rule, target)`: the response alone is read."""
    feedback: Callable[[Outcome], str]
    """What is said after an attempt that was not correct."""
    separator: str
    """Between prompt, responses and feedback, where they are written as one text."""
    has_answer: Callable[[tuple[int, ...], int], bool]
    """`has_answer(sorted values, target)`: whether a correct response can be written."""


COMPACT = Form(
    name="compact",
    prompt=lambda hand, rule, target, wording: " ".join(compact.prompt_tokens(hand, rule, target)),
    grade=lambda response, hand, rule, target: compact.grade(response.split(), hand, rule, target),
    feedback=lambda outcome: " ".join(compact.feedback_tokens(outcome)),
    separator=" ",
    has_answer=lambda values, target: bool(compact.expressible_solutions(values, target)),
)
"""Tokens separated by spaces, for tiny models: `labkit.envs.points24.compact`."""

JSON = Form(
    name="json",
    prompt=json_form.prompt_text,
    grade=json_form.grade_text,
    feedback=json_form.feedback_text,
    separator="\n\n",
    has_answer=is_solvable,
)
"""English and JSON, for hub models: `labkit.envs.points24.json_form`."""

FORMS = {form.name: form for form in (COMPACT, JSON)}


def get_form(name: str) -> Form:
    """The form of that name; ValueError for another one."""
    if name not in FORMS:
        raise ValueError(f"form {name!r} is not one of {', '.join(FORMS)}")
    return FORMS[name]


def checked_hand(hand: Sequence[int]) -> Hand:
    """The hand as a tuple of ints; ValueError unless it is four ranks from 1 (ace) to 13 (king)."""
    cards = tuple(hand)
    if len(cards) != 4 or any(card not in range(1, 14) for card in cards):
        raise ValueError(f"hand {hand!r} is not four ranks from 1 (ace) to 13 (king)")
    return tuple(map(int, cards))


def choose_hands(
    hands: str | Sequence[Sequence[int]], rule: Rule, form: Form, target: int = TARGET
) -> list[Hand]:
    """Hands of a split that can be answered (`train`, `validation`, `test`), or the given ones as they are.

    Raises ValueError for another split, for something that is not a hand, and where there is no hand.
    """
    if not isinstance(hands, str):
        chosen = [checked_hand(hand) for hand in hands]
    elif hands in ("train", "validation", "test"):
        chosen = [h for h in getattr(split_hands(), hands) if form.has_answer(multiset(h, rule), target)]
    else:
        raise ValueError(f"split {hands!r} is not train, validation or test; or give a list of hands")
    if not chosen:
        raise ValueError(f"no hand to play: {hands!r} holds none that can be answered under {rule.name}")
    return chosen
