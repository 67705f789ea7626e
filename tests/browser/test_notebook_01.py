"""Notebook 01 as a learner meets it: opened, run to the end, an episode stepped and branched."""

import pytest
from playwright.sync_api import Page

from tests.browser.jupyter import console_errors, error_outputs, open_notebook, run_all
from tests.browser.widgets_03 import PATIENCE, cell_with, photograph


@pytest.mark.slow
def test_run_all_and_step_the_episode(page: Page):
    open_notebook(page, "01_react_formalism.ipynb", timeout=PATIENCE)
    run_all(page, timeout=4 * PATIENCE)
    assert error_outputs(page) == []
    areas = {
        "phone": cell_with(
            page, 'stepper(PhoneWorld(), choosers, task=Task(single("on", "wifi"), airplane=True))'
        ),
        "craft": cell_with(
            page, 'stepper(CraftWorld(), expert_or_chance, task=make_task("rope", distractors=1, rng=3))'
        ),
    }
    phone = areas["phone"]
    phone.get_by_role("button", name="Forward").click()
    phone.get_by_text("t = 2").first.wait_for(timeout=15_000)
    images = page.locator(".jp-Notebook img")
    without_alt = images.evaluate_all("images => images.filter(image => !image.alt).length")
    assert images.count() > 5 and without_alt == 0
    photograph(page, "notebook_01", areas)
    assert error_outputs(page) == [] and console_errors(page) == []
