"""What a step costs: with a critic and without, and as group, completion and model grow.

`python -m labkit run speed --profile full` measures it, on a machine that should do nothing else, and
writes figures/speed/*.csv.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import pandas as pd
import torch
from tqdm.auto import tqdm

from labkit.bench.fresh import in_fresh_process
from labkit.bench.workloads import points24_workload
from labkit.files import atomic_write_text, cache_dir, repo_root
from labkit.lm.runtime import choose_threads, matmul_rate
from labkit.rl.config import RLConfig
from labkit.studies.ppo_grpo.arms import ALGORITHM_ARMS

WIDTHS, LENGTHS, GROUPS = (64, 128, 256), (8, 16, 32, 64), (2, 4, 8, 16, 32)
PROMPTS, PROMPT_LENGTH = 16, 10
SMALL = {"prompts_per_step": 2, "group_size": 2}


@dataclass(frozen=True)
class Shape:
    """A step of GRPO on a model that has learned nothing, and so never ends a completion early."""

    width: int = 128
    """Hidden size of the model; its MLP is three times as wide."""
    length: int = 32
    """Tokens of every completion."""
    group_size: int = 16
    """Completions of each of 16 prompts of 10 tokens."""


def time_shape(shape: Shape, steps: int) -> dict[str, float]:
    """Median seconds of a step, sampling and training apart, and the share of the matmul rate it reaches.

    Counted are 2 operations a parameter and token for sampling and 6 for training, prompts once a group.
    """
    from labkit.envs.judging import Judgement
    from labkit.envs.points24 import compact
    from labkit.lm.models import TinyConfig, num_parameters, tiny_model
    from labkit.lm.sampling import SamplingConfig
    from labkit.lm.tokenizer import word_tokenizer
    from labkit.lm.training import OptimizerConfig, TrainState
    from labkit.rl.credit import assign_credit
    from labkit.rl.rollout import collect
    from labkit.rl.updates import Updates

    tokenizer = word_tokenizer(compact.VOCABULARY)
    model = tiny_model(TinyConfig(width=shape.width, mlp_width=3 * shape.width), tokenizer, seed=0)
    model.config.eos_token_id = None
    generator = torch.Generator().manual_seed(0)
    prompts = torch.randint(5, len(tokenizer), (PROMPTS, PROMPT_LENGTH), generator=generator).tolist()
    config = RLConfig(prompts_per_step=PROMPTS, group_size=shape.group_size, max_new_tokens=shape.length)
    state = TrainState.start(model.train(), OptimizerConfig(1e-5), steps, seed=0)
    sampled, trained = [], []
    for _ in range(steps + 1):
        start = time.perf_counter()
        rollouts = collect(
            model,
            prompts,
            lambda rows, completions: [Judgement(float(row)) for row in rows],
            SamplingConfig(shape.length),
            group_size=shape.group_size,
            generator=generator,
        )
        middle = time.perf_counter()
        Updates(config, rollouts, assign_credit(config, rollouts)).run(state)
        sampled.append(middle - start)
        trained.append(time.perf_counter() - middle)
    rows = PROMPTS * shape.group_size
    operations = 8 * num_parameters(model) * (rows * (shape.length - 1) + PROMPTS * PROMPT_LENGTH)
    seconds = statistics.median(a + b for a, b in zip(sampled[1:], trained[1:], strict=True))
    rate = matmul_rate(torch.float32) * 1e9
    return {
        "seconds": seconds,
        "sampling": statistics.median(sampled[1:]),
        "training": statistics.median(trained[1:]),
        "share_of_matmul_rate": operations / seconds / rate,
    }


def time_algorithm(config: RLConfig, steps: int) -> dict[str, float]:
    """Median seconds of a step on the 24-point base, and the parameters held.

    Rewards differ in every group: with the verifier's, GRPO would skip the groups without signal, which a
    critic does not, and what that saves has nothing to do with the critic.
    """
    from labkit.envs.judging import Judgement
    from labkit.lm.models import load_model, num_parameters
    from labkit.lm.training import OptimizerConfig, TrainState
    from labkit.rl.critic import attach_critic
    from labkit.rl.trainer import policy_gradient_algorithm
    from labkit.studies.points24.base import base_folder

    workload = points24_workload()
    model, _ = load_model(base_folder())
    if config.critic:
        attach_critic(model, config.critic)
    state = TrainState.start(model.train(), OptimizerConfig(1e-5), steps + 1, seed=0)
    prompts = workload.prompts[: config.prompts_per_step]
    algorithm = policy_gradient_algorithm(
        config, lambda state: (prompts, lambda rows, completions: [Judgement(float(row)) for row in rows])
    )
    seconds = []
    for _ in range(steps + 1):
        start = time.perf_counter()
        algorithm(state)
        seconds.append(time.perf_counter() - start)
    return {"seconds": statistics.median(seconds[1:]), "parameters": float(num_parameters(model))}


def measure_shapes(shapes: Sequence[tuple[str, int, Shape]], steps: int) -> pd.DataFrame:
    """A row a shape: what varies, its value, and the times."""
    threads = choose_threads()
    rows = [
        {"varies": name, "value": value, **in_fresh_process(time_shape, shape, steps, threads=threads).result}
        for name, value, shape in tqdm(shapes, desc="shapes", unit="shape")
    ]
    return pd.DataFrame(rows).assign(threads=threads)


def measure_critics(steps: int, **smaller: int) -> pd.DataFrame:
    """A row an algorithm: GRPO, and PPO with either critic."""
    threads, rows = choose_threads(), []
    for name in tqdm(("grpo", "ppo", "ppo-separate"), desc="critics", unit="algorithm"):
        fresh = in_fresh_process(
            time_algorithm, replace(ALGORITHM_ARMS[name], **smaller), steps, threads=threads
        )
        rows.append({"arm": name, **fresh.result, "peak_mib": fresh.peak_bytes / 2**20})
    return pd.DataFrame(rows).assign(threads=threads)


def shapes() -> list[tuple[str, int, Shape]]:
    """Every shape that is measured: one thing varies at a time."""
    return [
        *(("group size", g, Shape(group_size=g)) for g in GROUPS),
        *(("completion length", n, Shape(length=n)) for n in LENGTHS),
        *(("model width", w, Shape(width=w)) for w in WIDTHS),
    ]


def main(profile: str) -> None:
    """What `python -m labkit run speed` does: at `full`, write what is committed; else to the cache."""
    full = profile == "full"
    folder: Path = repo_root() / "figures" / "speed" if full else cache_dir() / "speed"
    chosen = shapes() if full else [("group size", 2, Shape(64, 4, 2))]
    tables = {
        "shapes_measured": measure_shapes(chosen, 5 if full else 1),
        "critics_measured": measure_critics(9)
        if full
        else measure_critics(1, prompts_per_step=2, group_size=2),
    }
    for name, table in tables.items():
        atomic_write_text(folder / f"{name}.csv", table.to_csv(index=False, float_format="%.5g"))
    print(f"times written to {folder}")
