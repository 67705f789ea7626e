"""Hands, splits and training sequences of the 24-point game."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache

from labkit.envs.points24 import compact
from labkit.envs.points24.grading import Outcome
from labkit.envs.points24.rules import FACES_AS_RANK, FACES_AS_TEN, Rule, has_face
from labkit.envs.points24.solver import TARGET, all_hands

Hand = tuple[int, ...]
RuleSampler = Callable[[random.Random], Rule]
SPLIT_SHARES = {"train": 0.50, "validation": 0.15, "test": 0.35}


@dataclass(frozen=True)
class Splits:
    """All 1,820 hands, cut once; a hand is in exactly one part, whatever the rule or card order."""

    train: tuple[Hand, ...]
    validation: tuple[Hand, ...]
    test: tuple[Hand, ...]


@lru_cache(maxsize=1)
def split_hands() -> Splits:
    """The workbook's one split of the hands (sorted multisets of ranks 1 to 13), 50/15/35 %.

    Always the same: a study that compares arms over seeds must not compare different test sets.
    """
    hands = all_hands()
    random.Random(24).shuffle(hands)
    first = round(len(hands) * SPLIT_SHARES["train"])
    second = first + round(len(hands) * SPLIT_SHARES["validation"])
    return Splits(tuple(hands[:first]), tuple(hands[first:second]), tuple(hands[second:]))


def multiset(hand: Sequence[int], rule: Rule) -> tuple[int, ...]:
    """The values of a hand, sorted: two hands with one multiset are the same puzzle."""
    return tuple(sorted(rule.values(hand)))


def writable(hands: Sequence[Hand], rule: Rule) -> list[Hand]:
    """The hands with a solution that the compact form can write under `rule`."""
    return [h for h in hands if compact.expressible_solutions(multiset(h, rule))]


@dataclass(frozen=True)
class OutOfDistribution:
    """Held-out hands under the rule one did not train on."""

    hands: tuple[Hand, ...]
    """The headline set: has a face card, and no training hand has its value multiset."""
    seen_multisets: tuple[Hand, ...]
    """Left out of the headline: some training hand under the training rule is the same puzzle."""


def out_of_distribution(hands: Sequence[Hand], train_rule: Rule, test_rule: Rule) -> OutOfDistribution:
    """Split solvable held-out `hands` with a face card by whether training showed their multiset."""
    shown = {multiset(h, train_rule) for h in split_hands().train}
    fresh, seen = [], []
    for hand in writable([h for h in hands if has_face(h)], test_rule):
        (seen if multiset(hand, test_rule) in shown else fresh).append(hand)
    return OutOfDistribution(tuple(fresh), tuple(seen))


@dataclass(frozen=True)
class Example:
    """One training sequence; `keep` marks the tokens that are trained on."""

    tokens: tuple[str, ...]
    keep: tuple[bool, ...]

    @classmethod
    def of(cls, *segments: tuple[Sequence[str], bool]) -> Example:
        """Join `(tokens, keep)` segments."""
        tokens = tuple(t for part, _ in segments for t in part)
        return cls(tokens, tuple(k for part, k in segments for _ in part))


def shuffled(hand: Sequence[int], rng: random.Random) -> Hand:
    """The hand with its cards in random order."""
    return tuple(rng.sample(list(hand), len(hand)))


def demonstration(hand: Hand, rule: Rule, rng: random.Random) -> Example:
    """A solved hand as supervised fine-tuning sees it: cards and solution in random order.

    Raises ValueError for a hand the compact form cannot solve.
    """
    cards = shuffled(hand, rng)
    solutions = compact.expressible_solutions(multiset(hand, rule))
    if not solutions:
        raise ValueError(f"hand {hand} has no solution in the compact form under {rule.name}")
    steps = compact.expression_steps(rng.choice(solutions), rng)
    return Example.of(
        (compact.prompt_tokens(cards, rule), False),
        (compact.response_tokens(rule.values(cards), steps), True),
    )


def random_rule(rng: random.Random) -> Rule:
    """Face cards that count anything from 1 to 13."""
    return Rule(*(rng.randint(1, 13) for _ in range(3)))


def two_rules(rng: random.Random) -> Rule:
    """One of the two named rules, each half of the time."""
    return rng.choice((FACES_AS_TEN, FACES_AS_RANK))


def many_rules(rng: random.Random) -> Rule:
    """Each of the two named rules a third of the time, else a random one."""
    return rng.choice((FACES_AS_TEN, FACES_AS_RANK, random_rule(rng)))


def base_example(rng: random.Random, draw_rule: RuleSampler, failed_attempts: int = 0) -> Example:
    """What a base model is trained on: reach whatever value three random steps reach.

    Never aimed at 24, and a held-out hand is never shown reaching it. With `failed_attempts`, that
    many wrong attempts (not trained on) and the verifier's feedback stand before the right one.
    """
    held_out = _held_out()
    rule = draw_rule(rng)
    while True:
        hand = tuple(rng.randint(1, 13) for _ in range(4))
        steps = compact.random_reduction(rule.values(hand), rng)
        target = steps[-1][-1]
        if target != TARGET or tuple(sorted(hand)) not in held_out:
            break
    segments = [(compact.prompt_tokens(hand, rule, target), False)]
    while len(segments) <= failed_attempts:
        attempt = _failed_attempt(hand, rule, target, rng)
        outcome = compact.grade(attempt, hand, rule, target).outcome
        if outcome is not Outcome.CORRECT:
            segments.append((attempt + compact.feedback_tokens(outcome), False))
    segments.append((compact.response_tokens(rule.values(hand), steps), True))
    return Example.of(*segments)


@lru_cache(maxsize=1)
def _held_out() -> frozenset[Hand]:
    return frozenset(split_hands().validation + split_hands().test)


def _failed_attempt(hand: Hand, rule: Rule, target: int, rng: random.Random) -> list[str]:
    """An attempt at another value; one in four has a token replaced, so that every outcome occurs."""
    attempt = compact.response_tokens(rule.values(hand), compact.random_reduction(rule.values(hand), rng))
    if rng.random() < 0.25:
        attempt[rng.randrange(len(attempt))] = rng.choice(compact.NUMBER_TOKENS)
    return attempt


def count_shared_multisets(train_rule: Rule, test_rule: Rule) -> dict[str, int]:
    """How many solvable held-out hands with a face card training does and does not show as a puzzle."""
    report = out_of_distribution(split_hands().test, train_rule, test_rule)
    return {"fresh": len(report.hands), "seen": len(report.seen_multisets)}


def outcome_shares(outcomes: Sequence[Outcome]) -> dict[str, float]:
    """Share of each outcome, zeros included."""
    counts = Counter(outcomes)
    return {o.value: counts[o] / max(len(outcomes), 1) for o in Outcome}
