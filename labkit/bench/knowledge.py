"""Asking SmolLM2 for facts: labkit's tree of answers against `generate`, on the same questions and prompts.

That both give the same greedy answers, and samples from one distribution, is tested in tests/knowledge.
"""

from __future__ import annotations

import time

import torch

from labkit.bench import benchmark
from labkit.knowledge.answering import AnswerConfig, answer_questions
from labkit.knowledge.facts import Fact, is_correct, load_facts, split_facts
from labkit.knowledge.prompts import QA, draw_shots, encode, end_tokens
from labkit.lm.pretrained import load_pretrained
from labkit.lm.runtime import configure

QUESTIONS, ASKED_PLAINLY = 48, 3
"""Questions a batch for us; `generate` takes each by itself, so a few tell its rate."""


@torch.no_grad()
def generated(model, tokenizer, fact: Fact, shots: tuple[Fact, ...], config: AnswerConfig) -> list[str]:
    """The obvious way: one call of `generate` for the greedy answer, one for the samples; all the answers."""
    prompt = torch.tensor([encode(tokenizer, QA.prompt(shots, fact.question))])
    common = {
        "attention_mask": torch.ones_like(prompt),
        "max_new_tokens": config.max_new_tokens,
        "eos_token_id": sorted(end_tokens(tokenizer, QA.end)),
        "pad_token_id": tokenizer.pad_token_id,
    }
    outputs = [*model.generate(prompt, do_sample=False, **common)]
    if config.samples:
        draw = {"temperature": config.temperature, "top_k": config.top_k, "top_p": 1.0}
        outputs += model.generate(
            prompt, do_sample=True, num_return_sequences=config.samples, **draw, **common
        )
    rows = [row[prompt.shape[1] :] for row in outputs]
    return [tokenizer.decode(row, skip_special_tokens=True).split(QA.end)[0] for row in rows]


@benchmark("knowledge_questions", unit="questions/s")
def knowledge_questions() -> tuple[float, float]:
    """Questions a second, each with its greedy answer and 16 samples judged, after one four-shot prompt."""
    configure()
    model, tokenizer = load_pretrained()
    split = split_facts(load_facts(["capital"]))
    facts = [*split.train, *split.test][:QUESTIONS]
    (shots,) = draw_shots(split.exemplars, "capital", num_prompts=1, shots=4, seed=0)
    config = AnswerConfig()
    # Once for nothing: the first passes through a model set up what later ones find.
    answer_questions(model, tokenizer, facts[:2], shots, config)
    generated(model, tokenizer, facts[0], shots, config)

    start = time.perf_counter()
    for fact, answers in zip(facts, answer_questions(model, tokenizer, facts, shots, config), strict=True):
        [is_correct(text, fact) for text in (answers.greedy, *answers.sampled)]
    ours = len(facts) / (time.perf_counter() - start)

    start = time.perf_counter()
    for fact in facts[:ASKED_PLAINLY]:
        [is_correct(text, fact) for text in generated(model, tokenizer, fact, shots, config)]
    return ours, ASKED_PLAINLY / (time.perf_counter() - start)
