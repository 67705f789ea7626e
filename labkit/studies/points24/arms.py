"""The arms of the 24-point study at each profile."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from labkit.envs.points24.rules import FACES_AS_RANK, FACES_AS_TEN
from labkit.rl.trainer import GRPOConfig
from labkit.studies.points24.run import RLStage, RunConfig, SFTStage, Stage

SFT_LEARNING_RATES = (1e-4, 3e-4, 1e-3)
CHOSEN_SFT = "sft-0.0003"
"""The learning rate with the best in-distribution accuracy on validation hands (points24-tuning)."""
DATA_SIZES = (25, 50, 100, 250)
"""Numbers of training hands besides all of them."""
TURNS = (1, 3, 5)
"""Attempts an episode may have, in arms with half the prompts a step."""

GRPO = GRPOConfig(updates_per_epoch=4)
GRPO_LEARNING_RATE = 3e-4
MEASURE = (5, 10, 25, 50, 75, 100, 150, 200, 300)


def _steps(profile: str) -> dict[str, int]:
    if profile == "full":
        return {"sft": 300, "grpo": 250, "reverse": 150, "short": 25, "after": 100, "data": 200, "turns": 100}
    if profile == "workshop":
        return dict.fromkeys(("sft", "grpo", "reverse", "after", "data", "turns"), 40) | {"short": 10}
    return dict.fromkeys(("sft", "grpo", "reverse", "after", "data", "turns"), 2) | {"short": 1}


def arms(profile: str) -> Mapping[str, RunConfig]:
    """Configuration of each arm; smoke and workshop differ from full in size alone."""
    steps = _steps(profile)
    grpo = GRPO if profile != "smoke" else replace(GRPO, prompts_per_step=2, group_size=4)

    def config(*stages: Stage, reverse: bool = False, max_turns: int = 1) -> RunConfig:
        rules = (FACES_AS_TEN, FACES_AS_RANK)
        return RunConfig(
            *(rules[::-1] if reverse else rules),
            stages,
            MEASURE,
            max_turns=max_turns,
            max_hands={"full": 1000, "workshop": 100, "smoke": 8}[profile],
        )

    def rl(number: int, **changes) -> RLStage:
        return RLStage(number, GRPO_LEARNING_RATE, replace(grpo, **changes))

    chosen_rate = float(CHOSEN_SFT.removeprefix("sft-"))
    configs = {f"sft-{lr:g}": config(SFTStage(steps["sft"], lr)) for lr in SFT_LEARNING_RATES}
    configs["grpo"] = config(rl(steps["grpo"]))
    configs["reverse-sft"] = config(SFTStage(steps["reverse"], chosen_rate), reverse=True)
    configs["reverse-grpo"] = config(rl(steps["reverse"]), reverse=True)
    configs["sft-varied"] = config(SFTStage(steps["sft"], chosen_rate, varied_rules=True))
    configs["sft-short-grpo"] = config(SFTStage(steps["short"], chosen_rate), rl(steps["after"]))
    configs["sft-long-grpo"] = config(SFTStage(steps["sft"], chosen_rate), rl(steps["after"]))
    for size in DATA_SIZES if profile == "full" else DATA_SIZES[:1]:
        configs[f"sft-hands{size}"] = config(SFTStage(steps["data"], chosen_rate, num_hands=size))
    for turns in TURNS:
        stage = rl(steps["turns"], max_turns=turns, prompts_per_step=grpo.prompts_per_step // 2)
        configs[f"grpo-turns{turns}"] = config(stage, max_turns=turns)
    unclipped = rl(steps["turns"], clip_low=None, clip_high=None, epochs=4)
    configs["grpo-unclipped"] = config(replace(unclipped, learning_rate=1e-3))
    return configs
