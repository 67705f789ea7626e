"""Examinations of notebook 03's exercises about training: masks, the SFT loss, group advantages."""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache

import torch
from torch import Tensor

from labkit.workshop.checking import call, close, first_match, to_number, to_tensor
from labkit.workshop.exercises import OTHER, Mistake

PROMPT, RESPONSE, EOS, PADDING = "a prompt token", "a response token", "the EOS", "padding"


@dataclass(frozen=True)
class MaskCase:
    """A batch built from its parts, so that one knows of every token what it is."""

    name: str
    ids: Tensor
    prompt_lengths: Tensor
    eos_id: int
    pad_id: int
    kinds: tuple[tuple[str, ...], ...]

    @property
    def wanted(self) -> Tensor:
        return torch.tensor([[kind in (RESPONSE, EOS) for kind in row] for row in self.kinds])


def _mask_case(
    name: str, rows: Sequence[tuple[Sequence[int], Sequence[int], bool]], eos_id: int, pad_id: int
) -> MaskCase:
    """Rows of (prompt, response without EOS, whether an EOS follows), padded on the right."""
    full = [([*prompt, *response, *([eos_id] if ends else [])]) for prompt, response, ends in rows]
    longest = max(map(len, full))
    kinds = [
        [PROMPT] * len(prompt) + [RESPONSE] * len(response) + [EOS] * ends + [PADDING] * (longest - len(ids))
        for ids, (prompt, response, ends) in zip(full, rows, strict=True)
    ]
    return MaskCase(
        name,
        torch.tensor([ids + [pad_id] * (longest - len(ids)) for ids in full]),
        torch.tensor([len(prompt) for prompt, _, _ in rows]),
        eos_id,
        pad_id,
        tuple(map(tuple, kinds)),
    )


@lru_cache(maxsize=1)
def mask_cases() -> tuple[MaskCase, ...]:
    """From the plain case to those in which implementations go wrong."""
    return (
        _mask_case("plain", [((5, 6), (7, 8, 9), True), ((5, 6, 7, 8), (9,), True), ((6,), (5, 8), True)], 2, 0),
        _mask_case("pad_is_eos", [((5, 6), (7, 8, 9), True), ((5, 6, 7), (8,), True), ((9,), (), True)], 2, 2),
        _mask_case("eos_in_prompt", [((5, 2, 6), (7, 8), True), ((2, 5), (9, 6), True)], 2, 0),
        _mask_case("cut_off", [((5, 6), (7, 8, 9, 7), False), ((5,), (6, 7), False), ((8,), (9,), True)], 2, 0),
    )


def examine_completion_mask(answer: Callable[..., Tensor]) -> str:
    """Which tokens are trained on, for batches whose tokens are labelled by construction."""
    got = {}
    for case in mask_cases():
        result = call(answer, case.ids, case.prompt_lengths, case.eos_id, case.pad_id)
        mask = to_tensor(result, case.ids.shape, "the mask")
        if bool(((mask != 0) & (mask != 1)).any()):
            raise Mistake(
                "labels_not_mask",
                "Your result holds other values than True and False. Labels (ids, with -100 where nothing is "
                "trained) come later; here the mask alone is asked for.",
            )
        got[case.name] = mask.bool()
    wrong = [case for case in mask_cases() if not torch.equal(got[case.name], case.wanted)]
    if wrong:
        _diagnose_mask(wrong, got)
    return f"Right in {len(mask_cases())} batches, also where padding is the EOS token and where a row was cut off."


MASK_MESSAGES = {
    "inverted": "Your mask is True exactly where it should be False. Masks here are named for what they *keep*.",
    "off_by_one": "Your mask begins one token too {side}. Positions count from 0, so in a row whose prompt has 2 "
    "tokens, which position holds the first response token? (The shift between logits and tokens belongs "
    "into the loss, not into the mask.)",
    "prompt_kept": "You keep prompt tokens. The model would be trained to write the cards it is dealt.",
    "padding_kept": "You keep padding: tokens that nobody wrote.",
    "eos_left_out": "You leave the EOS out. A model that is never trained to stop does not stop.",
    "eos_taken_for_padding": "Where padding is the EOS token (many tokenizers do that), you drop the EOS as well. "
    "The first one after the prompt was written by the model; only those after it are padding.",
    "eos_in_prompt": "In a row whose *prompt* holds an EOS (an earlier turn, a chat template) your mask goes wrong. "
    "Which EOS ends the response?",
    "cut_off": "A response that ran out of room has no EOS. Your mask goes wrong in such a row.",
}


def _diagnose_mask(wrong: Sequence[MaskCase], got: dict[str, Tensor]) -> None:
    every = [(case, got[case.name], case.wanted) for case in mask_cases()]

    def fail(name: str, **details: str) -> None:
        raise Mistake(name, f"{MASK_MESSAGES[name].format(**details)} {_first_wrong(wrong[0], got)}")

    if all(torch.equal(mask, ~wanted) for _, mask, wanted in every):
        fail("inverted")
    if [case.name for case in wrong] == ["eos_in_prompt"]:
        fail("eos_in_prompt")
    if [case.name for case in wrong] == ["cut_off"]:
        fail("cut_off")
    kept = {kind: _share_kept(wrong, got, kind) for kind in (PROMPT, RESPONSE, EOS, PADDING)}
    first, last = _edges(got)
    if not first and kept[PROMPT] == 0:
        fail("off_by_one", side="late")
    if last and kept[PROMPT] < 1:
        fail("off_by_one", side="early")
    if kept[PROMPT] > 0:
        fail("prompt_kept")
    if kept[PADDING] > 0:
        fail("padding_kept")
    if kept[EOS] == 0:
        plain_right = torch.equal(got["plain"], mask_cases()[0].wanted)
        fail("eos_taken_for_padding" if plain_right else "eos_left_out")
    if not torch.equal(got["eos_in_prompt"], mask_cases()[2].wanted):
        fail("eos_in_prompt")
    raise Mistake(OTHER, _first_wrong(wrong[0], got))


def _share_kept(cases: Sequence[MaskCase], got: dict[str, Tensor], kind: str) -> float:
    kept = [
        bool(got[case.name][r, t])
        for case in cases
        for r, row in enumerate(case.kinds)
        for t, label in enumerate(row)
        if label == kind
    ]
    return sum(kept) / len(kept) if kept else 0.0


def _edges(got: dict[str, Tensor]) -> tuple[bool, bool]:
    """Whether the first response token, and the last prompt token, is kept anywhere in the plain batch."""
    case, rows = mask_cases()[0], torch.arange(3)
    mask = got["plain"]
    return (
        bool(mask[rows, case.prompt_lengths].any()),
        bool(mask[rows, case.prompt_lengths - 1].all()),
    )


def _first_wrong(case: MaskCase, got: dict[str, Tensor]) -> str:
    row, column = (got[case.name] != case.wanted).nonzero()[0].tolist()
    verb = "keeps" if got[case.name][row, column] else "drops"
    ids, length = case.ids[row].tolist(), int(case.prompt_lengths[row])
    return (
        f"(Row `{ids}`, prompt length {length}, EOS {case.eos_id}, padding {case.pad_id}: your mask {verb} "
        f"position {column}, which is {case.kinds[row][column]}.)"
    )


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
        "sum": total,
        "first_counted": total / int(case.mask.sum()),
    }[reduction]


LOSS_MESSAGES = {
    "no_shift": "The logits at position t are scored against the token at t. A causal model has already read that "
    "token: which token do its logits at t predict?",
    "wrong_shift": "Logits and tokens are shifted, but the wrong way: the logits at t are scored against the token "
    "at t - 1.",
    "mask_not_shifted": "Logits and tokens are lined up, the mask is not: it belongs to the *tokens*, and must lose "
    "the same end as they do. As it is, the last prompt token is trained on and the EOS is not.",
    "mean_over_all": "The sum is divided by the number of all tokens. Long prompts and padding then make the loss, "
    "and with it the step, smaller.",
    "mean_of_row_means": "You average within each row and then over rows. A token of a short response then counts "
    "more than one of a long response; asked for is the mean over the kept tokens of the batch.",
    "sum": "That is the sum over kept tokens; a mean does not grow with the batch.",
    "first_token_counted": "Nothing stands before the first token of a row that could predict it, so it adds no "
    "loss; it must not be counted in the mean either.",
    "sign": "The number is right but for its sign: a loss falls when the right tokens get likelier.",
}

_REDUCTIONS = {
    "all": "mean_over_all",
    "all_and_first": "mean_over_all",
    "rows": "mean_of_row_means",
    "sum": "sum",
    "first_counted": "first_token_counted",
}


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


def examine_sft_loss(answer: Callable[..., Tensor]) -> str:
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
        raise Mistake(OTHER, f"For a batch of {len(loss_cases()[0].ids)} rows you get {got[0]:.4f} instead of {wanted[0]:.4f}.")
    _examine_gradient(answer, loss_cases()[0])
    return "Equal to a loop over single tokens in 3 batches, with the gradient that finite differences give."


def _examine_gradient(answer: Callable[..., Tensor], case: LossCase) -> None:
    logits = case.logits.clone().requires_grad_()
    loss = answer(logits, case.ids, case.mask)
    if not (isinstance(loss, Tensor) and loss.requires_grad):
        raise Mistake(
            "no_gradient",
            "The number is right, but no gradient flows from it to the logits: the model would never learn. Look "
            "for `.item()`, `.detach()`, `float(...)` or `no_grad`.",
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
        "biased_std": _by_group(rewards, lambda g: _standardise(g, statistics.mean(g), statistics.pstdev(g), eps)),
        "batch_statistics": _standardise(rewards, mean, std, eps),
        "batch_statistics (biased)": _standardise(rewards, mean, statistics.pstdev(rewards), eps),
        "batch_std": _by_group(rewards, lambda g: _standardise(g, statistics.mean(g), std, eps)),
        "not_centred": _by_group(rewards, lambda g: _standardise(g, 0.0, statistics.stdev(g), eps)),
        "not_scaled": _by_group(rewards, lambda g: [r - statistics.mean(g) for r in g]),
        "variance": _by_group(rewards, lambda g: _standardise(g, statistics.mean(g), statistics.variance(g), eps)),
        "interleaved_groups": interleaved,
        "sign": [-a for a in advantages_by_hand(rewards, eps)],
    }


ADVANTAGE_MESSAGES = {
    "biased_std": "Your standard deviation divides by G; asked for is the one that divides by G - 1 (`ddof` 1, as in "
    "TRL and verl). With one success in a group of 4, the success gets (G - 1)/√G = 1.5.",
    "batch_statistics": "You compare each reward with the whole batch. An easy prompt then gets only positive "
    "advantages, a hard one only negative; what should a completion be compared with?",
    "batch_std": "The mean is that of the group, the standard deviation that of the batch.",
    "not_centred": "Your advantages of a group do not sum to 0: every completion of a prompt that pays well is "
    "pushed up, the bad ones too.",
    "not_scaled": "Centred but not divided by the standard deviation. (That is Dr.GRPO; here GRPO is asked for.)",
    "variance": "You divide by the variance; the standard deviation is its root.",
    "interleaved_groups": "You take every third reward as one group. The members of a group stand side by side.",
    "sign": "The sign is turned round: the best completion of a group must get the largest advantage.",
    "ranks": "Your advantages depend on the order of the rewards alone. Some write-ups say *ranked within the "
    "group*; GRPO standardises: how much better matters.",
    "no_eps": "In a group whose rewards are all equal you get {bad}: 0 divided by 0. One such prompt and every "
    "weight of the model is NaN after the next update.",
    "equal_group_pushed": "In a group whose rewards are all equal you get {bad}. No completion was better than "
    "another, so there is nothing to push.",
    "eps_ignored": "`eps` changes nothing in your result where it should: it is added to the standard deviation.",
}


def examine_group_advantage(answer: Callable[..., Tensor]) -> str:
    """Group-standardised rewards, against the statistics module and the closed form for one success."""
    got = _advantages(answer, REWARDS, 1e-4)
    if not _agree(got, advantages_by_hand(REWARDS, 1e-4)):
        squared = _advantages(answer, [r**2 for r in REWARDS], 1e-4)
        # Squares keep the order within a group and change the distances.
        if _agree(got, squared):
            raise Mistake("ranks", ADVANTAGE_MESSAGES["ranks"])
        if any(math.isnan(a) for a in got):
            raise Mistake(OTHER, "You get NaN for rewards that differ.")
        if name := first_match(got, advantage_mistakes(REWARDS, 1e-4), 1e-3):
            name = name.partition(" ")[0]
            raise Mistake(name, ADVANTAGE_MESSAGES[name])
        group = ", ".join(f"{a:.3f}" for a in got[:GROUP_SIZE])
        raise Mistake(OTHER, f"For the rewards 1, 0, 0, 0 of one group you get {group}; the first should be 1.5.")
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
    return "Equal to the statistics module's in each group, (G - 1)/√G for one success, and 0 where all are equal."


def _advantages(answer: Callable[..., Tensor], rewards: Sequence[float], eps: float) -> list[float]:
    result = call(answer, torch.tensor(rewards), GROUP_SIZE, eps=eps)
    return to_tensor(result, (len(rewards),), "the advantages").tolist()


def _agree(one: Sequence[float], other: Sequence[float]) -> bool:
    return all(close(a, b, 1e-3) for a, b in zip(one, other, strict=True))


