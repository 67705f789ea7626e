"""The equations of notebook 02, evaluated with loops in numpy, against labkit's functions."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest
import torch

from labkit.lm.scoring import sequence_logprobs
from labkit.rl.advantages import (
    generalized_advantages,
    group_advantages,
    reward_to_go,
    rloo_advantages,
)
from labkit.rl.kl import exact_kl, kl_estimate, subtract_kl, with_ratio
from labkit.rl.losses import (
    cispo_loss,
    clipped_policy_loss,
    policy_gradient_loss,
    sequence_ratio,
    token_ratio,
    token_weights,
    value_loss,
)

rng = np.random.default_rng(2)
ACTIONS = 5


def softmax(logits: np.ndarray) -> np.ndarray:
    weights = np.array([math.exp(x - max(logits)) for x in logits])
    return weights / weights.sum()


def slope(function: Callable[[np.ndarray], float], at: np.ndarray, step: float = 1e-6) -> np.ndarray:
    """Gradient by central differences."""
    nudges = np.eye(len(at)) * step
    return np.array([(function(at + n) - function(at - n)) / (2 * step) for n in nudges])


def autograd(function: Callable[[torch.Tensor], torch.Tensor], at: np.ndarray) -> np.ndarray:
    leaf = torch.tensor(at, requires_grad=True)
    return torch.autograd.grad(function(leaf), leaf)[0].numpy()


def clip(x: float, low: float, high: float) -> float:
    return low if x < low else high if x > high else x


@pytest.fixture
def policy() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Logits, their softmax, and rewards of a few actions."""
    logits = rng.normal(size=ACTIONS)
    return logits, softmax(logits), rng.normal(size=ACTIONS)


@pytest.mark.parametrize(("equation", "baseline"), [("02.1", 0.0), ("02.2", 1.7)])
def test_score_function_gradient(equation: str, baseline: float, policy) -> None:
    logits, drawn, rewards = policy
    by_hand = slope(lambda x: sum(p * r for p, r in zip(softmax(x), rewards, strict=True)), logits)
    weights = torch.tensor(rewards - baseline)

    def expected_loss(leaf: torch.Tensor) -> torch.Tensor:
        return (torch.tensor(drawn) * policy_gradient_loss(leaf.log_softmax(-1), weights)).sum()

    np.testing.assert_allclose(-autograd(expected_loss, logits), by_hand, atol=1e-8)


@pytest.mark.parametrize("equation", ["02.3"])
def test_probability_of_a_sequence(equation: str) -> None:
    probabilities, lengths = rng.uniform(0.1, 1.0, size=(3, 4)), [4, 1, 3]
    by_hand = []
    for row, length in zip(probabilities, lengths, strict=True):
        product = 1.0
        for t in range(length):
            product *= row[t]
        by_hand.append(product)
    mask = torch.arange(4) < torch.tensor(lengths)[:, None]
    ours = sequence_logprobs(torch.tensor(probabilities).log(), mask).exp()
    np.testing.assert_allclose(ours.numpy(), by_hand, atol=1e-12)


@pytest.mark.parametrize("equation", ["02.4"])
def test_ratio_repairs_the_mean_over_old_samples(equation: str, policy) -> None:
    _, old, advantages = policy
    new = softmax(rng.normal(size=ACTIONS))
    by_hand = sum(p * a for p, a in zip(new, advantages, strict=True))
    ratio = token_ratio(torch.tensor(new).log(), torch.tensor(old).log()).numpy()
    assert sum(old[a] * ratio[a] * advantages[a] for a in range(ACTIONS)) == pytest.approx(by_hand, abs=1e-12)
    np.testing.assert_allclose(ratio, [new[a] / old[a] for a in range(ACTIONS)])


@pytest.mark.parametrize("equation", ["02.5"])
def test_gradient_of_the_ratio_where_policies_are_equal(equation: str, policy) -> None:
    logits, drawn, advantages = policy
    for action in range(ACTIONS):
        by_hand = advantages[action] * slope(lambda x, a=action: math.log(softmax(x)[a]), logits)

        def surrogate(leaf: torch.Tensor, a: int = action) -> torch.Tensor:
            return token_ratio(leaf.log_softmax(-1)[a], torch.tensor(drawn[a]).log()) * advantages[a]

        np.testing.assert_allclose(autograd(surrogate, logits), by_hand, atol=1e-8)


@pytest.mark.parametrize(("equation", "dual_clip"), [("02.6", None), ("02.7", 3.0)])
def test_clipped_objective(equation: str, dual_clip: float | None) -> None:
    ratios = np.concatenate([rng.uniform(0.0, 2.0, size=20), rng.uniform(2.0, 6.0, size=10)])
    advantages, low, high = rng.normal(size=30), 0.2, 0.28
    by_hand = []
    for r, a in zip(ratios, advantages, strict=True):
        value = min(r * a, clip(r, 1 - low, 1 + high) * a)
        by_hand.append(max(value, dual_clip * a) if dual_clip and a < 0 else value)
    loss = clipped_policy_loss(torch.tensor(ratios), torch.tensor(advantages), low, high, dual_clip)
    np.testing.assert_allclose(-loss.numpy(), by_hand, atol=1e-12)


@pytest.mark.parametrize("equation", ["02.8"])
def test_reward_to_go(equation: str) -> None:
    rewards, gamma = rng.normal(size=(2, 6)), 0.8
    by_hand = [[sum(gamma ** (s - t) * row[s] for s in range(t, 6)) for t in range(6)] for row in rewards]
    ours = reward_to_go(torch.tensor(rewards), torch.ones(2, 6), gamma)
    np.testing.assert_allclose(ours.numpy(), by_hand, atol=1e-12)


@pytest.mark.parametrize("equation", ["02.9"])
@pytest.mark.parametrize("last", [0.0, 0.9])
def test_generalized_advantages(equation: str, last: float) -> None:
    time, gamma, lam = 6, 0.9, 0.7
    rewards, values = rng.normal(size=time), rng.normal(size=time)
    following = [*values[1:], last]
    delta = [rewards[t] + gamma * following[t] - values[t] for t in range(time)]
    by_hand = [sum((gamma * lam) ** (s - t) * delta[s] for s in range(t, time)) for t in range(time)]
    advantages, returns = generalized_advantages(
        torch.tensor(rewards)[None],
        torch.tensor(values)[None],
        torch.ones(1, time),
        gamma=gamma,
        lam=lam,
        last_values=torch.tensor([last], dtype=torch.float64),
    )
    np.testing.assert_allclose(advantages[0].numpy(), by_hand, atol=1e-12)
    np.testing.assert_allclose(returns[0].numpy(), np.array(by_hand) + values, atol=1e-12)


@pytest.mark.parametrize("equation", ["02.10"])
def test_value_loss(equation: str) -> None:
    values, old, returns, c = rng.normal(size=20), rng.normal(size=20), rng.normal(size=20), 0.3
    by_hand = [
        0.5 * max((v - r) ** 2, (clip(v, o - c, o + c) - r) ** 2)
        for v, o, r in zip(values, old, returns, strict=True)
    ]
    ours = value_loss(*(torch.tensor(x) for x in (values, old, returns)), clip=c)
    np.testing.assert_allclose(ours.numpy(), by_hand, atol=1e-12)


@pytest.mark.parametrize("equation", ["02.11"])
@pytest.mark.parametrize("ddof", [0, 1])
def test_advantage_in_a_group(equation: str, ddof: int) -> None:
    rewards, by_hand = rng.normal(size=12), []
    for start in range(0, 12, 4):
        group = rewards[start : start + 4]
        mean = sum(group) / 4
        std = math.sqrt(sum((r - mean) ** 2 for r in group) / (4 - ddof))
        by_hand += [(r - mean) / (std + 1e-4) for r in group]
    ours = group_advantages(torch.tensor(rewards), 4, ddof=ddof)
    np.testing.assert_allclose(ours.numpy(), by_hand, atol=1e-9)


@pytest.mark.parametrize("equation", ["02.12"])
def test_leave_one_out(equation: str) -> None:
    rewards, size = rng.normal(size=10), 5
    left_out, scaled = [], []
    for i in range(10):
        group = range(i - i % size, i - i % size + size)
        left_out.append(rewards[i] - sum(rewards[j] for j in group if j != i) / (size - 1))
        scaled.append(size / (size - 1) * (rewards[i] - sum(rewards[j] for j in group) / size))
    np.testing.assert_allclose(left_out, scaled, atol=1e-12)
    np.testing.assert_allclose(rloo_advantages(torch.tensor(rewards), size).numpy(), left_out, atol=1e-12)


@pytest.mark.parametrize("equation", ["02.13"])
def test_weight_of_a_token(equation: str) -> None:
    lengths, constant = [2, 6, 3], 9
    mask = torch.arange(6) < torch.tensor(lengths)[:, None]
    for mode, weight in (
        ("sequence_mean_token_mean", lambda n: 1 / (len(lengths) * n)),
        ("token_mean", lambda n: 1 / sum(lengths)),
        ("sequence_mean_token_sum_norm", lambda n: 1 / (len(lengths) * constant)),
    ):
        by_hand = [[weight(n) if t < n else 0.0 for t in range(6)] for n in lengths]
        np.testing.assert_allclose(token_weights(mask, mode, constant).numpy(), by_hand, atol=1e-7)


@pytest.mark.parametrize("equation", ["02.14"])
def test_objective_of_grpo(equation: str) -> None:
    lengths, epsilon, beta = [3, 5, 1, 4], 0.2, 0.04
    new, old, reference = rng.normal(scale=0.5, size=(3, 4, 5))
    rewards = np.array([1.0, 0.0, 0.0, 2.5])
    mean = sum(rewards) / 4
    std = math.sqrt(sum((r - mean) ** 2 for r in rewards) / 3)
    by_hand = 0.0
    for i, length in enumerate(lengths):
        advantage, inner = (rewards[i] - mean) / (std + 1e-4), 0.0
        for t in range(length):
            ratio = math.exp(new[i, t]) / math.exp(old[i, t])
            to_reference = math.exp(reference[i, t]) / math.exp(new[i, t])
            inner += min(ratio * advantage, clip(ratio, 1 - epsilon, 1 + epsilon) * advantage)
            inner -= beta * (to_reference - 1 - math.log(to_reference))
        by_hand += inner / length / 4
    mask = torch.arange(5) < torch.tensor(lengths)[:, None]
    new, old, reference = (torch.tensor(x) for x in (new, old, reference))
    advantages = group_advantages(torch.tensor(rewards), 4)[:, None]
    loss = clipped_policy_loss(token_ratio(new, old), advantages, epsilon, epsilon)
    loss = loss + beta * kl_estimate(new, reference, "k3")
    ours = -float((loss * token_weights(mask, "sequence_mean_token_mean")).sum())
    assert ours == pytest.approx(by_hand, abs=1e-6)


@pytest.fixture
def reference() -> np.ndarray:
    return softmax(rng.normal(size=ACTIONS))


def divergence(p: np.ndarray, q: np.ndarray) -> float:
    return sum(p[x] * math.log(p[x] / q[x]) for x in range(len(p)))


@pytest.mark.parametrize("equation", ["02.15"])
def test_divergence(equation: str, policy, reference) -> None:
    logits, drawn, _ = policy
    ours = exact_kl(torch.tensor(logits), torch.tensor(reference).log())
    assert float(ours) == pytest.approx(divergence(drawn, reference), abs=1e-12)


@pytest.mark.parametrize("equation", ["02.16"])
def test_estimators(equation: str, policy, reference) -> None:
    _, drawn, _ = policy
    for name, formula in (
        ("k1", lambda r: -math.log(r)),
        ("k2", lambda r: math.log(r) ** 2 / 2),
        ("k3", lambda r: r - 1 - math.log(r)),
    ):
        by_hand = [formula(q / p) for p, q in zip(drawn, reference, strict=True)]
        ours = kl_estimate(torch.tensor(drawn).log(), torch.tensor(reference).log(), name)
        np.testing.assert_allclose(ours.numpy(), by_hand, atol=1e-12)


@pytest.mark.parametrize("equation", ["02.17"])
def test_gradient_of_the_estimate_times_the_ratio(equation: str, policy, reference) -> None:
    logits, drawn, _ = policy
    differences = slope(lambda x: divergence(softmax(x), reference), logits)
    whole = divergence(drawn, reference)
    closed_form = [p * (math.log(p / q) - whole) for p, q in zip(drawn, reference, strict=True)]
    np.testing.assert_allclose(closed_form, differences, atol=1e-8)
    old = softmax(rng.normal(size=ACTIONS))

    def expected(leaf: torch.Tensor) -> torch.Tensor:
        logprobs = leaf.log_softmax(-1)
        k3 = kl_estimate(logprobs, torch.tensor(reference).log(), "k3")
        return (torch.tensor(old) * with_ratio(k3, logprobs, torch.tensor(old).log())).sum()

    np.testing.assert_allclose(autograd(expected, logits), closed_form, atol=1e-9)


@pytest.mark.parametrize("equation", ["02.18"])
def test_penalty_in_the_reward(equation: str) -> None:
    rewards, logprobs, reference, beta = *rng.normal(size=(3, 2, 4)), 0.3
    by_hand = [
        [
            rewards[i, t] - beta * math.log(math.exp(logprobs[i, t]) / math.exp(reference[i, t]))
            for t in range(4)
        ]
        for i in range(2)
    ]
    ours = subtract_kl(*(torch.tensor(x) for x in (rewards, logprobs, reference)), kl_coef=beta)
    np.testing.assert_allclose(ours.numpy(), by_hand, atol=1e-12)


@pytest.mark.parametrize("equation", ["02.19"])
def test_ratio_of_a_sequence(equation: str) -> None:
    new, old, lengths = rng.uniform(0.1, 1, size=(3, 5)), rng.uniform(0.1, 1, size=(3, 5)), [5, 1, 3]
    by_hand = []
    for i, length in enumerate(lengths):
        quotient = math.prod(new[i, :length]) / math.prod(old[i, :length])
        by_hand.append([quotient ** (1 / length)])
    mask = torch.arange(5) < torch.tensor(lengths)[:, None]
    ours = sequence_ratio(torch.tensor(new).log(), torch.tensor(old).log(), mask)
    np.testing.assert_allclose(ours.numpy(), by_hand, atol=1e-9)


@pytest.mark.parametrize("equation", ["02.20"])
def test_bounded_weight(equation: str) -> None:
    logprobs, old, advantages, epsilon = *rng.normal(size=(3, 20)), 0.5
    values, slopes = [], []
    for new, before, advantage in zip(logprobs, old, advantages, strict=True):
        weight = min(math.exp(new - before), 1 + epsilon)
        values.append(-weight * advantage * new)
        slopes.append(-weight * advantage)

    def loss(leaf: torch.Tensor) -> torch.Tensor:
        return cispo_loss(leaf, token_ratio(leaf, torch.tensor(old)), torch.tensor(advantages), epsilon)

    np.testing.assert_allclose(loss(torch.tensor(logprobs)).numpy(), values, atol=1e-12)
    np.testing.assert_allclose(autograd(lambda leaf: loss(leaf).sum(), logprobs), slopes, atol=1e-12)
