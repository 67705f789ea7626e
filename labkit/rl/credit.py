"""From rewards to advantages: which of the sampled tokens get how much of the credit."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from labkit.rl.advantages import (
    generalized_advantages,
    group_advantages,
    rloo_advantages,
    spread_over_turns,
    whiten,
)
from labkit.rl.config import RLConfig
from labkit.rl.kl import subtract_kl
from labkit.rl.rollout import Rollouts


@dataclass(frozen=True)
class Credit:
    """What the updates of a step learn from."""

    advantages: Tensor
    """`[rows, time]`, 0 on tokens that were not sampled."""
    returns: Tensor | None = None
    """`[rows, time]` targets of the critic."""
    value_mask: Tensor | None = None
    """True where the critic has a target: every sampled token, or the first of each turn."""


def assign_credit(
    config: RLConfig,
    rollouts: Rollouts,
    *,
    reference_logprobs: Tensor | None = None,
    values: Tensor | None = None,
) -> Credit:
    """Advantages of all sampled tokens, and the critic's targets where there is one.

    With `reference_logprobs` `[rows, time]` the KL penalty is taken off the reward; `values` `[rows, time]`
    are the critic's. An episode that ends at its token or turn limit has terminated: the limit is part of
    the task, the verifier has spoken, and nothing follows that a value could stand for.
    """
    kept = rollouts.completion_mask
    earned = torch.zeros_like(rollouts.logprobs)
    """What tokens earn besides the verifier's reward: the penalty, with its sign."""
    if reference_logprobs is not None:
        earned = kept * subtract_kl(
            earned, rollouts.logprobs, reference_logprobs, config.kl_coef, config.kl_estimator
        )
    if config.advantage == "gae":
        over = _over_turns if config.gae_over == "turns" else _over_tokens
        credit = over(config, rollouts, earned, values)
    else:
        rewards = rollouts.rewards + earned.sum(-1)
        if config.advantage == "group":
            of_row = group_advantages(rewards, config.group_size, scale_by_std=config.scale_by_std)
        else:
            of_row = rloo_advantages(rewards, config.group_size)
        credit = Credit(of_row[:, None] * kept)
    if config.whiten:
        return Credit(whiten(credit.advantages, kept), credit.returns, credit.value_mask)
    return credit


def _over_tokens(config: RLConfig, rollouts: Rollouts, earned: Tensor, values: Tensor) -> Credit:
    kept = rollouts.completion_mask
    last = kept.long().cumsum(-1).argmax(-1, keepdim=True)
    rewards = earned.scatter_add(1, last, rollouts.rewards[:, None])
    advantages, returns = generalized_advantages(rewards, values, kept, gamma=config.gamma, lam=config.lam)
    return Credit(advantages, returns, kept)


def _over_turns(config: RLConfig, rollouts: Rollouts, earned: Tensor, values: Tensor) -> Credit:
    turn = rollouts.turn_of_token
    previous = torch.nn.functional.pad(turn[:, :-1], (1, 0), value=-1)
    first = (turn >= 0) & (turn != previous)

    def per_turn(of_token: Tensor) -> Tensor:
        empty = torch.zeros_like(rollouts.turn_rewards)
        return empty.scatter_add(1, turn.clamp(min=0), of_token * (turn >= 0))

    taken = torch.arange(rollouts.turn_rewards.shape[1], device=turn.device) < rollouts.turns[:, None]
    advantages, returns = generalized_advantages(
        rollouts.turn_rewards + per_turn(earned),
        per_turn(values * first),
        taken,
        gamma=config.gamma,
        lam=config.lam,
    )
    return Credit(spread_over_turns(advantages, turn), spread_over_turns(returns, turn), first)
