"""Notebook 03's widgets in a notebook of their own: Tab order, and stopping and resuming while it trains."""

import re

import nbformat
import pytest
from playwright.sync_api import Locator, Page

from tests.browser.jupyter import (
    browser_page,
    console_errors,
    error_outputs,
    focus,
    jupyterlab,
    open_notebook,
    run_all,
    wait_for_change,
)
from tests.browser.widgets_03 import (
    PATIENCE,
    button,
    cell_with,
    photograph,
    play_by_keyboard,
    play_by_mouse,
    press,
    slide,
)

SETUP = """
from labkit.envs.points24.play import Codec
from labkit.lm.models import load_model
from labkit.studies.points24.base import base_folder
from labkit.workshop.widgets import TrainingPanel, checkpoint_slider, play_hand
from labkit.workshop.widgets import static_checkpoints, static_play

model, tokenizer = load_model(base_folder())
codec = Codec(tokenizer)
"""
PLAY = "play_hand(model, codec, hand=(6, 11, 12, 13))"
TRAIN = "panel = TrainingPanel(model, codec, steps=16, evaluate_every=1, max_hands=4)\npanel"
SLIDE = "checkpoint_slider(panel.snapshots, codec)"
STILLS = "display(static_play(model, codec), panel.static(), static_checkpoints(panel.snapshots, codec))"


@pytest.fixture(scope="module")
def page(tmp_path_factory):
    made = nbformat.v4.new_notebook(metadata={"kernelspec": {"name": "python3", "display_name": "Python 3"}})
    made.cells = [nbformat.v4.new_code_cell(code) for code in (SETUP, PLAY, TRAIN, SLIDE, STILLS)]
    folder = tmp_path_factory.mktemp("widgets")
    nbformat.write(made, folder / "widgets.ipynb")
    with jupyterlab(folder) as url, browser_page(url) as page:
        open_notebook(page, "widgets.ipynb")
        run_all(page, timeout=PATIENCE)
        yield page


@pytest.fixture(autouse=True)
def no_errors(page: Page):
    yield
    assert error_outputs(page) == [] and console_errors(page) == []


def names_by_tab(page: Page, first: Locator, count: int) -> list[str]:
    """Names of the controls that Tab reaches, from `first` on."""
    focus(first)
    names = []
    for _ in range(count):
        names.append(
            page.evaluate(
                """() => {
                    const focused = document.activeElement;
                    const label = focused.id && document.querySelector(`label[for="${focused.id}"]`);
                    return (label || focused).textContent.trim() || focused.getAttribute('role') || '';
                }"""
            )
        )
        page.keyboard.press("Tab")
    return names


def test_tab_reaches_every_control(page: Page):
    play, train = cell_with(page, PLAY), cell_with(page, "panel")
    assert names_by_tab(page, button(play, "J, Q, K count 10"), 8) == [
        "J, Q, K count 10", "J, Q, K count 11, 12, 13", "Cards", "New hand", "Your formula", "Check",
        "Ask the model", "Show a solution",
    ]  # fmt: skip
    names = ["SFT", "RL", "updates", "compute", "Start", "Stop", "Resume", "Reset"]
    assert names_by_tab(page, button(train, "SFT"), 8) == names
    # After it the five hands, then the slider's handle.
    assert names_by_tab(page, button(cell_with(page, SLIDE), "Read checkpoints again"), 7)[-1] == "slider"


def test_play_by_mouse_and_by_keyboard(page: Page):
    play_by_mouse(page, cell_with(page, PLAY))
    play_by_keyboard(page, cell_with(page, PLAY))


def test_train_stop_and_resume(page: Page):
    train = cell_with(page, "panel")
    picture, status = train.locator("img"), train.get_by_role("alert")

    def source():
        return picture.get_attribute("src") if picture.count() else None

    before = wait_for_change(page, source, None)
    assert "Nothing has been trained yet" in picture.get_attribute("alt")
    button(train, "Start").click()
    moved = wait_for_change(page, source, before, PATIENCE)
    moved = wait_for_change(page, source, moved, PATIENCE)
    press(page, button(train, "Stop"), "Space")
    status.get_by_text("SFT is stopped").wait_for(timeout=PATIENCE * 1000)
    stopped = wait_for_change(page, source, before)
    page.wait_for_timeout(1500)
    assert source() == stopped
    assert re.search(r"SFT, \d+ updates: solved under the training rule", picture.get_attribute("alt"))
    # Space and Enter both press a button; arrows and letters would be JupyterLab's.
    press(page, button(train, "compute"), "Enter")
    computed = wait_for_change(page, source, stopped)
    press(page, button(train, "updates"), "Space")
    wait_for_change(page, source, computed)
    press(page, button(train, "Resume"))
    wait_for_change(page, source, stopped, PATIENCE)
    status.get_by_text("SFT is done").wait_for(timeout=PATIENCE * 1000)
    press(page, button(train, "RL"), "Space")
    button(train, "Start").click()
    status.get_by_text("RL is training at step 1").wait_for(timeout=PATIENCE * 1000)
    button(train, "Stop").click()
    status.get_by_text("RL is stopped").wait_for(timeout=PATIENCE * 1000)
    assert "RL, " in picture.get_attribute("alt")


def test_slide_over_the_checkpoints_just_made(page: Page):
    area = cell_with(page, SLIDE)
    button(area, "Read checkpoints again").click()
    button(area, "RL").wait_for(timeout=PATIENCE * 1000)
    slide(page, area)


def test_both_themes_are_photographed(page: Page):
    lines = {"play": PLAY, "train": "panel", "slide": SLIDE, "stills": STILLS}
    photograph(page, "widgets_03", {part: cell_with(page, line) for part, line in lines.items()})
