"""Questions as text for a model: with examples before them, or with the answer to train on."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

from transformers import PreTrainedTokenizerBase

from labkit.knowledge.facts import Fact
from labkit.lm.sft import Batch, collate

DONT_KNOW = "I don't know"
"""What unknown facts are relabelled with in the paper's remedy."""


@dataclass(frozen=True)
class PromptForm:
    """How a question and its answer are written."""

    question: str = "Q: {question}\nA:"
    """Holds `{question}`; a model continues it with the answer."""
    answer: str = " {answer}"
    """Holds `{answer}`; follows the question."""
    after: str = "\n\n"
    """Follows an answer, before the next question of a few-shot prompt and at the end of a training row."""
    end: str = "\n"
    """The first token that holds this text ends an answer."""
    start: str = ""
    """Before the first question."""

    def prompt(self, shots: Sequence[Fact], question: str) -> str:
        """The question after some answered ones."""
        answered = [self.question.format(question=shot.question) + self.taught(shot.answer) for shot in shots]
        return self.start + "".join(answered) + self.question.format(question=question)

    def taught(self, answer: str) -> str:
        """What is to follow a question."""
        return self.answer.format(answer=answer) + self.after


QA = PromptForm()


def draw_shots(
    pool: Sequence[Fact], relation: str, num_prompts: int, shots: int, seed: int
) -> list[tuple[Fact, ...]]:
    """`num_prompts` random choices of `shots` examples of a relation, in random order.

    Raises `ValueError` if the pool has fewer than `shots` of them.
    """
    candidates = [fact for fact in pool if fact.relation == relation]
    if len(candidates) < shots:
        raise ValueError(
            f"{len(candidates)} exemplars of the relation {relation!r}; {shots} are needed for a prompt"
        )
    draw = random.Random(f"{seed} {relation}")
    return [tuple(draw.sample(candidates, shots)) for _ in range(num_prompts)]


def check_apart(facts: Sequence[Fact], exemplars: Sequence[Fact]) -> None:
    """Raise `ValueError` if an exemplar is about a subject that a question of its relation asks about.

    It would give the answer away. That subjects are apart across relations too is `split_facts`' work.
    """
    asked = {(fact.relation, fact.subject) for fact in facts}
    if shared := sorted({e.subject for e in exemplars if (e.relation, e.subject) in asked}):
        raise ValueError(
            f"{len(shared)} subjects are in exemplars and questions alike ({', '.join(shared[:3])}, ...): a "
            "prompt would hold an answer; take exemplars from `split_facts(...).exemplars`"
        )


def encode(tokenizer: PreTrainedTokenizerBase, text: str) -> list[int]:
    """Token ids of a text, without special tokens that the text does not name."""
    return tokenizer(text, add_special_tokens=False)["input_ids"]


@lru_cache(maxsize=8)
def end_tokens(tokenizer: PreTrainedTokenizerBase, end: str) -> frozenset[int]:
    """Tokens whose text holds `end`, and the end-of-sequence token.

    Raises `ValueError` if no single token holds it.
    """
    found = {
        i
        for i, text in enumerate(tokenizer.batch_decode([[i] for i in range(len(tokenizer))]))
        if end in text
    }
    if not found:
        raise ValueError(
            f"no token of this tokenizer holds {end!r}, so no answer would end; choose another end"
        )
    return frozenset(found | ({tokenizer.eos_token_id} - {None}))


def training_row(
    tokenizer: PreTrainedTokenizerBase, fact: Fact, form: PromptForm = QA, answer: str | None = None
) -> tuple[list[int], list[bool]]:
    """Ids of a question with its answer, and a mask that keeps the answer and its end.

    `answer` replaces the fact's own (`DONT_KNOW`, say).
    """
    prompt = encode(tokenizer, form.prompt((), fact.question))
    taught = encode(tokenizer, form.taught(fact.answer if answer is None else answer))
    return prompt + taught, [False] * len(prompt) + [True] * len(taught)


def training_batch(
    tokenizer: PreTrainedTokenizerBase,
    facts: Sequence[Fact],
    form: PromptForm = QA,
    answers: Sequence[str | None] | None = None,
) -> Batch:
    """Some facts as a batch for `labkit.lm.sft`; `answers` replace theirs where not None."""
    answers = [None] * len(facts) if answers is None else answers
    rows = [training_row(tokenizer, fact, form, answer) for fact, answer in zip(facts, answers, strict=True)]
    return collate(rows, tokenizer.pad_token_id)
