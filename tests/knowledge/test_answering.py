"""The tree of answers gives what plain decoding gives, question by question."""

import itertools
import math
from dataclasses import replace

import pytest
import torch
from transformers import TemperatureLogitsWarper, TopKLogitsWarper

from labkit.knowledge.answering import AnswerConfig, answer_questions
from labkit.knowledge.facts import is_correct
from labkit.knowledge.prompts import encode, end_tokens
from tests import tiny
from tests.knowledge.small import FACTS, FORM, SHOTS

TOKENIZER = tiny.tokenizer()
ENDS = [tiny.E, tiny.EOS]
FEW = AnswerConfig(samples=6, max_new_tokens=5)
MODELS = {"llama": tiny.llama, "gpt2": tiny.gpt2}


def ask(model, facts=FACTS, shots=SHOTS, config=FEW, **options):
    return answer_questions(model, TOKENIZER, facts, shots, config, FORM, **options)


def plain_greedy(model, fact, shots, max_new_tokens):
    """transformers' own greedy decoding of one prompt."""
    ids = torch.tensor([encode(TOKENIZER, FORM.prompt(shots, fact.question))])
    out = model.generate(
        ids,
        attention_mask=torch.ones_like(ids),
        do_sample=False,
        max_new_tokens=max_new_tokens,
        eos_token_id=ENDS,
        pad_token_id=tiny.PAD,
    )
    return TOKENIZER.decode(out[0, ids.shape[1] :], skip_special_tokens=True).split("e")[0]


@pytest.mark.parametrize("shots", [(), SHOTS], ids=["no examples", "two examples"])
@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("seed", range(3))
def test_greedy_answers_are_those_of_generate(name, seed, shots):
    model = MODELS[name](seed)
    answers = ask(model, shots=shots, finish=True)
    assert [a.greedy for a in answers] == [plain_greedy(model, fact, shots, 5) for fact in FACTS]


@torch.no_grad()
def exact_probability(model, fact, config):
    """P(a sample is right), by going through every answer; transformers' warpers on whole forward passes."""
    prompt = encode(TOKENIZER, FORM.prompt(SHOTS, fact.question))
    warpers = (TemperatureLogitsWarper(config.temperature), TopKLogitsWarper(config.top_k))

    def go(ids):
        if len(ids) == config.max_new_tokens or (ids and ids[-1] in ENDS):
            text = TOKENIZER.decode(ids, skip_special_tokens=True).split("e")[0]
            return float(is_correct(text, fact))
        logits = model(torch.tensor([prompt + ids])).logits[:, -1]
        for warper in warpers:
            logits = warper(None, logits)
        return sum(p * go([*ids, t]) for t, p in enumerate(logits.softmax(-1)[0].tolist()) if p > 0)

    return go([])


def test_samples_are_right_as_often_as_the_model_says():
    model = tiny.llama(1, sharpness=6.0)
    config = AnswerConfig(samples=4000, temperature=0.8, top_k=4, max_new_tokens=3)
    expected = [exact_probability(model, fact, config) for fact in FACTS]
    assert sum(0.05 < p < 0.95 for p in expected) >= 2, "a test of probabilities needs some that are open"
    for fact, answer, p in zip(FACTS, ask(model, config=config), expected, strict=True):
        found = sum(is_correct(text, fact) for text in answer.sampled) / config.samples
        assert abs(found - p) <= 4 * math.sqrt(p * (1 - p) / config.samples) + 1e-9, fact


@pytest.mark.parametrize("seed", range(4))
def test_giving_up_hopeless_answers_changes_no_verdict(seed):
    model = tiny.llama(seed, sharpness=6.0)
    config = AnswerConfig(samples=40, temperature=1.5, max_new_tokens=5)
    for fact, short, whole in zip(
        FACTS, ask(model, config=config), ask(model, config=config, finish=True), strict=True
    ):
        for given_up, finished in zip(
            (short.greedy, *short.sampled), (whole.greedy, *whole.sampled), strict=True
        ):
            assert is_correct(given_up, fact) == is_correct(finished, fact)
            assert finished.startswith(given_up)


def test_answers_do_not_depend_on_what_else_is_asked():
    model = tiny.llama(2, sharpness=6.0)
    config = AnswerConfig(samples=30, temperature=1.2, max_new_tokens=4)
    together = ask(model, config=config, finish=True)
    alone = [ask(model, [fact], config=config, finish=True)[0] for fact in FACTS]
    assert together == alone
    assert ask(model, FACTS[::-1], config=config, finish=True) == together[::-1]


def test_seed_and_number_of_the_prompt_decide_the_samples():
    model = tiny.llama(2, sharpness=2.0)
    config = AnswerConfig(samples=30, temperature=1.2, max_new_tokens=4)
    runs = [
        ask(model, config=replace(config, seed=seed), number=number, finish=True)
        for seed, number in itertools.product((0, 1), repeat=2)
    ]
    assert runs[0] == ask(model, config=config, finish=True)
    assert all(a != b for a, b in itertools.combinations(runs, 2))
    assert all(run[0].greedy == runs[0][0].greedy for run in runs)


def test_no_samples_and_no_questions():
    model = tiny.llama(0)
    assert [a.sampled for a in ask(model, config=AnswerConfig(samples=0))] == [()] * len(FACTS)
    assert ask(model, []) == []


def test_a_single_prompt_branches_at_its_last_token():
    # All prompts are equal: the common prefix must leave each a token of its own.
    model = tiny.llama(0)
    twice = ask(model, [FACTS[0], FACTS[0]], finish=True)
    assert twice[0] == twice[1] == ask(model, [FACTS[0]], finish=True)[0]


def test_dropout_is_off_while_asking_and_the_mode_is_kept():
    model = tiny.gpt2(0, dropout=0.5).train()
    first = ask(model, finish=True)
    assert model.training and ask(model, finish=True) == first
    assert first == ask(model.eval(), finish=True)


def test_an_end_that_no_token_holds_is_refused():
    with pytest.raises(ValueError, match="no token"):
        end_tokens(TOKENIZER, "\n")


@pytest.mark.parametrize("wrong", [{"samples": -1}, {"temperature": 0}, {"top_k": 0}, {"max_new_tokens": 0}])
def test_impossible_settings_are_refused(wrong):
    with pytest.raises(ValueError, match="accepted"):
        AnswerConfig(**wrong)
