"""Settings tried for the study of policy-gradient variants, on validation hands only (one seed each).

`python -m labkit run ppo_grpo-tuning --profile full` makes figures/ppo_grpo-tuning/data.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from labkit.studies.points24.run import RunConfig, cost, run
from labkit.studies.ppo_grpo import figures
from labkit.studies.ppo_grpo.arms import ALGORITHM_ARMS, CLIP_ARMS, run_config
from labkit.study import Study

STEPS, RATES = 60, (3e-5, 1e-4, 3e-4)


def arms(profile: str) -> Mapping[str, RunConfig]:
    """Learning rates of GRPO and of PPO with either critic; passes over a batch, with and without clip."""
    configs = {
        f"{name}-lr{rate:g}": run_config(ALGORITHM_ARMS[name], STEPS, profile, rate, "validation")
        for name in ("grpo", "ppo", "ppo-separate")
        for rate in RATES
    }
    for epochs in (4, 8):
        for name in ("clip-0.2", "clip-none"):
            algorithm = replace(CLIP_ARMS[name], epochs=epochs)
            configs[f"{name}-epochs{epochs}"] = run_config(algorithm, 30, profile, split="validation")
    return configs


STUDY = Study(
    name="ppo_grpo-tuning",
    version=1,
    arms=arms,
    seeds={"smoke": 1, "workshop": 1, "full": 1},
    run=run,
    cost=cost,
)
CLAIMS: list = []
FIGURES = [figures.TRIED]
