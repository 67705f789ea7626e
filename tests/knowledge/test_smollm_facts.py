"""SmolLM2 asked about a few real facts, compared with `generate`; skipped where the model is not cached."""

from pathlib import Path

import platformdirs
import pytest
import torch

from labkit.bench.knowledge import generated
from labkit.knowledge.answering import AnswerConfig, answer_questions
from labkit.knowledge.facts import is_correct, load_facts, split_facts
from labkit.knowledge.prompts import draw_shots
from labkit.lm.pretrained import SMOLLM, load_pretrained

# Tests have a cache of their own, into which nothing is downloaded.
FOLDER = Path(platformdirs.user_cache_dir("labkit")) / "models" / SMOLLM
pytestmark = pytest.mark.skipif(not (FOLDER / "model.safetensors").exists(), reason="SmolLM2 is not cached")


def test_greedy_answers_are_those_of_generate_and_some_are_right():
    model, tokenizer = load_pretrained(FOLDER, torch.float32)
    split = split_facts(load_facts(["capital", "atomic_number"]))
    config = AnswerConfig(samples=0)
    right = []
    for relation in ("capital", "atomic_number"):
        facts = [f for f in split.train if f.relation == relation][:4]
        (shots,) = draw_shots(split.exemplars, relation, num_prompts=1, shots=4, seed=0)
        answers = answer_questions(model, tokenizer, facts, shots, config, finish=True)
        plain = [generated(model, tokenizer, fact, shots, config)[0] for fact in facts]
        assert [a.greedy for a in answers] == plain
        pruned = answer_questions(model, tokenizer, facts, shots, config)
        verdicts = [is_correct(text, fact) for text, fact in zip(plain, facts, strict=True)]
        assert [is_correct(a.greedy, fact) for a, fact in zip(pruned, facts, strict=True)] == verdicts
        right += verdicts
    assert 0 < sum(right) < len(right)
