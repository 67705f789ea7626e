"""The committed facts are what the script makes of its packages."""

import importlib.metadata

import pytest
from packaging.requirements import Requirement

from labkit.knowledge.facts import FACTS_FILE
from labkit.knowledge.make_facts import REQUIREMENTS, rows, to_csv


def installed(requirement):
    try:
        return requirement.specifier.contains(importlib.metadata.version(requirement.name))
    except importlib.metadata.PackageNotFoundError:
        return False


def test_aliases_of_one_form_are_written_once_and_relations_come_in_order():
    facts = [
        ("symbol", "iron", ["Fe"]),
        ("capital", "Yemen", ["Sanaa", "", "Sana'a", "Aden", "sanaa"]),
        ("capital", "Bahrain", ["Manama"]),
    ]
    assert to_csv(facts) == (
        "relation,subject,answers\ncapital,Bahrain,Manama\ncapital,Yemen,Sanaa|Aden\nsymbol,iron,Fe\n"
    )


@pytest.mark.skipif(
    not all(map(installed, map(Requirement, REQUIREMENTS))),
    reason="the packages that facts come from are missing",
)
def test_the_file_is_what_the_packages_give():
    assert to_csv(rows()) == FACTS_FILE.read_text(encoding="utf-8")
