"""Two states that look alike and are not; the oracle is the planner, which has searched all of them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from labkit.envs.phone.env import PhoneWorld
from labkit.envs.phone.goals import Task, single
from labkit.envs.phone.planner import planner
from labkit.envs.phone.rules import State
from labkit.workshop.exercises import Exercise, Mistake
from labkit.workshop.exercises_01.tables import require_filled

TASK = Task(single("allow", "maps"))
WANTED: Mapping[str, Any] = {"first": ["open Maps"], "second": ["open Camera"]}
"""One right pair of many."""

MESSAGES = {
    "looks_different": (
        "The two states do not look the same, so a policy without memory can tell them apart: one shows "
        "`{one}`, the other `{other}`."
    ),
    "same_state": (
        "Your two ways lead into one and the same state, not into two that look alike. Some part of it that "
        "the screen does not show must differ."
    ),
    "common_best": (
        "The two states look the same and do differ, but `{action}` begins a shortest plan in both. The "
        "difference has no bearing on this goal: a policy without memory loses nothing."
    ),
    "not_admissible": "`{key}`: the screen `{screen}` does not offer `{action}`.",
    "goal_reached": (
        "`{key}` goes on until the goal holds. There the episode is over: no action is best, as none is left "
        "to choose."
    ),
}


def follow(key: str, way: Any) -> tuple[State, str]:
    """State and observation at the end of the actions `way`; raises `Mistake` where they lead nowhere."""
    # A State is a tuple too, and an understandable answer.
    if isinstance(way, str | State) or not isinstance(way, list | tuple):
        raise Mistake(
            "wrong_type", f"`{key}` is a list of actions, from the home screen on; you give {way!r}."
        )
    world = PhoneWorld(max_steps=len(way) + 1)
    observation, _ = world.reset(options={"task": TASK})
    for action in way:
        if action not in world.admissible_actions():
            raise Mistake(
                "not_admissible",
                MESSAGES["not_admissible"].format(key=key, screen=observation, action=action),
            )
        observation, _, terminated, *_ = world.step(action)
        if terminated:
            raise Mistake("goal_reached", MESSAGES["goal_reached"].format(key=key))
    return world.state, observation


def examine(answer: Mapping[str, Any]) -> str:
    """Any two states with one observation and no best action in common."""
    require_filled(answer, WANTED)
    (first, one), (second, other) = (follow(key, answer[key]) for key in WANTED)
    if first == second:
        raise Mistake("same_state", MESSAGES["same_state"])
    if one != other:
        raise Mistake("looks_different", MESSAGES["looks_different"].format(one=one, other=other))
    plans = planner(TASK.layout, TASK.goal)
    best = plans.best(first), plans.best(second)
    if common := [action for action in best[0] if action in best[1]]:
        raise Mistake("common_best", MESSAGES["common_best"].format(action=common[0]))
    said = [" or ".join(f"`{action}`" for action in actions) for actions in best]
    return f"Both states show `{one}`. In the first {said[0]} is best, in the second {said[1]}."


EXERCISE = Exercise(
    id="01.aliases",
    title="Two states, one screen",
    difficulty=2,
    importance=5,
    minutes=7,
    task=f"""\
The goal is now `{TASK.goal.text}`. Find two states that *look the same*, Ω(s) = Ω(s'), but in which
*different actions are best*: no action begins a shortest plan from both.

Give each as the list of actions that leads to it from the home screen of the standard phone: `first` and
`second`. The two ways may differ in length. There are many right pairs; any counts.""",
    stub="""\
my_aliases = {"first": ..., "second": ...}
""",
    hints=(
        "Which screens of this phone do not say what they are about? List those on which you would have to "
        "remember how you got there.",
        "Three apps ask the same question when they are opened for the first time. Does the dialog say who "
        "asks?",
        "One way ends in the dialog of the app that the goal is about, where answering is best; the other in "
        "the dialog of an app that it is not about, where the answer has no bearing on the goal. A list with "
        "one action each is enough.",
    ),
    solution=dict(WANTED),
    examine=examine,
    why=(
        "A policy without memory sees such a pair. Must it fail?",
        "On one of the two states it cannot do what is best, but that need not be fatal: the detour may lead "
        "home again. It is fatal where the detour leads back to the same screen, since the policy does there "
        "what it did before, for ever. A random memoryless policy may get out by chance. And if it never "
        "enters one of the two states on its way, the pair costs it nothing.",
    ),
)
