"""GRPO as an algorithm of `labkit.lm.training.train`: roll out, compare within the group, update."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor
from transformers import PreTrainedModel

from labkit.lm.sampling import SamplingConfig
from labkit.lm.scoring import token_logprobs
from labkit.lm.training import TrainState, micro_batches
from labkit.rl.advantages import group_advantages
from labkit.rl.kl import Estimator, kl_estimate
from labkit.rl.losses import Aggregation, clipped_policy_loss, clipped_share, token_weights
from labkit.rl.rollout import Judge, Rollouts, collect

ROLLOUT_TOLERANCE = 1e-3
"""Largest difference in nats between the log-probs sampled with and those scored before the first
update; float32 rounding stays a hundred times below it, a wrong temperature, mask or shift far above."""


@dataclass(frozen=True)
class GRPOConfig:
    """Group-relative policy optimisation."""

    prompts_per_step: int = 16
    """Prompts drawn a step."""
    group_size: int = 16
    """Completions of each prompt."""
    max_new_tokens: int = 32
    """Longest completion in tokens."""
    max_turns: int = 1
    """Judged attempts an episode may have; more than 1 is verify-and-revise."""
    temperature: float = 1.0
    """Sampling temperature; the policy is scored at the same one."""
    epochs: int = 1
    """Passes over the rollouts of a step."""
    updates_per_epoch: int = 1
    """Optimiser steps a pass; the rows are split among them at random."""
    clip_low: float | None = 0.2
    """The ratio is clipped at 1 - clip_low from below; None with clip_high None: no clip."""
    clip_high: float | None = 0.2
    """The ratio is clipped at 1 + clip_high from above."""
    kl_coef: float = 0.0
    """Weight of the KL penalty to the reference in the loss; 0 needs no reference."""
    kl_estimator: Estimator = "k3"
    """Estimator of the penalty."""
    scale_by_std: bool = True
    """Divide advantages by the group's standard deviation."""
    aggregation: Aggregation = "sequence_mean_token_mean"
    """How token losses become one number."""
    micro_batch_size: int = 64
    """Rows a forward and backward pass."""


Prompts = tuple[Sequence[Sequence[int]], Judge]
"""Prompts of one step and who judges their completions (row `i * group_size + j`: sample j of prompt i)."""


def grpo_algorithm(
    config: GRPOConfig,
    next_prompts: Callable[[TrainState], Prompts],
    reference: PreTrainedModel | None = None,
) -> Callable[[TrainState], Mapping[str, float]]:
    """One step: sample groups, standardise rewards within each, take clipped policy-gradient updates.

    Groups whose rewards are all equal carry no signal; without a KL penalty they are left out of the
    backward pass, which changes no gradient (their weight in the mean stays).

    Source: DeepSeekMath (arXiv 2402.03300), algorithm 1 and eq. 3.
    """
    if config.kl_coef and reference is None:
        raise ValueError(f"kl_coef is {config.kl_coef} but there is no reference model to stay close to")
    sampling = SamplingConfig(config.max_new_tokens, temperature=config.temperature)

    def algorithm(state: TrainState) -> Mapping[str, float]:
        prompts, judge = next_prompts(state)
        rollouts = collect(
            state.model,
            prompts,
            judge,
            sampling,
            group_size=config.group_size,
            generator=state.generator,
            max_turns=config.max_turns,
        )
        state.tokens_sampled += rollouts.num_tokens
        advantages = group_advantages(rollouts.rewards, config.group_size, scale_by_std=config.scale_by_std)
        reference_logprobs = None
        if config.kl_coef:
            reference_logprobs = score_rollouts(reference, rollouts, config)
            state.tokens_sampled += rollouts.num_tokens
        learner = _Learner(config, rollouts, advantages, reference_logprobs)
        metrics = learner.run(state)
        groups = rollouts.rewards.view(-1, config.group_size)
        kept = rollouts.completion_mask.sum()
        return {
            "reward": float(rollouts.rewards.mean()),
            "reward_std_in_group": float(groups.std(-1).mean()),
            "groups_without_signal": float((groups == groups[:, :1]).all(-1).float().mean()),
            "surprise": float(-(rollouts.logprobs * rollouts.completion_mask).sum() / kept),
            "turns": float(rollouts.turns.float().mean()),
            **metrics,
        }

    return algorithm


@torch.no_grad()
def score_rollouts(model: PreTrainedModel, rollouts: Rollouts, config: GRPOConfig) -> Tensor:
    """Log-probs `[rows, time]` of all sampled tokens under `model`, 0 elsewhere."""
    scores = torch.zeros_like(rollouts.logprobs)
    length = rollouts.ids.shape[1] - rollouts.prompt_length
    for rows in micro_batches(torch.arange(len(rollouts.ids)), config.micro_batch_size):
        scores[rows, -length:] = token_logprobs(
            model, rollouts.ids[rows], rollouts.attention_mask[rows], length, config.temperature
        )
    return scores * rollouts.completion_mask


class _Learner:
    """The updates on one set of rollouts."""

    def __init__(
        self,
        config: GRPOConfig,
        rollouts: Rollouts,
        advantages: Tensor,
        reference_logprobs: Tensor | None,
    ) -> None:
        self.config, self.rollouts = config, rollouts
        self.advantages, self.reference_logprobs = advantages, reference_logprobs
        self.length = rollouts.ids.shape[1] - rollouts.prompt_length
        self.totals: dict[str, float] = {}

    def run(self, state: TrainState) -> Mapping[str, float]:
        config, num_rows = self.config, len(self.rollouts.ids)
        gap, norms = None, []
        for _ in range(config.epochs):
            order = torch.arange(num_rows)
            if config.updates_per_epoch > 1:
                order = torch.randperm(num_rows, generator=state.generator)
            for part in order.chunk(config.updates_per_epoch):
                part_gap = self._accumulate(state, part)
                if gap is None and part_gap is not None:
                    gap = part_gap
                    _check_rollout_gap(gap)
                norms.append(state.update())
        means = {k: v / len(norms) for k, v in self.totals.items()}
        return {**means, "grad_norm": sum(norms) / len(norms), "rollout_gap": gap or 0.0}

    def _accumulate(self, state: TrainState, part: Tensor) -> float | None:
        """Add the gradient of the rows in `part`; returns the largest |new - sampled| log-prob, None
        where no row carries a signal (the update that follows then changes nothing)."""
        config, data, length = self.config, self.rollouts, self.length
        mask = data.completion_mask[:, -length:]
        weights = torch.zeros_like(data.logprobs[:, -length:])
        weights[part] = token_weights(mask[part], config.aggregation, config.max_new_tokens)
        if not config.kl_coef:
            part = part[self.advantages[part] != 0]
        gaps = []
        for rows in micro_batches(part, config.micro_batch_size):
            logprobs = token_logprobs(
                state.model, data.ids[rows], data.attention_mask[rows], length, config.temperature
            )
            old = data.logprobs[rows, -length:]
            # Outside the mask old is 0; the ratio there must not overflow before it is weighted by 0.
            logprobs = torch.where(mask[rows], logprobs, old)
            advantages = self.advantages[rows]
            per_token = clipped_policy_loss(logprobs, old, advantages, config.clip_low, config.clip_high)
            self._add("policy_loss", per_token, weights[rows])
            if config.kl_coef:
                penalty = kl_estimate(logprobs, self.reference_logprobs[rows, -length:], config.kl_estimator)
                self._add("kl", penalty, weights[rows])
                per_token = per_token + config.kl_coef * penalty
            (per_token * weights[rows]).sum().backward()
            if config.clip_low is not None:
                share = clipped_share(logprobs, old, advantages, config.clip_low, config.clip_high)
                self._add("clipped", share, weights[rows])
            gaps.append((logprobs - old).abs().max().detach())
            state.tokens_trained += int(data.attention_mask[rows].sum())
        return float(torch.stack(gaps).max()) if gaps else None

    def _add(self, name: str, values: Tensor, weights: Tensor) -> None:
        total = float((values.detach() * weights).sum())
        self.totals[name] = self.totals.get(name, 0.0) + total


def _check_rollout_gap(gap: float) -> None:
    if not gap <= ROLLOUT_TOLERANCE:  # NaN too
        raise RuntimeError(
            f"log-probs scored before the first update differ from those sampled by up to {gap:.2g} nats: "
            "the ratio does not start at 1. Look for dropout, a different temperature, a shifted mask or "
            "re-tokenised text."
        )
