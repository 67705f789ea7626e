"""Running each prompt once against the plain pass over whole rows."""

import pytest
import torch
from peft import LoraConfig, get_peft_model

from labkit.lm import scoring
from labkit.lm.sampling import left_pad
from labkit.lm.scoring import token_logprobs
from labkit.lm.shared_prompt import continuation_logprobs
from tests.tiny import BOS, EOS, PAD, A, B, C, D, E, gpt2, llama

EQUAL, UNEQUAL = [[BOS, A, D], [BOS, B, E]], [[BOS, A], [BOS, B, C, D, E]]
ROWS = [[A, B, EOS], [C], [D, D, A, EOS], [E, EOS], [B]]
PROMPT_OF_ROW = torch.tensor([1, 0, 1, 1, 0])


def adapted(model):
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        return get_peft_model(
            model, LoraConfig(r=2, target_modules="all-linear", init_lora_weights=False)
        ).eval()


MODELS = {"rotary": llama, "absolute": gpt2, "LoRA": lambda: adapted(llama())}


def gradients(model):
    return {n: p.grad.clone() for n, p in model.named_parameters() if p.grad is not None}


def both_ways(model, prompts, rows, prompt_of_row, temperature=0.7):
    """Log-probs of kept tokens and the gradient of their weighted sum, of the shared and the plain pass."""
    width = max(map(len, rows))
    ids = torch.tensor([r + [PAD] * (width - len(r)) for r in rows])
    mask = torch.tensor([[True] * len(r) + [False] * (width - len(r)) for r in rows])
    prompt_ids, prompt_mask = left_pad(prompts, PAD)
    weights = torch.linspace(-1, 2, mask.numel()).view(mask.shape) * mask
    results = []
    for shared in (True, False):
        model.zero_grad()
        if shared:
            scores = continuation_logprobs(
                model, prompt_ids, prompt_mask, prompt_of_row, ids, mask, temperature
            )
        else:
            whole = torch.cat([prompt_ids[prompt_of_row], ids], 1)
            whole_mask = torch.cat([prompt_mask[prompt_of_row], mask], 1)
            scores = token_logprobs(model, whole, whole_mask, width, temperature)
        (scores * weights).sum().backward()
        results.append((scores.detach()[mask], gradients(model)))
    return results


@pytest.mark.parametrize("prompts", [EQUAL, UNEQUAL], ids=["equal prompts", "unequal prompts"])
@pytest.mark.parametrize("name", MODELS)
def test_values_and_gradients_are_those_of_the_plain_pass(name, prompts):
    # The gradient of a prompt comes back through its keys and values, from all rows that share them.
    (shared, its_gradients), (plain, gradients) = both_ways(MODELS[name](), prompts, ROWS, PROMPT_OF_ROW)
    torch.testing.assert_close(shared, plain, atol=2e-5, rtol=0)
    assert its_gradients.keys() == gradients.keys()
    for parameter, gradient in gradients.items():
        torch.testing.assert_close(its_gradients[parameter], gradient, atol=2e-4, rtol=1e-4, msg=parameter)


def test_the_same_with_logits_made_in_pieces(monkeypatch):
    monkeypatch.setattr(scoring, "MAX_LOGITS", 16)
    (shared, its_gradients), (plain, gradients) = both_ways(llama(), UNEQUAL, ROWS, PROMPT_OF_ROW)
    torch.testing.assert_close(shared, plain, atol=2e-5, rtol=0)
    for parameter, gradient in gradients.items():
        torch.testing.assert_close(its_gradients[parameter], gradient, atol=2e-4, rtol=1e-4, msg=parameter)


def test_one_token_after_the_prompt():
    (shared, _), (plain, _) = both_ways(llama(), UNEQUAL, [[A], [B]], torch.tensor([0, 1]))
    torch.testing.assert_close(shared, plain, atol=2e-5, rtol=0)


def test_a_prompt_runs_once_and_one_that_no_row_continues_not_at_all():
    model, batches = llama(), []
    model.base_model.layers[0].register_forward_pre_hook(
        lambda module, args, kwargs: batches.append((args or tuple(kwargs.values()))[0].shape[0]),
        with_kwargs=True,
    )
    prompt_ids, prompt_mask = left_pad([*UNEQUAL, [BOS]], PAD)
    ids = torch.tensor([[A, B]] * 4)
    continuation_logprobs(
        model, prompt_ids, prompt_mask, torch.tensor([1, 1, 1, 0]), ids, torch.ones_like(ids, dtype=bool)
    )
    assert batches == [2, 4], "two prompts, then four rows"
