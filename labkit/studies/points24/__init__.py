"""SFT against RL on the 24-point game (Chu et al. 2025), with a model of 0.9M parameters."""

from __future__ import annotations

from labkit.studies.points24.arms import arms
from labkit.studies.points24.claims import CLAIMS
from labkit.studies.points24.figures import FIGURES
from labkit.studies.points24.run import STUDY_VERSION, cost, run
from labkit.study import Study

STUDY = Study(
    name="points24",
    version=STUDY_VERSION,
    arms=arms,
    seeds={"smoke": 2, "workshop": 2, "full": 5},
    run=run,
    cost=cost,
)

__all__ = ["CLAIMS", "FIGURES", "STUDY"]
