"""Playing on from a position of a search: by chance, through what is known of the world, or by a policy."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import NamedTuple

from labkit.agents.tree import Node, Position, Positions
from labkit.envs.world import World

Rollout = Callable[[World, random.Random], str]
"""A rollout policy: the next action in a world, all chance from the generator."""


class Found(NamedTuple):
    """An episode that the search went through, from the root on."""

    actions: tuple[str, ...]
    """What was done."""
    reward: float
    """Sum of its rewards: the return."""
    terminated: bool
    """Whether it reached a terminal state; otherwise it was cut off."""


NOTHING = Found((), 0.0, False)
"""Nothing done yet."""


def random_rollout(node: Node, positions: Positions, rng: random.Random) -> Found:
    """Act at random from a node to the end or the depth cap; what was done and earned from there on.

    Through positions as far as they are known or can be kept, then in a clone.
    """
    draw, keep, position = rng.random, not positions.full, node.position
    actions, reward = [], 0.0
    for depth in range(node.depth, positions.depth):
        choices = position.actions or positions.actions(position)
        if not choices:
            break
        action = choices[int(draw() * len(choices))]
        edge = position.edges.get(action)
        if edge is None:
            if not keep:
                rest = played_out(position, positions.depth - depth, _uniform, rng)
                return Found((*actions, *rest.actions), reward + rest.reward, rest.terminated)
            edge = positions.step(position, action)
        actions.append(action)
        reward += edge[1]
        position = edge[0]
    return Found(tuple(actions), reward, position.terminated)


def _uniform(world: World, rng: random.Random) -> str:
    choices = world.admissible_actions()
    return choices[int(rng.random() * len(choices))]


def played_out(position: Position, most: int, policy: Rollout, rng: random.Random) -> Found:
    """Act by `policy` in one clone of a position's world, for `most` actions or until the end."""
    world = position.world.clone()
    actions, reward, terminated = [], 0.0, position.terminated
    while len(actions) < most and not world.is_over:
        action = policy(world, rng)
        _, gained, terminated, _, _ = world.step(action)
        actions.append(action)
        reward += gained
    return Found(tuple(actions), reward, terminated)
