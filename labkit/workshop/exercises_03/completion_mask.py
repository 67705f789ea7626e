"""What is trained on; the batches are built from parts, so that each token is known."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache

import torch
from torch import Tensor

from labkit.lm.masks import completion_mask
from labkit.workshop.checking import call, to_tensor
from labkit.workshop.exercises import OTHER, Exercise, Mistake

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
        _mask_case(
            "plain", [((5, 6), (7, 8, 9), True), ((5, 6, 7, 8), (9,), True), ((6,), (5, 8), True)], 2, 0
        ),
        _mask_case(
            "pad_is_eos", [((5, 6), (7, 8, 9), True), ((5, 6, 7), (8,), True), ((9,), (), True)], 2, 2
        ),
        _mask_case("eos_in_prompt", [((5, 2, 6), (7, 8), True), ((2, 5), (9, 6), True)], 2, 0),
        _mask_case(
            "cut_off", [((5, 6), (7, 8, 9, 7), False), ((5,), (6, 7), False), ((8,), (9,), True)], 2, 0
        ),
    )


def examine(answer: Callable[..., Tensor]) -> str:
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
    return f"Right in {len(mask_cases())} batches, also where padding is the EOS token or a row was cut off."


MASK_MESSAGES = {
    "inverted": (
        "Your mask is True exactly where it should be False. Masks here are named for what they *keep*."
    ),
    "off_by_one": (
        "Your mask begins one token too {side}. Positions count from 0, so in a row whose prompt has 2 "
        "tokens, which position holds the first response token? (The shift between logits and tokens "
        "belongs into the loss, not into the mask.)"
    ),
    "prompt_kept": "You keep prompt tokens. The model would be trained to write the cards it is dealt.",
    "padding_kept": "You keep padding: tokens that nobody wrote.",
    "eos_left_out": "You leave the EOS out. A model that is never trained to stop does not stop.",
    "eos_taken_for_padding": (
        "Where padding is the EOS token (many tokenizers do that), you drop the EOS as well. The first one "
        "after the prompt was written by the model; only those after it are padding."
    ),
    "eos_in_prompt": (
        "In a row whose *prompt* holds an EOS (an earlier turn, a chat template) your mask goes wrong. "
        "Which EOS ends the response?"
    ),
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
    if not first and kept[PROMPT] == 0 and kept[RESPONSE] > 0:
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
    if torch.equal(got["plain"], mask_cases()[0].wanted) and wrong[0].name == "eos_in_prompt":
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


EXERCISE = Exercise(
    id="03.completion_mask",
    title="What is trained on",
    difficulty=2,
    importance=5,
    minutes=10,
    task="""\
SFT maximises log p(y | x): the response y is trained on, the prompt x and the padding are not.

Write `my_completion_mask(ids, prompt_lengths, eos_id, pad_id)`. `ids` is a tensor `[batch, time]`, each row
*prompt, response, padding*; `prompt_lengths` is `[batch]`. Return a boolean tensor `[batch, time]` that
is True on the tokens of the response, up to and including the EOS that ends it. With prompt length 2, EOS
2 and padding 0:

| position | 0 | 1 | 2 | 3 | 4 | 5 |
|---|---|---|---|---|---|---|
| `ids` | 5 | 6 | 7 | 8 | 2 | 0 |
| mask | | | True | True | True | |

Three things happen in real batches: padding is the same token as EOS; the prompt holds an EOS itself (an
earlier turn); a response was cut off and has no EOS.""",
    stub='''\
import torch


def my_completion_mask(ids, prompt_lengths, eos_id, pad_id):
    """True on the tokens of each response, its EOS included: [batch, time], bool."""
    raise NotImplementedError
''',
    hints=(
        "Write down, for the row in the table, what makes each False position False. There are two reasons. "
        "Then do it for a row whose padding is the EOS token.",
        "`torch.arange(ids.shape[1])` has the positions. Compared with `prompt_lengths.unsqueeze(-1)` it "
        "gives `[batch, time]` at once, without a loop.",
        "The EOS that ends the response is the first one *in the response*. `cumsum(-1)` along a row counts "
        "how many there have been up to each position; at the first one itself the count is already 1.",
        """\
Fill in the blanks:

```python
def my_completion_mask(ids, prompt_lengths, eos_id, pad_id):
    in_response = torch.arange(ids.shape[1]) >= ____
    ends = in_response & (ids == eos_id)
    ended_before = (ends.cumsum(-1) - ends.long()) ____
    padding = (ids == pad_id) & ~ends
    return in_response & ~ended_before & ~padding
```""",
    ),
    solution=completion_mask,
    examine=examine,
    why=(
        "What would a model do that was trained with the EOS masked out?",
        "It learns every token of the answer but never that the answer is over. At test time it goes on "
        "after the last step until it runs out of room, and the verifier says `no_answer`, although "
        "training loss looked fine. This happens wherever padding is the EOS token and all of it is masked.",
    ),
)
