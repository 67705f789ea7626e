"""Credit of hand-made episodes."""

import pytest
import torch

from labkit.rl.config import PPO, RLConfig
from labkit.rl.credit import assign_credit
from labkit.rl.rollout import Rollouts

TURN_OF_TOKEN = torch.tensor(
    [
        [0, 0, -1, 1, 1],  # two attempts with one token of feedback between
        [0, 0, 0, -1, -1],  # one attempt, then padding
    ]
)
VALUES = torch.tensor([[0.1, 0.2, 9.0, 0.3, 0.4], [0.5, 0.6, 0.7, 9.0, 9.0]]) * (TURN_OF_TOKEN >= 0)


def rollouts(turn_rewards=((-1.0, 5.0), (2.0, 0.0))):
    mask = torch.tensor([[True] * 5, [True] * 3 + [False] * 2])
    turn_rewards, turns = torch.tensor(turn_rewards), torch.tensor([2, 1])
    return Rollouts(
        prompt_ids=torch.ones(1, 2, dtype=torch.long),
        prompt_mask=torch.ones(1, 2, dtype=torch.bool),
        ids=torch.ones(2, 5, dtype=torch.long),
        mask=mask,
        turn_of_token=TURN_OF_TOKEN,
        logprobs=torch.full((2, 5), -1.0) * (TURN_OF_TOKEN >= 0),
        turn_rewards=turn_rewards,
        rewards=turn_rewards.gather(1, turns[:, None] - 1).squeeze(1),
        turns=turns,
    )


def test_over_tokens_the_last_sampled_token_earns_the_reward_and_feedback_is_stepped_over():
    config = RLConfig(advantage="gae", critic="shared", gamma=1.0, lam=1.0)
    credit = assign_credit(config, rollouts(), values=VALUES)
    # With gamma = lam = 1 an advantage is the episode's reward minus the value.
    expected = [[4.9, 4.8, 0.0, 4.7, 4.6], [1.5, 1.4, 1.3, 0.0, 0.0]]
    torch.testing.assert_close(credit.advantages, torch.tensor(expected))
    torch.testing.assert_close(
        credit.returns, torch.tensor([[5.0, 5.0, 0.0, 5.0, 5.0], [2.0, 2.0, 2.0, 0.0, 0.0]])
    )
    assert torch.equal(credit.value_mask, TURN_OF_TOKEN >= 0)


def test_over_turns_each_turn_earns_its_own_and_all_its_tokens_share_its_advantage():
    config = RLConfig(advantage="gae", critic="shared", gae_over="turns", gamma=0.9, lam=0.5)
    credit = assign_credit(config, rollouts(), values=VALUES)
    # A turn's value is that of the state before its first token: 0.1 and 0.3, and 0.5.
    second = 5.0 - 0.3
    first = -1.0 + 0.9 * 0.3 - 0.1 + 0.9 * 0.5 * second
    only = 2.0 - 0.5
    expected = [[first, first, 0.0, second, second], [only, only, only, 0.0, 0.0]]
    torch.testing.assert_close(credit.advantages, torch.tensor(expected))
    assert credit.value_mask.tolist() == [[True, False, False, True, False], [True] + [False] * 4]
    assert credit.returns[0, 0] == pytest.approx(first + 0.1)
    assert credit.returns[0, 3] == pytest.approx(second + 0.3)


def test_group_advantages_fall_on_every_sampled_token_of_a_row():
    credit = assign_credit(RLConfig(group_size=2, scale_by_std=False), rollouts())
    torch.testing.assert_close(credit.advantages, torch.tensor([[1.5], [-1.5]]) * (TURN_OF_TOKEN >= 0))
    assert credit.returns is None


@pytest.mark.parametrize("advantage", ["group", "leave_one_out"])
def test_a_penalty_in_the_reward_counts_before_the_group_is_compared(advantage):
    # k1 is log π - log ref: 0.5 nats on each of four tokens of the first row, none on the second.
    reference = torch.tensor([[-1.5] * 5, [-1.0] * 5])
    config = RLConfig(
        group_size=2, scale_by_std=False, advantage=advantage, kl_coef=0.1, kl_in="reward", kl_estimator="k1"
    )
    credit = assign_credit(config, rollouts(), reference_logprobs=reference)
    rewards = torch.tensor([5.0 - 0.1 * 4 * 0.5, 2.0])
    of_row = rewards - (rewards.mean() if advantage == "group" else rewards.flip(0))
    torch.testing.assert_close(credit.advantages, of_row[:, None] * (TURN_OF_TOKEN >= 0))


def test_a_penalty_in_the_reward_falls_on_the_tokens_that_caused_it():
    reference = torch.full((2, 5), -1.0)
    reference[0, 3] = -2.0  # one nat, on the first token of the second turn
    config = RLConfig(
        advantage="gae", critic="shared", gamma=1.0, lam=1.0, kl_coef=0.1, kl_in="reward", kl_estimator="k1"
    )
    zero = torch.zeros_like(VALUES)
    credit = assign_credit(config, rollouts(), reference_logprobs=reference, values=zero)
    torch.testing.assert_close(credit.advantages[0], torch.tensor([4.9, 4.9, 0.0, 4.9, 5.0]))
    turns = RLConfig(**{**config.__dict__, "gae_over": "turns"})
    credit = assign_credit(turns, rollouts(), reference_logprobs=reference, values=zero)
    torch.testing.assert_close(credit.advantages[0], torch.tensor([3.9, 3.9, 0.0, 4.9, 4.9]))


def test_whitening_leaves_the_critics_targets_alone():
    plain = assign_credit(RLConfig(**{**PPO.__dict__, "whiten": False}), rollouts(), values=VALUES)
    white = assign_credit(PPO, rollouts(), values=VALUES)
    assert torch.equal(white.returns, plain.returns)
    kept = white.advantages[TURN_OF_TOKEN >= 0]
    assert kept.mean().item() == pytest.approx(0.0, abs=1e-6)
    assert kept.std().item() == pytest.approx(1.0, abs=1e-5)
