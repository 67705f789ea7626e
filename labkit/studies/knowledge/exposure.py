"""Charts of what the twins know before any fine-tuning: by exposure, and when asked again."""

from __future__ import annotations

import numpy as np
import pandas as pd

from labkit.knowledge.categories import CATEGORIES
from labkit.plotting import COLOURS, Drawn, new_figure
from labkit.studies.knowledge.arms import BASE
from labkit.studies.knowledge.frames import summary

FILLS = dict(
    zip(
        map(str, CATEGORIES),
        (("blue", ""), ("green", "//"), ("yellow", ".."), ("orange", "xx")),
        strict=True,
    )
)
"""Colour and hatch of a category."""


def table_of(data: pd.DataFrame, name: str) -> pd.DataFrame:
    """One of the tables that the base arm reports: `dose`, `again` or `own form`; ValueError for none."""
    rows = data[data["arm"] == BASE]
    rows = rows[rows["table"] == name] if "table" in rows else rows
    if rows.empty or "table" not in data:
        raise ValueError(f"no table {name!r} of the arm {BASE!r} in this frame")
    return rows


def exposure(data: pd.DataFrame) -> Drawn:
    """Share of the facts of each dose in each category."""
    rows = table_of(data, "dose")
    counts = rows.groupby(["seed", "dose", "category"], sort=False)["facts"].sum().unstack("category")
    shares = counts.div(counts.sum(axis=1), axis=0)
    stated = rows.groupby("dose", sort=False)["stated"].mean()
    figure, (ax,) = new_figure(width=7.2, height=3.4)
    left = np.zeros(len(stated))
    tables = []
    labels = [f"{dose}\n({number:.3g} times)" for dose, number in stated.items()]
    for category, (colour, hatch) in FILLS.items():
        table = pd.DataFrame(
            summary(shares[category].xs(dose, level="dose").tolist(), dose=dose, category=category)
            for dose in stated.index
        )
        ax.barh(
            labels, table["mean"], left=left, color=COLOURS[colour], hatch=hatch, edgecolor="white",
            label=category,
        )  # fmt: skip
        left += table["mean"].to_numpy()
        tables.append(table.assign(stated=stated.to_numpy()))
    ax.invert_yaxis()
    ax.set(xlabel="share of facts", xlim=(0, 1), ylabel="how often stated")
    ax.grid(axis="y", visible=False)
    ax.legend(ncols=4, loc="upper center", bbox_to_anchor=(0.45, -0.2))
    return figure, pd.concat(tables)


def stability(data: pd.DataFrame) -> Drawn:
    """Of the facts of a category, how many have which one with other exemplars and samples."""
    rows = table_of(data, "again")
    names = list(map(str, CATEGORIES))
    counts = rows.pivot_table(index="category", columns="second", values="facts", aggfunc="sum")
    counts = counts.loc[names, names]
    shares = counts.div(counts.sum(axis=1).clip(lower=1), axis=0)
    figure, (ax,) = new_figure(width=5.2, height=4)
    image = ax.imshow(shares, cmap="Blues", vmin=0, vmax=1)
    for i, first in enumerate(names):
        for j, second in enumerate(names):
            share = shares.loc[first, second]
            colour = "white" if share > 0.5 else "black"
            ax.text(j, i, f"{share:.0%}", ha="center", va="center", color=colour)
    ax.set_xticks(range(4), names, fontsize=8)
    ax.set_yticks(range(4), names, fontsize=8)
    ax.set(xlabel="asked again, with other exemplars and samples", ylabel="first time")
    ax.grid(visible=False)
    figure.colorbar(image, ax=ax, label="share of the row", shrink=0.8)
    per_seed = [
        float(np.trace(part.pivot(index="category", columns="second", values="facts").loc[names, names]))
        / part["facts"].sum()
        for _, part in rows.groupby("seed")
    ]
    kept = summary(per_seed)
    ax.set_title(f"{kept['mean']:.0%} [{kept['low']:.0%}, {kept['high']:.0%}] keep their category")
    table = shares.stack().rename("mean").reset_index()
    return figure, pd.concat([table, pd.DataFrame([{**kept, "category": "all", "second": "the same"}])])
