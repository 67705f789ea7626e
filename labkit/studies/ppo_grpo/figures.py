"""The figures of the study with their captions, saved from its committed data."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pandas as pd

from labkit.plotting import FigureCard, save_drawings
from labkit.studies.ppo_grpo import curves
from labkit.studies.ppo_grpo.claims import CISPO, DAPO, DEEPSEEKMATH, DR_GRPO, GRADIENTS, GSPO, PPO
from labkit.study import load_study

Draw = Callable[[pd.DataFrame], curves.Drawn]


def _card(draw: Draw, title: str, alt: str, paper: str, *claims: str) -> tuple[Draw, FigureCard]:
    ids = tuple(f"ppo_grpo/{claim}" for claim in claims)
    return draw, FigureCard("ppo_grpo", draw.__name__, title, alt, paper, ids)


FIGURES = [
    _card(
        curves.critic_or_group,
        "A critic or a group",
        "Three line charts against steps for GRPO, PPO with a value head and PPO with a critic of its own: "
        "share solved in training, accuracy on held-out hands, and under the other rule.",
        f"{DEEPSEEKMATH}, Fig. 4 (what each trains)",
        "grpo-beats-ppo-shared",
        "grpo-beats-ppo-separate",
    ),
    _card(
        curves.variants,
        "The variants side by side",
        "Three bar charts of nine algorithms: share solved at the end of training, accuracy on held-out "
        "hands, and batches sampled a step.",
        f"{DR_GRPO}; {DAPO}; {GSPO}; {CISPO}",
        "rloo-beats-ppo",
        "dynamic-sampling-learns-faster",
    ),
    _card(
        curves.group_sizes,
        "Group size at equal samples",
        "Four line charts against group size from 2 to 64: share solved at the end of training, standard "
        "deviation of the group mean, cosine between gradients of independent batches, and share of groups "
        "without signal.",
        f"{DEEPSEEKMATH} (groups of 64)",
        "groups-steady-the-gradient",
        "groups-learn-better",
    ),
    _card(
        curves.std_bias,
        "What division by the standard deviation does",
        "On the left the mean absolute advantage against a prompt's success rate, with division a wider arch "
        "than without; on the right bars of the share solved at the end of training for both.",
        f"{DR_GRPO}, section 3.1",
        "no-std-learns-better",
    ),
    _card(
        curves.clip,
        "Eight updates a batch: clip and no clip",
        "Three line charts against steps for clips of 0.1 and 0.2 and none, CISPO and GSPO: share solved in "
        "training, KL from the base, and share of tokens clipped.",
        f"{PPO}, Table 1 and Fig. 2",
        "clip-prevents-collapse",
        "clip-bounds-drift",
        "gspo-learns-faster",
        "cispo-learns-faster",
    ),
    _card(
        curves.kl_coefficient,
        "KL coefficient against drift",
        "Two line charts against steps for four KL coefficients: KL from the base and share solved in "
        "training.",
        f"{DEEPSEEKMATH}, eq. 3",
        "kl-coefficient-bounds-drift",
    ),
    _card(
        curves.kl_estimators,
        "Where the KL estimator stands",
        "Two bar charts for no penalty and seven ways to put one in, at coefficient 0.3: KL from the base at "
        "the end, and share solved in training.",
        GRADIENTS,
        "k1-in-the-loss-does-not-hold-back",
        "k1-in-the-reward-holds-back",
    ),
]
TRIED = _card(
    curves.tried,
    "What was tried for the variants",
    "Bars of reward in training and of accuracy on validation hands for each learning rate of GRPO and PPO "
    "that was tried, and for four and eight passes over a batch with and without clip.",
    "none: the choice of settings",
)


def draw_figures() -> list[Path]:
    """Draw and save every figure; needs the full-profile data of the study and of its tuning."""
    from labkit.studies.ppo_grpo import STUDY
    from labkit.studies.ppo_grpo.tuning import STUDY as TUNING

    data, tuning = load_study(STUDY, "full"), load_study(TUNING, "full")
    return [*save_drawings(FIGURES, data), *save_drawings([TRIED], tuning)]
