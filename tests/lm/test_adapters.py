import pytest
import torch
from peft import LoraConfig, get_peft_model

from labkit.lm.adapters import merged_adapters
from labkit.lm.sampling import SamplingConfig, sample
from tests.tiny import BOS, A, B, C, llama, seeded

IDS = torch.tensor([[BOS, A, B, C]])


def adapted():
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        config = LoraConfig(r=2, target_modules="all-linear", init_lora_weights=False)
        return get_peft_model(llama(), config).eval()


def test_merged_adapters_give_the_same_logits_and_leave_every_bit_as_it_was():
    model = adapted()
    before = {name: p.clone() for name, p in model.state_dict().items()}
    plain = model(IDS).logits
    with merged_adapters(model):
        merged = model(IDS).logits
        calls = []
        hooks = [
            m.register_forward_hook(lambda *_: calls.append(1))
            for n, m in model.named_modules()
            if n.endswith("lora_A.default")
        ]
        model(IDS)
        assert hooks and not calls, "the adapters still ran beside the weights they are folded into"
    torch.testing.assert_close(merged, plain, atol=1e-4, rtol=1e-4)
    assert torch.equal(model(IDS).logits, plain)
    assert all(torch.equal(p, before[name]) for name, p in model.state_dict().items())


def test_what_went_wrong_inside_leaves_the_weights_as_they_were():
    model = adapted()
    before = model(IDS).logits
    try:
        with merged_adapters(model):
            raise KeyboardInterrupt
    except KeyboardInterrupt:
        pass
    assert torch.equal(model(IDS).logits, before)


@pytest.mark.parametrize("kind", ["bfloat16", "DoRA", "embedding", "saved module"])
def test_what_a_sum_of_weights_does_not_describe_is_sampled_unmerged(kind):
    settings = {
        "bfloat16": {"target_modules": "all-linear"},
        "DoRA": {"target_modules": "all-linear", "use_dora": True},
        "embedding": {"target_modules": ["embed_tokens"]},
        "saved module": {"target_modules": ["q_proj"], "modules_to_save": ["lm_head"]},
    }[kind]
    base = llama().bfloat16() if kind == "bfloat16" else llama()
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        model = get_peft_model(base, LoraConfig(r=2, init_lora_weights=False, **settings)).eval()
    plain = model(IDS).logits
    with merged_adapters(model):
        assert torch.equal(model(IDS).logits, plain)


def test_models_without_adapters_are_left_alone():
    model = llama()
    with merged_adapters(model):
        samples = sample(model, [[BOS, A]], SamplingConfig(3), generator=seeded())
    assert samples.ids.shape[0] == 1
