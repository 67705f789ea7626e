"""Small worlds written out as graphs, and what can be earned in them, by trying everything."""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping

from labkit.agents.react import Context, Episode
from labkit.envs.world import Reply, World

Edges = Mapping[str, Mapping[str, tuple[str, float]]]
"""State -> action -> (next state, reward). A state without actions is terminal."""


class GraphWorld(World):
    """Starts in state `s`; shows the state's name."""

    id = "tests/GraphWorld"
    task_type = dict

    def __init__(self, edges: Edges, max_steps: int = 100) -> None:
        super().__init__(max_steps)
        self.edges = edges

    def _begin(self, task):
        self.task, self.goal, self._state = task, "end well", "s"
        return "s"

    def _act(self, action):
        if action not in self.edges[self._state]:
            return Reply(f"no ; {self._state}", 0.0, False, admissible=False)
        self._state, reward = self.edges[self._state][action]
        return Reply(self._state, reward, not self.edges[self._state])

    @property
    def state(self):
        return self._state

    def admissible_actions(self):
        return tuple(self.edges[self._state])

    def render(self):
        return self._state


class SecretWorld(GraphWorld):
    """The same, but it does not show its state as a value."""

    @property
    def state(self):
        raise NotImplementedError


def context(edges: Edges, kind: type[GraphWorld] = GraphWorld, max_steps: int = 100) -> Context:
    return Episode(kind(edges, max_steps)).context


BANDIT: Edges = {
    "s": {"a": ("A", 0.2), "b": ("B", 0.9), "c": ("C", 0.5)},
    "A": {},
    "B": {},
    "C": {},
}
"""Three arms that pay what they say."""


def random_graph(seed: int) -> Edges:
    """Up to 7 states with up to 3 actions each, ways back among them; rewards are hundredths."""
    rng = random.Random(f"graph {seed}")
    states = ["s", *(f"n{i}" for i in range(rng.randrange(2, 7)))]
    ends = set(rng.sample(states[1:], rng.randrange(1, len(states) - 1))) if len(states) > 2 else set()
    return {
        state: {}
        if state in ends
        else {f"go {i}": (rng.choice(states), rng.randrange(100) / 100) for i in range(rng.randrange(1, 4))}
        for state in states
    }


def sequences(edges: Edges, depth: int, state: str = "s") -> Iterator[tuple[tuple[str, ...], float]]:
    """(actions, return) of everything that can be done: to a terminal state, or `depth` actions."""
    if depth == 0 or not edges[state]:
        yield (), 0.0
        return
    for action, (after, reward) in edges[state].items():
        for rest, more in sequences(edges, depth - 1, after):
            yield (action, *rest), reward + more
