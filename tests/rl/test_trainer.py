import copy
from dataclasses import replace

import pytest
import torch

from labkit.envs.judging import Judgement
from labkit.lm.training import OptimizerConfig, TrainState, train
from labkit.rl import trainer, updates
from labkit.rl.config import ALGORITHMS, RLConfig
from labkit.rl.critic import attach_critic
from labkit.rl.reference import Reference
from labkit.rl.trainer import policy_gradient_algorithm
from labkit.rl.updates import score_rollouts
from tests.rl.steps import one_step
from tests.tiny import BOS, A, B, C, D, gpt2, llama, one_by_one_logprobs

PROMPTS = [[BOS, A], [BOS, B, C, D], [BOS, C]]
CONFIG = RLConfig(group_size=6, max_new_tokens=4, clip_low=None, clip_high=None)


def starts_with_a(rows, completions):
    return [Judgement(float(c[0] == A)) for c in completions]


def mixed(rows, completions):
    """Rewards that differ in the first and third group; the second group is all wrong."""
    return [Judgement(0.0 if 6 <= r < 12 else len(c) + r % 2) for r, c in zip(rows, completions, strict=True)]


def assert_same_gradient(ours, expected):
    for name, gradient in expected.items():
        torch.testing.assert_close(ours[name], gradient, atol=1e-6, rtol=1e-4, msg=f"gradient of {name}")


def policy_gradient_by_hand(model, rollouts):
    """Gradient of -mean over rows of A · mean over tokens of log π, one row at a time, no row left out."""
    model.zero_grad()
    rewards = rollouts.rewards.view(-1, CONFIG.group_size)
    advantages = (rewards - rewards.mean(1, keepdim=True)) / (rewards.std(1, keepdim=True) + 1e-4)
    for row, advantage in enumerate(advantages.flatten()):
        prompt, completion = PROMPTS[row // CONFIG.group_size], rollouts.ids[row, rollouts.mask[row]].tolist()
        ids = torch.tensor(prompt + completion)
        logprobs = model(ids[None, :-1]).logits[0].log_softmax(-1).gather(-1, ids[1:, None]).squeeze(-1)
        (-advantage * logprobs[-len(completion) :].mean() / len(advantages.flatten())).backward()
    return {name: p.grad.clone() for name, p in model.named_parameters()}


def test_the_first_gradient_is_that_of_reinforce_with_group_advantages():
    # On the policy that sampled, the ratio is 1 and its gradient that of log π. Groups without signal are
    # left out of the backward pass; by hand they are in, and the result is the same.
    step = one_step(llama(), CONFIG, PROMPTS, mixed)
    assert step.metrics["groups_without_signal"] == pytest.approx(1 / 3)
    assert_same_gradient(step.gradients[0], policy_gradient_by_hand(llama(), step.rollouts))


@pytest.mark.parametrize(
    "aggregation", ["token_mean", "sequence_mean_token_mean", "sequence_mean_token_sum_norm"]
)
@pytest.mark.parametrize("kl_coef", [0.0, 0.3])
def test_gradients_do_not_depend_on_the_micro_batches(aggregation, kl_coef):
    # Pitfall 8. At ratios other than 1 the same is seen against TRL, in micro-batches of five.
    config = replace(CONFIG, aggregation=aggregation, kl_coef=kl_coef, clip_low=0.2, clip_high=0.2)
    whole = one_step(llama(), config, PROMPTS, mixed, reference=llama(1))
    for size in (1, 5):
        split = one_step(llama(), replace(config, micro_batch_size=size), PROMPTS, mixed, reference=llama(1))
        assert_same_gradient(split.gradients[0], whole.gradients[0])
        assert split.metrics["loss"] == pytest.approx(whole.metrics["loss"], abs=1e-4)
        assert split.metrics.get("kl", 0.0) == pytest.approx(whole.metrics.get("kl", 0.0), rel=1e-3)


def test_the_pieces_of_an_epoch_cover_each_row_once(monkeypatch):
    pieces = []
    original = updates.Updates._accumulate

    def watch(self, state, rows):
        pieces.append(rows)
        return original(self, state, rows)

    monkeypatch.setattr(updates.Updates, "_accumulate", watch)
    config = replace(CONFIG, epochs=2, updates_per_epoch=3)
    step = one_step(llama(), config, PROMPTS, lambda rows, completions: [Judgement(float(r)) for r in rows])
    assert len(step.gradients) == 6
    assert [len(rows) for rows in pieces] == [6] * 6
    for epoch in (pieces[:3], pieces[3:]):
        assert sorted(torch.cat(epoch).tolist()) == list(range(18))
    assert not torch.equal(torch.cat(pieces[:3]), torch.cat(pieces[3:])), "the split is drawn anew each epoch"


@pytest.mark.parametrize("temperature", [1.0, 0.6])
def test_stored_logprobs_equal_recomputed_ones_before_the_first_update(temperature):
    # Pitfalls 2 and 16: with old = logp.detach() the ratio is 1 whatever is wrong.
    config = replace(CONFIG, temperature=temperature)
    step = one_step(llama(), config, PROMPTS, mixed)
    assert step.metrics["rollout_gap"] < 1e-4
    scores = score_rollouts(llama(), step.rollouts, config)
    torch.testing.assert_close(scores, step.rollouts.logprobs, atol=1e-4, rtol=0)
    assert scores[~step.rollouts.completion_mask].eq(0).all()
    completion = step.rollouts.ids[0, step.rollouts.mask[0]].tolist()
    expected = one_by_one_logprobs(llama(), PROMPTS[0], completion, temperature)
    torch.testing.assert_close(scores[0, : len(completion)], expected, atol=2e-5, rtol=0)


def wrong_temperature(collect, model, prompts, judge, sampling, **more):
    return collect(model, prompts, judge, replace(sampling, temperature=0.6), **more)


def shifted_logprobs(collect, *args, **more):
    rollouts = collect(*args, **more)
    return replace(rollouts, logprobs=rollouts.logprobs.roll(1, -1) * rollouts.completion_mask)


def broken_number(collect, *args, **more):
    rollouts = collect(*args, **more)
    return replace(rollouts, logprobs=rollouts.logprobs * float("nan"))


@pytest.mark.parametrize("fault", [wrong_temperature, shifted_logprobs, broken_number])
def test_rollouts_that_rescoring_does_not_reproduce_stop_the_run(fault, monkeypatch):
    original = trainer.collect
    monkeypatch.setattr(trainer, "collect", lambda *args, **more: fault(original, *args, **more))
    with pytest.raises(RuntimeError, match="the ratio does not start at 1"):
        one_step(llama(), CONFIG, PROMPTS, mixed)


def test_the_comparison_waits_for_rows_that_are_scored(monkeypatch):
    # The first piece may hold no row with a signal: then nothing was compared yet, and nothing was updated.
    original = trainer.collect
    monkeypatch.setattr(trainer, "collect", lambda *args, **more: wrong_temperature(original, *args, **more))
    monkeypatch.setattr(torch, "randperm", lambda n, **more: torch.arange(n))

    def last_group_differs(rows, completions):
        return [Judgement(float(r >= 12 and r % 2)) for r in rows]

    with pytest.raises(RuntimeError, match="the ratio does not start at 1"):
        one_step(llama(), replace(CONFIG, updates_per_epoch=3), PROMPTS, last_group_differs)


def test_dropout_in_the_updates_is_noticed():
    with pytest.raises(RuntimeError, match="Look for dropout"):
        one_step(gpt2(dropout=0.5), CONFIG, PROMPTS, mixed)


def test_kl_is_exactly_zero_before_the_first_update_and_positive_after():
    # Pitfall 7: the reference is what training starts from.
    config = replace(CONFIG, kl_coef=0.1)
    assert one_step(llama(), config, PROMPTS, mixed, reference=llama()).metrics["kl"] == 0.0
    twice = one_step(llama(), replace(config, epochs=2), PROMPTS, mixed, reference=llama())
    assert twice.metrics["kl"] > 0.0


def test_a_kl_penalty_pulls_groups_without_signal_too():
    # Pitfall 14, the documented choice: without a penalty they are left out, with one they are not.
    def equal(rows, completions):
        return [Judgement(1.0) for _ in rows]

    free = one_step(llama(), CONFIG, PROMPTS, equal)
    assert all(g is None or g.eq(0).all() for g in free.gradients[0].values())
    assert free.metrics["grad_norm"] == 0.0
    pulled = one_step(llama(), replace(CONFIG, kl_coef=0.1), PROMPTS, equal, reference=llama(1))
    assert pulled.metrics["grad_norm"] > 0.0


def test_a_kl_penalty_needs_a_reference_and_leaves_it_alone():
    with pytest.raises(ValueError, match="kl_coef is 0.1 but there is no reference"):
        policy_gradient_algorithm(replace(CONFIG, kl_coef=0.1), lambda state: None)
    reference = llama(1)
    before = copy.deepcopy(reference.state_dict())
    one_step(llama(), replace(CONFIG, kl_coef=0.1), PROMPTS, mixed, reference=reference)
    assert all(torch.equal(p, before[name]) for name, p in reference.state_dict().items())
    assert all(p.grad is None for p in reference.parameters())


@pytest.mark.parametrize(("max_turns", "turns"), [(1, 1.0), (2, 5 / 3)])
def test_metrics_by_hand(max_turns, turns):
    def two_of_three_try_again(rows, completions):
        judged = mixed(rows, completions)
        return [Judgement(j.reward, (D, BOS) if r % 3 else None) for r, j in zip(rows, judged, strict=True)]

    config = replace(CONFIG, max_turns=max_turns, epochs=2)
    step = one_step(llama(), config, PROMPTS, two_of_three_try_again)
    rewards = step.rollouts.rewards
    assert step.metrics["reward"] == pytest.approx(rewards.mean().item())
    assert step.metrics["reward_std_in_group"] == pytest.approx(rewards.view(3, 6).std(1).mean().item())
    assert step.metrics["turns"] == pytest.approx(turns)
    kept = step.rollouts.logprobs[step.rollouts.completion_mask]
    assert step.metrics["surprise"] == pytest.approx(-kept.mean().item())
    # What the policy sampled, without the feedback.
    assert step.metrics["length"] == pytest.approx(len(kept) / 18)
    norms = [sum(g.square().sum().item() for g in gradients.values()) ** 0.5 for gradients in step.gradients]
    assert norms[0] != pytest.approx(norms[1])
    assert step.metrics["grad_norm"] == pytest.approx(sum(norms) / 2, rel=1e-4)


def test_what_the_updates_report_is_their_mean():
    config = replace(CONFIG, kl_coef=0.1, clip_low=0.2, clip_high=0.2)
    once, thrice = (
        one_step(llama(), replace(config, epochs=n), PROMPTS, mixed, reference=llama(1), learning_rate=0.0)
        for n in (1, 3)
    )
    assert abs(once.metrics["loss"]) > 0.01 and once.metrics["kl"] > 0.1
    for name in ("loss", "kl", "grad_norm"):
        assert thrice.metrics[name] == pytest.approx(once.metrics[name], rel=1e-4), name


@pytest.mark.parametrize(("kl_in", "estimator"), [("loss", "k3"), ("reward", "k1")])
def test_the_kl_reported_is_the_mean_over_sampled_tokens(kl_in, estimator):
    # Whatever the weights of the loss, in which a short completion's tokens count for more.
    config = replace(CONFIG, kl_coef=0.1, kl_in=kl_in, kl_estimator=estimator)
    step = one_step(llama(), config, PROMPTS, mixed, reference=llama(1))
    kept = step.rollouts.completion_mask
    assert len(set(kept.sum(-1).tolist())) > 1, "lengths must differ"
    log_ratio = (score_rollouts(llama(1), step.rollouts, config) - step.rollouts.logprobs)[kept].double()
    per_token = {"k1": -log_ratio, "k3": log_ratio.exp() - 1 - log_ratio}[estimator]
    assert step.metrics["kl"] == pytest.approx(per_token.mean().item(), rel=1e-3)


@pytest.mark.parametrize(
    ("changes", "forward", "backward"),
    [
        ({}, 1, 2),
        ({"kl_coef": 0.1}, 2, 2),
        ({"kl_coef": 0.1, "kl_estimator": "exact"}, 3, 2),
        ({"advantage": "gae", "critic": "shared"}, 2, 2),
        ({"advantage": "gae", "critic": "separate"}, 2, 4),
    ],
)
def test_tokens_are_counted_each_time_they_go_through_a_model(changes, forward, backward):
    # In passes over all rows, of two updates: sampling, the reference and the old values go forward only.
    model = llama()
    if "critic" in changes:
        attach_critic(model, changes["critic"])
    config = replace(CONFIG, epochs=2, micro_batch_size=5, **changes)
    step = one_step(
        model, config, PROMPTS, lambda rows, c: [Judgement(float(r)) for r in rows], reference=llama(1)
    )
    tokens = 6 * sum(map(len, PROMPTS)) + int(step.rollouts.mask.sum())
    assert step.state.tokens_sampled == forward * tokens
    assert step.state.tokens_trained == backward * tokens


def test_a_clip_stops_the_policy_from_running_away():
    def last_slope(low, high):
        config = replace(CONFIG, epochs=8, clip_low=low, clip_high=high)
        step = one_step(llama(), config, PROMPTS, mixed, learning_rate=3e-2)
        return step.metrics.get("clipped", 0.0), (step.final_logprobs - step.rollouts.logprobs).abs().max()

    share, drift = last_slope(0.05, 0.05)
    _, free_drift = last_slope(None, None)
    assert share > 0.1
    assert drift < free_drift


BANDITS = {
    **{name: replace(config, prompts_per_step=6) for name, config in ALGORITHMS.items()},
    "temperature": RLConfig(temperature=0.6),
    "kl in the loss": RLConfig(kl_coef=0.01),
    "kl in the reward": RLConfig(kl_coef=0.01, kl_in="reward", kl_estimator="k1"),
    "exact kl": RLConfig(kl_coef=0.01, kl_estimator="exact"),
    "no clip": RLConfig(loss="policy_gradient"),
    "separate critic": replace(ALGORITHMS["ppo"], critic="separate"),
    "over turns": replace(ALGORITHMS["ppo"], gae_over="turns", max_turns=2),
}


@pytest.mark.parametrize("name", BANDITS)
def test_every_algorithm_learns_a_bandit(name):
    # Pitfall 24: compared with where it started, which is chance. Reward: the first token is an A.
    config = replace(BANDITS[name], group_size=8, max_new_tokens=2, epochs=2, micro_batch_size=48)
    if config.loss == "policy_gradient":
        config = replace(config, epochs=1)
    model = llama(sharpness=3)
    reference = Reference(model)
    if config.critic:
        attach_critic(model, config.critic)
    state = TrainState.start(model, OptimizerConfig(learning_rate=1e-2), 25, seed=0)
    algorithm = policy_gradient_algorithm(config, lambda state: (PROMPTS * 2, starts_with_a), reference)
    rewards = [row["reward"] for row in train(state, algorithm).history]
    assert rewards[0] < 0.4
    assert sum(rewards[-5:]) / 5 > 0.9, f"rewards went {rewards[0]:.2f} -> {rewards[-1]:.2f}"
