"""Drag PPO's clip: the objective and its gradient as functions of the ratio, beside the paper's figure 1."""

from __future__ import annotations

from typing import NamedTuple

import ipywidgets as widgets
import matplotlib
import torch
from IPython.display import HTML
from matplotlib.axes import Axes
from torch import Tensor

from labkit.plotting import COLOURS, STYLE, Look, new_figure
from labkit.rl.losses import cispo_loss, clipped_policy_loss
from labkit.workshop.controls import choice
from labkit.workshop.moving import FigurePanel, MovingFigure, number, slider

MAX_RATIO = 3.5
DUAL_CLIP = 3.0
"""The dual clip's usual bound (Ye et al. 2020, arXiv 1912.09729)."""
PAPER_CLIP = 0.2
"""ε at which the paper's figure 1 is redrawn; the figure itself names no number."""

UNCLIPPED = Look("no clip: r·A", COLOURS["grey"], ":")
CLIPPED = Look("clip(r)·A", COLOURS["orange"], "--")
PPO = Look("PPO", COLOURS["blue"], "-")
CISPO = Look("CISPO", COLOURS["purple"], "--")


class ClipCurves(NamedTuple):
    """Objectives, which are maximised, and their gradients in log r; shapes as the ratios'."""

    unclipped: Tensor
    """`r A`"""
    clipped: Tensor
    """`clip(r, 1 - clip_low, 1 + clip_high) A`"""
    objective: Tensor
    """What PPO maximises: minus its loss."""
    gradient: Tensor
    """d objective / d log r"""
    cispo_gradient: Tensor
    """The same of CISPO's objective."""


def clip_curves(
    ratio: Tensor, advantage: float, clip_low: float, clip_high: float, dual_clip: float | None = None
) -> ClipCurves:
    """The curves of the explorer at each of the `ratio`s, gradients by autograd through labkit's losses."""
    # Log r moves from where it stands, so that the ratio stays the very number given, 0 included.
    shift = torch.zeros_like(ratio, requires_grad=True)
    moved, advantages = ratio * shift.exp(), torch.full_like(ratio, advantage)
    objective = -clipped_policy_loss(moved, advantages, clip_low, clip_high, dual_clip)
    cispo = -cispo_loss(shift, moved, advantages, clip_high)
    gradient, cispo_gradient = (torch.autograd.grad(o.sum(), shift)[0] for o in (objective, cispo))
    clipped = ratio.clamp(1 - clip_low, 1 + clip_high) * advantages
    return ClipCurves(ratio * advantages, clipped, objective.detach(), gradient, cispo_gradient)


def case_text(
    ratio: float, advantage: float, clip_low: float, clip_high: float, dual_clip: float | None = None
) -> str:
    """Which case of the clip a token is in and what it means, in words."""
    here = clip_curves(torch.tensor([ratio], dtype=torch.float64), advantage, clip_low, clip_high, dual_clip)
    gradient, cispo = number(here.gradient.item(), sign=True), number(here.cispo_gradient.item(), sign=True)
    good = advantage > 0
    sign = "A > 0" if good else "A < 0"
    after = f" CISPO's gradient is {cispo}."
    if dual_clip is not None and not good and ratio > dual_clip:
        return f"{sign} and r above the dual clip {dual_clip:g}: no gradient, the loss is bounded.{after}"
    if ratio > 1 + clip_high:
        if good:
            why = "the action is already made likelier by as much as the clip allows"
            return f"{sign} and r above 1+ε: no gradient, {why}.{after}"
        why = "the bad action has become likelier, and the smaller of the two is not the clipped one"
        return f"{sign} and r above 1+ε: full gradient {gradient}, {why}.{after}"
    if ratio < 1 - clip_low:
        if not good:
            why = "the action is already made rarer by as much as the clip allows"
            return f"{sign} and r below 1−ε: no gradient, {why}.{after}"
        why = "the good action has become rarer, and the smaller of the two is not the clipped one"
        return f"{sign} and r below 1−ε: full gradient {gradient}, {why}.{after}"
    return f"{sign} and r within the clip: gradient {gradient}, as without a clip.{after}"


class ClipExplorer(FigurePanel):
    """The widget that `clip_explorer` makes."""

    def __init__(
        self, ratio: float, advantage: float, clip_low: float, clip_high: float, dual_clip: float | None
    ) -> None:
        self.ratio = slider("ratio r", ratio, 0, MAX_RATIO, 0.01)
        self.clip_low = slider("ε low", clip_low, 0, 0.95, 0.01)
        self.clip_high = slider("ε high", clip_high, 0, 1.5, 0.01)
        self.advantage = choice("Advantage", [("A = +1", 1.0), ("A = −1", -1.0)], lambda _: self._turned())
        self.dual_clip = choice(
            "Dual clip", [("off", None), (f"c = {DUAL_CLIP:g}", DUAL_CLIP)], lambda _: self.changed()
        )
        self.advantage.value, self.dual_clip.value = advantage, dual_clip
        for control in (self.ratio, self.clip_low, self.clip_high):
            control.observe(self.changed, "value")
        self._ratios = torch.linspace(0, MAX_RATIO, 701, dtype=torch.float64)
        wrap = widgets.Layout(flex_flow="row wrap", align_items="center")
        controls = [
            widgets.HBox([self.ratio, self.clip_low, self.clip_high], layout=wrap),
            widgets.HBox([self.advantage, self.dual_clip], layout=wrap),
        ]
        super().__init__(controls, self._new_figure())

    @property
    def settings(self) -> dict[str, float | None]:
        """Arguments of `clip_curves` after the ratio, as the controls stand."""
        return {
            "advantage": self.advantage.value,
            # The browser counts in steps and may send 0.30000000000000004.
            "clip_low": round(self.clip_low.value, 2),
            "clip_high": round(self.clip_high.value, 2),
            "dual_clip": self.dual_clip.value,
        }

    def move(self) -> None:
        """Lines, clip range and point."""
        settings = self.settings
        curves = clip_curves(self._ratios, **settings)
        for name, line in self._lines.items():
            line.set_ydata(getattr(curves, name.removeprefix("free_")))
        low, high = 1 - settings["clip_low"], 1 + settings["clip_high"]
        for band in self._bands:
            band.set_x(low)
            band.set_width(high - low)
        here = self._here()
        for point, value in zip(self._points, (here.objective, here.gradient), strict=True):
            point.set_data([self.ratio.value], [value.item()])

    def alt(self) -> str:
        """Settings, the shape of both curves, the point, and figure 1."""
        settings, here = self.settings, self._here()
        low, high = number(1 - settings["clip_low"]), number(1 + settings["clip_high"])
        if settings["advantage"] > 0:
            shape = f"PPO's objective rises with r up to {high} and is flat above, where its gradient is 0"
        else:
            shape = f"PPO's objective is flat below {low}, where its gradient is 0, and falls with r above"
            if settings["dual_clip"]:
                shape += f" until the dual clip at {settings['dual_clip']:g} makes it flat again"
        return (
            f"Two panels over the ratio r from 0 to {MAX_RATIO:g}, advantage "
            f"{number(settings['advantage'], 0, sign=True)}, clip range {low} to {high}. {shape}. CISPO's "
            f"gradient is never 0 for r above 0. The point at r = {number(self.ratio.value)} has objective "
            f"{number(here.objective.item())} and gradient {number(here.gradient.item())}. Beside them the "
            "PPO paper's figure 1: for A > 0 the objective rises and is flat above 1+ε, for A < 0 it is flat "
            "below 1−ε and falls."
        )

    def says(self) -> str:
        """The case of the clip that the point is in."""
        return case_text(round(self.ratio.value, 2), **self.settings)

    def _here(self) -> ClipCurves:
        ratio = torch.tensor([round(self.ratio.value, 2)], dtype=torch.float64)
        return clip_curves(ratio, **self.settings)

    def _turned(self) -> None:
        """The sign of A has changed: the other half of the y-axis is needed."""
        if self._ready:
            self._set_limits(up=self.advantage.value > 0)
            self._moving.redraw_rest()
            self.changed()

    def _set_limits(self, up: bool) -> None:
        for axes in self._main:
            axes.set_ylim((-0.3, MAX_RATIO + 0.2) if up else (-MAX_RATIO - 0.2, 0.3))
            axes.get_legend().set_loc("upper left" if up else "lower left")

    def _new_figure(self) -> MovingFigure:
        figure, (left, right, place) = new_figure(3, width=3.4, height=3.3)
        self._main, self._bands, self._points, self._lines = (left, right), [], [], {}
        with matplotlib.rc_context(STYLE):
            self._draw_main(left, {"objective": PPO, "unclipped": UNCLIPPED, "clipped": CLIPPED})
            self._draw_main(right, {"gradient": PPO, "free_unclipped": UNCLIPPED, "cispo_gradient": CISPO})
            left.set_title("Objective (maximised)")
            right.set_title("Its gradient d / d log r")
            grid = place.get_subplotspec().subgridspec(2, 1)
            place.remove()
            for i, advantage in enumerate((1.0, -1.0)):
                draw_paper_figure(figure.add_subplot(grid[i]), advantage)
        # Laid out for A < 0, whose minus signs need the room, and then turned.
        self._set_limits(up=False)
        moving = MovingFigure(figure, [*self._bands, *self._lines.values(), *self._points])
        self._set_limits(up=self.advantage.value > 0)
        moving.redraw_rest()
        return moving

    def _draw_main(self, axes: Axes, looks: dict[str, Look]) -> None:
        self._bands.append(axes.axvspan(0.8, 1.2, color=COLOURS["sky"], alpha=0.25, linewidth=0))
        axes.axhline(0, color="black", linewidth=0.8)
        for name, look in looks.items():
            # Broad and below the others, so that one sees where they coincide.
            width = 4 if look is PPO else 1.8
            (self._lines[name],) = axes.plot(
                self._ratios, self._ratios, color=look.colour, linestyle=look.line, linewidth=width,
                label=look.label,
            )  # fmt: skip
        self._points += axes.plot([1], [1], "o", color="black", markersize=8, label="this ratio")
        axes.set_yticks(range(-int(MAX_RATIO), int(MAX_RATIO) + 1))
        axes.set(xlim=(0, MAX_RATIO), xlabel="ratio r (shaded: clip range)")
        axes.legend()


def draw_paper_figure(axes: Axes, advantage: float, clip: float = PAPER_CLIP) -> None:
    """One half of the PPO paper's figure 1 (arXiv 1707.06347): the objective of one step against r.

    Drawn anew from labkit's loss; the paper's figure marks the start of the optimisation at r = 1 too.
    """
    ratio = torch.linspace(0, 2, 201, dtype=torch.float64)
    curves = clip_curves(ratio, advantage, clip, clip)
    bound, name = (1 + clip, "1+ε") if advantage > 0 else (1 - clip, "1−ε")
    axes.plot(ratio, curves.objective, color=PPO.colour, linestyle=PPO.line)
    axes.axvline(bound, color=COLOURS["grey"], linestyle=":", linewidth=1.2)
    axes.axhline(0, color="black", linewidth=0.8)
    axes.plot([1], [advantage], "o", color=COLOURS["orange"], markersize=6)
    axes.set_xticks([0, 1, bound], ["0", "1", name])
    # Beside the mark of r = 1 there is no room for a second label under it.
    labels = axes.get_xticklabels()
    labels[1].set_horizontalalignment("right" if bound > 1 else "left")
    labels[2].set_horizontalalignment("left" if bound > 1 else "right")
    axes.set_yticks([0])
    axes.grid(False)
    axes.set_ylabel("$L^{CLIP}$")
    axes.set_title(f"PPO paper, Fig. 1: A {'>' if advantage > 0 else '<'} 0")


def clip_explorer(
    ratio: float = 1.4,
    advantage: float = 1.0,
    clip_low: float = 0.2,
    clip_high: float = 0.2,
    dual_clip: float | None = None,
) -> ClipExplorer:
    """Sliders for the ratio and both bounds of PPO's clip, toggles for the sign of A and the dual clip.

    The gradient shown is d objective / d log r, by autograd through labkit's losses. Raises ValueError for
    settings that the controls do not reach.

    Source: PPO (arXiv 1707.06347), eq. 7 and figure 1; CISPO: arXiv 2506.13585; dual clip: arXiv 1912.09729.
    """
    if advantage not in (1.0, -1.0) or dual_clip not in (None, DUAL_CLIP):
        raise ValueError(
            f"advantage is {advantage} and dual_clip {dual_clip}; they are 1 or -1, and None or {DUAL_CLIP:g}"
        )
    for name, value, high in (
        ("ratio", ratio, MAX_RATIO),
        ("clip_low", clip_low, 0.95),
        ("clip_high", clip_high, 1.5),
    ):
        if not 0 <= value <= high:
            raise ValueError(f"{name} is {value}; it lies between 0 and {high}")
    return ClipExplorer(ratio, float(advantage), clip_low, clip_high, dual_clip)


def static_clip(
    ratio: float = 1.4,
    advantage: float = 1.0,
    clip_low: float = 0.2,
    clip_high: float = 0.2,
    dual_clip: float | None = None,
) -> HTML:
    """What `clip_explorer` shows with these settings, for a notebook that is only read."""
    return clip_explorer(ratio, advantage, clip_low, clip_high, dual_clip).static()
