"""What a notebook calls: show a task, check an answer, give hints, show the solution, tell progress.

    from labkit.workshop.learner import check, guess, hint, predict, progress, reveal, show, solution

Works in plain Python too, where everything is printed.
"""

from __future__ import annotations

import inspect
import pprint
from collections.abc import Mapping
from typing import Any

from labkit.workshop import progress as record
from labkit.workshop.exercises import CheckResult, Exercise, get, notebooks, of_notebook
from labkit.workshop.predictions import guess, predict, reveal
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

__all__ = ["check", "guess", "hint", "predict", "progress", "reveal", "show", "solution"]


def show(id: str) -> None:
    """Display an exercise: what to do, how long it takes, how hard it is, and a question to think about."""
    exercise = get(id)
    show_markdown(task_text(exercise, rich=in_notebook()))
    if widgets_available():
        show_widget(help_buttons(exercise), f"Stuck? Run hint({id!r}), or solution({id!r}).")
    elif not in_notebook():
        print(f"Start from:\n\n{exercise.stub}\nStuck? hint({id!r}), or solution({id!r})\n")


def check(id: str, answer: Any = None) -> CheckResult | None:
    """Judge an answer, display what was found and keep it in the progress file.

    Never raises because of the answer. In a notebook it returns nothing, so that the result is not shown
    twice; elsewhere the `CheckResult`.
    """
    exercise = get(id)
    result = exercise.check(answer)
    if answer is exercise.solution:
        record.record_solution(id)  # labkit's own function handed in: fine to try, but not one's own answer
    state = record.record_check(id, result, answer_text(answer))
    heading, colour = _verdict(result)
    message = result.message
    if not result.passed:
        left = len(exercise.hints) - state["exercises"].get(id, {}).get("hints", 0)
        message += f"\n\n*{_left(left)}*"
    show_card(f"{heading}: {exercise.title}", message, colour)
    return None if in_notebook() else result


def hint(id: str) -> None:
    """Display the next hint; each call goes one further, and the count is kept."""
    exercise = get(id)
    total = len(exercise.hints)
    shown_before = record.read()["exercises"].get(id, {}).get("hints", 0)
    number = record.record_hint(id, total)
    again = f"\n\n*That was the last one; `solution({id!r})` shows labkit's own code.*"
    show_card(
        f"Hint {number} of {total}: {exercise.title}",
        exercise.hints[number - 1] + (again if shown_before >= total else ""),
    )


def solution(id: str) -> None:
    """Display the solution: the source in labkit that the rest of the notebook uses."""
    exercise = get(id)
    record.record_solution(id)
    question, answer = exercise.why
    show_card(
        f"Solution: {exercise.title}",
        f"{solution_text(exercise)}\n\n**Why?** {question}\n\n{answer}",
    )


def progress(notebook: str | None = None) -> None:
    """Display how many exercises are solved and hints used, in one notebook or in all."""
    state = record.read()
    if notebook is None:
        for number in notebooks():
            show_markdown(f"**Notebook {number}:** {record.summary(state, of_notebook(number))}")
        return
    exercises = of_notebook(notebook)
    rows = [f"- {e.title}: {_standing(state['exercises'].get(e.id, {}))}" for e in exercises]
    show_markdown(f"**{record.summary(state, exercises)}**\n\n" + "\n".join(rows))


def task_text(exercise: Exercise, rich: bool = True) -> str:
    """An exercise as Markdown; with `rich`, the question's answer is there to be unfolded."""
    question, answer = exercise.why
    why = f"**Why?** {question}"
    if rich:
        why += f"\n\n<details><summary>A short answer</summary>\n\n{answer}\n\n</details>"
    return (
        f"**Exercise: {exercise.title}**  \n"
        f"*{exercise.minutes} minutes, difficulty {exercise.difficulty} of 5, "
        f"importance {exercise.importance} of 5*\n\n{exercise.task}\n\n{why}"
    )


def solution_text(exercise: Exercise) -> str:
    """The solution as Markdown: source with the module it stands in, or the reference answer."""
    answer = exercise.solution
    if isinstance(answer, Mapping):
        written = pprint.pformat(dict(answer), sort_dicts=False, width=90)
        return f"One answer that passes:\n\n```python\n{exercise.answer_name} = {written}\n```"
    source = inspect.getsource(answer).rstrip()
    return f"`{answer.__module__}.{answer.__qualname__}`:\n\n```python\n{source}\n```"


def help_buttons(exercise: Exercise) -> Any:
    """Buttons for the next hint and the solution, with what they show below them."""
    import ipywidgets as widgets

    below = widgets.Output()
    buttons = [widgets.Button(description="Next hint"), widgets.Button(description="Show solution")]
    for button, action in zip(buttons, (hint, solution), strict=True):
        button.tooltip = f"{button.description}: {exercise.title}"
        button.on_click(lambda _, action=action: _inside(below, action, exercise.id))
    return widgets.VBox([widgets.HBox(buttons), below])


def _inside(output: Any, action: Any, id: str) -> None:
    with output:
        action(id)


def answer_text(answer: Any) -> str | None:
    """An answer as text for the progress file: source of a function, else its value."""
    if callable(answer):
        try:
            return inspect.getsource(answer)
        except (OSError, TypeError):
            return None
    return None if answer is None else repr(answer)


def _verdict(result: CheckResult) -> tuple[str, str]:
    if result.passed:
        return "✓ Solved", GOOD
    return ("✗ Not yet", BAD) if result.attempted else ("… Not attempted yet", NEUTRAL)


def _left(hints: int) -> str:
    if hints <= 0:
        return "All hints are shown."
    return f"{hints} {'hint' if hints == 1 else 'hints'} left."


def _standing(entry: Mapping[str, Any]) -> str:
    words = ["solved" if entry.get("solved") else "open"]
    if not entry.get("unaided", True):
        words.append("after seeing the solution")
    elif entry.get("solution_shown") and not entry.get("solved"):
        words.append("solution shown")
    if attempts := entry.get("attempts"):
        words.append(f"{attempts} {'attempt' if attempts == 1 else 'attempts'}")
    if hints := entry.get("hints"):
        words.append(f"{hints} {'hint' if hints == 1 else 'hints'}")
    return ", ".join(words)
