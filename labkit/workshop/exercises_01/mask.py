"""Which words of an episode are trained on; each word is labelled as the sequence is put together."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from labkit.agents.words import ACT, BOS, EOS, OBS, PAD, THINK
from labkit.workshop.checking import call
from labkit.workshop.exercises import OTHER, Exercise, Mistake

GOAL, SEEN, MARK, THOUGHT, ACTION, END, PADDING = (
    "of the goal",
    "of an observation",
    "a marker that the policy writes",
    "of a thought",
    "of an action",
    "the <eos> of a step",
    "padding",
)
WRITTEN = (MARK, THOUGHT, ACTION, END)
"""What the policy writes."""


def trained_words(words: Sequence[str]) -> list[bool]:
    """True on the words that the policy wrote: from `<think>` (or `<act>`) to the `<eos>` of each step."""
    mask, writing = [], False
    for word in words:
        writing = writing or word in (THINK, ACT)
        mask.append(writing)
        if word == EOS:
            writing = False
    return mask


class Case(NamedTuple):
    """A sequence, and of each word what it is."""

    name: str
    words: tuple[str, ...]
    kinds: tuple[str, ...]
    steps: tuple[int, ...]
    """Of each word the step it belongs to, from 1; 0 for the goal."""

    @property
    def wanted(self) -> list[bool]:
        return [kind in WRITTEN for kind in self.kinds]


def _case(
    name: str, steps: Sequence[tuple[str | None, str, str]], cut: bool = False, padding: int = 0
) -> Case:
    labelled = [(BOS, GOAL, 0), *((word, GOAL, 0) for word in "turn on the WiFi".split())]
    for number, (observation, thought, action) in enumerate(steps, 1):
        if observation is not None:
            labelled += [(word, SEEN, number) for word in (OBS, *observation.split())]
        if thought:
            labelled += [(THINK, MARK, number), *((word, THOUGHT, number) for word in thought.split())]
        labelled += [(ACT, MARK, number), *((word, ACTION, number) for word in action.split())]
        labelled.append((EOS, END, number))
    labelled = labelled[:-1] if cut else labelled
    labelled += [(PAD, PADDING, len(steps))] * padding
    return Case(name, *(tuple(column) for column in zip(*labelled, strict=True)))


CASES = (
    _case(
        "two steps",
        [
            ("Home : Settings , Maps , Camera , Chat", "open WiFi in Network", "open Settings"),
            ("Settings : Search , Network , Sound", "open WiFi in Network", "open Network"),
        ],
    ),
    _case(
        "acting only",
        [("Network : WiFi , Airplane , Radio", "", "open WiFi"), ("WiFi : off", "", "toggle WiFi")],
    ),
    _case("padded", [("WiFi : off", "turn on WiFi", "toggle WiFi")], padding=3),
    _case("blind", [("Home : Settings", "open WiFi", "open Settings"), (None, "open WiFi", "open Network")]),
    _case("cut off", [("WiFi : off", "turn on WiFi", "toggle WiFi")], cut=True),
)
"""`blind`: a policy that is shown the first observation only. `cut off`: no room was left for the `<eos>`."""

MESSAGES = {
    "inverted": "Your mask is True exactly where it should be False. Masks are named for what they keep.",
    "off_by_one": (
        "Your mask is one word too {side}. The shift between what a model reads and what it predicts "
        "belongs into the loss; the mask marks the words themselves."
    ),
    "observations_kept": (
        "You train on observations. Those are the world's words: a policy that learns to write them will "
        "invent them, and act on what it made up."
    ),
    "goal_kept": "You train on the goal. It is given; the policy is not to write tasks for itself.",
    "padding_kept": "You train on padding, which nobody wrote.",
    "eos_left_out": (
        "You leave out `<eos>`. A policy that never learns to stop goes on after its action, and writes "
        "the next observation itself."
    ),
    "markers_left_out": (
        "You leave out `<think>` and `<act>`. The policy has to write them too: without them the step "
        "cannot be read."
    ),
    "thoughts_left_out": "You train on actions alone. Thoughts are the policy's as well.",
    "last_step_only": (
        "You keep the last step alone. In one sequence for the whole episode, every step of it is trained on."
    ),
    "cut_off_lost": "A step whose `<eos>` found no room was written all the same; you drop it.",
}


def examine(answer: Callable[..., Any]) -> str:
    """Five sequences: with thoughts and without, padded, blind, and cut off."""
    got = {case.name: _mask(answer, case) for case in CASES}
    wrong = [case for case in CASES if got[case.name] != case.wanted]
    if wrong:
        _diagnose(wrong, got)
    return f"Right in {len(CASES)} sequences, with thoughts and without, padded, and cut off."


def _mask(answer: Callable[..., Any], case: Case) -> list[bool]:
    result = call(answer, list(case.words))
    try:
        mask = [bool(keep) for keep in result]
    except (TypeError, ValueError, RuntimeError):
        raise Mistake(
            "wrong_type",
            f"Return a list of True and False, one a word; you return a `{type(result).__name__}`.",
        ) from None
    if len(mask) != len(case.words):
        raise Mistake(
            "wrong_shape",
            f"For {len(case.words)} words you return {len(mask)} values; the mask has one a word.",
        )
    return mask


def _diagnose(wrong: Sequence[Case], got: dict[str, list[bool]]) -> None:
    case = wrong[0]

    def fail(name: str, side: str = "") -> None:
        raise Mistake(name, f"{MESSAGES[name].format(side=side)} {_first_wrong(case, got[case.name])}")

    if all(got[c.name] == [not keep for keep in c.wanted] for c in CASES):
        fail("inverted")
    if all(got[c.name][:-1] == c.wanted[1:] for c in CASES):
        fail("off_by_one", "early")
    if all(got[c.name][1:] == c.wanted[:-1] for c in CASES):
        fail("off_by_one", "late")
    if [c.name for c in wrong] == ["cut off"]:
        fail("cut_off_lost")
    kept = {kind: [] for kind in (GOAL, SEEN, *WRITTEN, PADDING)}
    earlier = []
    for c in CASES:
        for keep, kind, step in zip(got[c.name], c.kinds, c.steps, strict=True):
            kept[kind].append(keep)
            earlier += [keep] * (kind in WRITTEN and step < max(c.steps))
    for kind, name in ((SEEN, "observations_kept"), (GOAL, "goal_kept"), (PADDING, "padding_kept")):
        if any(kept[kind]):
            fail(name)
    if not any(earlier) and any(kept[ACTION]):
        fail("last_step_only")
    for kind, name in ((THOUGHT, "thoughts_left_out"), (END, "eos_left_out"), (MARK, "markers_left_out")):
        if not any(kept[kind]):
            fail(name)
    raise Mistake(OTHER, f"Not yet: {_first_wrong(case, got[case.name])}")


def _first_wrong(case: Case, mask: Sequence[bool]) -> str:
    where = next(i for i, (a, b) in enumerate(zip(mask, case.wanted, strict=True)) if a != b)
    verb = "keeps" if mask[where] else "drops"
    return (
        f"(In `{' '.join(case.words)}` your mask {verb} word {where + 1}, `{case.words[where]}`, which is "
        f"{case.kinds[where]}.)"
    )


EXERCISE = Exercise(
    id="01.mask",
    title="Which words of an episode are trained on",
    difficulty=2,
    importance=4,
    minutes=7,
    task="""\
An episode is one sequence of words:

`<bos> {g} <obs> {o_1} <think> {ρ_1} <act> {a_1} <eos> <obs> {o_2} <think> {ρ_2} <act> {a_2} <eos> ...`

Write `my_mask(words)`: a list of True and False, one a word, True on all that the *policy* writes, its
markers and its `<eos>` included. A policy that acts only leaves `<think> {ρ}` out. There may be `<pad>` at
the end; one that is shown the first observation only has no `<obs>` between its steps; and in the last step
the `<eos>` may have found no room.""",
    stub='''\
def my_mask(words):
    """True on the words that are trained on."""
    raise NotImplementedError
''',
    hints=(
        "Go through the sequence word by word with the question: who wrote this, the policy or the world? "
        "At which words does the writer change?",
        "Keep one variable for whether the policy is writing. It becomes True at `'<think>'` or, where "
        "there is no thought, at `'<act>'`; it becomes False after `'<eos>'`.",
        """\
Fill in the blanks:

```python
def my_mask(words):
    mask, writing = [], False
    for word in words:
        if word in (____):
            writing = True
        mask.append(____)
        if word == ____:
            writing = False
    return mask
```""",
    ),
    solution=trained_words,
    examine=examine,
    why=(
        "Training on observations too would teach the policy how its world behaves. Would that be of no use?",
        "It may be of use: a model that predicts what comes back has to represent the hidden state, and "
        "studies on early experience train on exactly that. But it is another task than imitation, with "
        "many more words than the actions have, and a policy that can write observations must be stopped "
        "before it does. So it is done on purpose and apart, not by a mask that forgot.",
    ),
)
