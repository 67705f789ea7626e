"""KL(π‖ref): exact on a small vocabulary, or estimated from tokens that π sampled."""

from __future__ import annotations

from typing import Literal

from torch import Tensor

from labkit.lm.scoring import kl_divergence

Estimator = Literal["k1", "k2", "k3"]


def kl_estimate(logprobs: Tensor, reference_logprobs: Tensor, estimator: Estimator = "k3") -> Tensor:
    """Per-token estimate of KL(π‖ref) in nats, same shape as the inputs.

    With `log r = log ref - log π`: k1 = -log r (unbiased, may be negative), k2 = ½ log² r (biased,
    small variance), k3 = r - 1 - log r (unbiased, never negative).

    As a *value* k1 and k3 are unbiased. As a *loss*, differentiated with the samples held fixed, they
    are something else: k1's gradient is 0 in expectation, k2's is that of KL(π‖ref), k3's that of
    KL(ref‖π). Times the ratio π/π_old (`with_ratio`), k1 and k3 get the gradient of KL(π‖ref).

    Source: Schulman, "Approximating KL divergence" (2020); DeepSeekMath (arXiv 2402.03300) eq. 4 uses
    k3; gradients: arXiv 2510.01555, 2512.21852.
    """
    log_ratio = reference_logprobs - logprobs
    if estimator == "k1":
        return -log_ratio
    if estimator == "k2":
        return 0.5 * log_ratio**2
    if estimator == "k3":
        return log_ratio.exp() - 1 - log_ratio
    raise ValueError(f"estimator {estimator!r} is not one of 'k1', 'k2', 'k3'")


def with_ratio(penalty: Tensor, logprobs: Tensor, old_logprobs: Tensor) -> Tensor:
    """`(π/π_old) · k` per token: makes the gradient of k1 and k3 that of KL(π‖ref), and corrects for
    samples that an older policy drew.

    Source: arXiv 2512.21852; TRL's `use_bias_correction_kl`.
    """
    return (logprobs - old_logprobs).exp() * penalty


exact_kl = kl_divergence
"""`KL(π‖ref) = Σ_x π(x) log(π(x) / ref(x))` in nats over the whole vocabulary, of logits: `[..., V]` twice
-> `[...]`. What the estimators estimate."""


def subtract_kl(
    rewards: Tensor, logprobs: Tensor, reference_logprobs: Tensor, kl_coef: float, estimator: Estimator = "k1"
) -> Tensor:
    """Rewards `[rows, time]` with the penalty in them: `r_t - kl_coef · k_t`, no gradient through it.

    The policy gradient of such a reward is that of `r - kl_coef · KL(π‖ref)` for k1; k2 and k3 are
    biased here.

    Source: InstructGPT (arXiv 2203.02155), eq. 2.
    """
    penalty = kl_estimate(logprobs.detach(), reference_logprobs.detach(), estimator)
    return rewards - kl_coef * penalty
