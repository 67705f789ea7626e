"""Using notebook 02's widgets in a browser: each of them by mouse and by keyboard."""

from __future__ import annotations

import re

from playwright.sync_api import Locator, Page

from tests.browser.jupyter import focus, wait_for_change
from tests.browser.widgets_03 import button, press

MANY = 80
"""More Tab presses than any of the widgets has controls."""


def handle(area: Locator, name: str) -> Locator:
    """The handle of the slider with this description."""
    slider = area.locator(".widget-slider").filter(has=area.page.get_by_text(name, exact=True))
    return slider.locator(".noUi-handle")


def pull(page: Page, handle: Locator, share: float) -> None:
    """Take a slider's handle by mouse and pull it to `share` of its track."""
    focus(handle)
    box = handle.bounding_box()
    track = handle.locator("xpath=ancestor::*[contains(@class, 'noUi-target')]").bounding_box()
    height = box["y"] + box["height"] / 2
    page.mouse.move(box["x"] + box["width"] / 2, height)
    page.mouse.down()
    page.mouse.move(track["x"] + share * track["width"], height, steps=8)
    page.mouse.up()


def names_by_tab(page: Page, first: Locator, last: str) -> list[str]:
    """What Tab reaches from `first` to the button `last`: sliders by description, buttons by their text.

    The number beside a slider, which one can type in, is left out.
    """
    focus(first)
    names = []
    while not names or names[-1] != last:
        assert len(names) < MANY, f"Tab does not reach {last!r} but {names}"
        names.append(
            page.evaluate(
                """() => {
                    const focused = document.activeElement;
                    if (focused.classList.contains('widget-readout')) return '';
                    const slider = focused.closest('.widget-slider');
                    return (slider ? slider.querySelector('.widget-label') : focused).textContent.trim();
                }"""
            )
        )
        page.keyboard.press("Tab")
    return [name for name in names if name]


class Watched:
    """Waits until both the picture and the status of a widget have changed, and returns the status."""

    def __init__(self, page: Page, area: Locator) -> None:
        self._page, self._picture, self._status = page, area.locator("img"), area.get_by_role("alert")
        self._source, self.text = None, None
        self.changed()

    def changed(self) -> str:
        """The status after the change, which is waited for."""
        self._source = wait_for_change(self._page, lambda: self._picture.get_attribute("src"), self._source)
        # The text may be the same as before: a picture moves by less than the text rounds to.
        self.text = self._status.inner_text()
        return self.text

    def says(self, pattern: str) -> None:
        """Wait for a status that matches."""
        self._status.get_by_text(re.compile(pattern)).wait_for(timeout=15_000)
        self._source = self._picture.get_attribute("src")


def drag_clip(page: Page, area: Locator) -> None:
    """Over the upper bound by mouse and arrow keys, then the other sign and the dual clip."""
    shown, ratio = Watched(page, area), handle(area, "ratio r")
    pull(page, ratio, 0.2)
    shown.says(r"A > 0 and r below 1−ε: full gradient")
    press(page, ratio, "End")
    shown.says(r"A > 0 and r above 1\+ε: no gradient")
    pull(page, handle(area, "ε high"), 0.95)
    shown.says(r"CISPO's gradient is \+2\.4")
    press(page, handle(area, "ε low"), "ArrowRight")
    assert "clip range 0.79" in _alt_with(area, "clip range 0.79")
    press(page, button(area, "A = −1"), "Space")
    shown.says(r"A < 0 and r above 1\+ε: full gradient −3\.50")
    button(area, "c = 3").click()
    shown.says(r"above the dual clip 3: no gradient")
    press(page, ratio, "Home")
    shown.says(r"A < 0 and r below 1−ε: no gradient")
    press(page, ratio, "ArrowRight")
    assert "r = 0.01" in _alt_with(area, "r = 0.01")


def drag_kl(page: Page, area: Locator) -> None:
    """A logit by arrow key and by mouse, then the buttons."""
    shown, logit = Watched(page, area), handle(area, "π, logit of a")
    first = area.locator("table").inner_text()
    assert "∇KL(ref‖π)" in first and "neither" in first
    press(page, logit, "ArrowRight")
    shown.changed()
    wait_for_change(page, area.locator("table").inner_text, first)
    pull(page, logit, 0.9)
    shown.changed()
    button(area, "π = ref").click()
    shown.says(r"KL\(π‖ref\) = 0\.000 nats, .* none by more than")
    press(page, handle(area, "ref, logit of e"), "End")
    shown.says(r"Biased: k2 by")
    forward = re.search(r"KL\(ref‖π\) = ([\d.]+)", area.get_by_role("alert").inner_text())[1]
    press(page, button(area, "Swap π and ref"), "Space")
    shown.says(rf"KL\(π‖ref\) = {re.escape(forward)} nats")
    press(page, button(area, "Reset"), "Enter")
    wait_for_change(page, area.locator("table").inner_text, None)
    shown.says(r"Biased: k2 by \+")


def mark_group(page: Page, area: Locator) -> None:
    """All answers wrong, one of them right again by keyboard, a larger group, whole answers."""
    shown = Watched(page, area)
    shown.says("DAPO keeps this group")
    for i in (1, 2):
        area.get_by_role("button", name=re.compile(f"^{i}: right, ")).click()
    shown.says("All 6 are wrong: .* DAPO drops the group")
    assert "dropped" in area.locator("table").inner_text()
    pull(page, handle(area, "PPO's critic says V"), 0.0)
    shown.says("foresaw it too")
    third = area.get_by_role("button", name=re.compile("^3: wrong, "))
    press(page, third, "Space")
    shown.says("DAPO keeps this group")
    # Its text has changed, and the keyboard has stayed on it.
    assert page.evaluate("() => document.activeElement.textContent").startswith("3: right")
    press(page, handle(area, "answers in the group, G"), "End")
    area.get_by_role("button", name=re.compile("^8: wrong, ")).wait_for(timeout=15_000)
    each = area.locator("table").inner_text()
    press(page, button(area, "a whole answer"), "Space")
    wait_for_change(page, area.locator("table").inner_text, each)


def _alt_with(area: Locator, text: str) -> str:
    """The picture's alt text, once it has `text`."""
    area.locator(f'img[alt*="{text}"]').wait_for(timeout=15_000)
    return area.locator("img").get_attribute("alt")
