"""Notebook 02 as a learner meets it: opened, run to the end, its widgets dragged."""

import pytest
from playwright.sync_api import Page

from tests.browser.jupyter import console_errors, error_outputs, open_notebook, run_all
from tests.browser.widgets_02 import drag_clip, drag_kl, mark_group
from tests.browser.widgets_03 import PATIENCE, cell_with, photograph


@pytest.mark.slow
def test_run_all_and_use_every_widget(page: Page):
    open_notebook(page, "02_ppo_grpo_derivations.ipynb", timeout=PATIENCE)
    run_all(page, timeout=2 * PATIENCE)
    assert error_outputs(page) == []
    lines = {"clip": "clip_explorer()", "group": "group_marker()", "kl": "kl_explorer()"}
    areas = {part: cell_with(page, line) for part, line in lines.items()}
    drag_clip(page, areas["clip"])
    mark_group(page, areas["group"])
    drag_kl(page, areas["kl"])
    images = page.locator(".jp-Notebook img")
    without_alt = images.evaluate_all("images => images.filter(image => !image.alt).length")
    assert images.count() > 10 and without_alt == 0
    photograph(page, "notebook_02", areas)
    assert error_outputs(page) == [] and console_errors(page) == []
