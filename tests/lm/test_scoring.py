import itertools

import numpy as np
import pytest
import scipy.stats
import torch

from labkit.lm import scoring
from tests.tiny import (
    BOS,
    EOS,
    PAD,
    WORDS,
    A,
    B,
    C,
    D,
    gpt2,
    llama,
    next_token_probabilities,
    one_by_one_logprobs,
    seeded,
)

PROMPT, COMPLETION = [BOS, A, D, B], [C, C, A, EOS]
MODELS = pytest.mark.parametrize("model", [llama(), gpt2()], ids=["rotary positions", "absolute positions"])


def padded(left, right):
    """Ids, attention mask and completion mask of one row; the completion window reaches to its end."""
    real = PROMPT + COMPLETION
    ids = torch.tensor([[PAD] * left + real + [PAD] * right])
    mask = torch.tensor([[False] * left + [True] * len(real) + [False] * right])
    completion = torch.tensor([[True] * len(COMPLETION) + [False] * right])
    return ids, mask, completion


@MODELS
@pytest.mark.parametrize("temperature", [1.0, 0.6])
def test_logprobs_equal_a_loop_of_one_token_at_a_time(model, temperature):
    # Pitfall 4: the logit that predicts token t stands at position t-1.
    ids, mask, _ = padded(0, 0)
    scored = scoring.token_logprobs(model, ids, mask, len(COMPLETION), temperature)[0]
    torch.testing.assert_close(
        scored, one_by_one_logprobs(model, PROMPT, COMPLETION, temperature), atol=1e-5, rtol=0
    )


@MODELS
@pytest.mark.parametrize(("left", "right"), [(1, 0), (7, 0), (0, 1), (0, 9), (3, 2)])
def test_logprobs_do_not_depend_on_side_or_amount_of_padding(model, left, right):
    # Pitfall 5. Absolute positions are the ones that shift if padding is counted.
    ids, mask, completion = padded(left, right)
    scored = scoring.token_logprobs(model, ids, mask, completion.shape[1])[0, : len(COMPLETION)]
    torch.testing.assert_close(scored, one_by_one_logprobs(model, PROMPT, COMPLETION), atol=1e-5, rtol=0)


@MODELS
def test_a_row_scores_the_same_in_company_of_longer_rows(model):
    ids, mask, _ = padded(5, 0)
    longer = torch.full_like(ids, D)
    longer[0, 0] = BOS
    both = scoring.token_logprobs(
        model, torch.cat([ids, longer]), torch.cat([mask, torch.ones_like(mask)]), len(COMPLETION)
    )
    torch.testing.assert_close(both[0], one_by_one_logprobs(model, PROMPT, COMPLETION), atol=1e-5, rtol=0)


@MODELS
def test_sequence_scores_do_not_depend_on_the_padding_side(model):
    # Pitfall 6: a score read at the wrong end is a score of padding.
    reference, scores = llama(seed=1), []
    for left, right in ((0, 0), (6, 0), (0, 6)):
        ids, mask, completion = padded(left, right)
        logprobs = scoring.token_logprobs(model, ids, mask, completion.shape[1])
        kl = scoring.kl_to_reference(model, reference, ids, mask, completion)
        scores.append(torch.stack([scoring.sequence_logprobs(logprobs, completion), kl]))
    torch.testing.assert_close(scores[1], scores[0], atol=1e-4, rtol=0)
    torch.testing.assert_close(scores[2], scores[0], atol=1e-4, rtol=0)


@MODELS
def test_leaving_the_mask_out_under_right_padding_changes_nothing(model):
    ids, mask, completion = padded(0, 4)
    assert "attention_mask" not in scoring.model_inputs(ids, mask), "the fast path was not taken"
    fast = scoring.completion_logits(model, ids, mask, completion.shape[1])[completion]
    slow = model(ids, attention_mask=mask.long(), position_ids=scoring.position_ids(mask)).logits
    start = len(PROMPT) - 1
    torch.testing.assert_close(fast, slow[0, start : start + len(COMPLETION)], atol=1e-5, rtol=0)


def test_the_mask_is_kept_where_padding_stands_before_a_token():
    for left, right in ((1, 0), (2, 3)):
        ids, mask, _ = padded(left, right)
        assert torch.equal(scoring.model_inputs(ids, mask)["attention_mask"], mask)
    assert scoring.position_ids(torch.tensor([[0, 0, 1, 1, 1, 0]])).tolist() == [[0, 0, 0, 1, 2, 2]]


def test_no_logits_are_computed_for_the_prompt():
    model, seen = llama(), []
    hook = model.lm_head.register_forward_hook(lambda module, args, output: seen.append(output.shape[1]))
    ids, mask, _ = padded(0, 0)
    scoring.token_logprobs(model, ids, mask, 2)
    hook.remove()
    assert seen == [2], "two completion tokens need the logits of two positions"


@pytest.mark.parametrize(("left", "right"), [(3, 0), (0, 3), (2, 2)])
def test_scoring_leaves_its_inputs_as_they_were(left, right):
    # Pitfall 17: an in-place step on a view reaches the caller's tensor.
    inputs = padded(left, right)
    before = [x.clone() for x in inputs]
    ids, mask, completion = inputs
    model = llama()
    logprobs = scoring.token_logprobs(model, ids, mask, completion.shape[1], 0.6)
    kept = logprobs.detach().clone()
    scoring.sequence_logprobs(logprobs, completion)
    scoring.kl_to_reference(model, llama(1), ids, mask, completion)
    logits = torch.randn(3, 8, generator=seeded())
    logits_before = logits.clone()
    scoring.selected_logprobs(logits, torch.tensor([1, 2, 3]), 0.6)
    scoring.entropy(logits)
    scoring.kl_divergence(logits, logits.flip(0))
    assert all(map(torch.equal, inputs, before))
    assert torch.equal(logprobs.detach(), kept)
    assert torch.equal(logits, logits_before)


def test_sequence_logprob_sums_the_kept_tokens_alone():
    logprobs = torch.tensor([[-1.0, -2.0, -4.0], [-8.0, -16.0, -32.0]])
    mask = torch.tensor([[True, True, False], [False, True, False]])
    assert scoring.sequence_logprobs(logprobs, mask).tolist() == [-3.0, -16.0]


def test_entropy_and_kl_equal_scipys():
    logits, other = torch.randn(2, 5, 7, generator=seeded()) * 3
    p, q = logits.double().softmax(-1).numpy(), other.double().softmax(-1).numpy()
    np.testing.assert_allclose(scoring.entropy(logits), scipy.stats.entropy(p, axis=-1), atol=1e-5)
    np.testing.assert_allclose(
        scoring.kl_divergence(logits, other),
        scipy.stats.entropy(p, q, axis=-1),
        atol=1e-5,
        err_msg="KL(π‖ref) weights by π; the other direction weights by ref",
    )


def test_entropy_of_a_uniform_distribution_is_log_of_its_size():
    assert scoring.entropy(torch.zeros(8)).item() == pytest.approx(np.log(8))


def test_kl_of_a_distribution_to_itself_is_exactly_zero():
    logits = torch.randn(4, 9, generator=seeded())
    assert scoring.kl_divergence(logits, logits.clone()).eq(0).all()


def test_kl_of_a_model_to_its_own_copy_is_exactly_zero():
    # Pitfall 7: whatever training starts from is the reference, so the divergence starts at 0.
    for left, right in ((0, 0), (3, 0), (0, 3)):
        assert scoring.kl_to_reference(llama(3), llama(3), *padded(left, right)).tolist() == [0.0]


def test_sampled_kl_to_reference_is_unbiased():
    # The mean over all completions of two tokens, weighted by their probability, is the divergence of
    # the distributions over completions.
    model, reference, prompt = llama(0), llama(1), [BOS, A]
    completions = [list(pair) for pair in itertools.product(range(len(WORDS)), repeat=2)]

    def probabilities(of):
        first = next_token_probabilities(of, prompt)
        return torch.stack(
            [first[a] * next_token_probabilities(of, [*prompt, a]) for a in range(8)]
        ).flatten()

    p, q = probabilities(model), probabilities(reference)
    ids = torch.tensor([prompt + completion for completion in completions])
    everything = torch.ones_like(ids, dtype=torch.bool)
    estimates = scoring.kl_to_reference(model, reference, ids, everything, everything[:, 2:])
    assert (p * estimates).sum().item() == pytest.approx(scipy.stats.entropy(p, q), abs=1e-4)


def test_logprobs_of_a_bfloat16_model_come_in_float32():
    # Eight bits of mantissa would round a log-prob of -4 to the nearest .03.
    ids, mask, _ = padded(0, 0)
    scored = scoring.token_logprobs(llama().bfloat16(), ids, mask, len(COMPLETION))
    assert scored.dtype == torch.float32


def test_errors_say_what_was_given():
    ids, mask, _ = padded(0, 0)
    for length in (0, ids.shape[1]):
        with pytest.raises(ValueError, match=f"num_completion {length} must be"):
            scoring.completion_logits(llama(), ids, mask, length)
    for temperature in (0.0, -1.0):
        with pytest.raises(ValueError, match=f"{temperature} must be positive"):
            scoring.selected_logprobs(torch.zeros(2, 3), torch.tensor([0, 1]), temperature)


def _scored(model, temperature=0.7):
    ids, mask, completion = padded(2, 1)
    scores = scoring.token_logprobs(model, ids, mask, completion.shape[1], temperature)
    model.zero_grad()
    (scores * completion).sum().backward()
    gradients = [p.grad.clone() for p in model.parameters() if p.grad is not None]
    return scores.detach(), gradients


@pytest.mark.parametrize("adapted", [False, True], ids=["plain", "LoRA"])
@pytest.mark.parametrize("build", [llama, gpt2])
def test_scoring_in_pieces_changes_neither_values_nor_gradients(build, adapted, monkeypatch):
    model = build()
    if adapted:
        from peft import LoraConfig, get_peft_model

        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(0)
            # Adapters that start at zero would hide a decoder run without them.
            config = LoraConfig(r=2, target_modules="all-linear", init_lora_weights=False)
            model = get_peft_model(model, config)
    whole, whole_gradients = _scored(model)
    monkeypatch.setattr(scoring, "MAX_LOGITS", 2 * len(WORDS))
    pieces, gradients = _scored(model)
    torch.testing.assert_close(pieces, whole, atol=1e-5, rtol=0)
    assert len(gradients) == len(whole_gradients) > 0
    for piece, one in zip(gradients, whole_gradients, strict=True):
        torch.testing.assert_close(piece, one, atol=1e-4, rtol=1e-4)
