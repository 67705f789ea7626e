"""Line charts of the 24-point study: each function takes its frame, returns a figure and what it shows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pandas as pd
from matplotlib.axes import Axes

from labkit.plotting import COLOURS, Drawn, Look, draw_line, new_figure
from labkit.statistics import summarise
from labkit.studies.points24.arms import CHOSEN_SFT, FORGETTING_SFT, SFT_LEARNING_RATES
from labkit.studies.points24.claims import CONTROL_STEPS

SFT = Look("SFT, lr 3e-4", COLOURS["yellow"], "-.", "^")
FAST_SFT = Look("SFT, lr 1e-3", COLOURS["orange"], "--", "s")
RL = Look("RL (GRPO)", COLOURS["blue"], "-", "o")
BASE = Look("base", COLOURS["grey"], ":", "D")
LOOKS = {
    CHOSEN_SFT: SFT,
    "grpo": RL,
    FORGETTING_SFT: FAST_SFT,
    "sft-0.0001": Look("SFT, lr 1e-4", COLOURS["purple"], ":", "v"),
    "sft-varied": Look("SFT, varied rules", COLOURS["green"], "-.", "^"),
    "reader-sft": Look("SFT, base of many rules", COLOURS["sky"], ":", "v"),
    "grpo-fast": Look("with clip", COLOURS["blue"], "-", "o"),
    "grpo-fast-unclipped": Look("without clip", COLOURS["purple"], ":", "v"),
}
LABELS = {
    "id_accuracy": "accuracy, training rule",
    "ood_accuracy": "accuracy, other rule",
    "ood_reading": "cards read right, other rule",
    "id_kl": "KL from the base (nats a response)",
}
ACCURACIES = ("id_accuracy", "ood_accuracy")


def curve(data: pd.DataFrame, arm: str, metric: str) -> pd.DataFrame:
    """Mean and interval of a metric by step, with mean compute, for one arm."""
    rows = data[data["arm"] == arm]
    summary = summarise(rows, ["step"], metric)
    compute = rows.groupby("step")["compute"].mean()
    return summary.assign(compute=summary["step"].map(compute), arm=arm, metric=metric)


def _panels(data: pd.DataFrame, arms: Sequence[str], titles: Mapping[str, str], x: str, xlabel: str) -> Drawn:
    """One panel a metric, one line an arm, the first arm's start as a dotted line."""
    figure, axes = new_figure(len(titles))
    drawn = []
    for ax, (metric, title) in zip(axes, titles.items(), strict=True):
        for arm in arms:
            summary = curve(data, arm, metric)
            draw_line(ax, summary, x, LOOKS[arm])
            drawn.append(summary)
        _mark_base(ax, data[data["arm"] == arms[0]], metric)
        ax.set(xlabel=xlabel, ylabel=LABELS[metric], ylim=(0, None), title=title)
    axes[0].legend()
    return figure, pd.concat(drawn)


def _mark_base(axes: Axes, rows: pd.DataFrame, metric: str) -> None:
    start = rows.loc[rows["step"] == 0, metric].iloc[0]
    axes.axhline(start, color=BASE.colour, linestyle=BASE.line, linewidth=1.2, label="base")


def compute_curves(data: pd.DataFrame) -> Drawn:
    """Accuracy under both rules against training compute, SFT and RL."""
    titles = {"id_accuracy": "In distribution (10)", "ood_accuracy": "Out of distribution (11, 12, 13)"}
    return _panels(data, [FORGETTING_SFT, CHOSEN_SFT, "grpo"], titles, "compute", "training compute (FLOPs)")


def learning_rates(data: pd.DataFrame) -> Drawn:
    """SFT at three learning rates."""
    titles = {"id_accuracy": "Training rule", "ood_accuracy": "Other rule", "ood_reading": "Reading"}
    return _panels(data, [f"sft-{lr:g}" for lr in SFT_LEARNING_RATES], titles, "step", "updates")


def reading(data: pd.DataFrame) -> Drawn:
    """Reading cards apart from solving, under the other rule."""
    titles = {"ood_reading": "All four cards read right", "ood_accuracy": "Solved"}
    return _panels(data, [FORGETTING_SFT, CHOSEN_SFT, "grpo"], titles, "compute", "training compute (FLOPs)")


def two_bases(data: pd.DataFrame) -> Drawn:
    """SFT at 1e-3 from a base that knows two rules, from one that reads any, and on varied rules."""
    titles = {"id_accuracy": "Training rule", "ood_accuracy": "Other rule", "ood_reading": "Reading"}
    arms = [FORGETTING_SFT, "reader-sft", "sft-varied"]
    return _panels(data[data["step"] <= CONTROL_STEPS], arms, titles, "step", "updates")


def collapse(data: pd.DataFrame) -> Drawn:
    """The failing control: four updates a batch at a high learning rate, with and without clip."""
    titles = {"id_accuracy": "Training rule", "id_kl": "Distance"}
    return _panels(data, ["grpo-fast", "grpo-fast-unclipped"], titles, "step", "RL steps")


def trade_off(data: pd.DataFrame) -> Drawn:
    """Out-of-distribution against in-distribution accuracy: the path of each run."""
    figure, (ax,) = new_figure(width=5.5, height=4)
    drawn = []
    for arm in (FORGETTING_SFT, CHOSEN_SFT, "sft-varied", "grpo"):
        look = LOOKS[arm]
        for seed, rows in data[data["arm"] == arm].groupby("seed"):
            rows = rows.sort_values("step")[["arm", "seed", "step", *ACCURACIES]]
            ax.plot(
                rows["id_accuracy"],
                rows["ood_accuracy"],
                color=look.colour,
                linestyle=look.line,
                marker=look.marker,
                markersize=3,
                linewidth=1,
                label=look.label if seed == 0 else None,
            )
            drawn.append(rows)
    ax.set(xlabel=LABELS["id_accuracy"], ylabel=LABELS["ood_accuracy"], ylim=(0, None))
    ax.set_title("One line a seed, from the base on")
    ax.legend()
    return figure, pd.concat(drawn)


def divergence(data: pd.DataFrame) -> Drawn:
    """Accuracy under both rules against the KL from the base that was spent."""
    figure, axes = new_figure(2)
    drawn = []
    for ax, metric in zip(axes, ACCURACIES, strict=True):
        for arm in (FORGETTING_SFT, CHOSEN_SFT, "grpo"):
            mean = data[data["arm"] == arm].groupby("step")[["id_kl", metric]].mean().reset_index()
            look = LOOKS[arm]
            ax.plot(
                mean["id_kl"],
                mean[metric],
                color=look.colour,
                linestyle=look.line,
                marker=look.marker,
                markersize=4,
                label=look.label,
            )
            drawn.append(mean.rename(columns={metric: "mean"}).assign(arm=arm, metric=metric))
        ax.set(xlabel=LABELS["id_kl"], ylabel=LABELS[metric], ylim=(0, None))
    axes[0].legend()
    return figure, pd.concat(drawn)
