"""PPO, GRPO and their variants on the 24-point game, with a model of 0.9M parameters."""

from __future__ import annotations

from labkit.studies.points24.run import RunConfig
from labkit.studies.points24.run import cost as training_cost
from labkit.studies.points24.run import run as train_and_measure
from labkit.studies.ppo_grpo.arms import arms
from labkit.studies.ppo_grpo.claims import CLAIMS
from labkit.studies.ppo_grpo.figures import FIGURES
from labkit.studies.ppo_grpo.noise import NoiseConfig, measure_noise
from labkit.study import Rows, RunContext, Study


def run(config: RunConfig | NoiseConfig, context: RunContext) -> Rows:
    """One run: training from the base, or a measurement of noise without training."""
    if isinstance(config, NoiseConfig):
        return measure_noise(config, context)
    return train_and_measure(config, context)


def cost(config: RunConfig | NoiseConfig) -> float:
    """Rough seconds of a run on one core, for the time left."""
    return 60.0 if isinstance(config, NoiseConfig) else training_cost(config)


STUDY = Study(
    name="ppo_grpo",
    version=1,
    arms=arms,
    seeds={"smoke": 1, "workshop": 2, "full": 5},
    run=run,
    cost=cost,
)

__all__ = ["CLAIMS", "FIGURES", "STUDY"]
