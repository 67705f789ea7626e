"""Using notebook 03's widgets in a browser: each of them by mouse and by keyboard."""

from __future__ import annotations

import re

from playwright.sync_api import Locator, Page

from tests.browser.jupyter import PANEL, focus, screenshot, wait_for_change

PATIENCE = 300
"""Seconds to wait for training on a busy machine; on an idle one it takes a few."""


def cell_with(page: Page, source: str) -> Locator:
    """Output of the first code cell that has a line `source`."""
    index = page.evaluate(
        f"""source => {PANEL}.content.widgets.findIndex(cell => cell.model.type === 'code'
            && cell.model.sharedModel.getSource().split('\\n').includes(source))""",
        source,
    )
    assert index >= 0, f"no cell has the line {source!r}"
    return page.locator(".jp-Notebook-cell").nth(index).locator(".jp-Cell-outputArea")


def press(page: Page, control: Locator, key: str = "Enter") -> None:
    """Use a control by the keyboard."""
    focus(control)
    page.keyboard.press(key)


def button(area: Locator, name: str) -> Locator:
    """A button or toggle button by what stands on it."""
    return area.get_by_role("button", name=name, exact=True)


def play_by_mouse(page: Page, play: Locator) -> None:
    """Ask the model under both rules, show a solution, draw a hand."""
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


def play_by_keyboard(page: Page, play: Locator) -> None:
    """Type a hand and two formulas, ask the model."""
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


def train_anew(page: Page, train: Locator) -> None:
    """Forget the SFT run by keyboard, start it again by mouse, see the picture move and training end."""
    picture, status = train.locator("img"), train.get_by_role("alert")
    before = picture.get_attribute("src")
    press(page, button(train, "SFT"), "Space")
    press(page, button(train, "Reset"))
    empty = wait_for_change(page, lambda: picture.get_attribute("src"), before)
    button(train, "Start").click()
    wait_for_change(page, lambda: picture.get_attribute("src"), empty, PATIENCE)
    status.get_by_text("SFT is done").wait_for(timeout=PATIENCE * 1000)
    assert re.search(r"SFT, \d+ updates: solved under the training rule", picture.get_attribute("alt"))
    computed = picture.get_attribute("src")
    press(page, button(train, "compute"), "Space")
    wait_for_change(page, lambda: picture.get_attribute("src"), computed)
    button(train, "updates").click()


def slide(page: Page, area: Locator) -> None:
    """Move over the checkpoints by arrow key, End key and mouse, and choose another hand."""
    handle, status = area.locator(".noUi-handle"), area.get_by_role("alert")
    before = wait_for_change(page, status.inner_text, "")
    assert ", base, hand" in before
    press(page, handle, "ArrowRight")
    by_key = wait_for_change(page, status.inner_text, before)
    assert ", step " in by_key
    press(page, handle, "End")
    at_end = wait_for_change(page, status.inner_text, by_key)
    # By mouse: take the handle and pull it half way back.
    box, track = handle.bounding_box(), area.locator(".noUi-target").bounding_box()
    page.mouse.move(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
    page.mouse.down()
    page.mouse.move(track["x"] + track["width"] / 2, box["y"] + box["height"] / 2, steps=8)
    page.mouse.up()
    half_way = wait_for_change(page, status.inner_text, at_end)
    assert ", step " in half_way
    other_hand = area.get_by_role("button", name=re.compile(r"^\w+ \w+ \w+ \w+$")).nth(1)
    press(page, other_hand, "Space")
    status.get_by_text(f"hand {other_hand.inner_text()}").wait_for(timeout=10_000)


def photograph(page: Page, name: str, areas: dict[str, Locator]) -> None:
    """Screenshots of each area in the light and the dark theme."""
    for theme in ("Light", "Dark"):
        page.evaluate(
            "theme => window.jupyterapp.commands.execute('apputils:change-theme', {theme})",
            f"JupyterLab {theme}",
        )
        shown = page.locator(f"body[data-jp-theme-light='{str(theme == 'Light').lower()}']")
        shown.wait_for(state="attached", timeout=15_000)
        page.wait_for_timeout(500)
        page.mouse.move(0, 0)
        for part, area in areas.items():
            area.evaluate("area => area.scrollIntoView({block: 'start'})")
            assert screenshot(page, f"{name}-{part}-{theme.lower()}").stat().st_size > 20_000
