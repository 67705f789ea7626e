"""Advantages: how much better an action, a turn or a whole completion was than what one could expect."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor


class GroupStd(NamedTuple):
    """How a library standardises the rewards of a group."""

    ddof: int
    """The variance divides by `group_size - ddof`."""
    eps: float
    """Added to the standard deviation."""


LIBRARY_GROUP_STD = {"trl": GroupStd(1, 1e-4), "verl": GroupStd(1, 1e-6), "openrlhf": GroupStd(1, 1e-9)}
"""Defaults of libraries; `group_advantages` has TRL's. One success in a group of G gets (G-1)/√G with
ddof 1 and √(G-1) with ddof 0, up to eps."""


def reward_to_go(rewards: Tensor, mask: Tensor, gamma: float = 1.0) -> Tensor:
    """`G_t = r_t + gamma * G_next` at each kept step, 0 elsewhere; `[rows, time]` in and out.

    The next step of a kept one is the next *kept* one: observations and tool results between them are
    not steps of the policy, so they neither earn nor discount.
    """
    _check_steps(rewards, mask)
    returns, following = torch.zeros_like(rewards), rewards.new_zeros(len(rewards))
    for t in reversed(range(rewards.shape[1])):
        kept = mask[:, t].bool()
        following = torch.where(kept, rewards[:, t] + gamma * following, following)
        returns[:, t] = torch.where(kept, following, returns[:, t])
    return returns


def generalized_advantages(
    rewards: Tensor,
    values: Tensor,
    mask: Tensor,
    *,
    gamma: float = 1.0,
    lam: float = 0.95,
    last_values: Tensor | None = None,
) -> tuple[Tensor, Tensor]:
    """GAE: `A_t = delta_t + gamma * lam * A_next`, `delta_t = r_t + gamma * V_next - V_t`.

    `rewards`, `values` and `mask` are `[rows, time]`; time is tokens, or turns. Steps outside the mask
    are stepped over, as in `reward_to_go`. `last_values` `[rows]` is the value of what follows the last
    kept step: 0 (the default) where the episode *terminated*, the critic's estimate where it was only
    *truncated*. Returns advantages and returns (`A + V`, what the critic learns), 0 outside the mask.

    With gamma = lam = 1 and values 0 the advantage is the reward-to-go.

    Source: Schulman et al. 2016 (arXiv 1506.02438), eq. 16.
    """
    _check_steps(rewards, mask)
    if not (0 <= gamma <= 1 and 0 <= lam <= 1):
        raise ValueError(f"gamma is {gamma} and lam is {lam}; both lie between 0 and 1")
    advantages = torch.zeros_like(rewards)
    next_advantage = rewards.new_zeros(len(rewards))
    next_value = next_advantage if last_values is None else last_values
    for t in reversed(range(rewards.shape[1])):
        kept = mask[:, t].bool()
        delta = rewards[:, t] + gamma * next_value - values[:, t]
        advantage = delta + gamma * lam * next_advantage
        advantages[:, t] = torch.where(kept, advantage, advantages[:, t])
        next_advantage = torch.where(kept, advantage, next_advantage)
        next_value = torch.where(kept, values[:, t], next_value)
    return advantages, torch.where(mask.bool(), advantages + values, torch.zeros_like(values))


def spread_over_turns(per_turn: Tensor, turn_of_token: Tensor) -> Tensor:
    """Give every token the number of its turn: `[rows, turns]`, `[rows, time]` -> `[rows, time]`.

    `turn_of_token` counts from 0; tokens with -1 (prompt, observation, padding) get 0.
    """
    spread = per_turn.gather(-1, turn_of_token.clamp(min=0))
    return torch.where(turn_of_token >= 0, spread, torch.zeros_like(spread))


def whiten(values: Tensor, mask: Tensor, *, shift_mean: bool = True, eps: float = 1e-8) -> Tensor:
    """Scale the kept values to standard deviation 1, and shift their mean to 0; 0 outside the mask.

    The mean and the standard deviation (ddof 1) are those of the whole batch. Whiten advantages *after*
    the critic's targets are made of them. Kept values that are all equal, or a single one, keep their
    scale. Shapes `[rows, time]`.
    """
    kept = mask.bool()
    chosen = values[kept]
    # Of equal values only the rounding of their mean is left; scaled up, it would look like a signal.
    if (chosen == chosen[:1]).all():
        return torch.zeros_like(values) if shift_mean else torch.where(kept, values, torch.zeros_like(values))
    shift = chosen.mean() if shift_mean else 0.0
    return torch.where(kept, (values - shift) / (chosen.std() + eps), torch.zeros_like(values))


def group_advantages(
    rewards: Tensor, group_size: int, *, scale_by_std: bool = True, ddof: int = 1, eps: float = 1e-4
) -> Tensor:
    """`A_i = (R_i - mean(R)) / (std(R) + eps)` inside each group of completions of one prompt.

    `rewards` is `[groups * group_size]`, the members of a group side by side (never keyed by prompt
    text: a prompt drawn twice makes two groups). Returns the same shape; sums to 0 in each group. A
    group whose rewards are all equal gets exactly 0.

    `scale_by_std=False` is Dr.GRPO. Libraries differ in `ddof` and `eps`: see `LIBRARY_GROUP_STD`.

    Source: DeepSeekMath (arXiv 2402.03300), section 4.1.2; Dr.GRPO (arXiv 2503.20783).
    """
    groups = _groups(rewards, group_size)
    centred = groups - groups.mean(-1, keepdim=True)
    if scale_by_std:
        centred = centred / (groups.std(-1, keepdim=True, correction=ddof) + eps)
    # Rounding of the mean would otherwise leave a group of equal rewards with a tiny push.
    equal = (groups == groups[:, :1]).all(-1, keepdim=True)
    return torch.where(equal, torch.zeros_like(centred), centred).view(-1)


def rloo_advantages(rewards: Tensor, group_size: int) -> Tensor:
    """REINFORCE leave-one-out: `A_i = R_i - mean of the other rewards of its group`.

    Shapes as in `group_advantages`. Equals `G / (G - 1)` times Dr.GRPO's advantage; unlike it, the
    baseline does not contain the reward it is subtracted from, so the gradient is unbiased.

    Source: Ahmadian et al. 2024 (arXiv 2402.14740), eq. 8.
    """
    return group_advantages(rewards, group_size, scale_by_std=False) * (group_size / (group_size - 1))


def _groups(rewards: Tensor, group_size: int) -> Tensor:
    if group_size < 2:
        raise ValueError(f"group_size is {group_size}; a group needs 2 completions to have a baseline")
    if rewards.dim() != 1 or len(rewards) % group_size:
        raise ValueError(
            f"rewards of shape {tuple(rewards.shape)} do not split into groups of {group_size}; "
            "give one reward a completion, groups side by side"
        )
    return rewards.view(-1, group_size)


def _check_steps(rewards: Tensor, mask: Tensor) -> None:
    if rewards.dim() != 2 or rewards.shape != mask.shape:
        raise ValueError(
            f"rewards {tuple(rewards.shape)} and mask {tuple(mask.shape)} should both be [rows, time]"
        )
