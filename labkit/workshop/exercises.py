"""Exercises that check themselves: what one is, how an answer is judged, where they are found.

The exercises of notebook NN are registered by `labkit.workshop.exercises_NN`, loaded when asked for.
"""

from __future__ import annotations

import difflib
import pkgutil
import re
import traceback
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib import import_module
from types import CodeType
from typing import Any

from labkit import workshop

NOT_ATTEMPTED, RAISED, OTHER = "not_attempted", "raised", "other"


@dataclass(frozen=True)
class CheckResult:
    """What a check says of an answer."""

    passed: bool
    message: str
    """Markdown for the learner."""
    mistake: str | None = None
    """Name of the mistake; None if passed. `not_attempted` for an answer not begun, `raised` for one
    that stopped with an error, `other` for a mistake that is none of the typical ones."""

    @property
    def attempted(self) -> bool:
        """False for an untouched stub."""
        return self.mistake != NOT_ATTEMPTED


class Mistake(Exception):
    """Raised by an exercise's examination: the answer is wrong, in a way that has a name."""

    def __init__(self, name: str, message: str) -> None:
        super().__init__(message)
        self.name, self.message = name, message


@dataclass(frozen=True)
class Exercise:
    """A task with its check, hints and solution."""

    id: str
    """Notebook and name, e.g. `03.completion_mask`."""
    title: str
    difficulty: int
    """1 (warm-up) to 5 (hard)."""
    importance: int
    """1 (leave it out if time is short) to 5 (everything after builds on it)."""
    minutes: int
    """How long most people need."""
    task: str
    """Markdown: what to do."""
    stub: str
    """Source that the learner starts from: a function, or an assignment for other answers."""
    hints: tuple[str, ...]
    """Markdown, from a nudge to nearly the answer."""
    solution: Callable[..., Any] | Mapping[str, Any]
    """The labkit function whose source is shown, or a reference answer where the answer is no code."""
    examine: Callable[[Any], str]
    """Answer -> what was checked, in a sentence; raises `Mistake` for a wrong one."""
    why: tuple[str, str]
    """A question to think about, and a short answer."""

    def __post_init__(self) -> None:
        if not re.fullmatch(r"\d\d\.[a-z0-9_]+", self.id):
            raise ValueError(f"exercise id {self.id!r} is not like '03.completion_mask'")
        if not (1 <= self.difficulty <= 5 and 1 <= self.importance <= 5 and self.minutes > 0):
            raise ValueError(f"{self.id}: difficulty and importance go from 1 to 5, minutes are positive")
        if len(self.hints) < 3:
            raise ValueError(f"{self.id} has {len(self.hints)} hints; it needs three steps or more")

    @property
    def notebook(self) -> str:
        """Number of the notebook it stands in, e.g. `03`."""
        return self.id.partition(".")[0]

    @property
    def answer_name(self) -> str:
        """What the stub defines."""
        return re.search(r"^(?:def )?(\w+)(?=\(| =)", self.stub, re.MULTILINE).group(1)

    @property
    def cells(self) -> tuple[str, str, str]:
        """Sources of the three code cells that a notebook has for it: task, stub, check."""
        return f'show("{self.id}")', self.stub.strip(), f'check("{self.id}", {self.answer_name})'

    def check(self, answer: Any) -> CheckResult:
        """Judge an answer. Never raises: an untouched stub and an answer that fails are results too."""
        if is_untouched(answer, self.stub):
            return CheckResult(False, "Nothing to check yet: the stub is as it was.", NOT_ATTEMPTED)
        try:
            return CheckResult(True, self.examine(answer))
        except Mistake as mistake:
            return CheckResult(False, mistake.message, mistake.name)
        except NotImplementedError as error:
            return CheckResult(False, f"Nothing to check yet: {error or 'it is not written'}.", NOT_ATTEMPTED)
        except Exception as error:
            return CheckResult(False, explain_error(error, answer, self.stub), RAISED)


def is_untouched(answer: Any, stub: str) -> bool:
    """Whether an answer is still the stub: nothing, all blanks, or a function with the stub's code."""
    if answer is None or answer is ...:
        return True
    if isinstance(answer, Mapping):
        return all(value is None or value is ... for value in answer.values())
    code = getattr(answer, "__code__", None)
    if code is None:
        return False
    compiled = compile(stub, "<stub>", "exec").co_consts
    return any(isinstance(c, CodeType) and _same_code(c, code) for c in compiled)


def _same_code(one: CodeType, other: CodeType) -> bool:
    # Code objects compare by line numbers too, which differ from cell to cell.
    if (one.co_code, one.co_names, one.co_varnames) != (other.co_code, other.co_names, other.co_varnames):
        return False
    pairs = list(zip(one.co_consts, other.co_consts, strict=False))
    return len(one.co_consts) == len(other.co_consts) and all(
        _same_code(a, b) if isinstance(a, CodeType) and isinstance(b, CodeType) else a == b for a, b in pairs
    )


def explain_error(error: Exception, answer: Any, stub: str) -> str:
    """What an answer stopped with, and in which of its lines."""
    name = type(error).__name__
    text = f"`{name}: {str(error).strip() or 'no message'}`".replace("\n", " ")
    own_file = getattr(getattr(answer, "__code__", None), "co_filename", None)
    own = [f for f in traceback.extract_tb(error.__traceback__) if f.filename == own_file]
    if own:
        line = f", `{own[-1].line}`" if own[-1].line else ""
        return f"Your code stopped with {text}, in line {own[-1].lineno} of its cell{line}."
    if signature := re.search(r"^def (.*):$", stub, re.MULTILINE):
        return f"The check stopped with {text}. It calls your function as `{signature.group(1)}`."
    return f"The check stopped with {text}."


_REGISTRY: dict[str, Exercise] = {}


def register(*exercises: Exercise) -> None:
    """Add exercises to the registry; ValueError if another module has an exercise of the same id."""
    for exercise in exercises:
        known = _REGISTRY.get(exercise.id)
        if known and known.examine.__module__ != exercise.examine.__module__:
            raise ValueError(f"exercise {exercise.id} is registered twice")
        _REGISTRY[exercise.id] = exercise


def notebooks() -> list[str]:
    """Numbers of the notebooks that have exercises."""
    names = sorted(module.name for module in pkgutil.iter_modules(workshop.__path__))
    return [n.removeprefix("exercises_") for n in names if re.fullmatch(r"exercises_\d\d", n)]


def of_notebook(notebook: str) -> list[Exercise]:
    """Exercises of a notebook in their order there; ValueError if it has none."""
    if notebook not in notebooks():
        raise ValueError(f"notebook {notebook!r} has no exercises; these have: {', '.join(notebooks())}")
    import_module(f"labkit.workshop.exercises_{notebook}")
    return [e for e in _REGISTRY.values() if e.notebook == notebook]


def get(id: str) -> Exercise:
    """The exercise of that id; ValueError, naming near ones, if there is none."""
    notebook = str(id).partition(".")[0]
    if notebook in notebooks():
        of_notebook(notebook)
    if id not in _REGISTRY:
        known = [e.id for n in notebooks() for e in of_notebook(n)]
        near = difflib.get_close_matches(str(id), known, cutoff=0.5)
        near = near or [
            k for k in known if str(id).partition(".")[2] and k.endswith(str(id).partition(".")[2])
        ]
        raise ValueError(f"there is no exercise {id!r}; {_suggest(near, known)}")
    return _REGISTRY[id]


def _suggest(near: list[str], known: list[str]) -> str:
    return f"did you mean {' or '.join(near)}?" if near else f"there are {', '.join(known)}"
