"""What agents are measured on and how: disjoint sets, and numbers counted by hand."""

from __future__ import annotations

from dataclasses import replace

import pytest

from labkit.agents.cloning import PHONE_STEPS, craft_demonstrations, phone_demonstrations
from labkit.agents.early import EarlyConfig, expert_episodes, start_early, world_model_data
from labkit.agents.evaluation import (
    BUDGETS,
    INSIDE,
    EvaluationSet,
    craft_sets,
    measure,
    moved_phones,
    outcome_accuracy,
    phone_sets,
    summary,
)
from labkit.agents.experience import branch_off, leaked_tasks
from labkit.agents.forms import WordForm
from labkit.agents.policies import NoisyExpert
from labkit.agents.words import tokenizer
from labkit.envs.craft.tasks import HELD_OUT
from labkit.envs.phone.env import PhoneWorld
from labkit.envs.phone.goals import load_tasks
from labkit.envs.phone.layout import STANDARD
from labkit.envs.trajectory import Step, Trajectory
from labkit.lm.models import TinyConfig, tiny_model
from labkit.lm.sampling import SamplingConfig, sample
from labkit.lm.training import OptimizerConfig, train

WORDS = tokenizer()
FORM = WordForm(WORDS)
MOST = 500
PHONE = {part: phone_sets(part, MOST) for part in ("validation", "test")}
CRAFT = {part: craft_sets(part, 60) for part in ("validation", "test")}
DEMONSTRATED = [*phone_demonstrations(95, 0), *(t for s in range(3) for t in craft_demonstrations(40, s))]


def keys(found):
    """Tasks of a set as pairs of world and plain data, as text."""
    return {f"{found.world.id} {found.world.pack_task(task)}" for task in found.tasks}


@pytest.mark.parametrize("sets", [PHONE, CRAFT], ids=["phone", "craft"])
def test_no_task_is_in_two_sets_or_twice_in_one(sets):
    found = [one for part in sets.values() for one in part]
    assert [len(keys(one)) for one in found] == [len(one.tasks) for one in found]
    assert len(set().union(*map(keys, found))) == sum(len(one.tasks) for one in found)


@pytest.mark.parametrize("sets", [PHONE, CRAFT], ids=["phone", "craft"])
def test_no_task_that_is_measured_is_ever_demonstrated(sets):
    shown = {f"{t.world} {t.task}" for t in DEMONSTRATED}
    for found in (one for part in sets.values() for one in part):
        assert not keys(found) & shown
        held_back = [(found.world.id, found.world.pack_task(task)) for task in found.tasks]
        assert leaked_tasks(branch_off(DEMONSTRATED[::9], 1, 0), held_back) == 0


@pytest.mark.parametrize(
    "sets, outside",
    [(PHONE, ["other goals", "other phones"]), (CRAFT, ["other items", "deeper", "longer books"])],
    ids=["phone", "craft"],
)
def test_what_is_chosen_by_is_in_distribution_and_the_rest_is_seen_in_the_test_alone(sets, outside):
    assert [one.name for one in sets["validation"]] == [INSIDE]
    assert [one.name for one in sets["test"]] == [INSIDE, *outside]


def test_the_phones_sets_are_what_their_names_say():
    known = {task.goal for task in load_tasks("known_phone")}
    inside, goals, phones = PHONE["test"]
    for found in (*PHONE["validation"], inside):
        assert all(task.layout == STANDARD and task.goal in known for task in found.tasks)
    assert all(task.layout == STANDARD and task.goal not in known for task in goals.tasks)
    assert all(task.layout.entries != STANDARD.entries and task.goal in known for task in phones.tasks)
    assert all(task.layout.label == STANDARD.label for task in phones.tasks)


def test_the_crafting_sets_are_what_their_names_say():
    inside, items, deeper, longer = (one.tasks for one in CRAFT["test"])
    (validation,) = (one.tasks for one in CRAFT["validation"])
    shown = [CRAFT["test"][0].world.unpack_task(t.task) for t in DEMONSTRATED if "Craft" in t.world]
    depths, most = {task.depth for task in shown}, max(task.distractors for task in shown)
    for task in (*inside, *validation):
        assert task.origin not in HELD_OUT and task.depth in depths and task.distractors <= most
    assert all(task.origin in HELD_OUT for task in items)
    assert all(task.depth > max(depths) for task in deeper)
    assert all(task.distractors > most for task in longer)


@pytest.mark.parametrize("most", [1, 7])
def test_a_set_has_as_many_tasks_as_asked_for_the_same_ones_first(most):
    for small, large in zip(phone_sets("test", most), PHONE["test"], strict=True):
        assert small.tasks == large.tasks[:most] and len(small.tasks) == most
    for small, large in zip(craft_sets("test", most), CRAFT["test"], strict=True):
        assert small.tasks == large.tasks[:most] and len(small.tasks) == most


def test_few_other_phones_are_not_all_one_phone():
    assert len({str(task.layout) for task in moved_phones(12).tasks}) > 5
    assert moved_phones(12) == moved_phones(12)


def test_a_part_that_there_is_not_is_refused():
    with pytest.raises(ValueError, match="part 'train' is not one of validation, test"):
        craft_sets("train", 3)
    with pytest.raises(ValueError, match="part 'train'"):
        phone_sets("train", 3)
    with pytest.raises(ValueError, match="part 'demonstrations' is not one of validation, test"):
        phone_sets("demonstrations", 3)


def step(reward=0.0, failures=(), action="go"):
    return Step("o", "", action, reward, not failures, failures)


def episode(steps, terminated=False, truncated=False):
    return Trajectory(PhoneWorld.id, {}, "g", tuple(steps), "o", terminated, truncated)


def test_a_summary_counted_by_hand():
    episodes = [
        episode([step(), step(1.0)], terminated=True),
        episode([step(failures=("format",)), step(failures=("format",)), step(0.5), step(0.5)], True),
        episode([step(0.25)] + [step(failures=("repeated",))] * 4 + [step()], truncated=True),
        # Over by the world's own rules, but not because the goal held.
        episode([step(failures=("inadmissible", "repeated")), step(0.0)], terminated=True),
        episode([step(failures=("premature finish",), action="finish")]),
    ]
    expected = {
        "episodes": 5,
        "success": 2 / 5,
        "reward": 2.25 / 5,
        "steps": 15 / 5,
        "failure format": 1 / 5,
        "failure inadmissible": 1 / 5,
        "failure repeated": 2 / 5,
        "failure invented observation": 0.0,
        "failure premature finish": 1 / 5,
        "failure budget": 1 / 5,
        "within 2": 1 / 5,
        **{f"within {budget}": 2 / 5 for budget in BUDGETS if budget >= 4},
    }
    assert summary(episodes) == pytest.approx(expected)


def test_measuring_plays_each_task_of_each_set_within_the_budget():
    sets = [*phone_sets("test", 4), craft_sets("validation", 3)[0]]
    rows = measure(NoisyExpert(), sets)
    assert [(row["set"], row["episodes"], row["success"]) for row in rows] == [
        (one.name, len(one.tasks), 1.0) for one in sets
    ]
    short = EvaluationSet("short", PhoneWorld, 2, phone_sets("test", 12)[0].tasks)
    (row,) = measure(NoisyExpert(), [short])
    plans = [len(t.steps) for t in replace(short, max_steps=PHONE_STEPS).play(NoisyExpert())]
    assert row["success"] == row["within 2"] == sum(n <= 2 for n in plans) / 12
    assert row["failure budget"] == sum(n > 2 for n in plans) / 12 > 0
    assert row["steps"] == sum(min(n, 2) for n in plans) / 12


def test_measuring_is_decided_by_the_seed():
    sets = phone_sets("validation", 20)
    rows = [measure(NoisyExpert(0.8), sets, seed) for seed in (0, 0, 1)]
    assert rows[0] == rows[1] != rows[2]


@pytest.fixture(scope="module")
def half_trained():
    """A model that knows some next observations by heart, and triples."""
    config = EarlyConfig(
        method="iwm",
        k=2,
        updates=61,
        world_model_updates=60,
        steps_per_update=12,
        optimizer=OptimizerConfig(learning_rate=1e-2, warmup_steps=5),
    )
    shown = sorted(expert_episodes(config, 0), key=lambda d: len(d.steps))[:6]
    model = tiny_model(TinyConfig(1, 32, 2, 64, 512, 32**-0.5), WORDS, 0)
    state = train(*start_early(model, WORDS, config, 0, demonstrations=shown))
    return state.model, world_model_data(branch_off(shown, 3, 1), False, 0)


@pytest.mark.parametrize("batch_size", [1, 5, 32])
def test_accuracy_is_the_share_that_greedy_decoding_writes_word_for_word(half_trained, batch_size):
    model, triples = half_trained
    right = 0
    for triple in triples:
        text = f"<bos> {triple.goal}"
        for step in triple.steps:
            text += f" <obs> {step.observation} <act> {step.action} <eos>"
        told = sample(model, [FORM.ids(f"{text} <obs>")], SamplingConfig(40, greedy=True)).completions()[0]
        right += FORM.text(told).split() == [*triple.last_observation.split(), "<eos>"]
    assert 0.1 < right / len(triples) < 0.95
    assert outcome_accuracy(model, FORM, triples, batch_size) == right / len(triples)


def test_accuracy_leaves_the_model_as_it_was_and_needs_no_gradient(half_trained):
    model, triples = half_trained
    before = outcome_accuracy(model, FORM, triples[:4])
    model.train()
    assert outcome_accuracy(model, FORM, triples[:4]) == before
    assert model.training and all(p.grad is None for p in model.parameters())
    model.eval()
