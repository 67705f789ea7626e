"""figures/README.md: every figure beside the paper's it stands for, with verdicts."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from labkit.claims import load_ledger
from labkit.files import atomic_write_text, repo_root

SIGNS = {"reproduced": "✓", "reversed": "↺", "not reproduced": "✗", "inconclusive": "?"}


def claims_table(entries: Iterable[dict[str, Any]]) -> str:
    """The ledger as a Markdown table."""
    lines = [
        "| claim | effect [95 % interval], seeds | paper | verdict |",
        "| --- | --- | --- | --- |",
    ]
    for e in entries:
        bounds = "none" if e["low"] is None else f"{e['low']:+.3g}, {e['high']:+.3g}"
        interval = f"{e['effect']:+.3g} [{bounds}], {e['seeds']}"
        statement = f"{e['statement']}<br><small>{e['metric']}; {e['source']}</small>"
        lines.append(f"| {statement} | {interval} | {e['paper']} | {SIGNS[e['verdict']]} {e['verdict']} |")
    return "\n".join(lines)


def figure_cards() -> list[tuple[Path, dict[str, Any]]]:
    """`(png path, card)` of every saved figure, in order of path."""
    root = repo_root() / "figures"
    cards = [(p, json.loads(p.read_text())) for p in sorted(root.glob("*/*.json"))]
    return [(p.with_suffix(".png"), card) for p, card in cards if "alt" in card]


def gallery() -> str:
    """The gallery as Markdown."""
    ledger = {e["id"]: e for e in load_ledger()}
    parts = [
        "# Gallery",
        "",
        "Drawn by `python -m labkit figures` from the data beside each figure (csv), which "
        "`python -m labkit run STUDY --profile full` made. Bands and whiskers are 95 % bootstrap intervals "
        "over seeds; the claims' intervals are Student's t.",
        "",
        "## Claims",
        "",
        claims_table(ledger.values()),
    ]
    study = None
    for png, card in figure_cards():
        if card["study"] != study:
            study = card["study"]
            parts += ["", f"## {study}"]
        path = png.relative_to(repo_root() / "figures").as_posix()
        parts += [
            "",
            f"### {card['title']}",
            "",
            f"![{card['alt']}]({path})",
            "",
            f"Beside: {card['paper']}.",
        ]
        if card["claims"]:
            parts += ["", *(f"- {ledger[c]['verdict']}: {ledger[c]['statement']}" for c in card["claims"])]
        parts += ["", f"Data: [{Path(path).stem}.csv]({path.removesuffix('.png')}.csv)."]
    return "\n".join(parts) + "\n"


def write_gallery() -> Path:
    """Write figures/README.md."""
    return atomic_write_text(repo_root() / "figures" / "README.md", gallery())


def write_readme_claims() -> Path:
    """Put the claims table between its two marks in README.md; ValueError if a mark is missing."""
    path = repo_root() / "README.md"
    text = path.read_text()
    start, end = "<!-- claims: made by `python -m labkit figures` -->", "<!-- end of claims -->"
    if start not in text or end not in text:
        raise ValueError(f"README.md has no claims table to renew; it needs the lines {start} and {end}")
    before, after = text.split(start)[0], text.split(end)[1]
    return atomic_write_text(path, f"{before}{start}\n\n{claims_table(load_ledger())}\n\n{end}{after}")
