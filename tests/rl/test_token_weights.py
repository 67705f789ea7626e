"""What each token counts in the loss of a batch."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from labkit.rl.losses import clipped_policy_loss, sequence_ratio, token_ratio, token_weights

NAMES = ("token_mean", "sequence_mean_token_mean", "sequence_mean_token_sum_norm")
AGGREGATIONS = pytest.mark.parametrize("aggregation", NAMES)
steady = settings(deadline=None, derandomize=True, max_examples=50)

MASK = torch.tensor([[1, 1, 0, 0], [0, 1, 0, 1], [1, 1, 1, 1], [0, 0, 0, 0]], dtype=torch.bool)
LOSSES = torch.arange(16.0).view(4, 4) ** 1.5 + 1
LONGEST = 6


def by_loop(aggregation, losses=LOSSES, mask=MASK):
    kept = [
        [x for x, k in zip(row, keep, strict=True) if k]
        for row, keep in zip(losses.tolist(), mask.tolist(), strict=True)
    ]
    if aggregation == "token_mean":
        flat = [x for row in kept for x in row]
        return sum(flat) / len(flat)
    if aggregation == "sequence_mean_token_mean":
        return sum(sum(row) / len(row) if row else 0.0 for row in kept) / len(kept)
    return sum(sum(row) for row in kept) / (len(kept) * LONGEST)


@AGGREGATIONS
def test_weights_add_up_to_the_loss_of_a_plain_loop(aggregation):
    total = (token_weights(MASK, aggregation, LONGEST) * LOSSES).sum().item()
    assert total == pytest.approx(by_loop(aggregation), rel=1e-6)


def test_aggregations_differ_in_who_gets_the_weight():
    weights = {name: token_weights(MASK, name, LONGEST) for name in NAMES}
    assert weights["token_mean"][MASK].unique().tolist() == [1 / 8]
    # A row without a kept token still counts as a row.
    assert weights["sequence_mean_token_mean"].sum(-1).tolist() == [0.25, 0.25, 0.25, 0.0]
    assert weights["sequence_mean_token_sum_norm"][MASK].unique().tolist() == [pytest.approx(1 / 24)]


@AGGREGATIONS
@pytest.mark.parametrize("ratio_of", [token_ratio, lambda new, old: sequence_ratio(new, old, MASK)])
def test_masked_tokens_get_exactly_zero_gradient(aggregation, ratio_of):
    # Pitfall 11: a mean whose numerator is not masked.
    logprobs = (LOSSES / 100).requires_grad_()
    loss = clipped_policy_loss(ratio_of(logprobs, LOSSES / 100), torch.ones(4, 1), 0.2, 0.2)
    (token_weights(MASK, aggregation, LONGEST) * loss).sum().backward()
    assert torch.equal(logprobs.grad != 0, MASK)


@AGGREGATIONS
@steady
@given(st.permutations(range(4)), st.lists(st.sampled_from([1, 2, 3]), max_size=3))
def test_weights_of_the_whole_batch_make_the_split_irrelevant(aggregation, order, cuts):
    # Pitfall 8.
    weights = token_weights(MASK, aggregation, LONGEST)
    losses = LOSSES.clone().requires_grad_()
    for rows in torch.tensor(order).tensor_split(sorted(set(cuts))):
        (losses[rows] * weights[rows]).sum().backward()
    torch.testing.assert_close(losses.grad, weights)


def test_weights_made_anew_for_each_piece_would_depend_on_the_split():
    # The mistake: pieces of 2 rows hold 4 tokens each, but of 1 and 3 rows 2 and 6.
    def gradient(sizes):
        pieces = [token_weights(part, "token_mean") / len(sizes) for part in MASK.split(sizes)]
        return torch.cat(pieces)

    torch.testing.assert_close(gradient([2, 2]), token_weights(MASK, "token_mean"))
    assert not torch.allclose(gradient([1, 3]), token_weights(MASK, "token_mean"))


@AGGREGATIONS
@pytest.mark.parametrize(("left", "right"), [(3, 0), (0, 3), (1, 2)])
def test_padding_changes_no_weight(aggregation, left, right):
    wide = torch.nn.functional.pad(MASK, (left, right))
    expected = torch.nn.functional.pad(token_weights(MASK, aggregation, LONGEST), (left, right))
    assert torch.equal(token_weights(wide, aggregation, LONGEST), expected)


@AGGREGATIONS
def test_what_a_longer_completion_does_to_the_weight_of_its_tokens(aggregation):
    # Dr.GRPO's point: divided by its own length, a long wrong answer is punished less for each token.
    short, long = torch.tensor([[1, 1, 0, 0]]), torch.tensor([[1, 1, 1, 1]])
    other = torch.tensor([[1, 1, 1, 1]])
    first = [token_weights(torch.cat([x, other]), aggregation, LONGEST)[0, 0] for x in (short, long)]
    if aggregation == "sequence_mean_token_mean":
        assert first[0] == 2 * first[1]
    elif aggregation == "sequence_mean_token_sum_norm":
        assert first[0] == first[1]
    else:
        assert first[0] / first[1] == pytest.approx(8 / 6), "shared by all tokens of the batch"


@AGGREGATIONS
def test_a_batch_without_a_kept_token_has_weight_zero_and_not_nan(aggregation):
    assert token_weights(torch.zeros(2, 3, dtype=torch.bool), aggregation, LONGEST).eq(0).all()


def test_aggregation_errors():
    with pytest.raises(ValueError, match="'mean' is not one of 'token_mean'"):
        token_weights(MASK, "mean")
    with pytest.raises(ValueError, match="divides by max_length"):
        token_weights(MASK, "sequence_mean_token_sum_norm")
