"""What the workbook's widgets share: figures with alt text, announced text, calls that wait or are bundled.

Their controls are buttons, toggle buttons, sliders and text fields. Lists and radio buttons are left out on
purpose: in command mode JupyterLab takes the up and down arrows and single letters for itself (A adds a
cell, D D deletes one), so that neither can be used from the keyboard.
"""

from __future__ import annotations

import asyncio
import base64
import html
import threading
from collections.abc import Callable
from functools import wraps
from typing import Any

import ipywidgets as widgets
from IPython.display import HTML
from matplotlib.figure import Figure

from labkit.plotting import render

SCREEN_DPI = 110
"""Dots an inch of figures on screen: sharp enough, and half the drawing time of a printed one."""
CSS_DPI = 96

GOOD, BAD, PLAIN = ("#00573F", "#FFFFFF"), ("#8A3300", "#FFFFFF"), ("#4A4A4A", "#FFFFFF")
"""Background and text of a badge. Both are set, so that it reads the same on a light and a dark page."""
MARK = ("#FFDDB0", "#402000")
"""Background and text of a marked mistake."""


def figure_html(figure: Figure, alt: str, width: int | None = None) -> str:
    """A figure as an `<img>` that carries its picture and its alt text.

    `width` in pixels, by default the figure's own; it shrinks to fit a narrow page. Raises ValueError for
    alt text of fewer than eight words: a title does not tell what a figure shows.
    """
    if len(alt.split()) < 8:
        raise ValueError(f"alt text says what the figure shows, in a sentence at least; got {alt!r}")
    source = base64.b64encode(render(figure, "png", dpi=SCREEN_DPI)).decode()
    shown = width or round(figure.get_size_inches()[0] * CSS_DPI)
    return (
        f'<img alt="{html.escape(alt)}" width="{shown}" style="max-width:100%;height:auto" '
        f'src="data:image/png;base64,{source}"/>'
    )


def status_html(text: str) -> str:
    """Plain text that a screen reader says when it changes, without interrupting.

    A widget replaces its whole content, and of a region that is new on the page only an alert is sure to
    be read out; `polite` makes it wait its turn.
    """
    return f'<div role="alert" aria-live="polite" aria-atomic="true">{html.escape(text)}</div>'


def badge_html(text: str, colours: tuple[str, str]) -> str:
    """A word on a coloured ground; the word alone says it all."""
    background, colour = colours
    style = f"background:{background};color:{colour};padding:1px 7px;border-radius:9px;white-space:nowrap"
    return f'<span style="{style}">{html.escape(text)}</span>'


def progress_html(done: int, total: int, text: str, label: str) -> str:
    """A native progress bar with its text beside it."""
    return (
        f'<progress max="{total}" value="{done}" aria-label="{html.escape(label)}" '
        f'style="width:12em;vertical-align:middle"></progress> {html.escape(text)}'
    )


def debounced(wait_seconds: float) -> Callable[[Callable[..., Any]], Callable[..., None]]:
    """Decorator: the call is made once calls have paused for `wait_seconds`, with the last arguments.

    In a kernel it is made in the kernel's own thread, elsewhere in a timer's. A wait of 0 calls at once.
    """

    def decorate(function: Callable[..., Any]) -> Callable[..., None]:
        waiting: asyncio.TimerHandle | threading.Timer | None = None

        @wraps(function)
        def call(*args: Any, **kwargs: Any) -> None:
            nonlocal waiting
            if waiting is not None:
                waiting.cancel()
            if wait_seconds <= 0:
                function(*args, **kwargs)
                return
            try:
                loop = asyncio.get_running_loop()
            except RuntimeError:
                waiting = threading.Timer(wait_seconds, function, args, kwargs)
                waiting.daemon = True
                waiting.start()
            else:
                waiting = loop.call_later(wait_seconds, lambda: function(*args, **kwargs))

        return call

    return decorate


class Refresher:
    """Runs a function in the thread that made it, whichever thread asks; requests in between count as one.

    Widgets and matplotlib belong to the kernel's thread: one that trains asks, and goes on.
    """

    def __init__(self, function: Callable[[], None]) -> None:
        self._function = function
        self._asked = threading.Event()
        try:
            self._loop = asyncio.get_running_loop()
        except RuntimeError:  # no kernel: whoever waits calls run_if_asked
            self._loop = None

    def ask(self) -> None:
        """From any thread: have the function run soon."""
        self._asked.set()
        if self._loop is not None and not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self.run_if_asked)

    def run_if_asked(self) -> None:
        """In the home thread: run the function if it was asked for since it last ran."""
        if self._asked.is_set():
            self._asked.clear()
            self._function()


class Panel(widgets.VBox):
    """A widget that shows a still of itself where a notebook is only read."""

    def still(self) -> str:
        """What it shows now, as HTML without controls."""
        raise NotImplementedError

    def static(self) -> HTML:
        """What it shows now, without controls: for a notebook that is printed or read on the web."""
        return HTML(self.still())

    def _repr_mimebundle_(self, **kwargs: Any) -> dict[str, Any]:
        # A viewer that knows no widgets takes the richest form it does know.
        return super()._repr_mimebundle_(**kwargs) | {"text/html": self.still()}


def button(description: str, action: Callable[[], None], tooltip: str) -> widgets.Button:
    """A button that calls `action` without arguments."""
    made = widgets.Button(description=description, tooltip=tooltip, layout=widgets.Layout(width="auto"))
    made.on_click(lambda _: action())
    return made


def choice(
    description: str, options: list[tuple[str, Any]], action: Callable[[Any], None]
) -> widgets.ToggleButtons:
    """Toggle buttons that call `action` with the value chosen."""
    made = widgets.ToggleButtons(
        options=options,
        description=description,
        style={"button_width": "auto", "description_width": "initial"},
        layout=widgets.Layout(width="auto"),
    )
    made.observe(lambda change: action(change["new"]), "value")
    return made
