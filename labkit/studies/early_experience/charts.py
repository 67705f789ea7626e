"""Charts of the study of early experience: each takes its frame, returns a figure and the numbers drawn."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd
from matplotlib.axes import Axes

from labkit.agents.evaluation import INSIDE
from labkit.plotting import COLOURS, Drawn, Look, draw_bars, draw_line, new_figure
from labkit.studies.early_experience.arms import (
    EARLY,
    FRACTIONS,
    IMITATION,
    IWM,
    KEPT,
    LONG,
    MAIN,
    NUMBERS_OF_ALTERNATIVES,
    SR,
    WORLDS,
    arm,
)
from labkit.studies.early_experience.claims import OUTSIDE, WORLD_NAMES, at_end
from labkit.studies.episodes import bars

LABELS = {
    IMITATION: "imitation", LONG: "imitation, longer", IWM: "world model", KEPT: "world model, kept",
    "iwm-random": "random outcomes", SR: "self-reflection", "sr-shuffled": "shuffled outcomes",
}  # fmt: skip
LOOKS = {
    IMITATION: Look("imitation", COLOURS["grey"], ":", "D"),
    IWM: Look("world model first", COLOURS["blue"]),
    SR: Look("self-reflection", COLOURS["orange"], "--", "s"),
}
SETS = {
    "inside": Look("in distribution", COLOURS["blue"]),
    "outside": Look("outside", COLOURS["orange"], "--"),
}
PAPER_TABLE: Mapping[str, tuple[float, float, float]] = {
    "ALFWorld": (80.5, 85.9, 85.2),
    "SciWorld": (54.7, 57.0, 68.0),
    "TravelPlanner": (17.2, 25.0, 32.2),
    "WebShop": (47.3, 58.6, 58.2),
}
"""Percent for imitation, world model and self-reflection, 8B; Zhang et al. 2025, main table (s)."""
PAPER_DATA: Mapping[str, tuple[float, ...]] = {
    IMITATION: (25.8, 33.6, 44.6, 45.3),
    IWM: (38.3, 43.0, 51.6, 58.6),
    SR: (46.9, 54.7, 55.5, 59.4),
}
"""Percent on WebShop with 1/8, 1/4, 1/2 and all of the demonstrations (s)."""


def _sets(world: str) -> Mapping[str, Sequence[str]]:
    return {"inside": (INSIDE,), "outside": OUTSIDE[world]}


def _panels(height: float, extra: int = 1, width: float = 5.0) -> tuple:
    return new_figure(len(WORLDS) + extra, width=width, height=height)


def _paper_axes(ax: Axes, title: str) -> None:
    ax.set(title=title, ylim=(0, 1))


def main_table(data: pd.DataFrame) -> Drawn:
    """Imitation, world model, self-reflection and their controls; the paper's beside ours."""
    figure, axes = _panels(4.4)
    rows, tables = at_end(data), []
    methods = (IMITATION, LONG, IWM, KEPT, "iwm-random", SR, "sr-shuffled")
    for ax, world in zip(axes, WORLDS, strict=False):
        for i, (name, sets) in enumerate(_sets(world).items()):
            table = bars(rows, [arm(world, method) for method in methods], sets, "success")
            draw_bars(ax, np.arange(len(methods)) + 0.4 * (i - 0.5), table, SETS[name], width=0.38)
            tables.append(table)
        ax.set_xticks(range(len(methods)), [LABELS[m] for m in methods], rotation=35, ha="right")
        ax.set(title=WORLD_NAMES[world], ylim=(0, 1))
        ax.legend()
    axes[0].set(ylabel="share of goals reached")
    for i, method in enumerate(MAIN):
        values = [share[i] / 100 for share in PAPER_TABLE.values()]
        frame = pd.DataFrame({"mean": values, "low": np.nan, "high": np.nan})
        draw_bars(axes[-1], np.arange(len(values)) + 0.27 * (i - 1), frame, LOOKS[method], width=0.25)
    axes[-1].set_xticks(range(len(PAPER_TABLE)), list(PAPER_TABLE))
    _paper_axes(axes[-1], "paper: 8B models")
    axes[-1].legend()
    return figure, pd.concat(tables)


def demonstrations(data: pd.DataFrame) -> Drawn:
    """Success against the number of demonstrations."""
    figure, axes = _panels(3.6)
    rows, tables = at_end(data), []
    for ax, world in zip(axes, WORLDS, strict=False):
        most = EARLY[world].demonstrations
        for method in MAIN:
            names = [arm(world, method, f"1of{f}") if f > 1 else arm(world, method) for f in FRACTIONS]
            table = bars(rows, names, (INSIDE,), "success").assign(
                demonstrations=[most // f for f in FRACTIONS]
            )
            draw_line(ax, table, "demonstrations", LOOKS[method])
            tables.append(table)
        ax.set_xscale("log", base=2)
        ax.set_xticks([most // f for f in FRACTIONS], [str(most // f) for f in FRACTIONS])
        ax.set(title=WORLD_NAMES[world], xlabel="expert episodes", ylim=(0, 1))
    axes[0].set(ylabel="share of goals reached")
    axes[0].legend()
    for method, values in PAPER_DATA.items():
        shares = [v / 100 for v in values]
        frame = pd.DataFrame({"x": range(4), "mean": shares, "low": np.nan, "high": np.nan})
        draw_line(axes[-1], frame, "x", LOOKS[method])
    axes[-1].set_xticks(range(4), ["1/8", "1/4", "1/2", "all"])
    axes[-1].set(xlabel="share of expert episodes")
    _paper_axes(axes[-1], "paper: WebShop, 8B")
    return figure, pd.concat(tables)


def alternatives(data: pd.DataFrame) -> Drawn:
    """Success against K, the alternatives tried at each expert state."""
    figure, axes = _panels(3.4, extra=0)
    rows, tables = at_end(data), []
    for ax, world in zip(axes, WORLDS, strict=True):
        usual = EARLY[world].k
        for method in (IWM, SR):
            names = [
                arm(world, method) if k == usual else arm(world, method, f"k{k}")
                for k in NUMBERS_OF_ALTERNATIVES
            ]
            table = bars(rows, names, (INSIDE,), "success").assign(k=NUMBERS_OF_ALTERNATIVES)
            draw_line(ax, table, "k", LOOKS[method])
            tables.append(table)
        alone = bars(rows, [arm(world, IMITATION)], (INSIDE,), "success")
        flat = pd.concat([alone, alone]).assign(k=[NUMBERS_OF_ALTERNATIVES[0], NUMBERS_OF_ALTERNATIVES[-1]])
        draw_line(ax, flat, "k", LOOKS[IMITATION])
        tables.append(flat)
        ax.set_xscale("log", base=2)
        ax.set_xticks(NUMBERS_OF_ALTERNATIVES, [str(k) for k in NUMBERS_OF_ALTERNATIVES])
        ax.set(title=WORLD_NAMES[world], xlabel="K, alternatives a state", ylim=(0, 1))
    axes[0].set(ylabel="share of goals reached")
    axes[0].legend()
    return figure, pd.concat(tables)


def prediction(data: pd.DataFrame) -> Drawn:
    """How well each policy predicts what unseen actions lead to, against how often it succeeds."""
    figure, axes = _panels(3.4, extra=0)
    tables = []
    for ax, world in zip(axes, WORLDS, strict=True):
        rows = data[(data["stage"] == "experts") & (data["set"] == INSIDE)]
        looks = {
            **LOOKS,
            KEPT: Look("world model kept up", COLOURS["green"], "-", "v"),
            "iwm-random": Look("world model, random outcomes", COLOURS["purple"], "-.", "^"),
        }
        for method, look in looks.items():
            part = rows[rows["arm"] == arm(world, method)]
            most = part["predicted before imitation"].fillna(part["predicted"])
            ax.scatter(most, part["success"], color=look.colour, marker=look.marker, label=look.label)
            table = part[["arm", "seed", "predicted before imitation", "predicted", "success"]]
            tables.append(table.rename(columns={"success": "mean"}))
        ax.set(
            title=WORLD_NAMES[world],
            xlabel="next observations predicted, at best",
            xlim=(-0.03, 1.03),
            ylim=(0, 1),
        )
    axes[0].set(ylabel="share of goals reached")
    axes[0].legend(loc="upper center")
    return figure, pd.concat(tables)


def tried(data: pd.DataFrame) -> Drawn:
    """Success on validation tasks by setting."""
    figure, (ax,) = new_figure(width=10, height=4.2)
    names = list(dict.fromkeys(data["arm"]))
    table = bars(at_end(data), names, (INSIDE,), "success")
    draw_bars(ax, range(len(names)), table, Look("validation", COLOURS["blue"]), width=0.7)
    ax.set_xticks(range(len(names)), names, rotation=60, ha="right")
    ax.set(ylabel="share of goals reached", ylim=(0, 1))
    return figure, table
