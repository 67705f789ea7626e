"""The paper's response form, for models that read English: a JSON object with cards, number, formula.

    {"cards": ["A", "3", "K", "8"], "number": [1, 3, 10, 8], "formula": "(10-8+1)*8=24"}

After Chu et al. 2025 (arXiv 2501.17161, section 5.1). The words of the prompt are ours.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Sequence
from types import MappingProxyType

from labkit.envs.points24.grading import Outcome, Verdict
from labkit.envs.points24.rules import RANKS, Rule
from labkit.envs.points24.solver import TARGET, Expr, Node, evaluate, leaves, to_infix

MAX_TEXT = 10_000
"""Characters of a completion that are read, counted from its end, where the answer stands."""
MAX_FORMULA = 120
"""Longest formula in characters. One over four cards takes about 40, spaces included; the limit keeps
the numbers that garbage can reach small."""

_SIGNS = str.maketrans(
    {"×": "*", "∗": "*", "·": "*", "⋅": "*", "÷": "/", "∕": "/", "⁄": "/", "−": "-", "–": "-"}
)
_PRECEDENCE = {"+": 1, "-": 1, "*": 2, "/": 2}
_ARITHMETIC = re.compile(r"[\s0-9+*/()-]*")
_TOKENS = re.compile(r"[0-9]+|[-+*/()]")
_INNER_BRACES = re.compile(r"\{[^{}]*\}")

_FEEDBACK = MappingProxyType(
    {
        Outcome.NO_ANSWER: "There is no JSON object with a formula in your answer. Try again.",
        Outcome.ILLEGAL: "Your answer breaks the form, or its formula is not legal arithmetic. Try again.",
        Outcome.MISREAD_CARDS: "Your cards and numbers are not those of this hand under the rule. Try again.",
        Outcome.WRONG_NUMBERS: "Your formula does not use each of the four numbers exactly once. Try again.",
        Outcome.WRONG_VALUE: "Your formula does not come to the target. Try again.",
        Outcome.CORRECT: "Correct.",
    }
)


def prompt_text(hand: Sequence[int], rule: Rule, target: int = TARGET, wording: int = 0) -> str:
    """The task in English: rule, target, cards, form of the answer.

    `hand` holds four ranks from 1 (ace) to 13 (king); `wording` chooses among those of `Rule.text`.
    There is no worked example in it: that would give one hand away and teach a rule by showing it.
    Raises ValueError for another number of cards or a rank that does not exist.
    """
    if len(hand) != 4:
        raise ValueError(f"a hand has four cards, {list(hand)!r} has {len(hand)}")
    return (
        f"You play the {target}-point card game. Find a formula that comes to {target} and uses the number "
        "of each card exactly once, with +, -, *, / and brackets.\n"
        f"A counts 1, the cards 2 to 10 count their number. {rule.text(wording)}\n"
        f"Cards: {', '.join(_card_names(hand))}\n"
        'Answer with one JSON object with three keys: "cards", a list of the four cards as written above; '
        '"number", a list of what each of them counts, in the same order; "formula", a string that ends '
        f'in "={target}".'
    )


def response_text(hand: Sequence[int], rule: Rule, expr: Expr) -> str:
    """A reference answer: the hand read under `rule`, and an expression over its values.

    Raises ValueError for an expression that does not come to an integer of 0 or more, which the form
    cannot state.
    """
    value = evaluate(expr)
    if value is None or value.denominator != 1 or value < 0:
        raise ValueError(
            f"{to_infix(expr)} comes to {value}; the form states an integer, 0 or more, after '='"
        )
    answer = {
        "cards": _card_names(hand),
        "number": list(rule.values(hand)),
        "formula": f"{to_infix(expr)}={value}",
    }
    return json.dumps(answer)


def feedback_text(outcome: Outcome) -> str:
    """What the verifier says of an attempt; it names the outcome and gives nothing of the answer away."""
    return _FEEDBACK[outcome]


def grade_text(text: str, hand: Sequence[int], rule: Rule, target: int = TARGET) -> Verdict:
    """Grade a response (the completion alone, never the prompt).

    The answer is the last outermost JSON object that has a formula, wherever it stands: prose, drafts
    and code fences around it are passed over, and so is an object that is cut off. Lenient: single for
    double quotes in an object that has no double ones; numbers in quotes; the cards in another order;
    `× ÷ −` and their like; a formula without its `=24`. Strict, and `illegal`: an object with a key
    given twice or without cards or number, a sign before a number, a power, a card's name in the formula.

    `=24` is part of the form and no step of the arithmetic, so that `1+2+3+4=24` is `wrong_value`; a
    right-hand side that is neither the target nor what the formula comes to is `illegal`.

    `values_read` is in the order of `hand` if every card was read right, else as written.
    """
    answer = _last_answer(text[-MAX_TEXT:])
    if answer is None:
        return Verdict(Outcome.NO_ANSWER)
    fields = dict(answer)
    cards, numbers = _texts(fields.get("cards")), _integers(fields.get("number"))
    values = rule.values(hand)
    read_right = _count_pairs(cards, numbers) == _count_pairs(_card_names(hand), values)
    values_read = values if read_right else numbers
    parsed = _parse_equation(fields["formula"])
    if len(fields) < len(answer) or cards is None or numbers is None or parsed is None:
        return Verdict(Outcome.ILLEGAL, values_read)
    expr, claimed = parsed
    value = evaluate(expr)
    if value is None or claimed not in (None, target, value):
        return Verdict(Outcome.ILLEGAL, values_read)
    if not read_right:
        return Verdict(Outcome.MISREAD_CARDS, values_read, value)
    if sorted(leaves(expr)) != sorted(values):
        return Verdict(Outcome.WRONG_NUMBERS, values_read, value)
    return Verdict(Outcome.CORRECT if value == target else Outcome.WRONG_VALUE, values_read, value)


def parse_formula(text: str) -> Expr | None:
    """The expression that a text of numbers, `+ - * /` and brackets writes down; None if it is malformed.

    Two stacks and no recursion, so that any number of brackets is safe. Nothing is evaluated.

    >>> parse_formula("8/(3-8/3)")
    Node(op='/', left=8, right=Node(op='-', left=3, right=Node(op='/', left=8, right=3)))
    """
    text = text.translate(_SIGNS)
    if len(text) > MAX_FORMULA or not _ARITHMETIC.fullmatch(text):
        return None
    operands: list[Expr] = []
    pending: list[str] = []

    def reduce_while(precedence: int) -> None:
        while pending and pending[-1] != "(" and _PRECEDENCE[pending[-1]] >= precedence:
            right, left = operands.pop(), operands.pop()
            operands.append(Node(pending.pop(), left, right))

    want_operand = True
    for token in _TOKENS.findall(text):
        if want_operand:
            if token == "(":
                pending.append(token)
            elif token in _PRECEDENCE or token == ")":
                return None
            else:
                operands.append(int(token))
                want_operand = False
        elif token in _PRECEDENCE:
            reduce_while(_PRECEDENCE[token])
            pending.append(token)
            want_operand = True
        elif token == ")":
            reduce_while(0)
            if not pending:
                return None
            pending.pop()
        else:
            return None
    if want_operand:
        return None
    reduce_while(0)
    return None if pending else operands[0]


def _parse_equation(formula: object) -> tuple[Expr, int | None] | None:
    """`(expression, right-hand side or None)`, or None if malformed."""
    if not isinstance(formula, str) or len(formula) > MAX_FORMULA:
        return None
    left, equals, right = formula.partition("=")
    expr = parse_formula(left)
    if expr is None:
        return None
    if not equals:
        return expr, None
    return (expr, int(right)) if re.fullmatch(r"\s*[0-9]+\s*", right, re.ASCII) else None


class _Object(list):
    """Key-value pairs of a JSON object, in place of a dict: that forgets that a key was given twice."""


_BROKEN = _Object([("formula", ...)])


def _last_answer(text: str) -> _Object | None:
    """The last object with a formula, `_BROKEN` if that one is not JSON, None if there is none."""
    answer, position = None, 0
    while (start := text.find("{", position)) >= 0:
        found, position = _decode(text, start)
        inner = _INNER_BRACES.match(text, start)
        if found is None and inner:
            block, position = inner.group(), inner.end()
            found = None if '"' in block else _decode(block.replace("'", '"'), 0)[0]
            if found is None and "formula" in block:
                found = _BROKEN
        if found and any(key == "formula" and not _is_blank(value) for key, value in found):
            answer = found
    return answer


def _is_blank(value: object) -> bool:
    return value is None or (isinstance(value, str) and not value.strip())


def _decode(text: str, start: int) -> tuple[_Object | None, int]:
    """The object that begins at `start` and where it ends; `(None, start + 1)` if it is not JSON."""
    try:
        return _DECODER.raw_decode(text, start)
    except (ValueError, RecursionError):
        return None, start + 1


_DECODER = json.JSONDecoder(object_pairs_hook=_Object)


def _integers(items: object) -> tuple[int, ...] | None:
    """A list of integers, in quotes or not; None for anything else."""
    texts = _texts(items)
    if texts is None or not all(re.fullmatch(r"[0-9]{1,9}", t) for t in texts):
        return None
    return tuple(map(int, texts))


def _texts(items: object) -> list[str] | None:
    """A list of strings or integers as stripped strings; None for anything else."""
    if type(items) is not list or not all(isinstance(item, (str, int)) for item in items):
        return None
    return [str(item).strip() for item in items]


def _count_pairs(cards: Sequence[str] | None, numbers: Sequence[int] | None) -> Counter | None:
    """How often each card stands beside each number; None if they do not go together."""
    if cards is None or numbers is None or len(cards) != len(numbers):
        return None
    return Counter(zip((card.upper() for card in cards), numbers, strict=True))


def _card_names(hand: Sequence[int]) -> list[str]:
    if bad := [rank for rank in hand if rank not in range(1, 14)]:
        raise ValueError(f"rank {bad[0]!r} is not between 1 (ace) and 13 (king)")
    return [RANKS[rank - 1] for rank in hand]
