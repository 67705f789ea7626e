"""Value and gradient of the estimators of KL(π‖ref), exactly, on a vocabulary small enough to sum over."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, get_args

import torch
from torch import Tensor

from labkit.rl.kl import Estimator, exact_kl, kl_estimate, subtract_kl, with_ratio
from labkit.rl.losses import policy_gradient_loss

ESTIMATORS: tuple[str, ...] = get_args(Estimator)
USES = {"loss": "as a loss", "ratio": "with the ratio", "reward": "in the reward"}
"""What one does with an estimate: differentiate it, differentiate its product with π/π_old, or subtract it
from the reward."""


class EstimatorReport(NamedTuple):
    """One estimator over samples of π, exactly; values in nats, gradients `[tokens]` in the logits of π."""

    mean: float
    bias: float
    """`mean - KL(π‖ref)`"""
    std: float
    """Standard deviation of the estimate of a single token."""
    gradients: dict[str, Tensor]
    """By use (`USES`): the expected gradient of the loss that the penalty makes."""


class KLReport(NamedTuple):
    """Both directions of KL with their gradients in the logits of π, and each estimator."""

    kl: float
    reverse_kl: float
    gradient: Tensor
    """Of KL(π‖ref)."""
    reverse_gradient: Tensor
    """Of KL(ref‖π)."""
    estimators: dict[str, EstimatorReport]


def kl_report(logits: Tensor, reference_logits: Tensor) -> KLReport:
    """Everything the explorer shows, by enumeration of the tokens: `[tokens]`, `[tokens]` -> numbers.

    A sample's probability carries no gradient, as in training, where tokens are drawn and then fixed.
    """
    reference = reference_logits.log_softmax(-1)
    drawn = logits.softmax(-1)

    def gradient(loss: Callable[[Tensor], Tensor]) -> Tensor:
        leaf = logits.clone().requires_grad_()
        return torch.autograd.grad(loss(leaf), leaf)[0]

    def expected(per_token: Callable[[Tensor], Tensor]) -> Tensor:
        return gradient(lambda leaf: (drawn * per_token(leaf.log_softmax(-1))).sum())

    kl = exact_kl(logits, reference_logits).item()
    estimators = {}
    for name in ESTIMATORS:
        values = kl_estimate(logits.log_softmax(-1), reference, name)
        mean = (drawn * values).sum()
        std = (drawn * (values - mean) ** 2).sum().sqrt()

        def as_loss(logprobs: Tensor, name: str = name) -> Tensor:
            return kl_estimate(logprobs, reference, name)

        def times_ratio(logprobs: Tensor, name: str = name) -> Tensor:
            return with_ratio(kl_estimate(logprobs, reference, name), logprobs, logprobs.detach())

        def in_reward(logprobs: Tensor, name: str = name) -> Tensor:
            rewards = subtract_kl(torch.zeros_like(logprobs), logprobs, reference, 1.0, name)
            return policy_gradient_loss(logprobs, rewards)

        gradients = {use: expected(f) for use, f in zip(USES, (as_loss, times_ratio, in_reward), strict=True)}
        estimators[name] = EstimatorReport(mean.item(), mean.item() - kl, std.item(), gradients)
    return KLReport(
        kl,
        exact_kl(reference_logits, logits).item(),
        gradient(lambda leaf: exact_kl(leaf, reference_logits)),
        gradient(lambda leaf: exact_kl(reference_logits, leaf)),
        estimators,
    )


def gradient_name(gradient: Tensor, report: KLReport) -> str:
    """Which exact gradient this one is, found by comparison: a direction of KL, 0, or neither."""
    if gradient.abs().max() < 1e-9:
        return "0"
    for exact, name in ((report.gradient, "∇KL(π‖ref)"), (report.reverse_gradient, "∇KL(ref‖π)")):
        if torch.allclose(gradient, exact, rtol=1e-6, atol=1e-9):
            return name
    return "neither"
