"""Settings tried for the 24-point study, measured on validation hands only (one seed each).

`python -m labkit run points24-tuning --profile full` makes figures/points24-tuning/data.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from labkit.envs.points24.rules import FACES_AS_RANK, FACES_AS_TEN
from labkit.rl.trainer import GRPOConfig
from labkit.studies.points24.run import RLStage, RunConfig, SFTStage, Stage, cost, run
from labkit.study import Study

SFT_STEPS, RL_STEPS = 200, 100


def _config(stage: Stage, smoke: bool) -> RunConfig:
    steps = (2, 3) if smoke else (25, 50, 100, 150)
    return RunConfig(
        FACES_AS_TEN, FACES_AS_RANK, (stage,), steps, split="validation", max_hands=8 if smoke else 1000
    )


def arms(profile: str) -> Mapping[str, RunConfig]:
    """Every setting tried: SFT learning rates; GRPO learning rates, updates a batch, KL, rewards."""
    smoke = profile == "smoke"
    sft_steps, rl_steps = (4, 4) if smoke else (SFT_STEPS, RL_STEPS)
    size = {"prompts_per_step": 2, "group_size": 4} if smoke else {}
    stages: dict[str, Stage] = {
        f"sft-lr{lr:g}": SFTStage(sft_steps, lr) for lr in (3e-5, 1e-4, 3e-4, 1e-3)
    }
    for lr in (1e-4, 3e-4, 1e-3):
        stages[f"grpo-lr{lr:g}-1update"] = RLStage(rl_steps, lr, GRPOConfig(**size))
    for lr in (1e-4, 3e-4):
        stages[f"grpo-lr{lr:g}-4updates"] = RLStage(rl_steps, lr, GRPOConfig(updates_per_epoch=4, **size))
    four = GRPOConfig(updates_per_epoch=4, kl_coef=0.02, **size)
    stages["grpo-lr0.0003-4updates-kl0.02"] = RLStage(rl_steps, 3e-4, four)
    paper = GRPOConfig(updates_per_epoch=4, **size)
    stages["grpo-lr0.0003-4updates-paper-rewards"] = RLStage(rl_steps, 3e-4, paper, rewards="paper")
    return {name: _config(stage, smoke) for name, stage in stages.items()}


STUDY = Study(
    name="points24-tuning",
    version=1,
    arms=arms,
    seeds={"smoke": 1, "workshop": 1, "full": 1},
    run=run,
    cost=cost,
)
CLAIMS: list = []


def draw_figures() -> list[Path]:
    """Nothing of its own: the 24-point study draws what was tried."""
    return []
