"""A loss to repair; the oracle is a loop over single tokens, and finite differences."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache

import torch
from torch import Tensor

from labkit.lm.masks import completion_loss
from labkit.workshop.checking import call, close, first_match, to_number
from labkit.workshop.exercises import OTHER, Exercise, Mistake


@dataclass(frozen=True)
class LossCase:
    logits: Tensor
    ids: Tensor
    mask: Tensor


@lru_cache(maxsize=1)
def loss_cases() -> tuple[LossCase, ...]:
    """Random logits; rows of unequal length; in the last batch a row without a prompt."""
    generator = torch.Generator().manual_seed(0)

    def case(keep: Sequence[Sequence[int]], vocabulary: int = 7) -> LossCase:
        mask = torch.tensor(keep, dtype=torch.bool)
        logits = 2 * torch.randn(*mask.shape, vocabulary, generator=generator)
        return LossCase(logits, torch.randint(vocabulary, mask.shape, generator=generator), mask)

    return (
        case([[0, 0, 1, 1, 1, 1], [0, 0, 0, 1, 0, 0], [0, 1, 1, 0, 0, 0]]),
        case([[0, 0, 1, 1, 0], [0, 1, 1, 1, 1]]),
        case([[1, 1, 1, 0], [0, 0, 1, 1]]),
    )


def loss_by_loop(case: LossCase, shift: int = 1, mask_offset: int = 0, reduction: str = "kept") -> float:
    """The loss one token at a time in Python floats, or what it becomes with a typical mistake.

    The token at t is scored with the logits at `t - shift`, and counts if the mask is True at
    `t + mask_offset`.
    """
    rows, time = case.mask.shape
    losses: list[list[float]] = [[] for _ in range(rows)]
    for row in range(rows):
        for t in range(time):
            source, place = t - shift, t + mask_offset
            if 0 <= source < time and 0 <= place < time and bool(case.mask[row, place]):
                scores = case.logits[row, source].tolist()
                chosen = scores[int(case.ids[row, t])]
                losses[row].append(math.log(math.fsum(map(math.exp, scores))) - chosen)
    total, kept = math.fsum(map(math.fsum, losses)), sum(map(len, losses))
    return {
        "kept": total / kept,
        "all": total / (rows * (time - abs(shift))),
        "all_and_first": total / (rows * time),
        "rows": math.fsum(math.fsum(row) / max(len(row), 1) for row in losses) / rows,
        "rows_summed": math.fsum(math.fsum(row) / max(len(row), 1) for row in losses),
        "sum": total,
        "first_counted": total / int(case.mask.sum()),
    }[reduction]


LOSS_MESSAGES = {
    "no_shift": (
        "The logits at position t are scored against the token at t. A causal model has already read that "
        "token: which token do its logits at t predict?"
    ),
    "wrong_shift": (
        "Logits and tokens are shifted, but the wrong way: the logits at t are scored against the token at "
        "t - 1."
    ),
    "mask_not_shifted": (
        "Logits and tokens are lined up, the mask is not: it belongs to the *tokens*, and must lose the "
        "same end as they do. As it is, the last prompt token is trained on and the EOS is not."
    ),
    "mean_over_all": (
        "The sum is divided by the number of all tokens. Long prompts and padding then make the loss, and "
        "with it the step, smaller."
    ),
    "mean_of_row_means": "You average within each row first. A token of a short response then counts "
    "more than one of a long response; asked for is the mean over the kept tokens of the batch.",
    "sum": "That is the sum over kept tokens; a mean does not grow with the batch.",
    "first_token_counted": (
        "Nothing stands before the first token of a row that could predict it, so it adds no loss; it must "
        "not be counted in the mean either."
    ),
    "sign": "The number is right but for its sign: a loss falls when the right tokens get likelier.",
}


_REDUCTIONS = {
    "all": "mean_over_all",
    "all_and_first": "mean_over_all",
    "rows": "mean_of_row_means",
    "rows_summed": "mean_of_row_means",
    "sum": "sum",
    "first_counted": "first_token_counted",
}


@lru_cache(maxsize=1)
def loss_mistakes() -> dict[str, list[float]]:
    """`mistake` or `mistake+mistake` -> the losses it gives for the cases."""
    found: dict[str, list[float]] = {}
    for shift, shift_name in ((1, ""), (0, "no_shift"), (-1, "wrong_shift")):
        for offset in (0, -1, 1):
            mask_name = "mask_not_shifted" if offset and shift == 1 else ""
            for reduction in ("kept", *_REDUCTIONS):
                names = [n for n in (shift_name, mask_name, _REDUCTIONS.get(reduction, "")) if n]
                losses = [loss_by_loop(case, shift, offset, reduction) for case in loss_cases()]
                if names:
                    found["+".join(names) + f"#{offset}{reduction}"] = losses
    return found


def examine(answer: Callable[..., Tensor]) -> str:
    """The repaired loss, against a loop over single tokens; then its gradient, by finite differences."""
    got = [to_number(call(answer, c.logits, c.ids, c.mask), "the loss") for c in loss_cases()]
    wanted = [loss_by_loop(case) for case in loss_cases()]
    if not all(close(g, w) for g, w in zip(got, wanted, strict=True)):
        if all(close(g, -w) for g, w in zip(got, wanted, strict=True)):
            raise Mistake("sign", LOSS_MESSAGES["sign"])
        for negative in (1, -1):
            if match := first_match([negative * g for g in got], loss_mistakes()):
                first, *others = match.partition("#")[0].split("+")
                more = " That is not the only bug." if others else ""
                raise Mistake(first, LOSS_MESSAGES[first] + more)
        raise Mistake(
            OTHER,
            f"For a batch of {len(loss_cases()[0].ids)} rows you get {got[0]:.4f} instead of "
            f"{wanted[0]:.4f}.",
        )
    _examine_gradient(answer, loss_cases()[0])
    return "Equal to a loop over single tokens in 3 batches, with the gradient that finite differences give."


def _examine_gradient(answer: Callable[..., Tensor], case: LossCase) -> None:
    logits = case.logits.clone().requires_grad_()
    loss = answer(logits, case.ids, case.mask)
    if not (isinstance(loss, Tensor) and loss.requires_grad):
        raise Mistake(
            "no_gradient",
            "The number is right, but no gradient flows from it to the logits: the model would never learn. "
            "Look for `.item()`, `.detach()`, `float(...)` or `no_grad`.",
        )
    loss.backward()
    step = 1e-2
    for position in ((0, 1, 3), (0, 4, 2), (2, 0, 1), (2, 5, 0)):
        nudge = torch.zeros_like(case.logits)
        nudge[position] = step
        up = loss_by_loop(LossCase(case.logits + nudge, case.ids, case.mask))
        down = loss_by_loop(LossCase(case.logits - nudge, case.ids, case.mask))
        slope = (up - down) / (2 * step)
        if not close(float(logits.grad[position]), slope, 1e-3):
            raise Mistake(
                "wrong_gradient",
                f"The number is right but its gradient is not: at logit {position} it is "
                f"{float(logits.grad[position]):.4f}, and finite differences give {slope:.4f}.",
            )


EXERCISE = Exercise(
    id="03.sft_loss_bug_hunt",
    title="Bug hunt: a loss that goes down and teaches nothing",
    difficulty=3,
    importance=5,
    minutes=12,
    task="""\
The loss `my_sft_loss(logits, ids, completion_mask)` below runs, and it falls nicely. It is wrong in two
ways. Repair it.

`logits` is `[batch, time, V]`, the output of a causal model for `ids` `[batch, time]`; `completion_mask`
(boolean, same shape) is True on the tokens to train on. The loss is the mean of `-log p(y_t | x, y_<t)`
over those tokens, all of the batch together: a scalar that can be differentiated.""",
    stub='''\
def my_sft_loss(logits, ids, completion_mask):
    """Mean of -log p over the kept tokens of the batch."""
    logprobs = logits.log_softmax(-1)
    chosen = logprobs.gather(-1, ids.unsqueeze(-1)).squeeze(-1)
    loss = -(chosen * completion_mask)
    return loss.mean()
''',
    hints=(
        "Take a batch of one row with four tokens and ask of each logit: what has the model read when it "
        "produces it, and which token is it a guess about?",
        "The logits at position t predict the token at t + 1. So the last logits have nothing to predict "
        "and the first token has nobody to predict it: `logits[:, :-1]` belong to `ids[:, 1:]`. Which part "
        "of the mask belongs to those tokens?",
        "`.mean()` divides by every entry, those that the mask set to 0 too. By what number should the sum "
        "be divided?",
        """\
Fill in the blanks:

```python
def my_sft_loss(logits, ids, completion_mask):
    logprobs = logits[:, :-1].log_softmax(-1)
    chosen = logprobs.gather(-1, ____.unsqueeze(-1)).squeeze(-1)
    kept = ____
    return -(chosen * kept).sum() / ____
```""",
    ),
    solution=completion_loss,
    examine=examine,
    why=(
        "Why does the loss without the shift fall so nicely, and what has the model learned by then?",
        "At position t the model has read the token at t, so it is asked to copy what it sees. Copying is "
        "easy: the loss goes towards 0. Asked to continue a prompt, such a model repeats the last token. A "
        "falling loss shows that the task set is being learned, not that it is the task one meant; sample "
        "from the model.",
    ),
)
