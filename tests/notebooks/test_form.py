"""What every notebook of the workbook has in common."""

from __future__ import annotations

import re
from pathlib import Path

import nbformat
import pytest

from labkit.workshop.build import notebook_path, read_text, text_files

TEXTS = text_files()


@pytest.fixture(params=TEXTS, ids=[t.stem for t in TEXTS])
def text(request: pytest.FixtureRequest) -> Path:
    return request.param


@pytest.fixture
def notebook(text: Path) -> nbformat.NotebookNode:
    return nbformat.read(notebook_path(text), as_version=4)


def code_cells(notebook: nbformat.NotebookNode) -> list[nbformat.NotebookNode]:
    return [c for c in notebook.cells if c.cell_type == "code"]


def html_of(notebook: nbformat.NotebookNode) -> str:
    """All HTML a reader sees: Markdown cells and HTML outputs."""
    parts = [c.source for c in notebook.cells if c.cell_type == "markdown"]
    for cell in code_cells(notebook):
        parts += [o["data"]["text/html"] for o in cell.outputs if "text/html" in o.get("data", {})]
    return "\n".join("".join(p) for p in parts)


def test_the_notebook_is_its_text_form(text: Path, notebook: nbformat.NotebookNode) -> None:
    written = [(c.cell_type, c.source) for c in read_text(text).cells]
    kept = [(c.cell_type, c.source) for c in notebook.cells]
    assert kept == written, f"{text.stem} and its text form differ: run `make notebooks`"


def test_it_is_executed_in_order_without_errors(notebook: nbformat.NotebookNode) -> None:
    cells = code_cells(notebook)
    assert [c.execution_count for c in cells] == list(range(1, len(cells) + 1))
    errors = [o["ename"] for c in cells for o in c.outputs if o.output_type == "error"]
    assert not errors


def test_every_section_says_what_one_will_be_able_to_do_and_how_long_it_takes(
    notebook: nbformat.NotebookNode,
) -> None:
    sections = [
        c.source
        for c in notebook.cells
        if c.cell_type == "markdown" and c.source.startswith("## ") and "## Limits" not in c.source
    ]
    assert len(sections) >= 5
    for source in sections:
        heading = source.splitlines()[0]
        assert re.search(r"\(\d+ minutes?\)$", heading), f"no minutes in {heading!r}"
        if not heading.startswith("## 10."):
            assert "You will be able to" in source, f"no objective under {heading!r}"


def test_every_image_has_alt_text_and_none_comes_from_the_web(notebook: nbformat.NotebookNode) -> None:
    page = html_of(notebook)
    images = re.findall(r"<img\b[^>]*>", page)
    for image in images:
        alt = re.search(r'alt="([^"]*)"', image)
        assert alt and len(alt.group(1).split()) >= 5, f"alt text missing or too short: {image[:120]}"
        assert not re.search(r'src="https?:', image), f"image from the web: {image[:120]}"
    for alt, target in re.findall(r"!\[([^\]]*)\]\(([^)]*)\)", page):
        assert len(alt.split()) >= 5 and not target.startswith("http")


def test_outputs_hold_no_path_of_the_machine_that_made_them(text: Path) -> None:
    content = notebook_path(text).read_text()
    assert str(Path(__file__).resolve().parents[2]) not in content
    assert str(Path.home()) + "/" not in content and "/home/" not in content


def test_every_equation_shown_has_a_test(notebook: nbformat.NotebookNode) -> None:
    tags = re.findall(r"\\tag\{([^}]+)\}", "\n".join(c.source for c in notebook.cells))
    tested = "\n".join(p.read_text() for p in Path(__file__).parent.glob("test_equations_*.py"))
    assert len(set(tags)) == len(tags), "an equation id is used twice"
    for tag in tags:
        assert f'"{tag}"' in tested, f"equation {tag} has no test in tests/notebooks/test_equations_*.py"
