"""Showing text and controls to a learner: rich in a notebook, plain text elsewhere."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ipywidgets import Widget

GOOD, BAD, NEUTRAL = "#009E73", "#D55E00", "#888888"
"""Colours of a result's edge; its first words say the same."""


def in_notebook() -> bool:
    """Whether output goes to a Jupyter kernel's front end."""
    try:
        from IPython import get_ipython
    except ImportError:
        return False
    return hasattr(get_ipython(), "kernel")


def plain(markdown: str) -> str:
    """Markdown as text for a terminal: without HTML tags and emphasis, code left as it is."""
    parts = re.split(r"(```.*?```|`[^`\n]*`)", markdown, flags=re.DOTALL)
    for i in range(0, len(parts), 2):
        parts[i] = re.sub(r"</?(?:div|details|summary)[^>]*>|\*\*|&nbsp;", "", parts[i])
    return re.sub(r"\n{3,}", "\n\n", "".join(parts)).strip()


def show_markdown(markdown: str) -> None:
    """Display Markdown in a notebook, print it as text elsewhere."""
    if not in_notebook():
        print(plain(markdown) + "\n")
        return
    from IPython.display import display

    display({"text/markdown": markdown, "text/plain": plain(markdown)}, raw=True)


def show_card(heading: str, markdown: str, colour: str = NEUTRAL) -> None:
    """Display text under a bold heading, with a coloured edge in a notebook."""
    body = f"**{heading}**\n\n{markdown}"
    if in_notebook():
        body = f'<div style="border-left: 4px solid {colour}; padding-left: 12px">\n\n{body}\n\n</div>'
    show_markdown(body)


def show_widget(widget: Widget, fallback: str) -> None:
    """Display a widget; where a saved notebook is only read, `fallback` stands in its place."""
    from IPython.display import display

    display({**widget._repr_mimebundle_(), "text/plain": fallback}, raw=True)


def widgets_available() -> bool:
    """Whether controls can be shown."""
    if not in_notebook():
        return False
    try:
        import ipywidgets  # noqa: F401
    except ImportError:
        return False
    return True
