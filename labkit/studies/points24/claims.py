"""What the papers say that the 24-point study can test."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pandas as pd

from labkit.claims import Claim, seed_differences
from labkit.statistics import first_crossing
from labkit.studies.points24.arms import CHOSEN_SFT, DATA_SIZES, FORGETTING_SFT

CHU = "Chu et al. 2025, SFT Memorizes, RL Generalizes (arXiv 2501.17161)"
VLAA = "Chen et al. 2025, SFT or RL? (VLAA-Thinking, arXiv 2504.11468)"
RAZOR = "Shenfeld et al. 2025, RL's Razor (arXiv 2509.04259)"
OOD = "ood_accuracy"
DIVERSE = "arXiv 2510.00237 (prompt diversity lets SFT generalise)"

END_OF_DATA_STUDY = 150
"""Updates after which amounts of SFT data are compared."""
RL_STEPS_COMPARED = 50
"""RL steps after which RL alone and RL after SFT are compared."""
CONTROL_STEPS = 300
"""Updates after which SFT is compared with its controls (varied rules, another base)."""
EARLY_STEP = 300
"""Where SFT at the chosen rate did best out of distribution on validation hands, in a run before these."""


def at(frame: pd.DataFrame, arm: str, metric: str, step: int | None = None) -> dict[int, float]:
    """Seed -> `metric` of an arm at `step` (None: its last)."""
    rows = frame[frame["arm"] == arm]
    if step is None:
        rows = rows[rows["step"] == rows["step"].max()]
    else:
        rows = rows[rows["step"] == step]
    if rows.empty:
        raise ValueError(f"arm {arm!r} has no rows at step {step}; was it measured there?")
    return dict(zip(rows["seed"], rows[metric], strict=True))


def matched(frame: pd.DataFrame, metric: str, sft_arm: str) -> tuple[dict[int, float], dict[int, float]]:
    """`metric` of GRPO at its end, and of SFT where its in-distribution accuracy is the same.

    SFT's value is interpolated between measurements at the first point where its in-distribution
    accuracy reaches GRPO's final one of the same seed; seeds where it never does are left out.
    """
    rl, target = at(frame, "grpo", metric), at(frame, "grpo", "id_accuracy")
    sft = {}
    for seed, rows in frame[frame["arm"] == sft_arm].groupby("seed"):
        rows = rows.sort_values("step")
        curves = rows["id_accuracy"].tolist(), rows[metric].tolist()
        value = first_crossing(*curves, target.get(seed, np.inf))
        if np.isfinite(value):
            sft[seed] = value
    return rl, sft


Point = tuple[str, str, int | None]
"""Arm, metric, step (None: the last)."""
Differences = Callable[[pd.DataFrame], list[float]]


def _between(better: Point, worse: Point) -> Differences:
    """`better - worse`, seed by seed."""
    return lambda frame: seed_differences(at(frame, *better), at(frame, *worse))


def _rise(arm: str, metric: str) -> Differences:
    """Last minus first value of a metric."""
    return _between((arm, metric, None), (arm, metric, 0))


def _fall(arm: str, metric: str) -> Differences:
    """First minus last value of a metric."""
    return _between((arm, metric, 0), (arm, metric, None))


def _difference_of_rises(better: str, worse: str, metric: str, step: int | None = None) -> Differences:
    """How much more a metric rises from 0 to `step` in `better` than in `worse`, seed by seed."""

    def rise(frame: pd.DataFrame, arm: str) -> dict[int, float]:
        first, last = at(frame, arm, metric, 0), at(frame, arm, metric, step)
        return {seed: last[seed] - first[seed] for seed in last}

    return lambda frame: seed_differences(rise(frame, better), rise(frame, worse))


def _matched_ood(sft_arm: str) -> Differences:
    return lambda frame: seed_differences(*matched(frame, OOD, sft_arm))


def _matched_kl(frame: pd.DataFrame) -> list[float]:
    rl, sft = matched(frame, "id_kl", CHOSEN_SFT)
    return seed_differences(sft, rl)


CLAIMS = [
    Claim(
        id="points24/rl-raises-ood",
        study="points24",
        source=f"{CHU}, Fig. 5",
        statement="RL with an outcome reward raises accuracy under the rule it was not trained on.",
        metric="out-of-distribution accuracy, end minus base",
        arms=("grpo",),
        differences=_rise("grpo", OOD),
        smallest=0.02,
        paper="GP-L 11.5 → 15.0 %",
    ),
    Claim(
        id="points24/sft-lowers-ood",
        study="points24",
        source=f"{CHU}, Fig. 5",
        statement="SFT on solved hands of one rule (learning rate 1e-3) lowers accuracy under the other.",
        metric="out-of-distribution accuracy, base minus end",
        arms=(FORGETTING_SFT,),
        differences=_fall(FORGETTING_SFT, OOD),
        smallest=0.02,
        paper="GP-L 11.5 → 3.4 %",
    ),
    Claim(
        id="points24/sft-lowers-ood-gentle",
        study="points24",
        source=f"{CHU}, Fig. 5",
        statement="SFT at the gentler rate chosen on validation hands (3e-4) lowers it too.",
        metric="out-of-distribution accuracy, base minus end",
        arms=(CHOSEN_SFT,),
        differences=_fall(CHOSEN_SFT, OOD),
        smallest=0.02,
        paper="GP-L 11.5 → 3.4 %",
        remark="At this rate SFT first teaches the game itself, which helps under both rules, and "
        "forgets only later; how fast it forgets depends on the rate.",
    ),
    Claim(
        id="points24/sft-peaks-early",
        study="points24",
        source=DIVERSE,
        statement="Out of distribution, SFT peaks early and then falls.",
        metric=f"out-of-distribution accuracy at update {EARLY_STEP} minus at the end, learning rate 3e-4",
        arms=(CHOSEN_SFT,),
        differences=_between((CHOSEN_SFT, OOD, EARLY_STEP), (CHOSEN_SFT, OOD, None)),
        smallest=0.02,
        paper="shown as curves",
        remark="The fall after the peak differs much from seed to seed; the step of the peak was taken "
        "from one run on validation hands.",
    ),
    Claim(
        id="points24/rl-better-at-matched-id",
        study="points24",
        source=f"{CHU}, Fig. 5",
        statement="Where both solve as many hands of the training rule, RL solves more of the other rule.",
        metric="out-of-distribution accuracy, GRPO minus SFT (3e-4) at the same in-distribution accuracy",
        arms=("grpo", CHOSEN_SFT),
        differences=_matched_ood(CHOSEN_SFT),
        smallest=0.02,
        paper="shown as curves",
        remark="GRPO stops at an accuracy that SFT at 3e-4 passes while it is still getting better under "
        "both rules.",
    ),
    Claim(
        id="points24/rl-better-at-matched-id-fast-sft",
        study="points24",
        source=f"{CHU}, Fig. 5",
        statement="The same against SFT at the rate that forgets (1e-3).",
        metric="out-of-distribution accuracy, GRPO minus SFT (1e-3) at the same in-distribution accuracy",
        arms=("grpo", FORGETTING_SFT),
        differences=_matched_ood(FORGETTING_SFT),
        smallest=0.02,
        paper="shown as curves",
    ),
    Claim(
        id="points24/rl-spends-less-kl",
        study="points24",
        source=RAZOR,
        statement="To reach the same accuracy on the training rule, RL moves less far from the base.",
        metric="KL from the base in nats a response, SFT (3e-4) minus GRPO at the same accuracy",
        arms=("grpo", CHOSEN_SFT),
        differences=_matched_kl,
        smallest=0.1,
        paper="shown as curves",
    ),
    Claim(
        id="points24/more-sft-data-hurts-ood",
        study="points24",
        source=VLAA,
        statement="With the same number of updates, more SFT data hurts more out of distribution.",
        metric=f"out-of-distribution accuracy after {END_OF_DATA_STUDY} updates, "
        f"{DATA_SIZES[0]} hands minus all hands",
        arms=(f"sft-hands{DATA_SIZES[0]}", FORGETTING_SFT),
        differences=_between(
            (f"sft-hands{DATA_SIZES[0]}", OOD, None), (FORGETTING_SFT, OOD, END_OF_DATA_STUDY)
        ),
        smallest=0.02,
        paper="Qwen2.5-VL-3B: relative drop 32.2 % at 25K examples, 47.0 % at 126K",
        remark="With few hands SFT learns them by heart within the same number of updates; the paper's "
        "comparison varies data that are all new to a pretrained model.",
    ),
    Claim(
        id="points24/long-sft-hurts-rl",
        study="points24",
        source=f"{VLAA}; {CHU}",
        statement="Long SFT before RL leaves RL worse out of distribution than RL alone.",
        metric=f"out-of-distribution accuracy after {RL_STEPS_COMPARED} RL steps, "
        "RL alone minus RL after long SFT",
        arms=("grpo", "sft-long-grpo"),
        differences=_between(("grpo", OOD, RL_STEPS_COMPARED), ("sft-long-grpo", OOD, None)),
        smallest=0.02,
        paper="Qwen2-VL-7B: GRPO alone 32.5, after SFT 19.8; from over-fitted SFT under 1 %",
    ),
    Claim(
        id="points24/more-turns-gain-more",
        study="points24",
        source=f"{CHU}, Fig. 10",
        statement="More verify-and-revise turns give RL a larger out-of-distribution gain.",
        metric="gain in out-of-distribution accuracy within the turns allowed, 5 turns minus 1",
        arms=("grpo-turns5", "grpo-turns1"),
        differences=_difference_of_rises("grpo-turns5", "grpo-turns1", "ood_accuracy_turns"),
        smallest=0.02,
        paper="gain by 1/3/5/10 turns: 0.48/2.15/2.99/5.99 points",
        remark="The arms are short (30 steps), and the base, which was trained to revise too, uses further "
        "attempts before any RL.",
    ),
    Claim(
        id="points24/varied-rules-help-sft",
        study="points24",
        source=DIVERSE,
        statement="SFT on prompts with varied rules keeps what SFT on one rule loses.",
        metric=f"out-of-distribution accuracy after {CONTROL_STEPS} updates, varied minus one rule",
        arms=("sft-varied", FORGETTING_SFT),
        differences=_between(("sft-varied", OOD, CONTROL_STEPS), (FORGETTING_SFT, OOD, CONTROL_STEPS)),
        smallest=0.02,
        paper="SFT matches RL with diverse prompts and chain of thought",
    ),
    Claim(
        id="points24/reading-base-keeps-ood",
        study="points24",
        source="ours: is it SFT that memorises, or a base that knows its rules by heart?",
        statement="A base that reads any rule loses less to SFT on one rule than a base that knows two.",
        metric=f"change of out-of-distribution accuracy by {CONTROL_STEPS} updates, many rules minus two",
        arms=("reader-sft", FORGETTING_SFT),
        differences=_difference_of_rises("reader-sft", FORGETTING_SFT, OOD, CONTROL_STEPS),
        smallest=0.02,
        paper="not measured there",
    ),
    Claim(
        id="points24/sft-lowers-ood-reverse",
        study="points24",
        source=f"{CHU}, the other direction (not in the paper)",
        statement="SFT on faces = 11, 12, 13 (learning rate 1e-3) lowers accuracy under faces = 10.",
        metric="out-of-distribution accuracy, base minus end",
        arms=("reverse-sft",),
        differences=_fall("reverse-sft", OOD),
        smallest=0.02,
        paper="not measured there",
        remark="The value 10 that the other rule asks for stands in the training hands too (the ten "
        "itself), so that reading it is not forgotten.",
    ),
    Claim(
        id="points24/clip-prevents-collapse",
        study="points24",
        source="PPO (arXiv 1707.06347), section 3",
        statement="With several updates a batch at a high learning rate, the clip keeps RL from collapsing.",
        metric="in-distribution accuracy at the end, with clip minus without",
        arms=("grpo-fast", "grpo-fast-unclipped"),
        differences=_between(
            ("grpo-fast", "id_accuracy", None), ("grpo-fast-unclipped", "id_accuracy", None)
        ),
        smallest=0.02,
        paper="motivates the clip; no number for this setting",
        remark="Both runs collapse at this rate: the clip alone does not save it. See the study of PPO "
        "and GRPO for gentler settings.",
    ),
]
