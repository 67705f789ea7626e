"""Knowledge categories (SliCK, Gekhman et al. 2024, arXiv 2405.05904): how well a model knows a fact.

P_Correct(q, a; M, T) is the share of right answers over several random few-shot prompts: one greedy answer to
each (T = 0), and several samples (T > 0). A fact is then HighlyKnown, MaybeKnown, WeaklyKnown or Unknown.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from enum import StrEnum
from pathlib import Path

import pandas as pd
from tqdm.auto import tqdm
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from labkit.files import atomic_write_text
from labkit.knowledge.answering import AnswerConfig, answer_questions
from labkit.knowledge.facts import Fact, is_correct
from labkit.knowledge.prompts import QA, PromptForm, check_apart, draw_shots

VERSION = 1
"""Raised when what is computed changes, so that stored results of an older one are not taken for it."""


class Category(StrEnum):
    """How well a fact is known, the best first."""

    HIGHLY_KNOWN = "HighlyKnown"
    """The greedy answer is right after every prompt."""
    MAYBE_KNOWN = "MaybeKnown"
    """The greedy answer is right after some prompts."""
    WEAKLY_KNOWN = "WeaklyKnown"
    """The greedy answer never is, a sampled one sometimes."""
    UNKNOWN = "Unknown"
    """No answer is ever right."""


CATEGORIES = tuple(Category)
KNOWN = CATEGORIES[:3]


def category(greedy_correct: int, sampled_correct: int, prompts: int = 10) -> Category:
    """Category of a fact with `greedy_correct` right greedy answers of `prompts`, and `sampled_correct` right
    sampled ones.

    Raises `ValueError` for counts that cannot be.
    """
    if prompts < 1 or not 0 <= greedy_correct <= prompts or sampled_correct < 0:
        raise ValueError(
            f"{greedy_correct} right greedy answers to {prompts} prompts, {sampled_correct} right samples: "
            "accepted are at least one prompt, at most one greedy answer to each, and no negative counts"
        )
    if greedy_correct == prompts:
        return Category.HIGHLY_KNOWN
    if greedy_correct > 0:
        return Category.MAYBE_KNOWN
    return Category.WEAKLY_KNOWN if sampled_correct > 0 else Category.UNKNOWN


@dataclass(frozen=True)
class CategoryConfig:
    """How facts are categorised (the defaults are the paper's)."""

    prompts: int = 10
    """Random few-shot prompts of each relation."""
    shots: int = 4
    """Examples in each."""
    answers: AnswerConfig = field(default_factory=AnswerConfig)
    """How answers are drawn."""
    seed: int = 0
    """Which examples; the samples have `answers.seed`."""
    batch_facts: int = 48
    """Facts that are asked at a time, and written when done. Changes no result beyond rounding."""


@dataclass(frozen=True)
class Knowledge:
    """What a model answered to one question after several prompts."""

    fact: Fact
    greedy: tuple[bool, ...]
    """Whether the greedy answer was right, prompt by prompt."""
    sampled: tuple[int, ...]
    """How many samples were right, prompt by prompt."""
    samples: int
    """Samples a prompt."""

    @property
    def p_greedy(self) -> float:
        """P_Correct at T = 0."""
        return sum(self.greedy) / len(self.greedy)

    @property
    def p_sampled(self) -> float:
        """P_Correct at T > 0; NaN without samples."""
        return sum(self.sampled) / (len(self.sampled) * self.samples) if self.samples else float("nan")

    @property
    def category(self) -> Category:
        """The fact's category."""
        return category(sum(self.greedy), sum(self.sampled), len(self.greedy))


def categorise(
    model: PreTrainedModel,
    tokenizer: PreTrainedTokenizerBase,
    facts: Sequence[Fact],
    exemplars: Sequence[Fact],
    config: CategoryConfig = CategoryConfig(),
    form: PromptForm = QA,
    *,
    folder: Path | None = None,
    progress: bool = True,
) -> list[Knowledge]:
    """Ask for each fact, with examples of its relation; results in the order of `facts`.

    With `folder`, each batch of facts is written there when done and read when met again, so that an
    interrupted run goes on where it stopped. What is stored is found by the model's weights, the prompts and
    everything else that the result depends on.

    Raises `ValueError` if exemplars and facts share a subject of a relation, or exemplars are too few.
    """
    check_apart(facts, exemplars)
    relations = list(dict.fromkeys(fact.relation for fact in facts))
    shots = {r: draw_shots(exemplars, r, config.prompts, config.shots, config.seed) for r in relations}
    mark = fingerprint(model) if folder is not None else ""
    results: dict[Fact, Knowledge] = {}
    with tqdm(total=len(facts) * config.prompts, desc="asking", unit="question", disable=not progress) as bar:
        for relation in relations:
            members = list(dict.fromkeys(fact for fact in facts if fact.relation == relation))
            for start in range(0, len(members), config.batch_facts):
                batch = members[start : start + config.batch_facts]
                path = None
                if folder is not None:
                    path = (
                        Path(folder)
                        / f"{relation}-{_digest(mark, batch, shots[relation], config, form)}.json"
                    )
                counts = _read(path) if path is not None else None
                if counts is None:
                    counts = _ask(model, tokenizer, batch, shots[relation], config, form, bar)
                    if path is not None:
                        atomic_write_text(path, json.dumps(counts))
                else:
                    bar.update(len(batch) * config.prompts)
                for fact, (greedy, sampled) in zip(batch, counts, strict=True):
                    right = tuple(map(bool, greedy))
                    results[fact] = Knowledge(fact, right, tuple(sampled), config.answers.samples)
    return [results[fact] for fact in facts]


Counts = list[tuple[list[int], list[int]]]
"""For each fact: right greedy answers and right samples, prompt by prompt."""


def _ask(
    model: PreTrainedModel,
    tokenizer: PreTrainedTokenizerBase,
    facts: Sequence[Fact],
    shots: Sequence[Sequence[Fact]],
    config: CategoryConfig,
    form: PromptForm,
    bar: tqdm,
) -> Counts:
    counts: Counts = [([], []) for _ in facts]
    for number, examples in enumerate(shots):
        answers = answer_questions(model, tokenizer, facts, examples, config.answers, form, number=number)
        for fact, answer, (greedy, sampled) in zip(facts, answers, counts, strict=True):
            greedy.append(int(is_correct(answer.greedy, fact)))
            sampled.append(sum(is_correct(text, fact) for text in answer.sampled))
        bar.update(len(facts))
    return counts


def fingerprint(model: PreTrainedModel) -> str:
    """A short name for a model's weights: other weights have another one, but for single changed numbers."""
    digest = hashlib.sha256()
    for name, parameter in model.state_dict().items():
        values = parameter.flatten()
        # Some numbers of each tensor tell models apart that differ by training, in a hundredth of the time.
        sample = values[:: max(1, len(values) // 4096)].float().cpu().numpy()
        digest.update(f"{name} {tuple(parameter.shape)} {parameter.dtype}".encode() + sample.tobytes())
    return digest.hexdigest()[:16]


def _digest(
    mark: str,
    facts: Sequence[Fact],
    shots: Sequence[Sequence[Fact]],
    config: CategoryConfig,
    form: PromptForm,
) -> str:
    about = [
        VERSION,
        mark,
        [asdict(f) for f in facts],
        [[asdict(s) for s in p] for p in shots],
        asdict(config),
    ]
    return hashlib.sha256(json.dumps([*about, asdict(form)], sort_keys=True).encode()).hexdigest()[:16]


def _read(path: Path) -> Counts | None:
    """What was stored, or None if there is nothing that can be read."""
    try:
        return [
            (list(greedy), list(sampled)) for greedy, sampled in json.loads(path.read_text(encoding="utf-8"))
        ]
    except (OSError, ValueError, TypeError):
        return None


def knowledge_frame(found: Sequence[Knowledge]) -> pd.DataFrame:
    """One row a fact: relation, subject, answer, p_greedy, p_sampled, category."""
    columns = ["relation", "subject", "answer", "p_greedy", "p_sampled", "category"]
    rows = [
        (k.fact.relation, k.fact.subject, k.fact.answer, k.p_greedy, k.p_sampled, str(k.category))
        for k in found
    ]
    return pd.DataFrame(rows, columns=columns)


def agreement(first: Sequence[Knowledge], second: Sequence[Knowledge]) -> pd.DataFrame:
    """How many facts of each category (rows: `first`) have which category in `second` (columns), `[4, 4]`.

    For the same facts asked twice, with other examples. Raises `ValueError` if the facts differ.
    """
    other: Mapping[Fact, Knowledge] = {k.fact: k for k in second}
    if {k.fact for k in first} != set(other) or len(first) != len(second):
        raise ValueError("the two lists are about different facts; categorise the same ones twice")
    table = pd.DataFrame(0, index=list(map(str, CATEGORIES)), columns=list(map(str, CATEGORIES)))
    for k in first:
        table.loc[str(k.category), str(other[k.fact].category)] += 1
    return table


def share_kept(table: pd.DataFrame) -> float:
    """Share of facts that `agreement` finds in one category both times; NaN for no facts."""
    total = table.to_numpy().sum()
    return float(table.to_numpy().trace() / total) if total else float("nan")
