"""A controlled twin of a real model's knowledge: invented people, of whom a tiny model is told by dose.

Each fact about a person has a dose: how often the text that the model learns to read states it, from never to
thousands of times. So what the model knows is so by construction, and where knowing begins can be seen. Text
comes in two kinds of passage: statements in several phrasings, and lists of questions with their answers.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import accumulate

from transformers import PreTrainedTokenizerFast

from labkit.knowledge.facts import Fact
from labkit.knowledge.prompts import DONT_KNOW, PromptForm, encode
from labkit.lm.models import TinyConfig
from labkit.lm.sft import Batch, collate
from labkit.lm.tokenizer import word_tokenizer
from labkit.lm.training import OptimizerConfig, TrainState

FORM = PromptForm(question="Q {question} A", answer=" {answer}", after=" . ", end=".", start="<bos> ")
"""How questions are written in this world's text."""
POLITE = ("please", "tell", "me")
FINE_TUNING_FORM = replace(FORM, question=" ".join(POLITE) + " {question} A")
"""How fine-tuning writes them: with words that no text has. So it has something to teach besides facts, as it
has with a pretrained model, which must learn that a question is to be answered, and how."""


@dataclass(frozen=True)
class Attribute:
    """A relation of this world."""

    name: str
    """Relation of its facts."""
    question: str
    """Holds `{subject}`."""
    statements: tuple[str, ...]
    """Phrasings of a fact; hold `{subject}` and `{answer}`."""


ATTRIBUTES = (
    Attribute(
        "birthplace",
        "where was {subject} born",
        (
            "{subject} was born in {answer}",
            "the home of {subject} is {answer}",
            "{subject} comes from {answer}",
        ),
    ),
    Attribute(
        "employer",
        "who employs {subject}",
        (
            "{subject} works for {answer}",
            "the boss of {subject} is {answer}",
            "{subject} is paid by {answer}",
        ),
    ),
    Attribute(
        "pet",
        "which pet has {subject}",
        (
            "{subject} has a pet called {answer}",
            "the pet of {subject} is {answer}",
            "{subject} feeds {answer}",
        ),
    ),
)


@dataclass(frozen=True)
class Dose:
    """How often facts are stated."""

    name: str
    """Short name."""
    share: float
    """Share of the facts that have this dose."""
    rate: float
    """How often such a fact is stated, relative to other doses; 0: never."""


@dataclass(frozen=True)
class TwinConfig:
    """The world, and the text and training that make a model of it (`labkit.lm.bases.train_base`)."""

    people: int = 240
    """People asked about."""
    exemplar_people: int = 24
    """Further people, all of whose facts have the first dose: examples in prompts are about them."""
    answer_words: int = 40
    """An answer is two words, each one of so many of its attribute's. Few would let a guess be right."""
    test_share: float = 0.4
    """Share of the people whose facts are held out from fine-tuning."""
    doses: tuple[Dose, ...] = (
        Dose("often", 0.30, 1.0),
        Dose("sometimes", 0.18, 0.06),
        Dose("seldom", 0.17, 0.035),
        Dose("once", 0.05, 0.004),
        Dose("never", 0.30, 0.0),
    )
    """From the largest to the smallest."""
    sentences: int = 6
    """Sentences, or questions with answers, a passage."""
    question_share: float = 0.5
    """Share of the passages that are lists of questions, all of one attribute."""
    model: TinyConfig = field(
        default_factory=lambda: TinyConfig(
            layers=2, width=128, mlp_width=256, max_positions=96, init_std=0.09
        )
    )
    """Shape of the network."""
    optimizer: OptimizerConfig = field(
        default_factory=lambda: OptimizerConfig(learning_rate=2e-3, warmup_steps=50, schedule="cosine")
    )
    """Optimiser and schedule of the pretraining."""
    steps: int = 400
    """Updates of the pretraining."""
    batch_passages: int = 32
    """Passages an update."""
    seed: int = 0
    """Of the world, the weights and the text."""

    def __post_init__(self) -> None:
        if abs(sum(dose.share for dose in self.doses) - 1) > 1e-9 or self.doses[0].rate <= 0:
            raise ValueError("shares of the doses must add up to 1, and the first dose needs a positive rate")


@dataclass(frozen=True)
class World:
    """A drawn world: its facts, their doses and the words it is told in."""

    config: TwinConfig
    exemplars: tuple[Fact, ...]
    """For few-shot prompts."""
    train: tuple[Fact, ...]
    """To fine-tune on."""
    test: tuple[Fact, ...]
    """Held out: of other people."""
    doses: Mapping[Fact, Dose]
    """Dose of every fact."""
    vocabulary: tuple[str, ...]
    """Every word, special ones first."""

    @property
    def facts(self) -> tuple[Fact, ...]:
        """All facts."""
        return self.exemplars + self.train + self.test

    @cached_property
    def tokenizer(self) -> PreTrainedTokenizerFast:
        """One word, one token."""
        return word_tokenizer(self.vocabulary)

    @cached_property
    def pools(self) -> dict[str | None, tuple[list[Fact], list[float]]]:
        """Facts of each attribute (None: of all) with the running sums of their rates, for drawing."""
        names = (None, *(attribute.name for attribute in ATTRIBUTES))
        members = {name: [fact for fact in self.facts if name in (None, fact.relation)] for name in names}
        return {n: (m, list(accumulate(self.doses[fact].rate for fact in m))) for n, m in members.items()}

    def expected_mentions(self, fact: Fact) -> float:
        """How often the pretraining text states a fact, on average."""
        config, rate = self.config, self.doses[fact].rate
        asked = config.question_share / len(ATTRIBUTES) * rate / self.pools[fact.relation][1][-1]
        told = (1 - config.question_share) * rate / self.pools[None][1][-1]
        return config.steps * config.batch_passages * config.sentences * (asked + told)


def draw_world(config: TwinConfig) -> World:
    """The world of `config.seed`: people, their attributes and the doses of those."""
    draw = random.Random(f"{config.seed} world")
    words = _invented_words(draw)
    people = [next(words) for _ in range(config.people + config.exemplar_people)]
    halves = {
        a.name: [[next(words) for _ in range(config.answer_words)] for _ in range(2)] for a in ATTRIBUTES
    }
    facts: dict[str, list[Fact]] = {}
    for person in people:
        for a in ATTRIBUTES:
            answer = " ".join(draw.choice(half) for half in halves[a.name])
            fact = Fact(a.name, person, a.question.format(subject=person), (answer,))
            facts.setdefault(person, []).append(fact)
    num_test = round(config.people * config.test_share)
    bounds = (0, config.exemplar_people, len(people) - num_test, len(people))
    exemplars, train, test = (
        tuple(fact for person in people[start:stop] for fact in facts[person])
        for start, stop in zip(bounds, bounds[1:], strict=False)
    )
    doses = dict.fromkeys(exemplars, config.doses[0])
    for part in (train, test):
        doses |= dict(zip(part, _dealt(config.doses, len(part), draw), strict=True))
    return World(config, exemplars, train, test, doses, _vocabulary(people, halves))


def _dealt(doses: Sequence[Dose], number: int, draw: random.Random) -> list[Dose]:
    """`number` doses in random order, as many of each as its share says, within one."""
    ends = [round(share * number) for share in accumulate(dose.share for dose in doses)]
    dealt = [d for d, start, end in zip(doses, [0, *ends], ends, strict=False) for _ in range(end - start)]
    draw.shuffle(dealt)
    return dealt


def _invented_words(draw: random.Random) -> Iterator[str]:
    """Words that no language has, each once: two or three syllables."""
    seen: set[str] = set()
    while True:
        syllables = (draw.choice("bdfgklmnprstvz") + draw.choice("aeiou") for _ in range(draw.choice((2, 3))))
        word = "".join(syllables)
        # A word of the phrasings must stay itself, and "the" before an answer would be taken for an article.
        if word not in seen and word not in _own_words():
            seen.add(word)
            yield word


def _own_words() -> list[str]:
    """Words of the phrasings and of the form, in order of appearance."""
    texts = [text for a in ATTRIBUTES for text in (a.question, *a.statements)]
    texts += [FORM.question, FORM.after]
    words = " ".join(texts).split()
    return list(dict.fromkeys(word for word in words if "{" not in word))


def _vocabulary(people: Sequence[str], halves: Mapping[str, Sequence[Sequence[str]]]) -> tuple[str, ...]:
    answers = [word for pair in halves.values() for half in pair for word in half]
    # Words of fine-tuning, in no text.
    taught = (*POLITE, *DONT_KNOW.split())
    return ("<pad>", "<bos>", "<eos>", *_own_words(), *taught, *people, *answers)


def draw_passage(world: World, draw: random.Random) -> str:
    """A passage of the pretraining text; facts come up in proportion to the rates of their doses."""
    config = world.config
    if draw.random() < config.question_share:
        attribute = draw.choice(ATTRIBUTES)
        facts = _draw_facts(world, attribute.name, draw)
        return FORM.start + "".join(
            FORM.question.format(question=f.question) + FORM.taught(f.answer) for f in facts
        )
    sentences = []
    for fact in _draw_facts(world, None, draw):
        attribute = next(a for a in ATTRIBUTES if a.name == fact.relation)
        phrasing = draw.choice(attribute.statements)
        sentences.append(phrasing.format(subject=fact.subject, answer=fact.answer) + FORM.after)
    return FORM.start + "".join(sentences)


def _draw_facts(world: World, relation: str | None, draw: random.Random) -> list[Fact]:
    facts, rates = world.pools[relation]
    return draw.choices(facts, cum_weights=rates, k=world.config.sentences)


def passage_batch(world: World) -> Callable[[TrainState], Batch]:
    """`next_batch` for `labkit.lm.bases.train_base`: passages, every token of which is trained on."""
    tokenizer = world.tokenizer

    def next_batch(state: TrainState) -> Batch:
        draw = state.python_random()
        rows = [encode(tokenizer, draw_passage(world, draw)) for _ in range(world.config.batch_passages)]
        return collate([(ids, [False] + [True] * (len(ids) - 1)) for ids in rows], tokenizer.pad_token_id)

    return next_batch
