"""The screen as a small phone: inline SVG, drawn from what Ω lets through and nothing else."""

from __future__ import annotations

from html import escape

from labkit.envs.phone.layout import Layout
from labkit.envs.phone.rules import Screen, State, look, observe
from labkit.plotting import COLOURS

WIDTH, HEIGHT = 180, 320
"""Size in pixels at scale 1."""
_ROW, _TOP, _LEFT = 30, 76, 18
_FONT = 'font-family="sans-serif"'


def phone_svg(layout: Layout, state: State, scale: float = 1.0) -> str:
    """A picture of the phone, with the observation as alt text. Readable on light and dark pages.

    The picture and the text of two states that look alike are equal.
    """
    screen = look(layout, state)
    alt = f"A phone. On its screen: {observe(layout, state)}"
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" role="img" aria-label="{escape(alt)}" '
        f'viewBox="0 0 {WIDTH} {HEIGHT}" width="{WIDTH * scale:g}" height="{HEIGHT * scale:g}">',
        f"<title>{escape(alt)}</title>",
        # The screen is opaque: its text does not hang on the colour of the page.
        f'<rect x="2" y="2" width="{WIDTH - 4}" height="{HEIGHT - 4}" rx="18" fill="white" '
        f'stroke="{COLOURS["grey"]}" stroke-width="4"/>',
        _text(WIDTH / 2, 24, "✈ airplane" if screen.airplane else "", size=11, anchor="middle"),
        *(_dialog(screen) if screen.kind == "dialog" else _page(screen)),
        "</svg>",
    ]
    return "".join(parts)


def _page(screen: Screen) -> list[str]:
    parts = [_text(_LEFT, 54, screen.title, size=17, weight="bold")]
    if screen.kind == "search":
        parts.append(_box(_TOP - 8, "white"))
    for row, line in enumerate(screen.lines):
        y = _TOP + row * _ROW
        parts.append(_text(_LEFT, y + 14, line))
        if screen.kind == "menu":
            parts.append(_text(WIDTH - _LEFT, y + 14, "›", anchor="end"))
            parts.append(
                f'<line x1="{_LEFT}" x2="{WIDTH - _LEFT}" y1="{y + 23}" y2="{y + 23}" stroke="#E5E5E5"/>'
            )
        elif line in ("on", "off"):
            parts.append(_switch(y, line == "on"))
    return parts


def _dialog(screen: Screen) -> list[str]:
    y = HEIGHT / 2 - 50
    parts = [
        f'<rect x="5" y="30" width="{WIDTH - 10}" height="{HEIGHT - 60}" fill="#D9D9D9"/>',
        f'<rect x="12" y="{y}" width="{WIDTH - 24}" height="100" rx="10" fill="white"/>',
        _text(WIDTH / 2, y + 32, screen.title, size=13, weight="bold", anchor="middle"),
    ]
    for i, line in enumerate(screen.lines):
        x = WIDTH * (i + 1) / (len(screen.lines) + 1)
        parts.append(_text(x, y + 75, line, anchor="middle", colour=COLOURS["blue"]))
    return parts


def _switch(y: float, on: bool) -> str:
    """A switch: its knob is on the right when on, so that it can be told without colour."""
    x = WIDTH - _LEFT - 34
    return (
        f'<rect x="{x}" y="{y}" width="34" height="18" rx="9" fill="{COLOURS["blue" if on else "grey"]}"/>'
        f'<circle cx="{x + (25 if on else 9)}" cy="{y + 9}" r="7" fill="white"/>'
    )


def _box(y: float, fill: str) -> str:
    return (
        f'<rect x="{_LEFT}" y="{y}" width="{WIDTH - 2 * _LEFT}" height="28" rx="6" fill="{fill}" '
        f'stroke="{COLOURS["grey"]}"/>'
    )


def _text(
    x: float, y: float, text: str, *, size: int = 14, weight: str = "normal", anchor: str = "start",
    colour: str = "black",
) -> str:  # fmt: skip
    return (
        f'<text x="{x:g}" y="{y:g}" {_FONT} font-size="{size}" font-weight="{weight}" '
        f'text-anchor="{anchor}" fill="{colour}">{escape(text)}</text>'
    )
