"""Notebooks from their text form: pair, execute, and keep what each section took.

`python -m labkit.workshop.build [NN ...]` (or `make notebooks`) writes notebooks/NN_*.ipynb with outputs.
"""

from __future__ import annotations

import sys
from datetime import datetime
from pathlib import Path

import jupytext
import nbformat
from nbclient import NotebookClient
from nbformat import NotebookNode

from labkit.files import atomic_write_text, repo_root

VOLATILE_CELL_METADATA = ("execution", "ExecuteTime")
TIMEOUT_SECONDS = 900
"""Longest a single cell may take."""


def text_files() -> list[Path]:
    """The notebooks' text forms, in order."""
    return sorted((repo_root() / "notebooks" / "text").glob("[0-9][0-9]_*.py"))


def notebook_path(text: Path) -> Path:
    """Where the notebook of a text form lies."""
    return text.parent.parent / f"{text.stem}.ipynb"


def read_text(text: Path) -> NotebookNode:
    """The notebook of a text form, without outputs; cell ids count up, so that they stay the same."""
    notebook = jupytext.read(text)
    for number, cell in enumerate(notebook.cells):
        cell["id"] = f"cell-{number:03d}"
    notebook.metadata.pop("jupytext", None)
    return notebook


def execute(notebook: NotebookNode, folder: Path) -> NotebookNode:
    """Run all cells in a fresh kernel with `folder` as working directory; raises at the first error."""
    client = NotebookClient(
        notebook,
        timeout=TIMEOUT_SECONDS,
        kernel_name=notebook.metadata["kernelspec"]["name"],
        resources={"metadata": {"path": str(folder)}},
        record_timing=True,
    )
    client.execute()
    return notebook


def section_seconds(notebook: NotebookNode) -> dict[str, float]:
    """Seconds of execution by section (`## ` heading), from the cells' recorded timing."""
    seconds: dict[str, float] = {}
    section = "set-up"
    for cell in notebook.cells:
        if cell.cell_type == "markdown":
            for line in cell.source.splitlines():
                if line.startswith("## "):
                    section = line.removeprefix("## ")
            continue
        timing = cell.metadata.get("execution", {})
        if "iopub.execute_input" in timing and "shell.execute_reply" in timing:
            start, end = (
                datetime.fromisoformat(timing[k].replace("Z", "+00:00"))
                for k in ("iopub.execute_input", "shell.execute_reply")
            )
            seconds[section] = seconds.get(section, 0.0) + (end - start).total_seconds()
    return {name: round(value, 1) for name, value in seconds.items()}


def build(text: Path) -> Path:
    """Execute one notebook from its text form and write it whole; the old one stays if it fails."""
    target = notebook_path(text)
    notebook = execute(read_text(text), target.parent)
    notebook.metadata["labkit"] = {"seconds": section_seconds(notebook)}
    for cell in notebook.cells:
        for key in VOLATILE_CELL_METADATA:
            cell.metadata.pop(key, None)
    return atomic_write_text(target, nbformat.writes(notebook) + "\n")


def main(names: list[str]) -> int:
    """Build the notebooks whose number or name is given, or all."""
    chosen = [t for t in text_files() if not names or any(t.stem.startswith(n) for n in names)]
    if not chosen:
        known = ", ".join(t.stem for t in text_files())
        print(f"no notebook starts with {names}; there are {known}", file=sys.stderr)
        return 2
    for text in chosen:
        print(f"{build(text).name} built")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
