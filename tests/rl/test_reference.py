import pytest
import torch
from peft import LoraConfig, get_peft_model

from labkit.envs.judging import Judgement
from labkit.lm.training import OptimizerConfig, TrainState
from labkit.rl.config import RLConfig
from labkit.rl.reference import Reference
from labkit.rl.trainer import policy_gradient_algorithm
from tests.tiny import BOS, A, B, C, llama

IDS = torch.tensor([[BOS, A, B, C]])
PROMPTS = [[BOS, A], [BOS, B, C]]


def policy():
    """A LoRA policy that was fine-tuned before RL: its adapter is not zero."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        config = LoraConfig(r=2, target_modules="all-linear", init_lora_weights=False)
        return get_peft_model(llama(), config)


def lengths(rows, completions):
    return [Judgement(float(len(c) + row % 2)) for row, c in zip(rows, completions, strict=True)]


def trained(model, config, steps):
    reference = Reference(model)
    start = model(IDS).logits.detach()
    state = TrainState.start(model, OptimizerConfig(3e-2), steps, seed=0)
    algorithm = policy_gradient_algorithm(config, lambda state: (PROMPTS, lengths), reference)
    metrics = [algorithm(state) for _ in range(steps)]
    return reference, start, metrics


@pytest.mark.parametrize("make", [policy, llama], ids=["LoRA", "plain"])
def test_kl_to_the_policy_one_started_from_is_zero_and_grows(make):
    # Pitfall 7: with the raw base as reference the KL of a fine-tuned adapter would not start at 0.
    config = RLConfig(group_size=4, max_new_tokens=3, kl_coef=0.05)
    _, _, metrics = trained(make(), config, 3)
    assert metrics[0]["kl"] == 0.0
    assert metrics[-1]["kl"] > 0.0


def test_the_reference_stays_where_training_started_and_only_the_adapter_trains():
    model = policy()
    base = {n: p.detach().clone() for n, p in model.named_parameters() if "lora" not in n}
    reference, start, _ = trained(model, RLConfig(group_size=4, max_new_tokens=3, kl_coef=0.05), 3)
    moved = model(IDS).logits
    with reference.model() as frozen:
        torch.testing.assert_close(frozen(IDS).logits, start)
    assert not torch.allclose(moved, start)
    assert torch.equal(model(IDS).logits, moved), "the trained adapter is active again"
    named = dict(model.named_parameters())
    assert all(torch.equal(named[name], before) for name, before in base.items())
    assert all(not p.requires_grad for name, p in named.items() if "lora" not in name)


def test_the_reference_adapter_is_not_trained():
    model = policy()
    Reference(model)
    state = TrainState.start(model, OptimizerConfig(), 1, seed=0)
    trained = {id(p) for group in state.optimizer.param_groups for p in group["params"]}
    named = dict(model.named_parameters())
    assert all((id(p) in trained) == (".default." in name) for name, p in named.items())


def test_scoring_by_the_reference_leaves_the_policy_trainable():
    model = policy()
    reference = Reference(model)
    before = {name: p.requires_grad for name, p in model.named_parameters()}
    with reference.model():
        pass
    assert {name: p.requires_grad for name, p in model.named_parameters()} == before


def test_a_second_reference_of_one_adapter_is_refused():
    model = policy()
    Reference(model)
    with pytest.raises(ValueError, match="has a reference adapter already"):
        Reference(model)
