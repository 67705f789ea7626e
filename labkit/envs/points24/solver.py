"""Exact solver for the 24-point game: every value once, `+ - * /`, reach the target.

Everything is rational (`fractions.Fraction`): 8/(3-8/3) is exactly 24, and floats say otherwise.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from fractions import Fraction
from functools import lru_cache
from itertools import combinations, combinations_with_replacement
from typing import NamedTuple

OPERATORS = ("+", "-", "*", "/")
TARGET = 24


class Node(NamedTuple):
    """An inner node of an expression tree; a leaf is a plain `int`."""

    op: str
    left: Expr
    right: Expr


Expr = Node | int


def apply(op: str, left: Fraction, right: Fraction) -> Fraction | None:
    """`left op right`, or None for a division by zero."""
    if op == "+":
        return left + right
    if op == "-":
        return left - right
    if op == "*":
        return left * right
    if op == "/":
        return left / right if right else None
    raise ValueError(f"operator {op!r} is not one of {' '.join(OPERATORS)}")


def evaluate(expr: Expr) -> Fraction | None:
    """Exact value of an expression tree; None if it divides by zero anywhere."""
    if not isinstance(expr, Node):
        return Fraction(expr)
    left, right = evaluate(expr.left), evaluate(expr.right)
    if left is None or right is None:
        return None
    return apply(expr.op, left, right)


def to_infix(expr: Expr) -> str:
    """Fully bracketed infix text without outer brackets, e.g. `8/(3-(8/3))`."""
    if not isinstance(expr, Node):
        return str(expr)
    sides = [f"({to_infix(e)})" if isinstance(e, Node) else str(e) for e in (expr.left, expr.right)]
    return f"{sides[0]}{expr.op}{sides[1]}"


def leaves(expr: Expr) -> list[int]:
    """The numbers an expression uses, left to right."""
    return leaves(expr.left) + leaves(expr.right) if isinstance(expr, Node) else [expr]


def _splits(values: tuple[int, ...]) -> Iterator[tuple[tuple[int, ...], tuple[int, ...]]]:
    """Every way to cut a multiset into two non-empty parts, each unordered pair once."""
    seen = set()
    indices = range(len(values))
    for size in range(1, len(values) // 2 + 1):
        for chosen in combinations(indices, size):
            one = tuple(values[i] for i in chosen)
            other = tuple(values[i] for i in indices if i not in chosen)
            if (one, other) not in seen:
                seen |= {(one, other), (other, one)}
                yield one, other


@lru_cache(maxsize=None)
def reachable(values: tuple[int, ...]) -> frozenset[Fraction]:
    """Every value a sorted multiset can be combined to (each number once)."""
    if len(values) == 1:
        return frozenset({Fraction(values[0])})
    found = set()
    for one, other in _splits(values):
        for x in reachable(one):
            for y in reachable(other):
                found |= {x + y, x * y, x - y, y - x}
                if y:
                    found.add(x / y)
                if x:
                    found.add(y / x)
    return frozenset(found)


def _partners(x: Fraction, target: Fraction) -> Iterator[tuple[str, bool, Fraction]]:
    """Values y with `x op y == target` (True) or `y op x == target` (False), for target != 0.

    Target 0 is left out because there 0*y and 0/y hold for every y.
    """
    yield "+", True, target - x
    yield "-", True, x - target
    yield "-", False, target + x
    if x:
        yield "*", True, target / x
        yield "/", False, target * x
        yield "/", True, x / target


def is_solvable(values: Sequence[int], target: int = TARGET) -> bool:
    """Whether some expression over `values` reaches `target`.

    The fast path for whole sets: only parts of three or fewer are enumerated (455 triples for all
    1,820 hands); the last operation is inverted and looked up.
    """
    hand, goal = tuple(sorted(values)), Fraction(target)
    if goal == 0 or len(hand) < 2:
        return goal in reachable(hand)
    return any(
        y in reachable(other)
        for one, other in _splits(hand)
        for x in reachable(one)
        for _, _, y in _partners(x, goal)
    )


def _canonical(op: str, left: Expr, right: Expr) -> Node:
    """One spelling for `a+b` and `b+a`, `a*b` and `b*a`."""
    if op in "+*" and to_infix(right) < to_infix(left):
        left, right = right, left
    return Node(op, left, right)


@lru_cache(maxsize=None)
def _expressions(values: tuple[int, ...]) -> dict[Fraction, frozenset[Expr]]:
    """Value -> canonical expressions, for up to three values (longer ones go through `solutions`)."""
    if len(values) == 1:
        return {Fraction(values[0]): frozenset({values[0]})}
    table: dict[Fraction, set[Expr]] = {}
    for one, other in _splits(values):
        for x, left in _expressions(one).items():
            for y, right in _expressions(other).items():
                for op in OPERATORS:
                    for a, b, first, second in ((x, y, left, right), (y, x, right, left)):
                        value = apply(op, a, b)
                        if value is not None:
                            table.setdefault(value, set()).update(
                                _canonical(op, e, f) for e in first for f in second
                            )
    return {value: frozenset(exprs) for value, exprs in table.items()}


def solutions(values: Sequence[int], target: int = TARGET) -> list[Expr]:
    """Every expression that reaches `target`, one for each class up to commutation, sorted by text.

    `a+b` and `b+a` are one solution; `(a+b)+c` and `a+(b+c)` are two.
    """
    hand, goal = tuple(sorted(values)), Fraction(target)
    if goal == 0 or len(hand) < 2:
        return sorted(_expressions(hand).get(goal, ()), key=to_infix)
    found = set()
    for one, other in _splits(hand):
        for x, exprs in _expressions(one).items():
            for op, x_first, y in _partners(x, goal):
                for f in _expressions(other).get(y, ()):
                    found.update(_canonical(op, e, f) if x_first else _canonical(op, f, e) for e in exprs)
    return sorted(found, key=to_infix)


def all_hands(size: int = 4, highest: int = 13) -> list[tuple[int, ...]]:
    """Every hand as a sorted multiset of ranks 1..highest (1,820 for four cards of thirteen ranks)."""
    return list(combinations_with_replacement(range(1, highest + 1), size))
