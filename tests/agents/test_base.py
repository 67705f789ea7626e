"""The base: its record, resuming, the reading test, and the accuracy on models whose answers are known."""

import json
import math
import random
from collections import Counter
from dataclasses import replace
from types import SimpleNamespace

import pytest
import torch

from labkit.agents import base
from labkit.agents.base import ReactBaseConfig, lesson, make_base, next_batch, reading_accuracy, reading_test
from labkit.agents.reading import prompt
from labkit.agents.words import tokenizer, vocabulary
from labkit.lm.models import TinyConfig, load_model, num_parameters, tiny_model
from labkit.lm.training import TrainState
from labkit.studies import COMMANDS

SMALL = ReactBaseConfig(
    model=TinyConfig(layers=1, width=16, heads=2, mlp_width=16, max_positions=1024),
    steps=4,
    batch_size=3,
    length=64,
    test_questions=1,
)


def test_the_base_has_less_than_a_million_parameters():
    config = ReactBaseConfig().model
    assert num_parameters(tiny_model(config, tokenizer(), 0)) <= 1_000_000
    assert config.max_positions == 1024


def test_a_batch_trains_on_answers_and_repeats_with_the_seed():
    state = SimpleNamespace(python_random=lambda: random.Random(7), step=3)
    batch, again = (next_batch(state, SMALL, tokenizer()) for _ in range(2))
    assert torch.equal(batch.ids, again.ids) and batch.ids.shape[0] == SMALL.batch_size
    answer, eos = vocabulary().index("<answer>"), tokenizer().eos_token_id
    for ids, keep in zip(batch.ids.tolist(), batch.completion_mask.tolist(), strict=True):
        inside = False
        for token, kept in zip(ids, keep, strict=True):
            assert kept == inside
            inside = (inside or token == answer) and not (inside and token == eos)


def test_lessons_go_from_short_scenes_of_phones_to_all():
    config = ReactBaseConfig(steps=100, first_longest=40, last_longest=140, first_craft_share=0.1)
    lessons = [lesson(step, config) for step in (0, 25, 49, 50, 99)]
    assert [given["longest"] for given in lessons] == [40, 90, 138, math.inf, math.inf]
    assert [given["craft_share"] for given in lessons] == pytest.approx([0.1, 0.3, 0.492, 0.5, 0.5])
    state = SimpleNamespace(python_random=lambda: random.Random(7), step=0)
    tight = next_batch(state, replace(config, length=1, batch_size=40), tokenizer())
    ask = vocabulary().index("<ask>")
    assert all(row.index(ask) <= 40 for row in tight.ids.tolist())
    books = (tight.ids == vocabulary().index("recipes")).any(-1).float().mean()
    assert books < 0.35


def test_what_is_written_can_be_loaded_and_says_how_well_it_reads(tmp_path):
    accuracy = make_base(SMALL, tmp_path)
    model, words = load_model(tmp_path)
    record = json.loads((tmp_path / "base.json").read_text())
    assert record["reading_accuracy"] == accuracy == reading_accuracy(model, words, reading_test(1))
    assert record["command"] == "python -m labkit run react-base --profile full"
    assert len(record["loss"]) == 4 and record["parameters"] == num_parameters(model)
    assert record["config"]["batch_size"] == 3
    assert words.get_vocab() == {word: i for i, word in enumerate(vocabulary())}


def test_an_interrupted_run_continues_to_the_same_base(tmp_path, monkeypatch):
    config = replace(SMALL, steps=102, length=24, batch_size=1)
    make_base(config, tmp_path / "whole")
    draw, seen = base.next_batch, []

    def interrupted(state, *rest):
        seen.append(state.step)
        if seen.count(101) == 1 and state.step == 101:
            raise KeyboardInterrupt
        return draw(state, *rest)

    monkeypatch.setattr(base, "next_batch", interrupted)
    checkpoint = tmp_path / "unfinished.pt"
    with pytest.raises(KeyboardInterrupt):
        make_base(config, tmp_path / "parts", checkpoint)
    assert checkpoint.exists()
    make_base(config, tmp_path / "parts", checkpoint)
    assert seen == [*range(102), 100, 101] and not checkpoint.exists()
    for file in ("base.json", "model.safetensors"):
        assert (tmp_path / "whole" / file).read_bytes() == (tmp_path / "parts" / file).read_bytes()


def test_the_reading_test_has_as_many_questions_of_each_kind_and_is_fixed():
    items = reading_test(5)
    counts = Counter(question.kind for _, question in items)
    assert len(counts) == 15 and set(counts.values()) == {5}
    assert items == reading_test(5) and items != reading_test(5, seed=1)


def test_accuracy_is_exact_match_of_the_whole_answer(monkeypatch):
    """With `sample` replaced by one that knows the answers, and errs on purpose for some kinds."""
    items, words = reading_test(4), tokenizer()
    ids = words.get_vocab()
    answers = {tuple(ids[w] for w in prompt(*item)): item[1] for item in items}

    def fake(model, prompts, config):
        written = []
        for row in prompts:
            question = answers[tuple(row)]
            answer = [*(ids[w] for w in question.answer.split()), words.eos_token_id]
            if question.kind == "craft needs":
                answer = answer[:-1]  # right so far, but it does not stop
            if question.kind == "phone here":
                answer[0] = ids["<obs>"]
            written.append(answer)
        return SimpleNamespace(completions=lambda: written)

    monkeypatch.setattr(base, "sample", fake)
    accuracy = reading_accuracy(None, words, items, batch_size=7)
    assert {kind for kind, share in accuracy.items() if share == 0} == {"craft needs", "phone here"}
    assert all(share in (0, 1) for share in accuracy.values()) and len(accuracy) == 15


def test_the_command_makes_a_small_one_in_the_cache(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("LABKIT_CACHE", str(tmp_path))
    COMMANDS["react-base"]("smoke")
    assert (tmp_path / "react-base" / "base.json").exists()
    assert "phone offers" in capsys.readouterr().out


def test_training_starts_from_the_seed():
    states = [
        TrainState.start(tiny_model(SMALL.model, tokenizer(), 0), SMALL.optimizer, 1, s) for s in (0, 0, 1)
    ]
    first, same, other = (next_batch(state, SMALL, tokenizer()).ids for state in states)
    assert torch.equal(first, same) and not torch.equal(first, other)
