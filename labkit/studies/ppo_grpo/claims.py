"""What the papers say that the study of policy-gradient variants can test."""

from __future__ import annotations

from collections.abc import Callable

import pandas as pd

from labkit.claims import Claim, seed_differences
from labkit.studies.points24.claims import at
from labkit.studies.ppo_grpo.arms import STEPS

PPO = "Schulman et al. 2017, PPO (arXiv 1707.06347)"
DEEPSEEKMATH = "Shao et al. 2024, DeepSeekMath (arXiv 2402.03300)"
DR_GRPO = "Liu et al. 2025, Dr.GRPO (arXiv 2503.20783)"
DAPO = "Yu et al. 2025, DAPO (arXiv 2503.14476)"
GSPO = "Zheng et al. 2025, GSPO (arXiv 2507.18071)"
CISPO = "MiniMax 2025, CISPO (arXiv 2506.13585)"
RLOO = "Ahmadian et al. 2024, RLOO (arXiv 2402.14740)"
GRADIENTS = "arXiv 2510.01555 and 2512.21852 (gradients of KL estimators)"
LAST_STEPS = 20
"""Steps at the end of a run over which its reward is averaged: a step's own is of 128 samples only."""


def final_reward(frame: pd.DataFrame, arm: str) -> dict[int, float]:
    """Seed -> mean reward of the last `LAST_STEPS` steps of an arm."""
    rows = frame[(frame["arm"] == arm) & frame["reward"].notna()]
    if rows.empty:
        raise ValueError(f"arm {arm!r} has no training rows")
    last = rows[rows["step"] > rows["step"].max() - LAST_STEPS]
    return last.groupby("seed")["reward"].mean().to_dict()


Differences = Callable[[pd.DataFrame], list[float]]


def _reward(better: str, worse: str) -> Differences:
    return lambda frame: seed_differences(final_reward(frame, better), final_reward(frame, worse))


def _last(metric: str, better: str, worse: str) -> Differences:
    return lambda frame: seed_differences(at(frame, better, metric), at(frame, worse, metric))


def _noise(metric: str, better: int, worse: int) -> Differences:
    return lambda frame: seed_differences(
        at(frame, "noise", metric, better), at(frame, "noise", metric, worse)
    )


def _claim(
    name: str,
    source: str,
    statement: str,
    metric: str,
    arms: tuple[str, ...],
    differences: Differences,
    smallest: float,
    paper: str,
    remark: str = "",
) -> Claim:
    study = "ppo_grpo"
    return Claim(
        f"{study}/{name}", study, source, statement, metric, arms, differences, smallest, paper, remark
    )


REWARD = f"share solved in training, mean of the last {LAST_STEPS} steps"
CLAIMS = [
    _claim(
        "grpo-beats-ppo-shared",
        f"{DEEPSEEKMATH}, section 4.1",
        "Without a critic GRPO learns better than PPO with a value head, from as many samples.",
        f"{REWARD}: GRPO minus PPO",
        ("grpo", "ppo"),
        _reward("grpo", "ppo"),
        0.02,
        "argued from cost; no head-to-head numbers",
        remark="The runs are short, and the intervals wider than any gap between the three.",
    ),
    _claim(
        "grpo-beats-ppo-separate",
        f"{DEEPSEEKMATH}, section 4.1",
        "And better than PPO with a critic of its own.",
        f"{REWARD}: GRPO minus PPO with a separate critic",
        ("grpo", "ppo-separate"),
        _reward("grpo", "ppo-separate"),
        0.02,
        "argued from cost; no head-to-head numbers",
    ),
    _claim(
        "rloo-beats-ppo",
        RLOO,
        "A leave-one-out baseline learns better than PPO's critic (both here with PPO's ratio and clip).",
        f"{REWARD}: RLOO minus PPO",
        ("rloo", "ppo"),
        _reward("rloo", "ppo"),
        0.02,
        "higher win rates than PPO on summaries and dialogue (s)",
    ),
    _claim(
        "groups-steady-the-gradient",
        DEEPSEEKMATH,
        "From as many samples, groups of 8 give gradients that agree better than groups of 2.",
        "mean cosine between gradients of independent batches, 8 minus 2",
        ("noise",),
        _noise("agreement_grpo", 8, 2),
        0.01,
        "groups of 64",
        remark="The base seldom solves a hand, so that most of each gradient, and of the cosine, is noise.",
    ),
    _claim(
        "groups-learn-better",
        DEEPSEEKMATH,
        "From as many samples, groups of 16 learn better than groups of 2.",
        f"{REWARD}: groups of 16 minus groups of 2",
        ("group-16", "group-2"),
        _reward("group-16", "group-2"),
        0.02,
        "groups of 64",
    ),
    _claim(
        "no-std-learns-better",
        DR_GRPO,
        "Not dividing by the group's standard deviation removes a bias and learns better.",
        f"{REWARD}: without minus with division",
        ("grpo-no-std", "grpo"),
        _reward("grpo-no-std", "grpo"),
        0.02,
        "token efficiency; shown as curves",
        remark="No difference is seen at this scale.",
    ),
    _claim(
        "dynamic-sampling-learns-faster",
        DAPO,
        "DAPO (refilled groups, clip-higher, token mean) learns more a step than GRPO.",
        f"{REWARD}: DAPO minus GRPO, at the same number of steps (not of samples)",
        ("dapo", "grpo"),
        _reward("dapo", "grpo"),
        0.02,
        "AIME 2024: 42 → 50 by dynamic sampling, the last of five additions (s)",
    ),
    _claim(
        "gspo-learns-faster",
        GSPO,
        "The ratio of the whole sequence learns better than the ratio of each token.",
        f"{REWARD}, eight updates a batch: GSPO minus GRPO, each with its clip",
        ("reuse-gspo", "clip-0.2"),
        _reward("reuse-gspo", "clip-0.2"),
        0.02,
        "shown as curves",
    ),
    _claim(
        "cispo-learns-faster",
        CISPO,
        "Bounding the weight of a token instead of silencing it learns better.",
        f"{REWARD}, eight updates a batch: CISPO minus GRPO",
        ("reuse-cispo", "clip-0.2"),
        _reward("reuse-cispo", "clip-0.2"),
        0.02,
        "twice as fast as DAPO on Qwen2.5-32B",
        remark="With eight updates a batch CISPO goes on pushing where the clip has stopped, and drifts; "
        "its bound of 2 was not tuned.",
    ),
    _claim(
        "clip-prevents-collapse",
        f"{PPO}, section 3",
        "With eight updates a batch the clip keeps training from collapsing.",
        f"{REWARD}: clip 0.2 minus no clip",
        ("clip-0.2", "clip-none"),
        _reward("clip-0.2", "clip-none"),
        0.02,
        "Table 1: no clipping or penalty -0.39, clipping 0.2 0.82 (normalised score)",
    ),
    _claim(
        "clip-bounds-drift",
        f"{PPO}, section 3",
        "And from moving far from where it started.",
        "KL from the base at the end in nats a response, no clip minus clip 0.2",
        ("clip-none", "clip-0.2"),
        _last("id_kl", "clip-none", "clip-0.2"),
        0.1,
        "Fig. 2: shown for one update",
        remark="A run with a clip can drift as far as one without: the clip stops the push of single tokens, "
        "and does not bound the policy.",
    ),
    _claim(
        "kl-coefficient-bounds-drift",
        f"{DEEPSEEKMATH}, eq. 3",
        "A larger KL coefficient keeps the policy closer to where it started.",
        "KL from the base at the end in nats a response, coefficient 0.03 minus 1",
        ("kl-0.03", "kl-1.0"),
        _last("id_kl", "kl-0.03", "kl-1.0"),
        0.1,
        "coefficient 0.04; no comparison",
    ),
    _claim(
        "k1-in-the-loss-does-not-hold-back",
        GRADIENTS,
        "k1 in the loss does not hold the policy back: on fresh samples its expected gradient is zero.",
        f"KL from the base after {STEPS['kl']} steps in nats a response, k1 in the loss minus no penalty",
        ("k1-loss", "grpo"),
        lambda frame: seed_differences(
            at(frame, "k1-loss", "id_kl"), at(frame, "grpo", "id_kl", STEPS["kl"])
        ),
        0.1,
        "derived; shown as curves",
        remark="The runs differ widely: noise drives some of them far away and leaves others alone.",
    ),
    _claim(
        "k1-in-the-reward-holds-back",
        GRADIENTS,
        "The same k1 in the reward does.",
        "KL from the base at the end in nats a response, k1 in the loss minus k1 in the reward",
        ("k1-loss", "k1-reward"),
        _last("id_kl", "k1-loss", "k1-reward"),
        0.1,
        "derived; shown as curves",
    ),
]
