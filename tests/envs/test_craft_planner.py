"""CraftWorld's plans against a breadth-first search that knows T and nothing of counting."""

from collections import deque

import pytest

from labkit.envs.craft.planner import distance, expert_action, plan
from labkit.envs.craft.recipes import TABLE, Recipe
from labkit.envs.craft.rules import CAPACITY, State, actions, is_done, start, transition
from labkit.envs.craft.tasks import Task, make_task


def searched_distance(task, state, most=3):
    """Length of a shortest plan. States with more than `most` of an item are not visited."""
    queue, seen = deque([(state, 0)]), {state}
    while queue:
        state, steps = queue.popleft()
        if is_done(task, state):
            return steps
        for action in actions(task, state):
            following = transition(task, state, action)
            if following not in seen and max(following.inventory) <= most:
                seen.add(following)
                queue.append((following, steps + 1))


@pytest.mark.parametrize("item", ["plank", "glass", "rope", "cloth", "bottle", "bag", "lamp", "spear"])
def test_plans_are_as_short_as_search_finds(item):
    for seed in range(2):
        task = make_task(item, min(seed, 1), seed)
        # Each state on the way to the goal, and each one step off it.
        state = start(task)
        for action in plan(task, state):
            for aside in actions(task, state):
                beside = transition(task, state, aside)
                assert distance(task, beside) == searched_distance(task, beside, max(3, *beside.inventory))
            state = transition(task, state, action)
        assert distance(task, state) == 0 and expert_action(task, state) is None


@pytest.mark.parametrize("item", TABLE)
def test_every_item_is_crafted_and_never_by_carrying_too_much(item):
    task = make_task(item, 4, 7)
    state, left, most = start(task), distance(task, start(task)), 0
    assert left <= 16 and len(plan(task, state)) == left
    for action in plan(task, state):
        assert action in actions(task, state)
        state = transition(task, state, action)
        assert distance(task, state) == left - 1
        left, most = left - 1, max(most, *state.inventory)
    assert is_done(task, state) and most < CAPACITY


def test_what_one_has_is_used_first():
    task = Task("a", (Recipe("a", (("b", 2), ("c", 1))), Recipe("b", (("c", 2),))), 2, 0, "a")
    assert distance(task, start(task)) == 8  # 5 c, 2 b, 1 a
    assert distance(task, State((0, 1, 0), "a")) == 5
    assert distance(task, State((0, 2, 1), "a")) == 1
    assert plan(task, State((0, 1, 2), "a")) == ("craft b", "get c", "craft a")
