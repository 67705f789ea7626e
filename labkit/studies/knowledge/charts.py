"""Charts of fine-tuning in the knowledge study: each takes its frame, returns figure and numbers drawn."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd
from matplotlib.axes import Axes

from labkit.knowledge.categories import CATEGORIES
from labkit.plotting import COLOURS, Drawn, Look, draw_bars, draw_line, new_figure
from labkit.statistics import summarise
from labkit.studies.knowledge.arms import (
    FILTERED,
    REFUSING,
    SHARES,
    SHUFFLED,
    SINGLES,
    filtered_arm,
    share_arm,
    single_arm,
)
from labkit.studies.knowledge.claims import (
    HALF,
    OUTSIDE,
    SHARE_ARMS,
    TEST,
    answered_accuracy,
)
from labkit.studies.knowledge.frames import (
    CONVERGED,
    EARLY,
    STOPS,
    at_start,
    at_stop,
    checkpoints,
    linear_fits,
    summary,
)

KNOWN_LOOK = Look("training facts, Known", COLOURS["blue"], "--", "s")
UNKNOWN_LOOK = Look("training facts, Unknown", COLOURS["orange"], "-.", "^")
TEST_LOOK = Look("test facts", COLOURS["green"], "-", "o")
STOP_LOOKS = {
    EARLY: Look("early stop", COLOURS["sky"], "-", "o"),
    CONVERGED: Look("convergence", COLOURS["purple"], "--", "s"),
}
START_LOOK = Look("before fine-tuning", COLOURS["grey"], ":", "D")
PAPER_SINGLES = {
    "HighlyKnown": (40.5, 40.0),
    "MaybeKnown": (43.6, 43.2),
    "WeaklyKnown": (39.2, 35.4),
    "Unknown": (37.5, 25.8),
    "natural": (43.5, 41.8),
}
"""Test accuracy in percent at early stop and convergence, Gekhman et al. 2024, Table 2 (full test set)."""
PAPER_LINEAR = {TEST: (36.9, 7.3, -8.3), OUTSIDE: (36.2, 3.2, -3.0)}
"""Intercept and coefficients of Known and Unknown fitted, in points, sections 4.3 and 4.4."""
EPOCHS = (5, 10)
"""Epoch counts drawn between the two stops."""


def _mark_start(ax: Axes, data: pd.DataFrame, metric: str = TEST) -> None:
    mean = np.mean(list(at_start(data, HALF, metric).values()))
    ax.axhline(mean, color=START_LOOK.colour, linestyle=":", linewidth=1.4, label=START_LOOK.label)


def learning(data: pd.DataFrame) -> Drawn:
    """Training and test accuracy by epoch at half Unknown, and with answers shuffled."""
    figure, axes = new_figure(2, width=4.8, height=3.6, sharey=True)
    tables = []
    for ax, arm, title in zip(
        axes, (HALF, SHUFFLED), ("Half Known, half Unknown", "The same, answers shuffled"), strict=True
    ):
        rows = data[data["arm"] == arm]
        for metric, look in (("train_known", KNOWN_LOOK), ("train_unknown", UNKNOWN_LOOK), (TEST, TEST_LOOK)):
            table = summarise(rows, ["step"], metric).assign(arm=arm, metric=metric)
            draw_line(ax, table, "step", look)
            tables.append(table)
        stop = np.mean(list(at_stop(data, arm, "step", EARLY).values()))
        ax.axvline(stop, color=START_LOOK.colour, linestyle=":", linewidth=1.4, label="early stop (mean)")
        ax.set(title=title, xlabel="epoch", ylim=(0, 1.02))
    axes[0].set_ylabel("accuracy")
    figure.legend(*axes[0].get_legend_handles_labels(), loc="outside lower center", ncols=4)
    return figure, pd.concat(tables)


def _by_share(data: pd.DataFrame, metric: str, stop: str | int, shares: Mapping[int, str]) -> pd.DataFrame:
    """Mean and interval of a metric by percent Unknown (percent -> arm), at a stop or after some epochs."""
    rows = []
    for percent, arm in shares.items():
        if isinstance(stop, str):
            values = at_stop(data, arm, metric, stop)
        else:
            part = data[(data["arm"] == arm) & (data["step"] == stop)]
            values = dict(zip(part["seed"], part[metric], strict=True))
        rows.append(summary(list(values.values()), percent=percent, arm=arm, metric=metric, stop=stop))
    return pd.DataFrame(rows)


ALL_SHARES = {p: share_arm(p) for p in SHARES}
FILTERED_SHARES = {0: share_arm(0)} | {p: filtered_arm(p) for p in FILTERED}


def shares(data: pd.DataFrame) -> Drawn:
    """Test accuracy against the share of Unknown by epochs, and with the Unknown facts left out."""
    figure, (left, right) = new_figure(2, width=4.8, height=3.8, sharey=True)
    looks = {
        EARLY: STOP_LOOKS[EARLY],
        **{n: Look(f"{n} epochs", COLOURS[c], m, k) for n, (c, m, k) in
           zip(EPOCHS, (("green", "-.", "^"), ("yellow", ":", "v")), strict=True)},
        CONVERGED: STOP_LOOKS[CONVERGED],
    }  # fmt: skip
    tables = []
    for stop, look in looks.items():
        table = _by_share(data, TEST, stop, ALL_SHARES)
        draw_line(left, table, "percent", look)
        tables.append(table)
    for stop in STOPS:
        whole = _by_share(data, TEST, stop, ALL_SHARES)
        alone = _by_share(data, TEST, stop, FILTERED_SHARES)
        look = STOP_LOOKS[stop]
        draw_line(right, whole, "percent", Look(f"with Unknown, {stop}", look.colour, look.line, look.marker))
        draw_line(right, alone, "percent", Look(f"Known alone, {stop}", COLOURS["blue"], look.line, "X"))
        tables.append(alone)
    left.set(title="All facts", xlabel="percent Unknown", ylabel="test accuracy")
    right.set(title="Unknown facts left out", xlabel="percent Unknown, before leaving them out")
    for ax in (left, right):
        _mark_start(ax, data)
        ax.set_xticks(SHARES)
        ax.legend(loc="lower left", fontsize=8)
    return figure, pd.concat(tables)


def fitted(data: pd.DataFrame) -> Drawn:
    """Shares of Known and of Unknown training facts that are fitted at the two stops, by percent Unknown."""
    figure, axes = new_figure(2, width=4.6, height=3.4, sharey=True)
    tables = []
    for ax, stop in zip(axes, STOPS, strict=True):
        for metric, look in (("train_known", KNOWN_LOOK), ("train_unknown", UNKNOWN_LOOK)):
            missing = {"train_known": 100, "train_unknown": 0}[metric]
            arms = {p: arm for p, arm in ALL_SHARES.items() if p != missing}
            table = _by_share(data, metric, stop, arms)
            draw_line(ax, table, "percent", look)
            tables.append(table)
        ax.set(title=f"At {stop}", xlabel="percent Unknown", ylim=(0, 1.05))
        ax.set_xticks(SHARES)
    axes[0].set_ylabel("share fitted")
    figure.legend(*axes[0].get_legend_handles_labels(), loc="outside lower center", ncols=2)
    return figure, pd.concat(tables)


def linear(data: pd.DataFrame) -> Drawn:
    """Test accuracy as the linear model has it and as measured; its coefficients beside the paper's."""
    figure, (left, right) = new_figure(2, width=4.8, height=3.8)
    fits = linear_fits(data, SHARE_ARMS, TEST)
    for arm, (colour, marker) in zip(
        SHARE_ARMS,
        (("blue", "o"), ("sky", "s"), ("green", "^"), ("yellow", "D"), ("orange", "v")),
        strict=True,
    ):
        rows = checkpoints(data, [arm])
        predicted = np.concatenate(
            [fits[s].predict(r["fitted_known"], r["fitted_unknown"]) for s, r in rows.groupby("seed")]
        )
        measured = np.concatenate([r[TEST] for _, r in rows.groupby("seed")])
        left.scatter(
            predicted, measured, 14, COLOURS[colour], marker=marker, alpha=0.6, linewidths=0,
            label=f"{arm.removeprefix('share-')} % Unknown",
        )  # fmt: skip
    limits = left.get_xlim()
    left.plot(limits, limits, color=START_LOOK.colour, linestyle=":", linewidth=1.2)
    left.set(title="One fit a seed, over its epochs", xlabel="predicted", ylabel="test accuracy")
    left.legend(fontsize=8)
    table = _coefficients(data)
    ours = table[table["who"] == "ours"]
    positions = np.arange(len(ours))
    draw_bars(right, positions - 0.2, ours, Look("ours", COLOURS["blue"]), width=0.38)
    paper = table[table["who"] == "paper"]
    draw_bars(right, positions + 0.2, paper, Look("paper", COLOURS["grey"], "--"), width=0.38)
    right.set_xticks(
        positions, [f"{c}\n{s}" for c, s in zip(ours["coefficient"], ours["facts"], strict=True)]
    )
    right.axhline(0, color="black", linewidth=0.8)
    right.set(title="Coefficients", ylabel="points of accuracy")
    right.tick_params(axis="x", labelsize=8)
    right.legend()
    return figure, table


def _coefficients(data: pd.DataFrame) -> pd.DataFrame:
    rows = []
    for metric, name in ((TEST, "in distr."), (OUTSIDE, "out of distr.")):
        fits = linear_fits(data, SHARE_ARMS, metric).values()
        for place, coefficient in ((1, "known"), (2, "unknown")):
            labels = {"facts": name, "coefficient": coefficient}
            values = [100 * getattr(fit, coefficient) for fit in fits]
            r_squared = float(np.mean([fit.r_squared for fit in fits]))
            rows.append(summary(values, who="ours", r_squared=r_squared, **labels))
            value = PAPER_LINEAR[metric][place]
            rows.append({"who": "paper", **labels, "mean": value, "low": value, "high": value})
    return pd.DataFrame(rows)


def single_categories(data: pd.DataFrame) -> Drawn:
    """Test accuracy after training on one category: ours, and the paper's table 2."""
    figure, axes = new_figure(2, width=5.0, height=3.8)
    positions = np.arange(len(SINGLES))
    tables = []
    for i, stop in enumerate(STOPS):
        ours = pd.DataFrame(
            summary(
                [100 * v for v in at_stop(data, single_arm(c), TEST, stop).values()],
                who="ours", category=c, stop=stop,
            )
            for c in SINGLES
        )  # fmt: skip
        values = [PAPER_SINGLES[c][i] for c in SINGLES]
        theirs = pd.DataFrame(
            {"who": "paper", "category": SINGLES, "stop": stop, "mean": values, "low": values, "high": values}
        )
        for ax, table in zip(axes, (ours, theirs), strict=True):
            draw_bars(ax, positions + 0.4 * (i - 0.5), table, STOP_LOOKS[stop], width=0.38)
            tables.append(table)
    axes[0].axhline(
        100 * np.mean(list(at_start(data, HALF, TEST).values())),
        color=START_LOOK.colour, linestyle=":", label=START_LOOK.label,
    )  # fmt: skip
    for ax, title in zip(axes, ("Ours (controlled twins)", "Paper (PaLM 2-M)"), strict=True):
        ax.set_xticks(positions, [c.replace("Known", "\nKnown").strip() for c in SINGLES], fontsize=8)
        ax.set(title=title)
    axes[0].set_ylabel("test accuracy (%)")
    figure.legend(*axes[0].get_legend_handles_labels(), loc="outside lower center", ncols=3)
    return figure, pd.concat(tables)


def refusing(data: pd.DataFrame) -> Drawn:
    """With Unknown facts relabelled: accuracy on what is answered, and what is answered, by category."""
    figure, (left, right) = new_figure(2, width=4.6, height=3.6)
    arms = {HALF: "answers taught", REFUSING: '"I don\'t know" taught'}
    tables = []
    for i, stop in enumerate(STOPS):
        table = pd.DataFrame(
            summary(list(answered_accuracy(data, arm, stop).values()), arm=arm, stop=stop, category="all")
            for arm in arms
        )
        draw_bars(left, np.arange(len(arms)) + 0.4 * (i - 0.5), table, STOP_LOOKS[stop], width=0.38)
        table_right = pd.DataFrame(
            summary(
                list(at_stop(data, REFUSING, f"{TEST}_answered_{c}", stop).values()),
                arm=REFUSING, stop=stop, category=str(c),
            )
            for c in CATEGORIES
        )  # fmt: skip
        draw_bars(right, np.arange(4) + 0.4 * (i - 0.5), table_right, STOP_LOOKS[stop], width=0.38)
        tables += [table.assign(metric="accuracy"), table_right.assign(metric="answered")]
    left.set_xticks(range(len(arms)), arms.values())
    left.axhline(0.618, color=START_LOOK.colour, linestyle="--", label="paper, relabelled: 61.8 %")
    left.set(title="Right, of those answered", ylabel="accuracy", ylim=(0, 1.02))
    right.set_xticks(range(4), [str(c).replace("Known", "\nKnown").strip() for c in CATEGORIES], fontsize=8)
    right.set(title="Answered, by category of the test fact", ylabel="share answered", ylim=(0, 1.02))
    figure.legend(*left.get_legend_handles_labels(), loc="outside lower center", ncols=3)
    return figure, pd.concat(tables)


def outside(data: pd.DataFrame) -> Drawn:
    """Accuracy in and out of distribution against the share of Unknown, at the two stops."""
    figure, axes = new_figure(2, width=4.6, height=3.5, sharey=True)
    tables = []
    for ax, metric, title in zip(
        axes, (TEST, OUTSIDE), ("Relations trained on", "The relation kept apart"), strict=True
    ):
        for stop in STOPS:
            table = _by_share(data, metric, stop, ALL_SHARES)
            draw_line(ax, table, "percent", STOP_LOOKS[stop])
            tables.append(table)
        _mark_start(ax, data, metric)
        ax.set(title=title, xlabel="percent Unknown")
        ax.set_xticks(SHARES)
    axes[0].set_ylabel("accuracy")
    figure.legend(*axes[0].get_legend_handles_labels(), loc="outside lower center", ncols=3)
    return figure, pd.concat(tables)


def forgotten(data: pd.DataFrame) -> Drawn:
    """Accuracy on test facts by what was known of them before, against the share of Unknown."""
    figure, axes = new_figure(2, width=4.6, height=3.5, sharey=True)
    looks = dict(zip(map(str, CATEGORIES), CATEGORY_LOOKS, strict=True))
    tables = []
    for ax, stop in zip(axes, STOPS, strict=True):
        for category, look in looks.items():
            table = _by_share(data, f"{TEST}_{category}", stop, ALL_SHARES)
            draw_line(ax, table, "percent", look)
            tables.append(table)
        ax.set(title=f"At {stop}", xlabel="percent Unknown in training", ylim=(-0.02, 1.02))
        ax.set_xticks(SHARES)
    axes[0].set_ylabel("test accuracy")
    figure.legend(*axes[0].get_legend_handles_labels(), loc="outside lower center", ncols=4)
    return figure, pd.concat(tables)


CATEGORY_LOOKS = (
    Look("HighlyKnown", COLOURS["blue"], "-", "o"),
    Look("MaybeKnown", COLOURS["green"], "--", "s"),
    Look("WeaklyKnown", COLOURS["yellow"], "-.", "^"),
    Look("Unknown", COLOURS["orange"], ":", "v"),
)


def tried(data: pd.DataFrame) -> Drawn:
    """Accuracy on validation facts at both stops for every setting tried."""
    figure, (ax,) = new_figure(width=8, height=3.6)
    arms: Sequence[str] = list(dict.fromkeys(data["arm"]))
    tables = []
    for i, stop in enumerate(STOPS):
        table = pd.DataFrame(
            summary(list(at_stop(data, arm, "validation", stop).values()), arm=arm, stop=stop) for arm in arms
        )
        draw_bars(ax, np.arange(len(arms)) + 0.4 * (i - 0.5), table, STOP_LOOKS[stop], width=0.38)
        tables.append(table)
    ax.set_xticks(range(len(arms)), [arm.replace("-batch", "\nbatch ") for arm in arms], fontsize=8)
    ax.set(ylabel="accuracy, validation facts, one seed")
    ax.legend(ncols=2, loc="upper right")
    return figure, pd.concat(tables)
