"""Advantages inside a group of completions of one prompt; over time they are in test_gae.py."""

import inspect
import itertools
import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from labkit.rl.advantages import LIBRARY_GROUP_STD, group_advantages, rloo_advantages

GROUP = 4
rewards_of_groups = (
    st.integers(1, 4)
    .flatmap(lambda n: st.lists(st.integers(-20, 20), min_size=n * GROUP, max_size=n * GROUP))
    .map(lambda values: torch.tensor(values, dtype=torch.float64))
)
options = st.fixed_dictionaries({"scale_by_std": st.booleans(), "ddof": st.sampled_from([0, 1])})
# On a busy machine a deadline fails by chance; the same examples each time.
steady = settings(deadline=None, derandomize=True)


@steady
@given(rewards_of_groups, options)
def test_advantages_sum_to_zero_in_each_group(rewards, how):
    # Pitfall 13: with the statistics of the batch they sum to zero over the batch alone.
    sums = group_advantages(rewards, GROUP, **how).view(-1, GROUP).sum(-1)
    torch.testing.assert_close(sums, torch.zeros_like(sums), atol=1e-9, rtol=0)


@steady
@given(rewards_of_groups, options)
def test_they_equal_numpys_group_by_group(rewards, how):
    ours = group_advantages(rewards, GROUP, **how).view(-1, GROUP)
    for group, advantages in zip(rewards.view(-1, GROUP).numpy(), ours, strict=True):
        expected = group - group.mean()
        if how["scale_by_std"]:
            expected = expected / (np.std(group, ddof=how["ddof"]) + 1e-4)
        np.testing.assert_allclose(advantages, expected, atol=1e-9)


@steady
@given(rewards_of_groups, options, st.integers(-9, 9), st.randoms(use_true_random=False))
def test_shifting_a_reward_or_reordering_changes_nothing_else(rewards, how, shift, rng):
    plain = group_advantages(rewards, GROUP, **how)
    torch.testing.assert_close(group_advantages(rewards + shift, GROUP, **how), plain, atol=1e-9, rtol=0)
    order = list(range(GROUP))
    rng.shuffle(order)
    within = group_advantages(rewards.view(-1, GROUP)[:, order].flatten(), GROUP, **how)
    torch.testing.assert_close(within, plain.view(-1, GROUP)[:, order].flatten(), atol=1e-9, rtol=0)
    groups = list(range(len(rewards) // GROUP))
    rng.shuffle(groups)
    across = group_advantages(rewards.view(-1, GROUP)[groups].flatten(), GROUP, **how)
    assert torch.equal(across, plain.view(-1, GROUP)[groups].flatten()), "a group felt its neighbours"


@steady
@given(rewards_of_groups, st.sampled_from([0.5, 10.0]))
def test_dividing_by_the_std_makes_the_size_of_rewards_irrelevant(rewards, factor):
    plain, scaled = (group_advantages(r, GROUP, eps=0.0) for r in (rewards, rewards * factor))
    torch.testing.assert_close(scaled, plain, atol=1e-9, rtol=0)
    # Dr.GRPO does not divide, so there it is relevant.
    plain, scaled = (group_advantages(r, GROUP, scale_by_std=False) for r in (rewards, rewards * factor))
    torch.testing.assert_close(scaled, plain * factor, atol=1e-9, rtol=0)


@pytest.mark.parametrize("size", [2, 4, 8, 64])
def test_one_success_in_a_group_has_the_known_advantage(size):
    rewards = torch.zeros(size)
    rewards[1] = 1.0
    sample_std = group_advantages(rewards, size, eps=0.0)
    assert sample_std[1].item() == pytest.approx((size - 1) / math.sqrt(size), rel=1e-5)
    population_std = group_advantages(rewards, size, ddof=0, eps=0.0)
    assert population_std[1].item() == pytest.approx(math.sqrt(size - 1), rel=1e-5)


def test_the_default_is_trls():
    rewards = torch.tensor([0.0, 0.0, 1.0, 3.0])
    expected = (rewards - rewards.mean()) / (rewards.std() + 1e-4)
    torch.testing.assert_close(group_advantages(rewards, 4), expected)
    default = inspect.signature(group_advantages).parameters
    assert LIBRARY_GROUP_STD["trl"] == (default["ddof"].default, default["eps"].default)


def test_libraries_differ_in_eps_alone_and_only_where_rewards_nearly_agree():
    assert {name: tuple(how) for name, how in LIBRARY_GROUP_STD.items()} == {
        "trl": (1, 1e-4),
        "verl": (1, 1e-6),
        "openrlhf": (1, 1e-9),
    }
    for spread, tolerance in ((1.0, 1e-3), (1e-4, None)):
        rewards = spread * torch.tensor([0.0, 0.0, 0.0, 1.0], dtype=torch.float64)
        trl, verl, _ = (group_advantages(rewards, 4, **how._asdict()) for how in LIBRARY_GROUP_STD.values())
        if tolerance:
            torch.testing.assert_close(trl, verl, atol=tolerance, rtol=0)
        else:
            assert trl[3] < 0.5 * verl[3], "a std of 5e-5 under an eps of 1e-4"


@steady
@given(rewards_of_groups)
def test_rloo_leaves_each_reward_out_of_its_own_baseline(rewards):
    ours = rloo_advantages(rewards, GROUP).view(-1, GROUP)
    for group, advantages in zip(rewards.view(-1, GROUP).tolist(), ours.tolist(), strict=True):
        for i, reward in enumerate(group):
            others = group[:i] + group[i + 1 :]
            assert advantages[i] == pytest.approx(reward - sum(others) / len(others), abs=1e-9)


@steady
@given(rewards_of_groups)
def test_rloo_is_dr_grpo_times_a_constant(rewards):
    dr_grpo = group_advantages(rewards, GROUP, scale_by_std=False)
    torch.testing.assert_close(rloo_advantages(rewards, GROUP), dr_grpo * 4 / 3, atol=1e-9, rtol=0)


def test_rloo_is_unbiased_and_dr_grpo_shrinks_the_gradient():
    # All groups of 3 draws from a softmax of 3 actions, each weighted by its probability.
    theta = torch.tensor([0.5, -0.2, 0.1], dtype=torch.float64)
    reward_of = torch.tensor([1.0, 0.0, 3.0], dtype=torch.float64)
    pi = theta.softmax(-1)
    true_gradient = pi * (reward_of - (pi * reward_of).sum())

    def expected_gradient(advantages):
        total = torch.zeros(3, dtype=torch.float64)
        for draws in itertools.product(range(3), repeat=3):
            scores = torch.eye(3, dtype=torch.float64)[list(draws)] - pi
            weighted = advantages(reward_of[list(draws)], 3)[:, None] * scores
            total += pi[list(draws)].prod() * weighted.mean(0)
        return total

    torch.testing.assert_close(expected_gradient(rloo_advantages), true_gradient)
    without_std = expected_gradient(lambda r, size: group_advantages(r, size, scale_by_std=False))
    torch.testing.assert_close(without_std, true_gradient * 2 / 3)


@pytest.mark.parametrize("scale", [True, False])
@pytest.mark.parametrize("value", [0.0, 1.0, 0.1, -3.7, 1e8])
def test_a_group_of_equal_rewards_gets_exactly_zero(value, scale):
    # Pitfall 14: neither 0/0 nor a push out of rounding (the float mean of seven 0.1 is not 0.1).
    advantages = group_advantages(torch.full((14,), value), 7, scale_by_std=scale, eps=0.0)
    assert advantages.eq(0).all(), f"equal rewards {value} gave {advantages[0]}"
    assert rloo_advantages(torch.full((14,), value), 7).eq(0).all()


def test_a_prompt_drawn_twice_makes_two_groups():
    # Pitfall 13: keyed by prompt text, these would be one group with mean ½ and no zero rows.
    assert group_advantages(torch.tensor([1.0, 1.0, 0.0, 0.0]), 2).tolist() == [0, 0, 0, 0]


def test_the_rewards_are_left_as_they_were():
    rewards = torch.tensor([0.0, 1.0, 5.0, 5.0])
    group_advantages(rewards, 2)
    rloo_advantages(rewards, 2)
    assert rewards.tolist() == [0.0, 1.0, 5.0, 5.0]


@pytest.mark.parametrize(
    ("rewards", "size", "message"),
    [
        (torch.zeros(4), 1, "group_size is 1"),
        (torch.zeros(5), 2, r"shape \(5,\) do not split into groups of 2"),
        (torch.zeros(2, 2), 2, r"shape \(2, 2\)"),
    ],
)
def test_rewards_that_do_not_make_groups_are_an_error(rewards, size, message):
    for advantages in (group_advantages, rloo_advantages):
        with pytest.raises(ValueError, match=message):
            advantages(rewards, size)
