"""Drag two distributions apart: value, bias, spread and gradient of the estimators of KL(π‖ref)."""

from __future__ import annotations

from collections.abc import Sequence

import ipywidgets as widgets
import matplotlib
import torch
from IPython.display import HTML
from matplotlib.axes import Axes
from torch import Tensor

from labkit.plotting import COLOURS, STYLE, Look, new_figure
from labkit.workshop.controls import button
from labkit.workshop.moving import FigurePanel, MovingFigure, number, slider, table_html
from labkit.workshop.ppo_kl_report import USES, KLReport, gradient_name, kl_report

TOKENS = ("a", "b", "c", "d", "e")
MAX_LOGIT = 3.0
POLICY_LOGITS, REFERENCE_LOGITS = (1.5, 0.5, 0.0, -0.5, -1.5), (0.0, 1.0, 0.5, -1.0, 0.0)

POLICY = Look("π, KL(π‖ref)", COLOURS["blue"], "-")
REFERENCE = Look("ref, KL(ref‖π)", COLOURS["orange"], (0, (3, 1.2)))
LOOKS = {
    "k1": Look("k1", COLOURS["green"], marker="o"),
    "k2": Look("k2", COLOURS["purple"], marker="s"),
    "k3": Look("k3", "#222222", marker="^"),
}


def round_limit(value: float) -> float:
    """The next of …, 0.1, 0.2, 0.5, 1, … above: an axis that changes seldom while one drags."""
    limits = [m * 10.0**e for e in range(-2, 5) for m in (1, 2, 5)]
    return next((limit for limit in limits if limit >= 1.05 * value), limits[-1])


class KLExplorer(FigurePanel):
    """The widget that `kl_explorer` makes."""

    def __init__(self, logits: Sequence[float], reference_logits: Sequence[float]) -> None:
        self._start = (tuple(logits), tuple(reference_logits))
        self._limits: tuple[float, ...] = ()
        self.policy = [_logit("π", token, value) for token, value in zip(TOKENS, logits, strict=True)]
        self.reference = [
            _logit("ref", token, value) for token, value in zip(TOKENS, reference_logits, strict=True)
        ]
        for control in (*self.policy, *self.reference):
            control.observe(self.changed, "value")
        self.equal_button = button("π = ref", self._make_equal, "Give π the logits of the reference")
        self.swap_button = button("Swap π and ref", self._swap, "Exchange the two distributions")
        self.reset_button = button("Reset", lambda: self._set(*self._start), "Back to the first logits")
        wrap = widgets.Layout(flex_flow="row wrap", align_items="center")
        # A column as wide as its content would leave a slider, which is as wide as its column, no track.
        column = widgets.Layout(width="350px", max_width="100%")
        columns = [widgets.VBox(sliders, layout=column) for sliders in (self.policy, self.reference)]
        controls = [
            widgets.HBox(columns, layout=wrap),
            widgets.HBox([self.equal_button, self.swap_button, self.reset_button], layout=wrap),
        ]
        super().__init__(controls, self._new_figure())

    @property
    def report(self) -> KLReport:
        """What the sliders make, in numbers."""
        return kl_report(*(_logits(sliders) for sliders in (self.policy, self.reference)))

    def move(self) -> None:
        """Bars, values with their spread, and gradients; both scales follow in steps."""
        self._report = report = self.report
        for bars, sliders in zip(self._bars, (self.policy, self.reference), strict=True):
            for bar, share in zip(bars, _logits(sliders).softmax(-1).tolist(), strict=True):
                bar.set_height(share)
        for line, value in zip(self._exact, (report.kl, report.reverse_kl), strict=True):
            line.set_ydata([value, value])
        ends = []
        for i, estimator in enumerate(report.estimators.values()):
            low, high = estimator.mean - estimator.std, estimator.mean + estimator.std
            self._spreads[i].set_ydata([low, high])
            self._means[i].set_ydata([estimator.mean])
            ends += [low, high]
        top = round_limit(max(*ends, report.kl, report.reverse_kl))
        bottom = -round_limit(max(0.0, -min(ends)))
        directions = (report.gradient, report.reverse_gradient)
        limit = round_limit(max(g.abs().max().item() for g in (*directions, *self._gradients(report))))
        for use, (_, lines, marks) in self._uses.items():
            for line, direction in zip(lines, directions, strict=True):
                line.set_ydata(_segments(direction))
            for mark, estimator in zip(marks, report.estimators.values(), strict=True):
                mark.set_ydata(estimator.gradients[use])
        self._set_limits(bottom, top, limit)

    def alt(self) -> str:
        """Both distributions, both divergences, the estimators' values and whose gradient is whose."""
        report = self._report
        shares = [
            ", ".join(
                f"{t} {number(p)}" for t, p in zip(TOKENS, _logits(sliders).softmax(-1).tolist(), strict=True)
            )
            for sliders in (self.policy, self.reference)
        ]
        values = "; ".join(
            f"{name} {number(e.mean)} with standard deviation {number(e.std)}"
            for name, e in report.estimators.items()
        )
        found = "; ".join(
            f"{text}: "
            + ", ".join(
                f"{k} {gradient_name(e.gradients[use], report)}" for k, e in report.estimators.items()
            )
            for use, text in USES.items()
        )
        return (
            f"Bars of π ({shares[0]}) and ref ({shares[1]}). Mean and spread of each estimator beside "
            f"KL(π‖ref) = {number(report.kl, 3)} and KL(ref‖π) = {number(report.reverse_kl, 3)}: {values}. "
            f"Expected gradients by token beside those of both divergences: {found}."
        )

    def says(self) -> str:
        """Both divergences, and which estimator is off by how much."""
        report = self._report
        wrong = [
            f"{k} by {number(e.bias, 3, True)}" for k, e in report.estimators.items() if abs(e.bias) > 5e-4
        ]
        smallest = min(report.estimators, key=lambda name: report.estimators[name].std)
        spread = "" if report.kl < 5e-4 else f" A single estimate spreads least with {smallest}."
        return (
            f"KL(π‖ref) = {number(report.kl, 3)} nats, KL(ref‖π) = {number(report.reverse_kl, 3)} nats. "
            f"Biased: {', '.join(wrong) or 'none by more than 0.0005'}.{spread}"
        )

    def table(self) -> str:
        """Expectation, bias and spread of each estimator, and whose gradient each use gives."""
        report = self._report
        head = ["estimator", "expectation", "bias", "standard deviation"]
        head += [f"gradient {text}" for text in USES.values()]
        rows = [
            [
                name,
                number(e.mean, 3),
                number(e.bias, 3, sign=True),
                number(e.std, 3),
                *(gradient_name(e.gradients[use], report) for use in USES),
            ]
            for name, e in report.estimators.items()
        ]
        return table_html(head, rows)

    def _gradients(self, report: KLReport) -> list[Tensor]:
        return [g for e in report.estimators.values() for g in e.gradients.values()]

    def _set_limits(self, bottom: float, top: float, limit: float) -> None:
        limits = (bottom, top, limit)
        if limits != self._limits:
            self._limits = limits
            self._values_axes.set_ylim(bottom, top)
            for axes, _, _ in self._uses.values():
                axes.set_ylim(-limit, limit)
            self._moving.redraw_seldom()

    def _make_equal(self) -> None:
        self._set(*(2 * [[control.value for control in self.reference]]))

    def _swap(self) -> None:
        self._set(*([control.value for control in side] for side in (self.reference, self.policy)))

    def _set(self, logits: Sequence[float], reference_logits: Sequence[float]) -> None:
        for control, value in zip((*self.policy, *self.reference), (*logits, *reference_logits), strict=True):
            control.value = value

    def _new_figure(self) -> MovingFigure:
        figure, axes = new_figure(3, 2, width=3.4, height=2.5)
        with matplotlib.rc_context(STYLE):
            self._draw_bars(axes[0])
            self._draw_values(axes[1])
            self._uses = {use: self._draw_use(a, use) for use, a in zip(USES, axes[3:], strict=True)}
            self._draw_legend(axes[2])
        uses = self._uses.values()
        return MovingFigure(
            figure,
            [
                *(bar for bars in self._bars for bar in bars),
                *self._exact,
                *self._spreads,
                *self._means,
                *(artist for _, lines, marks in uses for artist in (*lines, *marks)),
            ],
            seldom=[self._values_axes.yaxis, *(a.yaxis for a, _, _ in uses)],
        )

    def _draw_bars(self, axes: Axes) -> None:
        places = torch.arange(len(TOKENS))
        self._bars = [
            axes.bar(places - 0.2, 0, 0.38, color=POLICY.colour, label="π"),
            # Hollow, so that it differs without colour.
            axes.bar(
                places + 0.2, 0, 0.34, facecolor="white", edgecolor=REFERENCE.colour, linewidth=2, label="ref"
            ),
        ]
        axes.set(ylim=(0, 1), ylabel="probability")
        axes.set_xticks(range(len(TOKENS)), TOKENS)
        axes.set_title("Two policies over five tokens")

    def _draw_values(self, axes: Axes) -> None:
        self._values_axes = axes
        self._exact = [
            axes.plot([-0.5, 2.5], [0, 0], color=look.colour, linestyle=look.line)[0]
            for look in (POLICY, REFERENCE)
        ]
        self._spreads, self._means = [], []
        for i, look in enumerate(LOOKS.values()):
            self._spreads += axes.plot([i, i], [0, 0], color=look.colour, marker="_", markersize=9)
            self._means += axes.plot([i], [0], color=look.colour, marker=look.marker, markersize=8)
        axes.set_xticks(range(len(LOOKS)), list(LOOKS))
        axes.set(xlim=(-0.5, 2.5), ylabel="nats", ylim=(-0.05, 0.05))
        axes.set_title("Mean ± one standard deviation")

    def _draw_use(self, axes: Axes, use: str) -> tuple[Axes, list, list]:
        places = torch.arange(len(TOKENS), dtype=torch.float64)
        lines = [
            axes.plot(
                _segments_at(places, reach), _segments(0 * places), color=look.colour, linestyle=look.line,
                linewidth=2.2,
            )[0]
            for look, reach in ((POLICY, 0.42), (REFERENCE, 0.42))
        ]  # fmt: skip
        marks = [
            axes.plot(
                places + shift, 0 * places, linestyle="none", color=look.colour, marker=look.marker,
                markersize=5,
            )[0]
            for look, shift in zip(LOOKS.values(), (-0.25, 0.0, 0.25), strict=True)
        ]  # fmt: skip
        axes.set_xticks(range(len(TOKENS)), TOKENS)
        axes.set(xlim=(-0.5, len(TOKENS) - 0.5), xlabel="logit of token", ylim=(-0.05, 0.05))
        axes.set_title(f"Gradient {USES[use]}")
        # The three have one scale.
        axes.tick_params(labelleft=use == "loss")
        return axes, lines, marks

    def _draw_legend(self, axes: Axes) -> None:
        axes.axis("off")
        _, lines, marks = next(iter(self._uses.values()))
        names = ["KL(π‖ref), exact", "KL(ref‖π), exact", *LOOKS, "π", "ref"]
        axes.legend(
            [*lines, *marks, *self._bars], names, loc="upper left", labelspacing=0.25, borderaxespad=0
        )
        axes.text(
            0.02,
            -0.1,
            "Gradients in the logits of π,\nexpected over samples of π,\nby enumeration.",
            fontsize=9,
        )


def _logits(sliders: Sequence[widgets.FloatSlider]) -> Tensor:
    return torch.tensor([round(control.value, 2) for control in sliders], dtype=torch.float64)


def _logit(side: str, token: str, value: float) -> widgets.FloatSlider:
    return slider(f"{side}, logit of {token}", value, -MAX_LOGIT, MAX_LOGIT, 0.05, "400px")


def _segments_at(places: Tensor, reach: float) -> Tensor:
    gap = torch.full_like(places, torch.nan)
    return torch.stack([places - reach, places + reach, gap], -1).flatten()


def _segments(values: Tensor) -> Tensor:
    return torch.stack([values, values, torch.full_like(values, torch.nan)], -1).flatten()


def kl_explorer(
    logits: Sequence[float] = POLICY_LOGITS, reference_logits: Sequence[float] = REFERENCE_LOGITS
) -> KLExplorer:
    """Sliders for the logits of π and ref over five tokens; everything shown is exact, by enumeration.

    Values are in nats, gradients in the logits of π. Raises ValueError unless both have five logits between
    -3 and 3.

    Source: Schulman, "Approximating KL divergence" (2020); gradients: arXiv 2510.01555, 2512.21852.
    """
    for name, given in (("logits", logits), ("reference_logits", reference_logits)):
        if len(given) != len(TOKENS) or any(abs(value) > MAX_LOGIT for value in given):
            raise ValueError(
                f"{name} is {tuple(given)}; give {len(TOKENS)} numbers from {-MAX_LOGIT:g} to {MAX_LOGIT:g}"
            )
    return KLExplorer(logits, reference_logits)


def static_kl(
    logits: Sequence[float] = POLICY_LOGITS, reference_logits: Sequence[float] = REFERENCE_LOGITS
) -> HTML:
    """What `kl_explorer` shows with these logits, for a notebook that is only read."""
    return kl_explorer(logits, reference_logits).static()
