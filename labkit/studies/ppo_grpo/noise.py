"""How noisy advantages and gradients are at a given group size, for the base policy, at equal samples."""

from __future__ import annotations

import random
from dataclasses import dataclass

import torch
from torch import Tensor
from transformers import PreTrainedModel

from labkit.envs.points24.data import shuffled
from labkit.envs.points24.grading import BINARY_REWARDS
from labkit.envs.points24.play import Codec, compact_judge
from labkit.envs.points24.rules import Rule
from labkit.lm.models import load_model
from labkit.lm.sampling import SamplingConfig
from labkit.lm.shared_prompt import continuation_logprobs
from labkit.rl.advantages import group_advantages, rloo_advantages
from labkit.rl.config import RLConfig
from labkit.rl.losses import policy_gradient_loss, token_weights
from labkit.rl.rollout import Rollouts, collect
from labkit.studies.points24.base import base_folder
from labkit.studies.points24.run import RunConfig, training_hands
from labkit.study import Rows, RunContext


@dataclass(frozen=True)
class NoiseConfig:
    """Batches of the same number of completions, split into groups of different size."""

    rule: Rule
    """The rule of the training hands."""
    group_sizes: tuple[int, ...]
    """Group sizes compared."""
    rows: int
    """Completions a batch."""
    batches: int
    """Independent batches a group size: their gradients are compared with each other."""


def gradient(model: PreTrainedModel, rollouts: Rollouts, advantages: Tensor) -> Tensor:
    """The policy gradient of a batch, all parameters in one vector; `advantages` is `[rows]`."""
    mask = rollouts.completion_mask
    weights = token_weights(mask, "sequence_mean_token_mean")
    model.zero_grad(set_to_none=True)
    for rows in torch.arange(len(mask)).split(32):
        logprobs = continuation_logprobs(
            model,
            rollouts.prompt_ids,
            rollouts.prompt_mask,
            rollouts.prompt_of_row[rows],
            rollouts.ids[rows],
            rollouts.mask[rows],
        )
        (policy_gradient_loss(logprobs, advantages[rows, None]) * weights[rows]).sum().backward()
    total = torch.cat([p.grad.flatten() for p in model.parameters()])
    model.zero_grad(set_to_none=True)
    return total


def agreement(gradients: Tensor) -> float:
    """Mean cosine between the gradients of different batches, `[batches, parameters]` -> a number.

    1: every batch points the same way; 0: nothing but noise.
    """
    unit = gradients / gradients.norm(dim=1, keepdim=True).clamp(min=1e-12)
    cosines = unit @ unit.T
    number = len(unit)
    return float((cosines.sum() - cosines.trace()) / (number * (number - 1)))


def measure_noise(config: NoiseConfig, context: RunContext) -> Rows:
    """A row a group size, in the column `step`: agreement of gradients, share of groups without signal,
    and the standard deviation of a group's mean reward."""
    model, tokenizer = load_model(base_folder("two-rules"))
    codec, generator = Codec(tokenizer), torch.Generator().manual_seed(context.seed)
    rng = random.Random(context.seed)
    hands = training_hands(RunConfig(config.rule, config.rule, ()))
    sampling = SamplingConfig(RLConfig().max_new_tokens)
    rows: Rows = []
    for done, size in enumerate(config.group_sizes):
        batches = []
        for _ in range(config.batches):
            chosen = torch.randint(len(hands), (config.rows // size,), generator=generator).tolist()
            drawn = [shuffled(hands[i], rng) for i in chosen]
            judge = compact_judge(codec, drawn, config.rule, BINARY_REWARDS, size)
            prompts = codec.prompts(drawn, config.rule)
            batches.append(collect(model, prompts, judge, sampling, group_size=size, generator=generator))
        groups = torch.cat([b.rewards.view(-1, size) for b in batches])
        row = {
            "step": size,
            "groups_without_signal": 1
            - float(torch.cat([b.groups_with_signal for b in batches]).float().mean()),
            # The variance within a group, divided by its size, is that of its mean as a baseline.
            "baseline_std": float((groups.var(1) / size).mean().sqrt()),
        }
        for name, advantage in (("grpo", group_advantages), ("rloo", rloo_advantages)):
            vectors = [gradient(model, b, advantage(b.rewards, size)) for b in batches]
            row[f"agreement_{name}"] = agreement(torch.stack(vectors))
        rows.append(row)
        context.report((done + 1) / len(config.group_sizes))
    return rows
