"""The compact token form, for models too small to write English.

    prompt    <bos> 10 10 10 24 [K] [3] [8] [2] =>
    response  10 3 8 2 ; 10 - 8 = 2 : 3 2 2 ; 3 * 2 = 6 : 2 6 ; ...

The prompt names the rule (what J, Q, K count), the target and the cards. The response first reads
the cards (four values), then makes three steps `a op b = r : what is left`. Every token is one
word, so text and ids correspond one to one. Numbers are integers from 0 to 99; a hand that needs a
fraction or a larger number on the way cannot be written (28 of the 1,362 solvable hands).
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from fractions import Fraction
from functools import lru_cache

from labkit.envs.points24.grading import Outcome, Verdict
from labkit.envs.points24.rules import RANKS, Rule
from labkit.envs.points24.solver import OPERATORS, TARGET, Expr, Node, apply, evaluate, solutions

HIGHEST = 99
PAD, BOS, EOS, CUE = "<pad>", "<bos>", "<eos>", "=>"
CARD_TOKENS = tuple(f"[{rank}]" for rank in RANKS)
FEEDBACK_TOKENS = tuple(f"<{o.value}>" for o in Outcome if o is not Outcome.CORRECT)
NUMBER_TOKENS = tuple(str(n) for n in range(HIGHEST + 1))
VOCABULARY = (
    (PAD, BOS, EOS, CUE) + (*OPERATORS, "=", ":", ";") + CARD_TOKENS + FEEDBACK_TOKENS + NUMBER_TOKENS
)
PROMPT_LENGTH = 10
RESPONSE_LENGTH = 30
"""Tokens of a complete response, end-of-sequence included."""

_NUMBER = {token: n for n, token in enumerate(NUMBER_TOKENS)}


def prompt_tokens(hand: Sequence[int], rule: Rule, target: int = TARGET) -> list[str]:
    """The prompt: rule, target, cards. `hand` holds four ranks from 1 to 13."""
    if len(hand) != 4:
        raise ValueError(f"a hand has four cards, {list(hand)!r} has {len(hand)}")
    if not 0 <= target <= HIGHEST:
        raise ValueError(f"target {target!r} is not an integer from 0 to {HIGHEST}")
    cards = [CARD_TOKENS[rank - 1] for rank in hand]
    return [BOS, *map(str, rule.faces), str(target), *cards, CUE]


def feedback_tokens(outcome: Outcome) -> list[str]:
    """What the verifier says before the next attempt."""
    return [f"<{outcome.value}>", CUE]


Step = tuple[int, str, int, int]
"""`(a, op, b, result)`."""


def response_tokens(values: Sequence[int], steps: Sequence[Step]) -> list[str]:
    """The response that reads `values` and then makes `steps`, end-of-sequence included."""
    tokens, left = list(map(str, values)), list(values)
    for number, (a, op, b, result) in enumerate(steps):
        left.remove(a)
        left.remove(b)
        left.append(result)
        tokens += [";", str(a), op, str(b), "=", str(result)]
        if number < len(steps) - 1:
            tokens += [":", *map(str, left)]
    return [*tokens, EOS]


def is_expressible(expr: Expr) -> bool:
    """Whether every number on the way is an integer from 0 to 99."""
    if not isinstance(expr, Node):
        return 0 <= expr <= HIGHEST
    value = evaluate(expr)
    return (
        value is not None
        and value.denominator == 1
        and 0 <= value <= HIGHEST
        and is_expressible(expr.left)
        and is_expressible(expr.right)
    )


@lru_cache(maxsize=None)
def expressible_solutions(values: tuple[int, ...], target: int = TARGET) -> tuple[Expr, ...]:
    """The solutions of a sorted multiset of values that the compact form can write."""
    return tuple(e for e in solutions(values, target) if is_expressible(e))


def expression_steps(expr: Expr, rng: random.Random | None = None) -> list[Step]:
    """Three steps that compute an expression.

    With `rng`, the operands of + and * and the order of independent steps are drawn at random.
    """
    steps: list[Step] = []

    def visit(node: Expr) -> int:
        if not isinstance(node, Node):
            return node
        right_first = rng is not None and rng.random() < 0.5
        if right_first:
            b = visit(node.right)
            a = visit(node.left)
        else:
            a = visit(node.left)
            b = visit(node.right)
        if rng is not None and node.op in "+*" and rng.random() < 0.5:
            a, b = b, a
        result = int(apply(node.op, Fraction(a), Fraction(b)))
        steps.append((a, node.op, b, result))
        return result

    visit(expr)
    return steps


def random_reduction(values: Sequence[int], rng: random.Random) -> list[Step]:
    """Three random legal steps from `values` to whatever they reach."""
    left, steps = list(values), []
    while len(left) > 1:
        a = left.pop(rng.randrange(len(left)))
        b = left.pop(rng.randrange(len(left)))
        if a < b and a + b > HIGHEST:  # then only b - a and b / a stay within the numbers
            a, b = b, a
        legal = list(_legal_results(a, b))
        op, result = legal[rng.randrange(len(legal))]
        steps.append((a, op, b, result))
        left.append(result)
    return steps


def _legal_results(a: int, b: int) -> Iterator[tuple[str, int]]:
    """Operations on a, b whose result is an integer from 0 to 99."""
    if a + b <= HIGHEST:
        yield "+", a + b
    if a >= b:
        yield "-", a - b
    if a * b <= HIGHEST:
        yield "*", a * b
    if b and a % b == 0:
        yield "/", a // b


def grade(tokens: Sequence[str], hand: Sequence[int], rule: Rule, target: int = TARGET) -> Verdict:
    """Grade a response (the completion alone, never the prompt) given as tokens.

    Reads up to the first end-of-sequence token. Nothing is evaluated as code.
    """
    tokens = list(tokens)
    if EOS not in tokens:
        return Verdict(Outcome.NO_ANSWER, _read_values(tokens))
    tokens = tokens[: tokens.index(EOS)]
    values = _read_values(tokens)
    if ";" not in tokens:  # no step, hence no formula
        return Verdict(Outcome.NO_ANSWER, values)
    steps = _parse_steps(tokens[4:]) if values is not None else None
    if steps is None:
        return Verdict(Outcome.ILLEGAL, values)
    if any(apply(op, Fraction(a), Fraction(b)) != r for a, op, b, r, _ in steps):
        return Verdict(Outcome.ILLEGAL, values)
    if values != rule.values(hand):
        return Verdict(Outcome.MISREAD_CARDS, values)
    left = list(values)
    for a, _, b, result, rest in steps:
        for operand in (a, b):
            if operand not in left:
                return Verdict(Outcome.WRONG_NUMBERS, values)
            left.remove(operand)
        left.append(result)
        if rest is not None and sorted(rest) != sorted(left):
            return Verdict(Outcome.WRONG_NUMBERS, values)
    final = Fraction(left[0])
    return Verdict(Outcome.CORRECT if final == target else Outcome.WRONG_VALUE, values, final)


def _read_values(tokens: Sequence[str]) -> tuple[int, ...] | None:
    head = [_NUMBER.get(token) for token in tokens[:4]]
    return tuple(head) if len(head) == 4 and None not in head else None


def _parse_steps(tokens: Sequence[str]) -> list[tuple[int, str, int, int, list[int] | None]] | None:
    """The three steps with what each says is left (None after the last), or None if malformed."""
    steps, position = [], 0
    for left_after in (3, 2, 1):
        length = 6 if left_after == 1 else 7 + left_after
        part = tokens[position : position + length]
        position += length
        if len(part) < length or part[0] != ";" or part[2] not in OPERATORS or part[4] != "=":
            return None
        numbers = [_NUMBER.get(part[i]) for i in (1, 3, 5)]
        rest = None
        if left_after > 1:
            rest = [_NUMBER.get(token) for token in part[7:]]
            if part[6] != ":" or None in rest:
                return None
        if None in numbers:
            return None
        steps.append((numbers[0], part[2], numbers[1], numbers[2], rest))
    return steps if position == len(tokens) else None
