"""Notebook 03 as a learner meets it: opened, run to the end, its widgets used by mouse and keyboard."""

import pytest
from playwright.sync_api import Page

from tests.browser.jupyter import console_errors, error_outputs, open_notebook, run_all
from tests.browser.widgets_03 import (
    PATIENCE,
    cell_with,
    photograph,
    play_by_keyboard,
    play_by_mouse,
    slide,
    train_anew,
)

PLAY, TRAIN, SLIDE = "play_hand(model, codec)", "panel", "checkpoint_slider(panel.snapshots, codec)"


@pytest.mark.slow
def test_run_all_and_use_every_widget(page: Page):
    open_notebook(page, "03_sft_vs_rl_24_point.ipynb", timeout=PATIENCE)
    run_all(page, timeout=2 * PATIENCE)
    assert error_outputs(page) == []
    play, train, slider = (cell_with(page, line) for line in (PLAY, TRAIN, SLIDE))
    play_by_mouse(page, play)
    play_by_keyboard(page, play)
    slide(page, slider)
    train_anew(page, train)
    images = page.locator(".jp-Notebook img")
    without_alt = images.evaluate_all("images => images.filter(image => !image.alt).length")
    assert images.count() > 10 and without_alt == 0
    photograph(page, "notebook_03", {"play": play, "train": train, "slide": slider})
    assert error_outputs(page) == [] and console_errors(page) == []
