"""A model's answer at the 24-point game line by line, each mistake marked in words as well as in colour."""

from __future__ import annotations

import html
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

from labkit.envs.points24 import compact
from labkit.envs.points24.grading import Outcome, Verdict
from labkit.envs.points24.play import Attempt
from labkit.envs.points24.rules import RANKS, Rule
from labkit.envs.points24.solver import OPERATORS, apply
from labkit.workshop.controls import BAD, GOOD, MARK, badge_html

MEANINGS = {
    Outcome.CORRECT: "reaches 24",
    Outcome.WRONG_VALUE: "legal, but it does not come to 24",
    Outcome.WRONG_NUMBERS: "does not use each value exactly once",
    Outcome.MISREAD_CARDS: "the values are not what the rule says the cards count",
    Outcome.ILLEGAL: "breaks the form, or its arithmetic is false",
    Outcome.NO_ANSWER: "nothing that claims to be an answer",
}
_SHOWN = {"*": "×", "/": "÷", "-": "−"}


@dataclass(frozen=True)
class Piece:
    """A few tokens of an answer as they are shown."""

    text: str
    note: str | None = None
    """What is wrong with it; None if nothing is."""


@dataclass(frozen=True)
class Line:
    """One line of an answer: the reading of the cards, or a step."""

    label: str
    pieces: tuple[Piece, ...]


def annotate(tokens: Sequence[str], hand: Sequence[int], rule: Rule) -> list[Line]:
    """An answer as lines, with a note on every mistake.

    There is no note exactly when the verifier's outcome is `correct` or `wrong_value`.
    """
    tokens = list(tokens)
    ended = compact.EOS in tokens
    if ended:
        tokens = tokens[: tokens.index(compact.EOS)]
    parts: list[list[str]] = [[]]
    for token in tokens:
        if token == ";":
            parts.append([])
        else:
            parts[-1].append(token)
    lines = [_reading(parts[0], hand, rule)]
    left = [_number(token) for token in parts[0]]
    for number, part in enumerate(parts[1:], start=1):
        lines.append(_step(number, part, left))
    faults = []
    if not ended:
        faults.append(Piece("…", "cut off: it does not end"))
    if len(parts) != 4:
        faults.append(Piece(f"{len(parts) - 1} steps", "four cards take three"))
    if faults:
        lines.append(Line("form", tuple(faults)))
    return lines


def _number(token: str) -> int | None:
    return int(token) if token in compact.NUMBER_TOKENS else None


def _reading(part: Sequence[str], hand: Sequence[int], rule: Rule) -> Line:
    pieces = []
    for rank, token in zip(hand, part, strict=False):
        wrong = _number(token) != rule.value(rank)
        note = f"misread: {RANKS[rank - 1]} counts {rule.value(rank)}" if wrong else None
        pieces.append(Piece(f"{RANKS[rank - 1]}→{token}", note))
    missing = " ".join(RANKS[rank - 1] for rank in hand[len(part) :])
    if missing:
        pieces.append(Piece(missing, "not read"))
    if extra := part[len(hand) :]:
        pieces.append(Piece(" ".join(extra), "more values than cards"))
    return Line("reads", tuple(pieces))


def _step(number: int, part: Sequence[str], left: list[int | None]) -> Line:
    """One step; takes its operands from `left` and adds its result."""
    label = f"step {number}"
    operands = [_number(token) for token in (part[0:1] or [""]) + (part[2:3] or [""]) + (part[4:5] or [""])]
    if len(part) < 5 or part[1] not in OPERATORS or part[3] != "=" or None in operands:
        return Line(label, (Piece(_words(part) or "nothing", "not a step"),))
    a, b, result = operands
    pieces = []
    for operand, after in ((a, part[1]), (b, "=")):
        note = None if operand in left else f"no {operand} is left"
        if operand in left:
            left.remove(operand)
        pieces += [Piece(str(operand), note), Piece(_words([after]))]
    exact = apply(part[1], Fraction(a), Fraction(b))
    false = None if exact == result else f"false: {a} {_words([part[1]])} {b} is {_value(exact)}"
    pieces.append(Piece(str(result), false))
    left.append(result)
    return Line(label, (*pieces, *_rest(part[5:], number, left)))


def _rest(rest: Sequence[str], number: int, left: list[int | None]) -> list[Piece]:
    if number >= 3:
        return [Piece(_words(rest), "nothing should follow")] if rest else []
    if rest[:1] != [":"]:
        return [Piece(_words(rest), "should say what is left")]
    named = [_number(token) for token in rest[1:]]
    wrong = None in named or None in left or sorted(named) != sorted(left)
    truly = " ".join("?" if value is None else str(value) for value in left)
    if wrong and None not in named:
        left[:] = named  # go on from the answer's own account: one slip is one mistake, not three
    return [Piece(f"(left: {' '.join(rest[1:])})", f"left is {truly}" if wrong else None)]


def _words(tokens: Sequence[str]) -> str:
    return " ".join(_SHOWN.get(token, token) for token in tokens)


def _value(value: Fraction | None) -> str:
    return "not defined" if value is None else str(value)


def outcome_text(verdict: Verdict) -> str:
    """The named outcome and what it means, in a few words."""
    reached = ""
    if verdict.outcome is Outcome.WRONG_VALUE and verdict.value is not None:
        reached = f"; it comes to {verdict.value}"
    return f"{verdict.outcome.value}: {MEANINGS[verdict.outcome]}{reached}"


def outcome_html(verdict: Verdict) -> str:
    """The named outcome as a badge, and what it means."""
    _, _, meaning = outcome_text(verdict).partition(": ")
    sign = "✓" if verdict.correct else "✗"
    badge = badge_html(f"{sign} {verdict.outcome.value}", GOOD if verdict.correct else BAD)
    return f"{badge} {html.escape(meaning)}"


def answer_html(attempt: Attempt, hand: Sequence[int], rule: Rule) -> str:
    """An answer with its outcome, as a table of lines."""
    rows = "".join(
        f'<tr><th scope="row" style="text-align:left;font-weight:normal;padding:1px 12px 1px 0;'
        f'vertical-align:top;opacity:.75;white-space:nowrap">{line.label}</th>'
        f'<td style="text-align:left;padding:1px 0">{" ".join(map(_piece_html, line.pieces))}</td></tr>'
        for line in annotate(attempt.tokens, hand, rule)
    )
    return (
        f'<div style="line-height:1.5">{outcome_html(attempt.verdict)}'
        f'<table style="border:0;margin:4px 0;line-height:1.4">{rows}</table></div>'
    )


def _piece_html(piece: Piece) -> str:
    text = f'<span style="white-space:nowrap">{html.escape(piece.text)}</span>'
    if piece.note is None:
        return text
    background, colour = MARK
    return (
        f'<mark style="background:{background};color:{colour};padding:0 3px;border-radius:3px">'
        f"{html.escape(piece.text)} <em>({html.escape(piece.note)})</em></mark>"
    )


def mistakes_text(attempt: Attempt, hand: Sequence[int], rule: Rule) -> str:
    """The notes on an answer in one line; empty if there are none."""
    lines = annotate(attempt.tokens, hand, rule)
    return "; ".join(piece.note for line in lines for piece in line.pieces if piece.note)


def attempt_text(attempt: Attempt, hand: Sequence[int], rule: Rule) -> str:
    """What became of an answer, with its mistakes in brackets."""
    mistakes = mistakes_text(attempt, hand, rule)
    return outcome_text(attempt.verdict) + (f" ({mistakes})" if mistakes else "")


def hand_text(hand: Sequence[int]) -> str:
    """A hand as one would say it, e.g. `Q 4 10 J`."""
    return " ".join(RANKS[rank - 1] for rank in hand)


def rule_text(rule: Rule) -> str:
    """A rule in a few words."""
    j, q, k = rule.faces
    return f"J, Q, K count {j}" if j == q == k else f"J, Q, K count {j}, {q}, {k}"


def hand_html(hand: Sequence[int], rule: Rule | None = None) -> str:
    """A hand as cards; under a rule, with what each counts."""
    card = (
        "display:inline-block;min-width:34px;padding:5px 8px;margin:2px 6px 2px 0;text-align:center;"
        "background:#FFFFFF;color:#111111;border:1px solid #777777;border-radius:6px;font-size:18px;"
        "line-height:1.25;vertical-align:top"
    )
    shown = []
    for rank in hand:
        counts = f'<br/><span style="font-size:11px">counts {rule.value(rank)}</span>' if rule else ""
        shown.append(f'<span style="{card}"><b>{RANKS[rank - 1]}</b>{counts}</span>')
    return f"<div>{''.join(shown)}</div>"


def parse_hand(text: str) -> tuple[int, ...]:
    """The ranks of a hand written as `Q 4 10 J` (commas and small letters will do).

    Raises ValueError that says what is wrong.
    """
    names = text.replace(",", " ").upper().split()
    if unknown := [name for name in names if name not in RANKS]:
        raise ValueError(f"{unknown[0]!r} is no card; cards are {' '.join(RANKS)}, with spaces between")
    if len(names) != 4:
        raise ValueError(f"a hand has four cards, this has {len(names)}: {' '.join(names) or 'none'}")
    return tuple(RANKS.index(name) + 1 for name in names)
