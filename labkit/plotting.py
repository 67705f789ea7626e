"""One style for every figure: colour-blind-safe, line style as well as colour, alt text always."""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import matplotlib
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from labkit.files import atomic_write_bytes, atomic_write_text, repo_root

COLOURS = {
    "blue": "#0072B2",
    "orange": "#D55E00",
    "green": "#009E73",
    "purple": "#AA4499",
    "sky": "#56B4E9",
    "yellow": "#B8860B",
    "grey": "#666666",
}
"""Okabe and Ito's palette, with yellow and purple darkened so that thin lines stay visible on white."""
LINE_STYLES = ("-", "--", "-.", ":", (0, (5, 1, 1, 1, 1, 1)), (0, (3, 3)))
MARKERS = ("o", "s", "^", "D", "v", "P", "X")

STYLE = {
    "figure.dpi": 110,
    "savefig.dpi": 160,
    # An opaque background keeps text readable when the page around it is dark.
    "figure.facecolor": "white",
    "savefig.facecolor": "white",
    "axes.facecolor": "white",
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "grid.color": "#E5E5E5",
    "grid.linewidth": 0.8,
    "axes.axisbelow": True,
    "axes.titlesize": 11,
    "axes.titleweight": "bold",
    "axes.titlelocation": "left",
    "axes.labelsize": 10,
    "legend.frameon": False,
    "legend.fontsize": 9,
    "lines.linewidth": 1.8,
    "font.size": 10,
    "svg.fonttype": "path",
    # Fixed ids make an unchanged figure an unchanged file.
    "svg.hashsalt": "labkit",
}


@dataclass(frozen=True)
class Look:
    """How an arm is drawn, everywhere the same."""

    label: str
    colour: str
    line: str | tuple = "-"
    marker: str = "o"


def new_figure(
    columns: int = 1, rows: int = 1, *, width: float = 4.2, height: float = 3.2, **kwargs
) -> tuple[Figure, list[Axes]]:
    """A figure in the house style with `rows * columns` axes, as a flat list; sizes in inches an axis."""
    with matplotlib.rc_context(STYLE):
        figure = Figure(figsize=(width * columns, height * rows), layout="constrained")
        axes = figure.subplots(rows, columns, squeeze=False, **kwargs)
    return figure, list(axes.flat)


def draw_line(axes: Axes, summary: pd.DataFrame, x: str, look: Look) -> None:
    """Mean with its interval band; `summary` comes from `labkit.statistics.summarise`."""
    axes.plot(
        summary[x], summary["mean"], color=look.colour, linestyle=look.line, marker=look.marker,
        markersize=4, label=look.label,
    )  # fmt: skip
    axes.fill_between(summary[x], summary["low"], summary["high"], color=look.colour, alpha=0.18, linewidth=0)


def draw_bars(
    axes: Axes, positions: Sequence[float], summary: pd.DataFrame, look: Look, width: float = 0.35
) -> None:
    """Bars with interval whiskers, hatched by look so that they differ without colour."""
    hatch = {"-": "", "--": "///", "-.": "...", ":": "xx"}.get(look.line, "\\\\")
    below, above = summary["mean"] - summary["low"], summary["high"] - summary["mean"]
    axes.bar(
        positions, summary["mean"], width, yerr=[below, above], capsize=3, label=look.label,
        color=look.colour, hatch=hatch, edgecolor="white", linewidth=0.5,
    )  # fmt: skip


@dataclass(frozen=True)
class FigureCard:
    """What the gallery says of a saved figure."""

    study: str
    name: str
    title: str
    alt: str
    """What the figure shows, for someone who cannot see it."""
    paper: str
    """The figure or table of the paper that it stands beside."""
    claims: tuple[str, ...] = ()
    """Ids of the claims it bears on."""


Drawn = tuple[Figure, pd.DataFrame]
"""A figure and the numbers drawn in it."""
Draw = Callable[[pd.DataFrame], Drawn]
"""Draws from a study's frame."""
Drawing = tuple[Draw, FigureCard]
"""A figure of a study, still to be drawn, and what the gallery says of it."""


def drawing(study: str, draw: Draw, title: str, alt: str, paper: str, *claims: str) -> Drawing:
    """`draw` with its card: the figure has the function's name, the claims are the study's own.

    `study`, `title`, `alt`, `paper`: as in `FigureCard`. `claims`: ids without the study's name.
    """
    ids = tuple(f"{study}/{claim}" for claim in claims)
    return draw, FigureCard(study, draw.__name__, title, alt, paper, ids)


def save_figure(figure: Figure, card: FigureCard, data: pd.DataFrame) -> list[Path]:
    """Write a figure as svg and png, the numbers drawn as csv and its card as json.

    Raises ValueError for a figure without alt text.
    """
    if len(card.alt.split()) < 8:
        raise ValueError(f"figure {card.name!r} needs alt text of a sentence at least, got {card.alt!r}")
    stem = repo_root() / "figures" / card.study / card.name
    paths = []
    for kind, metadata in (
        ("svg", {"Date": None, "Description": card.alt}),
        ("png", {"Description": card.alt}),
    ):
        paths.append(atomic_write_bytes(stem.with_suffix(f".{kind}"), render(figure, kind, metadata)))
    paths.append(atomic_write_text(stem.with_suffix(".csv"), data.to_csv(index=False, float_format="%.5g")))
    card_text = json.dumps(card.__dict__, indent=1, ensure_ascii=False)
    paths.append(atomic_write_text(stem.with_suffix(".json"), card_text + "\n"))
    return paths


def save_drawings(drawings: Iterable[Drawing], data: pd.DataFrame) -> list[Path]:
    """Draw from `data` and save."""
    paths = []
    for draw, card in drawings:
        figure, table = draw(data)
        paths += save_figure(figure, card, table)
    return paths


def render(
    figure: Figure, kind: str = "png", metadata: dict | None = None, dpi: float | None = None
) -> bytes:
    """The bytes of a figure as `png` or `svg`."""
    buffer = io.BytesIO()
    with matplotlib.rc_context(STYLE):
        figure.savefig(buffer, format=kind, metadata=metadata, dpi=dpi or STYLE["savefig.dpi"])
    return buffer.getvalue()
