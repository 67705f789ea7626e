"""What README, the gallery and the notebooks point to is there: files, images, headings, commands."""

import html
import json
import re
import shlex
from pathlib import Path
from urllib.parse import unquote

import pytest

from labkit.__main__ import COMMANDS
from labkit.files import repo_root

ROOT = repo_root()
FENCE = re.compile(r"^ *(```+|~~~+)[^\n]*\n(.*?)^ *\1 *$", re.MULTILINE | re.DOTALL)
INLINE_CODE = re.compile(r"(`+)(.+?)\1")
MARKDOWN_LINK = re.compile(
    r"(!?)\[((?:[^\[\]]|!?\[[^\]]*\]\([^)]*\))*)\]\(<?([^)\s>]+)>?(?:\s+\"[^\"]*\")?\)"
)
HTML_TARGET = re.compile(
    r"<(img|a|source|video)\b[^>]*?\b(?:src|href|srcset)=[\"']([^\"']+)[\"'][^>]*>", re.I
)
HEADING = re.compile(r"^#{1,6} +(.+?) *#*$", re.MULTILINE)
FOLDERS = ("figures", "labkit", "notebooks", "tests")


def documents() -> list[Path]:
    """README, the gallery and every notebook."""
    optional = [ROOT / "figures" / "README.md", *sorted((ROOT / "notebooks").glob("*.ipynb"))]
    return [ROOT / "README.md", *(path for path in optional if path.exists())]


def markdown_of(path: Path) -> str:
    """A document's text; of a notebook the markdown cells."""
    text = path.read_text(encoding="utf-8")
    if path.suffix != ".ipynb":
        return text
    cells = json.loads(text)["cells"]
    return "\n\n".join("".join(cell["source"]) for cell in cells if cell["cell_type"] == "markdown")


def code_of(markdown: str) -> list[str]:
    """Lines of fenced blocks, and inline code."""
    fenced = [line for _, block in FENCE.findall(markdown) for line in block.splitlines()]
    return fenced + [code.strip() for _, code in INLINE_CODE.findall(FENCE.sub("", markdown))]


def links_of(markdown: str) -> list[tuple[str, str, str]]:
    """(kind, text, target) of links and images outside code; kind is `image` or `link`."""
    prose = INLINE_CODE.sub("code", FENCE.sub("", markdown))
    found = []
    for bang, text, target in MARKDOWN_LINK.findall(prose):
        found.append(("image" if bang else "link", text, target))
        found += links_of(text)
    for match in HTML_TARGET.finditer(prose):
        tag, target = match.groups()
        alt = re.search(r"\balt=[\"']([^\"']*)[\"']", match.group())
        kind, text = ("image", alt.group(1) if alt else "") if tag.lower() == "img" else ("link", tag)
        found.append((kind, text, html.unescape(target)))
    return found


def anchors_of(markdown: str) -> set[str]:
    """What `#...` may name: headings as GitHub and as JupyterLab spell them, and ids set by hand."""
    anchors = set(re.findall(r"\b(?:id|name)=[\"']([^\"']+)[\"']", markdown))
    for heading in HEADING.findall(FENCE.sub("", markdown)):
        plain = re.sub(r"[`*]|\]\([^)]*\)|\[", "", heading)
        anchors |= {plain.replace(" ", "-"), re.sub(r"[^\w\- ]", "", plain.lower()).replace(" ", "-")}
    return anchors


def broken_link(document: Path, markdown: str, target: str) -> str | None:
    """Why a link leads nowhere, or None. Addresses on the web are not fetched."""
    if re.match(r"(https?|mailto|attachment|data):", target):
        return None
    file, _, anchor = unquote(target).partition("#")
    if file.startswith("/"):
        return f"{target}: a path from the root of the file system"
    path = (document.parent / file).resolve() if file else document
    if file and not path.exists():
        return f"{target}: no such file"
    if not path.is_relative_to(ROOT):
        return f"{target}: outside the repository"
    if anchor and path.suffix in (".md", ".ipynb"):
        anchors = anchors_of(markdown_of(path) if file else markdown)
        return None if anchor in anchors else f"{target}: no such heading"
    return None


def broken_path(code: str) -> str | None:
    """Why a path in code leads nowhere, or None. Patterns need a match; `<name>` stands for anything."""
    path = code.removeprefix("./").rstrip("/")
    if not re.fullmatch(rf"({'|'.join(FOLDERS)})(/[\w.*<>/-]+)?", path):
        return None
    pattern = re.sub(r"<[^>]*>", "*", path)
    return None if any(ROOT.glob(pattern)) else f"{code}: no such file"


def make_targets() -> set[str]:
    """Targets that can be asked for by name."""
    return set(re.findall(r"^([a-z][\w-]*):", (ROOT / "Makefile").read_text(), re.MULTILINE))


def broken_commands(code: str) -> list[str]:
    """Unknown `make` targets and `python -m labkit` commands in a line of code."""
    problems = []
    for command in re.split(r"&&|\|\||[;|]", code.removeprefix("$ ")):
        try:
            words = shlex.split(command, comments=True)
        except ValueError:
            continue
        while words and re.match(r"[A-Z_]+=", words[0]):
            words = words[1:]
        if words[:1] == ["make"]:
            named = [word for word in words[1:] if "=" not in word and not word.startswith("-")]
            problems += [f"make {name}: no such target" for name in named if name not in make_targets()]
        if words[1:3] == ["-m", "labkit"] and words[3:4] and words[3] not in {*COMMANDS, "COMMAND", "--help"}:
            problems.append(f"python -m labkit {words[3]}: no such command")
    return problems


def problems_of(document: Path, markdown: str) -> list[str]:
    """Everything a document says that is not so."""
    problems = [broken_link(document, markdown, target) for _, _, target in links_of(markdown)]
    for kind, text, target in links_of(markdown):
        if kind == "image":
            problems.append(f"{target}: image without alt text" if not text.strip() else None)
            # Pictures on other people's servers vanish, and a workshop may be offline.
            problems.append(f"{target}: image from the web" if target.startswith("http") else None)
    for code in code_of(markdown):
        problems += [broken_path(code), *broken_commands(code)]
    return [problem for problem in problems if problem]


@pytest.mark.parametrize("document", documents(), ids=lambda path: str(path.relative_to(ROOT)))
def test_links_paths_and_commands_are_there(document):
    assert document.exists(), f"{document.name} is missing"
    assert problems_of(document, markdown_of(document)) == []


GOOD = """# A title: `code` & more

[in](#a-title-code--more) [self](README.md#a-title-code--more) [file](pyproject.toml) [web](https://example.org/x)
![a plot](pixel.png) <img src="pixel.png" alt="a plot"> [![a badge](pixel.png)](labkit/files.py)
`labkit/files.py` `labkit/*.py` `figures` `<study>` `python -m labkit` `[not a link](nowhere.md)`

```sh
make lab ARGS="--no-browser --port 8899"   # make nothing
make PYTHON=python3.12 test && .venv/bin/python -m labkit claims --json
```
"""


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("[x](nowhere.md)", "nowhere.md: no such file"),
        ("![alt](figures/nothing.png)", "figures/nothing.png: no such file"),
        ("![](pixel.png)", "pixel.png: image without alt text"),
        ("<img src='pixel.png'>", "pixel.png: image without alt text"),
        ("![alt](https://example.org/a.png)", "https://example.org/a.png: image from the web"),
        ("[![alt](nothing.png)](pyproject.toml)", "nothing.png: no such file"),
        ("<a href='nowhere.md'>x</a>", "nowhere.md: no such file"),
        ("[x](#nothing)", "#nothing: no such heading"),
        ("[x](../README.md)", "../README.md: no such file"),
        ("[x](/etc/hosts)", "/etc/hosts: a path from the root of the file system"),
        ("see `labkit/nothing.py`", "labkit/nothing.py: no such file"),
        ("see `notebooks/99_*.ipynb`", "notebooks/99_*.ipynb: no such file"),
        ("run `make nothing`", "make nothing: no such target"),
        ("```\ncd x && make PYTHON=python3.12 labs\n```", "make labs: no such target"),
        ("`LABKIT_PROFILE=smoke make tests`", "make tests: no such target"),
        ("`python -m labkit cure`", "python -m labkit cure: no such command"),
    ],
)
def test_the_check_finds(tmp_path, monkeypatch, text, problem):
    document = pretend_repository(tmp_path, monkeypatch)
    assert problems_of(document, text) == [problem]


def test_the_check_accepts_what_is_there(tmp_path, monkeypatch):
    document = pretend_repository(tmp_path, monkeypatch)
    document.write_text(GOOD)
    assert problems_of(document, GOOD) == []


def pretend_repository(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A small repository in place of this one, so that the check's own tests do not hang on its contents."""
    (folder / "labkit").mkdir()
    (folder / "notebooks").mkdir()
    (folder / "figures").mkdir()
    for name in ("pyproject.toml", "pixel.png", "labkit/files.py"):
        (folder / name).touch()
    (folder / "Makefile").write_text((ROOT / "Makefile").read_text())
    monkeypatch.setattr("tests.test_links.ROOT", folder)
    return folder / "README.md"
