"""The arms of the study of early experience: one thing changed at a time, in each world."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from labkit.agents.early import METHODS, EarlyConfig
from labkit.studies.early_experience.run import RunConfig

WORLDS = ("phone",)
"""Worlds of the study."""
IMITATION, IWM, SR = "imitation", "iwm", "sr"
LONG = "imitation-long"
"""Imitation with as many updates more as the world model takes."""
KEPT = "iwm-kept"
"""A world model first, and half of each later update as well, lest imitation overwrite it."""
MAIN = (IMITATION, IWM, SR)
NUMBERS_OF_ALTERNATIVES = (1, 2, 4, 8)
FRACTIONS = (8, 1)
"""All demonstrations divided by these."""
EARLY: Mapping[str, EarlyConfig] = {
    "phone": EarlyConfig("phone", updates=300, world_model_updates=150),
}
"""Updates as chosen on validation tasks (early_experience-tuning). `reflection_share` stays at the half it
was set to at first: 1 did better there, by less than two seeds can tell."""


def arm(world: str, *parts: Any) -> str:
    """Name of an arm, e.g. `phone-iwm-k2`."""
    return "-".join(map(str, (world, *parts)))


def arms(profile: str) -> Mapping[str, RunConfig]:
    """Configuration of each arm; smoke and workshop differ from full in size alone."""
    configs: dict[str, RunConfig] = {}
    for world in WORLDS:
        base = replace(EARLY[world], **sized(profile))
        early = {arm(world, method): replace(base, method=method) for method in METHODS}
        early[arm(world, LONG)] = replace(base, updates=base.updates + base.world_model_updates)
        early[arm(world, KEPT)] = replace(base, method=IWM, world_model_share=0.5)
        for method in (IWM, SR):
            for k in NUMBERS_OF_ALTERNATIVES:
                if k != EARLY[world].k:
                    early[arm(world, method, f"k{k}")] = replace(base, method=method, k=k)
        for method in MAIN:
            for fraction in FRACTIONS[:-1]:
                fewer = max(base.demonstrations // fraction, 1)
                early[arm(world, method, f"1of{fraction}")] = replace(
                    base, method=method, demonstrations=fewer
                )
        most = {"full": 60, "workshop": 12, "smoke": 3}[profile]
        configs |= {name: RunConfig(config, most=most) for name, config in early.items()}
    return configs


def sized(profile: str) -> Mapping[str, Any]:
    """Fields of `EarlyConfig` by which a profile differs from `full`."""
    return {
        "full": {},
        "workshop": {"updates": 100, "world_model_updates": 50},
        "smoke": {"updates": 2, "world_model_updates": 1, "steps_per_update": 4, "demonstrations": 2, "k": 2},
    }[profile]
