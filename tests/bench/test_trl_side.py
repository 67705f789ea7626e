"""TRL's side of the benchmarks does the work it is said to do, and nothing besides."""

from dataclasses import replace

import pytest
import torch
from transformers import GenerationMixin
from transformers.models.llama.modeling_llama import LlamaModel

from labkit.bench.fresh import in_fresh_process, peak_bytes, resident_bytes
from labkit.bench.trl_side import generate, generate_rate_here, num_tokens, trl_grpo, trl_grpo_here
from labkit.bench.workloads import Workload, distinct_tokens, load, points24_workload, smollm_workload
from tests.tiny import BOS, EOS, PAD, WORDS, A, B, llama, tokenizer

MEGABYTE = 2**20
MANY = (*WORDS, *(f"w{i}" for i in range(100)))
SEEN = []


def remember(completion_ids, **columns):
    SEEN.append(completion_ids)
    return distinct_tokens(completion_ids)


@pytest.fixture(scope="module")
def workload(tmp_path_factory):
    """A model that finds all of its 108 words about equally likely."""
    folder = tmp_path_factory.mktemp("model")
    llama(words=MANY, sharpness=1.0).save_pretrained(folder)
    tokenizer(MANY).save_pretrained(folder)
    return Workload(folder, ((BOS, A), (BOS, B, A, B)), group_size=4, max_new_tokens=3, micro_batch_size=2)


@pytest.fixture
def calls(monkeypatch):
    """What TRL asks of `generate` and of the model's forward pass while it trains."""
    calls = {"generate": [], "forward": []}
    own_generate, own_forward = GenerationMixin.generate, LlamaModel.forward

    def spy_generate(model, *args, **kwargs):
        calls["generate"].append(kwargs)
        return own_generate(model, *args, **kwargs)

    def spy_forward(model, input_ids=None, **kwargs):
        if torch.is_grad_enabled():
            record = {"ids": input_ids, "checkpointing": model.is_activation_checkpointing}
            record |= {"dtype": model.dtype, "autocast": torch.is_autocast_enabled("cpu")}
            calls["forward"].append(record)
        return own_forward(model, input_ids=input_ids, **kwargs)

    monkeypatch.setattr(GenerationMixin, "generate", spy_generate)
    monkeypatch.setattr(LlamaModel, "forward", spy_forward)
    return calls


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_a_step_samples_the_given_ids_and_trains_on_all_rows_in_the_given_precision(
    workload, calls, dtype, capfd
):
    times = trl_grpo_here(replace(workload, dtype=dtype), steps=2, warmup=1)
    assert capfd.readouterr().out == ""
    assert len(times.seconds) == len(times.sampling_seconds) == len(times.completion_tokens) == 2
    assert all(0 < a < b for a, b in zip(times.sampling_seconds, times.seconds, strict=True))
    assert all(t > 0 for t in times.training_seconds)
    assert all(8 <= tokens <= 24 for tokens in times.completion_tokens)

    assert len(calls["generate"]) == 3
    for asked in calls["generate"]:
        ids, mask, config = asked["input_ids"], asked["attention_mask"], asked["generation_config"]
        rows = [row[keep.bool()].tolist() for row, keep in zip(ids, mask, strict=True)]
        assert sorted(rows) == sorted([[BOS, A]] * 4 + [[BOS, B, A, B]] * 4)
        assert (config.temperature, config.top_k, config.top_p, config.do_sample) == (1.0, 0, 1.0, True)
        assert (config.max_new_tokens, config.eos_token_id, config.pad_token_id) == (3, [EOS], PAD)

    # Four micro-batches of two rows in each of three steps, and no pass to score them again.
    assert [len(call["ids"]) for call in calls["forward"]] == [2] * 12
    assert not any(call["checkpointing"] or call["autocast"] for call in calls["forward"])
    assert {call["dtype"] for call in calls["forward"]} == {getattr(torch, dtype)}


def test_sampling_is_not_cut_to_the_fifty_likeliest_tokens(workload):
    wide = replace(workload, group_size=300, max_new_tokens=1, micro_batch_size=600, reward=remember)
    SEEN.clear()
    trl_grpo_here(wide, steps=1, warmup=0)
    by_trl = {ids[0] for ids in SEEN[0]}
    by_generate = set(generate(*load(wide), wide).flatten().tolist())
    assert len(by_trl) > 60 and len(by_generate) > 60


def test_tokens_are_counted_as_far_as_the_end_of_each_row():
    rows = torch.tensor([[A, B, EOS, PAD], [EOS, PAD, PAD, PAD], [A, A, A, A]])
    assert num_tokens(rows, EOS) == 3 + 1 + 4
    # SmolLM2 pads with the token that ends a sequence.
    assert num_tokens(torch.tensor([[A, EOS, EOS], [EOS, EOS, EOS]]), EOS) == 2 + 1


def test_generate_has_a_rate(workload):
    assert generate_rate_here(workload, repeats=1) > 0


def test_what_cannot_be_split_is_refused(workload):
    with pytest.raises(ValueError, match="2 prompts x 4 completions do not split into micro-batches of 3"):
        trl_grpo(replace(workload, micro_batch_size=3))
    with pytest.raises(ValueError, match="0 timed repetitions"):
        trl_grpo(workload, steps=0)


def test_the_24_point_workload_is_prompts_its_model_knows():
    workload = points24_workload()
    model, words = load(workload)
    texts = [words.decode(ids) for ids in workload.prompts]
    assert workload.rows == 256 and len(set(texts)) == 16
    assert all(
        tuple(words(text)["input_ids"]) == ids for text, ids in zip(texts, workload.prompts, strict=True)
    )
    assert model.config.vocab_size == len(words)


@pytest.mark.slow
def test_the_smollm_workload_has_prompts_of_the_length_asked_for(monkeypatch):
    monkeypatch.setenv("LABKIT_DTYPE", "bfloat16")
    workload = smollm_workload()
    _, tokenizer = load(workload)
    assert [len(prompt) for prompt in workload.prompts] == [229] * 8 and len(set(workload.prompts)) == 8
    assert (workload.rows, workload.dtype, workload.lora_rank) == (64, "bfloat16", 8)
    for prompt in workload.prompts:
        assert tokenizer.decode(prompt).endswith(
            "does not come to the target. Try again.<|im_end|>\n<|im_start|>assistant\n"
        )
    quick = smollm_workload(num_prompts=1, group_size=2, max_new_tokens=8, prompt_tokens=40)
    assert (quick.rows, len(quick.prompts[0]), quick.micro_batch_size) == (2, 40, 2)
    with pytest.raises(ValueError, match="prompt_tokens is 999"):
        smollm_workload(prompt_tokens=999)


def hold(megabytes):
    before = resident_bytes()
    held = b"\1" * (megabytes * MEGABYTE)
    del held
    return before, peak_bytes(), torch.get_num_threads()


@pytest.mark.slow
def test_a_fresh_process_counts_its_own_memory_and_not_its_parents():
    ballast = b"\1" * (900 * MEGABYTE)
    fresh = in_fresh_process(hold, 100, threads=1)
    del ballast
    before, peak, threads = fresh.result
    assert threads == 1
    assert before + 95 * MEGABYTE < peak <= fresh.peak_bytes < 850 * MEGABYTE


@pytest.mark.slow
def test_a_step_with_adapters_in_a_process_of_its_own(workload):
    times = trl_grpo(replace(workload, lora_rank=2, loss_type="grpo"))
    assert len(times.seconds) == 1
    assert times.peak_bytes > times.resident_bytes > 100 * MEGABYTE
