"""A slider over checkpoints: how the same hand is answered under both rules as training goes on."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import ipywidgets as widgets
import torch
from IPython.display import HTML
from torch import Tensor
from transformers import PreTrainedModel

from labkit.envs.points24 import compact
from labkit.envs.points24.play import Attempt, Codec
from labkit.envs.points24.rules import FACES_AS_RANK, FACES_AS_TEN, Rule
from labkit.lm.sampling import SamplingConfig, sample
from labkit.workshop.controls import Panel, button, choice, status_html
from labkit.workshop.points24_answers import (
    answer_html,
    attempt_text,
    hand_html,
    hand_text,
    outcome_html,
    rule_text,
)
from labkit.workshop.points24_live import Snapshot
from labkit.workshop.points24_play import example_hands

Hands = Sequence[int] | Sequence[Sequence[int]]
NUM_HANDS = 5
"""Hands to choose from where none are given."""


@dataclass(frozen=True)
class Answers:
    """One checkpoint's answers, ready to show."""

    columns: tuple[str, ...]
    """HTML for each hand: both rules side by side."""
    summaries: tuple[str, ...]
    """The same in a sentence for each hand."""
    badges: tuple[tuple[str, ...], ...]
    """For each hand, the outcome under each rule, as HTML."""


def snapshots_of(
    model: PreTrainedModel, states: Mapping[int, Mapping[str, Tensor]], series: str = "training"
) -> list[Snapshot]:
    """Snapshots from state dicts by step; `model` gives the shape and stays as it is."""
    made = []
    for step, state in sorted(states.items()):
        filled = copy.deepcopy(model)
        filled.load_state_dict(state)
        made.append(Snapshot(series, step, filled.eval().requires_grad_(False)))
    return made


@torch.no_grad()
def answer_hands(
    model: PreTrainedModel, codec: Codec, hands: Sequence[Sequence[int]], rules: Sequence[Rule]
) -> list[list[Attempt]]:
    """Greedy answers by rule and hand, all in one batch."""
    asked = [(rule, hand) for rule in rules for hand in hands]
    prompts = [codec.encode(compact.prompt_tokens(hand, rule)) for rule, hand in asked]
    drawn = sample(model, prompts, SamplingConfig(compact.RESPONSE_LENGTH + 2, greedy=True))
    answers = []
    for (rule, hand), ids in zip(asked, drawn.completions(), strict=True):
        tokens = codec.decode(ids)
        answers.append(Attempt(tuple(tokens), compact.grade(tokens, hand, rule)))
    return [answers[i * len(hands) : (i + 1) * len(hands)] for i in range(len(rules))]


def prepare(
    model: PreTrainedModel, codec: Codec, hands: Sequence[Sequence[int]], rules: Sequence[Rule]
) -> Answers:
    """Everything the slider shows of one checkpoint: the only place where a model is asked."""
    by_rule = answer_hands(model, codec, hands, rules)
    columns, summaries, badges = [], [], []
    for i, hand in enumerate(hands):
        answers = [(rule, answered[i]) for rule, answered in zip(rules, by_rule, strict=True)]
        columns.append("".join(_column(attempt, hand, rule) for rule, attempt in answers))
        summaries.append(" ".join(_summary(attempt, hand, rule) for rule, attempt in answers))
        badges.append(tuple(outcome_html(attempt.verdict) for _, attempt in answers))
    return Answers(tuple(columns), tuple(summaries), tuple(badges))


def _column(attempt: Attempt, hand: Sequence[int], rule: Rule) -> str:
    return (
        f'<div style="flex:1;min-width:300px"><b>{rule_text(rule)}</b>'
        f"{hand_html(hand, rule)}{answer_html(attempt, hand, rule)}</div>"
    )


def _summary(attempt: Attempt, hand: Sequence[int], rule: Rule) -> str:
    return f"{rule_text(rule)}: {attempt_text(attempt, hand, rule)}."


class CheckpointSlider(Panel):
    """The widget that `checkpoint_slider` makes."""

    def __init__(
        self,
        source: Callable[[], Sequence[Snapshot]],
        codec: Codec,
        hands: Sequence[tuple[int, ...]],
        rules: Sequence[Rule],
    ) -> None:
        self._source, self._codec, self._hands, self._rules = source, codec, hands, rules
        self._answers: dict[int, tuple[Snapshot, Answers]] = {}
        self._series: dict[str, list[Snapshot]] = {}
        self._updating = False
        self.slider = self._make_slider([0], 0)
        self.series = choice("Trained by", [], lambda _: self._series_chosen())
        self.hand = choice("Hand", [(hand_text(h), i) for i, h in enumerate(hands)], lambda _: self._show())
        self.reload_button = button(
            "Read checkpoints again", self.reload, "After more training: ask the new ones"
        )
        self._shown, self._status = widgets.HTML(), widgets.HTML()
        wrap = widgets.Layout(flex_flow="row wrap", align_items="center")
        super().__init__(
            [
                widgets.HBox([self.series, self.reload_button], layout=wrap),
                *([self.hand] if len(hands) > 1 else []),
                self.slider,
                self._shown,
                self._status,
            ]
        )
        self.reload()

    def reload(self) -> None:
        """Take the snapshots as they are now; only those not yet asked are asked."""
        snapshots = list(self._source())
        if not snapshots:
            raise ValueError("there are no checkpoints: train first, or give at least one snapshot")
        new = [s for s in snapshots if id(s.model) not in self._answers]
        for number, snapshot in enumerate(new, start=1):
            self._say(f"Asking checkpoint {number} of {len(new)}.")
            answers = prepare(snapshot.model, self._codec, self._hands, self._rules)
            # With the snapshot beside it, the model lives as long as its id is a key.
            self._answers[id(snapshot.model)] = (snapshot, answers)
        self._answers = {id(s.model): self._answers[id(s.model)] for s in snapshots}
        self._series = {}
        for snapshot in snapshots:
            self._series.setdefault(snapshot.series, []).append(snapshot)
        before = self.series.value
        self._updating = True
        self.series.options = list(self._series)
        self.series.value = before if before in self._series else next(iter(self._series))
        self._updating = False
        self._series_chosen()

    def still(self) -> str:
        """The chosen hand at every checkpoint, as a table of outcomes."""
        head = "".join(f'<th scope="col" style="text-align:left">{rule_text(r)}</th>' for r in self._rules)
        rows = "".join(
            f'<tr><th scope="row" style="text-align:left;font-weight:normal">{_label(s)}</th>'
            + "".join(
                f'<td style="text-align:left">{badge}</td>'
                for badge in self._of(s).badges[self._hand_index()]
            )
            + "</tr>"
            for snapshots in self._series.values()
            for s in snapshots
        )
        hand = self._hands[self._hand_index()]
        return (
            f"{hand_html(hand)}<table><thead><tr>"
            f'<th scope="col" style="text-align:left">checkpoint</th>{head}</tr></thead>'
            f"<tbody>{rows}</tbody></table>"
        )

    def _hand_index(self) -> int:
        return self.hand.value or 0

    def _of(self, snapshot: Snapshot) -> Answers:
        return self._answers[id(snapshot.model)][1]

    def _series_chosen(self) -> None:
        if self._updating:
            return
        # The place on the slider stays, so that one compares checkpoints of like compute.
        place = self.slider.index
        steps = [s.step for s in self._series[self.series.value]]
        if steps != [number for _, number in self.slider.options]:
            # A new slider: one whose options change keeps its old ends for the Home and End keys.
            old, self.slider = self.slider, self._make_slider(steps, steps[min(place, len(steps) - 1)])
            self.children = [self.slider if child is old else child for child in self.children]
            old.close()
        self._show()

    def _make_slider(self, steps: Sequence[int], step: int) -> widgets.SelectionSlider:
        slider = widgets.SelectionSlider(
            options=[(f"step {number}" if number else "base", number) for number in steps],
            value=step,
            description="Checkpoint",
            style={"description_width": "initial"},
            layout=widgets.Layout(width="min(520px, 100%)"),
        )
        slider.observe(lambda _: self._show(), "value")
        return slider

    def _show(self) -> None:
        """Show what is ready; no model is asked here, so that dragging is instant."""
        if self._updating:
            return
        index = self._hand_index()
        snapshot = next(s for s in self._series[self.series.value] if s.step == self.slider.value)
        answers = self._of(snapshot)
        self._shown.value = (
            f'<div style="display:flex;flex-wrap:wrap;gap:8px 24px">{answers.columns[index]}</div>'
        )
        self._say(f"{_label(snapshot)}, hand {hand_text(self._hands[index])}. {answers.summaries[index]}")

    def _say(self, text: str) -> None:
        self._status.value = status_html(text)


def _label(snapshot: Snapshot) -> str:
    if snapshot.step:
        return f"{snapshot.series}, step {snapshot.step}"
    return "base" if snapshot.series == "base" else f"{snapshot.series}, base"


def checkpoint_slider(
    snapshots: Sequence[Snapshot] | Callable[[], Sequence[Snapshot]],
    codec: Codec,
    hands: Hands | None = None,
    rules: Sequence[Rule] = (FACES_AS_TEN, FACES_AS_RANK),
) -> CheckpointSlider:
    """A slider over checkpoints with the answers to the same hand under each rule.

    `snapshots` is a list (see `snapshots_of` for state dicts) or a function that returns one, such as
    `TrainingPanel.snapshots`: then a button reads it again. `hands` is a hand of four ranks or several;
    by default a few test hands with a face card. All answers are made before the slider is shown.
    """
    source = snapshots if callable(snapshots) else lambda: snapshots
    return CheckpointSlider(source, codec, _as_hands(hands), tuple(rules))


def _as_hands(hands: Hands | None) -> list[tuple[int, ...]]:
    if hands is None:
        return list(example_hands()[:NUM_HANDS])
    listed = list(hands)
    return [tuple(listed)] if listed and isinstance(listed[0], int) else [tuple(h) for h in listed]


def static_checkpoints(
    snapshots: Sequence[Snapshot] | Callable[[], Sequence[Snapshot]],
    codec: Codec,
    hand: Sequence[int] | None = None,
    rules: Sequence[Rule] = (FACES_AS_TEN, FACES_AS_RANK),
) -> HTML:
    """One hand's outcomes at every checkpoint, as a table: for a notebook that is only read."""
    return checkpoint_slider(snapshots, codec, hand or example_hands()[0], rules).static()
