"""labkit's side of the speed comparisons: a GRPO step and sampling on the same workloads."""

from __future__ import annotations

import statistics
import time
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from labkit.bench.fresh import in_fresh_process, resident_bytes
from labkit.bench.workloads import StepTimes, Workload, check, load

if TYPE_CHECKING:
    from labkit.envs.judging import Judgement

AGGREGATIONS = {"dapo": "token_mean", "grpo": "sequence_mean_token_mean"}


def labkit_grpo(workload: Workload, steps: int = 1, warmup: int = 1) -> StepTimes:
    """Time `steps` steps of labkit's GRPO after `warmup` untimed ones, in a process of their own."""
    check(workload, steps)
    fresh = in_fresh_process(labkit_grpo_here, workload, steps, warmup, threads=workload.threads)
    return replace(fresh.result, peak_bytes=fresh.peak_bytes)


def sample_rate(workload: Workload, repeats: int = 3) -> float:
    """Tokens a second of `labkit.lm.sampling.sample` on the workload's rows: median after a warm-up."""
    check(workload, repeats)
    return in_fresh_process(sample_rate_here, workload, repeats, threads=workload.threads).result


def labkit_grpo_here(workload: Workload, steps: int, warmup: int) -> StepTimes:
    """`labkit_grpo` in this process and with the threads it has; `peak_bytes` stays 0."""
    from labkit.lm.training import OptimizerConfig, TrainState
    from labkit.rl import trainer
    from labkit.rl.config import RLConfig

    model = _model(workload)
    before = resident_bytes()
    config = RLConfig(
        prompts_per_step=len(workload.prompts),
        group_size=workload.group_size,
        max_new_tokens=workload.max_new_tokens,
        aggregation=AGGREGATIONS[workload.loss_type],
        micro_batch_size=workload.micro_batch_size,
    )

    def judge(rows: Sequence[int], completions: Sequence[Sequence[int]]) -> list[Judgement]:
        from labkit.envs.judging import Judgement

        prompts = [str(row // workload.group_size) for row in rows]
        rewards = workload.reward(prompts=prompts, completion_ids=completions)
        return [Judgement(reward) for reward in rewards]

    state = TrainState.start(model, OptimizerConfig(workload.learning_rate), steps + warmup, seed=0)
    times: list[dict[str, Any]] = []
    original = trainer.collect

    def timed_collect(*args: Any, **kwargs: Any) -> Any:
        start = time.perf_counter()
        rollouts = original(*args, **kwargs)
        times[-1]["sampling"] = time.perf_counter() - start
        times[-1]["tokens"] = int(rollouts.completion_mask.sum())
        return rollouts

    trainer.collect = timed_collect  # the process does nothing else
    algorithm = trainer.policy_gradient_algorithm(config, lambda state: (workload.prompts, judge))
    model.train()
    for _ in range(steps + warmup):
        times.append({})
        start = time.perf_counter()
        algorithm(state)
        times[-1]["seconds"] = time.perf_counter() - start
    trainer.collect = original
    timed = times[warmup:]
    return StepTimes(
        tuple(t["seconds"] for t in timed),
        tuple(t["sampling"] for t in timed),
        tuple(t["tokens"] for t in timed),
        before,
    )


def sample_rate_here(workload: Workload, repeats: int) -> float:
    """`sample_rate` in this process and with the threads it has."""
    import torch

    from labkit.lm.sampling import SamplingConfig, sample

    model, generator = _model(replace(workload, lora_rank=0)), torch.Generator().manual_seed(0)
    config, rates = SamplingConfig(workload.max_new_tokens), []
    for _ in range(1 + repeats):
        start = time.perf_counter()
        samples = sample(
            model, workload.prompts, config, num_samples=workload.group_size, generator=generator
        )
        rates.append(int(samples.mask.sum()) / (time.perf_counter() - start))
    return statistics.median(rates[1:])


def _model(workload: Workload) -> Any:
    model, _ = load(workload)
    if not workload.lora_rank:
        return model
    from peft import get_peft_model

    from labkit.bench.trl_side import lora_config

    return get_peft_model(model, lora_config(workload))
