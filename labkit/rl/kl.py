"""Estimators of KL(π‖ref) from tokens that π sampled."""

from __future__ import annotations

from typing import Literal

from torch import Tensor

Estimator = Literal["k1", "k2", "k3"]


def kl_estimate(logprobs: Tensor, reference_logprobs: Tensor, estimator: Estimator = "k3") -> Tensor:
    """Per-token estimate of KL(π‖ref) in nats, same shape as the inputs.

    With `log r = log ref - log π`: k1 = -log r (unbiased, may be negative), k2 = ½ log² r (biased,
    small variance), k3 = r - 1 - log r (unbiased, never negative). As losses their gradients are
    something else: see the notebook on PPO and GRPO.

    Source: Schulman, "Approximating KL divergence" (2020); DeepSeekMath eq. 4 uses k3.
    """
    log_ratio = reference_logprobs - logprobs
    if estimator == "k1":
        return -log_ratio
    if estimator == "k2":
        return 0.5 * log_ratio**2
    if estimator == "k3":
        return log_ratio.exp() - 1 - log_ratio
    raise ValueError(f"estimator {estimator!r} is not one of 'k1', 'k2', 'k3'")
