"""GSPO's ratio; the oracle is the geometric mean of the token ratios."""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable

import torch
from torch import Tensor

from labkit.rl.losses import sequence_ratio
from labkit.workshop.checking import call, close, first_match, to_tensor
from labkit.workshop.exercises import OTHER, Exercise, Mistake
from labkit.workshop.exercises_02.gradients import agree, gradient_of

RATIOS = ((4.0, 1.0, 3.0, 7.0), (0.5, 1.5, 0.8, 1.2), (2.0, 5.0, 5.0, 5.0))
MASK = ((1, 1, 0, 0), (1, 1, 1, 1), (1, 0, 0, 0))
OLD = ((-1.0, -2.0, -0.5, -0.1), (-0.3, -1.1, -2.0, -0.7), (-1.5, -0.2, -0.4, -3.0))


def _kept() -> list[list[float]]:
    return [[r for r, m in zip(row, keep, strict=True) if m] for row, keep in zip(RATIOS, MASK, strict=True)]


def ratios_by_geometric_mean() -> list[float]:
    """The statistics module's geometric mean of each row's kept ratios."""
    return [statistics.geometric_mean(row) for row in _kept()]


def ratio_mistakes() -> dict[str, list[float]]:
    """What typical wrong answers give."""
    rows = list(zip(RATIOS, MASK, strict=True))
    logs = [math.log(r) for row in _kept() for r in row]
    return {
        "product": [math.prod(row) for row in _kept()],
        "padding_in_the_count": [math.exp(math.fsum(map(math.log, row)) / 4) for row in _kept()],
        "mask_ignored": [statistics.geometric_mean(row) for row, _ in rows],
        "mask_ignored (product)": [math.prod(row) for row, _ in rows],
        "mean_of_ratios": [statistics.fmean(row) for row in _kept()],
        "inverted": [1 / r for r in ratios_by_geometric_mean()],
        "left_in_logs": [math.log(r) for r in ratios_by_geometric_mean()],
        "one_for_the_batch": [math.exp(statistics.fmean(logs))] * 3,
    }


MESSAGES = {
    "product": (
        "You take the exponential of the *sum*: the product of all ratios. Fifty tokens of ratio 1.02 give "
        "2.7; no clip range around 1 holds that."
    ),
    "padding_in_the_count": (
        "Masked tokens are left out of the sum but counted in the number you divide by: padding pulls the "
        "ratio of a short row towards 1."
    ),
    "mask_ignored": "Padding goes into your ratio; only the tokens the mask keeps were sampled.",
    "mean_of_ratios": (
        "That is the mean of the ratios. The ratio of two sequence probabilities is a *product* of token "
        "ratios, so its mean is taken in logarithms."
    ),
    "inverted": "Yours is old over new; the new policy stands above the line.",
    "left_in_logs": "That is the mean log-ratio; the ratio is its exponential.",
    "one_for_the_batch": "All rows get the same number; each completion has a ratio of its own.",
    "empty_row": (
        "A row that keeps no token gives {bad}. Nothing moved in it: it should be 1, and above all not NaN."
    ),
    "wrong_gradient": "The values are right, their gradient is not: look for a `.detach()` on a part of it.",
}


def examine(answer: Callable[..., Tensor]) -> str:
    """Ratios of three completions, against the geometric mean; then their gradient."""
    old = torch.tensor(OLD, dtype=torch.float64)
    new = old + torch.tensor(RATIOS, dtype=torch.float64).log()
    mask = torch.tensor(MASK, dtype=torch.bool)
    got = to_tensor(call(answer, new, old, mask), (3, 1), "the tensor of ratios").flatten().tolist()
    wanted = ratios_by_geometric_mean()
    if not agree(got, wanted):
        if match := first_match(got, ratio_mistakes()):
            name = match.partition(" ")[0]
            raise Mistake(name, MESSAGES[name])
        raise Mistake(
            OTHER,
            f"For token ratios 4 and 1 you get {got[0]:.4f}; their geometric mean is {wanted[0]:.4f}.",
        )
    nothing = to_tensor(
        call(answer, new[:1], old[:1], torch.zeros(1, 4, dtype=torch.bool)), (1, 1), "the tensor of ratios"
    )
    if not close(float(nothing), 1.0):
        raise Mistake("empty_row", MESSAGES["empty_row"].format(bad=f"{float(nothing):.3g}"))
    slope = gradient_of(answer, new, lambda leaf: (leaf, old, mask)).flatten().tolist()
    counts = [sum(keep) for keep in MASK]
    if not agree(slope, [m * wanted[i] / counts[i] for i, row in enumerate(MASK) for m in row]):
        raise Mistake("wrong_gradient", MESSAGES["wrong_gradient"])
    return "The geometric mean of each row's kept ratios, and 1 where the policy has not moved."


EXERCISE = Exercise(
    id="02.sequence_ratio",
    title="One ratio for a whole completion",
    difficulty=2,
    importance=3,
    minutes=5,
    task=r"""
GSPO clips one ratio a completion,

$$s = \left(\frac{\pi_\theta(y \mid x)}{\pi_{old}(y \mid x)}\right)^{1/|y|}$$

Write `my_sequence_ratio(logprobs, old_logprobs, mask)`: all `[rows, time]`, the mask True on the tokens of
the completion. Return `[rows, 1]`, and 1 for a row that keeps no token. Token ratios 4 and 1: what
is s?""".strip(),
    stub='''\
def my_sequence_ratio(logprobs, old_logprobs, mask):
    """Length-normalised ratio of each completion: [rows, 1]."""
    raise NotImplementedError
''',
    hints=(
        "A product of many numbers becomes a sum of their logarithms; a root of it becomes a division.",
        "The length |y| is the number of tokens the mask keeps, `mask.sum(-1, keepdim=True)`, not the width "
        "of the tensor.",
        """\
Fill in the blanks:

```python
def my_sequence_ratio(logprobs, old_logprobs, mask):
    log_ratio = ((logprobs - old_logprobs) * mask).____(-1, keepdim=True)
    length = ____.clamp(min=1)
    return (log_ratio / length).____()
```""",
    ),
    solution=sequence_ratio,
    examine=examine,
    why=(
        "GSPO's clip range is about 3e-4, PPO's 0.2. Are GSPO's steps a thousand times smaller?",
        "No: the numbers measure different things. A mean over hundreds of tokens hardly moves when a few "
        "tokens move a lot in both directions, so a small range already holds many completions back; and "
        "when it acts, all tokens of the completion lose their gradient at once.",
    ),
)
