"""Bar charts of the 24-point study: each function takes its frame, returns a figure and what it shows."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes

from labkit.plotting import COLOURS, Drawn, Look, draw_bars, new_figure
from labkit.statistics import bootstrap_interval
from labkit.studies.points24.arms import CHOSEN_SFT, DATA_SIZES, FORGETTING_SFT, TURNS
from labkit.studies.points24.claims import END_OF_DATA_STUDY, RL_STEPS_COMPARED, at
from labkit.studies.points24.curves import BASE, FAST_SFT, LABELS, RL, SFT

RULE_LOOKS = {
    "id_accuracy": Look("training rule", COLOURS["sky"]),
    "ood_accuracy": Look("other rule", COLOURS["orange"], "--"),
}
OUTCOMES = {
    "correct": ("solved", "blue", ""),
    "wrong_value": ("other value", "sky", "//"),
    "wrong_numbers": ("wrong numbers", "yellow", ".."),
    "misread_cards": ("cards misread", "orange", "xx"),
    "illegal": ("false arithmetic", "purple", "\\\\"),
    "no_answer": ("no answer", "grey", "--"),
}
PAPER_TURNS = {1: 0.48, 3: 2.15, 5: 2.99, 10: 5.99}
"""Gain in points by verification iterations, Chu et al. 2025, Fig. 10."""
PAPER_OOD = {"base": 11.5, "RL": 15.0, "SFT": 3.4}
"""Success in percent out of distribution, GP-L, Chu et al. 2025 (from secondary sources)."""


def _row(values: Iterable[float], **labels: Any) -> dict[str, Any]:
    """A bar: mean and bootstrap interval over seeds, with labels."""
    values = list(values)
    low, high = bootstrap_interval(values)
    return {**labels, "mean": float(np.mean(values)), "low": low, "high": high, "seeds": len(values)}


def _both_rules(ax: Axes, data: pd.DataFrame, bars: Mapping[str, tuple[str, int | None]]) -> pd.DataFrame:
    """Bars of accuracy under both rules for `label -> (arm, step)`, the base as dotted lines."""
    table = pd.DataFrame(
        _row(at(data, arm, metric, step).values(), bar=label, metric=metric)
        for label, (arm, step) in bars.items()
        for metric in RULE_LOOKS
    )
    for offset, (metric, look) in zip((-0.2, 0.2), RULE_LOOKS.items(), strict=True):
        draw_bars(ax, np.arange(len(bars)) + offset, table[table["metric"] == metric], look, width=0.38)
        start = next(iter(at(data, "grpo", metric, 0).values()))
        label = f"base, {look.label}"
        ax.axhline(start, color=look.colour, linestyle=":", linewidth=1.3, label=label)
    ax.set_xticks(range(len(bars)), list(bars))
    ax.set(ylabel="accuracy", ylim=(0, None))
    ax.legend(ncols=2, loc="upper center", bbox_to_anchor=(0.5, -0.2))
    return table


def data_amount(data: pd.DataFrame) -> Drawn:
    """SFT data amount against accuracy after the same number of updates."""
    figure, (ax,) = new_figure(width=6, height=3.8)
    bars = {str(n): (f"sft-hands{n}", None) for n in DATA_SIZES} | {
        "all": (FORGETTING_SFT, END_OF_DATA_STUDY)
    }
    table = _both_rules(ax, data, bars)
    ax.set(xlabel=f"training hands ({END_OF_DATA_STUDY} updates of 64 sequences each)")
    return figure, table


def sft_before_rl(data: pd.DataFrame) -> Drawn:
    """RL after no, short and long SFT."""
    figure, (ax,) = new_figure(width=6, height=3.8)
    bars = {
        "RL alone": ("grpo", RL_STEPS_COMPARED),
        "short SFT + RL": ("sft-short-grpo", None),
        "long SFT + RL": ("sft-long-grpo", None),
        "long SFT": (FORGETTING_SFT, None),
    }
    table = _both_rules(ax, data, bars)
    ax.set_title(f"{RL_STEPS_COMPARED} steps of RL after no, short and long SFT")
    return figure, table


def turns(data: pd.DataFrame) -> Drawn:
    """Gain of RL by the number of verify-and-revise turns, beside the paper's."""
    figure, axes = new_figure(2)
    rows = []
    for number in TURNS:
        arm, metric = f"grpo-turns{number}", "ood_accuracy_turns"
        first, last = at(data, arm, metric, 0), at(data, arm, metric)
        rows.append(_row((100 * (last[s] - first[s]) for s in last), turns=number, who="ours"))
    ours = pd.DataFrame(rows)
    paper = pd.DataFrame({"turns": list(PAPER_TURNS), "mean": list(PAPER_TURNS.values()), "who": "paper"})
    draw_bars(axes[0], range(len(ours)), ours, RL, width=0.6)
    axes[1].bar(range(len(paper)), paper["mean"], 0.6, color=COLOURS["grey"])
    axes[0].set(title="Ours (0.9M parameters)", xlabel="attempts allowed")
    axes[0].set_ylabel("gain under the other rule (points)")
    axes[1].set(title="Paper (GP-L)", xlabel="verification iterations")
    for ax, table in zip(axes, (ours, paper), strict=True):
        ax.set_xticks(range(len(table)), table["turns"])
        ax.axhline(0, color="black", linewidth=0.8)
    return figure, pd.concat([ours, paper])


def beside_paper(data: pd.DataFrame) -> Drawn:
    """Base, RL and SFT under the other rule: ours in both directions, and the paper's table."""
    figure, axes = new_figure(3, width=3.4)
    panels = {
        "Ours, 10 → 11/12/13": {
            "base": ("grpo", 0),
            "RL": ("grpo", None),
            "SFT 3e-4": (CHOSEN_SFT, None),
            "SFT 1e-3": (FORGETTING_SFT, None),
        },
        "Ours, 11/12/13 → 10": {
            "base": ("reverse-grpo", 0),
            "RL": ("reverse-grpo", None),
            "SFT 1e-3": ("reverse-sft", None),
        },
    }
    looks = {"base": BASE, "RL": RL, "SFT 3e-4": SFT, "SFT 1e-3": FAST_SFT, "SFT": FAST_SFT}
    tables = []
    for title, bars in panels.items():
        tables.append(
            pd.DataFrame(
                _row((100 * v for v in at(data, arm, "ood_accuracy", step).values()), who=title, bar=bar)
                for bar, (arm, step) in bars.items()
            )
        )
    paper = pd.DataFrame({"who": "Paper, GP-L", "bar": list(PAPER_OOD), "mean": list(PAPER_OOD.values())})
    tables.append(paper.assign(low=np.nan, high=np.nan))
    for ax, table in zip(axes, tables, strict=True):
        for position, (_, row) in enumerate(table.iterrows()):
            draw_bars(ax, [position], pd.DataFrame([row]), looks[row["bar"]], width=0.65)
            top = np.nanmax([row["mean"], row["high"]])
            ax.text(position, top, f"{row['mean']:.1f}", ha="center", va="bottom", fontsize=9)
        ax.set_xticks(range(len(table)), table["bar"])
        ax.set_title(table["who"].iloc[0])
        ax.margins(y=0.15)
    axes[0].set_ylabel("accuracy, other rule (%)")
    return figure, pd.concat(tables)


def outcomes(data: pd.DataFrame) -> Drawn:
    """What becomes of responses under the other rule, before and after."""
    figure, (ax,) = new_figure(width=6.6, height=3.6)
    bars = {
        "base": ("grpo", 0),
        "RL": ("grpo", None),
        "SFT, lr 3e-4": (CHOSEN_SFT, None),
        "SFT, lr 1e-3": (FORGETTING_SFT, None),
        "SFT 1e-3, varied rules": ("sft-varied", None),
    }
    table = pd.DataFrame(
        {
            "bar": label,
            "outcome": kind,
            "mean": float(np.mean(list(at(data, arm, f"ood_outcome_{kind}", step).values()))),
        }
        for label, (arm, step) in bars.items()
        for kind in OUTCOMES
    )
    left = np.zeros(len(bars))
    for kind, (text, colour, hatch) in OUTCOMES.items():
        width = table[table["outcome"] == kind]["mean"].to_numpy()
        ax.barh(
            list(bars), width, left=left, color=COLOURS[colour], hatch=hatch, edgecolor="white", label=text
        )
        left += width
    ax.invert_yaxis()
    ax.set(xlabel="share of responses under the other rule", xlim=(0, 1))
    ax.legend(ncols=3, loc="upper center", bbox_to_anchor=(0.45, -0.2))
    return figure, table


def tried(tuning: pd.DataFrame) -> Drawn:
    """Every setting tried, on validation hands."""
    last = tuning.sort_values("step").groupby("arm", sort=False).tail(1)
    last = last.sort_values("id_accuracy")[["arm", "step", *RULE_LOOKS]]
    figure, (ax,) = new_figure(width=7, height=0.34 * len(last) + 1)
    for offset, (metric, look) in zip((0.2, -0.2), RULE_LOOKS.items(), strict=True):
        hatch = "///" if look.line == "--" else ""
        ax.barh(
            np.arange(len(last)) + offset,
            last[metric],
            0.38,
            color=look.colour,
            hatch=hatch,
            edgecolor="white",
            label=LABELS[metric],
        )
    ax.set_yticks(range(len(last)), last["arm"])
    ax.set(xlabel="accuracy, validation hands, one seed")
    ax.legend(loc="lower right")
    return figure, last
