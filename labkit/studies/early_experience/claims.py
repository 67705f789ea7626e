"""What the paper on early experience says that the study can test."""

from __future__ import annotations

from collections.abc import Sequence

import pandas as pd

from labkit.agents.evaluation import CRAFT_SPLITS, INSIDE
from labkit.claims import Claim, seed_differences
from labkit.studies.early_experience.arms import IMITATION, IWM, KEPT, LONG, SR, WORLDS, arm
from labkit.studies.episodes import success

PAPER = "Zhang et al. 2025, Agent Learning via Early Experience (arXiv 2510.08558)"
WORLD_NAMES = {"phone": "PhoneWorld", "craft": "CraftWorld"}
OUTSIDE = {
    "phone": ("other goals", "other phones"),
    "craft": tuple(name for name in CRAFT_SPLITS if name != INSIDE),
}
"""Sets outside the distribution that was demonstrated."""
SMALLEST = 0.05


def at_end(frame: pd.DataFrame) -> pd.DataFrame:
    """The rows of each run's last measurement: after RL where there was any."""
    runs = [frame["arm"], frame["seed"]]
    with_rl = (frame["stage"] == "rl").groupby(runs).transform("any")
    rows = frame[~with_rl | (frame["stage"] == "rl")]
    return rows[rows["step"] == rows.groupby(["arm", "seed"])["step"].transform("max")]


def gap(frame: pd.DataFrame, better: str, worse: str, sets: Sequence[str]) -> list[float]:
    """Difference of success on `sets` at the end, a seed."""
    rows = at_end(frame)
    return seed_differences(success(rows, better, sets), success(rows, worse, sets))


def _claim(
    name: str, statement: str, better: str, worse: str, sets: Sequence[str], paper: str, remark: str = ""
) -> Claim:
    return Claim(
        f"early_experience/{name}",
        "early_experience",
        PAPER,
        statement,
        f"share of goals reached, {', '.join(sets)}: {better} minus {worse}",
        (better, worse),
        lambda frame: gap(frame, better, worse, sets),
        SMALLEST,
        paper,
        remark,
    )


def _of_world(world: str) -> list[Claim]:
    """The claims that one world's arms can test."""
    name, inside, outside = WORLD_NAMES[world], (INSIDE,), OUTSIDE[world]
    imitation, iwm, sr = (arm(world, method) for method in (IMITATION, IWM, SR))
    return [
        _claim(f"{world}-iwm-helps", f"In {name} an implicit world model before imitation helps.",
               iwm, imitation, inside, "ALFWorld 8B 80.5 → 85.9, WebShop 8B 47.3 → 58.6 (s)"),
        _claim(f"{world}-sr-helps", f"In {name} self-reflection helps.",
               sr, imitation, inside, "ALFWorld 8B 80.5 → 85.2, SciWorld 8B 54.7 → 68.0 (s)"),
        _claim(f"{world}-iwm-beats-long-imitation",
               f"In {name} the world model is worth more than as many further updates of imitation.",
               iwm, arm(world, LONG), inside, "total updates are those of imitation alone"),
        _claim(f"{world}-iwm-better-kept",
               f"In {name} a world model helps more when later updates keep up its predictions.",
               arm(world, KEPT), iwm, inside, "observations are predicted in a first stage only"),
        _claim(f"{world}-iwm-needs-true-outcomes",
               f"In {name} it is the outcomes that help: with those of other states the gain is gone.",
               iwm, arm(world, "iwm-random"), inside, "no such control"),
        _claim(f"{world}-sr-needs-true-outcomes",
               f"In {name} a rationale must be grounded in what the actions led to.",
               sr, arm(world, "sr-shuffled"), inside,
               "ungrounded STaR rationales: WebShop 25.0, ALFWorld 74.2 against 58.2, 85.2 (s)"),
        _claim(f"{world}-iwm-helps-outside", f"In {name} the world model helps out of distribution.",
               iwm, imitation, outside, "ALFWorld 8B 63.3 → 78.1 (s)"),
        _claim(f"{world}-sr-helps-outside", f"In {name} self-reflection helps out of distribution.",
               sr, imitation, outside, "ALFWorld 8B 63.3 → 72.7 (s)"),
        _claim(f"{world}-iwm-grows-with-k", f"In {name} the world model gains from more alternatives.",
               arm(world, IWM, "k8"), arm(world, IWM, "k1"), inside, "shown as curves"),
        _claim(f"{world}-sr-peaks-at-small-k",
               f"In {name} self-reflection is better with four alternatives than with eight.",
               arm(world, SR), arm(world, SR, "k8"), inside, "peaks at K = 2 to 4"),
        _claim(f"{world}-iwm-helps-with-few", f"In {name} a world model helps when demonstrations are few.",
               arm(world, IWM, "1of8"), arm(world, IMITATION, "1of8"), inside,
               "WebShop, 1/8 of the demonstrations: 25.8 → 38.3 (s)"),
        _claim(f"{world}-sr-helps-with-few", f"In {name} self-reflection helps when demonstrations are few.",
               arm(world, SR, "1of8"), arm(world, IMITATION, "1of8"), inside,
               "WebShop, 1/8 of the demonstrations: 25.8 → 46.9 (s)"),
    ]  # fmt: skip


CLAIMS = [claim for world in WORLDS for claim in _of_world(world)]
