"""The study of policy-gradient variants at smoke size, and its measurement of noise."""

from __future__ import annotations

import math

import pandas as pd
import pytest
import torch

from labkit.envs.judging import Judgement
from labkit.rl.advantages import group_advantages
from labkit.rl.config import RLConfig
from labkit.studies.ppo_grpo import CLAIMS, STUDY
from labkit.studies.ppo_grpo.arms import ALGORITHM_ARMS, GROUP_ARMS, GRPO, ROWS, arms
from labkit.studies.ppo_grpo.claims import final_reward
from labkit.studies.ppo_grpo.curves import mean_push
from labkit.studies.ppo_grpo.figures import FIGURES
from labkit.studies.ppo_grpo.noise import agreement, gradient
from labkit.study import run
from tests.rl.steps import one_step
from tests.tiny import BOS, A, B, C, llama

ARMS = ("grpo", "ppo-separate", "dapo", "k1-reward", "exact-loss", "noise")


@pytest.fixture(scope="module")
def frame():
    return run(STUDY, "smoke", seeds=1, arms=ARMS)


def test_the_pipeline_runs_at_smoke_size_and_keeps_every_step(frame) -> None:
    assert set(frame["arm"]) == set(ARMS)
    rows = frame[frame["arm"] == "grpo"]
    assert rows["step"].tolist() == [0, 1, 2]
    assert rows["reward"].notna().tolist() == [False, True, True]
    assert rows["id_accuracy"].notna().tolist() == [True, False, True]


def test_only_ppo_has_a_critic_to_report_of(frame) -> None:
    reported = frame[frame["value_loss"].notna()]["arm"].unique().tolist()
    assert reported == ["ppo-separate"]


def test_noise_is_a_row_a_group_size(frame) -> None:
    rows = frame[frame["arm"] == "noise"]
    assert rows["step"].tolist() == [2, 4, 8, 16, 32, 64]
    assert rows["agreement_grpo"].between(-1, 1).all()
    assert rows["groups_without_signal"].between(0, 1).all()


def test_the_gradient_whose_noise_is_measured_is_the_trainers() -> None:
    # The study keeps a plain loop of its own, for advantages of any kind and without an optimiser.
    def judge(rows, completions):
        return [Judgement(float(len(c) + r % 2)) for r, c in zip(rows, completions, strict=True)]

    config = RLConfig(group_size=4, max_new_tokens=5, loss="policy_gradient")
    step = one_step(llama(), config, [[BOS, A], [BOS, B, C]], judge)
    measured = gradient(llama(), step.rollouts, group_advantages(step.rollouts.rewards, 4))
    trained = torch.cat([step.gradients[0][name].flatten() for name, _ in llama().named_parameters()])
    assert trained.norm() > 0.01
    torch.testing.assert_close(measured, trained, atol=1e-6, rtol=1e-4)


def test_every_arm_samples_as_many_completions_a_step() -> None:
    for name, algorithm in (ALGORITHM_ARMS | GROUP_ARMS).items():
        assert algorithm.prompts_per_step * algorithm.group_size == ROWS, name


def test_arms_differ_from_grpo_in_what_their_name_says() -> None:
    differing = {
        name: {field for field, value in vars(algorithm).items() if value != vars(GRPO)[field]}
        for name, algorithm in ALGORITHM_ARMS.items()
    }
    assert differing["grpo"] == set()
    assert differing["grpo-no-std"] == {"scale_by_std"}
    assert differing["dr_grpo"] == {"scale_by_std", "aggregation"}
    assert differing["gspo"] == {"ratio", "clip_low", "clip_high"}
    assert set(arms("full")) == set(arms("smoke"))


def test_agreement_is_the_mean_cosine_of_different_gradients() -> None:
    gradients = torch.tensor([[1.0, 0.0], [2.0, 0.0], [0.0, 3.0]])
    assert agreement(gradients) == pytest.approx((1 + 0 + 0) / 3)
    assert agreement(torch.tensor([[1.0, 1.0], [2.0, 2.0]])) == pytest.approx(1.0)


def test_the_final_reward_is_the_mean_of_the_last_twenty_steps_of_each_seed() -> None:
    rows = [
        {"arm": "a", "seed": seed, "step": step, "reward": step + seed if step else math.nan}
        for seed in (0, 1)
        for step in range(31)
    ]
    assert final_reward(pd.DataFrame(rows), "a") == {0: 20.5, 1: 21.5}
    with pytest.raises(ValueError, match="'b' has no training rows"):
        final_reward(pd.DataFrame(rows), "b")


@pytest.fixture(scope="module")
def made_up() -> pd.DataFrame:
    """Two seeds of every arm, with every metric, some numbers or other."""
    rows = []
    for number, arm in enumerate(arms("full")):
        for seed in (0, 1):
            steps = (2, 4, 8, 16, 32, 64) if arm == "noise" else range(0, 81, 10)
            for step in steps:
                names = ("reward", "id_accuracy", "ood_accuracy", "id_kl", "clipped", "batches",
                         "agreement_grpo", "groups_without_signal", "baseline_std")  # fmt: skip
                values = dict.fromkeys(names, number + seed / 10 + step / 100)
                rows.append({"arm": arm, "seed": seed, "step": step, **values})
    return pd.DataFrame(rows)


@pytest.mark.parametrize("claim", CLAIMS, ids=lambda claim: claim.id)
def test_every_claim_can_be_measured(claim, made_up) -> None:
    assert len(list(claim.differences(made_up))) == 2


@pytest.mark.parametrize("draw", [draw for draw, _ in FIGURES], ids=lambda draw: draw.__name__)
def test_every_figure_can_be_drawn(draw, made_up) -> None:
    figure, table = draw(made_up)
    assert figure.axes and len(table) and table["mean"].notna().any()


@pytest.mark.parametrize("size", [2, 8])
@pytest.mark.parametrize("rate", [0.1, 0.5])
def test_the_mean_push_of_a_prompt_is_that_of_many_sampled_groups(size, rate) -> None:
    draws = (torch.rand(20_000, size, generator=torch.Generator().manual_seed(0)) < rate).double()
    sampled = group_advantages(draws.flatten(), size).abs().mean().item()
    assert mean_push(rate, size, True) == pytest.approx(sampled, rel=0.03)


def test_claims_name_arms_that_exist() -> None:
    assert len({c.id for c in CLAIMS}) == len(CLAIMS) >= 10
    assert {arm for c in CLAIMS for arm in c.arms} <= set(arms("full"))
    assert all(c.smallest > 0 and c.paper and c.source for c in CLAIMS)
