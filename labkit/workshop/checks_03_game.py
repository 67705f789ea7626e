"""Examinations of notebook 03's exercises about the 24-point game; their oracles share no code with labkit's."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Sequence
from decimal import Decimal
from fractions import Fraction
from functools import lru_cache
from typing import Any

from labkit.envs.points24.data import Hand, split_hands
from labkit.envs.points24.grading import Outcome, Verdict
from labkit.envs.points24.rules import FACES_AS_RANK, FACES_AS_TEN, Rule
from labkit.envs.points24.solver import Node
from labkit.workshop.checking import call, close, require_function, to_number
from labkit.workshop.exercises import OTHER, Mistake

Pair = tuple[int, int]


def exact_pair(expr: Any) -> Pair | None:
    """Value of an expression as `(numerator, denominator)` in whole numbers; None for a division by zero."""
    if isinstance(expr, int):
        return expr, 1
    op, left, right = expr
    one, other = exact_pair(left), exact_pair(right)
    if one is None or other is None:
        return None
    (a, b), (c, d) = one, other
    if op == "/":
        return None if c == 0 else (a * d, b * c)
    return (a * c, b * d) if op == "*" else (a * d + (c * b if op == "+" else -c * b), b * d)


def _random_expression(rng: random.Random, depth: int) -> Any:
    if depth == 0 or rng.random() < 0.2:
        return rng.randint(0, 13)
    return Node(rng.choice("+-*/"), _random_expression(rng, depth - 1), _random_expression(rng, depth - 1))


EIGHT_THREES = Node("/", 8, Node("-", 3, Node("/", 8, 3)))
NEAR_MISS = Node("+", 24, Node("/", 1, 10**20))


def examine_exact_value(answer: Callable[[Any], Fraction | None]) -> str:
    """Exact value of nested `(op, left, right)`, against arithmetic on pairs of whole numbers."""
    _exact(call(answer, 7), "7")
    _exact(call(answer, Node("+", 3, 4)), "3 + 4")
    if call(answer, Node("/", 7, 2)) == 3:
        raise Mistake("integer_division", "7 / 2 came out as 3: `//` throws the remainder away.")
    if call(answer, Node("-", 3, 8)) == 5 or call(answer, Node("/", 2, 4)) == 2:
        raise Mistake("swapped_operands", "3 - 8 or 2 / 4 came out as 8 - 3 or 4 / 2: which side stands first?")
    got = call(answer, EIGHT_THREES)
    if got != 24:
        if isinstance(got, float | Decimal):
            raise Mistake(
                "inexact",
                f"8 / (3 - 8/3) came out as {got}, so `== 24` says no. A `{type(got).__name__}` cannot hold "
                "8/3. Which kind of number can?",
            )
        raise Mistake(OTHER, f"8 / (3 - 8/3) came out as {got!r}, not as 24.")
    got = call(answer, NEAR_MISS)
    if got == 24 or isinstance(got, float | Decimal):
        raise Mistake(
            "rounded",
            "8 / (3 - 8/3) is right, but 24 + 1/10²⁰ came out as 24 as well. Rounding, or allowing for a "
            "small difference, accepts a formula that misses. Nothing may be rounded anywhere.",
        )
    _examine_zero(answer)
    rng = random.Random(0)
    for _ in range(300):
        expr = _random_expression(rng, 4)
        pair, got = exact_pair(expr), answer(expr)
        if (got is None) != (pair is None) or (pair is not None and got * pair[1] != pair[0]):
            wanted = "None" if pair is None else str(Fraction(*pair))
            raise Mistake(OTHER, f"`{_tuples(expr)}` came out as {got}, not as {wanted}.")
    return (
        "Your values agree with arithmetic on pairs of whole numbers for 300 random expressions. Floats with "
        "`==` would reject 58 of the 16,583 solutions of all hands, the only one of 3 3 8 8 among them."
    )


def _exact(got: Any, text: str) -> None:
    if isinstance(got, bool):
        raise Mistake("returns_bool", "Your function says whether; the value itself is asked for.")
    if not isinstance(got, int | Fraction | float | Decimal):
        raise Mistake(
            "wrong_type", f"{text} came out as a `{type(got).__name__}`; a number is asked for, or `None`."
        )


def _examine_zero(answer: Callable[[Any], Any]) -> None:
    division = Node("/", 1, Node("-", 2, 2))
    try:
        got = answer(division)
    except ZeroDivisionError:
        raise Mistake(
            "raises_on_zero",
            "1 / (2 - 2) stops with a `ZeroDivisionError`. A model will write that sooner or later, and the "
            "verifier must go on: such an expression has no value.",
        ) from None
    if got is not None:
        raise Mistake(
            "zero_division_has_value", f"1 / (2 - 2) came out as {got}. It has no value, which is `None` here."
        )
    for expr in (Node("+", 1, division), Node("*", division, 0)):
        try:
            got = answer(expr)
        except TypeError:
            got = "an error"
        if got is not None:
            raise Mistake(
                "none_not_passed_on",
                f"`{_tuples(expr)}` came out as {got}. A part of it divides by zero, so the whole has no "
                "value either.",
            )
    zero = Node("-", 5, 5)
    for expr, wanted in ((Node("+", zero, 24), 24), (Node("/", zero, 3), 0)):
        if answer(expr) is None:
            raise Mistake(
                "zero_taken_for_none",
                f"`{_tuples(expr)}` came out as None, but it is {wanted}. In an `if`, 0 counts as false just "
                "as None does.",
            )


def _tuples(expr: Any) -> str:
    return f"({expr.op!r}, {_tuples(expr.left)}, {_tuples(expr.right)})" if isinstance(expr, Node) else str(expr)


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
    "only_solved": "You look at solved responses only. Those were all read right, or they would not be solved; "
    "what a model reads in the hands it fails is the interesting part.",
    "per_card": "You count cards. A hand with three of four cards right is a misread hand.",
    "order_ignored": "You compare without order. `3 10 7 7` for the cards 10 3 7 7 gives each card another "
    "card's value; the response has to write the values in the order of the cards.",
    "wrong_rule": "You compare with the ranks of the cards. What a card counts depends on the rule.",
    "unread_left_out": "You leave out responses that wrote no values. A model that stops reading would then look "
    "as if it read well.",
    "by_outcome": "You count the outcome `misread_cards`. A response has one outcome only, and `illegal` or "
    "`no_answer` come before it: some of those were misread too.",
    "percent": "That is a percentage; a share lies between 0 and 1.",
    "misread_share": "That is the share of misread hands.",
}


def examine_reading_accuracy(answer: Callable[..., float]) -> str:
    """Share of responses whose values are read right, on readings that are right by construction."""
    verdicts = [Verdict(outcome, values) for _, values, outcome, _ in READINGS]
    hands = [hand for hand, *_ in READINGS]
    got = to_number(call(answer, verdicts, hands, FACES_AS_TEN), "a share")
    wanted = _share([row[3] for row in READINGS])
    if not close(got, wanted):
        for name, number in reading_mistakes().items():
            if close(got, number) or (name == "only_solved" and math.isnan(got)):
                raise Mistake(name, f"{READING_MESSAGES[name]} (You get {got:.4g} for our {len(READINGS)} responses.)")
        raise Mistake(OTHER, f"For {len(READINGS)} responses of which {wanted * len(READINGS):.0f} were read right you get {got:.4g}.")
    ranks = [Verdict(Outcome.WRONG_VALUE, tuple(hand)) for hand in hands]
    if not close(to_number(call(answer, ranks, hands, FACES_AS_RANK), "a share"), 1.0):
        raise Mistake(
            "rule_ignored", "Right where faces count 10; under the rule 11, 12, 13 it is wrong. Use `rule`."
        )
    return f"Right for {len(READINGS)} responses of every outcome, and under the other rule."


def _values(hand: Sequence[int], rule: Rule) -> tuple[int, ...]:
    faces = {11: rule.jack, 12: rule.queen, 13: rule.king}
    return tuple(sorted(faces.get(rank, rank) for rank in hand))


@lru_cache(maxsize=None)
def can_reach(values: tuple[int, ...], target: int = 24) -> bool:
    """Whether whole numbers from 0 to 99 lead from `values` to the target, by trying all pairs."""
    if len(values) == 1:
        return values[0] == target
    for i in range(len(values)):
        for j in range(len(values)):
            if i == j:
                continue
            a, b = values[i], values[j]
            rest = [v for k, v in enumerate(values) if k not in (i, j)]
            results = {a + b, a * b, a - b} | ({a // b} if b and a % b == 0 else set())
            if any(can_reach(tuple(sorted([*rest, r])), target) for r in results if 0 <= r <= 99):
                return True
    return False


@lru_cache(maxsize=2)
def labelled_hands(train_rule: Rule, test_rule: Rule, number: int = 160) -> dict[Hand, dict[str, bool]]:
    """Held-out hands, every second in another card order, each with all that decides about it."""
    rng = random.Random(1)
    shown = {_values(h, train_rule) for h in split_hands().train}
    shown_by_test_rule = {_values(h, test_rule) for h in split_hands().train}
    labelled = {}
    for index, hand in enumerate(split_hands().test[:number]):
        cards = tuple(rng.sample(hand, 4)) if index % 2 else hand
        labelled[cards] = {
            "face": max(hand) > 10,
            "solvable": can_reach(_values(hand, test_rule)),
            "solvable_in_training": can_reach(_values(hand, train_rule)),
            "seen": _values(hand, test_rule) in shown,
            "seen_by_test_rule": _values(hand, test_rule) in shown_by_test_rule,
            "seen_by_training_rule": _values(hand, train_rule) in shown,
            "in_order": cards == hand,
        }
    return labelled


def examine_ood_hands(answer: Callable[..., Any]) -> str:
    """A fair out-of-distribution set, against brute force over held-out hands in both rule directions."""
    require_function(answer)
    for train_rule, test_rule in ((FACES_AS_TEN, FACES_AS_RANK), (FACES_AS_RANK, FACES_AS_TEN)):
        labels = labelled_hands(train_rule, test_rule)
        got = _as_hands(call(answer, list(labels), train_rule, test_rule))
        if unknown := got - set(labels):
            raise Mistake(OTHER, f"You return {sorted(unknown)[0]}, which is not one of the hands given.")
        wanted = {h for h, k in labels.items() if k["face"] and k["solvable"] and not k["seen"]}
        if got != wanted:
            _diagnose_hands(answer, got, wanted, labels, f"train {train_rule.name}, test {test_rule.name}")
    return "The same hands as brute force finds among 160 held-out ones, in both rule directions."


def _as_hands(result: Any) -> set[Hand]:
    result = getattr(result, "hands", result)
    try:
        return {tuple(int(card) for card in hand) for hand in result}
    except TypeError:
        raise Mistake("wrong_type", "Return the hands as a list; each hand is a tuple of four ranks.") from None


def _diagnose_hands(
    answer: Callable[..., Any],
    got: set[Hand],
    wanted: set[Hand],
    labels: dict[Hand, dict[str, bool]],
    direction: str,
) -> None:
    extra, missing = got - wanted, wanted - got

    def fail(name: str, hands: set[Hand], text: str) -> None:
        raise Mistake(name, f"{text} (With {direction}, for example the hand {min(hands)}.)")

    faceless = {h for h in extra if not labels[h]["face"]}
    if faceless:
        fail("no_face_kept", faceless, "A hand without J, Q, K is the same puzzle under both rules: what does it test?")
    by_training_rule = {h for h in missing if not labels[h]["solvable_in_training"]}
    unsolvable = {h for h in extra if not labels[h]["solvable"]}
    if by_training_rule and all(labels[h]["solvable_in_training"] for h in unsolvable):
        fail(
            "solvable_by_training_rule",
            by_training_rule | unsolvable,
            "You ask whether the hand can be solved under the training rule. Under which rule is it played here?",
        )
    if unsolvable:
        fail("unsolvable_kept", unsolvable, "No one can solve this hand, so it says nothing about the model.")
    if missing and all(labels[h]["seen_by_test_rule"] for h in missing):
        fail(
            "training_valued_by_test_rule",
            missing,
            "This puzzle was never shown in training. What did training show: its hands, valued by which rule?",
        )
    if missing and all(labels[h]["seen_by_training_rule"] for h in missing):
        fail(
            "hand_valued_by_training_rule",
            missing,
            "Training showed what this hand comes to under the training rule, not what it comes to in the test.",
        )
    leaked = {h for h, k in labels.items() if k["face"] and k["solvable"] and k["seen"]}
    if extra and leaked - extra and all(labels[h]["in_order"] for h in leaked - extra):
        fail(
            "order_matters",
            extra,
            "The same four values in another order are the same puzzle; some of those you keep.",
        )
    if extra and not missing:
        _diagnose_leak(answer, extra, fail)
    odd = min(extra or missing)
    verb = "keep" if extra else "leave out"
    raise Mistake(OTHER, f"With {direction} you {verb} the hand {odd}: {_describe(labels[odd])}.")


def _diagnose_leak(answer: Callable[..., Any], seen: set[Hand], fail: Callable[..., None]) -> None:
    # Training hands whose values training never showed: only who compares hands drops them.
    training = [h for h in split_hands().train if max(h) > 10 and can_reach(_values(h, FACES_AS_RANK))][:10]
    if not _as_hands(answer(training, FACES_AS_TEN, FACES_AS_RANK)):
        fail(
            "compares_hands",
            seen,
            "You compare cards. J 2 3 4 is not among the training hands, but where J counts 10 it is the same "
            "puzzle as 10 2 3 4, which may be. What makes two hands the same puzzle?",
        )
    fail(
        "leak",
        seen,
        "Training has shown this very puzzle, with other cards: a model could know it by heart. (Where training "
        "counts faces as 10 it cannot happen, since the values 11 to 13 never occur there; the other way it can.)",
    )


def _describe(labels: dict[str, bool]) -> str:
    face = "has a face card" if labels["face"] else "no face card"
    solvable = "can be solved under the test rule" if labels["solvable"] else "cannot be solved under the test rule"
    return f"{face}, {solvable}, its values were {'shown' if labels['seen'] else 'not shown'} in training"
