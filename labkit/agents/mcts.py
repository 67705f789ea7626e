"""Monte Carlo tree search over any world that can be cloned, as Agent-R collects its trajectories with
(arXiv 2501.11425, section 3.2).

    select          from the root, down by the largest UCT (or PUCT) to where something is untried
    expand          one untried action there: a new node
    simulate        play on from the new node by a rollout policy, or ask a guide what the state is worth
    backpropagate   N += 1 and W += return, for the node and all above it

A return is the sum of rewards from the root to the end. What the depth cap cuts off earns what it earned so
far: it is truncated, not a success. Worlds are taken to be deterministic, as all worlds here are.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Sequence
from dataclasses import replace

from labkit.agents.execution import execute
from labkit.agents.phases import Guess, Guide, SearchConfig, backpropagate, expand, list_actions, select
from labkit.agents.react import Context
from labkit.agents.rollouts import NOTHING, Found, Rollout, played_out, random_rollout
from labkit.agents.tree import Node, Positions, best_child, path, settle
from labkit.envs.trajectory import Step, Trajectory

COLLISIONS = 4
"""Selections per leaf wanted, at the most, those that end at a leaf which is pending already included."""


class Search:
    """One search from a state; keeps its tree, so that it can go on.

    >>> from labkit.agents.react import Episode
    >>> from labkit.envs.craft.env import CraftWorld
    >>> from labkit.envs.craft.tasks import make_task
    >>> episode = Episode(CraftWorld(), make_task("plank", names="fixed"))
    >>> search = Search(episode.context, SearchConfig(simulations=100)).run()
    >>> search.best.actions, round(search.best.reward, 3), search.root.value
    (('get wood', 'get wood', 'craft plank'), 1.0, None)
    """

    def __init__(
        self,
        context: Context,
        config: SearchConfig | None = None,
        guide: Guide | None = None,
        rollout: Rollout | None = None,
        on_found: Callable[[Found], None] | None = None,
    ) -> None:
        """`context`: where to search from, e.g. `Episode.context`; its world is cloned and stays as it is.
        `guide`: asked once about each node. `rollout`: policy of rollouts, random by default. `on_found` is
        told every episode that a rollout or a node brought to its end.

        Raises ValueError for a world that is in no episode.
        """
        self.context, self.config = context, config or SearchConfig()
        self.guide, self.rollout, self.on_found = guide, rollout, on_found
        alike = guide is None and self.config.width is None
        self.positions = Positions(context.world, self.config.depth, self.config.capacity * alike)
        self.root = Node(self.positions.root, most=self.positions.depth)
        self.rng = random.Random(self.config.seed)
        self.simulations = 0
        """Simulations that were run."""
        self.best: Found | None = None
        """The episode with the largest return, of equals the shortest."""

    def run(self, simulations: int | None = None) -> Search:
        """Run `simulations` more (`config.simulations` by default), or until the root is solved; self."""
        left = self.config.simulations if simulations is None else simulations
        while left > 0:
            leaves = self.leaves(min(left, self.config.batch_size))
            if not leaves:
                break
            for leaf, value in zip(leaves, self.returns(leaves), strict=True):
                self.back_up(leaf, value)
            left -= len(leaves)
        return self

    def leaves(self, number: int) -> list[Node]:
        """Select and expand up to `number` nodes to simulate at once; fewer where no others are to be had."""
        config, found, pending = self.config, [], []
        # A selection may end at a pending leaf; that visit counts as well, so that the next goes elsewhere.
        for _ in range(1 if number == 1 else COLLISIONS * number):
            node = select(self.root, config)
            if node is None:
                break
            if node not in found:
                if node.visits and node.untried is None:
                    list_actions(node, Guess(), self.positions, config, self.rng)
                node = expand(node, self.positions)
                found.append(node)
            if len(found) == number:
                break
            pending.append(node)
            backpropagate(node, config.virtual_return)
        for node in pending:
            _take_back(node, config.virtual_return)
        return found

    def returns(self, leaves: Sequence[Node]) -> list[float]:
        """Simulate: the return of each leaf. A guide is asked about all of them in one call."""
        guesses = [Guess()] * len(leaves)
        open_ones = [i for i, leaf in enumerate(leaves) if leaf.value is None]
        if self.guide is not None and open_ones:
            told = self.guide([self.context_of(leaves[i]) for i in open_ones])
            for i, guess in zip(open_ones, told, strict=True):
                guesses[i] = guess
                list_actions(leaves[i], guess, self.positions, self.config, self.rng)
        return [self._return(leaf, guess) for leaf, guess in zip(leaves, guesses, strict=True)]

    def _return(self, leaf: Node, guess: Guess) -> float:
        if leaf.value is not None:
            self._tell(leaf, NOTHING._replace(terminated=leaf.position.terminated))
            return leaf.value
        return self._rolled_out(leaf) if guess.value is None else leaf.earned + guess.value

    def _rolled_out(self, leaf: Node) -> float:
        total = 0.0
        for _ in range(self.config.rollouts):
            if self.rollout is None:
                found = random_rollout(leaf, self.positions, self.rng)
            else:
                most = self.positions.depth - leaf.depth
                found = played_out(leaf.position, most, self.rollout, self.rng)
            self._tell(leaf, found)
            total += found.reward
        return leaf.earned + total / self.config.rollouts

    def _tell(self, leaf: Node, after: Found) -> None:
        reward, length = leaf.earned + after.reward, leaf.depth + len(after.actions)
        better = self.best is None or (
            length < len(self.best.actions)
            if math.isclose(reward, self.best.reward, abs_tol=1e-9)
            else reward > self.best.reward
        )
        if better or self.on_found is not None:
            found = Found(leaf.actions + after.actions, reward, after.terminated)
            if better:
                self.best = found
            if self.on_found is not None:
                self.on_found(found)

    def back_up(self, leaf: Node, value: float) -> None:
        """Backpropagate one return; close what is solved by it."""
        backpropagate(leaf, value)
        self.simulations += 1
        if self.config.solve and leaf.value is not None:
            above = leaf.parent
            while above is not None and settle(above):
                above = above.parent

    def best_action(self) -> str:
        """The action at the root with the best estimate. Raises ValueError before two simulations."""
        return best_child(self.root).action

    def episode(self, found: Found) -> Trajectory:
        """What was found as an episode: the steps before the search, then its own, done in a fresh world."""
        steps = (*self.context.history, *(Step("", "", action) for action in found.actions))
        world = self.context.world
        return replace(execute(world.id, world.pack_task(world.task), steps), policy="search")

    def context_of(self, node: Node) -> Context:
        """What a policy is given at a node: goal, history and observation, and a clone to look at."""
        observation, history = self.context.observation, list(self.context.history)
        for parent, child in zip(path(node), path(node)[1:], strict=False):
            edge = parent.position.edges[child.action]
            history.append(Step(observation, "", child.action, edge.reward, edge.admissible))
            observation = edge.observation
        return Context(self.context.goal, tuple(history), observation, node.position.world)


def _take_back(leaf: Node, value: float) -> None:
    for node in path(leaf):
        node.visits -= 1
        node.total -= value
