"""Knowledge categories: their definition, and asking a model for them with interruptions."""

import itertools
import math
from dataclasses import replace

import pytest
import torch

from labkit.knowledge import categories
from labkit.knowledge.answering import AnswerConfig, answer_questions
from labkit.knowledge.categories import (
    CATEGORIES,
    Category,
    CategoryConfig,
    Knowledge,
    agreement,
    categorise,
    category,
    knowledge_frame,
    share_kept,
)
from labkit.knowledge.facts import Fact, is_correct
from labkit.knowledge.prompts import draw_shots
from tests import tiny
from tests.knowledge.small import FACTS, FORM

TOKENIZER = tiny.tokenizer()
EXEMPLARS = [
    Fact(relation, f"{relation}{i}", question, (answer,))
    for relation in "rs"
    for i, (question, answer) in enumerate(itertools.product(("a c", "c b", "a"), ("b", "c a")))
]
CONFIG = CategoryConfig(prompts=3, shots=2, answers=AnswerConfig(samples=5, max_new_tokens=4), batch_facts=2)


@pytest.mark.parametrize(
    ("greedy", "sampled", "expected"),
    [
        (10, 160, "HighlyKnown"),
        (10, 0, "HighlyKnown"),
        (9, 160, "MaybeKnown"),
        (1, 0, "MaybeKnown"),
        (0, 1, "WeaklyKnown"),
        (0, 160, "WeaklyKnown"),
        (0, 0, "Unknown"),
    ],
)
def test_the_paper_s_table(greedy, sampled, expected):
    assert category(greedy, sampled) == expected


@pytest.mark.parametrize("prompts", [1, 2, 10])
def test_each_outcome_has_one_category(prompts):
    for greedy, sampled in itertools.product(range(prompts + 1), range(4)):
        fits = {
            Category.HIGHLY_KNOWN: greedy == prompts,
            Category.MAYBE_KNOWN: 0 < greedy < prompts,
            Category.WEAKLY_KNOWN: greedy == 0 and sampled > 0,
            Category.UNKNOWN: greedy == 0 and sampled == 0,
        }
        assert [c for c, holds in fits.items() if holds] == [category(greedy, sampled, prompts)]


@pytest.mark.parametrize("counts", [(11, 0, 10), (-1, 0, 10), (0, -1, 10), (0, 0, 0)])
def test_counts_that_cannot_be_are_refused(counts):
    with pytest.raises(ValueError, match="accepted"):
        category(*counts)


def test_shares_of_right_answers():
    fact = FACTS[0]
    found = Knowledge(fact, (True, False, True, True), (4, 0, 2, 4), samples=4)
    assert (found.p_greedy, found.p_sampled, found.category) == (0.75, 0.625, "MaybeKnown")
    assert math.isnan(Knowledge(fact, (True,), (0,), samples=0).p_sampled)
    (row,) = knowledge_frame([found]).to_dict("records")
    assert row == {
        "relation": "r",
        "subject": "1",
        "answer": "c",
        "p_greedy": 0.75,
        "p_sampled": 0.625,
        "category": "MaybeKnown",
    }


def ask(model, facts=FACTS, exemplars=EXEMPLARS, config=CONFIG, **options):
    return categorise(model, TOKENIZER, facts, exemplars, config, FORM, progress=False, **options)


def test_each_fact_is_asked_after_every_prompt_of_its_own_relation():
    model = tiny.llama(2, sharpness=6.0)
    found = ask(model)
    assert [k.fact for k in found] == list(FACTS)
    for k in found:
        prompts = draw_shots(EXEMPLARS, k.fact.relation, 3, 2, CONFIG.seed)
        assert {shot.relation for shots in prompts for shot in shots} == {k.fact.relation}
        for number, shots in enumerate(prompts):
            (answers,) = answer_questions(
                model, TOKENIZER, [k.fact], shots, CONFIG.answers, FORM, number=number, finish=True
            )
            assert k.greedy[number] == is_correct(answers.greedy, k.fact)
            assert k.sampled[number] == sum(is_correct(text, k.fact) for text in answers.sampled)
    assert any(sum(k.sampled) for k in found) and len({k.category for k in found}) > 1


def test_prompts_are_random_examples_without_repeats_and_the_seed_decides():
    pool = [Fact("r", str(i), f"q{i}", ("x",)) for i in range(20)]
    prompts = draw_shots(pool, "r", 10, 4, seed=0)
    assert len(prompts) == 10 and all(len(set(shots)) == 4 for shots in prompts)
    assert len(set(prompts)) == 10
    assert prompts == draw_shots(pool, "r", 10, 4, seed=0) != draw_shots(pool, "r", 10, 4, seed=1)
    with pytest.raises(ValueError, match="3 exemplars .* 4 are needed"):
        draw_shots(pool[:3], "r", 10, 4, seed=0)


def test_an_exemplar_that_gives_an_answer_away_is_refused():
    with pytest.raises(ValueError, match="would hold an answer"):
        ask(tiny.llama(0), exemplars=[*EXEMPLARS, FACTS[0]])


class Counting:
    """`answer_questions`, counted, and stopped after some calls."""

    def __init__(self, stop_after=None):
        self.calls, self.stop_after = 0, stop_after

    def __call__(self, *args, **options):
        if self.calls == self.stop_after:
            raise KeyboardInterrupt
        self.calls += 1
        return answer_questions(*args, **options)


def test_an_interrupted_run_goes_on_where_it_stopped(tmp_path, monkeypatch):
    model = tiny.llama(2, sharpness=6.0)
    whole = ask(model)
    # Batches: facts 1 and 2, 3 and 4, and 5 of the other relation; three prompts each.
    monkeypatch.setattr(categories, "answer_questions", Counting(stop_after=5))
    with pytest.raises(KeyboardInterrupt):
        ask(model, folder=tmp_path)
    assert len(list(tmp_path.iterdir())) == 1
    rest = Counting()
    monkeypatch.setattr(categories, "answer_questions", rest)
    assert ask(model, folder=tmp_path) == whole
    assert rest.calls == 6
    assert ask(model, folder=tmp_path) == whole and rest.calls == 6


def test_a_damaged_file_is_made_again(tmp_path):
    model = tiny.llama(2, sharpness=6.0)
    whole = ask(model, folder=tmp_path)
    for number, path in enumerate(sorted(tmp_path.iterdir())):
        path.write_text(("", "[[1]]", '{"a": 1}')[number])
    assert ask(model, folder=tmp_path) == whole


@pytest.mark.parametrize("what", ["weights", "examples", "samples", "form"])
def test_what_is_stored_serves_nothing_else(tmp_path, monkeypatch, what):

    model, config, form = tiny.llama(2, sharpness=6.0), CONFIG, FORM
    ask(model, folder=tmp_path)
    counting = Counting()
    monkeypatch.setattr(categories, "answer_questions", counting)
    if what == "weights":
        with torch.no_grad():
            model.model.layers[0].mlp.up_proj.weight.mul_(1.01)
    elif what == "examples":
        config = replace(config, seed=1)
    elif what == "samples":
        config = replace(config, answers=replace(config.answers, seed=1))
    else:
        form = replace(form, start="")
    categorise(model, TOKENIZER, FACTS, EXEMPLARS, config, form, progress=False, folder=tmp_path)
    assert counting.calls == 9


def known(fact, name):
    greedy, sampled = {
        "HighlyKnown": ((True, True), (1, 1)),
        "MaybeKnown": ((True, False), (1, 1)),
        "WeaklyKnown": ((False, False), (0, 1)),
        "Unknown": ((False, False), (0, 0)),
    }[name]
    return Knowledge(fact, greedy, sampled, samples=4)


def test_agreement_counts_pairs_of_categories():
    names = [str(c) for c in CATEGORIES]
    first = [known(f, name) for f, name in zip(FACTS, ["Unknown", *names], strict=True)]
    second = [known(f, name) for f, name in zip(FACTS, ["WeaklyKnown", *names], strict=True)]
    table = agreement(first, second[::-1])
    assert table.loc["Unknown"].to_dict() == dict(zip(names, [0, 0, 1, 1], strict=True))
    assert table.loc["WeaklyKnown", "Unknown"] == 0
    assert table.to_numpy().sum() == 5 and share_kept(table) == pytest.approx(0.8)
    assert math.isnan(share_kept(agreement([], [])))
    with pytest.raises(ValueError, match="different facts"):
        agreement(first, second[:4])
