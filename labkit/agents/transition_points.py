"""Where a bad episode is to be revised: the transition point t' (Agent-R, arXiv 2501.11425, section 3.3).

The actor judges its own steps: the first that it would not take again ends the bad part. Here its judgement
is read from its probabilities, at step t the log-odds of what it did against the best sibling,

    ℓ_t = log π(a_t | o_t, h_t, g) - max_{a ≠ a_t} log π(a | o_t, h_t, g)      (nats)

and a step is bad if ℓ_t < -margin, good if ℓ_t > margin, else uncertain. A rule that is given a pair looks
at steps after the shared ones only: those cannot be what made the bad episode bad.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Literal

from labkit.agents.experience import replay
from labkit.agents.react import Context
from labkit.agents.revision import Pair
from labkit.agents.splicing import TransitionPoint
from labkit.agents.words import FINISH
from labkit.envs.trajectory import Trajectory
from labkit.envs.world import World

Label = Literal["good", "bad", "uncertain"]
Scores = Callable[[Sequence[Context], Sequence[Sequence[str]]], Sequence[Sequence[float]]]
"""log π of given actions, in nats: a list of them a context, e.g. `labkit.agents.actor.Actor.scores`."""
LONGEST_PLAN = 100
"""Actions of the longest plan that the oracle follows before it takes the goal for out of reach."""


def spliceable(pair: Pair) -> range:
    """The bad steps at which the pair can be cut, counted from 1: not `finish`, after which nothing comes."""
    steps = pair.bad.steps
    return range(pair.shared + 1, len(steps) + 1 - bool(steps and steps[-1].action == FINISH))


def at_end(pair: Pair) -> int | None:
    """Control: the end of the bad episode (direct revision)."""
    return max(spliceable(pair), default=None)


def at_random(seed: int) -> TransitionPoint:
    """Control: any bad step, drawn evenly by `seed`."""
    rng = random.Random(f"transition points {seed}")

    def point(pair: Pair) -> int | None:
        steps = spliceable(pair)
        return rng.choice(steps) if steps else None

    return point


def by_oracle(pair: Pair) -> int | None:
    """Control: the first bad step that does not shorten the expert's plan; None if all do."""
    return _first(pair, [left > 0 for left in wasted(pair.bad)])


def by_actor(scores: Scores, margin: float = 0.0) -> TransitionPoint:
    """Agent-R's rule: the first bad step that the actor, whose log-probs are `scores`, labels bad."""

    def point(pair: Pair) -> int | None:
        return _first(pair, [label(odds, margin) == "bad" for odds in log_odds(pair.bad, scores)])

    return point


def _first(pair: Pair, wrong: Sequence[bool]) -> int | None:
    return next((t for t in spliceable(pair) if wrong[t - 1]), None)


def label(odds: float, margin: float = 0.0) -> Label:
    """Good, bad or uncertain, from log-odds in nats. Raises ValueError for a negative margin.

    >>> label(1.5, 0.5), label(-0.1, 0.5), label(-0.6, 0.5)
    ('good', 'uncertain', 'bad')
    """
    if not margin >= 0:
        raise ValueError(f"margin is {margin}; it is 0 or more, in nats")
    return "bad" if odds < -margin else "good" if odds > margin else "uncertain"


def log_odds(episode: Trajectory, scores: Scores) -> list[float]:
    """ℓ_t of each step in nats, the siblings being the other admissible actions; inf where there is none.

    A final `finish` is not judged. Raises ValueError for an episode that its world does not play again.
    """
    places = replay(_acted(episode))
    choices = [
        (place.taken, *(a for a in place.world.admissible_actions() if a != place.taken)) for place in places
    ]
    found = scores([place.context for place in places], choices)
    return [own - max(others, default=-math.inf) for own, *others in found]


def wasted(episode: Trajectory) -> list[float]:
    """Actions that each step cost beyond a shortest plan: 0 for a step on one, inf for one beyond repair.

    A final `finish` is left out. Raises ValueError where the world's expert knows no plan at the start.
    """
    acted = _acted(episode)
    places = replay(acted, spare=LONGEST_PLAN + 1)
    found = []
    left = plan_length(places[0].world) if places else 0.0
    if left == math.inf:
        raise ValueError(
            f"the expert of {episode.world} does not reach {episode.goal!r} in {LONGEST_PLAN} actions; use "
            "another rule than the oracle"
        )
    for place in places:
        world = place.world.clone()
        *_, terminated, _, _ = world.step(place.taken)
        after = 0.0 if terminated else plan_length(world)
        found.append(math.inf if after == math.inf else after + 1 - left)
        left = after
    return found


def plan_length(world: World) -> float:
    """Actions of the expert's plan from here: inf where it knows none, or none of `LONGEST_PLAN` actions."""
    world, length = world.clone(), 0
    while (action := world.expert_action()) is not None and length < LONGEST_PLAN:
        *_, terminated, truncated, _ = world.step(action)
        length += 1
        if terminated:
            return length
        if truncated:
            break
    return math.inf


def _acted(episode: Trajectory) -> Trajectory:
    """The episode without a final `finish`."""
    steps = episode.steps
    return replace(episode, steps=steps[:-1]) if steps and steps[-1].action == FINISH else episode
