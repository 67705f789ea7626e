"""Facts, aliases, and splits that do not leak."""

import csv
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from labkit.knowledge.facts import (
    FACTS_FILE,
    RELATIONS,
    Fact,
    SplitConfig,
    accepted,
    can_become_correct,
    fold,
    is_correct,
    load_facts,
    normalise,
    split_facts,
)

FACTS = load_facts()


def fact(relation, subject):
    (found,) = [f for f in FACTS if (f.relation, f.subject) == (relation, subject)]
    return found


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("Bogotá", "bogota"),
        ("Washington, D.C.", "Washington DC"),
        ("the Netherlands", "Netherlands"),
        ("The United States.", "united states"),
        (" Paris\n\nQ: What", "Paris"),
        ("N'Djamena", "Ndjamena"),
        (".fr", "FR"),
        ("+49", "49"),
        ("Łódź", "lodz"),
        ("Sana'a", "Sanaʻa"),
        ("Reykjavík", "Reykjavi\u0301k"),
        ("Port au Prince", "Port-au-Prince"),
    ],
)
def test_what_is_one_answer_normalises_to_one_form(first, second):
    assert normalise(first) == normalise(second) != ""


@pytest.mark.parametrize(
    ("first", "second"),
    [("Niger", "Nigeria"), ("The", ""), ("26", "2 7"), ("theology", "ology"), ("St. Paul", "Saint Paul")],
)
def test_other_answers_stay_other_ones(first, second):
    assert normalise(first) != normalise(second)


@pytest.mark.parametrize(
    ("relation", "subject", "right", "wrong"),
    [
        ("capital", "Ukraine", ["Kyiv", "Kiev", "kyiv."], ["Kyiv is", "Lviv", ""]),
        ("capital", "Colombia", ["Bogotá", "Bogota"], ["Bogo"]),
        ("capital", "the United States", ["Washington", "Washington, D.C.", "washington dc"], ["New York"]),
        ("capital", "Kazakhstan", ["Astana", "Nur-Sultan"], ["Almaty"]),
        ("currency", "Japan", ["Yen", "the yen", "Japanese yen", "JPY"], ["Yuan"]),
        ("continent", "Turkey", ["Asia", "Europe"], ["Africa"]),
        ("symbol", "iron", ["Fe"], ["Ir", "F"]),
        ("atomic_number", "gold", ["79"], ["7", "790"]),
        ("country_of_city", "Chicago", ["USA", "U.S.", "the United States of America"], ["Illinois"]),
        ("state_capital", "Minnesota", ["St. Paul", "Saint Paul"], ["Minneapolis"]),
        ("language", "Switzerland", ["German", "French", "Italian"], ["Swiss"]),
        ("french_name", "Germany", ["Allemagne", "allemagne"], ["Germany"]),
        ("calling_code", "Germany", ["49", "+49"], ["4", "049"]),
        ("top_level_domain", "Switzerland", ["ch", ".ch"], ["sw"]),
        ("city_of_airport", "MUC", ["Munich"], ["Berlin"]),
        ("state_of_city", "Seattle", ["Washington", "WA"], ["Oregon"]),
        ("language_code", "German", ["de"], ["ge"]),
        ("country_code", "Spain", ["ESP"], ["SPA"]),
        ("nationality", "Argentina", ["Argentinean", "Argentine", "Argentinian"], ["Argentina"]),
        ("spanish_name", "Germany", ["Alemania"], ["Deutschland"]),
    ],
)
def test_real_facts_take_their_aliases_and_nothing_else(relation, subject, right, wrong):
    asked = fact(relation, subject)
    assert [answer for answer in right if not is_correct(answer, asked)] == []
    assert [answer for answer in wrong if is_correct(answer, asked)] == []


def test_every_relation_is_in_the_data_and_large_enough():
    counts = Counter(f.relation for f in FACTS)
    assert set(counts) == set(RELATIONS)
    assert min(counts.values()) >= 50
    apart = {name for name, relation in RELATIONS.items() if relation.out_of_distribution}
    assert len(apart) == 3
    assert sum(counts[name] for name in counts if name not in apart) >= 1200
    assert all(relation.source and relation.licence for relation in RELATIONS.values())


def test_the_file_holds_each_question_once_and_no_answer_twice():
    with FACTS_FILE.open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    assert max(Counter((row["relation"], row["subject"]) for row in rows).values()) == 1
    for row in rows:
        forms = [normalise(answer) for answer in row["answers"].split("|")]
        assert len(set(forms)) == len(forms) and all(forms), row
        assert row["answers"] == row["answers"].strip() and row["subject"] == row["subject"].strip(), row
        assert "\n" not in row["answers"], row


def test_subjects_of_relations_kept_apart_are_asked_about_nowhere_else():
    domains = {name: relation.domain for name, relation in RELATIONS.items()}
    apart = {domains[name] for name, relation in RELATIONS.items() if relation.out_of_distribution}
    assert not apart & {domains[n] for n, relation in RELATIONS.items() if not relation.out_of_distribution}


@given(st.sampled_from(FACTS), st.data())
def test_the_beginning_of_a_right_answer_is_never_given_up(asked, data):
    answer = data.draw(st.sampled_from(asked.answers))
    text = data.draw(st.sampled_from([answer, f" {answer}", f"The {answer}", answer.upper(), f"{answer}."]))
    assert is_correct(text, asked)
    assert can_become_correct(text[: data.draw(st.integers(0, len(text)))], asked)


@given(st.sampled_from(FACTS), st.text("aeinrs .-", max_size=4), st.data())
def test_what_is_given_up_could_not_have_become_right(asked, beginning, data):
    if not can_become_correct(beginning, asked):
        answer = data.draw(st.sampled_from(asked.answers))
        cut = data.draw(st.integers(0, len(answer)))
        assert not is_correct(beginning + answer[cut:], asked)


@given(st.text(), st.text())
def test_folding_goes_character_by_character(first, second):
    assert fold(first + second).startswith(fold(first))


def subjects(part):
    domain = {name: relation.domain for name, relation in RELATIONS.items()}
    return {(domain[f.relation], f.subject) for f in part}


@pytest.mark.parametrize("seed", range(3))
def test_parts_share_no_subject_and_leave_nothing_out(seed):
    split = split_facts(FACTS, SplitConfig(seed))
    parts = [split.exemplars, split.train, split.test, split.out_of_distribution]
    assert sorted(f.question for part in parts for f in part) == sorted(f.question for f in FACTS)
    for i, first in enumerate(parts):
        for second in parts[i + 1 :]:
            assert not subjects(first) & subjects(second)
    apart = {name for name, relation in RELATIONS.items() if relation.out_of_distribution}
    assert {f.relation for f in split.out_of_distribution} == apart
    assert {f.relation for f in split.exemplars} == set(RELATIONS)
    assert not {f.relation for f in (*split.train, *split.test)} & apart
    assert min(Counter(f.relation for f in split.exemplars).values()) >= 8


def test_the_seed_decides_the_split():
    first, again, other = (split_facts(FACTS, SplitConfig(seed)) for seed in (0, 0, 1))
    assert first == again != other


def test_split_by_object_no_two_parts_share_an_answer_either():
    facts = load_facts(["capital", "currency", "symbol"])
    by_subject, by_object = (
        split_facts(facts, SplitConfig(0, disjoint=disjoint)) for disjoint in ("subject", "object")
    )

    def shared(split):
        parts = [
            {(f.relation, a) for f in part for a in accepted(f)} for part in (split.exemplars, split.train)
        ]
        held_out = {(f.relation, a) for f in split.test for a in accepted(f)}
        return len(parts[0] & parts[1]) + len(parts[0] & held_out) + len(parts[1] & held_out)

    assert shared(by_subject) > 0 == shared(by_object)
    assert not subjects(by_object.exemplars) & subjects((*by_object.train, *by_object.test))


def test_where_answers_link_nearly_all_subjects_a_split_by_object_is_refused():
    with pytest.raises(ValueError, match="split by subject"):
        split_facts(load_facts(["continent", "currency", "language"]), SplitConfig(disjoint="object"))


def test_an_unknown_relation_is_named():
    with pytest.raises(ValueError, match="no relation mayor; there are: capital"):
        load_facts(["mayor"])


def test_a_fact_needs_an_answer():
    with pytest.raises(ValueError, match="no answer"):
        Fact("capital", "Nowhere", "What is the capital of Nowhere?", ("?!",))
