"""Settings tried for the 24-point study, measured on validation hands only (one seed each).

`python -m labkit run points24-tuning --profile full` makes figures/points24-tuning/data.
"""

from __future__ import annotations

from collections.abc import Mapping

from labkit.envs.points24.rules import FACES_AS_RANK, FACES_AS_TEN
from labkit.rl.config import RLConfig
from labkit.studies.points24 import figures
from labkit.studies.points24.run import (
    STUDY_VERSION,
    RLStage,
    RunConfig,
    SFTStage,
    Stage,
    cost,
    run,
)
from labkit.study import Study

SFT_STEPS, RL_STEPS = 200, 100


def _config(stage: Stage, base: str, smoke: bool) -> RunConfig:
    steps = (2, 3) if smoke else (25, 50, 100, 150)
    size = 8 if smoke else 1000
    return RunConfig(
        FACES_AS_TEN, FACES_AS_RANK, (stage,), steps, base=base, split="validation", max_hands=size
    )


def _grpo_name(
    learning_rate: float, updates: int, kl_coef: float, rewards: str, shape: tuple[int, int]
) -> str:
    prompts, group = shape
    return f"grpo-lr{learning_rate:g}-updates{updates}-kl{kl_coef:g}-{rewards}-{prompts}x{group}"


def _grpo_stage(
    steps: int, learning_rate: float, updates: int, kl_coef: float, rewards: str, shape: tuple[int, int]
) -> RLStage:
    algorithm = RLConfig(
        prompts_per_step=shape[0], group_size=shape[1], updates_per_epoch=updates, kl_coef=kl_coef
    )
    return RLStage(steps, learning_rate, algorithm, rewards)


def arms(profile: str) -> Mapping[str, RunConfig]:
    """Every setting tried: SFT learning rates; GRPO learning rates, updates a batch, KL, rewards."""
    smoke = profile == "smoke"
    sft_steps, rl_steps = (4, 4) if smoke else (SFT_STEPS, RL_STEPS)
    sft = {f"sft-lr{lr:g}": SFTStage(sft_steps, lr) for lr in (3e-5, 1e-4, 3e-4, 1e-3)}
    grpo = {
        _grpo_name(*setting): _grpo_stage(rl_steps, *setting[:-1], (2, 4) if smoke else setting[-1])
        for setting in (
            # learning rate, updates a batch, KL coefficient, rewards, prompts × group
            (1e-4, 1, 0.0, "binary", (16, 16)),
            (3e-4, 1, 0.0, "binary", (16, 16)),
            (1e-4, 1, 0.0, "paper", (16, 16)),
            (3e-5, 1, 0.0, "binary", (16, 16)),
            (1e-4, 1, 0.1, "binary", (16, 16)),
            (1e-4, 1, 0.0, "binary", (32, 8)),
            (3e-4, 4, 0.0, "binary", (16, 16)),
        )
    }
    return {
        f"{base}-{name}": _config(stage, base, smoke)
        for base, stages in (("many-rules", sft | grpo), ("two-rules", sft))
        for name, stage in stages.items()
    }


STUDY = Study(
    name="points24-tuning",
    version=STUDY_VERSION,
    arms=arms,
    seeds={"smoke": 1, "workshop": 1, "full": 1},
    run=run,
    cost=cost,
)
CLAIMS: list = []
FIGURES = [figures.TRIED]
