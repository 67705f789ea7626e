"""Leave one out; the oracle leaves each reward out in turn."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from labkit.rl.advantages import rloo_advantages
from labkit.workshop.checking import call, first_match, to_tensor
from labkit.workshop.exercises import OTHER, Exercise, Mistake
from labkit.workshop.exercises_02.gradients import agree

GROUP_SIZE = 4
REWARDS = (1.0, 0.0, 0.0, 0.0, 4.0, 6.0, 1.0, 5.0, 0.5, 2.5, 0.0, 3.0)


def leave_one_out(rewards: Sequence[float], size: int) -> list[float]:
    """Each reward less the mean of the others of its group."""
    found = []
    for i, reward in enumerate(rewards):
        start = i - i % size
        found.append(reward - statistics.mean(rewards[j] for j in range(start, start + size) if j != i))
    return found


def rloo_mistakes() -> dict[str, list[float]]:
    """What typical wrong answers give for REWARDS."""
    groups = [REWARDS[i : i + GROUP_SIZE] for i in range(0, len(REWARDS), GROUP_SIZE)]

    def by_group(formula: Callable[[float, Sequence[float]], float]) -> list[float]:
        return [formula(r, g) for g in groups for r in g]

    columns = len(groups)
    interleaved = [0.0] * len(REWARDS)
    for column in range(columns):
        interleaved[column::columns] = leave_one_out(REWARDS[column::columns], GROUP_SIZE)
    return {
        "own_reward_in_baseline": by_group(lambda r, g: r - statistics.mean(g)),
        "divided_by_all": by_group(lambda r, g: r - (sum(g) - r) / GROUP_SIZE),
        "standardised": by_group(lambda r, g: (r - statistics.mean(g)) / (statistics.stdev(g) + 1e-4)),
        "factor_inverted": by_group(lambda r, g: (r - statistics.mean(g)) * (GROUP_SIZE - 1) / GROUP_SIZE),
        "whole_batch": leave_one_out(REWARDS, len(REWARDS)),
        "interleaved_groups": interleaved,
        "sign": [-a for a in leave_one_out(REWARDS, GROUP_SIZE)],
        "best_of_others": by_group(lambda r, g: r - sorted(g)[-2 if r == max(g) else -1]),
    }


MESSAGES = {
    "own_reward_in_baseline": (
        "Your baseline is the mean of the whole group, so each reward is also subtracted from itself. (That "
        "is Dr.GRPO; it shrinks every advantage.)"
    ),
    "divided_by_all": "The others are one fewer than the group: by how many do you divide their sum?",
    "standardised": "You divide by the standard deviation as well. (That is GRPO.) Here nothing is scaled.",
    "factor_inverted": (
        "The group's own mean is a way to get there, but your factor is upside down: without its own reward "
        "in the baseline, an advantage is larger."
    ),
    "whole_batch": "You compare with all other rewards of the batch; other prompts are not comparable.",
    "interleaved_groups": (
        "You take every third reward as one group. The members of a group stand side by side."
    ),
    "sign": "The sign is turned round: the best completion of a group must get the largest advantage.",
    "best_of_others": "You subtract the best of the others; asked for is their mean.",
}


def examine(answer: Callable[..., Tensor]) -> str:
    """Advantages of three groups, and of groups of other sizes, against leaving each reward out."""
    got = _advantages(answer, REWARDS, GROUP_SIZE)
    wanted = leave_one_out(REWARDS, GROUP_SIZE)
    if not agree(got, wanted):
        if name := first_match(got, rloo_mistakes()):
            raise Mistake(name, MESSAGES[name])
        wrong = next(i for i in range(len(got)) if not agree(got[i : i + 1], wanted[i : i + 1]))
        group = REWARDS[wrong - wrong % GROUP_SIZE :][:GROUP_SIZE]
        raise Mistake(
            OTHER,
            f"In the group of rewards {', '.join(f'{r:g}' for r in group)} the one of {REWARDS[wrong]:g} "
            f"gets {got[wrong]:.3f}, not {wanted[wrong]:.3f}.",
        )
    for size in (2, 3, 6):
        if not agree(_advantages(answer, REWARDS, size), leave_one_out(REWARDS, size)):
            raise Mistake(OTHER, f"Right for groups of {GROUP_SIZE}, wrong for groups of {size}.")
    return "Equal to leaving each reward out in turn, for groups of 2, 3, 4 and 6."


def _advantages(answer: Callable[..., Tensor], rewards: Sequence[float], size: int) -> list[float]:
    result = call(answer, torch.tensor(rewards, dtype=torch.float64), size)
    return to_tensor(result, (len(rewards),), "the tensor of advantages").tolist()


EXERCISE = Exercise(
    id="02.rloo",
    title="Leave one out",
    difficulty=2,
    importance=3,
    minutes=5,
    task="""\
REINFORCE leave-one-out compares a completion with the mean reward of the *other* completions of its prompt.

Write `my_rloo(rewards, group_size)`. `rewards` is `[groups * group_size]`, the members of a group side by
side; return the advantages, the same shape. By hand first: what do 1, 0, 0, 0 give?""",
    stub='''\
def my_rloo(rewards, group_size):
    """Each reward less the mean of the others of its group: [groups * group_size] -> the same shape."""
    raise NotImplementedError
''',
    hints=(
        "The sum of the others is the sum of the group less one's own. How many are the others?",
        "`rewards.view(-1, group_size)` has one group a row; `sum(-1, keepdim=True)` is one number a row.",
        """\
Fill in the blanks:

```python
def my_rloo(rewards, group_size):
    groups = rewards.view(-1, group_size)
    others = groups.sum(-1, keepdim=True) - ____
    return (groups - others / ____).view(-1)
```""",
    ),
    solution=rloo_advantages,
    examine=examine,
    why=(
        "Why may a baseline depend on the other completions of the prompt, but not on the one it is for?",
        "A baseline leaves the mean gradient alone because E[b ∇log π] = b E[∇log π] = 0, and that needs b "
        "to be independent of the sample. The other completions are independent of it, its own reward is "
        "not: with it in the mean, the gradient is too small by (G - 1)/G, the same for all prompts.",
    ),
)
