"""Frames of studies whose rows are sets of episodes: columns `arm`, `seed`, `set`, `episodes` and metrics."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd

from labkit.statistics import bootstrap_interval


def success(frame: pd.DataFrame, arm: str, sets: Sequence[str], metric: str = "success") -> dict[int, float]:
    """Seed -> share of all episodes of `sets` in which an arm reached the goal (or another metric).

    Raises ValueError for an arm without rows of these sets.
    """
    rows = frame[(frame["arm"] == arm) & frame["set"].isin(sets)]
    if rows.empty:
        raise ValueError(f"arm {arm!r} has no rows of {', '.join(sets)}")
    weighted = (rows[metric] * rows["episodes"]).groupby(rows["seed"]).sum()
    return (weighted / rows.groupby("seed")["episodes"].sum()).to_dict()


def bars(data: pd.DataFrame, arms: Sequence[str], sets: Sequence[str], metric: str) -> pd.DataFrame:
    """Mean and interval over seeds of a metric on `sets` together, a row an arm."""
    rows = []
    for arm in arms:
        values = list(success(data, arm, sets, metric).values())
        low, high = bootstrap_interval(values)
        mean = float(np.mean(values))
        rows.append(
            {"arm": arm, "sets": ", ".join(sets), "metric": metric, "mean": mean, "low": low, "high": high,
             "seeds": len(values)}
        )  # fmt: skip
    return pd.DataFrame(rows)
