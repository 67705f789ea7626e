"""Charts of the study of policy-gradient variants: each takes its frame, returns a figure and its numbers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd
import torch
from matplotlib.axes import Axes
from scipy.stats import binom

from labkit.plotting import COLOURS, Drawn, Look, draw_bars, draw_line, new_figure
from labkit.rl.advantages import group_advantages
from labkit.statistics import summarise
from labkit.studies.ppo_grpo.arms import CLIPS, GROUP_SIZES, GRPO, KL_COEFS, STEPS
from labkit.studies.ppo_grpo.claims import LAST_STEPS

LABELS = {
    "reward": "share solved in training",
    "id_accuracy": "accuracy, training rule",
    "ood_accuracy": "accuracy, other rule",
    "id_kl": "KL from the base (nats a response)",
    "clipped": "share of tokens clipped",
    "batches": "batches of 128 sampled a step",
}
LOOKS = {
    "grpo": Look("GRPO", COLOURS["blue"], "-", "o"),
    "ppo": Look("PPO, value head", COLOURS["orange"], "--", "s"),
    "ppo-separate": Look("PPO, critic of its own", COLOURS["purple"], "-.", "^"),
    "clip-0.1": Look("clip 0.1", COLOURS["sky"], "-.", "^"),
    "clip-0.2": Look("clip 0.2", COLOURS["blue"], "-", "o"),
    "clip-none": Look("no clip", COLOURS["orange"], ":", "v"),
    "reuse-cispo": Look("CISPO", COLOURS["green"], "--", "s"),
    "reuse-gspo": Look("GSPO", COLOURS["purple"], (0, (5, 1, 1, 1)), "D"),
    "kl-0.03": Look("0.03", COLOURS["sky"], "-.", "^"),
    "kl-0.1": Look("0.1", COLOURS["blue"], "-", "o"),
    "kl-0.3": Look("0.3", COLOURS["green"], "--", "s"),
    "kl-1.0": Look("1", COLOURS["orange"], ":", "v"),
}
ALGORITHM_LABELS = {
    "grpo": "GRPO",
    "grpo-no-std": "GRPO, no std",
    "dr_grpo": "Dr.GRPO",
    "rloo": "RLOO",
    "dapo": "DAPO",
    "gspo": "GSPO",
    "cispo": "CISPO",
    "ppo": "PPO, head",
    "ppo-separate": "PPO, critic",
}
ESTIMATOR_LABELS = {
    "grpo": "no penalty",
    "k1-loss": "k1, loss",
    "k2-loss": "k2, loss",
    "kl-0.3": "k3, loss",
    "exact-loss": "exact, loss",
    "k1-ratio": "k1 × ratio",
    "k3-ratio": "k3 × ratio",
    "k1-reward": "k1, reward",
}
WINDOW = 10
EVERY_STEP = ("reward", "batches")
"""What is measured at each step, so that its last value alone would be noise."""


def _curve(data: pd.DataFrame, arm: str, metric: str) -> pd.DataFrame:
    """Mean over seeds with its interval by step; what is measured each step is averaged over ten."""
    rows = data[(data["arm"] == arm) & data[metric].notna()]
    if rows["step"].nunique() > 2 * WINDOW:
        rows = rows.assign(step=((rows["step"] - 1) // WINDOW + 1) * WINDOW)
    return summarise(rows, ["step"], metric).assign(arm=arm, metric=metric)


def _panels(data: pd.DataFrame, arms: Sequence[str], metrics: Mapping[str, str]) -> Drawn:
    figure, axes = new_figure(len(metrics))
    drawn = []
    for ax, (metric, title) in zip(axes, metrics.items(), strict=True):
        for arm in arms:
            # Without a clip nothing is clipped, and nothing of it was measured.
            if data.loc[data["arm"] == arm, metric].notna().any():
                summary = _curve(data, arm, metric)
                draw_line(ax, summary, "step", LOOKS[arm])
                drawn.append(summary)
        ax.set(xlabel="steps", ylabel=LABELS[metric], ylim=(0, None), title=title)
    axes[0].legend()
    return figure, pd.concat(drawn)


def final(data: pd.DataFrame, arms: Sequence[str], metric: str) -> pd.DataFrame:
    """Mean over seeds of an arm's last value (reward: of its last steps), with interval: a row an arm."""
    tables = []
    for arm in arms:
        rows = data[(data["arm"] == arm) & data[metric].notna()]
        last = rows["step"].max()
        rows = rows[rows["step"] > last - LAST_STEPS] if metric in EVERY_STEP else rows[rows["step"] == last]
        tables.append(summarise(rows.assign(step=last), ["step"], metric).assign(arm=arm, metric=metric))
    return pd.concat(tables)


def _named_bars(ax: Axes, table: pd.DataFrame, labels: Mapping[str, str], look: Look) -> None:
    draw_bars(ax, range(len(table)), table, look, 0.7)
    ax.set_xticks(range(len(table)), [labels[arm] for arm in table["arm"]], rotation=40, ha="right")
    ax.set_ylabel(LABELS[table["metric"].iloc[0]])


PLAIN = Look("", COLOURS["blue"])


def critic_or_group(data: pd.DataFrame) -> Drawn:
    """GRPO against PPO with either critic."""
    metrics = {"reward": "In training", "id_accuracy": "Held-out hands", "ood_accuracy": "Other rule"}
    return _panels(data, ["grpo", "ppo", "ppo-separate"], metrics)


def variants(data: pd.DataFrame) -> Drawn:
    """What each algorithm reaches in the same number of steps, and how many batches it samples a step."""
    figure, axes = new_figure(3, height=3.6)
    titles = ("In training", "Held-out hands", "Sampled")
    tables = []
    for ax, metric, title in zip(axes, ("reward", "id_accuracy", "batches"), titles, strict=True):
        table = final(data, list(ALGORITHM_LABELS), metric)
        _named_bars(ax, table, ALGORITHM_LABELS, PLAIN)
        ax.set_title(title)
        tables.append(table)
    return figure, pd.concat(tables)


def group_sizes(data: pd.DataFrame) -> Drawn:
    """Group size at equal samples: learning, noise of the baseline and of the gradient, silent groups."""
    figure, axes = new_figure(4, width=3.6)
    arms = {("grpo" if s == GRPO.group_size else f"group-{s}"): s for s in GROUP_SIZES}
    learned = final(data[data["step"] <= STEPS["groups"]], list(arms), "reward")
    learned["group_size"] = learned["arm"].map(arms)
    draw_line(axes[0], learned, "group_size", LOOKS["grpo"])
    noise = data[data["arm"] == "noise"]
    tables = [learned]
    for ax, metric in zip(axes[1:], ("baseline_std", "agreement_grpo", "groups_without_signal"), strict=True):
        summary = summarise(noise, ["step"], metric).assign(metric=metric)
        draw_line(ax, summary, "step", LOOKS["grpo"])
        tables.append(summary)
    titles = ("Learning", "Noise of the baseline", "Agreement", "Silence")
    labels = (LABELS["reward"], "std of the group mean", "cosine between gradients", "groups without signal")
    for ax, title, label in zip(axes, titles, labels, strict=True):
        ax.set_xscale("log", base=2)
        ax.set(xlabel="group size", xticks=GROUP_SIZES, ylabel=label, ylim=(0, None), title=title)
        ax.set_xticklabels(map(str, GROUP_SIZES))
        ax.minorticks_off()
    return figure, pd.concat(tables)


def mean_push(rate: float, size: int, scale_by_std: bool) -> float:
    """Mean |advantage| of one of `size` completions that are each right with probability `rate`: exact."""
    rewards = (torch.arange(size) < torch.arange(size + 1)[:, None]).double()  # row k: k of them right
    pushes = [group_advantages(r, size, scale_by_std=scale_by_std).abs().mean().item() for r in rewards]
    return float(binom.pmf(range(size + 1), size, rate) @ pushes)


def std_bias(data: pd.DataFrame) -> Drawn:
    """How hard a prompt pushes, by its success rate, with the std and without; what is learned."""
    figure, axes = new_figure(2)
    rates = np.linspace(0.01, 0.99, 50)
    looks = {True: LOOKS["grpo"], False: Look("no std", COLOURS["orange"], "--", "s")}
    exact = []
    for scaled, look in looks.items():
        push = [mean_push(rate, GRPO.group_size, scaled) for rate in rates]
        axes[0].plot(rates, push, color=look.colour, linestyle=look.line, label=look.label)
        exact.append(pd.DataFrame({"rate": rates, "mean": push, "metric": "push", "arm": look.label}))
    axes[0].set(xlabel="success rate of the prompt", ylabel="mean |advantage|", ylim=(0, None))
    axes[0].set_title(f"Difficulty bias (groups of {GRPO.group_size}, exact)")
    axes[0].legend()
    table = final(data, ["grpo", "grpo-no-std"], "reward")
    _named_bars(axes[1], table, ALGORITHM_LABELS, PLAIN)
    axes[1].set_title("In training")
    return figure, pd.concat([table, *exact])


def clip(data: pd.DataFrame) -> Drawn:
    """Eight updates a batch, with clips of two widths and none, and with CISPO's and GSPO's."""
    arms = [*(f"clip-{c}" for c in CLIPS), "clip-none", "reuse-cispo", "reuse-gspo"]
    metrics = {"reward": "In training", "id_kl": "Distance"}
    figure, table = _panels(data, arms, metrics | {"clipped": "Clipped"})
    return figure, table


def kl_coefficient(data: pd.DataFrame) -> Drawn:
    """KL coefficient (k3 in the loss) against drift and learning."""
    metrics = {"id_kl": "Distance", "reward": "In training"}
    return _panels(data, [f"kl-{c}" for c in KL_COEFS], metrics)


def kl_estimators(data: pd.DataFrame) -> Drawn:
    """The estimators at one coefficient: what each spends, and what it learns."""
    at_end = data[data["step"] <= STEPS["kl"]]
    figure, axes = new_figure(2, height=3.6)
    tables = []
    for ax, metric, title in zip(axes, ("id_kl", "reward"), ("Distance", "In training"), strict=True):
        table = final(at_end, list(ESTIMATOR_LABELS), metric)
        _named_bars(ax, table, ESTIMATOR_LABELS, PLAIN)
        ax.set_title(title)
        tables.append(table)
    axes[0].set_yscale("log")  # one of them runs away by a factor of a hundred
    return figure, pd.concat(tables)


def tried(data: pd.DataFrame) -> Drawn:
    """Reward in training and accuracy on validation hands of each setting that was tried."""
    figure, axes = new_figure(2, width=6, height=3.8)
    arms = list(dict.fromkeys(data["arm"]))
    tables = [final(data, arms, metric) for metric in ("reward", "id_accuracy")]
    for ax, table in zip(axes, tables, strict=True):
        _named_bars(ax, table, {arm: arm for arm in arms}, PLAIN)
    return figure, pd.concat(tables)
