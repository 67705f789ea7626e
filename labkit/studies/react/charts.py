"""Charts of the ReAct study: each function takes its frame, returns a figure and the numbers drawn."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd
from matplotlib.axes import Axes

from labkit.agents.evaluation import BUDGETS
from labkit.agents.react import FAILURES
from labkit.plotting import COLOURS, Drawn, Look, draw_bars, draw_line, new_figure
from labkit.studies.episodes import bars
from labkit.studies.react.arms import (
    ACT_ONLY,
    BOTH,
    EXPERT,
    FORGETFUL,
    NOISY,
    NONE,
    RANDOM,
    SUMMARY,
    THINK_ONLY,
    WINDOW,
)
from labkit.studies.react.claims import ALIASED, HELD_OUT, INSIDE, UNALIASED

LABELS = {
    BOTH: "full history", WINDOW: "last step", SUMMARY: "actions only", NONE: "none",
    FORGETFUL: "no thoughts", ACT_ONLY: "acts only", THINK_ONLY: "thinks only", RANDOM: "chance",
    NOISY: "expert, 30 % noise", EXPERT: "expert",
}  # fmt: skip
LOOKS = {
    ALIASED: Look("aliased tasks", COLOURS["blue"]),
    UNALIASED: Look("unaliased tasks", COLOURS["orange"], "--", "s"),
}
KINDS = dict(
    zip(
        FAILURES,
        (
            ("purple", ""),
            ("orange", "//"),
            ("sky", ".."),
            ("yellow", "xx"),
            ("green", "\\\\"),
            ("grey", "--"),
        ),
        strict=True,
    )
)
PAPER = {
    "ALFWorld": {"acts only": 45.0, "thinks and acts": 71.0},
    "WebShop": {"acts only": 30.1, "thinks and acts": 40.0},
    "FEVER": {"thinks only": 56.3, "acts only": 58.9, "thinks and acts": 60.9},
    "HotpotQA": {"thinks only": 29.4, "acts only": 25.7, "thinks and acts": 27.4},
}
"""Percent, Yao et al. 2022, Tables 1, 3 and 4 (PaLM-540B, prompted; ALFWorld: best of six prompts)."""


def _grouped(ax: Axes, data: pd.DataFrame, arms: Sequence[str]) -> pd.DataFrame:
    """Bars of success: a group an arm, a bar a set."""
    tables = []
    for i, (name, look) in enumerate(LOOKS.items()):
        table = bars(data, arms, [name], "success")
        draw_bars(ax, np.arange(len(arms)) + 0.4 * (i - 0.5), table, look, width=0.38)
        tables.append(table)
    ax.set_xticks(range(len(arms)), [LABELS[arm] for arm in arms])
    ax.set(ylabel="share of goals reached", ylim=(0, 1))
    return pd.concat(tables)


def history(data: pd.DataFrame) -> Drawn:
    """What is shown of the history against success, by whether the task needs it."""
    figure, (ax,) = new_figure(width=8.5, height=3.8)
    table = _grouped(ax, data, (BOTH, FORGETFUL, SUMMARY, WINDOW, NONE, RANDOM))
    ax.set(xlabel="what the policy is shown of h")
    ax.legend(ncols=3, loc="upper center", bbox_to_anchor=(0.5, -0.18))
    return figure, table


def thoughts(data: pd.DataFrame) -> Drawn:
    """Acting, thinking, or both; the paper's numbers beside ours."""
    figure, (ours, theirs) = new_figure(2, width=5.2, height=3.8)
    arms = (THINK_ONLY, ACT_ONLY, BOTH)
    table = _grouped(ours, data, arms)
    ours.set_xticks(range(3), ["thinks only", "acts only", "thinks and acts"])
    ours.set(title="here: tiny policies, cloned")
    ours.legend(loc="upper center", bbox_to_anchor=(0.5, -0.1))
    _paper(theirs)
    theirs.set(title="paper: PaLM-540B, prompted")
    return figure, table


def _paper(ax: Axes) -> None:
    names = ("thinks only", "acts only", "thinks and acts")
    looks = [
        Look(names[0], COLOURS["yellow"], ":"), Look(names[1], COLOURS["grey"], "--"),
        Look(names[2], COLOURS["green"]),
    ]  # fmt: skip
    for i, look in enumerate(looks):
        values = [PAPER[task].get(look.label, np.nan) / 100 for task in PAPER]
        frame = pd.DataFrame({"mean": values, "low": values, "high": values})
        draw_bars(ax, np.arange(len(PAPER)) + 0.27 * (i - 1), frame, look, width=0.25)
    ax.set_xticks(range(len(PAPER)), list(PAPER))
    ax.set(ylabel="success, or exact match", ylim=(0, 1))
    ax.legend(loc="upper center", bbox_to_anchor=(0.5, -0.1))


def budget(data: pd.DataFrame) -> Drawn:
    """Success against the budget of steps."""
    figure, axes = new_figure(2, width=4.6, height=3.6, sharey=True)
    looks = {
        EXPERT: Look(LABELS[EXPERT], COLOURS["grey"], ":", "D"),
        BOTH: Look("thinks and acts", COLOURS["blue"]),
        ACT_ONLY: Look(LABELS[ACT_ONLY], COLOURS["orange"], "--", "s"),
        NONE: Look("without history", COLOURS["purple"], "-.", "^"),
        RANDOM: Look(LABELS[RANDOM], COLOURS["sky"], ":", "v"),
    }
    tables = []
    for ax, name in zip(axes, INSIDE, strict=True):
        for arm, look in looks.items():
            points = [bars(data, [arm], [name], f"within {b}").assign(budget=b) for b in BUDGETS]
            table = pd.concat(points)
            draw_line(ax, table, "budget", look)
            tables.append(table)
        ax.set(title=LOOKS[name].label, xlabel="steps allowed", ylim=(0, 1.02))
    axes[0].set(ylabel="share of goals reached")
    figure.legend(*axes[0].get_legend_handles_labels(), loc="outside lower center", ncols=5)
    return figure, pd.concat(tables)


def failures(data: pd.DataFrame) -> Drawn:
    """Share of episodes with each kind of failure, by policy; an episode may have several."""
    figure, axes = new_figure(2, width=5.4, height=4.0, sharey=True)
    arms = (BOTH, ACT_ONLY, THINK_ONLY, NONE, NOISY, RANDOM)
    tables = []
    for ax, name in zip(axes, INSIDE, strict=True):
        for i, (kind, (colour, hatch)) in enumerate(KINDS.items()):
            table = bars(data, arms, [name], f"failure {kind}")
            ax.bar(
                np.arange(len(arms)) + 0.14 * (i - 2.5), table["mean"], 0.13, label=kind,
                color=COLOURS[colour], hatch=hatch, edgecolor="white", linewidth=0.4,
            )  # fmt: skip
            tables.append(table)
        ax.set_xticks(range(len(arms)), [LABELS[arm].replace(", ", ",\n") for arm in arms], rotation=30)
        ax.set(title=LOOKS[name].label, ylim=(0, 1))
    axes[0].set(ylabel="share of episodes")
    figure.legend(*axes[0].get_legend_handles_labels(), loc="outside lower center", ncols=6)
    return figure, pd.concat(tables)


def outside(data: pd.DataFrame) -> Drawn:
    """Success in the distribution that was demonstrated, and for goals outside it."""
    figure, (ax,) = new_figure(width=8, height=3.8)
    arms = (BOTH, WINDOW, SUMMARY, ACT_ONLY, NONE, RANDOM)
    looks = {
        INSIDE: Look("in distribution", COLOURS["blue"]),
        (HELD_OUT,): Look("goals held out", COLOURS["orange"], "--"),
    }
    tables = []
    for i, (sets, look) in enumerate(looks.items()):
        table = bars(data, arms, sets, "success")
        draw_bars(ax, np.arange(len(arms)) + 0.4 * (i - 0.5), table, look, width=0.38)
        tables.append(table)
    ax.set_xticks(range(len(arms)), [LABELS[arm] for arm in arms])
    ax.set(ylabel="share of goals reached", ylim=(0, 1))
    ax.legend(ncols=2, loc="upper center", bbox_to_anchor=(0.5, -0.1))
    return figure, pd.concat(tables)


def tried(data: pd.DataFrame) -> Drawn:
    """Success on validation tasks by setting."""
    figure, (ax,) = new_figure(width=8, height=3.8)
    arms = list(dict.fromkeys(data["arm"]))
    tables = []
    for i, (name, look) in enumerate(LOOKS.items()):
        table = bars(data, arms, [name], "success")
        draw_bars(ax, np.arange(len(arms)) + 0.4 * (i - 0.5), table, look, width=0.38)
        tables.append(table)
    ax.set_xticks(range(len(arms)), [arm.replace("-", "\n") for arm in arms])
    ax.set(ylabel="share of goals reached", ylim=(0, 1))
    ax.legend()
    return figure, pd.concat(tables)
