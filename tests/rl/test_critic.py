from dataclasses import replace

import pytest
import torch

from labkit.envs.judging import Judgement
from labkit.lm.models import num_parameters
from labkit.lm.training import OptimizerConfig, TrainState
from labkit.rl.config import PPO, RLConfig
from labkit.rl.critic import attach_critic
from labkit.rl.trainer import policy_gradient_algorithm
from labkit.rl.updates import critic_values
from tests.rl.steps import one_step
from tests.tiny import BOS, A, B, C, llama

PROMPTS = [[BOS, A], [BOS, B, C]]
CONFIG = RLConfig(**{**PPO.__dict__, "group_size": 4, "max_new_tokens": 3, "epochs": 2})


def lengths(rows, completions):
    return [Judgement(float(len(c) + row % 2)) for row, c in zip(rows, completions, strict=True)]


def with_critic(kind):
    model = llama()
    attach_critic(model, kind)
    return model


@pytest.mark.parametrize("kind", ["shared", "separate"])
def test_every_part_of_policy_and_critic_is_trained(kind):
    # Pitfall 24: a critic that is detached, or in no group of the optimiser, "trains" and learns nothing.
    model = with_critic(kind)
    before = {name: p.detach().clone() for name, p in model.named_parameters()}
    one_step(model, RLConfig(**{**CONFIG.__dict__, "critic": kind}), PROMPTS, lengths)
    # The output layer of a critic's backbone predicts no token.
    idle = {"critic.backbone.lm_head.weight"}
    still = {n for n, p in model.named_parameters() if torch.equal(p, before[n])} - idle
    assert not still, f"did not move: {still}"


def test_what_a_critic_costs_in_parameters():
    policy = num_parameters(llama())
    assert num_parameters(with_critic("shared")) == policy + 16 + 1
    assert num_parameters(with_critic("separate")) == 2 * policy + 16 + 1


@pytest.mark.parametrize("kind", ["shared", "separate"])
def test_values_start_at_zero_and_learn_what_an_episode_earns(kind):
    model = with_critic(kind)
    config = RLConfig(**{**CONFIG.__dict__, "critic": kind, "value_clip": None, "lam": 1.0})
    state = TrainState.start(model, OptimizerConfig(1e-2), 60, seed=0)
    algorithm = policy_gradient_algorithm(
        config, lambda state: (PROMPTS, lambda rows, completions: [Judgement(0.5) for _ in rows])
    )
    untrained = one_step(with_critic(kind), config, PROMPTS, lengths, learning_rate=0.0)
    assert critic_values(with_critic(kind), untrained.rollouts, config).eq(0).all()
    losses = [algorithm(state)["value_loss"] for _ in range(60)]
    assert losses[-1] < 1e-2 < losses[0]
    step = one_step(model, config, PROMPTS, lengths, learning_rate=0.0)
    values = critic_values(model, step.rollouts, config)
    kept = step.rollouts.completion_mask
    assert values[kept].mean().item() == pytest.approx(0.5, abs=0.2)
    assert values[~kept].eq(0).all()


def test_the_value_loss_has_its_weight_in_the_gradient():
    def head_gradient(value_coef):
        config = replace(CONFIG, value_coef=value_coef)
        return one_step(with_critic("shared"), config, PROMPTS, lengths).gradients[0]["critic.head.weight"]

    assert head_gradient(0.5).abs().max() > 1e-3
    torch.testing.assert_close(head_gradient(2.0), 4 * head_gradient(0.5))


def test_values_are_of_the_state_before_the_token():
    model = with_critic("shared")
    torch.nn.init.normal_(model.critic.head.weight, generator=torch.Generator().manual_seed(0))
    step = one_step(model, CONFIG, PROMPTS, lengths, learning_rate=0.0)
    values = critic_values(model, step.rollouts, CONFIG)
    prompt, completion = PROMPTS[0], step.rollouts.ids[0, step.rollouts.mask[0]].tolist()
    for t in range(len(completion)):
        context = torch.tensor([prompt + completion[:t]])
        expected = model.critic(model.base_model(context).last_hidden_state[:, -1:]).item()
        assert values[0, t].item() == pytest.approx(expected, abs=1e-4)


def test_a_critic_that_is_missing_doubled_or_unknown_is_refused():
    with pytest.raises(ValueError, match="the model has none"):
        one_step(llama(), CONFIG, PROMPTS, lengths)
    with pytest.raises(ValueError, match="has a critic already"):
        attach_critic(with_critic("shared"), "shared")
    with pytest.raises(ValueError, match="'twin' is not one of"):
        attach_critic(llama(), "twin")


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"advantage": "gae"}, "needs a 'shared' or 'separate' critic"),
        ({"critic": "shared"}, "the others use none"),
        ({"group_size": 1}, "a group needs 2 completions"),
        ({"loss": "cispo", "clip_low": None, "clip_high": None}, "cispo bounds the ratio"),
        ({"kl_estimator": "exact", "kl_in": "reward"}, "exact KL is for the loss"),
        ({"max_turns": 0}, "at least 1"),
        ({"clip_high": None}, "give both, or None for both"),
        ({"dual_clip": 0.5}, "a ratio above 1"),
        ({"kl_in": "reward", "kl_with_ratio": True}, "has no gradient"),
        ({"max_refills": 1, "group_size": 1, "advantage": "gae", "critic": "shared"}, "a group of 1"),
    ],
)
def test_settings_that_contradict_each_other_are_refused(settings, message):
    with pytest.raises(ValueError, match=message):
        RLConfig(**settings)
