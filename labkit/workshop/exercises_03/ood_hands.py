"""A fair out-of-distribution test; the oracle tries everything by brute force."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any

from labkit.envs.points24.data import Hand, out_of_distribution, split_hands
from labkit.envs.points24.rules import FACES_AS_RANK, FACES_AS_TEN, Rule
from labkit.workshop.checking import call, require_function
from labkit.workshop.exercises import OTHER, Exercise, Mistake

NUMBER = 100
"""Held-out hands that an answer is tried on."""


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
def labelled_hands(train_rule: Rule, test_rule: Rule, number: int = NUMBER) -> dict[Hand, dict[str, bool]]:
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


def examine(answer: Callable[..., Any]) -> str:
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
    return f"The same hands as brute force finds among {NUMBER} held-out ones, in both rule directions."


def _as_hands(result: Any) -> set[Hand]:
    result = getattr(result, "hands", result)
    try:
        return {tuple(int(card) for card in hand) for hand in result}
    except (TypeError, ValueError):
        raise Mistake(
            "wrong_type", "Return the hands as a list; each hand is a tuple of four ranks."
        ) from None


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
        fail(
            "no_face_kept",
            faceless,
            "A hand without J, Q, K is the same puzzle under both rules: what does it test?",
        )
    unsolvable = {h for h in extra if not labels[h]["solvable"]}
    by_training_rule = {h for h, k in labels.items() if k["face"] and k["solvable_in_training"]}
    if {h for h in got ^ by_training_rule if not labels[h]["seen"]} == set():
        fail(
            "solvable_by_training_rule",
            missing | unsolvable,
            "You ask whether the hand can be solved under the training rule. Under which rule is it played "
            "here?",
        )
    if unsolvable:
        fail("unsolvable_kept", unsolvable, "No one can solve this hand, so it says nothing about the model.")
    if missing and all(labels[h]["seen_by_test_rule"] for h in missing):
        fail(
            "training_valued_by_test_rule",
            missing,
            "This puzzle was never shown in training. What did training show: its hands, valued by which "
            "rule?",
        )
    if missing and all(labels[h]["seen_by_training_rule"] for h in missing):
        fail(
            "hand_valued_by_training_rule",
            missing,
            "Training showed what this hand comes to under the training rule, not what it comes to in the "
            "test.",
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
            "You compare cards. J 2 3 4 is not among the training hands, but where J counts 10 it is the "
            "same puzzle as 10 2 3 4, which may be. What makes two hands the same puzzle?",
        )
    fail(
        "leak",
        seen,
        "Training has shown this very puzzle, with other cards: a model could know it by heart. (Where "
        "training counts faces as 10 it cannot happen, since the values 11 to 13 never occur there; the "
        "other way it can.)",
    )


def _describe(labels: dict[str, bool]) -> str:
    face = "has a face card" if labels["face"] else "no face card"
    solvable = (
        "can be solved under the test rule" if labels["solvable"] else "cannot be solved under the test rule"
    )
    return f"{face}, {solvable}, its values were {'shown' if labels['seen'] else 'not shown'} in training"


EXERCISE = Exercise(
    id="03.ood_hands",
    title="A fair out-of-distribution test",
    difficulty=3,
    importance=4,
    minutes=12,
    task="""\
Which held-out hands test whether a model follows a *new* rule? Those that

1. have a face card (else the two rules agree),
2. can be solved under the rule of the test,
3. are no puzzle that training has shown: two hands are the same puzzle if their values are the same, in
   any order. A training hand showed its values under the *training* rule.

Write `my_ood_hands(hands, train_rule, test_rule)`, which returns those of `hands`. The training hands are
`split_hands().train`. From labkit you may use `has_face(hand)`, `writable(hands, rule)` (those hands that
can be solved) and `rule.values(hand)`; cards may come in any order. The check tries both directions,
faces = 10 in training and 11, 12, 13 in the test, and the other way round.""",
    stub='''\
from labkit.envs.points24.data import split_hands, writable
from labkit.envs.points24.rules import has_face


def my_ood_hands(hands, train_rule, test_rule):
    """Held-out hands that are a fair test under test_rule after training under train_rule."""
    raise NotImplementedError
''',
    hints=(
        "Three conditions, three steps. For the third: what would you write on a card so that two hands "
        "that are the same puzzle get the same text?",
        "Values in a fixed order identify a puzzle: `tuple(sorted(rule.values(hand)))`. For a training "
        "hand, which rule? For a test hand, which?",
        "Make a `set` of the puzzles that training showed first; asking whether something is in a set is "
        "fast.",
        """\
Fill in the blanks:

```python
def my_ood_hands(hands, train_rule, test_rule):
    shown = {tuple(sorted(____.values(h))) for h in split_hands().train}
    playable = writable([h for h in hands if has_face(h)], ____)
    return [h for h in playable if tuple(sorted(____.values(h))) not in shown]
```""",
    ),
    solution=out_of_distribution,
    examine=examine,
    why=(
        "Trained with faces as 10 and tested with 11, 12, 13, no hand is ever lost to condition 3. Why? And "
        "why are so many the other way round?",
        "A test hand has a face card, so it holds a value from 11 to 13, which never occurs in training "
        "where every face counts 10: all puzzles are new. The other way round a face becomes a 10, and "
        "hands with a real 10 were in training: the value is familiar, and often the whole puzzle. That is "
        "one reason to expect less of a collapse in that direction.",
    ),
)
