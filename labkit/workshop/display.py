"""What notebooks show from committed results: figures with alt text, and the claims table."""

from __future__ import annotations

import base64
import html
import json
from typing import Any

from IPython.display import HTML, Markdown

from labkit.claims import load_ledger
from labkit.files import repo_root
from labkit.gallery import claims_table


def card(study: str, name: str) -> dict[str, Any]:
    """Title, alt text and paper counterpart of a committed figure.

    FileNotFoundError, naming the figures there are, for one that is not.
    """
    path = repo_root() / "figures" / study / f"{name}.json"
    if not path.exists():
        there = sorted(p.stem for p in path.parent.glob("*.png"))
        raise FileNotFoundError(
            f"no figure {name!r} of study {study!r}; there are {there}. "
            f"Draw them with `python -m labkit figures {study}`."
        )
    return json.loads(path.read_text())


def figure(study: str, name: str, width: int | None = None) -> HTML:
    """A committed figure with its caption; the image is embedded, so that the notebook stands alone.

    `width` in pixels; by default the figure's own.
    """
    about = card(study, name)
    png = (repo_root() / "figures" / study / f"{name}.png").read_bytes()
    # Figures are saved at 160 dots an inch and meant to be read at 96.
    shown = width or round(int.from_bytes(png[16:20], "big") * 96 / 160)
    source = base64.b64encode(png).decode()
    return HTML(
        f'<figure style="margin:0"><img width="{shown}" alt="{html.escape(about["alt"])}" '
        f'src="data:image/png;base64,{source}"/><figcaption><b>{html.escape(about["title"])}.</b> '
        f"Beside: {html.escape(about['paper'])}. Data: figures/{study}/{name}.csv</figcaption></figure>"
    )


def claims(study: str, ids: list[str] | None = None) -> Markdown:
    """The claims of a study with effect, interval and verdict, from the committed ledger."""
    entries = [e for e in load_ledger() if e["study"] == study and (ids is None or e["id"] in ids)]
    table = claims_table(entries)
    remarks = [f"- *{e['verdict']}*, {e['statement']} {e['remark']}" for e in entries if e["remark"]]
    return Markdown(table + ("\n\n" + "\n".join(remarks) if remarks else ""))


def claim(claim_id: str) -> dict[str, Any]:
    """One ledger entry; KeyError, naming those there are, for an unknown id."""
    entries = {e["id"]: e for e in load_ledger()}
    if claim_id not in entries:
        raise KeyError(f"no claim {claim_id!r} in the ledger; there are {', '.join(entries)}")
    return entries[claim_id]
