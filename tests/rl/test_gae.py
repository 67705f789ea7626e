"""Advantages over time: rewards to go, GAE over tokens and over turns, whitening."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from labkit.rl.advantages import generalized_advantages, reward_to_go, spread_over_turns, whiten

steady = settings(deadline=None, derandomize=True, max_examples=50)
seeds = st.integers(0, 10**6)
shares = st.sampled_from([0.0, 0.5, 0.9, 1.0])
ROWS, TIME = 3, 6


def exact(a, b):
    torch.testing.assert_close(a, b, atol=1e-12, rtol=0)


def batch(seed):
    """Rewards, values and last values `float64`, and a mask with holes; a row may be all masked."""
    generator = torch.Generator().manual_seed(seed)
    rewards, values = torch.randn(2, ROWS, TIME, generator=generator, dtype=torch.float64)
    mask = torch.rand(ROWS, TIME, generator=generator) < 0.6
    return rewards, values, mask, torch.randn(ROWS, generator=generator, dtype=torch.float64)


def mixture_of_n_step_advantages(rewards, values, last_value, gamma, lam):
    """GAE as it is defined: the average of `r_t + ... + gamma^n V_{t+n} - V_t` over n, weighted by lam."""
    values = [*values, last_value]
    advantages = []
    for t in range(len(rewards)):
        longest = len(rewards) - t
        n_step = [
            sum(gamma**i * rewards[t + i] for i in range(n)) + gamma**n * values[t + n] - values[t]
            for n in range(1, longest + 1)
        ]
        total = sum((1 - lam) * lam**i * advantage for i, advantage in enumerate(n_step[:-1]))
        advantages.append(total + lam ** (longest - 1) * n_step[-1])
    return advantages


@steady
@given(seeds, shares, shares)
def test_gae_is_the_mixture_of_n_step_advantages(seed, gamma, lam):
    rewards, values, mask, last = batch(seed)
    advantages, _ = generalized_advantages(rewards, values, mask, gamma=gamma, lam=lam, last_values=last)
    for row in range(ROWS):
        kept = mask[row]
        expected = mixture_of_n_step_advantages(
            rewards[row][kept].tolist(), values[row][kept].tolist(), last[row].item(), gamma, lam
        )
        exact(advantages[row][kept], torch.tensor(expected, dtype=torch.float64))
        assert advantages[row][~kept].eq(0).all()


@steady
@given(seeds, shares)
def test_reward_to_go_is_the_discounted_sum_of_what_follows(seed, gamma):
    rewards, _, mask, _ = batch(seed)
    returns = reward_to_go(rewards, mask, gamma)
    for row in range(ROWS):
        kept = rewards[row][mask[row]].tolist()
        expected = [sum(gamma**i * r for i, r in enumerate(kept[t:])) for t in range(len(kept))]
        exact(returns[row][mask[row]], torch.tensor(expected, dtype=torch.float64))
        assert returns[row][~mask[row]].eq(0).all()


@steady
@given(seeds)
def test_without_a_critic_gae_is_the_reward_to_go(seed):
    rewards, _, mask, _ = batch(seed)
    advantages, returns = generalized_advantages(rewards, torch.zeros_like(rewards), mask, gamma=1.0, lam=1.0)
    exact(advantages, reward_to_go(rewards, mask))
    exact(returns, advantages)


@steady
@given(seeds, shares, shares)
def test_returns_are_unwhitened_advantages_plus_values(seed, gamma, lam):
    rewards, values, mask, last = batch(seed)
    advantages, returns = generalized_advantages(
        rewards, values, mask, gamma=gamma, lam=lam, last_values=last
    )
    exact(returns, (advantages + values) * mask)


@steady
@given(seeds, st.lists(st.integers(0, TIME), min_size=1, max_size=4))
def test_inserted_observations_and_padding_change_no_other_step(seed, places):
    # Pitfall 12. What stands at a masked step is nothing the policy did, so it may even be NaN.
    rewards, values, mask, last = batch(seed)
    advantages, returns = generalized_advantages(rewards, values, mask, gamma=0.9, last_values=last)
    to_go = reward_to_go(rewards, mask, 0.9)

    def insert(tensor, filler):
        columns = list(tensor.unbind(-1))
        for place in places:
            columns.insert(place, torch.full_like(columns[0], filler))
        return torch.stack(columns, -1)

    wide = insert(rewards, torch.nan), insert(values, torch.nan), insert(mask, False)
    longer = generalized_advantages(*wide, gamma=0.9, last_values=last)
    assert torch.equal(longer[0], insert(advantages, 0.0))
    assert torch.equal(longer[1], insert(returns, 0.0))
    assert torch.equal(reward_to_go(wide[0], wide[2], 0.9), insert(to_go, 0.0))


@steady
@given(seeds, st.permutations(range(ROWS)))
def test_rows_do_not_feel_each_other(seed, order):
    rewards, values, mask, last = batch(seed)
    plain = generalized_advantages(rewards, values, mask, last_values=last)
    permuted = generalized_advantages(rewards[order], values[order], mask[order], last_values=last[order])
    assert all(map(torch.equal, permuted, (x[order] for x in plain)))


def test_truncation_and_termination_by_hand():
    # Pitfall 18. Both rows: rewards 0, 1; values .5, .25; gamma = lam = ½.
    rewards, values = torch.tensor([[0.0, 1.0]] * 2), torch.tensor([[0.5, 0.25]] * 2)
    terminated, truncated = 0.0, 2.0
    advantages, returns = generalized_advantages(
        rewards,
        values,
        torch.ones(2, 2),
        gamma=0.5,
        lam=0.5,
        last_values=torch.tensor([terminated, truncated]),
    )
    # Last step: 1 + ½·0 - .25 = .75, or 1 + ½·2 - .25 = 1.75.
    # First: 0 + ½·.25 - .5 = -.375, plus a quarter of the last one's advantage.
    assert advantages.tolist() == [[-0.1875, 0.75], [0.0625, 1.75]]
    assert returns.tolist() == [[0.3125, 1.0], [0.5625, 2.0]]


def test_the_default_is_that_episodes_terminated():
    rewards, values, mask, _ = batch(0)
    zero = torch.zeros(ROWS, dtype=torch.float64)
    default = generalized_advantages(rewards, values, mask)
    assert all(map(torch.equal, default, generalized_advantages(rewards, values, mask, last_values=zero)))


def test_two_turns_by_hand():
    # A turn is a step: nothing for the first, 1 for the second; the critic said ½ of both. The second row
    # ended after its first turn.
    rewards, values = torch.tensor([[0.0, 1.0], [1.0, 0.0]]), torch.tensor([[0.5, 0.5], [0.5, 9.0]])
    turns = torch.tensor([[1, 1], [1, 0]])
    advantages, returns = generalized_advantages(rewards, values, turns, gamma=1.0, lam=0.5)
    # Second turn: 1 - ½. First: 0 + ½ - ½ + ½·½.
    assert advantages.tolist() == [[0.25, 0.5], [0.5, 0.0]]
    assert returns.tolist() == [[0.75, 1.0], [1.0, 0.0]]
    turn_of_token = torch.tensor([[-1, 0, 0, -1, 1, 1, 1], [-1, 0, 0, 0, -1, -1, -1]])
    assert spread_over_turns(advantages, turn_of_token).tolist() == [
        [0.0, 0.25, 0.25, 0.0, 0.5, 0.5, 0.5],
        [0.0, 0.5, 0.5, 0.5, 0.0, 0.0, 0.0],
    ]


@steady
@given(seeds)
def test_whitening_gives_the_kept_values_of_the_batch_mean_0_and_std_1(seed):
    values, _, mask, _ = batch(seed)
    mask[0, :2] = True
    white = whiten(values, mask)
    assert white[mask].mean().item() == pytest.approx(0, abs=1e-6)
    assert white[mask].std().item() == pytest.approx(1, rel=1e-6)
    assert white[~mask].eq(0).all()
    exact(whiten(values, mask, eps=0.0), (values - values[mask].mean()) / values[mask].std() * mask)
    unshifted = whiten(values, mask, shift_mean=False, eps=0.0)
    exact(unshifted, values / values[mask].std() * mask)


def test_whitening_ignores_what_the_mask_leaves_out():
    values, _, mask, _ = batch(0)
    garbage = torch.where(mask, values, torch.full_like(values, torch.nan))
    assert torch.equal(whiten(garbage, mask), whiten(values, mask))


@pytest.mark.parametrize("kept", [0, 1, 7])
def test_whitening_equal_values_makes_no_signal_out_of_rounding(kept):
    values, mask = torch.full((1, 7), 0.1), torch.arange(7)[None] < kept
    assert whiten(values, mask).eq(0).all()
    assert torch.equal(whiten(values, mask, shift_mean=False), values * mask)


def test_inputs_are_left_as_they_were():
    # Pitfall 17.
    inputs = batch(0)
    before = [x.clone() for x in inputs]
    rewards, values, mask, last = inputs
    generalized_advantages(rewards, values, mask, last_values=last)
    reward_to_go(rewards, mask)
    whiten(values, mask)
    assert all(map(torch.equal, inputs, before))


def test_what_is_not_a_batch_of_steps_is_refused():
    flat, rows = torch.zeros(4), torch.zeros(2, 4)
    for rewards, mask in ((flat, flat), (rows, torch.ones(2, 3))):
        with pytest.raises(ValueError, match=r"should both be \[rows, time\]"):
            reward_to_go(rewards, mask)
        with pytest.raises(ValueError, match=r"should both be \[rows, time\]"):
            generalized_advantages(rewards, rewards, mask)
    for wrong in ({"gamma": 1.1}, {"lam": -0.1}):
        with pytest.raises(ValueError, match="both lie between 0 and 1"):
            generalized_advantages(rows, rows, rows, **wrong)
