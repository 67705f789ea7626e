"""Notebook 02's widgets in a notebook of their own: Tab order, keyboard, mouse, both themes."""

import nbformat
import pytest
from playwright.sync_api import Page

from tests.browser.jupyter import (
    browser_page,
    console_errors,
    error_outputs,
    jupyterlab,
    open_notebook,
    run_all,
)
from tests.browser.widgets_02 import drag_clip, drag_kl, handle, mark_group, names_by_tab
from tests.browser.widgets_03 import cell_with, photograph

SETUP = """
from labkit.workshop.widgets import clip_explorer, group_marker, kl_explorer
from labkit.workshop.widgets import static_clip, static_group_marker, static_kl
"""
CLIP, KL, GROUP = "clip_explorer()", "kl_explorer()", "group_marker()"
STILLS = "display(static_clip(advantage=-1.0, dual_clip=3.0), static_kl(), static_group_marker())"


@pytest.fixture(scope="module")
def page(tmp_path_factory):
    made = nbformat.v4.new_notebook(metadata={"kernelspec": {"name": "python3", "display_name": "Python 3"}})
    made.cells = [nbformat.v4.new_code_cell(code) for code in (SETUP, CLIP, KL, GROUP, STILLS)]
    folder = tmp_path_factory.mktemp("widgets")
    nbformat.write(made, folder / "widgets.ipynb")
    with jupyterlab(folder) as url, browser_page(url) as page:
        open_notebook(page, "widgets.ipynb")
        run_all(page, timeout=300)
        yield page


@pytest.fixture(autouse=True)
def no_errors(page: Page):
    yield
    assert error_outputs(page) == [] and console_errors(page) == []


def test_both_themes_are_photographed(page: Page):
    lines = {"clip": CLIP, "kl": KL, "group": GROUP, "stills": STILLS}
    photograph(page, "widgets_02", {part: cell_with(page, line) for part, line in lines.items()})


def test_tab_reaches_every_control(page: Page):
    clip, kl, group = (cell_with(page, line) for line in (CLIP, KL, GROUP))
    assert names_by_tab(page, handle(clip, "ratio r"), "c = 3") == [
        "ratio r", "ε low", "ε high", "A = +1", "A = −1", "off", "c = 3",
    ]  # fmt: skip
    logits = [f"{side}, logit of {token}" for side in ("π", "ref") for token in "abcde"]
    assert names_by_tab(page, handle(kl, logits[0]), "Reset") == [
        *logits,
        "π = ref",
        "Swap π and ref",
        "Reset",
    ]
    names = names_by_tab(page, handle(group, "answers in the group, G"), "a whole answer")
    assert names[:2] == ["answers in the group, G", "PPO's critic says V"]
    assert [name[0] for name in names[2:-2]] == list("123456") and names[-2] == "a token"


def test_drag_the_clip(page: Page):
    drag_clip(page, cell_with(page, CLIP))


def test_drag_the_distributions(page: Page):
    drag_kl(page, cell_with(page, KL))


def test_mark_the_answers(page: Page):
    mark_group(page, cell_with(page, GROUP))


def test_every_slider_has_room_to_be_dragged(page: Page):
    tracks = page.locator(".noUi-target")
    assert tracks.count() >= 15
    for i in range(tracks.count()):
        assert tracks.nth(i).bounding_box()["width"] >= 60
