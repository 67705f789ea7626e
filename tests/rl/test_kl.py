"""The table of KL estimators, on distributions small enough to sum over."""

import math

import numpy as np
import pytest
import torch

from labkit.rl.kl import kl_estimate

THETA = torch.tensor([0.3, -1.2, 0.8, 0.0, 1.5, -0.4], dtype=torch.float64)
REFERENCE = torch.tensor([1.0, 0.2, -0.5, 0.1, 0.4, 0.9], dtype=torch.float64).log_softmax(-1)
ESTIMATORS = pytest.mark.parametrize("estimator", ["k1", "k2", "k3"])


def gradient(objective):
    """Gradient of `objective(log π)` with respect to the six logits."""
    theta = THETA.clone().requires_grad_()
    objective(theta.log_softmax(-1)).backward()
    return theta.grad


def kl(logp, logq):
    return (logp.exp() * (logp - logq)).sum()


REVERSE = gradient(lambda logp: kl(logp, REFERENCE))  # ∇KL(π‖ref)
FORWARD = gradient(lambda logp: kl(REFERENCE, logp))  # ∇KL(ref‖π)
NOTHING = torch.zeros(6, dtype=torch.float64)


def close(a, b):
    return torch.allclose(a, b, atol=1e-10)


def test_the_two_directions_are_told_apart_by_this_example():
    assert not close(REVERSE, FORWARD)


def test_k1_and_k3_are_unbiased_and_k2_is_not():
    logp = THETA.log_softmax(-1)
    exact = kl(logp, REFERENCE).item()
    means = {k: (logp.exp() * kl_estimate(logp, REFERENCE, k)).sum().item() for k in ("k1", "k2", "k3")}
    assert means["k1"] == pytest.approx(exact)
    assert means["k3"] == pytest.approx(exact)
    assert abs(means["k2"] - exact) > 0.05 * exact


@pytest.mark.parametrize(("estimator", "expected"), [("k1", NOTHING), ("k2", REVERSE), ("k3", FORWARD)])
def test_gradient_when_the_estimate_is_the_loss(estimator, expected):
    # Pitfall 19: samples are fixed, so their probabilities carry no gradient.
    weights = THETA.softmax(-1)
    assert close(gradient(lambda logp: (weights * kl_estimate(logp, REFERENCE, estimator)).sum()), expected)


@pytest.mark.parametrize(("estimator", "right"), [("k1", True), ("k2", False), ("k3", True)])
def test_gradient_when_weighted_by_the_ratio(estimator, right):
    weights = THETA.softmax(-1)

    def loss(logp):
        ratio = (logp - logp.detach()).exp()
        return (weights * ratio * kl_estimate(logp, REFERENCE, estimator)).sum()

    assert close(gradient(loss), REVERSE) == right


@pytest.mark.parametrize(("estimator", "right"), [("k1", True), ("k2", False), ("k3", False)])
def test_gradient_when_detached_in_the_reward(estimator, right):
    weights = THETA.softmax(-1)

    def loss(logp):
        return (weights * kl_estimate(logp, REFERENCE, estimator).detach() * logp).sum()

    assert close(gradient(loss), REVERSE) == right


@pytest.mark.parametrize(
    ("mean", "k2_bias", "spread"),
    [(0.1, 0.002, {"k1": 20, "k2": 1.42, "k3": 1.42}), (1.0, 0.25, {"k1": 2, "k2": 1.73, "k3": 1.7})],
)
def test_schulmans_table(mean, k2_bias, spread):
    # q = N(0, 1) is sampled, p = N(mean, 1) is the other; integrals on a fine grid in place of samples.
    x = torch.linspace(-12, 12, 200_001, dtype=torch.float64)
    q = (-0.5 * x**2).exp() / math.sqrt(2 * math.pi)
    true_kl = mean**2 / 2

    def expect(values):
        return torch.trapezoid(q * values, x).item()

    for estimator, expected in spread.items():
        values = kl_estimate(-0.5 * x**2, -0.5 * (x - mean) ** 2, estimator)
        average = expect(values)
        bias = k2_bias if estimator == "k2" else 0.0
        assert (average - true_kl) / true_kl == pytest.approx(bias, abs=0.01)
        assert math.sqrt(expect((values - average) ** 2)) / true_kl == pytest.approx(expected, rel=0.01)


def test_signs_and_closed_forms():
    logp, logq = torch.tensor([-1.0, -2.0, -0.5]), torch.tensor([-2.0, -1.0, -0.5])
    log_r = (logq - logp).numpy()
    np.testing.assert_allclose(kl_estimate(logp, logq, "k1"), -log_r)
    np.testing.assert_allclose(kl_estimate(logp, logq, "k2"), log_r**2 / 2)
    np.testing.assert_allclose(kl_estimate(logp, logq, "k3"), np.exp(log_r) - 1 - log_r, rtol=1e-6)
    assert torch.equal(kl_estimate(logp, logq), kl_estimate(logp, logq, "k3")), (
        "GRPO's estimator is the default"
    )
    assert kl_estimate(logp, logq, "k3").ge(0).all()
    assert kl_estimate(logp, logq, "k1").lt(0).any()


@ESTIMATORS
def test_equal_policies_are_exactly_zero_apart(estimator):
    logp = torch.linspace(-9, 0, 50)
    assert kl_estimate(logp, logp.clone(), estimator).eq(0).all()


def test_an_unknown_estimator_is_named():
    with pytest.raises(ValueError, match="'k4' is not one of 'k1', 'k2', 'k3'"):
        kl_estimate(torch.zeros(1), torch.zeros(1), "k4")
