import pytest
import torch

from labkit.lm.sampling import SamplingConfig, evaluating, left_pad, sample
from labkit.lm.scoring import token_logprobs
from tests.tiny import BOS, EOS, PAD, A, B, C, D, E, gpt2, llama, one_by_one_logprobs, seeded

PROMPTS = [[BOS, A], [BOS, B, C], [BOS, D], [BOS, E, A, B], [BOS, C, C, C, C, C, C]]
GREEDY = SamplingConfig(12, greedy=True)
NO_EOS = -1


def rescored(model, samples, temperature=1.0):
    length = samples.ids.shape[1]
    scores = token_logprobs(model, samples.sequence_ids, samples.sequence_mask, length, temperature)
    return scores.detach() * samples.mask


def watch_rows(model):
    """A list that grows by the number of rows of each forward pass."""
    rows = []
    model.register_forward_pre_hook(lambda m, args, kw: rows.append(len(kw["input_ids"])), with_kwargs=True)
    return rows


def until(tokens, ending):
    """`tokens` up to the first place where the sequence `ending` is complete."""
    for end in range(len(ending), len(tokens) + 1):
        if tokens[end - len(ending) : end] == ending:
            return tokens[:end]
    return tokens


@pytest.mark.parametrize("temperature", [1.0, 0.6])
@pytest.mark.parametrize("make", [llama, gpt2])
def test_logprobs_are_those_of_the_distribution_sampled_from_and_of_the_model(make, temperature):
    # Pitfall 2: sampled at T and scored at 1, the ratio is wrong from the first step.
    model = make()
    samples = sample(
        model, PROMPTS, SamplingConfig(6, temperature=temperature), num_samples=4, generator=seeded()
    )
    torch.testing.assert_close(samples.logprobs, rescored(model, samples, temperature), atol=2e-5, rtol=0)
    torch.testing.assert_close(samples.model_logprobs, rescored(model, samples), atol=2e-5, rtol=0)
    for row, completion in enumerate(samples.completions()):
        expected = one_by_one_logprobs(model, PROMPTS[row // 4], completion, temperature)
        torch.testing.assert_close(samples.logprobs[row, : len(completion)], expected, atol=2e-5, rtol=0)


def test_dropout_is_off_while_sampling_and_the_mode_is_put_back():
    # Pitfall 1.
    model = gpt2(dropout=0.5).train()
    samples = sample(model, PROMPTS, SamplingConfig(6), num_samples=4, generator=seeded())
    assert model.training, "the model came back in evaluation mode"
    model.eval()
    torch.testing.assert_close(samples.logprobs, rescored(model, samples), atol=2e-5, rtol=0)
    sample(model, PROMPTS, GREEDY)
    assert not model.training, "the model came back in training mode"


def test_the_mode_is_put_back_when_sampling_fails():
    model = gpt2(dropout=0.5).train()
    with pytest.raises(RuntimeError), evaluating(model):
        assert not model.training
        raise RuntimeError
    assert model.training


def test_eos_keeps_the_logprob_it_was_sampled_with():
    # Pitfall 10.
    model = llama()
    samples = sample(model, PROMPTS, SamplingConfig(8), num_samples=8, generator=seeded())
    ended = [row for row, reason in enumerate(samples.stop_reasons) if reason == "eos"]
    assert ended, "no row ended by itself, so the test shows nothing"
    for row in ended:
        completion = samples.completions()[row]
        assert completion[-1] == EOS
        assert EOS not in completion[:-1]
        last = samples.logprobs[row, len(completion) - 1]
        expected = one_by_one_logprobs(model, PROMPTS[row // 8], completion)[-1]
        assert last.item() == pytest.approx(expected.item(), abs=2e-5)


def test_completions_do_not_depend_on_who_shares_the_batch():
    model = llama()
    together = sample(model, PROMPTS, GREEDY)
    assert len(set(together.lengths.tolist())) > 2, "rows end together, so none leaves the batch early"
    for row, prompt in enumerate(PROMPTS):
        alone = sample(model, [prompt], GREEDY)
        assert together.completions()[row] == alone.completions()[0]
        assert together.stop_reasons[row] == alone.stop_reasons[0]
        n = int(alone.lengths)
        torch.testing.assert_close(together.logprobs[row, :n], alone.logprobs[0], atol=2e-5, rtol=0)


@pytest.mark.parametrize("make", [llama, gpt2])
def test_greedy_completions_equal_those_of_transformers_generate(make):
    model = make()
    ids, mask = left_pad(PROMPTS, PAD)
    theirs = model.generate(ids, attention_mask=mask.long(), max_new_tokens=12, do_sample=False)
    ours = sample(model, PROMPTS, GREEDY)
    expected = [until(row, [EOS]) for row in theirs[:, ids.shape[1] :].tolist()]
    assert ours.completions() == expected


def test_each_distinct_prefix_of_an_unfinished_completion_runs_once():
    model = llama()
    rows = watch_rows(model)
    samples = sample(model, PROMPTS, SamplingConfig(8), num_samples=6, generator=seeded())
    assert rows[0] == len(PROMPTS), "the prompt of a group runs through the model once"
    # The pass after token t holds what completions longer than t have said so far, each of it once.
    prefixes = [
        {(row // 6, *c[:t]) for row, c in enumerate(samples.completions()) if len(c) > t}
        for t in range(1, int(samples.lengths.max()))
    ]
    assert rows[1:] == [len(p) for p in prefixes]
    assert rows[1] < 18, "no two completions agreed, so the test would not see that they share"


def test_a_shared_prompt_pass_samples_what_separate_passes_sample():
    model = llama()
    group = sample(model, PROMPTS[:3], SamplingConfig(6), num_samples=3, generator=seeded())
    repeated = [prompt for prompt in PROMPTS[:3] for _ in range(3)]
    separate = sample(model, repeated, SamplingConfig(6), generator=seeded())
    assert group.completions() == separate.completions()
    assert torch.equal(group.prompt_ids, separate.prompt_ids)
    torch.testing.assert_close(group.logprobs, separate.logprobs, atol=2e-5, rtol=0)


@pytest.mark.parametrize(
    "config", [SamplingConfig(6), SamplingConfig(6, temperature=0.9)], ids=["plain", "warped"]
)
def test_the_same_seed_gives_the_same_samples_and_another_seed_others(config):
    model = llama()
    draws = []
    for seed in (0, 0, 1):
        torch.manual_seed(len(draws))  # the global generator must not matter
        draws.append(sample(model, PROMPTS, config, num_samples=4, generator=seeded(seed)))
    assert torch.equal(draws[0].ids, draws[1].ids)
    assert torch.equal(draws[0].logprobs, draws[1].logprobs)
    assert draws[0].completions() != draws[2].completions()


def test_each_prompt_has_its_own_stop_sequences():
    model = llama()
    free = sample(model, PROMPTS, GREEDY, eos_id=NO_EOS).completions()
    pair, other = free[1][2:4], free[4][3:4]
    stops = [[], [pair], [], [[A, PAD, A]], [[D, PAD, D], other]]
    samples = sample(model, PROMPTS, GREEDY, eos_id=NO_EOS, stop_sequences=stops)
    expected = [free[0], until(free[1], pair), free[2], free[3], until(free[4], other)]
    assert samples.completions() == expected
    assert samples.stop_reasons == ["length", "stop", "length", "length", "stop"]


def test_a_stop_sequence_is_not_completed_by_the_prompt():
    model = llama()
    first = sample(model, [[BOS, A]], SamplingConfig(1, greedy=True)).completions()[0]
    samples = sample(model, [[BOS, A]], GREEDY, eos_id=NO_EOS, stop_sequences=[[[A, *first]]])
    assert len(samples.completions()[0]) > 1, "the A of the prompt was counted as generated"


def test_a_row_that_ends_in_eos_and_a_stop_sequence_at_once_ended_by_eos():
    model = llama()
    plain = sample(model, PROMPTS, GREEDY)
    assert "eos" in plain.stop_reasons
    assert sample(model, PROMPTS, GREEDY, stop_sequences=[[[EOS]]] * 5).stop_reasons == plain.stop_reasons


def test_stop_sequences_go_with_every_sample_of_their_prompt():
    samples = sample(
        llama(),
        [[BOS, A], [BOS, A]],
        SamplingConfig(6),
        num_samples=40,
        generator=seeded(),
        eos_id=NO_EOS,
        stop_sequences=[[[B]], []],
    )
    completions = samples.completions()
    assert all(B not in c[:-1] for c in completions[:40])
    assert {"stop"} < set(samples.stop_reasons[:40])
    assert set(samples.stop_reasons[40:]) == {"length"}


def test_stop_reasons_and_masks_agree_with_the_tokens():
    samples = sample(
        llama(), PROMPTS, SamplingConfig(5), num_samples=8, generator=seeded(), stop_sequences=[[[B]]] * 5
    )
    assert set(samples.stop_reasons) == {"eos", "stop", "length"}
    ending = {"eos": EOS, "stop": B}
    for row, (completion, reason) in enumerate(zip(samples.completions(), samples.stop_reasons, strict=True)):
        n = len(completion)
        assert samples.mask[row].tolist() == [True] * n + [False] * (samples.mask.shape[1] - n)
        assert samples.ids[row, n:].eq(PAD).all()
        assert samples.logprobs[row, n:].eq(0).all()
        assert n == 5 if reason == "length" else completion[-1] == ending[reason]
        assert not {EOS, B} & set(completion[:-1])


def test_prompts_are_kept_as_given_with_padding_on_the_left():
    samples = sample(llama(), PROMPTS, SamplingConfig(2), num_samples=2, generator=seeded())
    for row in range(10):
        prompt = PROMPTS[row // 2]
        assert samples.prompt_ids[row, samples.prompt_mask[row]].tolist() == prompt
        assert samples.prompt_mask[row, -len(prompt) :].all()
    assert samples.sequence_ids.shape == samples.sequence_mask.shape == (10, 7 + 2)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda m: sample(m, PROMPTS, SamplingConfig(2)), "needs a torch.Generator"),
        (lambda m: sample(m, [], GREEDY), "there must be a prompt"),
        (lambda m: sample(m, [[BOS], []], GREEDY), "at least one token"),
        (lambda m: sample(m, PROMPTS, GREEDY, stop_sequences=[[[A]]]), "1 entries for 5 prompts"),
        (lambda m: sample(m, [[BOS]], GREEDY, stop_sequences=[[[]]]), "empty stop sequence"),
    ],
)
def test_what_cannot_be_sampled_is_named(call, message):
    with pytest.raises(ValueError, match=message):
        call(llama())


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"max_new_tokens": 0}, "max_new_tokens is 0"),
        ({"temperature": 0.0}, "use greedy=True"),
        ({"temperature": float("nan")}, "temperature is nan"),
        ({"top_k": 0}, "top_k is 0"),
        ({"top_p": 0.0}, "top_p is 0.0"),
        ({"top_p": 1.1}, "top_p is 1.1"),
    ],
)
def test_settings_out_of_range_are_named(settings, message):
    with pytest.raises(ValueError, match=message):
        SamplingConfig(**{"max_new_tokens": 4, **settings})
