"""Policy-gradient losses on token log-probabilities; all tensors `[rows, time]` unless said otherwise."""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor

Aggregation = Literal["token_mean", "sequence_mean_token_mean", "sequence_mean_token_sum_norm"]


def clipped_policy_loss(
    logprobs: Tensor,
    old_logprobs: Tensor,
    advantages: Tensor,
    clip_low: float | None,
    clip_high: float | None,
) -> Tensor:
    """`-min(r A, clip(r, 1 - clip_low, 1 + clip_high) A)` per token, `r = exp(logprobs - old_logprobs)`.

    The clip is on r, not on r·A; both bounds are distances from 1. None for both leaves r unclipped.
    `advantages` is `[rows]` (one a completion) or `[rows, time]`.

    Source: PPO (arXiv 1707.06347) eq. 7; two bounds: DAPO (arXiv 2503.14476) eq. 10.
    """
    if (clip_low is None) != (clip_high is None):
        raise ValueError("give both clip_low and clip_high, or None for both")
    ratio = (logprobs - old_logprobs).exp()
    advantages = advantages.unsqueeze(-1) if advantages.dim() < ratio.dim() else advantages
    if clip_low is None:
        return -ratio * advantages
    clipped = ratio.clamp(1 - clip_low, 1 + clip_high)
    return -torch.minimum(ratio * advantages, clipped * advantages)


def clipped_share(
    logprobs: Tensor, old_logprobs: Tensor, advantages: Tensor, clip_low: float, clip_high: float
) -> Tensor:
    """Per token 1.0 where the clip stops the gradient: A > 0 and r too high, or A < 0 and r too low."""
    ratio = (logprobs - old_logprobs).exp()
    advantages = advantages.unsqueeze(-1) if advantages.dim() < ratio.dim() else advantages
    high = (ratio > 1 + clip_high) & (advantages > 0)
    low = (ratio < 1 - clip_low) & (advantages < 0)
    return (high | low).float()


def token_weights(mask: Tensor, aggregation: Aggregation, max_length: int | None = None) -> Tensor:
    """What each token's loss is multiplied by, so that the batch loss is their sum.

    - `token_mean`: every kept token of the batch counts the same (DAPO).
    - `sequence_mean_token_mean`: every row counts the same, its tokens share its weight (GRPO).
    - `sequence_mean_token_sum_norm`: a row's tokens are summed and divided by `max_length`, so that
      the weight of a token does not depend on how long its row is (Dr.GRPO).

    Computed once for the whole batch and then split, the gradient does not depend on the micro-batches.
    """
    mask = mask.float()
    rows = mask.shape[0]
    if aggregation == "token_mean":
        return mask / mask.sum().clamp(min=1)
    if aggregation == "sequence_mean_token_mean":
        return mask / mask.sum(-1, keepdim=True).clamp(min=1) / rows
    if aggregation == "sequence_mean_token_sum_norm":
        if not max_length:
            raise ValueError("sequence_mean_token_sum_norm divides by max_length; give it")
        return mask / (max_length * rows)
    raise ValueError(
        f"aggregation {aggregation!r} is not one of 'token_mean', 'sequence_mean_token_mean', "
        "'sequence_mean_token_sum_norm'"
    )
