import pytest
import torch

from labkit.lm.masks import completion_loss, completion_mask
from labkit.lm.sft import collate, sft_loss_sum
from tests.tiny import BOS, EOS, PAD, A, B, C, D, llama


def mask_of(sequences, *, pad_id=PAD):
    """Masks of (prompt, rest) pairs, padded on the right."""
    longest = max(len(p) + len(r) for p, r in sequences)
    ids = torch.tensor([[*p, *r] + [pad_id] * (longest - len(p) - len(r)) for p, r in sequences])
    before = ids.clone()
    mask = completion_mask(ids, torch.tensor([len(p) for p, _ in sequences]), EOS, pad_id)
    assert mask.dtype == torch.bool and torch.equal(ids, before)
    return ["".join("x" if keep else "." for keep in row) for row in mask.tolist()]


def test_responses_are_kept_and_their_eos_but_no_prompt_and_no_padding():
    assert mask_of([([BOS, A], [B, C, EOS]), ([BOS], [D, EOS])]) == ["..xxx", ".xx.."]


def test_the_example_of_the_docstring():
    assert mask_of([([A, B], [C, EOS]), ([A, B], [C, C, EOS])])[0] == "..xx."


def test_eos_stays_where_padding_is_the_eos_token():
    assert mask_of([([A], [B, EOS]), ([A], [EOS]), ([A, A], [B, C, D])], pad_id=EOS) == [
        ".xx..",
        ".x...",
        "..xxx",
    ]


def test_an_eos_in_the_prompt_ends_nothing():
    assert mask_of([([BOS, EOS, A], [B, EOS]), ([EOS], [B, C])]) == ["...xx", ".xx.."]


def test_a_response_that_was_cut_off_ends_with_its_last_token():
    assert mask_of([([A], [B, C, D]), ([A], [B])]) == [".xxx", ".x.."]


def test_what_stands_after_the_eos_is_not_kept():
    assert mask_of([([A], [B, EOS, C, EOS, D])]) == [".xx..."]


def test_loss_equals_that_of_the_training_loop_over_its_kept_tokens():
    model = llama()
    batch = collate(
        [([BOS, A, B, C, EOS], [False, False, True, True, True]), ([BOS, D, EOS], [False, True, True])], PAD
    )
    with torch.no_grad():
        logits = model(batch.ids).logits
        mean = sft_loss_sum(model, batch) / batch.completion_mask[:, 1:].sum()
        assert completion_loss(logits, batch.ids, batch.completion_mask).item() == pytest.approx(
            mean.item(), rel=1e-6
        )


def test_loss_equals_a_loop_and_masked_positions_get_exactly_no_gradient():
    generator = torch.Generator().manual_seed(0)
    logits = torch.randn(2, 5, 6, generator=generator, requires_grad=True)
    ids = torch.randint(6, (2, 5), generator=generator)
    mask = torch.tensor([[1, 0, 1, 1, 0], [0, 0, 0, 1, 1]], dtype=torch.bool)
    loss = completion_loss(logits, ids, mask)
    kept = [(r, t) for r in range(2) for t in range(1, 5) if mask[r, t]]
    each = [-torch.log(logits[r, t - 1].exp()[ids[r, t]] / logits[r, t - 1].exp().sum()) for r, t in kept]
    assert loss.item() == pytest.approx(sum(each).item() / len(each), rel=1e-6)
    loss.backward()
    touched = {(r, t) for r in range(2) for t in range(5) if bool((logits.grad[r, t] != 0).any())}
    assert touched == {(r, t - 1) for r, t in kept}
