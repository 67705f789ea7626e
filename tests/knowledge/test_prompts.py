"""What a model reads, and what it is trained on."""

from labkit.knowledge.facts import Fact, make_fact
from labkit.knowledge.prompts import DONT_KNOW, QA, draw_shots, end_tokens, training_batch, training_row
from tests import tiny
from tests.knowledge.small import FACTS, FORM, SHOTS

TOKENIZER = tiny.tokenizer()


def test_a_few_shot_prompt_word_by_word():
    shots = [make_fact("capital", "France", ["Paris"]), make_fact("capital", "Ukraine", ["Kyiv", "Kiev"])]
    assert QA.prompt(shots, "What is the capital of Mali?") == (
        "Q: What is the capital of France?\nA: Paris\n\n"
        "Q: What is the capital of Ukraine?\nA: Kyiv\n\n"
        "Q: What is the capital of Mali?\nA:"
    )
    assert FORM.prompt(SHOTS[:1], "a b") == "<bos> c d b e a b d"


def test_only_the_answer_and_its_end_are_trained_on():
    ids, keep = training_row(TOKENIZER, FACTS[1], FORM)
    assert TOKENIZER.decode(ids) == "<bos> b d a c e"
    assert TOKENIZER.decode([i for i, k in zip(ids, keep, strict=True) if k]) == "a c e"


def test_what_is_trained_on_is_what_is_asked_for():
    # Asked without examples, a model that was fitted reads exactly the prompt of its training row.
    for fact in FACTS:
        ids, keep = training_row(TOKENIZER, fact, FORM)
        asked = TOKENIZER(FORM.prompt((), fact.question), add_special_tokens=False)["input_ids"]
        assert ids[: keep.count(False)] == asked
        assert ids[-1] in end_tokens(TOKENIZER, FORM.end)


def test_a_batch_may_teach_other_answers():
    batch = training_batch(TOKENIZER, FACTS[:2], FORM, [None, "d d"])
    kept = [TOKENIZER.decode(ids[keep]) for ids, keep in zip(batch.ids, batch.completion_mask, strict=True)]
    assert kept == ["c e", "d d e"]
    assert not (batch.completion_mask & ~batch.attention_mask).any()
    assert QA.taught(DONT_KNOW) == " I don't know\n\n"


def test_shots_come_from_the_relation_asked_about():
    pool = [Fact(r, f"{r}{i}", f"{r} {i}", ("x",)) for r in "uv" for i in range(6)]
    assert {f.relation for shots in draw_shots(pool, "v", 5, 4, 0) for f in shots} == {"v"}
