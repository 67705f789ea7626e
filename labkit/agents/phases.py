"""The phases of Monte Carlo tree search as functions on a tree, and what they are set by.

    select          from the root, down by the largest UCT (or PUCT) to where something is untried
    expand          one untried action there: a new node
    backpropagate   N += 1 and W += return, for the node and all above it

The fourth, to simulate, is in `labkit.agents.rollouts`; `labkit.agents.mcts` runs them in turn.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

from labkit.agents.react import Context
from labkit.agents.tree import Node, Positions, puct


@dataclass(frozen=True)
class Guess:
    """What a guide says of one state. Raises ValueError for priors that do not fit the actions."""

    actions: tuple[str, ...] | None = None
    """Actions to consider, admissible or not; None for all that are admissible."""
    priors: tuple[float, ...] | None = None
    """P of each of these actions; None if all are alike."""
    value: float | None = None
    """Reward still to come from here; None has it found by rollouts."""

    def __post_init__(self) -> None:
        if self.priors is not None and (self.actions is None or len(self.priors) != len(self.actions)):
            raise ValueError(
                f"{len(self.priors)} priors for {len(self.actions or ())} actions; name the actions and "
                "give one prior for each"
            )


Guide = Callable[[Sequence[Context]], Sequence[Guess]]
"""A model as judge of many states at once: one guess a context."""


@dataclass(frozen=True)
class SearchConfig:
    """How a search is run. Raises ValueError for settings out of range."""

    simulations: int = 64
    """Simulations at the most; fewer where the root gets solved."""
    c: float = 0.25
    """Weight of exploration, in units of the return."""
    depth: int = 20
    """Depth cap: actions from the root, those of rollouts included."""
    rollouts: int = 1
    """Rollouts of a simulation; their mean is its return."""
    width: int | None = None
    """Actions that a node considers at the most (Agent-R: 4): those with the largest prior, or drawn at
    random where all are alike. None considers all."""
    rule: Literal["uct", "puct"] = "uct"
    """How a child is selected. `uct`: untried actions first. `puct`: by prior; an action without a visit has
    the Q of its parent."""
    solve: bool = True
    """Whether what is solved is closed: no simulation is spent where the best return is known. Without, a
    terminal node may be visited again and again, as in plain UCT."""
    batch_size: int = 1
    """Leaves that a guide is asked about at once. Above 1, a pending one counts as a visit that returned
    `virtual_return` (a virtual loss), so that the next selection goes elsewhere."""
    virtual_return: float = 0.0
    """Return of a pending simulation: the worst there is."""
    capacity: int = 200_000
    """States of the world that are looked up when they come again: speed for memory. None is where that could
    matter: with a guide, which sees the history too, and with a `width`, which differs by node."""
    seed: int = 0
    """Of untried actions' order and of rollouts."""

    def __post_init__(self) -> None:
        for name, least in (("simulations", 1), ("depth", 1), ("rollouts", 1), ("batch_size", 1)):
            if (value := getattr(self, name)) < least:
                raise ValueError(f"{name} is {value}; it is at least {least}")
        if self.width is not None and self.width < 1:
            raise ValueError(f"width is {self.width}; a node considers at least 1 action (None: all)")
        if self.rule not in ("uct", "puct"):
            raise ValueError(f"rule {self.rule!r} is not 'uct' or 'puct'")
        if not self.c >= 0:
            raise ValueError(f"c is {self.c}; a weight of exploration is 0 or more")


def best_open(node: Node, config: SearchConfig) -> tuple[Node | None, float]:
    """(the child with the largest UCT or PUCT, that value); of equals the first that was added.

    With `solve`, children that are solved are passed over; (None, -inf) where no child is left.
    """
    best, most = None, -math.inf
    n, c, by_uct = node.visits, config.c, config.rule == "uct"
    log_n = math.log(n) if n else 0.0
    for child in node.children:
        if config.solve and child.value is not None:
            continue
        if by_uct:
            # `labkit.agents.tree.uct` written out: as a call it would be half of the time of a search.
            value = child.total / child.visits + c * math.sqrt(log_n / child.visits)
        else:
            value = puct(child.mean, child.prior, child.visits, n, c)
        if value > most:
            best, most = child, value
    return best, most


def select(root: Node, config: SearchConfig) -> Node | None:
    """Descend by the largest score to a node that is to be expanded or simulated; None if there is none.

    With UCT that is the first node with an untried action, whose score is infinite; with PUCT one whose next
    untried action scores best, its Q being that of the node.
    """
    node = root
    while node.untried is not None and not (config.solve and node.value is not None):
        if node.untried and config.rule == "uct":
            return node
        best, most = best_open(node, config)
        if node.untried and (
            best is None or puct(node.mean, node.untried[-1][0], 0, node.visits, config.c) > most
        ):
            return node
        if best is None:  # all below is solved, by leaves that are still to be backed up
            return None
        node = best
    return None if config.solve and node.value is not None and node.visits else node


def expand(node: Node, positions: Positions) -> Node:
    """Add the child for the next untried action, and return it; the node itself where there is none."""
    if not node.untried:
        return node
    prior, action = node.untried.pop()
    edge = positions.step(node.position, action)
    child = Node(edge.position, node, action, node.earned + edge.reward, prior, positions.depth)
    node.children.append(child)
    return child


def list_actions(
    node: Node, guess: Guess, positions: Positions, config: SearchConfig, rng: random.Random
) -> None:
    """Fill `node.untried`: the actions to consider, each once, the likeliest (of equals any) to be next."""
    if node.ended:
        return
    actions = guess.actions or positions.actions(node.position)
    if not actions:
        node.ended, node.value = True, node.earned
        return
    priors = guess.priors or [1 / len(actions)] * len(actions)
    chosen = dict(zip(reversed(actions), reversed(priors), strict=True))  # of doubles, the first counts
    untried = [(prior, action) for action, prior in chosen.items()]
    rng.shuffle(untried)
    if guess.priors:
        untried.sort(key=lambda pair: pair[0])
    node.untried = untried if config.width is None else untried[-config.width :]


def backpropagate(node: Node, value: float) -> None:
    """N += 1 and W += value, from `node` up to the root."""
    while node is not None:
        node.visits += 1
        node.total += value
        node = node.parent
