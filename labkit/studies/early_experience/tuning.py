"""Settings tried for the study of early experience, on validation tasks only (two seeds each).

`python -m labkit run early_experience-tuning --profile full` makes figures/early_experience-tuning/data.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from labkit.agents.early import EarlyConfig
from labkit.lm.training import OptimizerConfig
from labkit.studies.early_experience import figures
from labkit.studies.early_experience.arms import WORLDS, arm, sized
from labkit.studies.early_experience.run import RunConfig, cost, run
from labkit.study import Study

SLOW = OptimizerConfig(learning_rate=3e-4, schedule="cosine", warmup_steps=10)
TRIED: Mapping[str, Mapping[str, Any]] = {
    "imitation-updates200": {"updates": 200},
    "imitation": {},
    "imitation-updates600": {"updates": 600},
    "imitation-rate3e-4": {"optimizer": SLOW},
    "iwm-updates200-first70": {"method": "iwm", "updates": 200, "world_model_updates": 70},
    "iwm-first70": {"method": "iwm", "world_model_updates": 70},
    "iwm-first150": {"method": "iwm"},
    "iwm-kept": {"method": "iwm", "world_model_share": 0.5},
    "sr-updates200": {"method": "sr", "updates": 200},
    "sr": {"method": "sr"},
    "sr-share1": {"method": "sr", "reflection_share": 1.0},
}
"""Every setting tried, in each world, by what differs from `BASE`."""
BASE = EarlyConfig(updates=300, world_model_updates=150)
"""What the settings differ from."""


def arms(profile: str) -> Mapping[str, RunConfig]:
    """A configuration for each setting and world."""
    small = sized("smoke") if profile == "smoke" else {}
    most = 2 if profile == "smoke" else 40
    return {
        arm(world, name): RunConfig(
            replace(BASE, **{"world": world, **changes, **small}), split="validation", most=most
        )
        for world in WORLDS
        for name, changes in TRIED.items()
    }


STUDY = Study(
    name="early_experience-tuning",
    version=1,
    arms=arms,
    seeds={"smoke": 1, "workshop": 1, "full": 2},
    run=run,
    cost=cost,
)
CLAIMS: list = []
FIGURES = [figures.TRIED]
