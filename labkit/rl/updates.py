"""The updates on one set of rollouts: micro-batches, losses, gradients."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor
from transformers import PreTrainedModel

from labkit.lm.sampling import evaluating
from labkit.lm.scoring import kl_divergence, state_logprobs
from labkit.lm.shared_prompt import continuation_logprobs, continuation_states
from labkit.lm.training import TrainState, micro_batches
from labkit.rl.config import RLConfig
from labkit.rl.credit import Credit
from labkit.rl.kl import kl_estimate, with_ratio
from labkit.rl.losses import (
    cispo_loss,
    clipped_policy_loss,
    clipped_share,
    policy_gradient_loss,
    sequence_ratio,
    token_ratio,
    token_weights,
    value_loss,
)
from labkit.rl.reference import Reference
from labkit.rl.rollout import Rollouts

ROLLOUT_TOLERANCE = {torch.float32: 1e-3, torch.bfloat16: 0.5}
"""Largest difference in nats between the log-probs sampled with and those scored before the first update.
Rounding of a float32 model stays a hundred times below it, a wrong temperature, mask or shift far above."""


@dataclass(frozen=True)
class _Part:
    """Some rows of the rollouts, cut to the longest of them."""

    rows: Tensor
    time: int
    rollouts: Rollouts

    def __call__(self, per_token: Tensor) -> Tensor:
        """The rows' part of a tensor `[rows, time]`."""
        return per_token[self.rows, : self.time]

    @property
    def num_tokens(self) -> int:
        """Real tokens, each row with its prompt."""
        prompts = self.rollouts.prompt_mask[self.rollouts.prompt_of_row[self.rows]]
        return int(self(self.rollouts.mask).sum() + prompts.sum())

    @property
    def inputs(self) -> tuple[Tensor, ...]:
        """What `labkit.lm.shared_prompt` takes."""
        all_rows = self.rollouts
        prompts = all_rows.prompt_ids, all_rows.prompt_mask, all_rows.prompt_of_row[self.rows]
        return *prompts, self(all_rows.ids), self(all_rows.mask)


def _parts(config: RLConfig, rollouts: Rollouts, rows: Tensor | None = None) -> list[_Part]:
    """Micro-batches of `rows` (default: all), in order: rows of a group share one pass of their prompt."""
    rows = torch.arange(len(rollouts.ids), device=rollouts.ids.device) if rows is None else rows.sort().values
    lengths = rollouts.mask.sum(-1)
    return [
        _Part(piece, int(lengths[piece].max()), rollouts)
        for piece in micro_batches(rows, config.micro_batch_size)
    ]


@torch.no_grad()
def score_rollouts(model: torch.nn.Module, rollouts: Rollouts, config: RLConfig) -> Tensor:
    """Log-probs `[rows, time]` of all sampled tokens under `model`, 0 elsewhere."""
    scores = torch.zeros_like(rollouts.logprobs)
    for part in _parts(config, rollouts):
        scores[part.rows, : part.time] = continuation_logprobs(model, *part.inputs, config.temperature)
    return scores * rollouts.completion_mask


@torch.no_grad()
def critic_values(model: PreTrainedModel, rollouts: Rollouts, config: RLConfig) -> Tensor:
    """`V(s_t)` `[rows, time]` of the state before each sampled token, 0 elsewhere."""
    values = torch.zeros_like(rollouts.logprobs)
    backbone = model if model.critic.backbone is None else model.critic.backbone
    with evaluating(model):
        for part in _parts(config, rollouts):
            values[part.rows, : part.time] = model.critic(continuation_states(backbone, *part.inputs))
    return values * rollouts.completion_mask


class Updates:
    """All updates on one set of rollouts.

    Rows without any signal (all advantages 0, no KL penalty in the loss, no critic) are left out of the
    backward pass, which changes no gradient: their weight in the mean stays.
    """

    def __init__(
        self,
        config: RLConfig,
        rollouts: Rollouts,
        credit: Credit,
        values: Tensor | None = None,
        reference: Reference | None = None,
        reference_logprobs: Tensor | None = None,
    ) -> None:
        """`values` are the critic's before the updates; `reference_logprobs` `[rows, time]` as scored."""
        self.config, self.rollouts, self.credit, self.values = config, rollouts, credit, values
        self.reference, self.reference_logprobs = reference, reference_logprobs
        self.kl_in_loss = bool(config.kl_coef) and config.kl_in == "loss"
        self.totals: dict[str, float] = defaultdict(float)

    def run(self, state: TrainState) -> Mapping[str, float]:
        """Make them; returns metrics, means over the updates.

        Raises RuntimeError if, before the first one, the policy does not give the log-probs that the
        rollouts were sampled with.
        """
        config, num_rows = self.config, len(self.rollouts.ids)
        gap, norms = None, []
        for _ in range(config.epochs):
            order = torch.arange(num_rows)
            if config.updates_per_epoch > 1:
                order = torch.randperm(num_rows, generator=state.generator)
            for rows in order.chunk(config.updates_per_epoch):
                found = self._accumulate(state, rows.to(self.rollouts.ids.device))
                if gap is None and found is not None:
                    gap = found
                    _check_rollout_gap(gap, state.model.dtype)
                norms.append(state.update())
        means = {name: total / len(norms) for name, total in self.totals.items()}
        return {**means, "grad_norm": sum(norms) / len(norms), "rollout_gap": gap or 0.0}

    def _accumulate(self, state: TrainState, rows: Tensor) -> float | None:
        """Add the gradient of `rows`; returns the largest |new - sampled| log-prob, None where no row
        carries a signal (the update that follows then changes nothing)."""
        config, data = self.config, self.rollouts
        # Weights are those of the whole update, so that they do not depend on the micro-batches.
        weights, value_weights = torch.zeros_like(data.logprobs), torch.zeros_like(data.logprobs)
        weights[rows] = token_weights(data.completion_mask[rows], config.aggregation, config.max_length)
        share = torch.zeros_like(weights)  # of metrics: every token of the update counts the same
        share[rows] = token_weights(data.completion_mask[rows], "token_mean")
        if config.critic:
            value_weights[rows] = token_weights(self.credit.value_mask[rows], "token_mean")
        elif not self.kl_in_loss:
            rows = rows[(self.credit.advantages[rows] != 0).any(-1)]
        gaps = []
        for part in _parts(config, data, rows):
            old = part(data.logprobs)
            states = continuation_states(state.model, *part.inputs)
            logprobs = state_logprobs(state.model, states, part(data.ids), config.temperature)
            # Where nothing was sampled old is 0; the ratio there must not overflow before its weight of 0.
            logprobs = torch.where(part(data.completion_mask), logprobs, old)
            loss = self._policy_loss(part, logprobs, old, part(share))
            if self.kl_in_loss:
                penalty = self._kl_penalty(part, state, states, logprobs, old)
                self._record("kl", penalty, part(share))
                loss = loss + config.kl_coef * penalty
            loss = (loss * part(weights)).sum()
            self.totals["loss"] += float(loss.detach())
            if config.critic:
                errors = self._value_errors(part, state, states)
                self._record("value_loss", errors, part(value_weights))
                loss = loss + config.value_coef * (errors * part(value_weights)).sum()
            loss.backward()
            gaps.append((logprobs - old).abs().max().detach())
            state.tokens_trained += part.num_tokens
        return float(torch.stack(gaps).max()) if gaps else None

    def _policy_loss(self, part: _Part, logprobs: Tensor, old: Tensor, share: Tensor) -> Tensor:
        """Loss per token `[rows, time]`."""
        config, advantages = self.config, part(self.credit.advantages)
        if config.loss == "policy_gradient":
            return policy_gradient_loss(logprobs, advantages)
        ratio = token_ratio(logprobs, old)
        if config.ratio == "sequence":
            ratio = sequence_ratio(logprobs, old, part(self.rollouts.completion_mask))
        if config.loss == "cispo":
            return cispo_loss(logprobs, ratio, advantages, config.clip_high)
        if config.clip_low is not None:
            clipped = clipped_share(ratio, advantages, config.clip_low, config.clip_high)
            self._record("clipped", clipped, share)
        return clipped_policy_loss(ratio, advantages, config.clip_low, config.clip_high, config.dual_clip)

    def _kl_penalty(
        self, part: _Part, state: TrainState, states: Tensor, logprobs: Tensor, old: Tensor
    ) -> Tensor:
        """Penalty per token `[rows, time]`."""
        config = self.config
        if config.kl_estimator == "exact":
            logits = state.model.get_output_embeddings()(states).float()
            state.tokens_sampled += part.num_tokens
            with torch.no_grad(), self.reference.model() as reference:
                reference_states = continuation_states(reference, *part.inputs)
                reference_logits = reference.get_output_embeddings()(reference_states).float()
            return kl_divergence(logits / config.temperature, reference_logits / config.temperature)
        penalty = kl_estimate(logprobs, part(self.reference_logprobs), config.kl_estimator)
        return with_ratio(penalty, logprobs, old) if config.kl_with_ratio else penalty

    def _value_errors(self, part: _Part, state: TrainState, states: Tensor) -> Tensor:
        """Value loss per token `[rows, time]`."""
        critic = state.model.critic
        if critic.backbone is not None:
            states = continuation_states(critic.backbone, *part.inputs)
            state.tokens_trained += part.num_tokens
        return value_loss(
            critic(states), part(self.values), part(self.credit.returns), self.config.value_clip
        )

    def _record(self, name: str, values: Tensor, weights: Tensor) -> None:
        """Add the weighted mean of `values` `[rows, time]` to a metric."""
        self.totals[name] += float((values.detach() * weights).sum())


def _check_rollout_gap(gap: float, dtype: torch.dtype) -> None:
    tolerance = ROLLOUT_TOLERANCE.get(dtype, ROLLOUT_TOLERANCE[torch.bfloat16])
    if not gap <= tolerance:  # NaN too
        raise RuntimeError(
            f"log-probs scored before the first update differ from those sampled by up to {gap:.2g} nats "
            f"({tolerance:g} is accepted in {dtype}): the ratio does not start at 1. Look for dropout, a "
            "different temperature, a shifted mask or re-tokenised text."
        )
