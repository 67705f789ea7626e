"""Charts of what `python -m labkit run speed` measured."""

from __future__ import annotations

from pathlib import Path

import pandas as pd

from labkit.files import repo_root
from labkit.plotting import COLOURS, FigureCard, new_figure, save_figure

NAMES = {"grpo": "GRPO", "ppo": "PPO,\nvalue head", "ppo-separate": "PPO, critic\nof its own"}


def measured(name: str) -> pd.DataFrame:
    """A committed table of times; FileNotFoundError, with the command that makes it, if there is none."""
    path = repo_root() / "figures" / "speed" / f"{name}.csv"
    if not path.exists():
        raise FileNotFoundError(f"no times in {path}; `python -m labkit run speed --profile full` makes them")
    return pd.read_csv(path)


def critic_cost(table: pd.DataFrame):
    """Seconds, memory and parameters of a step of GRPO and of PPO with either critic."""
    figure, axes = new_figure(3, width=3.4)
    labels = {
        "seconds": "seconds a step",
        "peak_mib": "memory at the peak (MiB)",
        "parameters": "parameters",
    }
    for ax, (column, label) in zip(axes, labels.items(), strict=True):
        ax.bar(range(len(table)), table[column], 0.6, color=COLOURS["blue"])
        ax.set_xticks(range(len(table)), [NAMES[arm] for arm in table["arm"]])
        ax.set_ylabel(label)
    return figure


def step_time(table: pd.DataFrame):
    """Seconds of a step, sampling and training apart, as one thing grows at a time.

    Sizes double from point to point: on logarithmic axes they lie evenly, and growth in proportion is a line
    that rises by one doubling a doubling.
    """
    kinds = list(dict.fromkeys(table["varies"]))
    figure, axes = new_figure(len(kinds))
    for ax, kind in zip(axes, kinds, strict=True):
        rows = table[table["varies"] == kind]
        for column, colour, line, marker in (
            ("sampling", COLOURS["orange"], "--", "s"),
            ("training", COLOURS["blue"], "-", "o"),
        ):
            ax.plot(rows["value"], rows[column], color=colour, linestyle=line, marker=marker, label=column)
        for value, seconds, share in zip(
            rows["value"], rows["training"], rows["share_of_matmul_rate"], strict=True
        ):
            # To the left, clear of the lines, which all rise.
            ax.annotate(f"{share:.0%}", (value, seconds), (-4, 4), textcoords="offset points", ha="right")
        ax.set_xscale("log", base=2)
        ax.set_yscale("log", base=2)
        ax.set_xticks(rows["value"], rows["value"].astype(str))
        ax.yaxis.set_major_formatter("{x:g}")
        ax.margins(0.16, 0.1)
        ax.set(xlabel=kind, ylabel="seconds a step")
    axes[0].legend()
    return figure


def draw_figures() -> list[Path]:
    """Draw and save both, from the committed tables."""
    shapes, critics = measured("shapes_measured"), measured("critics_measured")
    cost_card = FigureCard(
        "speed",
        "critic_cost",
        "What a critic costs",
        "Three bar charts for GRPO, PPO with a value head and PPO with a critic of its own: seconds a step, "
        "memory at the peak, and parameters.",
        "DeepSeekMath (arXiv 2402.03300), section 4.1: says that the critic costs memory and compute",
    )
    time_card = FigureCard(
        "speed",
        "step_time",
        "How a step grows",
        "Three line charts, all axes logarithmic, of seconds for sampling and for training in a step, "
        "against group size, completion length and model width; at each point the share of the machine's "
        "matmul rate.",
        "none: measured here",
    )
    return [
        *save_figure(critic_cost(critics), cost_card, critics),
        *save_figure(step_time(shapes), time_card, shapes),
    ]
