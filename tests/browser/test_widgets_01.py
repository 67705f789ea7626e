"""Notebook 01's stepper in a notebook of its own: Tab order, keyboard, mouse, both themes."""

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
)
from tests.browser.widgets_02 import handle, names_by_tab, pull
from tests.browser.widgets_03 import button, cell_with, photograph, press

SETUP = """
import random
import gymnasium
import labkit.envs
from labkit.agents.thoughts import expert_thought
from labkit.envs.craft.tasks import make_task
from labkit.envs.phone.goals import Task, single
from labkit.workshop.widgets import static_stepper, stepper

chance = random.Random(0)
choosers = {
    "expert": lambda world, history: (expert_thought(world), world.expert_action()),
    "random": lambda world, history: ("", chance.choice(world.admissible_actions())),
}
phone, craft = (gymnasium.make(f"labkit/{name}-v0") for name in ("PhoneWorld", "CraftWorld"))
task = Task(single("on", "wifi"), airplane=True)
"""
PHONE = "stepper(phone, choosers, task=task)"
CRAFT = 'stepper(craft, choosers, task=make_task("rope", names="fixed"))'
STILL = "static_stepper(phone, choosers, task=task)"


@pytest.fixture(scope="module")
def page(tmp_path_factory):
    made = nbformat.v4.new_notebook(metadata={"kernelspec": {"name": "python3", "display_name": "Python 3"}})
    made.cells = [nbformat.v4.new_code_cell(code) for code in (SETUP, PHONE, CRAFT, STILL)]
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


def says(area: Locator, text: str) -> None:
    """Wait until the status has this text."""
    area.get_by_role("alert").get_by_text(re.compile(text)).wait_for(timeout=15_000)


def test_tab_reaches_every_control(page: Page):
    area = cell_with(page, PHONE)
    press(page, button(area, "Forward"))
    says(area, "t = 2: ")
    assert names_by_tab(page, button(area, "expert"), "home") == [
        "expert", "random", "Back", "Forward", "Restart", "step t", "open Search", "open Network",
        "open Sound", "open Display", "open Privacy", "open System", "open Apps", "back", "home",
    ]  # fmt: skip
    page.keyboard.press("Shift+Tab")
    page.keyboard.press("Tab")
    assert page.evaluate("() => document.activeElement.tagName") == "INPUT"


def test_step_by_keyboard_and_by_mouse(page: Page):
    area = cell_with(page, PHONE)
    button(area, "Restart").click()
    says(area, "From the start")
    for t in range(2, 7):
        press(page, button(area, "Forward"), "Space")
        says(area, f"t = {t}: ")
    says(area, "o_6 was also seen at t=3, in another state")
    assert area.get_by_role("img", name=re.compile("^A phone. On its screen: Network")).is_visible()
    photograph(page, "widgets_01", {"phone": area})
    button(area, "Back").click()
    says(area, "t = 5: action back")
    press(page, handle(area, "step t"), "ArrowLeft")
    says(area, "t = 4: action toggle Airplane")
    pull(page, handle(area, "step t"), 0.0)
    says(area, "t = 1: action open Settings")


def test_what_if(page: Page):
    area = cell_with(page, PHONE)
    button(area, "Restart").click()
    says(area, "From the start")
    press(page, button(area, "open Chat"), "Space")
    says(area, "branches at t = 1: open Chat instead of open Settings")
    typed = focus(area.get_by_label("or type an action"))
    typed.fill("make tea")
    page.keyboard.press("Enter")
    says(area, "make tea instead of open Chat.*Failure: inadmissible")
    assert area.get_by_text(re.compile("^Not possible")).is_visible() and typed.input_value() == ""
    button(area, "Forward").click()
    assert area.get_by_text("branch: instead of open Chat").is_visible()
    press(page, button(area, "random"), "Space")
    says(area, "Now random chooses, from t = 2 on")
    photograph(page, "widgets_01", {"branch": area})


def test_other_worlds_and_the_still_are_photographed(page: Page):
    craft = cell_with(page, CRAFT)
    button(craft, "Forward").click()
    says(craft, "t = 2: ")
    photograph(page, "widgets_01", {"craft": craft, "still": cell_with(page, STILL)})
