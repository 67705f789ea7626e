"""The arms of the study of policy-gradient variants, all from the 24-point base of two rules."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from labkit.envs.points24.rules import FACES_AS_RANK, FACES_AS_TEN
from labkit.rl.config import ALGORITHMS, RLConfig
from labkit.studies.points24.run import RLStage, RunConfig
from labkit.studies.ppo_grpo.noise import NoiseConfig

ROWS = 128
"""Completions a step, the same for every arm."""
LEARNING_RATE = 1e-4
"""The policy's, for every arm: of three, the one with the most reward in training for GRPO and for PPO with
either critic (ppo_grpo-tuning, one seed)."""
GROUP_SIZES = (2, 4, 8, 16, 32, 64)
KL_COEFS = (0.03, 0.1, 0.3, 1.0)
ESTIMATOR_COEF = 0.3
"""KL coefficient at which the estimators are compared."""
CLIPS = (0.1, 0.2)
REUSE = {"epochs": 4, "updates_per_epoch": 2}
"""Eight updates on each batch of rollouts: the regime that the clip is made for."""

SIZE = {"prompts_per_step": ROWS // 8, "group_size": 8, "updates_per_epoch": 2}
GRPO = replace(ALGORITHMS["grpo"], **SIZE)
ALGORITHM_ARMS: Mapping[str, RLConfig] = {
    **{name: replace(algorithm, **SIZE) for name, algorithm in ALGORITHMS.items()},
    "ppo-separate": replace(ALGORITHMS["ppo"], critic="separate", **SIZE),
    "grpo-no-std": replace(GRPO, scale_by_std=False),
}
GROUP_ARMS = {
    f"group-{size}": replace(GRPO, prompts_per_step=ROWS // size, group_size=size)
    for size in GROUP_SIZES
    if size != GRPO.group_size
}
CLIP_ARMS = {
    **{f"clip-{clip}": replace(GRPO, clip_low=clip, clip_high=clip, **REUSE) for clip in CLIPS},
    "clip-none": replace(GRPO, clip_low=None, clip_high=None, **REUSE),
    "reuse-cispo": replace(ALGORITHM_ARMS["cispo"], **REUSE),
    "reuse-gspo": replace(ALGORITHM_ARMS["gspo"], **REUSE),
}
KL_ARMS = {f"kl-{coef}": replace(GRPO, kl_coef=coef) for coef in KL_COEFS}
ESTIMATOR_ARMS = {
    name: replace(GRPO, kl_coef=ESTIMATOR_COEF, **settings)
    for name, settings in {
        "k1-loss": {"kl_estimator": "k1"},
        "k2-loss": {"kl_estimator": "k2"},
        "exact-loss": {"kl_estimator": "exact"},
        "k1-ratio": {"kl_estimator": "k1", "kl_with_ratio": True},
        "k3-ratio": {"kl_estimator": "k3", "kl_with_ratio": True},
        # Divided by the std, a group of equal rewards would blow its differences of KL up to full size.
        "k1-reward": {"kl_estimator": "k1", "kl_in": "reward", "scale_by_std": False},
    }.items()
}
STEPS = {"algorithms": 80, "groups": 60, "clip": 30, "kl": 40}


def run_config(
    algorithm: RLConfig, steps: int, profile: str, learning_rate: float = LEARNING_RATE, split: str = "test"
) -> RunConfig:
    """An arm: GRPO or another algorithm from the base; smaller at smoke and workshop size."""
    if profile == "smoke":
        small = {"prompts_per_step": 2, "group_size": min(algorithm.group_size, 4)}
        algorithm, steps = replace(algorithm, **small), 2
    elif profile == "workshop":
        steps = min(steps, 20)
    return RunConfig(
        FACES_AS_TEN,
        FACES_AS_RANK,
        (RLStage(steps, learning_rate, algorithm),),
        evaluate_at=(20, 40, 60),
        split=split,
        max_hands={"smoke": 8, "workshop": 100, "full": 300}[profile],
        every_step=True,
    )


def arms(profile: str) -> Mapping[str, RunConfig | NoiseConfig]:
    """Configuration of each arm."""
    kinds = {
        "algorithms": ALGORITHM_ARMS,
        "groups": GROUP_ARMS,
        "clip": CLIP_ARMS,
        "kl": KL_ARMS | ESTIMATOR_ARMS,
    }
    configs: dict[str, RunConfig | NoiseConfig] = {
        name: run_config(algorithm, STEPS[kind], profile)
        for kind, algorithms in kinds.items()
        for name, algorithm in algorithms.items()
    }
    batches = {"smoke": 2, "workshop": 4, "full": 16}[profile]
    configs["noise"] = NoiseConfig(FACES_AS_TEN, GROUP_SIZES, ROWS, batches)
    return configs
