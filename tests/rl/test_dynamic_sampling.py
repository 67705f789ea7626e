import pytest
import torch

from labkit.envs.judging import Judgement
from labkit.lm.training import OptimizerConfig, TrainState
from labkit.rl import trainer
from labkit.rl.config import RLConfig
from labkit.rl.rollout import Rollouts
from labkit.rl.trainer import policy_gradient_algorithm, roll_out
from tests.tiny import BOS, A, B, C, llama

PROMPTS = [[BOS, A], [BOS, B, C]]
CONFIG = RLConfig(prompts_per_step=2, group_size=4, max_new_tokens=3, max_refills=3)


class Batches:
    """Batch n of prompts has signal in the groups that `signal[n]` names."""

    def __init__(self, *signal):
        self.signal, self.drawn = signal, 0

    def __call__(self, state):
        groups = self.signal[self.drawn]
        self.drawn += 1

        def judge(rows, completions):
            return [Judgement(float(self.drawn if row // 4 in groups and row % 2 else 0)) for row in rows]

        return PROMPTS, judge


def rolled(*signal, config=CONFIG):
    source = Batches(*signal)
    state = TrainState.start(llama(), OptimizerConfig(), 1, seed=0)
    rollouts, metrics = roll_out(config, source, state)
    return rollouts, metrics, state, source


def test_groups_of_equal_rewards_are_replaced_by_later_ones():
    rollouts, metrics, state, source = rolled({1}, set(), {0, 1})
    assert source.drawn == 3
    assert rollouts.groups_with_signal.all()
    # Group 1 of the first batch, then group 0 of the third; the fourth with signal is one too many.
    assert rollouts.rewards.tolist() == [0, 1, 0, 1, 0, 3, 0, 3]
    assert rollouts.prompt_ids[0][rollouts.prompt_mask[0]].tolist() == PROMPTS[1]
    assert rollouts.prompt_ids[1][rollouts.prompt_mask[1]].tolist() == PROMPTS[0]
    assert metrics["batches"] == 3
    assert metrics["groups_without_signal"] == pytest.approx(3 / 6), "of all that was sampled"
    assert metrics["reward"] == pytest.approx((2 * 1 + 4 * 3) / 24), "of all that was sampled"
    # What was thrown away was sampled too: three batches, each of four rows a prompt.
    assert state.tokens_sampled == 3 * 4 * sum(map(len, PROMPTS)) + round(24 * metrics["length"])


def test_no_more_is_drawn_than_is_needed():
    _, metrics, _, source = rolled({0, 1})
    assert source.drawn == 1
    assert metrics["batches"] == 1


def test_after_the_last_refill_the_step_is_made_with_what_there_is():
    rollouts, _, _, source = rolled(set(), set(), {0}, set())
    assert source.drawn == 4
    assert rollouts.rewards.tolist() == [0, 3, 0, 3]


def test_a_step_without_any_signal_changes_nothing():
    rollouts, *_ = rolled(*[set()] * 4)
    assert len(rollouts.prompt_ids) == 2, "one batch, not all that were drawn"
    state = TrainState.start(llama(), OptimizerConfig(), 1, seed=0)
    before = {name: p.clone() for name, p in state.model.state_dict().items()}
    metrics = policy_gradient_algorithm(CONFIG, Batches(*[set()] * 4))(state)
    assert metrics["grad_norm"] == 0.0
    assert metrics["groups_without_signal"] == 1.0
    assert all(torch.equal(p, before[name]) for name, p in state.model.state_dict().items())


def test_the_mean_reward_of_a_step_is_biased_by_its_stopping_and_weights_of_batches_mend_it(monkeypatch):
    # Completions that are right with probability 0.1, whatever the model: the mean to be found.
    generator = torch.Generator().manual_seed(0)

    def collect(*args, **more):
        rewards = (torch.rand(8, generator=generator) < 0.1).float()
        row = torch.zeros(8, 1)
        ids, turn = row.long(), row.long()
        prompts = ids[:2], turn[:2].bool()
        return Rollouts(*prompts, ids, turn == 0, turn, row, rewards[:, None], rewards, turn[:, 0] + 1)

    monkeypatch.setattr(trainer, "collect", collect)
    state = TrainState.start(llama(), OptimizerConfig(), 1, seed=0)
    steps = [roll_out(CONFIG, lambda state: (PROMPTS, None), state)[1] for _ in range(800)]
    rewards, batches = (torch.tensor([step[name] for step in steps]) for name in ("reward", "batches"))
    # Some 18,000 completions: a standard error of 0.002.
    assert rewards.mean() > 0.1 + 0.015
    assert (rewards * batches).sum() / batches.sum() == pytest.approx(0.1, abs=0.008)


def test_without_refills_every_group_is_kept():
    rollouts, _, _, source = rolled({1}, config=RLConfig(prompts_per_step=2, group_size=4, max_new_tokens=3))
    assert source.drawn == 1
    assert len(rollouts.rewards) == 8
