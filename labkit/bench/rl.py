"""A GRPO step and sampling, labkit against TRL and transformers: same model, prompts, dtype and threads.

That both compute the same is tested (tests/rl/test_trl_parity.py); here they are only timed, each in a
process of its own.
"""

from __future__ import annotations

import statistics
from dataclasses import replace
from functools import lru_cache

from labkit.bench import benchmark
from labkit.bench.our_side import labkit_grpo, sample_rate
from labkit.bench.trl_side import generate_rate, trl_grpo
from labkit.bench.workloads import StepTimes, Workload, distinct_tokens, points24_workload, smollm_workload
from labkit.lm.runtime import choose_dtype, choose_threads

SAMPLED_PROMPT = 200
"""Tokens of the prompt that SmolLM2's sampling is timed with."""


def _dtype() -> str:
    return str(choose_dtype()).removeprefix("torch.")


def _tiny() -> Workload:
    return points24_workload(threads=choose_threads())


def _smollm(**sizes: int) -> Workload:
    return smollm_workload(dtype=_dtype(), threads=choose_threads(), **sizes)


def _tiny_steps(workload: Workload) -> tuple[StepTimes, StepTimes]:
    return labkit_grpo(workload, steps=7, warmup=2), trl_grpo(workload, steps=7, warmup=2)


@lru_cache(maxsize=1)
def _smollm_steps() -> tuple[StepTimes, StepTimes]:
    # Without a step to warm up: it would take minutes, and changes a step of minutes by a hundredth.
    return labkit_grpo(_smollm(), warmup=0), trl_grpo(_smollm(), warmup=0)


def _medians(pair: tuple[StepTimes, StepTimes]) -> tuple[float, float]:
    ours, theirs = (statistics.median(times.seconds) for times in pair)
    return ours, theirs


@benchmark("grpo_step_points24", unit="s a step", higher_is_better=False)
def grpo_step_points24() -> tuple[float, float]:
    """A step of 16 prompts × 16 completions on the 24-point base, with the game's reward: median of seven."""
    return _medians(_tiny_steps(_tiny()))


@benchmark("grpo_step_all_rows", unit="s a step", higher_is_better=False)
def grpo_step_all_rows() -> tuple[float, float]:
    """The same with a reward that differs in every group, so that no group is left out of the update."""
    return _medians(_tiny_steps(replace(_tiny(), reward=distinct_tokens)))


@benchmark("grpo_step_smollm", unit="s a step", higher_is_better=False)
def grpo_step_smollm() -> tuple[float, float]:
    """A step with LoRA on SmolLM2-135M: 8 prompts of 229 tokens × 8 completions of 32; one step."""
    return _medians(_smollm_steps())


@benchmark("grpo_memory_smollm", unit="GiB at the peak", higher_is_better=False)
def grpo_memory_smollm() -> tuple[float, float]:
    """The most memory that those steps took, libraries included."""
    ours, theirs = (times.peak_bytes / 2**30 for times in _smollm_steps())
    return ours, theirs


@benchmark("sampling_points24", unit="tokens/s")
def sampling_points24() -> tuple[float, float]:
    """Sampling 16 × 16 completions from the 24-point base, against `model.generate`."""
    return sample_rate(_tiny()), generate_rate(_tiny())


@benchmark("sampling_smollm", unit="tokens/s")
def sampling_smollm() -> tuple[float, float]:
    """Sampling 16 completions of one prompt of 200 tokens from SmolLM2-135M, against `model.generate`."""
    workload = _smollm(num_prompts=1, group_size=16, prompt_tokens=SAMPLED_PROMPT)
    return sample_rate(workload), generate_rate(workload)
