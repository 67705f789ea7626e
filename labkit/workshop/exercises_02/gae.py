"""Generalised advantages; the oracle is the double sum of the paper over the policy's own steps."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from labkit.rl.advantages import generalized_advantages
from labkit.workshop.checking import call, first_match, to_tensor
from labkit.workshop.exercises import OTHER, Exercise, Mistake
from labkit.workshop.exercises_02.gradients import agree

GAMMA, LAM = 0.9, 0.5


@dataclass(frozen=True)
class Episode:
    """One row: what happened at each step, and the value of what follows its end."""

    rewards: tuple[float, ...]
    values: tuple[float, ...]
    mask: tuple[int, ...]
    last_value: float = 0.0


# Values outside the mask are what a critic happens to say of an observation or of padding.
EPISODES = (
    Episode((0.0, 0.5, 1.0, 0.0, 2.0), (0.5, 0.6, 0.8, 0.3, 1.1), (1, 1, 1, 1, 1)),
    Episode((0.0, 0.0, 0.0, 1.0, 0.0), (0.4, 0.7, 0.9, 0.6, 0.2), (1, 1, 1, 1, 0), 0.8),
    Episode((0.2, 0.0, 0.0, 0.0, 1.0), (0.3, 0.6, -2.0, 5.0, 0.7), (1, 1, 0, 0, 1)),
)


def steps_of(episode: Episode) -> list[int]:
    """Positions of the policy's own steps."""
    return [t for t, kept in enumerate(episode.mask) if kept]


def advantages_by_double_sum(episode: Episode) -> list[float]:
    """`A_t = Σ_l (γλ)^l δ_{t+l}` over the kept steps, each sum written out anew."""
    steps = steps_of(episode)
    values = [episode.values[t] for t in steps] + [episode.last_value]
    deltas = [episode.rewards[t] + GAMMA * values[i + 1] - values[i] for i, t in enumerate(steps)]
    advantages = [0.0] * len(episode.mask)
    for i, t in enumerate(steps):
        advantages[t] = sum((GAMMA * LAM) ** ahead * delta for ahead, delta in enumerate(deltas[i:]))
    return advantages


def returns_by_double_sum(episode: Episode) -> list[float]:
    """`A_t + V_t`, what the critic learns, at the kept steps."""
    advantages = advantages_by_double_sum(episode)
    return [(a + v) * m for a, v, m in zip(advantages, episode.values, episode.mask, strict=True)]


def _backwards(
    episode: Episode,
    *,
    trace: float = GAMMA * LAM,
    bootstrap: bool = True,
    skip_masked: bool = True,
    cut_at_masked: bool = False,
    reward_ahead: int = 0,
    values_swapped: bool = False,
    first_lost: bool = False,
) -> list[float]:
    """The usual loop from the end, with the usual mistakes to choose from."""
    time = len(episode.mask)
    advantages, following = [0.0] * time, 0.0
    next_value = episode.last_value if bootstrap else 0.0
    for t in reversed(range(time)):
        if not episode.mask[t] and skip_masked:
            if cut_at_masked:
                following, next_value = 0.0, 0.0
            continue
        reward = episode.rewards[t + reward_ahead] if t + reward_ahead < time else 0.0
        here, there = (next_value, episode.values[t]) if values_swapped else (episode.values[t], next_value)
        delta = reward + GAMMA * there - here
        advantage = delta + trace * following
        advantages[t] = (trace * following if first_lost else advantage) * episode.mask[t]
        following, next_value = advantage, episode.values[t]
    return advantages


def advantage_mistakes() -> dict[str, list[float]]:
    """What typical wrong answers give for EPISODES, one after the other."""
    variants = {
        "bootstrap_lost": {"bootstrap": False},
        "mask_ignored": {"skip_masked": False},
        "cut_at_observation": {"cut_at_masked": True},
        "lambda_forgotten": {"trace": GAMMA},
        "gamma_forgotten": {"trace": LAM},
        "one_step_only": {"trace": 0.0},
        "off_by_one (reward)": {"reward_ahead": 1},
        "off_by_one (sum)": {"first_lost": True},
        "values_swapped": {"values_swapped": True},
    }
    found = {
        name: [a for episode in EPISODES for a in _backwards(episode, **options)]
        for name, options in variants.items()
    }
    right = [a for episode in EPISODES for a in advantages_by_double_sum(episode)]
    kept = [bool(m) for episode in EPISODES for m in episode.mask]
    for name, ddof in (("whitened", 1), ("whitened (biased)", 0)):
        chosen = torch.tensor([a for a, keep in zip(right, kept, strict=True) if keep])
        mean, std = float(chosen.mean()), float(chosen.std(correction=ddof))
        found[name] = [(a - mean) / std if keep else 0.0 for a, keep in zip(right, kept, strict=True)]
    found["sign"] = [-a for a in right]
    return found


MESSAGES = {
    "bootstrap_lost": (
        "`last_values` changes nothing. An episode that was only cut off goes on after its last step, and "
        "what would have followed is worth that much; 0 stands for an end."
    ),
    "mask_ignored": (
        "Your sum runs through observations: steps that the policy did not take. What a critic says there "
        "leaks into the advantages before them."
    ),
    "cut_at_observation": (
        "Your sum stops at an observation, as if the episode ended there. It must step *over* it: the next "
        "step of the policy is the one after."
    ),
    "lambda_forgotten": "The sum is discounted by γ alone; each further δ counts γλ times as much.",
    "gamma_forgotten": "The sum is discounted by λ alone; each further δ counts γλ times as much.",
    "one_step_only": "That is δ alone, which is right for λ = 0. The later δ are missing from the sum.",
    "off_by_one": (
        "Your result is off by one step: the reward for an action, and its own δ, belong to the step at "
        "which it was taken."
    ),
    "values_swapped": "In δ you have V of this step and V of the next exchanged.",
    "whitened": (
        "You return whitened advantages. Whitening comes later: the critic's targets are made of the "
        "advantages as they are."
    ),
    "sign": "The sign is turned round: better than the critic expected means a positive advantage.",
    "not_zeroed": "Outside the mask your result is not 0. Those steps are not the policy's.",
    "monte_carlo_returns": (
        "Your advantages are right. Your returns are the discounted sums of rewards; with λ below 1 the "
        "critic learns advantages plus values."
    ),
    "returns_are_advantages": "You return the advantages twice. The critic learns advantages plus values.",
}


def examine(answer: Callable[..., tuple[Tensor, Tensor]]) -> str:
    """Advantages and returns of three episodes, against sums written out."""
    rewards, values, mask = (
        torch.tensor([getattr(e, name) for e in EPISODES], dtype=torch.float64)
        for name in ("rewards", "values", "mask")
    )
    last = torch.tensor([e.last_value for e in EPISODES], dtype=torch.float64)
    result = call(answer, rewards, values, mask, gamma=GAMMA, lam=LAM, last_values=last)
    if not (isinstance(result, tuple | list) and len(result) == 2):
        raise Mistake("wrong_type", "Your function should return two tensors: advantages and returns.")
    advantages, returns = (
        to_tensor(part, rewards.shape, name).double()
        for part, name in zip(result, ("the tensor of advantages", "the tensor of returns"), strict=True)
    )
    _examine_advantages(advantages, mask)
    _examine_returns(returns, advantages, mask)
    return "Equal to the sum over γλ written out: terminated, cut off, and with an observation in between."


def _examine_advantages(advantages: Tensor, mask: Tensor) -> None:
    got = advantages.flatten().tolist()
    wanted = [a for episode in EPISODES for a in advantages_by_double_sum(episode)]
    if agree(got, wanted):
        return
    if match := first_match(got, advantage_mistakes(), 1e-3):
        name = match.partition(" ")[0]
        raise Mistake(name, MESSAGES[name])
    kept = (advantages * mask).flatten().tolist()
    if agree(kept, wanted):
        raise Mistake("not_zeroed", MESSAGES["not_zeroed"])
    # With observations left as they are, a mistake shows at the kept steps all the same.
    if match := first_match(kept, advantage_mistakes(), 1e-3):
        name = match.partition(" ")[0]
        raise Mistake(name, MESSAGES[name])
    row, t = next((i // 5, i % 5) for i in range(len(got)) if not agree(got[i : i + 1], wanted[i : i + 1]))
    raise Mistake(
        OTHER,
        f"For γ = {GAMMA}, λ = {LAM} and {EPISODES[row]} your advantage at step {t} is "
        f"{got[5 * row + t]:.4f}, not {wanted[5 * row + t]:.4f}.",
    )


def _examine_returns(returns: Tensor, advantages: Tensor, mask: Tensor) -> None:
    got = returns.flatten().tolist()
    if agree(got, [r for episode in EPISODES for r in returns_by_double_sum(episode)]):
        return
    if agree((returns * mask).flatten().tolist(), [r for e in EPISODES for r in returns_by_double_sum(e)]):
        raise Mistake("not_zeroed", MESSAGES["not_zeroed"])
    if agree(got, advantages.flatten().tolist()):
        raise Mistake("returns_are_advantages", MESSAGES["returns_are_advantages"])
    if agree((returns * mask).flatten().tolist(), [r for e in EPISODES for r in rewards_to_go(e)]):
        raise Mistake("monte_carlo_returns", MESSAGES["monte_carlo_returns"])
    raise Mistake(
        OTHER, "Your advantages are right, your returns are not: advantages plus values is asked for."
    )


def rewards_to_go(episode: Episode) -> list[float]:
    """Discounted sums of the rewards at the kept steps, with what follows the end."""
    steps, found = steps_of(episode), [0.0] * len(episode.mask)
    for i, t in enumerate(steps):
        found[t] = sum(GAMMA**ahead * episode.rewards[s] for ahead, s in enumerate(steps[i:]))
        found[t] += GAMMA ** (len(steps) - i) * episode.last_value
    return found


EXERCISE = Exercise(
    id="02.gae",
    title="GAE, with an observation in the way",
    difficulty=4,
    importance=5,
    minutes=10,
    task=r"""
$$\delta_t = r_t + \gamma V_{t+1} - V_t \qquad A_t = \delta_t + \gamma\lambda A_{t+1}$$

Write `my_gae(rewards, values, mask, gamma, lam, last_values)`. The first three are `[rows, time]`. `mask` is
1 where the policy acted; elsewhere an observation or padding stands, which is stepped *over*: the step after
a kept one is the next kept one. `last_values` `[rows]` is the value of what follows the last kept step: 0 if
the episode ended, the critic's estimate if it was only cut off.

Return two tensors `[rows, time]`: advantages and returns (advantages plus values), 0 outside the mask.
""".strip(),
    stub='''\
import torch


def my_gae(rewards, values, mask, gamma, lam, last_values):
    """Advantages and returns, each [rows, time], 0 outside the mask."""
    raise NotImplementedError
''',
    hints=(
        "Go backwards. Carry two numbers a row: the value and the advantage of the next step of the policy. "
        "What are they when you stand at the last one?",
        "At a kept step compute δ and the advantage, then replace what you carry. At any other step leave "
        "what you carry as it is.",
        "`torch.where(kept, new, old)` does that for all rows at once, with `kept = mask[:, t].bool()`.",
        """\
Fill in the blanks:

```python
import torch

def my_gae(rewards, values, mask, gamma, lam, last_values):
    advantages = torch.zeros_like(rewards)
    next_value, next_advantage = ____, torch.zeros_like(last_values)
    for t in reversed(range(rewards.shape[1])):
        kept = mask[:, t].bool()
        delta = rewards[:, t] + ____ - values[:, t]
        advantage = delta + ____ * next_advantage
        advantages[:, t] = torch.where(kept, advantage, advantages[:, t])
        next_advantage = torch.where(kept, advantage, next_advantage)
        next_value = torch.where(kept, ____, next_value)
    return advantages, (advantages + values) * mask
```""",
    ),
    solution=generalized_advantages,
    examine=examine,
    why=(
        "In language tasks γ = λ = 1 and V = 0 is common. What is the advantage then, and what is given up?",
        "The reward-to-go: with one reward at the end, every token gets it whole. Nothing says which token "
        "earned it, so the estimate is unbiased and noisy. A critic with λ below 1 shares the credit out, at "
        "the price of the critic's own errors, and of a second model.",
    ),
)
