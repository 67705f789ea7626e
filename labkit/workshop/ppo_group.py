"""Mark the answers of a group right or wrong, and see what each variant makes of every token."""

from __future__ import annotations

from collections.abc import Sequence

import ipywidgets as widgets
import matplotlib
import torch
from IPython.display import HTML
from matplotlib.patches import Rectangle
from torch import Tensor

from labkit.plotting import COLOURS, STYLE, new_figure
from labkit.rl.advantages import generalized_advantages, group_advantages, rloo_advantages
from labkit.rl.losses import cispo_loss, clipped_policy_loss, sequence_ratio, token_ratio, token_weights
from labkit.workshop.controls import choice
from labkit.workshop.moving import FigurePanel, MovingFigure, number, slider, table_html

VARIANTS = ("GRPO", "Dr.GRPO", "DAPO", "RLOO", "GSPO", "CISPO", "PPO")
LENGTHS = (4, 16, 6, 12, 8, 10, 5, 14)
"""Tokens of each answer."""
RIGHT = (True, True, False, False, False, False, False, False)
NUM_ANSWERS = 6
PUSHED_UP, PUSHED_DOWN = COLOURS["blue"], COLOURS["orange"]


def token_pulls(
    rewards: Tensor, lengths: Sequence[int], *, max_length: int, value: float
) -> dict[str, Tensor]:
    """By variant `[answers, time]`: minus the gradient of the batch loss in each token's log-probability.

    Positive pushes the token up. The batch is this one group, just sampled, so that every ratio is 1 and no
    clip acts; the reward, one an answer, comes with its last token. `value` is what PPO's critic says of
    every token (γ = λ = 1, so that A = R - V), `max_length` the most tokens that an answer may have. 0 after
    the end of an answer.

    - GRPO: standardised in the group; each answer counts the same, its tokens share its weight.
    - Dr.GRPO: mean subtracted only; tokens summed and divided by `max_length`.
    - DAPO: as GRPO, but each token of the batch counts the same; `dropped` groups never get here.
    - RLOO: mean of the *others* subtracted; an answer is one action, so that its tokens are summed.
    - GSPO: as GRPO with one ratio an answer. CISPO: as DAPO with a clipped weight instead of a clipped ratio.
    - PPO: R - V, each token of the batch counts the same.

    Source: arXiv 2402.03300, 2503.20783, 2503.14476, 2402.14740, 2507.18071, 2506.13585, 1707.06347.
    """
    group_size = len(rewards)
    mask = (torch.arange(max(lengths)) < torch.tensor(lengths)[:, None]).to(rewards.dtype)
    logprobs = torch.zeros_like(mask, requires_grad=True)
    old = torch.zeros_like(mask)
    ratio, whole = token_ratio(logprobs, old), sequence_ratio(logprobs, old, mask)
    standardised = group_advantages(rewards, group_size)[:, None]
    centred = group_advantages(rewards, group_size, scale_by_std=False)[:, None]
    others = rloo_advantages(rewards, group_size)[:, None]
    at_the_end = mask - torch.nn.functional.pad(mask, (0, 1))[:, 1:]
    above_value, _ = generalized_advantages(
        rewards[:, None] * at_the_end, torch.full_like(mask, value), mask, gamma=1.0, lam=1.0
    )
    by_answer = token_weights(mask, "sequence_mean_token_mean")
    by_token = token_weights(mask, "token_mean")
    summed = token_weights(mask, "sequence_mean_token_sum_norm", max_length)
    one_action = token_weights(mask, "sequence_mean_token_sum_norm", 1)
    losses = {
        "GRPO": clipped_policy_loss(ratio, standardised, 0.2, 0.2) * by_answer,
        "Dr.GRPO": clipped_policy_loss(ratio, centred, 0.2, 0.2) * summed,
        "DAPO": clipped_policy_loss(ratio, standardised, 0.2, 0.28) * by_token,
        "RLOO": clipped_policy_loss(ratio, others, None, None) * one_action,
        "GSPO": clipped_policy_loss(whole, standardised, 3e-4, 4e-4) / group_size,
        "CISPO": cispo_loss(logprobs, ratio, standardised, 0.28) * by_token,
        "PPO": clipped_policy_loss(ratio, above_value, 0.2, 0.2) * by_token,
    }
    return {
        name: 0.0 - torch.autograd.grad(loss.sum(), logprobs, retain_graph=True)[0]
        for name, loss in losses.items()
    }


def dropped(rewards: Tensor) -> bool:
    """Whether DAPO leaves the group out and samples another: all of its answers earned the same."""
    return bool((rewards == rewards[0]).all())


def length_bias(pulls: Tensor, rewards: Tensor, lengths: Sequence[int]) -> tuple[float, int, int]:
    """The largest ratio between the weights of tokens of two answers that earned the same, and their indices.

    Returns (ratio, short answer, long answer); a ratio of 1 where length plays no part.
    """
    first = pulls[:, 0].abs().tolist()
    found = (1.0, 0, 0)
    for i, short in enumerate(lengths):
        for j, long in enumerate(lengths):
            if rewards[i] == rewards[j] and short < long and first[j] > 0:
                found = max(found, (first[i] / first[j], i, j), key=lambda bias: bias[0])
    return found


class GroupMarker(FigurePanel):
    """The widget that `group_marker` makes."""

    def __init__(self, right: Sequence[bool], lengths: Sequence[int], size: int, value: float) -> None:
        self._lengths = tuple(lengths)
        self.size = widgets.IntSlider(
            value=size,
            min=2,
            max=len(lengths),
            description="answers in the group, G",
            style={"description_width": "initial"},
            layout=widgets.Layout(width="min(340px, 100%)"),
        )
        self.value_baseline = slider("PPO's critic says V", value, 0, 1, 0.05)
        self.unit = choice(
            "Table", [("a token", "token"), ("a whole answer", "answer")], lambda _: self.changed()
        )
        self.answers = [
            widgets.ToggleButton(
                value=bool(mark),
                tooltip="Right or wrong: reward 1 or 0",
                layout=widgets.Layout(width="auto"),
            )
            for mark in right
        ]
        self.size.observe(self.changed, "value")
        self.value_baseline.observe(self.changed, "value")
        for answer in self.answers:
            answer.observe(self.changed, "value")
        wrap = widgets.Layout(flex_flow="row wrap", align_items="center")
        self._marks = widgets.HBox(layout=wrap)
        controls = [
            widgets.HBox([self.size, self.value_baseline], layout=wrap),
            self._marks,
            self.unit,
        ]
        super().__init__(controls, self._new_figure())

    @property
    def rewards(self) -> Tensor:
        """1 for right and 0 for wrong, of the answers now in the group."""
        return torch.tensor([float(a.value) for a in self.answers[: self.size.value]], dtype=torch.float64)

    @property
    def lengths(self) -> tuple[int, ...]:
        """Tokens of the answers now in the group."""
        return self._lengths[: self.size.value]

    def pulls(self) -> dict[str, Tensor]:
        """`token_pulls` of the group as marked."""
        return token_pulls(
            self.rewards,
            self.lengths,
            max_length=max(self._lengths),
            value=round(self.value_baseline.value, 2),
        )

    def move(self) -> None:
        """A bar an answer and variant: as long as the answer, as thick as the weight of its tokens."""
        size = self.size.value
        for i, answer in enumerate(self.answers):
            answer.description = f"{i + 1}: {_mark(answer.value)}, {self._lengths[i]} tokens"
        if len(self._marks.children) != size:
            self._marks.children = self.answers[:size]
        self._now = pulls = self.pulls()
        for name, axes in self._axes.items():
            # The axes have no ticks, so that nothing but the bars depends on the limits.
            axes.set_ylim(size - 0.5, -0.5)
            weights = pulls[name][:, 0]
            largest = weights.abs().max().item() or 1.0
            for i, bar in enumerate(self._bars[name]):
                weight = weights[i].item() if i < size else 0.0
                bar.set_visible(i < size and weight != 0)
                thickness = 0.8 * abs(weight) / largest
                bar.set_bounds(0, i - thickness / 2, self._lengths[i], thickness)
                # Hollow when pushed down, so that the sign shows without colour.
                bar.set_facecolor(PUSHED_UP if weight > 0 else "white")
                bar.set_edgecolor(PUSHED_UP if weight > 0 else PUSHED_DOWN)
            self._notes[name].set_visible(bool((weights == 0).all()))
            self._notes[name].set_text("dropped" if name == "DAPO" else "all 0")
        for i, label in enumerate(self._labels):
            label.set_visible(i < size)
            label.set_text(f"{i + 1} {_mark(self.answers[i].value)}")

    def alt(self) -> str:
        """The marks, and under which variants length tells; the numbers are in the table."""
        marks = ", ".join(
            f"answer {i + 1} {_mark(r)} with {length} tokens"
            for i, (r, length) in enumerate(zip(self.rewards, self.lengths, strict=True))
        )
        if dropped(self.rewards):
            shape = "Every panel but PPO's is empty: no answer differs from the group's mean."
        else:
            even = self._even()
            uneven = [name for name in VARIANTS if name not in even]
            shape = f"Answers that earned the same have bars of one thickness under {', '.join(even)}"
            shape += f", thinner ones the longer they are under {', '.join(uneven)}." if uneven else "."
        return (
            f"A group of {self.size.value}: {marks}. One panel a variant, with a bar for each answer as long "
            "as its tokens and as thick as the weight of one token; filled where tokens are pushed up, "
            f"hollow where down. {shape} The table has the numbers."
        )

    def _even(self) -> list[str]:
        """Variants under which tokens of answers that earned the same weigh the same."""
        rewards, lengths = self.rewards, self.lengths
        return [n for n in VARIANTS if length_bias(self._now[n], rewards, lengths)[0] < 1 + 1e-6]

    def says(self) -> str:
        """Whether the group teaches anything, and how length tells."""
        rewards, size = self.rewards, self.size.value
        if dropped(rewards):
            mark = _mark(rewards[0])
            gap = rewards[0].item() - round(self.value_baseline.value, 2)
            if gap:
                still = f"PPO's critic still pushes every token {'up' if gap > 0 else 'down'}, "
                still += f"by R − V = {number(gap, sign=True)}."
            else:
                still = "PPO's critic foresaw it too: R − V = 0."
            return (
                f"All {size} are {mark}: no baseline made of the group tells them apart, every weight is 0. "
                f"DAPO drops the group and samples another. {still}"
            )
        ratio, short, long = length_bias(self._now["GRPO"], rewards, self.lengths)
        if ratio < 1 + 1e-6:
            return (
                "DAPO keeps this group. No two answers of unlike length earned the same: length cannot tell."
            )
        return (
            f"DAPO keeps this group. Length bias: answers {short + 1} and {long + 1} are both "
            f"{_mark(rewards[short])}, yet under GRPO a token of the one with {self.lengths[short]} tokens "
            f"weighs {number(ratio)} times one of that with {self.lengths[long]}. The same weight under "
            f"{', '.join(self._even())}."
        )

    def table(self) -> str:
        """The weights in numbers, in thousandths, by answer and variant."""
        whole = self.unit.value == "answer"
        rows = []
        for i, (reward, length) in enumerate(zip(self.rewards, self.lengths, strict=True)):
            cells = [
                "dropped"
                if name == "DAPO" and dropped(self.rewards)
                else number(1000 * (pulls[i].sum() if whole else pulls[i, 0]).item(), 1, sign=True)
                for name, pulls in self._now.items()
            ]
            rows.append([f"{i + 1}: {_mark(reward)}, {length} tokens", *cells])
        head = [f"weight of {'a whole answer' if whole else 'each token'} (thousandths)", *VARIANTS]
        return table_html(head, rows)

    def _new_figure(self) -> MovingFigure:
        figure, panels = new_figure(len(VARIANTS), width=1.42, height=3.0)
        self._axes = dict(zip(VARIANTS, panels, strict=True))
        self._bars, self._notes, self._labels = {}, {}, []
        count = len(self.answers)
        with matplotlib.rc_context(STYLE):
            for name, axes in self._axes.items():
                axes.set_title(name)
                axes.set(xlim=(-0.3, max(self._lengths) + 0.5), ylim=(count - 0.5, -0.5), yticks=[])
                axes.set_xticks(range(0, max(self._lengths) + 1, 8))
                axes.spines["left"].set_visible(False)
                self._bars[name] = [
                    axes.add_patch(Rectangle((0, i), 1, 0.8, linewidth=1.4)) for i in range(count)
                ]
                middle = (max(self._lengths) / 2, 0.5)
                self._notes[name] = axes.text(
                    *middle, "", ha="center", va="center", transform=axes.get_xaxis_transform()
                )
            first = self._axes[VARIANTS[0]]
            # The widest label sets the room that the layout keeps for all of them.
            self._labels = [first.text(-0.8, i, "8 wrong", ha="right", va="center") for i in range(count)]
            figure.supxlabel(
                "tokens of the answer; thickness: weight of a token, in each panel beside its largest "
                "(filled: pushed up, hollow: pushed down)",
                fontsize=9,
            )
        bars = [bar for made in self._bars.values() for bar in made]
        return MovingFigure(figure, [*bars, *self._notes.values(), *self._labels])


def _mark(right: bool | float | Tensor) -> str:
    return "right" if right else "wrong"


def group_marker(
    right: Sequence[bool] = RIGHT,
    lengths: Sequence[int] = LENGTHS,
    group_size: int = NUM_ANSWERS,
    value: float = 0.5,
) -> GroupMarker:
    """Toggles for the answers of a group, and the weight of every token under seven variants.

    `right` and `lengths` (in tokens) are of all answers there can be, `group_size` of them are shown at
    first; `value` is what PPO's critic says. Raises ValueError for groups it cannot show.

    Source: see `token_pulls`.
    """
    if len(right) != len(lengths) or not 2 <= len(lengths) <= 8 or min(lengths) < 1:
        raise ValueError(
            f"right has {len(right)} marks and lengths is {tuple(lengths)}; give as many of one as of the "
            "other, 2 to 8, and lengths of at least 1 token"
        )
    if not 2 <= group_size <= len(lengths) or not 0 <= value <= 1:
        raise ValueError(
            f"group_size is {group_size} and value {value}; they lie between 2 and {len(lengths)}, and "
            "0 and 1"
        )
    return GroupMarker(right, lengths, group_size, value)


def static_group_marker(
    right: Sequence[bool] = RIGHT,
    lengths: Sequence[int] = LENGTHS,
    group_size: int = NUM_ANSWERS,
    value: float = 0.5,
) -> HTML:
    """What `group_marker` shows of this group, for a notebook that is only read."""
    return group_marker(right, lengths, group_size, value).static()
