"""The verifier's arithmetic; the oracle computes with pairs of whole numbers."""

from __future__ import annotations

import random
from collections.abc import Callable
from decimal import Decimal
from fractions import Fraction
from typing import Any

from labkit.envs.points24.solver import Node, evaluate
from labkit.workshop.checking import call
from labkit.workshop.exercises import OTHER, Exercise, Mistake

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


def examine(answer: Callable[[Any], Fraction | None]) -> str:
    """Exact value of nested `(op, left, right)`, against arithmetic on pairs of whole numbers."""
    _exact(call(answer, 7), "7")
    _exact(call(answer, Node("+", 3, 4)), "3 + 4")
    if call(answer, Node("/", 7, 2)) == 3:
        raise Mistake("integer_division", "7 / 2 came out as 3: `//` throws the remainder away.")
    if call(answer, Node("-", 3, 8)) == 5 or call(answer, Node("/", 2, 4)) == 2:
        raise Mistake(
            "swapped_operands", "3 - 8 or 2 / 4 came out as 8 - 3 or 4 / 2: which side stands first?"
        )
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
            "zero_division_has_value",
            f"1 / (2 - 2) came out as {got}. It has no value, which is `None` here.",
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
    return (
        f"({expr.op!r}, {_tuples(expr.left)}, {_tuples(expr.right)})" if isinstance(expr, Node) else str(expr)
    )


EXERCISE = Exercise(
    id="03.exact_value",
    title="A verifier that is never wrong",
    difficulty=2,
    importance=4,
    minutes=8,
    task="""\
The reward comes from a verifier, so the verifier must not err: is `8 / (3 - 8/3)` really 24?

An expression is a whole number, or a triple `(op, left, right)` whose `op` is one of `+ - * /` and whose
sides are expressions again: `("/", 8, ("-", 3, ("/", 8, 3)))`. Write `my_exact_value(expr)`. It returns the
exact value (an `int` or a `fractions.Fraction`), and `None` if the expression divides by zero anywhere in
it.

The same function has to judge `24 + 1/10²⁰`, which is not 24. (labkit calls such a triple a `Node`; it is a
named tuple, so `op, left, right = expr` works.)""",
    stub='''\
from fractions import Fraction


def my_exact_value(expr):
    """Exact value of a whole number or of (op, left, right); None if it divides by zero anywhere."""
    raise NotImplementedError
''',
    hints=(
        "An expression contains expressions. What is the value of a plain number? And of a triple, if "
        "somebody gives you the values of both its sides?",
        "`8 / 3` in Python is a float and already rounded. `Fraction(8) / 3` is exact; so is everything "
        "computed from fractions with `+ - * /`.",
        "Two cases have no value: a side that has none (`left is None`), and a division by zero "
        '(`op == "/" and right == 0`). Write `is None`: the value 0 is false in an `if` too.',
        """\
Fill in the blanks:

```python
def my_exact_value(expr):
    if isinstance(expr, int):
        return Fraction(expr)
    op, left, right = expr[0], my_exact_value(expr[1]), my_exact_value(expr[2])
    if ____ or (op == "/" and right == 0):
        return None
    if op == "+":
        return left + right
    if op == "-":
        return left - right
    return left * right if op == "*" else ____
```""",
    ),
    solution=evaluate,
    examine=examine,
    why=(
        "Would it be enough to accept every value within 0.000001 of 24?",
        "For four cards from 1 to 13, yes, by luck: no hand has a value that misses 24 by less than 1/13. "
        "Nothing in the code says so, and with other numbers, more cards or another target it may not hold. "
        "A policy trained on a verifier finds what the verifier gets wrong, because that is paid like a "
        "right answer. Exact arithmetic costs nothing and needs no such luck.",
    ),
)
