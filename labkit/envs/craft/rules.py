"""CraftWorld's two functions: the transition T(s, a) and the observation Ω(s).

Ω shows the inventory, and the goal says the rest: who has the goal and the last observation knows the state.
What makes it hard is the plan. Crafting uses ingredients up, and nothing can be taken apart again.
"""

from __future__ import annotations

from typing import NamedTuple

from labkit.envs.craft.tasks import Task

WAIT = "wait"
"""The action that changes nothing."""
CAPACITY = 9
"""Most that one can carry of one item."""


class State(NamedTuple):
    """All there is to know, apart from the recipe book. Immutable and hashable."""

    inventory: tuple[int, ...]
    """How many one has of each of `Task.items`, in its order."""
    goal: str
    """The item to craft."""


def start(task: Task) -> State:
    """The first state: one has nothing."""
    return State((0,) * len(task.items), task.target)


def refusal(task: Task, state: State, action: str) -> str:
    """Why an action cannot be done, in words of the vocabulary; "" if it can."""
    if action == WAIT:
        return ""
    move = task.moves.get(action)
    if move is None:
        return "cannot do that"
    made, uses = move
    have = state.inventory
    for item, count in uses:
        if have[item] < count:
            return f"missing {count - have[item]} {task.items[item]}"
    return f"full : {task.items[made]}" if have[made] >= CAPACITY else ""


def actions(task: Task, state: State) -> tuple[str, ...]:
    """Admissible actions, in a fixed order: `get` and `craft` by the item's name, then `wait`."""
    # `refusal` of each move, written out: a search asks for the actions of every state that it meets.
    have, found = state.inventory, []
    for action, (made, uses) in task.moves.items():
        if have[made] < CAPACITY:
            for item, count in uses:
                if have[item] < count:
                    break
            else:
                found.append(action)
    return (*found, WAIT)


def transition(task: Task, state: State, action: str) -> State:
    """T(s, a): the next state; the same state for `wait` and for an action that is not admissible.

    >>> from labkit.envs.craft.tasks import make_task
    >>> task = make_task("plank", names="fixed")
    >>> transition(task, start(task), "get wood")
    State(inventory=(0, 1), goal='plank')
    """
    if action == WAIT or refusal(task, state, action):
        return state
    made, uses = task.moves[action]
    have = list(state.inventory)
    for item, count in uses:
        have[item] -= count
    have[made] += 1
    return State(tuple(have), state.goal)


def observe(task: Task, state: State) -> str:
    """Ω(s) as text: words separated by single spaces.

    >>> from labkit.envs.craft.tasks import make_task
    >>> task = make_task("plank", names="fixed")
    >>> observe(task, start(task)), observe(task, State((1, 2), "plank"))
    ('have : nothing', 'have : 1 plank , 2 wood')
    """
    held = [f"{count} {name}" for name, count in zip(task.items, state.inventory, strict=True) if count]
    return f"have : {' , '.join(held) or 'nothing'}"


def is_done(task: Task, state: State) -> bool:
    """Whether one has the target."""
    return state.inventory[task.goal_index] > 0
