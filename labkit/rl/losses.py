"""Policy-gradient losses per token; all tensors `[rows, time]` unless said otherwise.

What the policy is scored with enters as `ratio = π_θ(y_t | ...) / π_old(y_t | ...)`, a number a token
(PPO, GRPO) or a number a sequence (GSPO). `advantages` are `[rows, 1]` (one a completion) or `[rows, time]`.
"""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor

Aggregation = Literal["token_mean", "sequence_mean_token_mean", "sequence_mean_token_sum_norm"]


def token_ratio(logprobs: Tensor, old_logprobs: Tensor) -> Tensor:
    """`r_t = π_θ(y_t | x, y_<t) / π_old(y_t | x, y_<t)`."""
    return (logprobs - old_logprobs).exp()


def sequence_ratio(logprobs: Tensor, old_logprobs: Tensor, mask: Tensor) -> Tensor:
    """`s = (π_θ(y|x) / π_old(y|x))^(1/|y|)`, `[rows, 1]`: exp of the *mean* log-ratio of the kept tokens.

    The mean, not the sum: the ratio of a long sequence would otherwise leave any clip range at once.

    Source: GSPO (arXiv 2507.18071), eq. 7.
    """
    mask = mask.to(logprobs.dtype)
    kept = mask.sum(-1, keepdim=True).clamp(min=1)
    return (((logprobs - old_logprobs) * mask).sum(-1, keepdim=True) / kept).exp()


def policy_gradient_loss(logprobs: Tensor, advantages: Tensor) -> Tensor:
    """`-A_t log π_θ(y_t | ...)`: its gradient is the score-function estimate, with a minus sign.

    Source: Williams 1992 (REINFORCE); Sutton and Barto, section 13.3.
    """
    return -advantages * logprobs


def clipped_policy_loss(
    ratio: Tensor,
    advantages: Tensor,
    clip_low: float | None,
    clip_high: float | None,
    dual_clip: float | None = None,
) -> Tensor:
    """`-min(r A, clip(r, 1 - clip_low, 1 + clip_high) A)` per token.

    The clip is on r, not on r·A; both bounds are distances from 1. None for both leaves r unclipped.
    `dual_clip` c > 1 bounds the loss of a bad action whose ratio has grown: for A < 0 at most `-c A`.

    Source: PPO (arXiv 1707.06347) eq. 7; two bounds: DAPO (arXiv 2503.14476) eq. 10; dual clip: Ye et
    al. 2020 (arXiv 1912.09729) eq. 5.
    """
    if (clip_low is None) != (clip_high is None):
        raise ValueError("give both clip_low and clip_high, or None for both")
    if dual_clip is not None and not dual_clip > 1:
        raise ValueError(f"dual_clip is {dual_clip}; it is a ratio above 1, commonly 3, or None for none")
    objective = ratio * advantages
    if clip_low is not None:
        objective = torch.minimum(objective, ratio.clamp(1 - clip_low, 1 + clip_high) * advantages)
    if dual_clip is not None:
        objective = torch.where(advantages < 0, torch.maximum(objective, dual_clip * advantages), objective)
    return -objective


def cispo_loss(logprobs: Tensor, ratio: Tensor, advantages: Tensor, clip_high: float) -> Tensor:
    """`-stopgrad(min(r, 1 + clip_high)) A log π_θ`: the clip bounds a token's weight, never silences it.

    Source: MiniMax-M1 (arXiv 2506.13585), eq. 4 and 5, without the lower bound, as there. (TRL's
    `epsilon_high` is the bound itself, not its distance from 1.)
    """
    return -ratio.detach().clamp(max=1 + clip_high) * advantages * logprobs


def clipped_share(ratio: Tensor, advantages: Tensor, clip_low: float, clip_high: float) -> Tensor:
    """Per token 1.0 where the clip stops the gradient: A > 0 and r too high, or A < 0 and r too low."""
    high = (ratio > 1 + clip_high) & (advantages > 0)
    low = (ratio < 1 - clip_low) & (advantages < 0)
    return (high | low).float()


def value_loss(values: Tensor, old_values: Tensor, returns: Tensor, clip: float | None = None) -> Tensor:
    """`½ max((V - R)², (clip(V, V_old ± clip) - R)²)` per step; without `clip`, `½ (V - R)²`.

    Source: PPO's public implementation (baselines, ppo2); Schulman et al. 2016 (arXiv 1506.02438).
    """
    error = (values - returns) ** 2
    if clip is not None:
        near_old = old_values + (values - old_values).clamp(-clip, clip)
        error = torch.maximum(error, (near_old - returns) ** 2)
    return 0.5 * error


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
