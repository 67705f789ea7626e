"""Losses per token: value and gradient against closed forms and finite differences."""

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.autograd import gradcheck

from labkit.rl.losses import (
    cispo_loss,
    clipped_policy_loss,
    clipped_share,
    policy_gradient_loss,
    sequence_ratio,
    token_ratio,
    value_loss,
)

LOW, HIGH, DUAL = 0.2, 0.28, 3.0
steady = settings(deadline=None, derandomize=True)
ratios = st.floats(0.05, 20.0)
advantages = st.floats(-5.0, 5.0)


def double(values, requires_grad=False):
    return torch.tensor(values, dtype=torch.float64, requires_grad=requires_grad)


def slope(ratio, advantage, low=LOW, high=HIGH, dual=None):
    """d loss / d log r at r = `ratio`, by autograd through the token ratio."""
    logprob = double([[math.log(ratio)]], requires_grad=True)
    ratio = token_ratio(logprob, torch.zeros_like(logprob))
    clipped_policy_loss(ratio, double([[advantage]]), low, high, dual).sum().backward()
    return logprob.grad.item()


def loss(ratio, advantage, low=LOW, high=HIGH, dual=None):
    return clipped_policy_loss(double([[ratio]]), double([[advantage]]), low, high, dual).item()


def batch(rows=2, time=5, seed=0):
    """Log-probs, old log-probs (ratios well inside and outside the bounds) and advantages of both signs."""
    generator = torch.Generator().manual_seed(seed)
    old = -torch.rand(rows, time, generator=generator, dtype=torch.float64) - 0.5
    logprobs = old + torch.randn(rows, time, generator=generator, dtype=torch.float64)
    return logprobs.requires_grad_(), old, torch.randn(rows, time, generator=generator, dtype=torch.float64)


BOUNDARIES = pytest.mark.parametrize(
    ("ratio", "advantage", "plain", "dual"),
    [
        # A > 0: pushing up stops above 1 + high; below, even far below, it goes on. Dual clip has no part.
        (0.1, 1.0, -0.1, -0.1),
        (0.79, 1.0, -0.79, -0.79),
        (1.0, 1.0, -1.0, -1.0),
        (1.279, 1.0, -1.279, -1.279),
        (1.281, 1.0, 0.0, 0.0),
        (9.0, 1.0, 0.0, 0.0),
        # A < 0: pushing down stops below 1 - low; above it goes on, with dual clip up to 3.
        (0.1, -1.0, 0.0, 0.0),
        (0.799, -1.0, 0.0, 0.0),
        (0.801, -1.0, 0.801, 0.801),
        (1.0, -1.0, 1.0, 1.0),
        (1.29, -1.0, 1.29, 1.29),
        (2.999, -1.0, 2.999, 2.999),
        (3.001, -1.0, 3.001, 0.0),
        (9.0, -1.0, 9.0, 0.0),
        (1.0, -2.5, 2.5, 2.5),
        (1.5, 0.0, 0.0, 0.0),
    ],
)


@BOUNDARIES
def test_slope_in_log_r_piece_by_piece(ratio, advantage, plain, dual):
    # Pitfall 20: just inside and just outside each bound, and the bound that must not act.
    assert slope(ratio, advantage) == pytest.approx(plain), "clip(r)·A, not clip(r·A), and a minimum"
    assert slope(ratio, advantage, dual=DUAL) == pytest.approx(dual)


@steady
@given(ratios, advantages)
def test_value_is_the_papers_expression(ratio, advantage):
    clipped = min(max(ratio, 1 - LOW), 1 + HIGH)
    expected = max(-ratio * advantage, -clipped * advantage)
    assert loss(ratio, advantage) == pytest.approx(expected)
    if advantage < 0:
        expected = min(-DUAL * advantage, expected)
    assert loss(ratio, advantage, dual=DUAL) == pytest.approx(expected)


def test_each_bound_acts_on_its_own_side():
    assert (slope(1.25, 1.0, low=0.2, high=0.3), slope(1.25, 1.0, low=0.3, high=0.2)) == (-1.25, 0.0)
    assert (slope(0.75, -1.0, low=0.3, high=0.2), slope(0.75, -1.0, low=0.2, high=0.3)) == (0.75, 0.0)


def test_bounds_are_distances_from_1_and_not_caps():
    assert slope(10.9, 1.0, high=10.0) == pytest.approx(-10.9)
    assert slope(11.1, 1.0, high=10.0) == 0


def test_none_for_both_bounds_does_not_clip():
    assert slope(9.0, 1.0, None, None) == pytest.approx(-9.0)
    assert slope(0.1, -1.0, None, None) == pytest.approx(0.1)
    assert slope(9.0, -1.0, None, None, dual=DUAL) == 0, "dual clip is a bound of its own"


def test_clip_errors():
    for low, high in ((0.2, None), (None, 0.2)):
        with pytest.raises(ValueError, match="give both clip_low and clip_high"):
            loss(1.0, 1.0, low, high)
    for dual in (1.0, 0.2, math.nan):
        with pytest.raises(ValueError, match="a ratio above 1, commonly 3"):
            loss(1.0, 1.0, dual=dual)


@pytest.mark.parametrize("dual", [None, DUAL])
@pytest.mark.parametrize(("low", "high"), [(LOW, HIGH), (None, None)])
def test_clipped_gradient_equals_finite_differences(low, high, dual):
    logprobs, old, advantages = batch(4)
    assert gradcheck(
        lambda x: clipped_policy_loss(token_ratio(x, old), advantages, low, high, dual), logprobs
    )


def test_one_advantage_a_row_equals_the_same_one_for_each_of_its_tokens():
    logprobs, old, _ = batch(3)
    advantages = double([[1.0], [-1.0], [0.5]])
    ratio = token_ratio(logprobs, old)
    by_row = clipped_policy_loss(ratio, advantages, LOW, HIGH, DUAL)
    assert torch.equal(by_row, clipped_policy_loss(ratio, advantages.expand(3, 5), LOW, HIGH, DUAL))


@steady
@given(ratios, advantages.filter(lambda a: abs(a) > 1e-3))
def test_clipped_share_marks_where_the_slope_is_zero(ratio, advantage):
    share = clipped_share(double([[ratio]]), double([[advantage]]), LOW, HIGH)
    assert share.item() == float(slope(ratio, advantage) == 0)


def test_policy_gradient_is_minus_advantage_times_score():
    logprobs, _, advantages = batch()
    policy_gradient_loss(logprobs, advantages).sum().backward()
    assert torch.equal(logprobs.grad, -advantages)
    assert gradcheck(lambda x: policy_gradient_loss(x, advantages), logprobs)


def test_before_the_first_update_every_loss_has_the_policy_gradient():
    logprobs, _, advantages = batch()
    ratio = token_ratio(logprobs, logprobs.detach())
    assert ratio.eq(1).all()
    for value in (
        clipped_policy_loss(ratio, advantages, LOW, HIGH, DUAL),
        cispo_loss(logprobs, ratio, advantages, HIGH),
    ):
        (grad,) = torch.autograd.grad(value.sum(), logprobs, retain_graph=True)
        torch.testing.assert_close(grad, -advantages)


@steady
@given(ratios, advantages.filter(lambda a: abs(a) > 1e-3))
def test_cispo_gradient_is_the_capped_ratio_times_advantage_and_never_zero(ratio, advantage):
    logprob = double([[-0.7]], requires_grad=True)
    r = token_ratio(logprob, double([[-0.7 - math.log(ratio)]]))
    cispo_loss(logprob, r, double([[advantage]]), HIGH).sum().backward()
    assert logprob.grad.item() == pytest.approx(-min(ratio, 1 + HIGH) * advantage)
    assert logprob.grad.item() != 0


def test_cispo_gradient_equals_finite_differences_with_the_weight_held_fixed():
    logprobs, old, advantages = batch()
    weight = token_ratio(logprobs, old).detach()
    assert gradcheck(lambda x: cispo_loss(x, weight, advantages, HIGH), logprobs)


def test_sequence_ratio_is_the_geometric_mean_of_the_kept_tokens_ratios():
    logprobs, old, _ = batch(3)
    mask = torch.tensor([[1, 1, 1, 1, 1], [0, 1, 0, 1, 0], [0, 0, 0, 0, 0]])
    ratio = sequence_ratio(logprobs, old, mask)
    assert ratio.shape == (3, 1)
    for row in range(3):
        kept = [r for r, k in zip(token_ratio(logprobs, old)[row].tolist(), mask[row], strict=True) if k]
        assert ratio[row].item() == pytest.approx(math.prod(kept) ** (1 / max(len(kept), 1)))


@pytest.mark.parametrize("length", [1, 100, 10_000])
def test_sequence_ratio_of_an_unchanged_policy_is_1_and_does_not_grow_with_length(length):
    # Pitfall 15: exp of the sum would leave 1 by a factor of e^(0.001 · length).
    old = torch.full((1, length), -2.0, dtype=torch.float64)
    assert sequence_ratio(old.clone(), old, torch.ones(1, length)).item() == 1
    moved = sequence_ratio(old + 0.001, old, torch.ones(1, length))
    assert moved.item() == pytest.approx(math.exp(0.001))


def test_sequence_ratio_shares_its_gradient_among_the_kept_tokens():
    logprobs, old, _ = batch()
    mask = torch.tensor([[1, 1, 1, 1, 0], [0, 1, 0, 1, 0]])
    ratio = sequence_ratio(logprobs, old, mask)
    ratio.sum().backward()
    torch.testing.assert_close(logprobs.grad, ratio.detach() * mask / mask.sum(-1, keepdim=True))
    assert gradcheck(lambda x: sequence_ratio(x, old, mask), logprobs)
    assert gradcheck(
        lambda x: clipped_policy_loss(sequence_ratio(x, old, mask), double([[1.0], [-1.0]]), LOW, HIGH),
        logprobs,
    )


@pytest.mark.parametrize(
    ("value", "old", "target", "expected", "expected_slope"),
    [
        # clip .5. Within ±.5 of the old value both errors agree.
        (1.0, 1.2, 3.0, 2.0, -2.0),
        # Moved .8 towards the target: the clipped error (2.5²) is larger, and has no slope.
        (1.0, 0.2, 3.2, 3.125, 0.0),
        # Moved .8 away from the target: the plain error is larger, and pulls back.
        (1.0, 0.2, -1.0, 2.0, 2.0),
    ],
)
def test_value_loss_by_hand(value, old, target, expected, expected_slope):
    values = double([[value]], requires_grad=True)
    found = value_loss(values, double([[old]]), double([[target]]), clip=0.5)
    found.sum().backward()
    assert found.item() == pytest.approx(expected)
    assert values.grad.item() == pytest.approx(expected_slope)


@steady
@given(st.floats(-3, 3), st.floats(-3, 3), st.floats(-3, 3))
def test_value_loss_is_the_public_implementations_expression(value, old, target):
    clipped = min(max(value, old - 0.2), old + 0.2)
    plain = value_loss(double([[value]]), double([[old]]), double([[target]])).item()
    assert plain == pytest.approx(0.5 * (value - target) ** 2)
    found = value_loss(double([[value]]), double([[old]]), double([[target]]), clip=0.2).item()
    assert found == pytest.approx(0.5 * max((value - target) ** 2, (clipped - target) ** 2))


@pytest.mark.parametrize("clip", [None, 0.3])
def test_value_gradient_equals_finite_differences(clip):
    values, old, returns = batch()
    assert gradcheck(lambda x: value_loss(x, old, returns, clip), values)
