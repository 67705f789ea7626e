"""The arms of the 24-point study at each profile."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from labkit.envs.points24.rules import FACES_AS_RANK, FACES_AS_TEN
from labkit.rl.config import RLConfig
from labkit.studies.points24.run import RLStage, RunConfig, SFTStage, Stage

SFT_LEARNING_RATES = (1e-4, 3e-4, 1e-3)
CHOSEN_RATE = 3e-4
"""SFT's learning rate with the best in-distribution accuracy on validation hands after 200 updates, from
either base (points24-tuning); one seed."""
CHOSEN_SFT = f"sft-{CHOSEN_RATE:g}"
FORGETTING_RATE = 1e-3
"""A rate at which SFT learns the training rule about as fast and forgets the other."""
FORGETTING_SFT = f"sft-{FORGETTING_RATE:g}"
DATA_SIZES = (25, 50, 100, 250)
"""Numbers of training hands besides all of them."""
TURNS = (1, 3, 5)
"""Attempts an episode may have, in arms with half the prompts a step."""

GRPO = RLConfig(group_size=8, kl_coef=0.1)
"""One update a batch and KL 0.1 did best of what was tried (points24-tuning, base of many rules, 16 x 16, one
seed). The group of 8 was taken to halve the cost of a step, and was not tried on validation hands."""
GRPO_LEARNING_RATE = 1e-4
FAST_RATE, FAST_UPDATES = 3e-4, 4
"""A learning rate and number of updates a batch that are too much: for the control without clip."""
MEASURE = (25, 50, 100, 150, 200, 300, 400)


def _steps(profile: str) -> dict[str, int]:
    if profile == "full":
        return {
            "sft-1e-4": 200, "sft-3e-4": 500, "sft-1e-3": 500, "sft-control": 300, "short": 25, "data": 150,
            "grpo": 200, "reverse": 100, "after": 50, "turns": 30, "fast": 50,
        }  # fmt: skip
    number = 40 if profile == "workshop" else 2
    return dict.fromkeys(_steps("full"), number) | {"short": number // 2}


def arms(profile: str) -> Mapping[str, RunConfig]:
    """Configuration of each arm; smoke and workshop differ from full in size alone."""
    steps = _steps(profile)
    grpo = GRPO if profile != "smoke" else replace(GRPO, prompts_per_step=2, group_size=4)
    sizes = {"full": 1000, "workshop": 100, "smoke": 8}

    def config(*stages: Stage, reverse: bool = False, **changes) -> RunConfig:
        rules = (FACES_AS_RANK, FACES_AS_TEN) if reverse else (FACES_AS_TEN, FACES_AS_RANK)
        return RunConfig(*rules, stages, **{"evaluate_at": MEASURE, "max_hands": sizes[profile]} | changes)

    def sft(number: int, rate: float = FORGETTING_RATE, **changes) -> SFTStage:
        return SFTStage(number, rate, **changes)

    def rl(number: int, rate: float = GRPO_LEARNING_RATE, **changes) -> RLStage:
        return RLStage(number, rate, replace(grpo, **changes))

    sft_steps = dict(zip(SFT_LEARNING_RATES, ("sft-1e-4", "sft-3e-4", "sft-1e-3"), strict=True))
    configs = {f"sft-{lr:g}": config(sft(steps[name], lr)) for lr, name in sft_steps.items()}
    configs["grpo"] = config(rl(steps["grpo"]))
    configs["reverse-sft"] = config(sft(steps["reverse"]), reverse=True)
    configs["reverse-grpo"] = config(rl(steps["reverse"]), reverse=True)
    configs["sft-varied"] = config(sft(steps["sft-control"], varied_rules=True))
    configs["reader-sft"] = config(sft(steps["sft-control"]), base="many-rules")
    configs["sft-short-grpo"] = config(sft(steps["short"]), rl(steps["after"]))
    configs["sft-long-grpo"] = config(sft(steps["sft-1e-3"]), rl(steps["after"]))
    for size in DATA_SIZES:
        configs[f"sft-hands{size}"] = config(sft(steps["data"], num_hands=size), evaluate_at=())
    for turns in TURNS:
        stage = rl(steps["turns"], max_turns=turns, prompts_per_step=grpo.prompts_per_step // 2)
        configs[f"grpo-turns{turns}"] = config(stage, max_turns=turns, evaluate_at=())
    fast = {"updates_per_epoch": FAST_UPDATES, "kl_coef": 0.0}
    configs["grpo-fast"] = config(rl(steps["fast"], FAST_RATE, **fast))
    configs["grpo-fast-unclipped"] = config(
        rl(steps["fast"], FAST_RATE, **fast, clip_low=None, clip_high=None)
    )
    return configs
