"""How token losses become one number; the oracle counts tokens with loops and fractions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from fractions import Fraction

import torch
from torch import Tensor

from labkit.rl.losses import token_weights
from labkit.workshop.checking import call, first_match, to_tensor
from labkit.workshop.exercises import OTHER, Exercise, Mistake
from labkit.workshop.exercises_02.gradients import agree

MASK = ((1, 1, 0, 0, 0, 0, 0), (1, 1, 1, 1, 1, 1, 0), (0, 1, 1, 1, 0, 0, 0))
MAX_LENGTH = 10
MODES = ("token_mean", "sequence_mean_token_mean", "sequence_mean_token_sum_norm")
MATRIX = Callable[[int, int], Fraction]


def weights_by_counting(mode: str, mask: Sequence[Sequence[int]] = MASK) -> list[float]:
    """Weight of each token, row after row."""
    rows, kept = len(mask), sum(map(sum, mask))
    share = {
        "token_mean": lambda row: Fraction(1, kept),
        "sequence_mean_token_mean": lambda row: Fraction(1, rows * sum(row)) if any(row) else Fraction(0),
        "sequence_mean_token_sum_norm": lambda row: Fraction(1, rows * MAX_LENGTH),
    }[mode]
    return [float(m * share(row)) for row in mask for m in row]


def weight_mistakes(mode: str) -> dict[str, list[float]]:
    """What typical wrong answers give in one mode."""
    rows, time, kept = len(MASK), len(MASK[0]), sum(map(sum, MASK))
    lengths = [sum(row) for row in MASK]

    def each(weight: Callable[[int], float], padding: bool = False) -> list[float]:
        return [(m or padding) * weight(i) for i, row in enumerate(MASK) for m in row]

    found = {f"modes_confused ({other})": weights_by_counting(other) for other in MODES if other != mode}
    found |= {
        "token_mean": {
            "padding_counted": each(lambda i: 1 / (rows * time)),
            "padding_weighted": each(lambda i: 1 / kept, padding=True),
            "not_normalised": each(lambda i: 1.0),
        },
        "sequence_mean_token_mean": {
            "padding_counted": each(lambda i: 1 / (rows * time)),
            "padding_weighted": each(lambda i: 1 / (rows * lengths[i]), padding=True),
            "rows_forgotten": each(lambda i: 1 / lengths[i]),
        },
        "sequence_mean_token_sum_norm": {
            "rows_forgotten": each(lambda i: 1 / MAX_LENGTH),
            "longest_in_batch (width)": each(lambda i: 1 / (rows * time)),
            "longest_in_batch (longest)": each(lambda i: 1 / (rows * max(lengths))),
            "padding_weighted": each(lambda i: 1 / (rows * MAX_LENGTH), padding=True),
            "not_normalised": each(lambda i: 1 / rows),
        },
    }[mode]
    return found


MESSAGES = {
    "modes_confused": "That is another mode's weighting. Who shares equally: tokens, or rows?",
    "padding_counted": (
        "The sum is divided by all positions, padding included. How much a token counts would then depend on "
        "how long the longest row of its batch is."
    ),
    "padding_weighted": "Padding has a weight in your result; what nobody wrote must count 0.",
    "rows_forgotten": (
        "Each row has the right share for its tokens, but the mean over rows is missing: the loss would grow "
        "with the batch."
    ),
    "longest_in_batch": (
        "You divide by the longest row of this batch. That changes from batch to batch; `max_length` is a "
        "constant of the run, and that is the point of it."
    ),
    "not_normalised": "You sum where a mean is asked for: the loss would grow with the number of tokens.",
    "empty_row": (
        "A row that keeps no token (everything it had was masked) gives {bad}. It should weigh 0, and leave "
        "the other rows alone."
    ),
}


def examine(answer: Callable[..., Tensor]) -> str:
    """Weights in each mode, against counting with fractions."""
    for mode in MODES:
        got = _weights(answer, MASK, mode)
        if agree(got, weights_by_counting(mode), 1e-6):
            continue
        if match := first_match(got, weight_mistakes(mode), 1e-6):
            name = match.partition(" ")[0]
            raise Mistake(name, f"In mode `{mode}`: {MESSAGES[name]}")
        wrong = next(
            i
            for i, (g, w) in enumerate(zip(got, weights_by_counting(mode), strict=True))
            if abs(g - w) > 1e-6
        )
        raise Mistake(
            OTHER,
            f"In mode `{mode}` token {wrong % len(MASK[0])} of row {wrong // len(MASK[0])} weighs "
            f"{got[wrong]:.4f}, not {weights_by_counting(mode)[wrong]:.4f}.",
        )
    with_empty = (*MASK[:2], (0,) * len(MASK[0]))
    for mode in MODES:
        got = _weights(answer, with_empty, mode)
        wanted = weights_by_counting(mode, with_empty)
        bad = [g for g, w in zip(got, wanted, strict=True) if not abs(g - w) < 1e-6]
        if bad:
            raise Mistake("empty_row", f"In mode `{mode}`: {MESSAGES['empty_row'].format(bad=bad[-1])}")
    return "Equal to counting by hand in all three modes, also with a row that keeps nothing."


def _weights(answer: Callable[..., Tensor], mask: Sequence[Sequence[int]], mode: str) -> list[float]:
    result = call(answer, torch.tensor(mask, dtype=torch.bool), mode, MAX_LENGTH)
    return to_tensor(result, (len(mask), len(mask[0])), "the tensor of weights").flatten().tolist()


EXERCISE = Exercise(
    id="02.token_weights",
    title="What one token weighs",
    difficulty=2,
    importance=4,
    minutes=6,
    task="""\
The loss of a batch is the sum of its token losses times weights. Write
`my_token_weights(mask, aggregation, max_length)`: `mask` is boolean `[rows, time]`, True on the tokens that
count; return the weights, `[rows, time]`, 0 elsewhere, also where a row keeps no token at all. The modes:

| `aggregation` | of | meaning |
|---|---|---|
| `"token_mean"` | DAPO | every kept token of the batch weighs the same |
| `"sequence_mean_token_mean"` | GRPO | every row weighs the same; its tokens share that |
| `"sequence_mean_token_sum_norm"` | Dr.GRPO | every token weighs 1 / (rows × `max_length`) |""",
    stub='''\
def my_token_weights(mask, aggregation, max_length):
    """Weight of each token's loss in the loss of the batch: [rows, time]."""
    raise NotImplementedError
''',
    hints=(
        "Take two rows of 2 and 6 tokens. Write down all eight weights in each mode; in the first two modes "
        "they sum to 1.",
        "`mask.float()` turns True into 1. Divide it by what each mode shares among: `mask.sum()` for all "
        "tokens, `mask.sum(-1, keepdim=True)` for those of a row.",
        "A row without tokens divides 0 by 0. `clamp(min=1)` on the count makes that 0.",
        """\
Fill in the blanks:

```python
def my_token_weights(mask, aggregation, max_length):
    rows = len(mask)
    if aggregation == "token_mean":
        return mask / ____
    if aggregation == "sequence_mean_token_mean":
        return mask / mask.sum(-1, keepdim=True).clamp(min=1) / ____
    return mask / (____ * rows)
```""",
    ),
    solution=token_weights,
    examine=examine,
    why=(
        "Two wrong answers, one of 20 tokens and one of 200, get the same advantage. What does GRPO's mode "
        "teach about length?",
        "Each token of the long one is punished a tenth as hard. Being wrong at length costs less a token "
        "than being wrong briefly; for right answers it is the other way round. Dr.GRPO's authors hold this "
        "responsible for wrong answers that grow longer in training. Their constant divisor takes it away. "
        "The total push of a row then grows with its length.",
    ),
)
