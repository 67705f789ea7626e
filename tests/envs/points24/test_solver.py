"""The solver against a brute force of another make: every order, operator triple and bracketing."""

import random
import re
from fractions import Fraction
from functools import lru_cache
from itertools import permutations, product

import numpy as np
import pytest

from labkit.envs.points24.solver import (
    Node,
    all_hands,
    apply,
    evaluate,
    is_solvable,
    leaves,
    reachable,
    solutions,
    to_infix,
)

TARGETS = (24, 0, 1, 7, 36, 100)


def _combine(op, left, right):
    """Exact fractions as integer arrays (numerator, denominator); denominator 0 is a division by zero."""
    (a, b), (c, d) = left, right
    if op == "+":
        return a * d + c * b, b * d
    if op == "-":
        return a * d - c * b, b * d
    if op == "*":
        return a * c, b * d
    return a * d, b * c * (d != 0)


BRACKETINGS = (
    lambda f, g, h, a, b, c, d: _combine(h, _combine(g, _combine(f, a, b), c), d),
    lambda f, g, h, a, b, c, d: _combine(h, _combine(f, a, _combine(g, b, c)), d),
    lambda f, g, h, a, b, c, d: _combine(g, _combine(f, a, b), _combine(h, c, d)),
    lambda f, g, h, a, b, c, d: _combine(f, a, _combine(h, _combine(g, b, c), d)),
    lambda f, g, h, a, b, c, d: _combine(f, a, _combine(g, b, _combine(h, c, d))),
)


@lru_cache(maxsize=1)
def brute_force():
    """For each target the hands that reach it, all 1,820 at once."""
    hands = all_hands()
    columns = np.array(hands, dtype=np.int64).T
    ones = np.ones(len(hands), dtype=np.int64)
    reached = {target: np.zeros(len(hands), dtype=bool) for target in TARGETS}
    for order in permutations(range(4)):
        operands = [(columns[i], ones) for i in order]
        for ops, bracketing in product(product("+-*/", repeat=3), BRACKETINGS):
            numerator, denominator = bracketing(*ops, *operands)
            for target in TARGETS:
                reached[target] |= (numerator == target * denominator) & (denominator != 0)
    return {t: {h for h, yes in zip(hands, found, strict=True) if yes} for t, found in reached.items()}


def exact(text):
    """Value of an infix text by Python's own parser, over fractions."""
    return eval(re.sub(r"(\d+)", r"Fraction(\1)", text), {"Fraction": Fraction})


def commutation_class(expr):
    """The same for `a+b` and `b+a`, for `a*b` and `b*a`; different for everything else."""
    if not isinstance(expr, Node):
        return str(expr)
    sides = [commutation_class(expr.left), commutation_class(expr.right)]
    return (expr.op, *(sorted(sides, key=repr) if expr.op in "+*" else sides))


def every_expression(numbers):
    """All trees over the numbers in this order."""
    if len(numbers) == 1:
        yield numbers[0]
    for cut in range(1, len(numbers)):
        for left, right in product(every_expression(numbers[:cut]), every_expression(numbers[cut:])):
            for op in "+-*/":
                yield Node(op, left, right)


def test_1362_hands_are_solvable_and_none_of_the_other_458():
    # Pitfall 21.
    hands = all_hands()
    solvable = {hand for hand in hands if is_solvable(hand)}
    assert len(hands) == len(set(hands)) == 1820
    assert len(solvable) == 1362
    assert solvable == brute_force()[24]


@pytest.mark.parametrize("target", TARGETS)
def test_solvable_hands_for_other_targets(target):
    # Target 0 has no fast path: a part of the hands must do.
    hands = random.Random(target).sample(all_hands(), 1820 if target else 120)
    assert {h for h in hands if is_solvable(h, target)} == brute_force()[target] & set(hands)


@pytest.mark.parametrize("target", TARGETS)
def test_solutions_exist_exactly_where_a_hand_is_solvable(target):
    for hand in random.Random(target).sample(all_hands(), 80 if target else 15):
        found = solutions(hand, target)
        assert bool(found) == is_solvable(hand, target) == (Fraction(target) in reachable(hand))
        assert all(evaluate(expr) == target for expr in found)


def test_8_over_3_minus_8_over_3_is_24_and_floats_do_not_know_it():
    # Pitfall 21.
    (only,) = solutions((3, 3, 8, 8))
    assert to_infix(only) == "8/(3-(8/3))"
    assert evaluate(only) == 24
    assert 8 / (3 - 8 / 3) != 24


@pytest.mark.parametrize(
    ("hand", "infix"),
    [
        ((1, 5, 5, 5), "5*(5-(1/5))"),
        ((1, 3, 4, 6), "6/(1-(3/4))"),
        ((1, 4, 5, 6), "4/(1-(5/6))"),
        ((3, 3, 7, 7), "7*(3+(3/7))"),
        ((4, 4, 7, 7), "7*(4-(4/7))"),
        ((2, 5, 5, 10), "5*(5-(2/10))"),
        ((2, 7, 7, 10), "7*((10/7)+2)"),
    ],
)
def test_hands_that_need_a_fraction_on_the_way(hand, infix):
    assert exact(infix) == 24
    classes = {commutation_class(expr) for expr in solutions(hand)}
    texts = {to_infix(expr) for expr in solutions(hand)}
    assert any(exact(text) == 24 for text in texts)
    tree = next(t for p in set(permutations(hand)) for t in every_expression(p) if to_infix(t) == infix)
    assert commutation_class(tree) in classes


def test_every_solution_of_every_hand_reaches_24_with_its_own_numbers_and_is_listed_once():
    number = 0
    for hand in all_hands():
        found = solutions(hand)
        number += len(found)
        for expr in found:
            assert evaluate(expr) == 24
            assert sorted(leaves(expr)) == list(hand)
        assert len({commutation_class(expr) for expr in found}) == len(found)
        assert found == sorted(found, key=to_infix)
    assert number == 16583


@pytest.mark.parametrize("hand", [(1, 2, 3, 4), (3, 3, 8, 8), (4, 4, 4, 4), (2, 2, 10, 11), (1, 1, 1, 1)])
@pytest.mark.parametrize("target", [24, 0, 2])
def test_no_solution_is_missing_up_to_commutation(hand, target):
    brute = {
        commutation_class(tree)
        for order in set(permutations(hand))
        for tree in every_expression(order)
        if evaluate(tree) == target
    }
    assert {commutation_class(expr) for expr in solutions(hand, target)} == brute


def test_infix_text_says_the_same_as_the_tree():
    for hand in random.Random(0).sample(all_hands(), 100):
        for expr in solutions(hand):
            assert exact(to_infix(expr)) == evaluate(expr) == 24


def test_order_of_the_cards_does_not_matter():
    assert solutions((8, 3, 8, 3)) == solutions((3, 3, 8, 8))
    assert is_solvable((8, 3, 8, 3))


@pytest.mark.parametrize(("hand", "target"), [((24,), 24), ((4, 6), 24), ((5, 5), 0), ((2, 3, 4), 24)])
def test_hands_of_other_sizes(hand, target):
    assert is_solvable(hand, target) and solutions(hand, target)
    assert not is_solvable(hand, 1000) and not solutions(hand, 1000)


def test_division_by_zero_has_no_value_anywhere_in_a_tree():
    zero = Node("-", 3, 3)
    assert apply("/", Fraction(1), Fraction(0)) is None
    assert evaluate(Node("/", 5, zero)) is None
    assert evaluate(Node("+", 1, Node("/", 5, zero))) is None
    assert evaluate(Node("/", zero, 5)) == 0


def test_an_unknown_operator_is_named_with_what_is_accepted():
    with pytest.raises(ValueError, match=r"'\^' is not one of \+ - \* /"):
        apply("^", Fraction(2), Fraction(3))
