"""Shortest plans by breadth-first search, and where they need history: states that look alike but are not."""

from __future__ import annotations

import math
from collections import defaultdict, deque
from functools import lru_cache
from typing import NamedTuple

from labkit.envs.phone.goals import Goal, Task, tasks_of
from labkit.envs.phone.layout import APPS, PERMISSION, RADIOS, SWITCHES, Layout
from labkit.envs.phone.rules import State, actions, observe, transition


class Planner:
    """All shortest plans for one goal on one phone, from any state.

    Searches backwards from the states in which the goal holds. To keep the search small it leaves out what
    cannot shorten a plan: switches, pages and apps that the goal is not about. Airplane mode stays in where
    the goal is about a radio.
    """

    def __init__(self, layout: Layout, goal: Goal) -> None:
        self.layout, self.goal = layout, goal
        keys = {key for _, key in goal.conditions}
        self._keys = frozenset(keys | {"airplane"} if keys & RADIOS else keys)
        self._switches, self._apps = self._keys & set(SWITCHES), self._keys & set(APPS)
        self._distance: dict[State, float] = {}

    def distance(self, state: State) -> float:
        """Number of actions on a shortest plan: 0 where the goal holds, infinity where it is out of reach."""
        state = self.relevant(state)
        if state not in self._distance:
            self._explore(state)
        return self._distance[state]

    def best(self, state: State) -> tuple[str, ...]:
        """The actions that begin a shortest plan, in the order of `actions`; none where the goal holds."""
        state = self.relevant(state)
        left = self.distance(state)
        return tuple(
            a for a in self._useful(state) if self.distance(transition(self.layout, state, a)) < left
        )

    def plan(self, state: State) -> tuple[str, ...]:
        """A shortest plan: the first of `best` at every step."""
        plan: list[str] = []
        while best := self.best(state):
            plan.append(best[0])
            state = transition(self.layout, state, best[0])
        return tuple(plan)

    def relevant(self, state: State) -> State:
        """The state without the switches and answers that the goal is not about."""
        return state._replace(
            on=state.on & self._switches, allowed=state.allowed & self._apps, denied=state.denied & self._apps
        )

    def matters(self, state: State, action: str) -> bool:
        """False for flipping a switch, or answering for an app, that the goal is not about."""
        verb, key = self.layout.moves[state.path[-1]][action]
        if verb in ("allow", "deny", "reset"):
            return state.path[-2 if state.path[-1] == PERMISSION else -1] in self._apps
        return verb != "toggle" or key in self._switches

    def _useful(self, state: State) -> list[str]:
        useful = []
        for action, (verb, key) in self.layout.moves[state.path[-1]].items():
            elsewhere = key not in self._keys and (verb == "search" or key in SWITCHES or key in APPS)
            if not elsewhere and self.matters(state, action):
                useful.append(action)
        return useful

    def _explore(self, start: State) -> None:
        """Find the distance of every state that can be reached from `start` and has none yet."""
        before: dict[State, list[State]] = defaultdict(list)
        ends: dict[float, list[State]] = defaultdict(list)
        seen, queue = {start}, deque([start])
        while queue:
            state = queue.popleft()
            if state in self._distance:
                ends[self._distance[state]].append(state)
            elif self.goal.holds(state):
                ends[0].append(state)
            else:
                for action in self._useful(state):
                    after = transition(self.layout, state, action)
                    before[after].append(state)
                    if after not in seen:
                        seen.add(after)
                        queue.append(after)
        settled: set[State] = set()
        steps = 0
        while ends:
            for state in ends.pop(steps, ()):
                if state not in settled:
                    settled.add(state)
                    self._distance[state] = steps
                    ends[steps + 1] += before[state]
            steps += 1
        self._distance |= dict.fromkeys(seen - settled, math.inf)


@lru_cache(maxsize=4096)
def planner(layout: Layout, goal: Goal) -> Planner:
    """The planner of a goal on a phone: one for all episodes."""
    return Planner(layout, goal)


class Alias(NamedTuple):
    """Two states that look the same, in which different actions are best."""

    observation: str
    """Ω of both."""
    first: State
    first_best: tuple[str, ...]
    """The actions that begin a shortest plan from `first`."""
    second: State
    second_best: tuple[str, ...]
    """Those from `second`: none of them is in `first_best`."""


def aliases(layout: Layout, goal: Goal) -> list[Alias]:
    """Pairs of reachable states with one observation and no best action in common, for a goal.

    Reachable from the goal's starts by any actions but those without bearing on it (`Planner.matters`). Of
    pairs that differ in nothing but the way to them, the one found first stands for all: one pair for each
    observation and two sets of best actions.
    """
    plans = planner(layout, goal)
    looks: dict[str, dict[tuple[str, ...], State]] = defaultdict(dict)
    queue = deque(task.start for task in tasks_of(layout, [goal]))
    seen = set(queue)
    while queue:
        state = queue.popleft()
        if goal.holds(state):
            continue
        looks[observe(layout, state)].setdefault(plans.best(state), state)
        for action in actions(layout, state):
            after = transition(layout, state, action)
            if after not in seen and plans.matters(state, action):
                seen.add(after)
                queue.append(after)
    return [
        Alias(observation, first, first_best, second, second_best)
        for observation, found in looks.items()
        for i, (first_best, first) in enumerate(found.items())
        for second_best, second in list(found.items())[i + 1 :]
        if not set(first_best) & set(second_best)
    ]


def memoryless_policy(layout: Layout, goal: Goal) -> dict[str, str] | None:
    """A policy that sees the goal and the present observation only, and is optimal from every start.

    Returns observation → action, or None if there is none, by trying all: wherever several actions are best,
    each in turn. None does not say that no such policy ever arrives; it cannot always go the short way.
    """
    plans = planner(layout, goal)

    def extend(policy: dict[str, str], state: State, rest: list[State]) -> dict[str, str] | None:
        while goal.holds(state):
            if not rest:
                return policy
            state, rest = rest[0], rest[1:]
        observation, best = observe(layout, state), plans.best(state)
        if observation in policy:
            best = tuple(action for action in best if action == policy[observation])
        for action in best:
            found = extend({**policy, observation: action}, transition(layout, state, action), rest)
            if found is not None:
                return found
        return None

    first, *rest = (task.start for task in tasks_of(layout, [goal]))
    return extend({}, first, rest)


@lru_cache(maxsize=None)
def needs_history(layout: Layout, goal: Goal) -> bool:
    """Whether a goal is aliased: no memoryless policy takes a shortest way from each of its starts."""
    return memoryless_policy(layout, goal) is None


def split_by_history(tasks: tuple[Task, ...]) -> dict[str, tuple[Task, ...]]:
    """Tasks as `aliased` (history is needed) and `unaliased`, in their order."""
    needed = {task: needs_history(task.layout, task.goal) for task in tasks}
    return {
        "aliased": tuple(task for task in tasks if needed[task]),
        "unaliased": tuple(task for task in tasks if not needed[task]),
    }
