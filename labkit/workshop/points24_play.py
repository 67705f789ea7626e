"""Play a hand of the 24-point game against a model, under either rule."""

from __future__ import annotations

import html
import json
import random
from collections.abc import Mapping, Sequence
from functools import lru_cache

import ipywidgets as widgets
from IPython.display import HTML
from transformers import PreTrainedModel

from labkit.envs.points24.compact import expressible_solutions
from labkit.envs.points24.data import Hand, multiset, shuffled, split_hands, writable
from labkit.envs.points24.grading import Outcome, Verdict
from labkit.envs.points24.json_form import grade_text, parse_formula
from labkit.envs.points24.play import Attempt, Codec, attempts
from labkit.envs.points24.rules import FACES_AS_RANK, FACES_AS_TEN, FIRST_FACE, RANKS, Rule, has_face
from labkit.envs.points24.solver import leaves, solutions, to_infix
from labkit.workshop.controls import Panel, button, choice, debounced, status_html
from labkit.workshop.points24_answers import (
    answer_html,
    attempt_text,
    hand_html,
    hand_text,
    outcome_html,
    outcome_text,
    parse_hand,
    rule_text,
)

RULES = (FACES_AS_TEN, FACES_AS_RANK)
WAIT_SECONDS = 0.05
"""Pause after a change of rule before the model is asked again."""


@lru_cache(maxsize=1)
def example_hands() -> tuple[Hand, ...]:
    """Test hands on which the rule matters: a face card, and a solution under each rule.

    Those with two kinds of face card come first, since they show most of how cards are read.
    """
    solvable = [set(writable(split_hands().test, rule)) for rule in RULES]
    hands = [h for h in split_hands().test if has_face(h) and all(h in part for part in solvable)]
    return tuple(sorted(hands, key=lambda hand: -len({rank for rank in hand if rank >= FIRST_FACE})))


def grade_formula(text: str, hand: Sequence[int], rule: Rule, others: Sequence[Rule] = RULES) -> Verdict:
    """Grade a formula typed by a person, by the verifier of the paper's form.

    A person reads the cards silently; what was read shows in the numbers used. Numbers that are right
    under another of the rules count as `misread_cards`, which says more than `wrong_numbers`.
    """
    values = rule.values(hand)
    expr = parse_formula(text.partition("=")[0])
    if expr is not None:
        used = sorted(leaves(expr))
        misread = [r.values(hand) for r in others if sorted(r.values(hand)) == used != sorted(values)]
        values = misread[0] if misread else values
    answer = {"cards": [RANKS[rank - 1] for rank in hand], "number": list(values), "formula": text}
    return grade_text(json.dumps(answer), hand, rule)


def explain_formula(text: str, verdict: Verdict, hand: Sequence[int], rule: Rule) -> str:
    """What became of a formula and why, in a sentence."""
    said = outcome_text(verdict)
    values = ", ".join(map(str, rule.values(hand)))
    if verdict.outcome is Outcome.MISREAD_CARDS:
        return f"{said}. Under this rule {hand_text(hand)} count {values}."
    if verdict.outcome is Outcome.WRONG_NUMBERS:
        used = ", ".join(map(str, leaves(parse_formula(text.partition("=")[0]))))
        return f"{said}. You used {used}; the cards count {values}."
    if verdict.outcome is Outcome.ILLEGAL:
        return f"{said}. Whole numbers, + - * / and brackets are accepted, for instance (10-4)*(12-8)."
    return said + "."


def solution_html(hand: Sequence[int], rule: Rule) -> str:
    """One solution and how many there are, or that there is none."""
    found = solutions(multiset(hand, rule))
    if not found:
        return f"There is no solution: nothing makes 24 of {hand_text(hand)} under this rule."
    # One without fractions reads more easily, and is one the model could write.
    writable_ones = expressible_solutions(multiset(hand, rule))
    shown = to_infix((writable_ones or found)[0])
    count = "the only solution" if len(found) == 1 else f"one of {len(found)} solutions"
    kind = "" if writable_ones else "; it needs a fraction or a number above 99, which the model cannot write"
    return f"<code>{html.escape(shown)} = 24</code> ({count}, a+b and b+a counted once{kind})"


class PlayHand(Panel):
    """The widget that `play_hand` makes."""

    def __init__(
        self, models: Mapping[str, PreTrainedModel], codec: Codec, hand: Hand, rule: Rule, seed: int
    ) -> None:
        self._models, self._codec, self._random = dict(models), codec, random.Random(seed)
        self.hand = hand
        self.attempt: Attempt | None = None
        """The model's last answer to the hand as it stands."""
        self.verdict: Verdict | None = None
        """What became of the learner's last formula."""
        self.rule = choice("Rule", [(rule_text(r), r) for r in RULES], self._rule_changed)
        self.opponent = choice("Model", [(name, name) for name in self._models], self._model_changed)
        self.cards = _text("Cards", "Q 4 10 J")
        self.formula = _text("Your formula", "e.g. (10-4)*(12-8)")
        self.new_hand = button("New hand", self.draw, "Draw another hand of the test split")
        self.check_button = button("Check", self.check, "Grade your formula")
        self.ask_button = button("Ask the model", self.ask, "The model's best guess, by greedy decoding")
        self.solution_button = button("Show a solution", self.solve, "What the solver finds")
        self._shown, self._graded, self._answer, self._solution, self._status = (
            widgets.HTML() for _ in range(5)
        )
        self.rule.value = rule
        self.cards.observe(lambda change: self._typed_cards(change["new"]), "value")
        self.formula.observe(lambda change: change["new"].strip() and self.check(), "value")
        self._ask_again = debounced(WAIT_SECONDS)(self.ask)
        super().__init__(
            [
                self.rule,
                *([self.opponent] if len(self._models) > 1 else []),
                _row(self.cards, self.new_hand),
                self._shown,
                _row(self.formula, self.check_button),
                self._graded,
                _row(self.ask_button, self.solution_button),
                self._answer,
                self._solution,
                self._status,
            ]
        )
        self.deal(hand)

    def deal(self, hand: Sequence[int]) -> None:
        """Lay out a hand; whatever stood about the one before is cleared."""
        self.hand = tuple(hand)
        self.cards.value = hand_text(self.hand)
        self.formula.value = ""
        self._clear()
        self._say(f"Hand {hand_text(self.hand)}. {rule_text(self.rule.value)}. Make 24 with all four cards.")

    def draw(self) -> None:
        """Deal another hand of the test split, in random order."""
        self.deal(shuffled(self._random.choice(example_hands()), self._random))

    def check(self) -> None:
        """Grade the formula in the text field."""
        text = self.formula.value.strip()
        if not text:
            self._say("Type a formula first, for instance (10-4)*(12-8).")
            return
        self.verdict = grade_formula(text, self.hand, self.rule.value)
        why = explain_formula(text, self.verdict, self.hand, self.rule.value)
        self._graded.value = f"You: {outcome_html(self.verdict)}"
        self._say(f"Your formula: {why}")

    def ask(self) -> None:
        """Show the model's answer to the hand under the rule."""
        model, rule = self._models[self.opponent.value], self.rule.value
        self.attempt = attempts(model, self._codec, [self.hand], rule)[0][0]
        self._answer.value = (
            f"<b>The model's answer</b>, step by step: {answer_html(self.attempt, self.hand, rule)}"
        )
        self._say(f"The model: {attempt_text(self.attempt, self.hand, rule)}.")

    def solve(self) -> None:
        """Show a solution."""
        self._solution.value = f"<b>A solution:</b> {solution_html(self.hand, self.rule.value)}"
        self._say("A solution is shown.")

    def still(self) -> str:
        """The hand under both rules with what the model shown answers and a solution."""
        return still_play(self._models[self.opponent.value], self._codec, self.hand)

    def _typed_cards(self, text: str) -> None:
        try:
            hand = parse_hand(text)
        except ValueError as error:
            self._say(f"{error}. The hand stays {hand_text(self.hand)}.")
            return
        if hand != self.hand:
            self.deal(hand)

    def _rule_changed(self, rule: Rule) -> None:
        again = self.attempt is not None
        self._clear()
        self._say(f"Now {rule_text(rule)}.")
        if again:
            self._ask_again()

    def _model_changed(self, name: str) -> None:
        if self.attempt is not None:
            self._ask_again()
        else:
            self._say(f"You play against {name}.")

    def _clear(self) -> None:
        self.attempt = self.verdict = None
        self._shown.value = hand_html(self.hand, self.rule.value)
        self._graded.value = self._answer.value = self._solution.value = ""

    def _say(self, text: str) -> None:
        self._status.value = status_html(text)


def _text(description: str, placeholder: str) -> widgets.Text:
    # continuous_update off: a formula is judged when it is finished (Enter or Tab), not at every key.
    return widgets.Text(
        description=description,
        placeholder=placeholder,
        continuous_update=False,
        style={"description_width": "100px"},
        layout=widgets.Layout(width="340px"),
    )


def _row(*children: widgets.Widget) -> widgets.HBox:
    return widgets.HBox(children, layout=widgets.Layout(flex_flow="row wrap", align_items="center"))


def play_hand(
    model: PreTrainedModel | Mapping[str, PreTrainedModel],
    codec: Codec,
    *,
    hand: Sequence[int] | None = None,
    rule: Rule = FACES_AS_TEN,
    seed: int = 0,
) -> PlayHand:
    """A widget to play a hand against a model, or against one of several by name.

    `hand` holds four ranks (default: the first of `example_hands`); New hand draws from the test split by
    `seed`. `rule` is the one to begin with. Raises ValueError for a rule that is not one of the study's two.
    """
    if rule not in RULES:
        raise ValueError(f"rule {rule.name} is not one of {', '.join(r.name for r in RULES)}")
    models = model if isinstance(model, Mapping) else {"the model": model}
    return PlayHand(models, codec, tuple(hand or example_hands()[0]), rule, seed)


def still_play(model: PreTrainedModel, codec: Codec, hand: Sequence[int]) -> str:
    """A hand under both rules: the model's answer and a solution, as HTML."""
    parts = []
    for rule in RULES:
        attempt = attempts(model, codec, [hand], rule)[0][0]
        parts.append(
            f'<div style="flex:1;min-width:300px"><b>{rule_text(rule)}</b>{hand_html(hand, rule)}'
            f"The model: {answer_html(attempt, hand, rule)}A solution: {solution_html(hand, rule)}</div>"
        )
    return f'<div style="display:flex;flex-wrap:wrap;gap:8px 24px">{"".join(parts)}</div>'


def static_play(model: PreTrainedModel, codec: Codec, hand: Sequence[int] | None = None) -> HTML:
    """What `play_hand` shows of a hand, without controls: for a notebook that is only read."""
    return HTML(still_play(model, codec, hand or example_hands()[0]))
