"""Reading the study's frame: where a run stops early, where it has converged, fits over its checkpoints.

Source of the two stops: Gekhman et al. 2024 (arXiv 2405.05904), section 4: the epoch with the best accuracy
on development facts, and the end, when all training facts are fitted.
"""

from __future__ import annotations

from collections.abc import Sequence

import pandas as pd

from labkit.knowledge.mixing import LinearFit, fit_linear
from labkit.statistics import bootstrap_interval

EARLY, CONVERGED = "early stop", "convergence"
STOPS = (EARLY, CONVERGED)


def early_stop(validation: Sequence[float]) -> int:
    """Epoch to stop at, given the accuracy on validation facts before training and after each epoch.

    The first of the best ones; the start, epoch 0, does not count. Raises `ValueError` if there is no epoch.
    """
    epochs = list(validation)[1:]
    if not epochs:
        raise ValueError(f"{len(validation)} measurements; the start and at least one epoch are needed")
    return 1 + epochs.index(max(epochs))


def stop_row(rows: pd.DataFrame, stop: str) -> pd.Series:
    """The row of one run where it stops: `EARLY`, by `early_stop`, or `CONVERGED`, the last.

    Raises `ValueError` for another stop or a run without epochs.
    """
    if stop not in STOPS:
        raise ValueError(f"stop {stop!r}; accepted are {EARLY!r} and {CONVERGED!r}")
    ordered = rows.sort_values("step")
    best = early_stop(ordered["validation"].tolist())
    return ordered.iloc[best if stop == EARLY else -1]


def at_stop(frame: pd.DataFrame, arm: str, metric: str, stop: str) -> dict[int, float]:
    """Seed -> `metric` of an arm where it stops; ValueError for an arm without rows."""
    rows = frame[frame["arm"] == arm]
    if rows.empty:
        raise ValueError(f"arm {arm!r} has no rows")
    return {int(seed): float(stop_row(part, stop)[metric]) for seed, part in rows.groupby("seed")}


def at_start(frame: pd.DataFrame, arm: str, metric: str) -> dict[int, float]:
    """Seed -> `metric` of an arm before fine-tuning."""
    rows = frame[(frame["arm"] == arm) & (frame["step"] == 0)]
    return {int(seed): float(value) for seed, value in zip(rows["seed"], rows[metric], strict=True)}


def summary(values: Sequence[float], **labels: object) -> dict[str, object]:
    """Mean and interval over seeds, with labels: a row of a chart's table."""
    low, high = bootstrap_interval(values)
    return {**labels, "mean": sum(values) / len(values), "low": low, "high": high, "seeds": len(values)}


def checkpoints(frame: pd.DataFrame, arms: Sequence[str]) -> pd.DataFrame:
    """Every measured epoch after the start, of the given arms."""
    return frame[frame["arm"].isin(arms) & (frame["step"] > 0)]


def linear_fits(frame: pd.DataFrame, arms: Sequence[str], metric: str) -> dict[int, LinearFit]:
    """Seed -> linear model of a metric on what is fitted of the training set (section 4.3), over the
    checkpoints of all these arms."""
    return {
        int(seed): fit_linear(rows["fitted_known"], rows["fitted_unknown"], rows[metric])
        for seed, rows in checkpoints(frame, arms).groupby("seed")
    }
