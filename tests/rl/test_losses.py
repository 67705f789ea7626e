import math

import pytest
import torch

from labkit.rl.losses import clipped_policy_loss, clipped_share, token_weights

LOW, HIGH = 0.2, 0.28


def slope(ratio, advantage, low=LOW, high=HIGH):
    """d loss / d log r at r = `ratio`, by autograd."""
    logprob = torch.tensor([[math.log(ratio)]], dtype=torch.float64, requires_grad=True)
    old = torch.zeros(1, 1, dtype=torch.float64)
    clipped_policy_loss(logprob, old, torch.tensor([advantage]), low, high).sum().backward()
    return logprob.grad.item()


def loss(ratio, advantage, low=LOW, high=HIGH):
    logprob = torch.tensor([[math.log(ratio)]], dtype=torch.float64)
    return clipped_policy_loss(
        logprob, torch.zeros_like(logprob), torch.tensor([advantage]), low, high
    ).item()


@pytest.mark.parametrize(
    ("ratio", "advantage", "expected"),
    [
        # A > 0: pushing up stops above 1 + high; below, even far below, it goes on.
        (0.1, 1.0, -0.1),
        (0.79, 1.0, -0.79),
        (1.0, 1.0, -1.0),
        (1.279, 1.0, -1.279),
        (1.281, 1.0, 0.0),
        (9.0, 1.0, 0.0),
        # A < 0: pushing down stops below 1 - low; above, even far above, it goes on.
        (0.1, -1.0, 0.0),
        (0.799, -1.0, 0.0),
        (0.801, -1.0, 0.801),
        (1.0, -1.0, 1.0),
        (1.29, -1.0, 1.29),
        (9.0, -1.0, 9.0),
        (1.0, -2.5, 2.5),
        (1.5, 0.0, 0.0),
    ],
)
def test_slope_in_log_r_piece_by_piece(ratio, advantage, expected):
    # Pitfall 20: just inside and just outside each bound, and the bound that must not act.
    assert slope(ratio, advantage) == pytest.approx(expected), "clip(r)·A, not clip(r·A), and a minimum"


@pytest.mark.parametrize("advantage", [1.0, -1.0, 0.3, -4.0])
@pytest.mark.parametrize("ratio", [0.5, 0.79, 0.9, 1.0, 1.1, 1.27, 1.3, 2.0])
def test_slope_equals_finite_differences(ratio, advantage):
    h = 1e-6
    difference = (loss(ratio * math.exp(h), advantage) - loss(ratio * math.exp(-h), advantage)) / (2 * h)
    assert slope(ratio, advantage) == pytest.approx(difference, abs=1e-6)


def test_value_is_a_pessimistic_bound():
    for ratio in (0.3, 0.8, 1.0, 1.28, 3.0):
        for advantage in (-2.0, -1.0, 0.5, 1.0):
            clipped = min(max(ratio, 1 - LOW), 1 + HIGH)
            expected = -min(ratio * advantage, clipped * advantage)
            assert loss(ratio, advantage) == pytest.approx(expected)


def test_each_bound_acts_on_its_own_side():
    assert (slope(1.25, 1.0, low=0.2, high=0.3), slope(1.25, 1.0, low=0.3, high=0.2)) == (-1.25, 0.0)
    assert (slope(0.75, -1.0, low=0.3, high=0.2), slope(0.75, -1.0, low=0.2, high=0.3)) == (0.75, 0.0)
    # Bounds are distances from 1, not caps: an upper bound of 10 allows ratios up to 11.
    assert slope(10.9, 1.0, high=10.0) == pytest.approx(-10.9)


def test_none_for_both_bounds_does_not_clip():
    assert slope(9.0, 1.0, None, None) == pytest.approx(-9.0)
    assert slope(0.1, -1.0, None, None) == pytest.approx(0.1)
    for low, high in ((0.2, None), (None, 0.2)):
        with pytest.raises(ValueError, match="give both clip_low and clip_high"):
            loss(1.0, 1.0, low, high)


def test_one_advantage_a_row_equals_the_same_one_for_each_of_its_tokens():
    logprobs, old = torch.randn(2, 3, 4, generator=torch.Generator().manual_seed(0)).unbind()
    advantages = torch.tensor([1.0, -1.0, 0.5])
    by_row = clipped_policy_loss(logprobs, old, advantages, LOW, HIGH)
    assert torch.equal(
        by_row, clipped_policy_loss(logprobs, old, advantages[:, None].expand(3, 4), LOW, HIGH)
    )


def test_clipped_share_marks_where_the_slope_is_zero():
    for ratio in (0.5, 0.79, 0.81, 1.0, 1.27, 1.29, 4.0):
        for advantage in (-1.0, 1.0):
            logprob = torch.tensor([[math.log(ratio)]])
            share = clipped_share(logprob, torch.zeros(1, 1), torch.tensor([advantage]), LOW, HIGH)
            assert share.item() == float(slope(ratio, advantage) == 0)


MASK = torch.tensor([[1, 1, 0, 0], [0, 1, 0, 1], [1, 1, 1, 1], [0, 0, 0, 0]], dtype=torch.bool)
LOSSES = torch.arange(16.0).view(4, 4) ** 1.5 + 1


def by_loop(aggregation, losses=LOSSES, mask=MASK, max_length=6):
    kept = [
        [x for x, k in zip(row, keep, strict=True) if k]
        for row, keep in zip(losses.tolist(), mask, strict=True)
    ]
    if aggregation == "token_mean":
        flat = [x for row in kept for x in row]
        return sum(flat) / len(flat)
    if aggregation == "sequence_mean_token_mean":
        return sum(sum(row) / len(row) if row else 0.0 for row in kept) / len(kept)
    return sum(sum(row) for row in kept) / (len(kept) * max_length)


AGGREGATIONS = pytest.mark.parametrize(
    "aggregation", ["token_mean", "sequence_mean_token_mean", "sequence_mean_token_sum_norm"]
)


@AGGREGATIONS
def test_weights_add_up_to_the_loss_of_a_plain_loop(aggregation):
    total = (token_weights(MASK, aggregation, 6) * LOSSES).sum().item()
    assert total == pytest.approx(by_loop(aggregation), rel=1e-6)


@AGGREGATIONS
def test_masked_tokens_get_exactly_zero_gradient(aggregation):
    # Pitfall 11: a mean whose numerator is not masked.
    losses = LOSSES.clone().requires_grad_()
    (token_weights(MASK, aggregation, 6) * losses).sum().backward()
    assert torch.equal(losses.grad != 0, MASK)


@AGGREGATIONS
def test_weights_of_the_whole_batch_do_not_depend_on_the_split(aggregation):
    # Pitfall 8. Weights made anew for each piece would weigh pieces, not tokens or rows.
    losses = LOSSES.clone().requires_grad_()
    weights = token_weights(MASK, aggregation, 6)
    for rows in torch.arange(4).split(3):
        (losses[rows] * weights[rows]).sum().backward()
    torch.testing.assert_close(losses.grad, weights)
    assert weights.sum().item() == pytest.approx(by_loop(aggregation, torch.ones(4, 4)), rel=1e-6)


def test_aggregations_differ_in_who_gets_the_weight():
    weights = {name: token_weights(MASK, name, 6) for name in AGGREGATIONS.args[1]}
    assert weights["token_mean"][MASK].unique().tolist() == [1 / 8]
    assert weights["sequence_mean_token_mean"].sum(-1).tolist() == [0.25, 0.25, 0.25, 0.0]
    assert weights["sequence_mean_token_sum_norm"][MASK].unique().tolist() == [pytest.approx(1 / 24)]


def test_a_batch_without_a_kept_token_has_weight_zero_and_not_nan():
    for name in AGGREGATIONS.args[1]:
        assert token_weights(torch.zeros(2, 3, dtype=torch.bool), name, 6).eq(0).all()


def test_aggregation_errors():
    with pytest.raises(ValueError, match="'mean' is not one of 'token_mean'"):
        token_weights(MASK, "mean")
    with pytest.raises(ValueError, match="divides by max_length"):
        token_weights(MASK, "sequence_mean_token_sum_norm")
