"""Standardised rewards; the oracle is the statistics module, and a closed form."""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from labkit.rl.advantages import group_advantages
from labkit.workshop.checking import call, close, first_match, to_tensor
from labkit.workshop.exercises import OTHER, Exercise, Mistake

GROUP_SIZE = 4


REWARDS = (1.0, 0.0, 0.0, 0.0, 10.0, 12.0, 7.0, 11.0, 0.5, 2.5, 0.0, 3.0)


def _standardise(values: Sequence[float], mean: float, std: float, eps: float) -> list[float]:
    return [(value - mean) / (std + eps) for value in values]


def _by_group(rewards: Sequence[float], formula: Callable[[Sequence[float]], Sequence[float]]) -> list[float]:
    groups = [rewards[i : i + GROUP_SIZE] for i in range(0, len(rewards), GROUP_SIZE)]
    return [a for group in groups for a in formula(group)]


def advantages_by_hand(rewards: Sequence[float], eps: float) -> list[float]:
    """`(R - mean) / (std + eps)` in each group, by the statistics module."""
    return _by_group(rewards, lambda g: _standardise(g, statistics.mean(g), statistics.stdev(g), eps))


def advantage_mistakes(rewards: Sequence[float], eps: float) -> dict[str, list[float]]:
    """What typical wrong answers give."""
    mean, std = statistics.mean(rewards), statistics.stdev(rewards)
    columns = len(rewards) // GROUP_SIZE
    interleaved = [0.0] * len(rewards)
    for column in range(columns):
        part = rewards[column::columns]
        interleaved[column::columns] = _standardise(part, statistics.mean(part), statistics.stdev(part), eps)
    return {
        "biased_std": _by_group(
            rewards, lambda g: _standardise(g, statistics.mean(g), statistics.pstdev(g), eps)
        ),
        "batch_statistics": _standardise(rewards, mean, std, eps),
        "batch_statistics (biased)": _standardise(rewards, mean, statistics.pstdev(rewards), eps),
        "batch_std": _by_group(rewards, lambda g: _standardise(g, statistics.mean(g), std, eps)),
        "not_centred": _by_group(rewards, lambda g: _standardise(g, 0.0, statistics.stdev(g), eps)),
        "not_scaled": _by_group(rewards, lambda g: [r - statistics.mean(g) for r in g]),
        "variance": _by_group(
            rewards, lambda g: _standardise(g, statistics.mean(g), statistics.variance(g), eps)
        ),
        "interleaved_groups": interleaved,
        "sign": [-a for a in advantages_by_hand(rewards, eps)],
    }


ADVANTAGE_MESSAGES = {
    "biased_std": (
        "Your standard deviation divides by G; asked for is the one that divides by G - 1 (`ddof` 1, as in "
        "TRL and verl). With one success in a group of 4, the success gets (G - 1)/√G = 1.5."
    ),
    "batch_statistics": (
        "You compare each reward with the whole batch. An easy prompt then gets only positive advantages, a "
        "hard one only negative; what should a completion be compared with?"
    ),
    "batch_std": "The mean is that of the group, the standard deviation that of the batch.",
    "not_centred": (
        "Your advantages of a group do not sum to 0: every completion of a prompt that pays well is pushed "
        "up, the bad ones too."
    ),
    "not_scaled": (
        "Centred but not divided by the standard deviation. (That is Dr.GRPO; here GRPO is asked for.)"
    ),
    "variance": "You divide by the variance; the standard deviation is its root.",
    "interleaved_groups": (
        "You take every third reward as one group. The members of a group stand side by side."
    ),
    "sign": "The sign is turned round: the best completion of a group must get the largest advantage.",
    "ranks": (
        "Your advantages depend on the order of the rewards alone. Some write-ups say *ranked within the "
        "group*; GRPO standardises: how much better matters."
    ),
    "no_eps": (
        "In a group whose rewards are all equal you get {bad}: 0 divided by 0. One such prompt and every "
        "weight of the model is NaN after the next update."
    ),
    "equal_group_pushed": (
        "In a group whose rewards are all equal you get {bad}. No completion was better than another, so "
        "there is nothing to push."
    ),
    "eps_ignored": (
        "`eps` changes nothing in your result where it should: it is added to the standard deviation."
    ),
}


def examine(answer: Callable[..., Tensor]) -> str:
    """Group-standardised rewards, against the statistics module and the closed form for one success."""
    got, wanted = _advantages(answer, REWARDS, 1e-4), advantages_by_hand(REWARDS, 1e-4)
    if not _agree(got, wanted):
        _diagnose_advantages(answer, got, wanted)
    equal = _advantages(answer, [0.1] * 4 + [3.0] * 4 + [0.0, 1.0, 0.0, 1.0], 1e-4)[:8]
    bad = next((a for a in equal if not abs(a) < 1e-2), None)
    if bad is not None:
        name = "equal_group_pushed" if math.isfinite(bad) else "no_eps"
        raise Mistake(name, ADVANTAGE_MESSAGES[name].format(bad=f"{bad:.3g}"))
    if not _agree(_advantages(answer, REWARDS, 0.5), advantages_by_hand(REWARDS, 0.5)):
        raise Mistake("eps_ignored", ADVANTAGE_MESSAGES["eps_ignored"])
    for size in (2, 3, 8, 16):
        rewards = torch.zeros(size)
        rewards[-1] = 1.0
        best = float(to_tensor(call(answer, rewards, size, eps=1e-9), (size,), "the advantages")[-1])
        if not close(best, (size - 1) / math.sqrt(size), 1e-3):
            raise Mistake(OTHER, f"One success in a group of {size} gets {best:.3f}, not (G - 1)/√G.")
    return "Equal to the statistics module's; (G - 1)/√G for one success, and 0 where all rewards are equal."


def _diagnose_advantages(answer: Callable[..., Tensor], got: list[float], wanted: list[float]) -> None:
    if any(math.isnan(a) for a in got):
        raise Mistake(OTHER, "You get NaN for rewards that differ.")
    # Squares keep the order within a group and change the distances.
    squared = _advantages(answer, [r**2 for r in REWARDS], 1e-4)
    if len(set(got)) > 1 and _agree(got, squared):
        raise Mistake("ranks", ADVANTAGE_MESSAGES["ranks"])
    if name := first_match(got, advantage_mistakes(REWARDS, 1e-4), 1e-3):
        name = name.partition(" ")[0]
        raise Mistake(name, ADVANTAGE_MESSAGES[name])
    start = next(
        i
        for i in range(0, len(got), GROUP_SIZE)
        if not _agree(got[i : i + GROUP_SIZE], wanted[i : i + GROUP_SIZE])
    )
    rewards = ", ".join(f"{r:g}" for r in REWARDS[start : start + GROUP_SIZE])
    numbers = ", ".join(f"{a:.3f}" for a in got[start : start + GROUP_SIZE])
    raise Mistake(
        OTHER,
        f"For the group of rewards {rewards} you get {numbers}; the first should be {wanted[start]:.3f}.",
    )


def _advantages(answer: Callable[..., Tensor], rewards: Sequence[float], eps: float) -> list[float]:
    result = call(answer, torch.tensor(rewards), GROUP_SIZE, eps=eps)
    return to_tensor(result, (len(rewards),), "the advantages").tolist()


def _agree(one: Sequence[float], other: Sequence[float]) -> bool:
    return all(close(a, b, 1e-3) for a, b in zip(one, other, strict=True))


EXERCISE = Exercise(
    id="03.group_advantage",
    title="Better than the others of its group",
    difficulty=2,
    importance=5,
    minutes=10,
    task=r"""
GRPO needs no critic: a completion is compared with the other completions of the same prompt,

$$A_i = \frac{R_i - \mathrm{mean}(R)}{\mathrm{std}(R) + \varepsilon}$$

with mean and standard deviation over the group. Write `my_group_advantages(rewards, group_size, eps)`.
`rewards` is `[groups * group_size]`, the members of a group side by side; return a tensor of the same
shape. The standard deviation divides by G - 1 (torch's default). Four rewards to work out by hand first:
1, 0, 0, 0.""".strip(),
    stub='''\
def my_group_advantages(rewards, group_size, eps=1e-4):
    """Rewards standardised within each group: [groups * group_size] -> the same shape."""
    raise NotImplementedError
''',
    hints=(
        "By hand: the mean of 1, 0, 0, 0 is 1/4, the squared distances sum to 3/4, and divided by 3 that is "
        "1/4. So the standard deviation is 1/2.",
        "`rewards.view(-1, group_size)` has one group a row. `mean(-1, keepdim=True)` is then one number a "
        "row that can be subtracted from it.",
        "A group whose rewards are all equal has standard deviation 0. With `eps` in the denominator 0 / 0 "
        "becomes 0.",
        """\
Fill in the blanks:

```python
def my_group_advantages(rewards, group_size, eps=1e-4):
    groups = rewards.view(____)
    centred = groups - ____
    return (centred / (groups.std(-1, keepdim=True) + eps)).view(-1)
```""",
    ),
    solution=group_advantages,
    examine=examine,
    why=(
        "With rewards 0 and 1, what does a group teach in which one of 16 is right? And one in which all 16 "
        "are?",
        "One of 16: the right one gets (G - 1)/√G = 3.75, each wrong one -0.25. A rare success is pushed "
        "hard. All 16 right (or all wrong): every advantage is 0, nothing is learned, though the sampling "
        "was paid for. That is why a model must solve some hands before RL can begin, and why prompts that "
        "are too easy or too hard are waste.",
    ),
)
