"""Shortest plans in CraftWorld, by counting.

Each item has one recipe, which makes one of it, and nothing can be taken apart. So a plan must craft or get
exactly what is short, item by item from the target down, and it cannot be shorter.
"""

from __future__ import annotations

from labkit.envs.craft.rules import State, transition
from labkit.envs.craft.tasks import Task


def shortages(task: Task, state: State) -> dict[int, int]:
    """Item (its index in `Task.items`) -> how often it must still be crafted or got; only where it must.

    In the order from the target down to base items.
    """
    have = state.inventory
    wanted = [0] * len(have)
    wanted[task.goal_index] = 1
    short = {}
    for item, uses in task.order:
        missing = wanted[item] - have[item]
        if missing > 0:
            short[item] = missing
            for used, count in uses:
                wanted[used] += missing * count
    return short


def distance(task: Task, state: State) -> int:
    """Number of actions on a shortest plan: 0 where the goal holds.

    >>> from labkit.envs.craft.rules import start
    >>> from labkit.envs.craft.tasks import make_task
    >>> task = make_task("rope", names="fixed")  # 2 wool, 2 thread, 1 rope
    >>> distance(task, start(task))
    5
    """
    return sum(shortages(task, state).values())


def expert_action(task: Task, state: State) -> str | None:
    """The next action of a shortest plan; None where the goal holds.

    It crafts what can be crafted before it gets more, and so never carries more than it must.
    """
    short = shortages(task, state)
    if not short:
        return None
    makes = dict(task.order)
    item = task.goal_index
    while True:
        lacking = [used for used, count in makes[item] if state.inventory[used] < count]
        if not lacking:
            break
        item = lacking[0]
    return f"{'craft' if makes[item] else 'get'} {task.items[item]}"


def plan(task: Task, state: State) -> tuple[str, ...]:
    """A shortest plan: `expert_action` at every step."""
    steps: list[str] = []
    while (action := expert_action(task, state)) is not None:
        steps.append(action)
        state = transition(task, state, action)
    return tuple(steps)
