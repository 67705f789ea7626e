"""The equations of notebook 03, evaluated with loops in numpy, against labkit's functions."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from labkit.lm.scoring import selected_logprobs
from labkit.lm.sft import IGNORE, Batch, sft_loss_sum
from labkit.rl.advantages import group_advantages
from labkit.rl.losses import clipped_policy_loss, token_ratio, token_weights

rng = np.random.default_rng(3)


def log_softmax(row: np.ndarray) -> np.ndarray:
    return row - row.max() - math.log(np.exp(row - row.max()).sum())


class _FixedLogits(torch.nn.Module):
    """A stand-in for a language model that answers with given logits."""

    def __init__(self, logits: np.ndarray) -> None:
        super().__init__()
        self.fixed = torch.tensor(logits)

    def forward(self, **kwargs):
        return type("Output", (), {"logits": self.fixed})


@pytest.mark.parametrize("equation", ["03.1"])
def test_likelihood_of_an_answer(equation: str) -> None:
    time, vocabulary, prompt = 7, 5, 3
    logits = rng.normal(size=(1, time, vocabulary))
    ids = rng.integers(0, vocabulary, size=(1, time))
    by_hand = sum(log_softmax(logits[0, t - 1])[ids[0, t]] for t in range(prompt, time))
    keep = torch.arange(time)[None] >= prompt
    batch = Batch(torch.tensor(ids), torch.ones(1, time, dtype=torch.bool), keep)
    assert -float(sft_loss_sum(_FixedLogits(logits), batch)) == pytest.approx(by_hand, abs=1e-9)
    per_token = selected_logprobs(torch.tensor(logits[:, prompt - 1 : -1]), torch.tensor(ids[:, prompt:]))
    assert float(per_token.sum()) == pytest.approx(by_hand, abs=1e-9)
    assert IGNORE not in range(vocabulary)


@pytest.mark.parametrize("equation", ["03.2"])
def test_advantage_in_a_group(equation: str) -> None:
    rewards = rng.normal(size=12)
    by_hand = []
    for start in range(0, 12, 4):
        group = rewards[start : start + 4]
        mean = sum(group) / 4
        std = math.sqrt(sum((r - mean) ** 2 for r in group) / 3)
        by_hand += [(r - mean) / (std + 1e-4) for r in group]
    ours = group_advantages(torch.tensor(rewards), 4)
    np.testing.assert_allclose(ours.numpy(), by_hand, atol=1e-9)


@pytest.mark.parametrize("equation", ["03.3"])
def test_clipped_objective(equation: str) -> None:
    lengths, epsilon = [3, 5], 0.2
    new, old = rng.normal(size=(2, 5)), rng.normal(size=(2, 5))
    advantages = [1.3, -0.7]
    by_hand = 0.0
    for i, length in enumerate(lengths):
        inner = 0.0
        for t in range(length):
            ratio = math.exp(new[i, t] - old[i, t])
            clipped = min(max(ratio, 1 - epsilon), 1 + epsilon)
            inner += min(ratio * advantages[i], clipped * advantages[i])
        by_hand += inner / length / len(lengths)
    mask = torch.arange(5)[None] < torch.tensor(lengths)[:, None]
    ratio = token_ratio(torch.tensor(new), torch.tensor(old))
    loss = clipped_policy_loss(ratio, torch.tensor(advantages)[:, None], epsilon, epsilon)
    ours = -float((loss * token_weights(mask, "sequence_mean_token_mean")).sum())
    assert ours == pytest.approx(by_hand, abs=1e-6)
