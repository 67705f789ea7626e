import pytest
import torch

from labkit.lm.sampling import SamplingConfig, sample
from labkit.lm.sft import Batch, collate, epochs_of, sft_algorithm, sft_loss_sum, would_write
from labkit.lm.training import OptimizerConfig, TrainState, train
from tests.tiny import BOS, EOS, PAD, A, B, C, D, E, llama, one_by_one_logprobs

# (prompt, completion); completions of different lengths, so that aggregation and padding matter.
PAIRS = [
    ([BOS, A], [B, C, EOS]),
    ([BOS, C, D], [EOS]),
    ([BOS, E], [A, A, B, B, C, D, EOS]),
    ([BOS, B], [D, EOS]),
]


def sequences(pairs=PAIRS):
    return [(p + c, [False] * len(p) + [True] * len(c)) for p, c in pairs]


def gradients(model, batch, micro_batch_size=64):
    """Gradient of each parameter after one step of SFT, caught before the optimiser uses it."""
    state = TrainState.start(model, OptimizerConfig(), 1, seed=0)
    caught = []

    def update():
        caught.extend(p.grad.clone() for p in model.parameters())
        return 0.0

    state.update = update
    metrics = sft_algorithm(lambda state: batch, micro_batch_size)(state)
    return caught, metrics["loss"]


def test_padding_goes_right_and_the_masks_keep_their_tokens():
    batch = collate(sequences(PAIRS[:2]), PAD)
    assert batch.ids.tolist() == [[BOS, A, B, C, EOS], [BOS, C, D, EOS, PAD]]
    assert batch.attention_mask.tolist() == [[True] * 5, [True] * 4 + [False]]
    assert batch.completion_mask.tolist() == [[False] * 2 + [True] * 3, [False] * 3 + [True, False]]


def test_loss_equals_a_loop_over_single_tokens():
    model = llama()
    by_hand = -sum(one_by_one_logprobs(model, p, c).sum() for p, c in PAIRS)
    batch = collate(sequences(), PAD)
    torch.testing.assert_close(sft_loss_sum(model, batch), by_hand, atol=1e-4, rtol=0)
    kept = sum(len(c) for _, c in PAIRS)
    assert gradients(model, batch)[1] == pytest.approx(by_hand.item() / kept, abs=1e-5)


@pytest.mark.parametrize("pad_id", [PAD, EOS])
def test_eos_keeps_its_label_and_the_model_learns_to_stop(pad_id):
    # Pitfall 3: many models pad with EOS; masking by token rather than by place hides the end from the loss.
    pairs = PAIRS[:3]
    batch = collate(sequences(pairs), pad_id)
    assert batch.completion_mask[batch.ids == EOS].sum() == len(pairs)
    state = TrainState.start(llama(sharpness=3), OptimizerConfig(learning_rate=1e-2), 60, seed=0)
    train(state, sft_algorithm(lambda state: batch))
    samples = sample(state.model, [p for p, _ in pairs], SamplingConfig(20, greedy=True))
    assert samples.completions() == [c for _, c in pairs]
    assert set(samples.stop_reasons) == {"eos"}


def test_the_gradient_does_not_depend_on_the_micro_batches():
    # Pitfall 8: a mean of means gives rows of different lengths different weights.
    batch = collate(sequences(), PAD)
    whole, loss = gradients(llama(), batch)
    for size in (1, 2, 3):
        split, split_loss = gradients(llama(), batch, size)
        assert split_loss == pytest.approx(loss, rel=1e-5)
        for ours, expected in zip(split, whole, strict=True):
            torch.testing.assert_close(ours, expected, atol=1e-6, rtol=1e-4)


def test_masked_tokens_get_exactly_zero_gradient_and_kept_ones_do_not():
    # Pitfall 11.
    model, logits = llama(), []

    def keep(module, args, output):
        output.retain_grad()
        logits.append(output)

    model.lm_head.register_forward_hook(keep)
    batch = collate(sequences(), PAD)
    sft_loss_sum(model, batch).backward()
    moved = logits[0].grad.ne(0).any(-1)
    # The logit that predicts token t stands at t-1; the last position predicts nothing.
    expected = torch.zeros_like(moved)
    expected[:, :-1] = batch.completion_mask[:, 1:]
    assert torch.equal(moved, expected)


def test_what_stands_in_the_padding_does_not_matter():
    batch = collate(sequences(), PAD)
    rubbish = batch.ids.masked_fill(~batch.attention_mask, D)
    whole, _ = gradients(llama(), batch)
    changed, _ = gradients(llama(), Batch(rubbish, batch.attention_mask, batch.completion_mask))
    for ours, expected in zip(changed, whole, strict=True):
        torch.testing.assert_close(ours, expected, atol=1e-6, rtol=1e-4)


def test_tokens_are_counted_without_padding():
    state = TrainState.start(llama(), OptimizerConfig(), 2, seed=0)
    train(state, sft_algorithm(lambda state: collate(sequences(), PAD), micro_batch_size=3))
    assert state.tokens_trained == 2 * sum(len(p) + len(c) for p, c in PAIRS)
    assert state.tokens_sampled == 0


def test_would_write_says_what_greedy_decoding_writes():
    model = llama(sharpness=3)
    prompts = [p for p, _ in PAIRS]
    drawn = sample(model, prompts, SamplingConfig(3, greedy=True))
    written = [ids[mask].tolist() for ids, mask in zip(drawn.ids, drawn.mask, strict=True)]
    other = {token: A if token != A else B for token in range(8)}
    right = list(zip(prompts, written, strict=True))
    first_wrong = [(p, [other[ids[0]], *ids[1:]]) for p, ids in right]
    last_wrong = [(p, [*ids[:-1], other[ids[-1]]]) for p, ids in right]
    batch = collate(sequences(right + first_wrong + last_wrong), PAD)
    for batch_size in (1, 5, 64):
        assert would_write(model, batch, batch_size).tolist() == [True] * 4 + [False] * 8
    nothing = Batch(batch.ids[:0], batch.attention_mask[:0], batch.completion_mask[:0])
    assert would_write(model, nothing).tolist() == []


def test_an_epoch_takes_every_row_once_in_an_order_of_its_own_and_can_be_continued():
    rows = collate([([BOS, A, B, i], [False] * 3 + [True]) for i in range(3, 10)], PAD)
    next_batch, updates = epochs_of(rows, 3, seed=0)
    state = TrainState.start(llama(), OptimizerConfig(), 1, seed=0)

    def last_tokens(step):
        state.step = step
        return next_batch(state).ids[:, -1].tolist()

    assert updates == 3
    first, second = ([last_tokens(s) for s in range(start, start + 3)] for start in (0, 3))
    assert [len(part) for part in first] == [3, 3, 1]
    for epoch in (first, second):
        assert sorted(sum(epoch, [])) == list(range(3, 10))
    assert first != second
    # From the number of the step alone, so that an interrupted run goes on with the same order.
    assert last_tokens(4) == second[1]
    other, _ = epochs_of(rows, 3, seed=1)
    state.step = 0
    assert other(state).ids[:, -1].tolist() != first[0]


@pytest.mark.parametrize(("rows", "batch_size"), [(0, 3), (7, 0)])
def test_an_epoch_of_nothing_is_refused(rows, batch_size):
    batch = Batch(*(torch.ones(rows, 2, dtype=torch.long),) * 3)
    with pytest.raises(ValueError, match=f"{rows} rows in updates of {batch_size}"):
        epochs_of(batch, batch_size, seed=0)
