"""Claims as data, and the ledger of what became of them.

The verdict of a claim is computed from committed data, never typed; the tests compute it again.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd

from labkit.files import atomic_write_text, repo_root
from labkit.statistics import Effect, effect, verdict
from labkit.study import load_study


@dataclass(frozen=True)
class Claim:
    """A statement that data can support or contradict."""

    id: str
    """Short name, `study/what`."""
    study: str
    """The study whose data decide."""
    source: str
    """Paper (and place in it) that makes the claim."""
    statement: str
    """The claim in one sentence."""
    metric: str
    """What is compared, with its unit."""
    arms: tuple[str, ...]
    """Arms compared."""
    differences: Callable[[pd.DataFrame], Sequence[float]]
    """Study frame -> one difference a seed, positive if the claim holds for that seed."""
    smallest: float
    """The least difference that would matter, in the unit of the metric."""
    paper: str
    """What the paper reports."""
    remark: str = ""
    """Why it comes out as it does at our scale."""


def measure(claim: Claim, frame: pd.DataFrame) -> Effect:
    """The effect of a claim in a study frame."""
    return effect(list(claim.differences(frame)))


def ledger_entry(claim: Claim, frame: pd.DataFrame) -> dict[str, Any]:
    """A claim with its measured effect, 95 % interval over seeds, and verdict."""
    measured = measure(claim, frame)
    return {
        "id": claim.id,
        "study": claim.study,
        "source": claim.source,
        "statement": claim.statement,
        "metric": claim.metric,
        "arms": list(claim.arms),
        "verdict": str(verdict(measured, claim.smallest)),
        "effect": _number(measured.mean),
        "low": _number(measured.low),
        "high": _number(measured.high),
        "smallest": claim.smallest,
        "seeds": measured.seeds,
        "paper": claim.paper,
        "remark": claim.remark,
    }


def _number(value: float) -> float | None:
    """Rounded; None where there is no finite number (an interval from one seed), since JSON has none."""
    return round(value, 4) if math.isfinite(value) else None


def compute_ledger() -> list[dict[str, Any]]:
    """All claims of all studies, from the committed full-profile data."""
    from labkit.studies import STUDIES, get_claims, get_study

    entries = []
    for name in STUDIES:
        if claims := get_claims(name):
            frame = load_study(get_study(name), "full")
            entries += [ledger_entry(claim, frame) for claim in claims]
    return entries


def ledger_path() -> Path:
    """Where the ledger is committed."""
    return repo_root() / "figures" / "claims.json"


def write_ledger() -> Path:
    """Compute the ledger and write it."""
    return atomic_write_text(ledger_path(), json.dumps(compute_ledger(), indent=1, ensure_ascii=False) + "\n")


def load_ledger() -> list[dict[str, Any]]:
    """The committed ledger; FileNotFoundError, with the command that makes it, if there is none."""
    if not ledger_path().exists():
        raise FileNotFoundError(f"no ledger at {ledger_path()}; make it with `python -m labkit figures`")
    return json.loads(ledger_path().read_text())


def seed_differences(a: Mapping[int, float], b: Mapping[int, float]) -> list[float]:
    """`a - b` for each seed that both have, in order of seeds."""
    return [a[seed] - b[seed] for seed in sorted(set(a) & set(b))]
