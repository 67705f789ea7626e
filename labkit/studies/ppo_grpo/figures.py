"""The figures of the study of policy-gradient variants with their captions."""

from __future__ import annotations

from functools import partial

from labkit.plotting import drawing
from labkit.studies.ppo_grpo import curves
from labkit.studies.ppo_grpo.claims import CISPO, DAPO, DEEPSEEKMATH, DR_GRPO, GRADIENTS, GSPO, PPO

_drawing = partial(drawing, "ppo_grpo")

FIGURES = [
    _drawing(
        curves.critic_or_group,
        "A critic or a group",
        "Three line charts against steps for GRPO, PPO with a value head and PPO with a critic of its own: "
        "share solved in training, accuracy on held-out hands, and under the other rule.",
        f"{DEEPSEEKMATH}, Fig. 4 (what each trains)",
        "grpo-beats-ppo-shared",
        "grpo-beats-ppo-separate",
    ),
    _drawing(
        curves.variants,
        "The variants side by side",
        "Three bar charts of nine algorithms: share solved at the end of training, accuracy on held-out "
        "hands, and batches sampled a step.",
        f"{DR_GRPO}; {DAPO}; {GSPO}; {CISPO}",
        "rloo-beats-ppo",
        "dynamic-sampling-learns-faster",
    ),
    _drawing(
        curves.group_sizes,
        "Group size at equal samples",
        "Four line charts against group size from 2 to 64: share solved at the end of training, standard "
        "deviation of the group mean, cosine between gradients of independent batches, and share of groups "
        "without signal.",
        f"{DEEPSEEKMATH} (groups of 64)",
        "groups-steady-the-gradient",
        "groups-learn-better",
    ),
    _drawing(
        curves.std_bias,
        "What division by the standard deviation does",
        "On the left the mean absolute advantage against a prompt's success rate, with division a wider arch "
        "than without; on the right bars of the share solved at the end of training for both.",
        f"{DR_GRPO}, section 3.1",
        "no-std-learns-better",
    ),
    _drawing(
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
    _drawing(
        curves.kl_coefficient,
        "KL coefficient against drift",
        "Two line charts against steps for four KL coefficients: KL from the base and share solved in "
        "training.",
        f"{DEEPSEEKMATH}, eq. 3",
        "kl-coefficient-bounds-drift",
    ),
    _drawing(
        curves.kl_estimators,
        "Where the KL estimator stands",
        "Two bar charts for no penalty and seven ways to put one in, at coefficient 0.3: KL from the base at "
        "the end, and share solved in training.",
        GRADIENTS,
        "k1-in-the-loss-does-not-hold-back",
        "k1-in-the-reward-holds-back",
    ),
]
TRIED = _drawing(
    curves.tried,
    "What was tried for the variants",
    "Bars of reward in training and of accuracy on validation hands for each learning rate of GRPO and PPO "
    "that was tried, and for four and eight passes over a batch with and without clip.",
    "none: the choice of settings",
)
"""Drawn from the tuning's data."""
