"""The saved figures are those that the studies draw."""

from __future__ import annotations

import json
from dataclasses import asdict

import pandas as pd
import pytest

from labkit import plotting
from labkit.gallery import figure_cards
from labkit.plotting import drawing, new_figure, save_drawings
from labkit.studies import STUDIES, get_figures


def rising(data: pd.DataFrame) -> plotting.Drawn:
    figure, (axes,) = new_figure()
    axes.plot(data["step"], data["mean"])
    return figure, data.assign(mean=data["mean"] * 2)


ALT = "One line chart of a mean against steps, which rises."


def test_each_saved_card_is_that_of_a_drawing_and_each_drawing_is_saved() -> None:
    drawn = [asdict(card) for name in STUDIES for _, card in get_figures(name)]
    assert len({(card["study"], card["name"]) for card in drawn}) == len(drawn)
    saved = [card for _, card in figure_cards() if card["study"] in STUDIES]
    expected = [json.loads(json.dumps(card)) for card in drawn]
    assert sorted(saved, key=str) == sorted(expected, key=str), "run `python -m labkit figures`"


def test_a_drawing_is_saved_as_images_numbers_and_card_under_its_functions_name(
    tmp_path, monkeypatch
) -> None:
    monkeypatch.setattr(plotting, "repo_root", lambda: tmp_path)
    toy = drawing("toy", rising, "It rises", ALT, "Fig. 1", "up", "up-fast")
    paths = save_drawings([toy], pd.DataFrame({"step": [0, 1], "mean": [0.25, 0.5]}))
    assert sorted(path.name for path in paths) == ["rising.csv", "rising.json", "rising.png", "rising.svg"]
    assert {path.parent for path in paths} == {tmp_path / "figures" / "toy"}
    found = {path.suffix: path for path in paths}
    assert json.loads(found[".json"].read_text()) == {
        "study": "toy", "name": "rising", "title": "It rises", "alt": ALT, "paper": "Fig. 1",
        "claims": ["toy/up", "toy/up-fast"],
    }  # fmt: skip
    assert pd.read_csv(found[".csv"])["mean"].tolist() == [0.5, 1.0], "the numbers drawn, not the frame"


def test_a_figure_without_alt_text_is_refused(tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(plotting, "repo_root", lambda: tmp_path)
    with pytest.raises(ValueError, match="'rising' needs alt text"):
        save_drawings(
            [drawing("toy", rising, "It rises", "A chart.", "none")],
            pd.DataFrame({"step": [0], "mean": [0.0]}),
        )
    assert not list(tmp_path.rglob("*.*"))
