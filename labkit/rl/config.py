"""Settings of the one policy-gradient loop, and the algorithms of the literature as settings."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

from labkit.rl.kl import Estimator
from labkit.rl.losses import Aggregation


@dataclass(frozen=True)
class RLConfig:
    """A policy-gradient algorithm as data; the defaults are GRPO's.

    Raises ValueError for settings that contradict each other.
    """

    # Rollouts
    prompts_per_step: int = 16
    """Prompts drawn a step."""
    group_size: int = 16
    """Completions of each prompt."""
    max_new_tokens: int = 32
    """Longest completion of a turn in tokens."""
    max_turns: int = 1
    """Judged attempts an episode may have; more than 1 is verify-and-revise."""
    temperature: float = 1.0
    """Sampling temperature; the policy is scored at the same one."""
    max_refills: int = 0
    """DAPO's dynamic sampling: up to so many further batches of prompts are drawn to replace groups whose
    rewards are all equal; 0 keeps such groups."""

    # Advantages
    advantage: Literal["group", "leave_one_out", "gae"] = "group"
    """What a completion is compared with: its group's mean, the mean of the others, or a critic's value."""
    scale_by_std: bool = True
    """Divide group advantages by the group's standard deviation."""
    gamma: float = 1.0
    """Discount a step of GAE."""
    lam: float = 0.95
    """GAE's trade of bias (0) against variance (1)."""
    gae_over: Literal["tokens", "turns"] = "tokens"
    """What a step of GAE is. Over tokens the episode's reward comes with its last token, over turns each
    turn earns its own."""
    whiten: bool = False
    """Scale advantages to mean 0 and standard deviation 1 over all sampled tokens of the step."""

    # Loss
    loss: Literal["clip", "cispo", "policy_gradient"] = "clip"
    """PPO's clipped objective, CISPO's clipped weights, or -A log π."""
    ratio: Literal["token", "sequence"] = "token"
    """Importance ratio of each token, or GSPO's one of the whole completion."""
    clip_low: float | None = 0.2
    """The ratio is clipped at 1 - clip_low from below; None with clip_high None: no clip."""
    clip_high: float | None = 0.2
    """The ratio is clipped at 1 + clip_high from above."""
    dual_clip: float | None = None
    """For A < 0 the loss of a token is at most -dual_clip · A; None: unbounded."""
    aggregation: Aggregation = "sequence_mean_token_mean"
    """How token losses become one number."""

    # Distance from the reference
    kl_coef: float = 0.0
    """Weight of the KL penalty to the reference; 0 needs no reference."""
    kl_estimator: Estimator | Literal["exact"] = "k3"
    """Estimator of the penalty; `exact` sums over the vocabulary, in the loss only."""
    kl_in: Literal["loss", "reward"] = "loss"
    """Whether the penalty is differentiated (loss) or taken off the reward."""
    kl_with_ratio: bool = False
    """Multiply the penalty in the loss by π/π_old, so that k1 and k3 have the gradient of KL(π‖ref)."""

    # Critic
    critic: Literal["shared", "separate"] | None = None
    """Where GAE's values come from: a head on the policy's states, or a model of its own."""
    value_coef: float = 0.5
    """Weight of the value loss."""
    value_clip: float | None = 0.2
    """How far a value may move from its old one before the larger of two errors counts; None: no clip."""

    # Updates
    epochs: int = 1
    """Passes over the rollouts of a step."""
    updates_per_epoch: int = 1
    """Optimiser steps a pass; the rows are split among them at random."""
    micro_batch_size: int = 64
    """Rows a forward and backward pass; changes no result."""

    def __post_init__(self) -> None:
        if (self.advantage == "gae") != (self.critic is not None):
            raise ValueError(
                f"advantage is {self.advantage!r} and critic {self.critic!r}: 'gae' needs a 'shared' or "
                "'separate' critic, and the others use none"
            )
        if self.advantage != "gae" and self.group_size < 2:
            raise ValueError(f"group_size is {self.group_size}; a group needs 2 completions to compare")
        if (self.clip_low is None) != (self.clip_high is None):
            raise ValueError(
                f"clip_low is {self.clip_low} and clip_high {self.clip_high}; give both, or None for both"
            )
        if self.dual_clip is not None and not self.dual_clip > 1:
            raise ValueError(f"dual_clip is {self.dual_clip}; it is a ratio above 1, or None for none")
        if self.loss == "cispo" and self.clip_high is None:
            raise ValueError("cispo bounds the ratio by clip_high, which is None")
        if self.kl_in == "reward" and self.kl_with_ratio:
            raise ValueError("kl_with_ratio is for a penalty in the loss; one in the reward has no gradient")
        if self.max_refills and self.group_size < 2:
            raise ValueError("max_refills replaces groups of equal rewards; a group of 1 always is one")
        if self.kl_estimator == "exact" and (self.kl_in == "reward" or self.kl_with_ratio):
            raise ValueError("the exact KL is for the loss, without ratio; elsewhere use 'k1'")
        if self.max_turns < 1:
            raise ValueError(f"max_turns is {self.max_turns}; an episode has at least 1")

    @property
    def max_length(self) -> int:
        """The most tokens an episode may sample."""
        return self.max_new_tokens * self.max_turns


GRPO = RLConfig()
"""DeepSeekMath (arXiv 2402.03300). Its KL penalty, k3 in the loss, is `kl_coef`: 0.04 there, 0 here."""
DR_GRPO = replace(GRPO, scale_by_std=False, aggregation="sequence_mean_token_sum_norm")
"""Dr.GRPO (arXiv 2503.20783): no division by std, none by length."""
DAPO = replace(GRPO, clip_high=0.28, aggregation="token_mean", max_refills=3)
"""DAPO (arXiv 2503.14476), without its overlong reward, which is a reward: `labkit.rl.rewards`."""
GSPO = replace(GRPO, ratio="sequence", clip_low=3e-4, clip_high=4e-4)
"""GSPO (arXiv 2507.18071). The clip is as narrow as it is since the ratio is a mean over tokens."""
CISPO = replace(GRPO, loss="cispo", clip_high=1.0, aggregation="token_mean")
"""CISPO (MiniMax-M1, arXiv 2506.13585); the paper gives no bound."""
RLOO = replace(GRPO, advantage="leave_one_out", aggregation="sequence_mean_token_sum_norm")
"""RLOO (arXiv 2402.14740), with PPO's clip where rollouts are used more than once."""
PPO = replace(GRPO, advantage="gae", critic="shared", whiten=True, aggregation="token_mean")
"""PPO (arXiv 1707.06347) with a value head on the policy."""
ALGORITHMS = {
    "grpo": GRPO,
    "dr_grpo": DR_GRPO,
    "dapo": DAPO,
    "gspo": GSPO,
    "cispo": CISPO,
    "rloo": RLOO,
    "ppo": PPO,
}
