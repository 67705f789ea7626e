"""Settings tried for the knowledge study, on validation facts only (one seed each).

`python -m labkit run knowledge-tuning --profile full` makes figures/knowledge-tuning/data.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from labkit.lm.training import OptimizerConfig
from labkit.studies.knowledge import figures
from labkit.studies.knowledge.arms import arms as study_arms
from labkit.studies.knowledge.arms import share_arm
from labkit.studies.knowledge.run import RunConfig, cost, run
from labkit.study import Study

TRIED = tuple((rate, size) for rate in (1e-4, 3e-4, 1e-3) for size in (16, 32, 64))
"""Learning rate, facts an update; on sets half of which are Unknown."""


def arms(profile: str) -> Mapping[str, RunConfig]:
    """Every setting tried."""
    base = study_arms(profile)[share_arm(50)]
    return {
        f"lr{rate:g}-batch{size}": replace(
            base,
            tuning=replace(base.tuning, optimizer=OptimizerConfig(learning_rate=rate), batch_size=size),
            parts=("validation",),
        )
        for rate, size in TRIED
    }


STUDY = Study(
    name="knowledge-tuning",
    version=1,
    arms=arms,
    seeds={"smoke": 1, "workshop": 1, "full": 1},
    run=run,
    cost=cost,
)
CLAIMS: list = []
FIGURES = [figures.TRIED]
