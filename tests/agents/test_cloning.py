"""Behaviour cloning: whose episodes, which tokens, equal shares, and that it learns."""

from dataclasses import replace

import pytest

from labkit.agents.cloning import (
    PHONE_PARTS,
    CloningConfig,
    craft_demonstrations,
    demonstrations,
    phone_demonstrations,
    phone_tasks,
    start_cloning,
)
from labkit.agents.history import History
from labkit.agents.words import ACT, OBS, THINK, tokenizer
from labkit.envs.craft.env import CraftWorld
from labkit.envs.phone.env import PhoneWorld
from labkit.lm import sft
from labkit.lm.models import TinyConfig, tiny_model
from labkit.lm.training import OptimizerConfig, train

WORDS = tokenizer()
SMALL = CloningConfig(phone_demonstrations=3, craft_demonstrations=3, updates=3, steps_per_update=12)
HISTORIES = [History(), History(thoughts=False), History("none"), History("window"), History("summary")]


def model():
    return tiny_model(TinyConfig(1, 32, 2, 48, 1024), WORDS, 0)


def batches(monkeypatch, config, parts):
    """The batches that three updates train on."""
    seen = []
    original = sft.sft_loss_sum
    monkeypatch.setattr(sft, "sft_loss_sum", lambda m, batch: seen.append(batch) or original(m, batch))
    train(*start_cloning(model(), WORDS, config, parts, seed=0))
    return seen


def test_no_task_is_both_demonstrated_and_measured():
    parts = {name: {(t.goal, t.airplane) for t in phone_tasks(name)} for name in PHONE_PARTS}
    assert {name: len(tasks) for name, tasks in parts.items()} == PHONE_PARTS
    assert not parts["demonstrations"] & (parts["validation"] | parts["test"])
    assert not parts["validation"] & parts["test"]


def test_demonstrations_succeed_think_and_hang_on_the_seed():
    for make, world in ((phone_demonstrations, PhoneWorld), (craft_demonstrations, CraftWorld)):
        episodes = make(4, seed=1)
        assert all(t.success and all(s.thought and not s.failures for s in t.steps) for t in episodes)
        assert episodes == make(4, seed=1) != make(4, seed=2)
        assert len({str(world.pack_task(world.unpack_task(t.task))) for t in episodes}) == 4


def test_more_demonstrations_than_tasks_are_refused():
    with pytest.raises(ValueError, match="96 demonstrations asked for; there are tasks for 0 to 95"):
        phone_demonstrations(96, seed=0)


def test_who_only_acts_is_shown_no_thought():
    for part in demonstrations(replace(SMALL, thoughts=False), seed=0):
        assert part and not any(step.thought for t in part for step in t.steps)


@pytest.mark.parametrize("history", HISTORIES, ids=lambda h: f"{h.kind}-{h.thoughts}")
def test_every_update_trains_on_as_many_steps_of_each_world(monkeypatch, history):
    config = replace(SMALL, history=history)
    seen = batches(monkeypatch, config, demonstrations(config, 0))
    names = WORDS.convert_ids_to_tokens(list(range(len(WORDS))))
    steps = {"craft": 0, "phone": 0}
    for batch in seen:
        for ids, keep in zip(batch.ids, batch.completion_mask, strict=True):
            words = [names[i] for i in ids]
            kept = [w for w, k in zip(words, keep.tolist(), strict=True) if k]
            assert OBS not in kept and kept.count(THINK) == kept.count(ACT) == kept.count("<eos>")
            steps["craft" if "recipes" in words else "phone"] += kept.count(ACT)
    whole = history.kind == "full" and history.thoughts
    longest = max(len(t.steps) for part in demonstrations(config, 0) for t in part)
    for count in steps.values():
        # Whole episodes overshoot by less than one of them, single steps not at all.
        assert 3 * 6 <= count < 3 * (6 + longest if whole else 7)


def test_a_world_without_demonstrations_is_left_out_and_none_at_all_is_an_error():
    parts = ([], craft_demonstrations(2, 0))
    state, algorithm = start_cloning(model(), WORDS, SMALL, parts, seed=0)
    assert algorithm(state)["loss"] > 0
    with pytest.raises(ValueError, match="no demonstration to learn from"):
        start_cloning(model(), WORDS, SMALL, ([], []), seed=0)


def test_it_learns_what_it_is_shown():
    config = replace(
        SMALL,
        craft_demonstrations=0,
        phone_demonstrations=2,
        updates=60,
        optimizer=OptimizerConfig(learning_rate=1e-2),
    )
    state, algorithm = start_cloning(model(), WORDS, config, demonstrations(config, 0), seed=0)
    train(state, algorithm)
    losses = [row["loss"] for row in state.history]
    assert losses[-1] < 0.3 * losses[0]
