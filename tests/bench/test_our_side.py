"""labkit's side of the benchmarks does the same work as TRL's."""

from dataclasses import replace

import pytest

from labkit.bench.our_side import labkit_grpo, labkit_grpo_here, sample_rate_here
from labkit.bench.workloads import Workload, distinct_tokens
from labkit.rl import trainer
from tests.tiny import BOS, WORDS, A, B, llama, tokenizer

SEEN = []


def remember(completion_ids, **columns):
    SEEN.append(completion_ids)
    return distinct_tokens(completion_ids)


@pytest.fixture(scope="module")
def workload(tmp_path_factory):
    folder = tmp_path_factory.mktemp("model")
    words = (*WORDS, *(f"w{i}" for i in range(50)))
    llama(words=words, sharpness=1.0).save_pretrained(folder)
    tokenizer(words).save_pretrained(folder)
    return Workload(folder, ((BOS, A), (BOS, B, A, B)), group_size=4, max_new_tokens=3, micro_batch_size=2)


@pytest.mark.parametrize("rank", [0, 2], ids=["whole model", "LoRA"])
def test_a_step_samples_every_row_and_is_timed_after_the_warm_up(workload, rank):
    SEEN.clear()
    original = trainer.collect
    times = labkit_grpo_here(replace(workload, reward=remember, lora_rank=rank), steps=2, warmup=1)
    assert [len(ids) for ids in SEEN] == [8, 8, 8]
    assert len(times.seconds) == len(times.sampling_seconds) == 2
    assert all(0 < s < whole for s, whole in zip(times.sampling_seconds, times.seconds, strict=True))
    assert times.completion_tokens == tuple(sum(map(len, ids)) for ids in SEEN[1:])
    assert trainer.collect is original, "the clock is taken off again"


def test_a_process_of_its_own_knows_its_memory(workload):
    times = labkit_grpo(workload)
    assert times.peak_bytes > times.resident_bytes > 0


def test_sampling_is_measured_in_tokens_a_second(workload):
    assert sample_rate_here(workload, repeats=1) > 0
