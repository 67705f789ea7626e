"""Goals, tasks and their splits, as data."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from itertools import combinations, permutations

from labkit.envs.phone.layout import (
    APPS,
    NAMES,
    RADIOS,
    STANDARD,
    STANDARD_MENUS,
    SWITCHES,
    Layout,
    draw_layout,
)
from labkit.envs.phone.rules import State

WORDING = {
    "open": "open the {}",
    "on": "turn on the {}",
    "off": "turn off the {}",
    "allow": "allow location for {}",
    "deny": "deny location for {}",
}


@dataclass(frozen=True)
class Goal:
    """What shall hold: one condition, or two at once."""

    conditions: tuple[tuple[str, str], ...]
    """Pairs of (kind, key). Kinds: `open` (this screen is shown), `on`, `off`, `allow`, `deny`."""

    @cached_property
    def text(self) -> str:
        """The goal in words, with the usual names: a phone may call the entry something else."""
        return " and ".join(WORDING[kind].format(NAMES[key][0]) for kind, key in self.conditions)

    @property
    def kind(self) -> str:
        """Kinds of its conditions, e.g. `open` or `on+on`."""
        return "+".join(kind for kind, _ in self.conditions)

    def holds(self, state: State) -> bool:
        """Whether the goal is reached."""
        for kind, key in self.conditions:
            if kind == "on":
                met = key in state.on
            elif kind == "off":
                met = key not in state.on
            elif kind == "open":
                met = state.path[-1] == key
            else:
                met = key in (state.allowed if kind == "allow" else state.denied)
            if not met:
                return False
        return True


@dataclass(frozen=True)
class Task:
    """One episode to play: a goal on a phone, from a start."""

    goal: Goal
    """What shall hold."""
    layout: Layout = STANDARD
    """The phone."""
    airplane: bool = False
    """Whether airplane mode is on at the start."""

    @property
    def start(self) -> State:
        """The first state: the home screen, no app asked yet, and no part of the goal done."""
        on = set(self.layout.on)
        for kind, key in self.goal.conditions:
            if kind == "on":
                on.discard(key)
            elif kind == "off":
                on.add(key)
        return State(on=frozenset(on - RADIOS | {"airplane"} if self.airplane else on))


def single(kind: str, key: str) -> Goal:
    """A goal of one condition, e.g. `single("open", "wifi")`.

    Raises ValueError for a kind that there is not, and an entry that it cannot be about.
    """
    keys = {"open": (*STANDARD_MENUS, *SWITCHES, "search"), "on": SWITCHES, "off": SWITCHES}
    known = APPS if kind in ("allow", "deny") else keys.get(kind, ())
    if key not in known or key == "home":
        raise ValueError(
            f"no goal {kind!r} of {key!r}; kinds are {', '.join(WORDING)}, and for {kind!r} the entries are "
            f"{', '.join(k for k in known if k != 'home') or 'none'}"
        )
    return Goal(((kind, key),))


@lru_cache(maxsize=1)
def all_goals() -> tuple[Goal, ...]:
    """Every goal, in a fixed order: each screen to open, each switch either way, each app either way, pairs.

    Airplane mode with a radio is left out: the two cannot hold at once.
    """
    menus = [key for key in STANDARD_MENUS if key != "home"]
    singles = [single("open", key) for key in (*menus, *SWITCHES)]
    singles += [single(kind, key) for kind in ("on", "off") for key in SWITCHES]
    singles += [single(kind, key) for kind in ("allow", "deny") for key in APPS]
    pairs = [
        Goal((("on", one), ("on", other)))
        for one, other in combinations(SWITCHES, 2)
        if not ("airplane" in (one, other) and RADIOS & {one, other})
    ]
    pairs += [Goal((("allow", one), ("deny", other))) for one, other in permutations(APPS, 2)]
    return (*singles, *pairs)


@lru_cache(maxsize=1)
def split_goals() -> tuple[tuple[Goal, ...], tuple[Goal, ...]]:
    """(training goals, held-out goals): a quarter of each kind is held out, but no menu.

    What a held-out goal is about occurs in training goals of another kind: no word is new, and no place.
    """
    draw = random.Random("phone goals")
    held_out: set[Goal] = set()
    for kind in dict.fromkeys(goal.kind for goal in all_goals()):
        alike = [
            g
            for g in all_goals()
            if g.kind == kind and not (kind == "open" and g.conditions[0][1] in STANDARD_MENUS)
        ]
        held_out |= set(draw.sample(alike, round(len(alike) / 4)))
    return (
        tuple(goal for goal in all_goals() if goal not in held_out),
        tuple(goal for goal in all_goals() if goal in held_out),
    )


def tasks_of(layout: Layout, goals: Sequence[Goal]) -> tuple[Task, ...]:
    """Each goal on a phone, with airplane mode off and, where that leaves a task to do, on.

    One sees on the home screen which of the two it is, so that the first observation and the actions since
    then determine the state.
    """
    tasks = []
    for goal in goals:
        tasks.append(Task(goal, layout))
        keys = {key for _, key in goal.conditions}
        if "airplane" not in keys and not (goal.kind == "off" and keys & RADIOS):
            tasks.append(Task(goal, layout, airplane=True))
    return tuple(tasks)


TRAINING_PHONES = range(1, 41)
"""Seeds of the phones to train on."""
HELD_OUT_PHONES = range(1001, 1021)
"""Seeds of the phones kept for testing: other names, other places."""


def _on_phones(seeds: range, **drawn: bool | int) -> tuple[Task, ...]:
    return tuple(task for seed in seeds for task in tasks_of(draw_layout(seed, **drawn), split_goals()[0]))


SPLITS: dict[str, Callable[[], tuple[Task, ...]]] = {
    "known_phone": lambda: tasks_of(STANDARD, split_goals()[0]),
    "held_out_goals": lambda: tasks_of(STANDARD, split_goals()[1]),
    "many_phones": lambda: _on_phones(TRAINING_PHONES),
    "held_out_phones": lambda: _on_phones(HELD_OUT_PHONES),
    "renamed_phones": lambda: _on_phones(HELD_OUT_PHONES, moved=0),
    "moved_phones": lambda: _on_phones(HELD_OUT_PHONES, renamed=False),
}
"""Tasks by split. `known_phone` trains on the standard phone, and `held_out_goals` asks for other goals on
it. `many_phones` trains on forty, and `held_out_phones` has the same goals on twenty others; `renamed_phones`
and `moved_phones` are those twenty with one of the two changes only."""


@lru_cache(maxsize=None)
def load_tasks(split: str) -> tuple[Task, ...]:
    """The tasks of a split, in a fixed order. Raises ValueError for a split that there is not."""
    if split not in SPLITS:
        raise ValueError(f"{split!r} is not one of {', '.join(SPLITS)}")
    return SPLITS[split]()
