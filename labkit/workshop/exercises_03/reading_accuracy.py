"""Reading apart from solving; the readings are right or wrong by construction."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from labkit.envs.points24.data import Hand
from labkit.envs.points24.grading import Outcome, Verdict
from labkit.envs.points24.metrics import reading_accuracy
from labkit.envs.points24.rules import FACES_AS_RANK, FACES_AS_TEN
from labkit.workshop.checking import call, close, to_number
from labkit.workshop.exercises import OTHER, Exercise, Mistake

# hand, values written down, outcome, read right: by construction, under the rule that faces count 10
READINGS: tuple[tuple[Hand, tuple[int, ...] | None, Outcome, bool], ...] = (
    ((11, 3, 8, 2), (10, 3, 8, 2), Outcome.CORRECT, True),
    ((4, 13, 6, 1), (4, 10, 6, 1), Outcome.CORRECT, True),
    ((2, 12, 12, 9), (2, 10, 10, 9), Outcome.WRONG_VALUE, True),
    ((5, 5, 13, 7), (5, 5, 10, 7), Outcome.WRONG_NUMBERS, True),
    ((11, 12, 13, 1), (10, 10, 10, 1), Outcome.ILLEGAL, True),
    ((6, 11, 2, 2), (6, 10, 2, 2), Outcome.ILLEGAL, True),
    ((9, 4, 13, 3), (9, 4, 10, 3), Outcome.NO_ANSWER, True),
    ((1, 1, 12, 8), (1, 1, 10, 8), Outcome.WRONG_VALUE, True),
    ((7, 12, 5, 11), (7, 10, 5, 10), Outcome.ILLEGAL, True),
    ((11, 3, 8, 2), (11, 3, 8, 2), Outcome.MISREAD_CARDS, False),
    ((13, 7, 1, 12), (13, 7, 1, 12), Outcome.MISREAD_CARDS, False),
    ((2, 12, 4, 6), (2, 12, 4, 6), Outcome.MISREAD_CARDS, False),
    ((5, 11, 9, 1), (5, 10, 9, 2), Outcome.MISREAD_CARDS, False),
    ((8, 13, 4, 4), (10, 8, 4, 4), Outcome.MISREAD_CARDS, False),
    ((3, 12, 7, 7), (10, 3, 7, 7), Outcome.MISREAD_CARDS, False),
    ((1, 2, 11, 6), (1, 2, 9, 6), Outcome.ILLEGAL, False),
    ((10, 10, 12, 2), None, Outcome.NO_ANSWER, False),
    ((7, 13, 3, 5), None, Outcome.NO_ANSWER, False),
    ((8, 8, 11, 3), None, Outcome.ILLEGAL, False),
)


def _share(kept: Sequence[bool]) -> float:
    return sum(kept) / len(kept)


def reading_mistakes() -> dict[str, float]:
    """What typical wrong answers give for READINGS."""
    right = [row[3] for row in READINGS]
    solved = [outcome is Outcome.CORRECT for _, _, outcome, _ in READINGS]
    value = [[min(rank, 10) for rank in hand] for hand, *_ in READINGS]
    seen = [values or () for _, values, *_ in READINGS]
    cards = sum(a == b for v, s in zip(value, seen, strict=True) for a, b in zip(v, s, strict=False))
    return {
        "solving_accuracy": _share(solved),
        "only_solved": _share([r for r, s in zip(right, solved, strict=True) if s]),
        "per_card": cards / (4 * len(READINGS)),
        "order_ignored": _share([sorted(v) == sorted(s) for v, s in zip(value, seen, strict=True)]),
        "wrong_rule": _share([hand == values for hand, values, *_ in READINGS]),
        "unread_left_out": _share([r for (*_, r), s in zip(READINGS, seen, strict=True) if s]),
        "by_outcome": _share([row[2] is not Outcome.MISREAD_CARDS for row in READINGS]),
        "percent": 100 * _share(right),
        "misread_share": 1 - _share(right),
    }


READING_MESSAGES = {
    "solving_accuracy": "That is the share of solved hands. A hand can be read right and then played wrong.",
    "only_solved": (
        "You look at solved responses only. Those were all read right, or they would not be solved; what a "
        "model reads in the hands it fails is the interesting part."
    ),
    "per_card": "You count cards. A hand with three of four cards right is a misread hand.",
    "order_ignored": "You compare without order. `3 10 7 7` for the cards 10 3 7 7 gives each card another "
    "card's value; the response has to write the values in the order of the cards.",
    "wrong_rule": "You compare with the ranks of the cards. What a card counts depends on the rule.",
    "unread_left_out": (
        "You leave out responses that wrote no values. A model that stops reading would then look as if it "
        "read well."
    ),
    "by_outcome": "You count the outcome `misread_cards`. A response has one outcome only, and `illegal` or "
    "`no_answer` come before it: some of those were misread too.",
    "percent": "That is a percentage; a share lies between 0 and 1.",
    "misread_share": "That is the share of misread hands.",
}


def examine(answer: Callable[..., float]) -> str:
    """Share of responses whose values are read right, on readings that are right by construction."""
    verdicts = [Verdict(outcome, values) for _, values, outcome, _ in READINGS]
    hands = [hand for hand, *_ in READINGS]
    got = to_number(call(answer, verdicts, hands, FACES_AS_TEN), "a share")
    wanted = _share([row[3] for row in READINGS])
    if not close(got, wanted):
        for name, number in reading_mistakes().items():
            if close(got, number) or (name == "only_solved" and math.isnan(got)):
                raise Mistake(
                    name, f"{READING_MESSAGES[name]} (You get {got:.4g} for our {len(READINGS)} responses.)"
                )
        raise Mistake(
            OTHER,
            f"For {len(READINGS)} responses of which {wanted * len(READINGS):.0f} were read right you get "
            f"{got:.4g}.",
        )
    ranks = [Verdict(Outcome.WRONG_VALUE, tuple(hand)) for hand in hands]
    if not close(to_number(call(answer, ranks, hands, FACES_AS_RANK), "a share"), 1.0):
        raise Mistake(
            "rule_ignored", "Right where faces count 10; under the rule 11, 12, 13 it is wrong. Use `rule`."
        )
    return f"Right for {len(READINGS)} responses of every outcome, and under the other rule."


EXERCISE = Exercise(
    id="03.reading_accuracy",
    title="Reading is not solving",
    difficulty=1,
    importance=4,
    minutes=8,
    task="""\
A response first writes what its four cards count, then solves. To see *why* a model fails under a new
rule, one measures reading apart from solving.

Write `my_reading_accuracy(verdicts, hands, rule)`: the share of responses that wrote down the right values,
solved or not. `verdicts[i].values_read` is a tuple of the four values that the response to `hands[i]`
wrote, or `None` if it wrote none; `verdicts[i].outcome` is what became of it. `rule.values(hand)` gives
what the cards count.""",
    stub='''\
def my_reading_accuracy(verdicts, hands, rule):
    """Share of responses, 0 to 1, whose four values are read right, solved or not."""
    raise NotImplementedError
''',
    hints=(
        "Which of the two things in a verdict do you need, the outcome or the values? Can a response read "
        "its cards right and fail?",
        "A response has read its cards right if what it wrote equals what the rule says: same values, same "
        "order, all four. `None` is equal to no tuple, so it needs no case of its own.",
        """\
Fill in the blanks:

```python
def my_reading_accuracy(verdicts, hands, rule):
    right = [v.values_read == ____ for v, hand in zip(verdicts, hands)]
    return sum(right) / ____
```""",
    ),
    solution=reading_accuracy,
    examine=examine,
    why=(
        "After SFT on one rule a model solves few hands under another. What does it mean if its reading "
        "accuracy there is low, and what if it is high?",
        "Low: the model writes the old values whatever the prompt says; it has learned `J` as a constant "
        "and never gets as far as a puzzle. High: it reads the new rule, and fails at puzzles whose values "
        "it has not practised. The remedy differs (varied rules in the prompt, or more arithmetic), and "
        "accuracy alone cannot tell them apart.",
    ),
)
