"""Whether what is drawn follows the distribution it should: chi-square tests with fixed seeds."""

from collections import Counter

import numpy as np
import pytest
import torch
from scipy.stats import chi2_contingency, chisquare

from labkit.lm.sampling import SamplingConfig, sample, sample_counts, warp_logits
from tests.tiny import BOS, EOS, A, B, llama, next_token_probabilities, one_by_one_logprobs, seeded

SMALL = ("<pad>", "<bos>", "<eos>", "a", "b")
PROMPT = [BOS, A, B]
WARPS = [
    {},
    {"temperature": 0.6},
    {"top_k": 2},
    {"top_p": 0.6},
    {"temperature": 1.5, "top_k": 4, "top_p": 0.8},
]


def warped(probabilities, temperature=1.0, top_k=None, top_p=None):
    """The distribution sampled from, by keeping one token after the other, likeliest first."""
    scaled = np.asarray(probabilities, dtype=float) ** (1 / temperature)
    scaled /= scaled.sum()
    order = np.argsort(-scaled)[:top_k]
    within = scaled / scaled[order].sum()
    kept, mass = [], 0.0
    for token in order:
        if top_p is not None and mass >= top_p:
            break
        kept.append(token)
        mass += within[token]
    result = np.zeros_like(scaled)
    result[kept] = scaled[kept] / scaled[kept].sum()
    return result


def all_completions(model, length, **warp):
    """Exact probability of every completion of at most `length` tokens."""
    finished, unfinished = {}, {(): 1.0}
    for step in range(1, length + 1):
        grown = {}
        for prefix, mass in unfinished.items():
            probabilities = warped(next_token_probabilities(model, [*PROMPT, *prefix]).numpy(), **warp)
            for token, p in enumerate(probabilities):
                if p > 0:
                    done = token == EOS or step == length
                    (finished if done else grown)[(*prefix, token)] = mass * p
        unfinished = grown
    return finished


def p_value(counts, probabilities, draws):
    """Chi-square of observed counts; outcomes expected less than five times are taken together."""
    assert not set(counts) - set(probabilities), "an outcome of probability 0 was drawn"
    observed, expected, rest = [], [], [0, 0.0]
    for outcome, p in probabilities.items():
        if p * draws >= 5:
            observed.append(counts.get(outcome, 0))
            expected.append(p * draws)
        else:
            rest[0] += counts.get(outcome, 0)
            rest[1] += p * draws
    if rest[1] > 1:
        observed.append(rest[0])
        expected.append(rest[1])
    scale = sum(observed) / sum(expected)
    return chisquare(observed, np.array(expected) * scale).pvalue


@pytest.mark.parametrize("warp", WARPS, ids=str)
def test_warped_logits_give_the_renormalised_distribution(warp):
    logits = torch.randn(50, 8, generator=seeded()) * 3
    ours = warp_logits(logits, SamplingConfig(1, **warp)).softmax(-1)
    expected = np.stack([warped(row, **warp) for row in logits.double().softmax(-1).numpy()])
    np.testing.assert_allclose(ours, expected, atol=1e-5)


def test_top_p_keeps_the_token_that_reaches_the_mass_and_none_beyond():
    logits = torch.tensor([[0.5, 0.25, 0.125, 0.125]]).log()
    kept = [
        warp_logits(logits, SamplingConfig(1, top_p=p)).isfinite().sum().item() for p in (0.4, 0.5, 0.6, 0.75)
    ]
    assert kept == [1, 1, 2, 2]
    assert warp_logits(logits, SamplingConfig(1, top_p=1e-9)).isfinite().tolist() == [
        [True, False, False, False]
    ]


@pytest.mark.parametrize("warp", WARPS, ids=str)
def test_sampled_tokens_follow_the_warped_distribution_and_carry_its_logprobs(warp):
    model, draws = llama(), 4000
    samples = sample(model, [PROMPT], SamplingConfig(1, **warp), num_samples=draws, generator=seeded())
    tokens = samples.ids[:, 0]
    exact = warped(next_token_probabilities(model, PROMPT).numpy(), **warp)
    np.testing.assert_allclose(samples.logprobs[:, 0], np.log(exact[tokens]), atol=2e-5)
    probabilities = {token: p for token, p in enumerate(exact) if p > 0}
    assert p_value(Counter(tokens.tolist()), probabilities, draws) > 1e-3


@pytest.mark.parametrize("warp", [{}, {"temperature": 0.6}, {"top_k": 3}], ids=str)
def test_both_samplers_draw_whole_completions_from_the_exact_distribution(warp):
    model, config = llama(words=SMALL), SamplingConfig(3, **warp)
    exact = all_completions(model, 3, **warp)
    assert sum(exact.values()) == pytest.approx(1)
    plain = Counter(
        map(tuple, sample(model, [PROMPT], config, num_samples=4000, generator=seeded()).completions())
    )
    counted = {s.ids: s.count for s in sample_counts(model, PROMPT, config, 20000, seeded())}
    assert p_value(plain, exact, 4000) > 1e-3
    assert p_value(counted, exact, 20000) > 1e-3
    common = [outcome for outcome, p in exact.items() if p * 4000 >= 5]
    table = [[draws.get(outcome, 0) for outcome in common] for draws in (plain, counted)]
    assert chi2_contingency(table).pvalue > 1e-3


def test_counts_of_different_completions_vary_together_as_independent_draws_do():
    # Splitting counts must not be stratified: the number of draws that take a branch is binomial.
    model, draws, repeats = llama(words=SMALL), 20, 400
    p = next_token_probabilities(model, PROMPT)[A].item()
    generator, taken = seeded(), []
    for _ in range(repeats):
        counted = sample_counts(model, PROMPT, SamplingConfig(1), draws, generator)
        taken.append(sum(s.count for s in counted if s.ids[0] == A))
    assert np.mean(taken) == pytest.approx(draws * p, rel=0.1)
    assert np.var(taken) == pytest.approx(draws * p * (1 - p), rel=0.25)


@pytest.mark.parametrize("temperature", [1.0, 0.6])
def test_counted_samples_add_up_and_carry_exact_logprobs(temperature):
    model = llama()
    counted = sample_counts(model, PROMPT, SamplingConfig(4, temperature=temperature), 300, seeded())
    assert sum(s.count for s in counted) == 300
    assert len({s.ids for s in counted}) == len(counted), "a completion is listed twice"
    assert [s.count for s in counted] == sorted((s.count for s in counted), reverse=True)
    for s in counted:
        assert EOS not in s.ids[:-1]
        assert s.ids[-1] == EOS or len(s.ids) == 4
        expected = one_by_one_logprobs(model, PROMPT, list(s.ids), temperature).sum().item()
        assert s.logprob == pytest.approx(expected, abs=1e-4)


def test_each_distinct_prefix_is_decoded_once():
    model, rows = llama(), []
    model.register_forward_pre_hook(lambda m, args, kw: rows.append(len(kw["input_ids"])), with_kwargs=True)
    counted = sample_counts(model, PROMPT, SamplingConfig(4), 500, seeded())
    prefixes = [len({s.ids[:t] for s in counted if len(s.ids) > t}) for t in range(4)]
    assert rows == prefixes
    assert sum(rows) < 500, "decoding every draw would be no saving"


def test_counted_samples_end_at_stop_ids_and_follow_the_seed():
    model, config = llama(), SamplingConfig(5)
    counted = sample_counts(model, PROMPT, config, 200, seeded(), stop_ids=(B,))
    assert all(not {EOS, B} & set(s.ids[:-1]) for s in counted)
    assert any(s.ids[-1] == B and len(s.ids) < 5 for s in counted)
    assert counted == sample_counts(model, PROMPT, config, 200, seeded(), stop_ids=(B,))
    assert counted != sample_counts(model, PROMPT, config, 200, seeded(1), stop_ids=(B,))


def test_counting_greedy_completions_is_refused():
    with pytest.raises(ValueError, match="greedy completions are all the same"):
        sample_counts(llama(), PROMPT, SamplingConfig(2, greedy=True), 5, seeded())
