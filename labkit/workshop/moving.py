"""Figures that follow a drag: what never changes is drawn once, and only the rest again."""

from __future__ import annotations

import base64
import html
import io
from collections.abc import Sequence

import ipywidgets as widgets
from matplotlib.artist import Artist
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from PIL import Image

from labkit.workshop.controls import CSS_DPI, SCREEN_DPI, Panel, debounced, status_html

WAIT_SECONDS = 0.01
"""Pause after a change before the picture is drawn: less than a frame of the browser, so that it follows a
drag; moves that queue up meanwhile are drawn once."""
QUICK, SMALL = 1, 9
"""Compression of a picture that the next move replaces, and of one that is kept."""


class MovingFigure:
    """A figure of which only `moving` artists change, drawn in that order over the rest.

    Change the artists, then ask for `html`. `seldom` holds what changes now and then, such as an axis whose
    limits follow: call `redraw_seldom` after. After anything else has changed, call `redraw_rest`.
    """

    def __init__(self, figure: Figure, moving: Sequence[Artist], seldom: Sequence[Artist] = ()) -> None:
        self.figure, self._moving, self._seldom = figure, list(moving), list(seldom)
        self._canvas = FigureCanvasAgg(figure)
        figure.set_dpi(SCREEN_DPI)
        for artist in (*self._moving, *self._seldom):
            artist.set_animated(True)
        self.redraw_rest()
        # The room that the first drawing gave each part stays, or the picture would jump.
        figure.set_layout_engine("none")

    def redraw_rest(self) -> None:
        """Draw what does not move and keep it."""
        self._canvas.draw()
        self._bottom = self._canvas.copy_from_bbox(self.figure.bbox)
        self.redraw_seldom()

    def redraw_seldom(self) -> None:
        """Draw what changes now and then over it and keep that too."""
        self._canvas.restore_region(self._bottom)
        for artist in self._seldom:
            self.figure.draw_artist(artist)
        self._rest = self._canvas.copy_from_bbox(self.figure.bbox)

    def html(self, alt: str, compression: int = SMALL) -> str:
        """The figure as an `<img>` with its alt text, as `labkit.workshop.controls.figure_html` makes it."""
        if len(alt.split()) < 8:
            raise ValueError(f"alt text says what the figure shows, in a sentence at least; got {alt!r}")
        self._canvas.restore_region(self._rest)
        for artist in self._moving:
            if artist.get_visible():
                self.figure.draw_artist(artist)
        size = self._canvas.get_width_height()
        picture = Image.frombuffer("RGBA", size, self._canvas.buffer_rgba(), "raw", "RGBA", 0, 1).convert(
            "RGB"
        )
        buffer = io.BytesIO()
        picture.save(buffer, "PNG", compress_level=compression)
        source = base64.b64encode(buffer.getvalue()).decode()
        width = round(self.figure.get_size_inches()[0] * CSS_DPI)
        return (
            f'<img alt="{html.escape(alt)}" width="{width}" style="max-width:100%;height:auto" '
            f'src="data:image/png;base64,{source}"/>'
        )


class FigurePanel(Panel):
    """Controls, a line that says what is shown, a moving figure and, where one has it, a table.

    A subclass makes its controls and its figure, calls this constructor, and says in `move`, `alt`, `says`
    and `table` what they show; its controls call `changed`.
    """

    _ready = False

    def __init__(self, controls: Sequence[widgets.Widget], moving: MovingFigure) -> None:
        self._moving = moving
        self._picture, self._table, self._status = (widgets.HTML() for _ in range(3))
        self._draw_soon = debounced(WAIT_SECONDS)(self.draw)
        super().__init__([*controls, self._status, self._picture, self._table])
        self.draw()
        self._ready = True

    def changed(self, *_: object) -> None:
        """Draw once the moves have paused; while the panel is being made, nothing."""
        if self._ready:
            self._draw_soon()

    def draw(self) -> None:
        """Show what the controls say now."""
        self.move()
        self._picture.value = self._moving.html(self.alt(), QUICK)
        self._table.value = self.table()
        self._status.value = status_html(self.says())

    def still(self) -> str:
        """The picture as it stands, with its table and the line."""
        self.move()
        return f"{self._moving.html(self.alt())}{self.table()}<p>{html.escape(self.says())}</p>"

    def move(self) -> None:
        """Bring the artists to where the controls say."""
        raise NotImplementedError

    def alt(self) -> str:
        """What the picture shows, for someone who cannot see it."""
        raise NotImplementedError

    def says(self) -> str:
        """The case at hand, in a sentence."""
        raise NotImplementedError

    def table(self) -> str:
        """Numbers under the picture, as HTML; none by default."""
        return ""


def slider(
    description: str, value: float, low: float, high: float, step: float, width: str = "340px"
) -> widgets.FloatSlider:
    """A slider that reports while it is dragged; arrow keys move it a step."""
    return widgets.FloatSlider(
        value=value,
        min=low,
        max=high,
        step=step,
        description=description,
        readout_format=".2f",
        style={"description_width": "initial"},
        layout=widgets.Layout(width=f"min({width}, 100%)"),
    )


def number(value: float, digits: int = 2, sign: bool = False) -> str:
    """A number for reading, with a true minus sign and no negative zero."""
    rounded = round(value, digits) + 0.0
    return f"{rounded:{'+' if sign and rounded else ''}.{digits}f}".replace("-", "−")


def table_html(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A table whose first column names its rows; cells are HTML."""
    left = 'style="text-align:left;padding:3px 10px"'
    first = "".join(f'<th scope="col" {left}>{cell}</th>' for cell in head)
    body = "".join(
        f'<tr><th scope="row" style="text-align:left;font-weight:normal;padding:3px 10px">{row[0]}</th>'
        + "".join(f"<td {left}>{cell}</td>" for cell in row[1:])
        + "</tr>"
        for row in rows
    )
    return f"<table><thead><tr>{first}</tr></thead><tbody>{body}</tbody></table>"
