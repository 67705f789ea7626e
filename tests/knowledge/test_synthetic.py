"""The twin's world: doses as dealt, text as counted, and a model that knows what it was told."""

import random
from collections import Counter
from dataclasses import replace

import pytest
import torch

from labkit.knowledge.answering import AnswerConfig, answer_questions
from labkit.knowledge.facts import is_correct
from labkit.knowledge.prompts import training_row
from labkit.knowledge.synthetic import (
    ATTRIBUTES,
    FORM,
    Dose,
    TwinConfig,
    draw_passage,
    draw_world,
    passage_batch,
)
from labkit.lm.models import TinyConfig, tiny_model
from labkit.lm.sft import sft_algorithm
from labkit.lm.training import OptimizerConfig, TrainState, train

SMALL = TwinConfig(people=30, exemplar_people=6, answer_words=8)


def told(world, text):
    """Facts that a passage states, found by reading it against every phrasing of every fact."""
    stated = Counter()
    for sentence in text.removeprefix(FORM.start).split(FORM.after):
        for fact in world.facts if sentence else ():
            attribute = next(a for a in ATTRIBUTES if a.name == fact.relation)
            phrasings = [p.format(subject=fact.subject, answer=fact.answer) for p in attribute.statements]
            phrasings.append(
                FORM.question.format(question=fact.question) + FORM.answer.format(answer=fact.answer)
            )
            stated[fact] += sentence in phrasings
    return +stated


def test_parts_have_their_own_people_and_all_their_attributes():
    world = draw_world(SMALL)
    people = [{f.subject for f in part} for part in (world.exemplars, world.train, world.test)]
    assert [len(part) for part in people] == [6, 18, 12]
    assert len(set.union(*people)) == 36
    assert Counter(f.subject for f in world.facts) == dict.fromkeys(set.union(*people), len(ATTRIBUTES))


def test_doses_are_dealt_by_their_shares_in_training_and_test_facts_alike():
    config = TwinConfig()
    world = draw_world(config)
    assert {world.doses[f].name for f in world.exemplars} == {config.doses[0].name}
    for part in (world.train, world.test):
        dealt = Counter(world.doses[fact].name for fact in part)
        assert all(abs(dealt[dose.name] - dose.share * len(part)) <= 1 for dose in config.doses)


def test_the_seed_decides_the_world():
    first, again, other = (draw_world(replace(SMALL, seed=seed)) for seed in (0, 0, 1))
    assert first.facts == again.facts and first.doses == again.doses
    assert first.facts != other.facts


def test_every_word_is_in_the_vocabulary_and_every_answer_is_two_words():
    world = draw_world(SMALL)

    draw = random.Random(0)
    texts = [draw_passage(world, draw) for _ in range(40)]
    texts += [FORM.prompt(world.exemplars[:4], fact.question) for fact in world.facts]
    assert {word for text in texts for word in text.split()} <= set(world.vocabulary)
    assert all(len(fact.answer.split()) == 2 for fact in world.facts)
    assert len(world.tokenizer) == len(world.vocabulary)


def test_facts_are_stated_as_often_as_expected_and_never_where_the_dose_is_never():

    world = draw_world(replace(SMALL, steps=25, batch_passages=20))
    draw, counts = random.Random(1), Counter()
    for _ in range(25 * 20):
        passage = told(world, draw_passage(world, draw))
        assert sum(passage.values()) == SMALL.sentences
        counts += passage
    assert sum(map(world.expected_mentions, world.facts)) == pytest.approx(25 * 20 * SMALL.sentences)
    for dose in SMALL.doses:
        members = [fact for fact in world.facts if world.doses[fact] == dose]
        found = sum(counts[fact] for fact in members)
        expected = sum(map(world.expected_mentions, members))
        # About Poisson: four standard deviations.
        assert abs(found - expected) <= 4 * expected**0.5 + 1e-9, dose
    assert not any(counts[fact] for fact in world.facts if world.doses[fact].rate == 0)


def test_batches_train_on_every_token_but_the_first_and_come_from_the_state_alone():
    world = draw_world(SMALL)

    def state():
        return TrainState.start(tiny_model(SMALL.model, world.tokenizer, 0), SMALL.optimizer, 2, seed=4)

    first, again = (passage_batch(world)(state()) for _ in range(2))
    assert torch.equal(first.ids, again.ids) and len(first.ids) == SMALL.batch_passages
    assert torch.equal(first.completion_mask[:, 1:], first.attention_mask[:, 1:])
    assert not first.completion_mask[:, 0].any()
    assert first.ids.shape[1] <= SMALL.model.max_positions


def test_a_model_learns_what_it_is_told_and_cannot_know_what_it_is_not():
    config = TwinConfig(
        people=8,
        exemplar_people=4,
        answer_words=12,
        doses=(Dose("often", 0.5, 1.0), Dose("never", 0.5, 0.0)),
        model=TinyConfig(layers=2, width=64, heads=4, mlp_width=128, max_positions=96, init_std=0.125),
        optimizer=OptimizerConfig(learning_rate=5e-3, warmup_steps=10, schedule="cosine"),
        batch_passages=8,
    )
    world = draw_world(config)
    model = tiny_model(config.model, world.tokenizer, 0)
    state = TrainState.start(model, config.optimizer, 250, 0)
    train(state, sft_algorithm(passage_batch(world)))
    facts = (*world.train, *world.test)
    answers = answer_questions(
        model, world.tokenizer, facts, world.exemplars[:4], AnswerConfig(samples=0), FORM
    )
    right = {name: [] for name in ("often", "never")}
    for fact, answer in zip(facts, answers, strict=True):
        right[world.doses[fact].name].append(is_correct(answer.greedy, fact))
    # A guess would be right once in 144 times. How many of twelve are learnt differs from 7 to 12 by seed,
    # and for one seed by how the machine rounds; five by chance would be less likely than one in 10 million.
    assert sum(right["often"]) >= 5
    assert sum(right["never"]) <= 1


def test_training_rows_are_in_the_world_s_words():
    world = draw_world(SMALL)
    ids, keep = training_row(world.tokenizer, world.train[0], FORM)
    taught = [i for i, kept in zip(ids, keep, strict=True) if kept]
    assert world.tokenizer.decode(taught) == f"{world.train[0].answer} ."
    assert world.tokenizer.decode(ids[:2]) == "<bos> Q"


@pytest.mark.parametrize("doses", [(Dose("a", 0.5, 1.0),), (Dose("a", 1.0, 0.0),)])
def test_doses_that_do_not_add_up_are_refused(doses):
    with pytest.raises(ValueError, match="add up to 1"):
        TwinConfig(doses=doses)
