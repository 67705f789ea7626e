"""Figures of the 24-point study, drawn from its committed full-profile data."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from labkit.plotting import COLOURS, FigureCard, Look, draw_bars, draw_line, new_figure, save_figure
from labkit.statistics import bootstrap_interval, summarise
from labkit.studies.points24.arms import CHOSEN_SFT, DATA_SIZES, SFT_LEARNING_RATES, TURNS
from labkit.studies.points24.claims import CHU, DIVERSE, RAZOR, VLAA, at
from labkit.study import load_study

SFT = Look("SFT", COLOURS["orange"], "--", "s")
RL = Look("RL (GRPO)", COLOURS["blue"], "-", "o")
BASE = Look("base", COLOURS["grey"], ":", "D")
LOOKS = {
    CHOSEN_SFT: SFT,
    "grpo": RL,
    "sft-0.0001": Look("SFT, lr 1e-4", COLOURS["yellow"], ":", "v"),
    "sft-0.001": Look("SFT, lr 1e-3", COLOURS["purple"], "-.", "^"),
    "sft-varied": Look("SFT, varied rules", COLOURS["green"], "-.", "^"),
    "sft-short-grpo": Look("short SFT, then RL", COLOURS["green"], "-.", "^"),
    "sft-long-grpo": Look("long SFT, then RL", COLOURS["purple"], ":", "v"),
    "grpo-unclipped": Look("no clip, lr 1e-3, 4 epochs", COLOURS["purple"], ":", "v"),
}
PERCENT_LABEL = {"id_accuracy": "accuracy, training rule", "ood_accuracy": "accuracy, other rule"}


def _frame(data: pd.DataFrame, arm: str, metric: str, x: str = "step") -> pd.DataFrame:
    """Mean and interval of a metric by step, with mean compute, for one arm."""
    rows = data[data["arm"] == arm]
    summary = summarise(rows, ["step"], metric)
    summary["compute"] = rows.groupby("step", sort=False)["compute"].mean().to_numpy()
    return summary.assign(arm=arm, metric=metric)


def _curves(axes: Axes, data: pd.DataFrame, arms: list[str], metric: str, x: str) -> list[pd.DataFrame]:
    drawn = []
    for arm in arms:
        summary = _frame(data, arm, metric)
        draw_line(axes, summary, x, LOOKS[arm])
        drawn.append(summary)
    return drawn


def _base_line(axes: Axes, data: pd.DataFrame, metric: str) -> None:
    start = data.loc[data["step"] == 0, metric].iloc[0]
    axes.axhline(start, color=BASE.colour, linestyle=BASE.line, linewidth=1.2, label="base")


def compute_curves(data: pd.DataFrame) -> tuple[Figure, pd.DataFrame]:
    """Accuracy under both rules against training compute, SFT and RL."""
    figure, axes = new_figure(2)
    drawn = []
    for ax, metric in zip(axes, ("id_accuracy", "ood_accuracy"), strict=True):
        drawn += _curves(ax, data, [CHOSEN_SFT, "grpo"], metric, "compute")
        _base_line(ax, data, metric)
        ax.set(xlabel="training compute (FLOPs)", ylabel=PERCENT_LABEL[metric], ylim=(0, None))
    axes[0].set_title("In distribution (faces = 10)")
    axes[1].set_title("Out of distribution (11, 12, 13)")
    axes[0].legend()
    return figure, pd.concat(drawn)


def learning_rates(data: pd.DataFrame) -> tuple[Figure, pd.DataFrame]:
    """SFT at three learning rates."""
    figure, axes = new_figure(3)
    drawn = []
    arms = [f"sft-{lr:g}" for lr in SFT_LEARNING_RATES]
    for ax, metric in zip(axes, ("id_accuracy", "ood_accuracy", "ood_reading"), strict=True):
        drawn += _curves(ax, data, arms, metric, "step")
        _base_line(ax, data, metric)
        ax.set(xlabel="updates", ylim=(0, None))
    axes[0].set_title("Accuracy, training rule")
    axes[1].set_title("Accuracy, other rule")
    axes[2].set_title("Reading cards, other rule")
    axes[2].legend()
    return figure, pd.concat(drawn)


def trade_off(data: pd.DataFrame) -> tuple[Figure, pd.DataFrame]:
    """Out-of-distribution against in-distribution accuracy: the path of each run."""
    figure, (ax,) = new_figure(width=5, height=4)
    drawn = []
    for arm in (CHOSEN_SFT, "sft-varied", "grpo"):
        look = LOOKS[arm]
        for seed, rows in data[data["arm"] == arm].groupby("seed"):
            rows = rows.sort_values("step")
            ax.plot(
                rows["id_accuracy"], rows["ood_accuracy"], color=look.colour, linestyle=look.line,
                marker=look.marker, markersize=3, linewidth=1, alpha=0.8, label=look.label if seed == 0 else None,
            )  # fmt: skip
            drawn.append(rows[["arm", "seed", "step", "id_accuracy", "ood_accuracy"]])
    ax.set(xlabel=PERCENT_LABEL["id_accuracy"], ylabel=PERCENT_LABEL["ood_accuracy"], ylim=(0, None))
    ax.set_title("One line a seed, from the base on")
    ax.legend()
    return figure, pd.concat(drawn)


def reading(data: pd.DataFrame) -> tuple[Figure, pd.DataFrame]:
    """Reading cards apart from solving, under the other rule."""
    figure, axes = new_figure(2, sharey=False)
    drawn = []
    for ax, metric in zip(axes, ("ood_reading", "ood_accuracy"), strict=True):
        drawn += _curves(ax, data, [CHOSEN_SFT, "grpo"], metric, "compute")
        ax.set(xlabel="training compute (FLOPs)", ylim=(0, None))
    axes[0].set(ylabel="share of hands", title="All four cards read right")
    axes[1].set(title="Solved")
    axes[0].legend()
    return figure, pd.concat(drawn)


def divergence(data: pd.DataFrame) -> tuple[Figure, pd.DataFrame]:
    """KL from the base that each spends for its in-distribution accuracy."""
    figure, axes = new_figure(2)
    drawn = []
    for ax, metric in zip(axes, ("id_accuracy", "ood_accuracy"), strict=True):
        for arm in (CHOSEN_SFT, "grpo"):
            mean = data[data["arm"] == arm].groupby("step", sort=False)[["id_kl", metric]].mean().reset_index()
            look = LOOKS[arm]
            ax.plot(mean["id_kl"], mean[metric], color=look.colour, linestyle=look.line, marker=look.marker,
                    markersize=4, label=look.label)  # fmt: skip
            drawn.append(mean.assign(arm=arm, metric=metric).rename(columns={metric: "mean"}))
        ax.set(xlabel="KL from the base (nats a response)", ylabel=PERCENT_LABEL[metric], ylim=(0, None))
        ax.set_xscale("symlog", linthresh=0.1)
    axes[0].legend()
    return figure, pd.concat(drawn)


def _end_bars(ax: Axes, data: pd.DataFrame, arms: dict[str, tuple[str, int | None]]) -> pd.DataFrame:
    """Bars of accuracy under both rules for `label -> (arm, step)`."""
    rows = []
    for label, (arm, step) in arms.items():
        for metric in ("id_accuracy", "ood_accuracy"):
            values = list(at(data, arm, metric, step).values())
            low, high = bootstrap_interval(values)
            rows.append({"bar": label, "metric": metric, "mean": np.mean(values), "low": low, "high": high,
                         "seeds": len(values)})  # fmt: skip
    table = pd.DataFrame(rows)
    for offset, (metric, look) in zip(
        (-0.2, 0.2),
        (("id_accuracy", Look("training rule", COLOURS["sky"])), ("ood_accuracy", Look("other rule", COLOURS["orange"], "--"))),
        strict=True,
    ):
        part = table[table["metric"] == metric]
        draw_bars(ax, np.arange(len(part)) + offset, part, look, width=0.38)
    ax.set_xticks(range(len(arms)), list(arms))
    ax.set(ylabel="accuracy", ylim=(0, None))
    return table


def data_amount(data: pd.DataFrame) -> tuple[Figure, pd.DataFrame]:
    """SFT data amount against accuracy after the same number of updates."""
    figure, (ax,) = new_figure(width=6)
    bars = {str(n): (f"sft-hands{n}", None) for n in DATA_SIZES} | {"all": (CHOSEN_SFT, 200)}
    table = _end_bars(ax, data, bars)
    _base_marks(ax, data)
    ax.set(xlabel="training hands (200 updates of 64 sequences each)")
    ax.legend()
    return figure, table


def _base_marks(ax: Axes, data: pd.DataFrame) -> None:
    for metric, colour in (("id_accuracy", COLOURS["sky"]), ("ood_accuracy", COLOURS["orange"])):
        start = data.loc[(data["step"] == 0) & (data["arm"] == "grpo"), metric].iloc[0]
        ax.axhline(start, color=colour, linestyle=":", linewidth=1.3, label=f"base, {'training' if metric[0] == 'i' else 'other'} rule")


def sft_before_rl(data: pd.DataFrame) -> tuple[Figure, pd.DataFrame]:
    """RL after no, short and long SFT."""
    figure, (ax,) = new_figure(width=6)
    table = _end_bars(
        ax,
        data,
        {
            "RL alone": ("grpo", 100),
            "short SFT + RL": ("sft-short-grpo", None),
            "long SFT + RL": ("sft-long-grpo", None),
            "long SFT": (CHOSEN_SFT, None),
        },
    )
    _base_marks(ax, data)
    ax.set_title("100 steps of RL after 0, 25 and 300 SFT updates")
    ax.legend()
    return figure, table


def turns(data: pd.DataFrame) -> tuple[Figure, pd.DataFrame]:
    """Gain of RL by the number of verify-and-revise turns, beside the paper's."""
    figure, axes = new_figure(2)
    rows = []
    for n in TURNS:
        gains = [
            100 * (b - a)
            for a, b in zip(
                at(data, f"grpo-turns{n}", "ood_accuracy_turns", 0).values(),
                at(data, f"grpo-turns{n}", "ood_accuracy_turns").values(),
                strict=True,
            )
        ]
        low, high = bootstrap_interval(gains)
        rows.append({"turns": n, "mean": np.mean(gains), "low": low, "high": high, "seeds": len(gains), "who": "ours"})
    table = pd.DataFrame(rows)
    paper = pd.DataFrame({"turns": [1, 3, 5, 10], "mean": [0.48, 2.15, 2.99, 5.99], "who": "paper"})
    draw_bars(axes[0], range(len(table)), table, RL, width=0.6)
    axes[0].set_xticks(range(len(table)), table["turns"])
    axes[1].bar(range(4), paper["mean"], 0.6, color=COLOURS["grey"])
    axes[1].set_xticks(range(4), paper["turns"])
    axes[0].set(title="Ours (0.9M parameters)", ylabel="gain under the other rule (points)", xlabel="attempts allowed")
    axes[1].set(title="Paper (GP-L)", xlabel="verification iterations")
    return figure, pd.concat([table, paper])


def beside_paper(data: pd.DataFrame) -> tuple[Figure, pd.DataFrame]:
    """Base, RL and SFT under the other rule: ours in both directions, and the paper's table."""
    figure, axes = new_figure(3, width=3.4)
    tables = []
    for ax, (title, sft, rl) in zip(
        axes, (("Ours, 10 → 11/12/13", CHOSEN_SFT, "grpo"), ("Ours, 11/12/13 → 10", "reverse-sft", "reverse-grpo")),
        strict=False,
    ):  # fmt: skip
        rows = []
        for label, arm, step in (("base", rl, 0), ("RL", rl, None), ("SFT", sft, None)):
            values = [100 * v for v in at(data, arm, "ood_accuracy", step).values()]
            low, high = bootstrap_interval(values)
            rows.append({"who": title, "bar": label, "mean": np.mean(values), "low": low, "high": high, "seeds": len(values)})
        table = pd.DataFrame(rows)
        _three_bars(ax, table)
        ax.set_title(title)
        tables.append(table)
    paper = pd.DataFrame({"who": "paper", "bar": ["base", "RL", "SFT"], "mean": [11.5, 15.0, 3.4]})
    _three_bars(axes[2], paper.assign(low=paper["mean"], high=paper["mean"]))
    axes[2].set_title("Paper, GP-L (7B to 11B)")
    axes[0].set_ylabel("accuracy, other rule (%)")
    return figure, pd.concat([*tables, paper])


def _three_bars(ax: Axes, table: pd.DataFrame) -> None:
    for position, (_, row) in enumerate(table.iterrows()):
        look = {"base": BASE, "RL": RL, "SFT": SFT}[row["bar"]]
        draw_bars(ax, [position], pd.DataFrame([row]), look, width=0.65)
        ax.text(position, row["high"], f" {row['mean']:.1f}", ha="center", va="bottom", fontsize=9)
    ax.set_xticks(range(3), table["bar"])
    ax.margins(y=0.15)


def outcomes(data: pd.DataFrame) -> tuple[Figure, pd.DataFrame]:
    """What becomes of responses under the other rule, before and after."""
    figure, (ax,) = new_figure(width=6.4)
    kinds = {
        "correct": ("solved", "blue", ""),
        "wrong_value": ("other value", "sky", "//"),
        "wrong_numbers": ("wrong numbers", "yellow", ".."),
        "misread_cards": ("cards misread", "orange", "xx"),
        "illegal": ("false arithmetic", "purple", "\\\\"),
        "no_answer": ("no answer", "grey", "--"),
    }
    bars = [("base", "grpo", 0), ("RL", "grpo", None), ("SFT", CHOSEN_SFT, None), ("SFT, varied rules", "sft-varied", None)]
    rows = []
    for label, arm, step in bars:
        for kind in kinds:
            share = float(np.mean(list(at(data, arm, f"ood_outcome_{kind}", step).values())))
            rows.append({"bar": label, "outcome": kind, "mean": share})
    table = pd.DataFrame(rows)
    left = np.zeros(len(bars))
    for kind, (text, colour, hatch) in kinds.items():
        width = table[table["outcome"] == kind]["mean"].to_numpy()
        ax.barh([b[0] for b in bars], width, left=left, color=COLOURS[colour], hatch=hatch, edgecolor="white",
                label=text)  # fmt: skip
        left += width
    ax.invert_yaxis()
    ax.set(xlabel="share of responses under the other rule", xlim=(0, 1))
    ax.legend(ncols=3, loc="upper center", bbox_to_anchor=(0.45, -0.18))
    return figure, table


def collapse(data: pd.DataFrame) -> tuple[Figure, pd.DataFrame]:
    """The failing control: several epochs a batch without clip at a high learning rate."""
    figure, axes = new_figure(2)
    drawn = []
    trimmed = data[data["step"] <= 100]
    for ax, metric in zip(axes, ("id_accuracy", "id_entropy"), strict=True):
        drawn += _curves(ax, trimmed, ["grpo", "grpo-unclipped"], metric, "step")
        _base_line(ax, data, metric)
        ax.set(xlabel="RL steps", ylim=(0, None))
    axes[0].set(title="Accuracy, training rule")
    axes[1].set(title="Entropy (nats a token)")
    axes[0].legend()
    return figure, pd.concat(drawn)


def tried(tuning: pd.DataFrame) -> tuple[Figure, pd.DataFrame]:
    """Every setting tried, on validation hands."""
    last = tuning.sort_values("step").groupby("arm", sort=False).tail(1)
    last = last.sort_values("id_accuracy")[["arm", "step", "id_accuracy", "ood_accuracy"]]
    figure, (ax,) = new_figure(width=7, height=0.32 * len(last) + 1)
    for offset, metric, colour, hatch in ((0.2, "id_accuracy", "sky", ""), (-0.2, "ood_accuracy", "orange", "///")):
        ax.barh(np.arange(len(last)) + offset, last[metric], 0.38, color=COLOURS[colour], hatch=hatch,
                edgecolor="white", label=PERCENT_LABEL[metric])  # fmt: skip
    ax.set_yticks(range(len(last)), last["arm"])
    ax.set(xlabel="accuracy on validation hands at the last step (one seed)")
    ax.legend(loc="lower right")
    return figure, last


_CARDS = {
    "beside_paper": (
        beside_paper, "Base, RL and SFT under the other rule",
        "Three bar charts of accuracy under the rule not trained on, for base, RL and SFT: ours in both "
        "directions, and the paper's 11.5, 15.0 and 3.4 percent.",
        f"{CHU}, Table 1 (GP-L)", ("points24/rl-raises-ood", "points24/sft-lowers-ood", "points24/sft-lowers-ood-reverse"),
    ),
    "compute_curves": (
        compute_curves, "Accuracy against training compute",
        "Two line charts of accuracy against training compute for SFT and RL, on the left under the training "
        "rule, on the right under the other rule.",
        f"{CHU}, Fig. 5", ("points24/rl-raises-ood", "points24/sft-lowers-ood"),
    ),
    "trade_off": (
        trade_off, "The path of each run",
        "Accuracy under the other rule against accuracy under the training rule, one line a seed, for SFT, SFT "
        "with varied rules, and RL, all from the same base.",
        f"{CHU}, Fig. 5; {DIVERSE}", ("points24/rl-better-at-matched-id", "points24/varied-rules-help-sft"),
    ),
    "reading": (
        reading, "Reading cards apart from solving",
        "Two line charts against training compute under the other rule: share of hands whose four cards are read "
        "right, and share solved, for SFT and RL.",
        f"{CHU}, Fig. 8 (recognition against success)", (),
    ),
    "divergence": (
        divergence, "KL spent for accuracy",
        "Two line charts of accuracy, under the training rule and under the other, against the KL divergence from "
        "the base, for SFT and RL.",
        f"{RAZOR}", ("points24/rl-spends-less-kl",),
    ),
    "learning_rates": (
        learning_rates, "SFT at three learning rates",
        "Three line charts against updates for SFT at three learning rates: accuracy under the training rule, "
        "under the other rule, and cards read right under the other rule.",
        f"{CHU}, Fig. 16 and 17 (SFT ablations)", ("points24/sft-lowers-ood",),
    ),
    "outcomes": (
        outcomes, "What goes wrong under the other rule",
        "Stacked bars of the outcomes of responses under the other rule, for the base, RL, SFT and SFT with varied "
        "rules: solved, other value, wrong numbers, cards misread, false arithmetic, no answer.",
        f"{CHU}, Fig. 11 (failure examples)", (),
    ),
    "data_amount": (
        data_amount, "SFT data amount",
        "Bars of accuracy under both rules after 200 SFT updates, by number of training hands, with the base as "
        "dotted lines.",
        f"{VLAA}, Fig. 4 (SFT data scale)", ("points24/more-sft-data-hurts-ood",),
    ),
    "sft_before_rl": (
        sft_before_rl, "SFT before RL",
        "Bars of accuracy under both rules for RL alone, RL after short SFT, RL after long SFT, and long SFT alone, "
        "with the base as dotted lines.",
        f"{VLAA}, Table 4", ("points24/long-sft-hurts-rl",),
    ),
    "turns": (
        turns, "Verify and revise",
        "Two bar charts of the gain by RL under the other rule against the number of attempts allowed: ours on the "
        "left, the paper's on the right.",
        f"{CHU}, Fig. 10", ("points24/more-turns-gain-more",),
    ),
    "collapse": (
        collapse, "A failing control: no clip",
        "Two line charts against RL steps, accuracy under the training rule and entropy, for GRPO with clip and for "
        "GRPO without clip at a higher learning rate.",
        "none: a control of ours", ("points24/no-clip-collapses",),
    ),
}  # fmt: skip


def draw_figures() -> list[Path]:
    """Draw and save every figure; needs the full-profile data of the study and of its tuning."""
    from labkit.studies.points24 import STUDY
    from labkit.studies.points24.tuning import STUDY as TUNING

    data = load_study(STUDY, "full")
    paths = []
    for name, (draw, title, alt, paper, claims) in _CARDS.items():
        figure, table = draw(data)
        paths += save_figure(figure, FigureCard("points24", name, title, alt, paper, claims), table)
    figure, table = tried(load_study(TUNING, "full"))
    card = FigureCard(
        "points24", "tried", "What was tried",
        "Bars of accuracy on validation hands under both rules for each setting of SFT and GRPO that was tried.",
        "none: the choice of settings",
    )  # fmt: skip
    return paths + save_figure(figure, card, table)
