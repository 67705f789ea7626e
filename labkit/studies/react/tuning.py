"""Settings tried for the ReAct study, on validation tasks only (one seed each).

`python -m labkit run react-tuning --profile full` makes figures/react-tuning/data.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from labkit.agents.cloning import CloningConfig
from labkit.lm.training import OptimizerConfig
from labkit.studies.react import figures
from labkit.studies.react.run import RunConfig, cost, run
from labkit.study import Study

TRIED = ((40, 100, 1e-3), (40, 200, 1e-3), (40, 100, 3e-4), (80, 200, 1e-3), (20, 100, 1e-3))
"""Demonstrations, updates, learning rate."""


def arms(profile: str) -> Mapping[str, RunConfig]:
    """Every setting tried."""
    configs = {}
    for number, updates, rate in TRIED:
        optimizer = OptimizerConfig(learning_rate=rate, schedule="cosine", warmup_steps=10)
        cloning = CloningConfig(phone_demonstrations=number, updates=updates, optimizer=optimizer)
        if profile == "smoke":
            cloning = replace(cloning, phone_demonstrations=2, updates=2, steps_per_update=4)
        most = 2 if profile == "smoke" else 40
        configs[f"demos{number}-updates{updates}-lr{rate:g}"] = RunConfig(cloning, "validation", most)
    return configs


STUDY = Study(
    name="react-tuning",
    version=1,
    arms=arms,
    seeds={"smoke": 1, "workshop": 1, "full": 1},
    run=run,
    cost=cost,
)
CLAIMS: list = []
FIGURES = [figures.TRIED]
