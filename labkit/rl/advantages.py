"""Advantages: how much better a completion was than what one could expect."""

from __future__ import annotations

import torch
from torch import Tensor


def group_advantages(
    rewards: Tensor, group_size: int, *, scale_by_std: bool = True, ddof: int = 1, eps: float = 1e-4
) -> Tensor:
    """`A_i = (R_i - mean(R)) / (std(R) + eps)` inside each group of completions of one prompt.

    `rewards` is `[groups * group_size]`, the members of a group side by side (never keyed by prompt
    text: a prompt drawn twice makes two groups). Returns the same shape; sums to 0 in each group. A
    group whose rewards are all equal gets exactly 0.

    `scale_by_std=False` is Dr.GRPO. Libraries differ in the rest: TRL ddof 1, eps 1e-4 (the default
    here); verl ddof 1, 1e-6; OpenRLHF ddof 1, 1e-9.

    Source: DeepSeekMath (arXiv 2402.03300), section 4.1.2; Dr.GRPO (arXiv 2503.20783).
    """
    if group_size < 2:
        raise ValueError(f"group_size is {group_size}; a group needs 2 completions to have a baseline")
    if rewards.dim() != 1 or len(rewards) % group_size:
        raise ValueError(
            f"rewards of shape {tuple(rewards.shape)} do not split into groups of {group_size}; "
            "give one reward a completion, groups side by side"
        )
    groups = rewards.view(-1, group_size)
    centred = groups - groups.mean(-1, keepdim=True)
    if scale_by_std:
        centred = centred / (groups.std(-1, keepdim=True, correction=ddof) + eps)
    # Rounding of the mean would otherwise leave a group of equal rewards with a tiny push.
    equal = (groups == groups[:, :1]).all(-1, keepdim=True)
    return torch.where(equal, torch.zeros_like(centred), centred).view(-1)
