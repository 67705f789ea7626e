"""Predict first: a guess before the measurement, scored against it afterwards."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from labkit.workshop import progress
from labkit.workshop.rendering import (
    BAD,
    GOOD,
    NEUTRAL,
    in_notebook,
    show_card,
    show_markdown,
    show_widget,
    widgets_available,
)

if TYPE_CHECKING:
    from ipywidgets import Widget

Options = Sequence[str] | tuple[float, float]
"""Texts to choose from (a list), or the two ends of a range (a tuple of numbers)."""


def is_range(options: Options) -> bool:
    """Whether options are the ends of a range; ValueError if they are neither range nor choices."""
    numbers = [isinstance(o, int | float) and not isinstance(o, bool) for o in options]
    if len(options) == 2 and all(numbers) and options[0] < options[1]:
        return True
    if len(options) < 2 or not all(isinstance(o, str) for o in options):
        raise ValueError(f"{options!r} is neither a range (low, high) nor two or more texts to choose from")
    return False


def predict(id: str, question: str, options: Options) -> None:
    """Ask for a guess: a list of texts gives buttons, a tuple `(low, high)` a slider.

    The guess is kept in the progress file. Nothing waits for it: cells below run without one.
    """
    ranged = is_range(options)
    progress.record_prediction(id, options=list(options))
    what = f"between {options[0]:g} and {options[1]:g}" if ranged else " / ".join(options)
    show_markdown(f"**Predict first.** {question}\n\n*Your guess: {what}*")
    if widgets_available():
        show_widget(prediction_control(id, options), f"[a control to guess with: {what}]")
    else:
        example = f"{sum(options) / 2:g}" if ranged else repr(options[0])
        print(f"Guess by guess({id!r}, {example}), then go on.\n")


def guess(id: str, value: str | float) -> None:
    """Keep a guess, in place of an earlier one; ValueError if it is none of the options."""
    options = progress.read()["predictions"].get(id, {}).get("options")
    if options is not None:
        if is_range(options):
            if not (isinstance(value, int | float) and options[0] <= value <= options[1]):
                raise ValueError(f"guess {value!r} is not a number from {options[0]:g} to {options[1]:g}")
        elif value not in options:
            raise ValueError(f"guess {value!r} is not one of {', '.join(map(repr, options))}")
    progress.record_prediction(id, guess=value)


def prediction_control(id: str, options: Options) -> Widget:
    """The control itself: toggle buttons, or a slider with a button; both reachable by keyboard."""
    import ipywidgets as widgets

    ranged = is_range(options)
    kept = progress.read()["predictions"].get(id, {}).get("guess")
    note = widgets.HTML(_kept_note(kept))

    def keep(value: str | float) -> None:
        guess(id, value)
        note.value = _kept_note(value)

    if not ranged:
        # Not radio buttons: in command mode JupyterLab takes the arrow keys for itself.
        buttons = widgets.ToggleButtons(
            options=list(options),
            value=kept if kept in options else None,
            style={"button_width": "auto"},
        )
        buttons.observe(lambda change: change["new"] is not None and keep(change["new"]), "value")
        return widgets.VBox([buttons, note])
    low, high = options
    slider = widgets.FloatSlider(
        value=kept if isinstance(kept, int | float) and low <= kept <= high else (low + high) / 2,
        min=low,
        max=high,
        step=(high - low) / 100,
        description="my guess",
        # Each value is written to a file: when the handle is let go, not at every pixel.
        continuous_update=False,
        readout_format=".2f" if high - low < 10 else ".1f",
    )
    # A slider always shows some value; the button makes it a guess without moving the handle.
    button = widgets.Button(description="Keep this guess")
    slider.observe(lambda change: keep(change["new"]), "value")
    button.on_click(lambda _: keep(slider.value))
    return widgets.VBox([widgets.HBox([slider, button]), note])


def _kept_note(kept: str | float | None) -> str:
    import html

    if kept is None:
        return "No guess yet."
    return f"Kept: <b>{html.escape(f'{kept:.3g}' if isinstance(kept, int | float) else kept)}</b>"


def score(guessed: str | float, value: str | float, options: Options) -> float:
    """How good a guess was, 0 to 1: right or wrong for choices, else 1 - distance / width of the range."""
    if not is_range(options):
        return float(guessed == value)
    return max(0.0, 1 - abs(guessed - value) / (options[1] - options[0]))


def reveal(id: str, value: str | float) -> None:
    """Show what was measured and, if there was a guess, how close it came."""
    known = progress.read()["predictions"].get(id, {})
    options, guessed = known.get("options"), known.get("guess")
    shown = _text(value)
    if options and not is_range(options) and value not in options:
        raise ValueError(f"value {value!r} of prediction {id} is not one of {', '.join(map(repr, options))}")
    if guessed is None or not options or isinstance(guessed, str) != isinstance(value, str):
        where = "Guess above and run this cell again" if in_notebook() else f"Call guess({id!r}, ...) first"
        show_card(f"Measured: {shown}", f"No guess was made. {where} to have it scored.")
        return
    points = score(guessed, value, options)
    progress.record_prediction(id, value=_plain_number(value), score=round(points, 3))
    show_card(f"Measured: {shown}", *_words(guessed, value, points, is_range(options)))


def _words(guessed: Any, value: Any, points: float, ranged: bool) -> tuple[str, str]:
    if not ranged:
        return ("Your guess was right.", GOOD) if points else (f"Your guess was *{guessed}*.", BAD)
    judged, colour = next(
        (words, colour)
        for least, words, colour in (
            (0.95, "very close", GOOD),
            (0.85, "close", GOOD),
            (0.6, "some way off", NEUTRAL),
            (0.0, "far off", BAD),
        )
        if points >= least
    )
    gap = f"{abs(guessed - value):.3g} {'too high' if guessed > value else 'too low'}"
    return f"Your guess was {_text(guessed)}: {judged} ({gap}; {100 * points:.0f} of 100 points).", colour


def _text(value: str | float) -> str:
    return value if isinstance(value, str) else f"{value:.3g}"


def _plain_number(value: Any) -> Any:
    return value if isinstance(value, str) else float(value)
