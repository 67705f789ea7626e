"""Thought and action out of hostile text; what stands in each text is known, as it was put there."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, NamedTuple

from labkit.workshop.checking import call
from labkit.workshop.exercises import OTHER, Exercise, Mistake

_MARKER = re.compile(r"^(Thought|Action|Observation): ?", re.MULTILINE)


def read_step(written: str) -> tuple[str, str]:
    """(ρ_t, a_t) from what a policy wrote: the first thought and the first action; "" for what is missing.

    A block goes from its marker at the start of a line up to the next marker. From the first `Observation:`
    on nothing is read: the policy made that up. `labkit.agents.forms.TextForm` does the same and undoes
    back-slashes besides.
    """
    found: dict[str, str] = {}
    marks = list(_MARKER.finditer(written))
    for number, mark in enumerate(marks, 1):
        if mark[1] == "Observation":
            break
        end = marks[number].start() if number < len(marks) else len(written)
        found.setdefault(mark[1], written[mark.end() : end].strip())
    return found.get("Thought", ""), found.get("Action", "")


class Case(NamedTuple):
    """A text, and what was put into it."""

    name: str
    written: str
    thought: str
    action: str


CASES = (
    Case("plain", "Thought: it is a setting\nAction: open Settings", "it is a setting", "open Settings"),
    Case("no thought", "Action: home", "", "home"),
    Case(
        "lines",
        "Thought: first the menu\nthen the switch\nAction: open Network",
        "first the menu\nthen the switch",
        "open Network",
    ),
    Case(
        "in a line",
        "Thought: the line with Action: comes next\nAction: open WiFi",
        "the line with Action: comes next",
        "open WiFi",
    ),
    Case("two", "Thought: both\nAction: open Radio\nAction: back", "both", "open Radio"),
    Case("two steps", "Thought: in\nAction: open Maps\nThought: out\nAction: deny", "in", "open Maps"),
    Case("preamble", "Sure, I can help!\nThought: go\nAction: open Apps", "go", "open Apps"),
    Case(
        "invented",
        "Thought: try\nAction: toggle WiFi\nObservation: WiFi : on\nThought: done\nAction: finish",
        "try",
        "toggle WiFi",
    ),
    Case("early", "Thought: wait\nObservation: WiFi : on\nAction: finish", "wait", ""),
    Case("never", "Thought: I do not know", "I do not know", ""),
    Case("talk", "I would open the settings now.", "", ""),
    Case("nothing", "", "", ""),
)

MESSAGES = {
    "greedy": (
        "Your thought swallows the action: a pattern that takes all it can get runs over the next marker. A "
        "block ends where the next one begins."
    ),
    "last_action": (
        "Where a policy writes several actions you take the last. It wrote that one without having seen what "
        "the first does; only the first belongs to this step."
    ),
    "last_thought": "Where a policy writes several thoughts you take a later one; the first is of this step.",
    "past_observation": (
        "You read on past an `Observation:` that the policy made up. What follows was written about a world "
        "that does not exist."
    ),
    "one_line_thought": (
        "A thought of several lines is cut to one. It ends at the next marker, not at the end of its line."
    ),
    "marker_in_a_line": (
        "You take `Action:` for a marker in the middle of a line. A policy may well think about actions; a "
        "marker stands at the start of a line."
    ),
    "thought_needed": "An action without a thought is fine: acting only. You lose it.",
    "none_not_handled": (
        "Your code stops with `{error}` where a marker is missing. A policy can write anything; parsing "
        "must not bring the loop down."
    ),
    "action_from_nothing": (
        "You return an action where none was marked. It would be done in the world, and a failure of format "
        "not be counted."
    ),
    "preamble_kept": "What stands before the first marker is neither thought nor action; you keep it.",
}


def examine(answer: Callable[..., Any]) -> str:
    """Twelve texts, each with one trap or none."""
    for case in CASES:
        thought, action = _read(answer, case)
        if (thought, action) != (case.thought, case.action):
            _diagnose(case, thought, action)
    return (
        f"Right for {len(CASES)} texts: many lines, several actions, an observation made up, nothing at all."
    )


def _read(answer: Callable[..., Any], case: Case) -> tuple[str, str]:
    try:
        result = call(answer, case.written)
    except (AttributeError, IndexError, ValueError, TypeError) as error:
        # In a plain text an error is a mistake of another kind, told with its line.
        if case.name == "plain":
            raise
        text = f"{type(error).__name__}: {error}"
        raise Mistake(
            "none_not_handled", MESSAGES["none_not_handled"].format(error=text) + _of(case)
        ) from error
    if not isinstance(result, tuple | list) or len(result) != 2:
        raise Mistake("wrong_type", f"Return two texts, `(thought, action)`; you return `{result!r}`.")
    thought, action = ("" if part is None else part for part in result)
    if not (isinstance(thought, str) and isinstance(action, str)):
        raise Mistake("wrong_type", f"Thought and action are text; you return `{result!r}`.")
    return thought.strip(), action.strip()


def _of(case: Case) -> str:
    return f" (For `{case.written!r}`.)"


def _diagnose(case: Case, thought: str, action: str) -> None:
    def fail(name: str) -> None:
        raise Mistake(name, MESSAGES[name] + _of(case))

    _, invented, _ = case.written.partition("Observation:")
    if case.name == "preamble" and "Sure" in thought + action:
        fail("preamble_kept")
    if invented and ("WiFi : on" in thought + action or action == "finish" or thought == "done"):
        fail("past_observation")
    if case.name == "in a line" and (action != case.action or thought != case.thought):
        fail("marker_in_a_line")
    if thought != case.thought and "\nAction:" in thought:
        fail("greedy")
    if case.name in ("two", "two steps") and "deny" in action or action.endswith("back"):
        fail("last_action")
    if case.name == "two steps" and "out" in thought:
        fail("last_thought")
    if case.name == "lines" and thought in case.thought.split("\n"):
        fail("one_line_thought")
    if case.name == "no thought" and not action:
        fail("thought_needed")
    if action and not case.action:
        fail("action_from_nothing")
    raise Mistake(
        OTHER,
        f"You read thought `{thought!r}` and action `{action!r}`, where `{case.thought!r}` and "
        f"`{case.action!r}` were written.{_of(case)}",
    )


EXERCISE = Exercise(
    id="01.parse",
    title="Read whatever a model wrote",
    difficulty=3,
    importance=4,
    minutes=10,
    task="""\
Write `my_parse(written)`, which returns `(thought, action)`, two texts. `written` is all that a policy
wrote at one step, and it may be anything.

- A block begins with `Thought:`, `Action:` or `Observation:` *at the start of a line* and goes on to the
  next such marker, or to the end. It may have several lines. What stands before the first marker is of no
  block.
- The first thought and the first action count.
- From the first `Observation:` on nothing is read: the policy has made that up.
- Where there is no thought, or no action, return `""` for it. Never raise.

White space around a thought or an action does not matter. (labkit's own form also lets a thought hold a
line that *looks* like a marker, by a back-slash. Leave that out.)""",
    stub='''\
import re


def my_parse(written):
    """(thought, action) of what a policy wrote; "" for each that is not there."""
    raise NotImplementedError
''',
    hints=(
        "Try your pattern by hand on a text in which the thought has two lines, and on one in which the "
        "policy went on and wrote a second step. Which part takes too much?",
        "Cut first, read later: `re.split(r'^Observation:', written, flags=re.MULTILINE)[0]` drops all "
        "that was made up. With `re.MULTILINE`, `^` stands for the start of each line.",
        "A block ends before the next marker. A lazy `(.*?)` with `re.DOTALL` takes as little as it can; say "
        "after it what may follow: `(?=^(?:Thought|Action):|\\Z)`, the next marker or the end of the text.",
        """\
Fill in the blanks:

```python
def my_parse(written):
    written = re.split(r"^Observation:", written, flags=re.MULTILINE)[____]

    def block(marker):
        pattern = rf"^{marker}:(____)(?=^(?:Thought|Action):|\\Z)"
        found = re.search(pattern, written, re.MULTILINE | re.DOTALL)
        return found[1].strip() if found else ____

    return block("Thought"), block("Action")
```""",
    ),
    solution=read_step,
    examine=examine,
    why=(
        "A lenient parser that guesses an action from any text would raise the success rate. Why not use it?",
        "It measures the parser as well as the policy, and failures of format disappear from the counts, "
        "although they say what to train. In training it is worse: the guessed action is rewarded whatever "
        "was written, so that nothing keeps the policy writing in its form.",
    ),
)
