"""The ledger says what the committed data say."""

from __future__ import annotations

import json

import pandas as pd
import pytest

from labkit.claims import Claim, compute_ledger, ledger_entry, load_ledger, seed_differences
from labkit.files import repo_root
from labkit.gallery import claims_table, figure_cards, gallery
from labkit.studies import STUDIES, get_claims, get_study


def test_the_committed_ledger_is_what_the_committed_data_give() -> None:
    assert load_ledger() == json.loads(json.dumps(compute_ledger())), (
        "the ledger and the data differ: run `python -m labkit figures`"
    )


def test_the_gallery_is_up_to_date() -> None:
    assert (repo_root() / "figures" / "README.md").read_text() == gallery()


def test_the_claims_table_in_the_readme_is_up_to_date() -> None:
    assert claims_table(load_ledger()) in (repo_root() / "README.md").read_text()


def test_claims_name_arms_that_exist() -> None:
    for name in STUDIES:
        arms = get_study(name).arms("full")
        for claim in get_claims(name):
            assert set(claim.arms) <= set(arms), claim.id


def test_every_figure_has_image_data_and_claims_that_exist() -> None:
    ids = {entry["id"] for entry in load_ledger()}
    cards = figure_cards()
    assert len(cards) >= 6
    for png, card in cards:
        assert png.exists() and png.with_suffix(".svg").exists() and png.with_suffix(".csv").exists()
        assert set(card["claims"]) <= ids


def a_claim(**changes) -> Claim:
    fields = {
        "id": "toy/up", "study": "toy", "source": "none", "statement": "It rises.", "metric": "x",
        "arms": ("a",), "differences": lambda frame: list(frame["x"]), "smallest": 0.1, "paper": "-",
    }  # fmt: skip
    return Claim(**(fields | changes))


@pytest.mark.parametrize(
    ("differences", "expected"),
    [
        ([0.5, 0.6, 0.55, 0.52], "reproduced"),
        ([-0.5, -0.6, -0.55, -0.52], "reversed"),
        ([0.01, -0.01, 0.02, -0.02], "not reproduced"),
        ([1.0, -1.0, 0.8, -0.6], "inconclusive"),
        ([0.5], "inconclusive"),
    ],
)
def test_verdicts_follow_from_the_differences(differences: list[float], expected: str) -> None:
    entry = ledger_entry(a_claim(), pd.DataFrame({"x": differences}))
    assert entry["verdict"] == expected


def test_differences_pair_seeds_and_leave_out_those_only_one_side_has() -> None:
    assert seed_differences({0: 1.0, 1: 5.0, 2: 3.0}, {2: 1.0, 0: 0.5}) == [0.5, 2.0]
