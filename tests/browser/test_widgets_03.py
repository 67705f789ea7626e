"""Notebook 03's widgets in JupyterLab: each by mouse and by keyboard, in the light and the dark theme."""

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
    screenshot,
    wait_for_change,
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
PLAY_CELL, TRAIN_CELL, SLIDE_CELL = 1, 2, 3
PATIENCE = 300
"""Seconds to wait for training on a busy machine; on an idle one it takes a few."""


@pytest.fixture(scope="module")
def page(tmp_path_factory):
    made = nbformat.v4.new_notebook(metadata={"kernelspec": {"name": "python3", "display_name": "Python 3"}})
    made.cells = [nbformat.v4.new_code_cell(code) for code in (SETUP, PLAY, TRAIN, SLIDE, STILLS)]
    folder = tmp_path_factory.mktemp("widgets")
    nbformat.write(made, folder / "widgets.ipynb")
    with jupyterlab(folder) as url, browser_page(url) as page:
        open_notebook(page, "widgets.ipynb")
        run_all(page, timeout=PATIENCE)
        assert error_outputs(page) == []
        yield page


@pytest.fixture(autouse=True)
def no_errors(page: Page):
    yield
    assert error_outputs(page) == [] and console_errors(page) == []


def cell(page: Page, number: int) -> Locator:
    return page.locator(".jp-Notebook-cell").nth(number).locator(".jp-Cell-outputArea")


def press(page: Page, control: Locator, key: str = "Enter") -> None:
    focus(control)
    page.keyboard.press(key)


def button(area: Locator, name: str) -> Locator:
    return area.get_by_role("button", name=name, exact=True)


def names_by_tab(page: Page, first: Locator, count: int) -> list[str]:
    """Accessible names of the controls that Tab reaches, from `first` on."""
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
    play, train, slide = (cell(page, n) for n in (PLAY_CELL, TRAIN_CELL, SLIDE_CELL))
    assert names_by_tab(page, button(play, "J, Q, K count 10"), 8) == [
        "J, Q, K count 10", "J, Q, K count 11, 12, 13", "Cards", "New hand", "Your formula", "Check",
        "Ask the model", "Show a solution",
    ]  # fmt: skip
    names = ["SFT", "RL", "updates", "compute", "Start", "Stop", "Resume", "Reset"]
    assert names_by_tab(page, button(train, "SFT"), 8) == names
    assert names_by_tab(page, button(slide, "Read checkpoints again"), 7)[-1] == "slider"


def test_play_by_mouse(page: Page):
    play = cell(page, PLAY_CELL)
    button(play, "Ask the model").click()
    play.get_by_text("step by step").wait_for(timeout=30_000)
    answer = play.locator("table")
    first = answer.inner_text()
    assert "reads" in first and "step 1" in first
    button(play, "J, Q, K count 11, 12, 13").click()
    wait_for_change(page, lambda: answer.inner_text() if answer.count() else None, first)
    assert "counts 12" in play.inner_text()
    button(play, "Show a solution").click()
    play.get_by_text(re.compile(r"one of \d+ solutions|the only solution")).wait_for(timeout=10_000)
    cards = play.get_by_label("Cards")
    before = cards.input_value()
    button(play, "New hand").click()
    wait_for_change(page, cards.input_value, before)


def test_play_by_keyboard(page: Page):
    play = cell(page, PLAY_CELL)
    press(page, button(play, "J, Q, K count 10"), "Space")
    focus(play.get_by_label("Cards")).fill("6 J Q K")
    page.keyboard.press("Enter")
    play.get_by_text("Hand 6 J Q K.").wait_for(timeout=10_000)
    for formula, outcome in (("6*(13-12)*11", "misread_cards"), ("10+10-6+10", "correct")):
        focus(play.get_by_label("Your formula")).fill(formula)
        page.keyboard.press("Enter")
        play.get_by_role("alert").get_by_text(f"Your formula: {outcome}").wait_for(timeout=10_000)
    press(page, button(play, "Ask the model"), "Space")
    play.get_by_text("step by step").wait_for(timeout=30_000)


def test_train_stop_and_resume(page: Page):
    train = cell(page, TRAIN_CELL)
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
    slide = cell(page, SLIDE_CELL)
    button(slide, "Read checkpoints again").click()
    button(slide, "RL").wait_for(timeout=PATIENCE * 1000)
    handle, status = slide.locator(".noUi-handle"), slide.get_by_role("alert")
    before = wait_for_change(page, status.inner_text, "")
    assert "SFT, base" in before
    press(page, handle, "ArrowRight")
    by_key = wait_for_change(page, status.inner_text, before)
    assert "SFT, step 1" in by_key
    press(page, handle, "End")
    status.get_by_text("SFT, step 16,").wait_for(timeout=10_000)
    # By mouse: take the handle and pull it half way back.
    box, track = handle.bounding_box(), slide.locator(".noUi-target").bounding_box()
    page.mouse.move(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
    page.mouse.down()
    page.mouse.move(track["x"] + track["width"] / 2, box["y"] + box["height"] / 2, steps=8)
    page.mouse.up()
    status.get_by_text("SFT, step 8,").wait_for(timeout=10_000)
    other_hand = slide.get_by_role("button", name=re.compile(r"^\w+ \w+ \w+ \w+$")).nth(1)
    press(page, other_hand, "Space")
    status.get_by_text(f"hand {other_hand.inner_text()}").wait_for(timeout=10_000)


def test_both_themes_are_photographed(page: Page):
    for theme in ("Light", "Dark"):
        page.evaluate(
            "theme => window.jupyterapp.commands.execute('apputils:change-theme', {theme})",
            f"JupyterLab {theme}",
        )
        page.locator(f"body[data-jp-theme-light='{str(theme == 'Light').lower()}']").wait_for(
            state="attached", timeout=15_000
        )
        page.wait_for_timeout(500)
        for name, number in (
            ("play", PLAY_CELL),
            ("train", TRAIN_CELL),
            ("slide", SLIDE_CELL),
            ("stills", 4),
        ):
            page.mouse.move(0, 0)
            cell(page, number).evaluate("cell => cell.scrollIntoView({block: 'start'})")
            assert screenshot(page, f"widgets_03-{name}-{theme.lower()}").stat().st_size > 20_000
