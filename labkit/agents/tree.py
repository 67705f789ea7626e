"""The parts of a search tree: positions (what the world does) and nodes (what the search counted).

Two nodes may stand at one position, for different ways can lead to one state. A position is stepped once for
each action, however many nodes and rollouts pass through it; visits and values belong to the node, whose
depth says what can still be reached. So the tree stays a tree, and the counts add up:
N(node) = 1 + Σ N(children), the 1 being its own simulation.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterator
from typing import NamedTuple

from labkit.envs.world import World

ENDLESS = 10**9
"""Steps that no search uses up."""


class Edge(NamedTuple):
    """What one action did."""

    position: Position
    """Where it led to."""
    reward: float
    """Reward of the step."""
    observation: str
    """What the world answered; not the position's, since a refusal says more than the state shows."""
    admissible: bool
    """Whether the action could be done."""


class Position:
    """A state of the world, and what was found to follow from it."""

    __slots__ = ("actions", "edges", "terminated", "truncated", "world")

    def __init__(self, world: World, terminated: bool = False, truncated: bool = False) -> None:
        self.world = world
        """A clone that is in this state; never stepped itself."""
        self.terminated = terminated
        """Whether the world is over by its own rules."""
        self.truncated = truncated
        """Whether the world cut the episode off here."""
        self.actions: tuple[str, ...] | None = None
        """What can be done here, each action once; None until it was asked for."""
        self.edges: dict[str, Edge] = {}
        """Actions that were done here."""


class Positions:
    """All positions of one search, each stepped by cloning its world."""

    def __init__(self, world: World, depth: int, capacity: int) -> None:
        """`depth`: actions after which the search cuts off; less where the world's budget is less.
        `capacity`: states that are known again when they are met again; 0 gives each node one of its own. In
        a world whose state is no value that can come again it has no effect.

        Raises ValueError for a world that is not in an episode.
        """
        if world.is_over:
            raise ValueError("the world is in no episode that could be searched: call reset() first")
        try:
            known = capacity > 0 and world.state_recurs and world.state is not None
        except NotImplementedError:
            known = False
        self.depth = min(depth, world.steps_left)
        self.capacity = capacity if known else 0
        # A state may be met late and then again early, so the depth cap alone says where to stop.
        self.root = Position(world.extended(ENDLESS) if known else world.clone())
        self._known: dict[Hashable, Position] = {world.state: self.root} if known else {}

    @property
    def full(self) -> bool:
        """Whether no further state is kept."""
        return len(self._known) >= self.capacity

    def actions(self, position: Position) -> tuple[str, ...]:
        """What can be done at a position, each action once, in the world's order; none after the end."""
        if position.actions is None:
            over = position.terminated or position.truncated
            position.actions = () if over else tuple(dict.fromkeys(position.world.admissible_actions()))
        return position.actions

    def step(self, position: Position, action: str) -> Edge:
        """Do an action, or look up what it did. Raises RuntimeError after the end of the episode."""
        edge = position.edges.get(action)
        if edge is None:
            world = position.world.clone()
            observation, reward, terminated, truncated, info = world.step(action)
            there = Position(world, terminated, truncated)
            if self.capacity:
                state = world.state
                there = self._known.get(state, there)
                if not self.full:
                    self._known[state] = there
            edge = position.edges[action] = Edge(there, reward, observation, info["admissible"])
        return edge


class Node:
    """One node of the tree: an action sequence from the root, and the simulations that began with it."""

    __slots__ = (
        "action",
        "children",
        "depth",
        "earned",
        "ended",
        "parent",
        "position",
        "prior",
        "total",
        "untried",
        "value",
        "visits",
    )

    def __init__(
        self,
        position: Position,
        parent: Node | None = None,
        action: str = "",
        earned: float = 0.0,
        prior: float = 1.0,
        most: int = 1_000,
    ) -> None:
        """`most` is the depth cap."""
        self.position = position
        """Where its actions lead to."""
        self.depth = 0 if parent is None else parent.depth + 1
        """Number of its actions."""
        self.ended = position.terminated or position.truncated or self.depth >= most
        """Whether nothing follows: terminated, truncated by the world, or cut off by the depth cap."""
        self.value: float | None = earned if self.ended else None
        """The largest return that begins with its actions, once that is known: then the node is solved."""
        self.parent = parent
        """None at the root."""
        self.action = action
        """The last of its actions."""
        self.earned = earned
        """Rewards on the way from the root, summed."""
        self.prior = prior
        """P: the prior probability of its action among its siblings'."""
        self.visits = 0
        """N: simulations that passed through it."""
        self.total = 0.0
        """W: sum of their returns, each counted from the root."""
        self.untried: list[tuple[float, str]] | None = None
        """(prior, action) of children to come, the next one last; None before the actions were listed."""
        self.children: list[Node] = []
        """In the order in which they were added."""

    @property
    def mean(self) -> float:
        """Q = W / N, the mean return of its simulations; 0 without one."""
        return self.total / self.visits if self.visits else 0.0

    @property
    def estimate(self) -> float:
        """Its largest return where that is known, else Q."""
        return self.mean if self.value is None else self.value

    @property
    def actions(self) -> tuple[str, ...]:
        """Actions from the root to here."""
        return tuple(node.action for node in path(self)[1:])

    def __iter__(self) -> Iterator[Node]:
        """The node and all below it, parents first."""
        yield self
        for child in self.children:
            yield from child


def path(node: Node) -> list[Node]:
    """The nodes from the root to `node`."""
    found = [node]
    while (parent := found[-1].parent) is not None:
        found.append(parent)
    return found[::-1]


def uct(total: float, visits: int, parent_visits: int, c: float) -> float:
    """UCT = W / N + c √(ln N_parent / N); infinite for an action that was not tried (N = 0).

    Kocsis and Szepesvári 2006, "Bandit based Monte-Carlo Planning" (their 2 C_p is c); Agent-R, arXiv
    2501.11425, takes c = 0.25. Returns are meant to lie in [0, 1]; c is in their unit.

    >>> round(uct(total=2.0, visits=4, parent_visits=9, c=0.25), 4)
    0.6853
    """
    if visits == 0:
        return math.inf
    return total / visits + c * math.sqrt(math.log(parent_visits) / visits)


def puct(mean: float, prior: float, visits: int, parent_visits: int, c: float) -> float:
    """PUCT = Q + c P √N_parent / (1 + N) (Silver et al. 2017, AlphaGo Zero; after Rosin 2011).

    `prior` is P of the action, `mean` its Q; what Q an action without a visit has is the caller's to say.

    >>> puct(mean=0.5, prior=0.4, visits=3, parent_visits=16, c=1.0)
    0.9
    """
    return mean + c * prior * math.sqrt(parent_visits) / (1 + visits)


def best_child(node: Node) -> Node:
    """The child with the best estimate; of equals the one with most visits, then the first by its text.

    So the order in which actions were listed does not matter. Raises ValueError without a child.
    """
    if not node.children:
        raise ValueError("the node has no child to choose from: run at least 2 simulations from it")
    return max(sorted(node.children, key=_text), key=lambda child: (child.estimate, child.visits))


def _text(node: Node) -> str:
    return node.action


def settle(node: Node) -> bool:
    """Note a node's value if all that it considers has been tried and is solved; whether it is solved.

    V(s) = max_a [r(s, a) + V(s')], here of whole returns, so that V(node) = max V(children).
    """
    if node.value is None and node.untried == []:
        values = [child.value for child in node.children]
        if values and None not in values:
            node.value = max(values)
    return node.value is not None
