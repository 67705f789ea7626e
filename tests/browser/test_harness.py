"""The harness itself, on notebooks made for it: a slider that drives a figure, a button, and errors."""

import nbformat
import pytest
from playwright.sync_api import Page

from tests.browser import jupyter
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

WIDGETS = """
import matplotlib.pyplot as plt
import numpy as np
from ipywidgets import Button, IntSlider, Label, VBox, interactive_output

def draw(frequency):
    if frequency > 3:
        raise ValueError("too fast")
    x = np.linspace(0, 1, 200)
    plt.figure(figsize=(4, 2))
    plt.plot(x, np.sin(2 * np.pi * frequency * x))
    plt.show()

slider = IntSlider(value=2, min=1, max=9, description="frequency")
button, label = Button(description="count"), Label("0 clicks")
button.on_click(lambda _: setattr(label, "value", f"{int(label.value.split()[0]) + 1} clicks"))
broken = Button(description="break")
broken.on_click(lambda _: {}["nothing"])
VBox([slider, interactive_output(draw, {"frequency": slider}), button, label, broken])
"""
SLOW = "import os, time\ntime.sleep(1)\nprint('profile', os.environ['LABKIT_PROFILE'])"


def notebook(*cells: str) -> nbformat.NotebookNode:
    """A notebook of code cells that looks as if it had been run before, as the repository's do."""
    made = nbformat.v4.new_notebook(metadata={"kernelspec": {"name": "python3", "display_name": "Python 3"}})
    old = nbformat.v4.new_output("stream", text="from an earlier run")
    made.cells = [nbformat.v4.new_code_cell(code, execution_count=7, outputs=[old]) for code in cells]
    return made


@pytest.fixture(scope="module")
def page(tmp_path_factory):
    folder = tmp_path_factory.mktemp("note books ü")
    nbformat.write(notebook("import math", SLOW, WIDGETS), folder / "01 widgets.ipynb")
    nbformat.write(notebook("1 / 0", "print('never reached')"), folder / "02_error.ipynb")
    with jupyterlab(folder) as url, browser_page(url) as page:
        yield page


def test_run_all_then_slider_by_keyboard_and_button_by_mouse(page: Page):
    open_notebook(page, "01 widgets.ipynb")
    run_all(page, timeout=60)
    assert error_outputs(page) == []
    # Run All waited for the slow cell, and every old output is gone.
    assert page.get_by_text("profile smoke").count() == 1
    assert page.get_by_text("from an earlier run").count() == 0

    image = page.locator(".jp-OutputArea-output img")

    def source():
        return image.last.get_attribute("src") if image.count() else None

    before = wait_for_change(page, source, None)
    focus(page.locator(".noUi-handle"))
    page.keyboard.press("ArrowRight")
    wait_for_change(page, source, before)

    page.get_by_role("button", name="count").click()
    page.get_by_text("1 clicks", exact=True).wait_for(timeout=10_000)
    assert screenshot(page, "harness").stat().st_size > 10_000
    assert console_errors(page) == []

    # Errors in callbacks are found as well: in an Output widget, and where JupyterLab shows nothing.
    focus(page.locator(".noUi-handle"))
    page.keyboard.press("ArrowRight")
    assert wait_for_change(page, lambda: " ".join(error_outputs(page)), "") == "ValueError: too fast"
    page.get_by_role("button", name="break").click()
    errors = wait_for_change(page, lambda: " ".join(error_outputs(page)), "ValueError: too fast")
    assert errors == "ValueError: too fast KeyError: 'nothing'"


def test_an_error_ends_run_all_and_is_reported(page: Page):
    open_notebook(page, "02_error.ipynb")
    run_all(page, timeout=60)
    assert error_outputs(page) == ["ZeroDivisionError: division by zero"]
    assert page.get_by_text("never reached").count() == 1, "only in the source"
    page.evaluate("() => console.error('oh no')")
    assert any("oh no" in text for text in console_errors(page))


def test_a_missing_browser_is_an_error_that_says_what_to_install(monkeypatch):
    monkeypatch.setattr(jupyter, "find_browser", lambda: None)
    with pytest.raises(RuntimeError, match="install Debian's chromium"):
        jupyter.require_browser()
