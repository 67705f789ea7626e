"""A GRPO loss with three silent bugs; the oracle is a loop over single tokens."""

from __future__ import annotations

import itertools
import math
import statistics
from collections.abc import Callable
from functools import lru_cache

import torch
from torch import Tensor

from labkit.rl.advantages import group_advantages
from labkit.rl.losses import clipped_policy_loss, token_ratio, token_weights
from labkit.workshop.checking import call, close, first_match, to_number
from labkit.workshop.exercises import OTHER, Exercise, Mistake
from labkit.workshop.exercises_02.gradients import agree, gradient_of

GROUP_SIZE, LOW, HIGH = 4, 0.2, 0.28


def grpo_loss(
    logprobs: Tensor,
    old_logprobs: Tensor,
    rewards: Tensor,
    mask: Tensor,
    group_size: int,
    clip_low: float = 0.2,
    clip_high: float = 0.2,
) -> Tensor:
    """GRPO's loss without a KL penalty, a scalar, put together from its parts.

    `logprobs`, `old_logprobs` and `mask` are `[rows, time]`, `rewards` is `[rows]`, groups side by side.

    Source: DeepSeekMath (arXiv 2402.03300), eq. 3, with beta 0.
    """
    advantages = group_advantages(rewards, group_size).unsqueeze(-1)
    ratio = token_ratio(logprobs, old_logprobs)
    loss = clipped_policy_loss(ratio, advantages, clip_low, clip_high)
    return (loss * token_weights(mask, "sequence_mean_token_mean")).sum()


@lru_cache(maxsize=1)
def batch() -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Log-probs new and old, rewards and mask of two groups; ratios from 0.5 to 2, rows of 1 to 5 tokens."""
    generator = torch.Generator().manual_seed(2)
    old = -2 * torch.rand(8, 5, generator=generator, dtype=torch.float64) - 0.1
    new = old + (torch.rand(8, 5, generator=generator, dtype=torch.float64) * 2 - 1) * math.log(2)
    rewards = torch.tensor([1.0, 0.0, 0.0, 0.0, 5.0, 7.0, 6.0, 8.5], dtype=torch.float64)
    lengths = torch.tensor([2, 5, 1, 4, 5, 3, 2, 4])
    return new, old, rewards, torch.arange(5) < lengths[:, None]


OPTIONS = {
    "statistics": ("group", "batch_statistics"),
    "std": ("unbiased", "biased_std"),
    "ratio": ("new_over_old", "ratio_inverted"),
    "clip": ("ratio", "clip_on_product", "no_clip", "no_minimum", "max_for_min"),
    "mean": ("rows", "padding_counted", "token_mean"),
}
"""Parts of the loss, the right one first, and the mistakes one can make in each."""


def loss_by_loop(new: Tensor, **chosen: str) -> float:
    """The loss one token at a time in Python floats; `chosen` names mistakes out of OPTIONS."""
    part = {name: chosen.get(name, values[0]) for name, values in OPTIONS.items()}
    _, old, rewards, mask = batch()
    rewards = rewards.tolist()
    deviation = statistics.stdev if part["std"] == "unbiased" else statistics.pstdev
    rows, sums, counts = len(rewards), [], []
    for i in range(rows):
        start = i - i % GROUP_SIZE
        among = rewards[start : start + GROUP_SIZE] if part["statistics"] == "group" else rewards
        advantage = (rewards[i] - statistics.mean(among)) / (deviation(among) + 1e-4)
        kept = [t for t in range(5) if mask[i, t]]
        sums.append(math.fsum(_token_loss(new, old, i, t, advantage, part) for t in kept))
        counts.append(len(kept))
    return {
        "rows": math.fsum(s / n for s, n in zip(sums, counts, strict=True)) / rows,
        "padding_counted": math.fsum(sums) / (rows * 5),
        "token_mean": math.fsum(sums) / sum(counts),
    }[part["mean"]]


def _token_loss(new: Tensor, old: Tensor, i: int, t: int, advantage: float, part: dict[str, str]) -> float:
    log_ratio = float(new[i, t] - old[i, t])
    ratio = math.exp(-log_ratio if part["ratio"] == "ratio_inverted" else log_ratio)

    def clip(x: float) -> float:
        return min(max(x, 1 - LOW), 1 + HIGH)

    plain, clipped = ratio * advantage, clip(ratio) * advantage
    return -{
        "ratio": min(plain, clipped),
        "clip_on_product": min(plain, clip(plain)),
        "no_clip": plain,
        "no_minimum": clipped,
        "max_for_min": max(plain, clipped),
    }[part["clip"]]


@lru_cache(maxsize=1)
def loss_mistakes() -> dict[str, list[float]]:
    """`mistake+mistake` -> the loss it gives; those with fewest mistakes first."""
    found = {}
    for values in itertools.product(*OPTIONS.values()):
        wrong = [v for v, options in zip(values, OPTIONS.values(), strict=True) if v != options[0]]
        if wrong:
            found["+".join(wrong)] = [loss_by_loop(batch()[0], **dict(zip(OPTIONS, values, strict=True)))]
    return dict(sorted(found.items(), key=lambda item: item[0].count("+")))


MESSAGES = {
    "batch_statistics": (
        "Mean and standard deviation are those of the whole batch. The second prompt pays more whatever one "
        "answers, so all its completions would be pushed up. What is a completion compared with?"
    ),
    "biased_std": "The standard deviation divides by G; the stub's divided by G - 1, and so does TRL's.",
    "ratio_inverted": "The ratio is old over new: its gradient points the wrong way.",
    "clip_on_product": (
        "The clip acts on r·A. Its bounds lie around 1, where the *ratio* is while the policy has not moved."
    ),
    "no_clip": "Nothing is clipped any more: several updates on one batch can run away.",
    "no_minimum": (
        "The clipped objective is used always. Without the minimum a policy that has moved the wrong way "
        "gets no gradient to come back."
    ),
    "max_for_min": "You take the larger of the two objectives; PPO is pessimistic and takes the smaller.",
    "padding_counted": (
        "The token losses are masked, but the mean still divides by padding: short completions weigh less "
        "than long ones, by how much depends on the longest of the batch."
    ),
    "token_mean": (
        "That is the mean over all tokens of the batch (DAPO). GRPO first takes the mean within each "
        "completion, then over completions."
    ),
    "sign": "The number is right but for its sign: a loss falls when what paid well gets likelier.",
    "sum_over_rows": "The mean within each completion is right; the mean over completions is missing.",
    "wrong_gradient": "The number is right, its gradient is not. Is a part of the ratio detached?",
}


def examine(answer: Callable[..., Tensor]) -> str:
    """The repaired loss against a loop over single tokens; then its gradient, by finite differences."""
    new, old, rewards, mask = batch()
    result = call(answer, new, old, rewards, mask, GROUP_SIZE, LOW, HIGH)
    got, wanted = to_number(result, "the loss"), loss_by_loop(new)
    if not close(got, wanted):
        if close(got, -wanted):
            raise Mistake("sign", MESSAGES["sign"])
        if close(got, wanted * len(rewards)):
            raise Mistake("sum_over_rows", MESSAGES["sum_over_rows"])
        # A tight tolerance: dozens of combinations must not be taken for one another.
        if match := first_match([got], loss_mistakes(), 1e-6):
            first, *others = match.split("+")
            more = " That is not the only bug." if others else ""
            raise Mistake(first, MESSAGES[first] + more)
        raise Mistake(
            OTHER, f"For a batch of two groups of {GROUP_SIZE} you get {got:.4f}, not {wanted:.4f}."
        )
    slopes = gradient_of(answer, new, lambda leaf: (leaf, old, rewards, mask, GROUP_SIZE, LOW, HIGH))
    if not agree(slopes.flatten().tolist(), finite_differences().flatten().tolist()):
        raise Mistake("wrong_gradient", MESSAGES["wrong_gradient"])
    return "Equal to a loop over single tokens, with the gradient that finite differences give."


@lru_cache(maxsize=1)
def finite_differences(step: float = 1e-5) -> Tensor:
    """Central differences of the loss in each log-probability, `[rows, time]`."""
    new = batch()[0]
    slopes = torch.zeros_like(new)
    for position in itertools.product(*map(range, new.shape)):
        nudge = torch.zeros_like(new)
        nudge[position] = step
        slopes[position] = (loss_by_loop(new + nudge) - loss_by_loop(new - nudge)) / (2 * step)
    return slopes


EXERCISE = Exercise(
    id="02.grpo_bug_hunt",
    title="Bug hunt: three silent bugs in a GRPO loss",
    difficulty=4,
    importance=5,
    minutes=10,
    task="""\
`my_grpo_loss(logprobs, old_logprobs, rewards, mask, group_size, clip_low, clip_high)` below runs without
complaint. It is wrong in three ways. Repair it to GRPO's loss without KL penalty: standardised within the
group of a prompt, clipped, a mean over each completion's tokens and then over completions.

`logprobs`, `old_logprobs` and `mask` are `[rows, time]`, `rewards` is `[rows]`, groups side by side.""",
    stub='''\
def my_grpo_loss(logprobs, old_logprobs, rewards, mask, group_size, clip_low, clip_high):
    """GRPO's loss for a batch: a scalar."""
    advantages = (rewards - rewards.mean()) / (rewards.std() + 1e-4)
    ratio = (logprobs - old_logprobs).exp()
    objective = ratio * advantages.unsqueeze(-1)
    clipped = objective.clamp(1 - clip_low, 1 + clip_high)
    loss = -objective.minimum(clipped) * mask
    return loss.mean(-1).mean()
''',
    hints=(
        "Go through it line by line, and ask of each: over which numbers should this go? One bug is in the "
        "first line, one in the middle, one in the last.",
        "`rewards.view(-1, group_size)` has one group a row. The bounds of the clip lie around 1: which "
        "quantity is 1 while the policy has not moved?",
        "A completion of two tokens in a batch of width five: by what does `mean(-1)` divide, and by what "
        "should it?",
        """\
Fill in the blanks:

```python
def my_grpo_loss(logprobs, old_logprobs, rewards, mask, group_size, clip_low, clip_high):
    groups = rewards.view(-1, group_size)
    advantages = (groups - ____) / (groups.std(-1, keepdim=True) + 1e-4)
    advantages = advantages.view(-1, 1)
    ratio = (logprobs - old_logprobs).exp()
    clipped = ____.clamp(1 - clip_low, 1 + clip_high) * advantages
    loss = -(ratio * advantages).minimum(clipped) * mask
    return (loss.sum(-1) / ____).mean()
```""",
    ),
    solution=grpo_loss,
    examine=examine,
    why=(
        "Why does training not crash with these bugs, and what would have shown them at once?",
        "Nothing here is an error to torch: every shape fits and every number is finite. Two of the bugs "
        "keep the rough direction; the clip on the product even silences the best completions (A > 1.28 at a "
        "clip of 0.28) before anything has moved, so that mostly the bad ones are pushed down. A batch of "
        "two prompts with unequal lengths, worked out in a loop, shows all three before any training.",
    ),
)
