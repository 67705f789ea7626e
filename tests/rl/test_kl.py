"""The table of KL estimators, on distributions small enough to sum over."""

import math

import pytest
import scipy.stats
import torch
from torch.autograd import gradcheck

from labkit.lm import scoring
from labkit.rl.kl import exact_kl, kl_estimate, subtract_kl, with_ratio
from labkit.rl.losses import policy_gradient_loss

THETA = torch.tensor([0.3, -1.2, 0.8, 0.0, 1.5, -0.4], dtype=torch.float64)
REFERENCE = torch.tensor([1.0, 0.2, -0.5, 0.1, 0.4, 0.9], dtype=torch.float64).log_softmax(-1)
ESTIMATORS = ("k1", "k2", "k3")

# What a token sampled from π can add up to, in closed form: l = log π/ref, π_j the derivative's softmax.
PI, REF = THETA.softmax(-1), REFERENCE.exp()
LOG_RATIO = PI.log() - REFERENCE
KL = (PI * LOG_RATIO).sum()
HALF_SQUARE = (PI * LOG_RATIO**2 / 2).sum()
NOTHING = torch.zeros(6, dtype=torch.float64)
REVERSE = PI * (LOG_RATIO - KL)
"""Gradient of KL(π‖ref) in the six logits."""
FORWARD = PI - REF
"""Gradient of KL(ref‖π)."""
OF_HALF_SQUARE = PI * (LOG_RATIO**2 / 2 - HALF_SQUARE) + REVERSE
"""Gradient of E_π[½ log² r]: of the probabilities, and of the square itself."""


def gradient(objective):
    """Gradient of `objective(log π)` in the six logits."""
    theta = THETA.clone().requires_grad_()
    objective(theta.log_softmax(-1)).backward()
    return theta.grad


def expect(values):
    """Mean over tokens sampled from π, all six of them weighted by their probability; samples are fixed."""
    return (PI * values).sum()


def close(a, b):
    return torch.allclose(a, b, atol=1e-10)


def test_closed_forms_are_derivatives():
    def numerically(function, h=1e-6):
        steps = h * torch.eye(6, dtype=torch.float64)
        return torch.stack([(function(THETA + s) - function(THETA - s)) / (2 * h) for s in steps])

    def half_square(theta):
        return (theta.softmax(-1) * (theta.log_softmax(-1) - REFERENCE) ** 2 / 2).sum()

    for closed, function in (
        (REVERSE, lambda theta: exact_kl(theta, REFERENCE)),
        (FORWARD, lambda theta: exact_kl(REFERENCE, theta)),
        (OF_HALF_SQUARE, half_square),
    ):
        torch.testing.assert_close(closed, numerically(function), atol=1e-8, rtol=0)


def test_the_directions_and_the_square_are_told_apart_by_this_example():
    distinct = [NOTHING, REVERSE, FORWARD, OF_HALF_SQUARE, OF_HALF_SQUARE - REVERSE, REVERSE - FORWARD]
    for i, a in enumerate(distinct):
        for b in distinct[:i]:
            assert (a - b).abs().max() > 0.01
    assert abs(HALF_SQUARE - KL) > 0.05 * KL


@pytest.mark.parametrize(("estimator", "expected"), [("k1", KL), ("k2", HALF_SQUARE), ("k3", KL)])
def test_value(estimator, expected):
    assert close(expect(kl_estimate(THETA.log_softmax(-1), REFERENCE, estimator)), expected)


@pytest.mark.parametrize(("estimator", "expected"), [("k1", NOTHING), ("k2", REVERSE), ("k3", FORWARD)])
def test_gradient_when_the_estimate_is_the_loss(estimator, expected):
    # Pitfall 19.
    assert close(gradient(lambda logp: expect(kl_estimate(logp, REFERENCE, estimator))), expected)


@pytest.mark.parametrize(
    ("estimator", "expected"), [("k1", REVERSE), ("k2", OF_HALF_SQUARE), ("k3", REVERSE)]
)
def test_gradient_when_weighted_by_the_ratio(estimator, expected):
    def loss(logp):
        return expect(with_ratio(kl_estimate(logp, REFERENCE, estimator), logp, logp.detach()))

    assert close(gradient(loss), expected)


@pytest.mark.parametrize(
    ("estimator", "expected"),
    [("k1", REVERSE), ("k2", OF_HALF_SQUARE - REVERSE), ("k3", REVERSE - FORWARD)],
)
def test_gradient_when_subtracted_from_the_reward(estimator, expected):
    def loss(logp):
        reward = subtract_kl(torch.zeros_like(logp), logp, REFERENCE, 1.0, estimator)
        return expect(policy_gradient_loss(logp, reward))

    assert close(gradient(loss), expected)


@pytest.mark.parametrize("estimator", ["k1", "k3"])
def test_the_ratio_corrects_for_samples_of_an_older_policy(estimator):
    old = torch.tensor([-0.3, 0.5, 0.0, 0.9, -1.0, 0.2], dtype=torch.float64).log_softmax(-1)

    def loss(logp):
        return (old.exp() * with_ratio(kl_estimate(logp, REFERENCE, estimator), logp, old)).sum()

    assert close(loss(THETA.log_softmax(-1)), KL)
    assert close(gradient(loss), REVERSE)


@pytest.mark.parametrize("estimator", ESTIMATORS)
def test_gradient_equals_finite_differences(estimator):
    logp = torch.tensor([[-1.0, -2.5, -0.3]], dtype=torch.float64, requires_grad=True)
    other = torch.tensor([[-2.0, -1.0, -0.3]], dtype=torch.float64)
    assert gradcheck(lambda x: kl_estimate(x, other, estimator), logp)
    assert gradcheck(lambda x: with_ratio(kl_estimate(x, other, estimator), x, other - 0.1), logp)


@pytest.mark.parametrize(
    ("mean", "k2_bias", "spread"),
    [(0.1, 0.002, {"k1": 20, "k2": 1.42, "k3": 1.42}), (1.0, 0.25, {"k1": 2, "k2": 1.73, "k3": 1.7})],
)
def test_schulmans_table(mean, k2_bias, spread):
    # q = N(0, 1) is sampled, p = N(mean, 1) is the other; integrals on a fine grid in place of samples.
    x = torch.linspace(-12, 12, 200_001, dtype=torch.float64)
    density = (-0.5 * x**2).exp() / math.sqrt(2 * math.pi)
    true_kl = mean**2 / 2

    def integral(values):
        return torch.trapezoid(density * values, x).item()

    for estimator, expected in spread.items():
        values = kl_estimate(-0.5 * x**2, -0.5 * (x - mean) ** 2, estimator)
        average = integral(values)
        bias = k2_bias if estimator == "k2" else 0.0
        assert (average - true_kl) / true_kl == pytest.approx(bias, abs=1e-3)
        assert math.sqrt(integral((values - average) ** 2)) / true_kl == pytest.approx(expected, rel=0.01)


def test_by_hand():
    # log r = ln 2 where the reference likes the token twice as much, -ln 2 where half as much.
    logp, reference = torch.tensor([0.25, 0.5, 0.5]).log(), torch.tensor([0.5, 0.25, 0.5]).log()
    ln2 = math.log(2)
    for estimator, expected in {
        "k1": [-ln2, ln2, 0],
        "k2": [ln2**2 / 2, ln2**2 / 2, 0],
        "k3": [1 - ln2, ln2 - 0.5, 0],
    }.items():
        torch.testing.assert_close(kl_estimate(logp, reference, estimator), torch.tensor(expected))
    assert torch.equal(kl_estimate(logp, reference), kl_estimate(logp, reference, "k3")), "GRPO's is default"


def test_k3_is_never_negative_and_k1_may_be():
    logp, reference = torch.randn(2, 500, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    assert kl_estimate(logp, reference, "k3").ge(0).all()
    assert kl_estimate(logp, reference, "k1").lt(0).any()


@pytest.mark.parametrize("estimator", ESTIMATORS)
def test_equal_policies_are_exactly_zero_apart(estimator):
    logp = torch.linspace(-9, 0, 50)
    assert kl_estimate(logp, logp.clone(), estimator).eq(0).all()


def test_exact_kl_is_scipys_entropy_and_has_one_implementation():
    p, q = torch.randn(2, 3, 5, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    expected = scipy.stats.entropy(p.softmax(-1), q.softmax(-1), axis=-1)
    torch.testing.assert_close(exact_kl(p, q), torch.from_numpy(expected))
    assert exact_kl is scoring.kl_divergence


def test_the_penalty_in_the_reward_is_a_number_without_a_gradient():
    logp = torch.tensor([[-1.0, -2.0]], requires_grad=True)
    rewards = torch.tensor([[0.0, 5.0]], requires_grad=True)
    found = subtract_kl(rewards, logp, torch.tensor([[-1.5, -1.0]]), kl_coef=0.1)
    # k1 by default: log π - log ref is 0.5 and -1.
    torch.testing.assert_close(found, torch.tensor([[-0.05, 5.1]]))
    found.sum().backward()
    assert logp.grad is None and rewards.grad.eq(1).all()


def test_an_unknown_estimator_is_named():
    with pytest.raises(ValueError, match="'k4' is not one of 'k1', 'k2', 'k3'"):
        kl_estimate(torch.zeros(1), torch.zeros(1), "k4")
