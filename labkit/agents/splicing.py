"""Making revision trajectories: which episodes to pair, where to cut, what to say, and whether it plays."""

from __future__ import annotations

import math
import random
from collections import deque
from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass, replace

from labkit.agents.execution import execute
from labkit.agents.experience import replay
from labkit.agents.revision import SIGNALS, Conditions, Pair, Revision
from labkit.envs.trajectory import Step, Trajectory
from labkit.envs.world import World

TransitionPoint = Callable[[Pair], int | None]
"""Where a bad episode is cut: t', or None where no step is found; see `labkit.agents.transition_points`."""


def best_pairs(episodes: Iterable[Trajectory], conditions: Conditions) -> list[Pair]:
    """For each bad episode the good one that shares most with it; bad ones without one are left out.

    Of equals the good one with the larger reward is taken, then the shorter, then the first. Episodes that
    did the same in the same task count once.
    """
    by_task: dict[str, dict[tuple[str, ...], Trajectory]] = {}
    for episode in episodes:
        of_task = by_task.setdefault(f"{episode.world} {episode.task!r}", {})
        of_task.setdefault(tuple(step.action for step in episode.steps), episode)
    return [
        max(pairs, key=lambda pair: (pair.shared, pair.good.reward, -len(pair.good.steps)))
        for of_task in by_task.values()
        for bad in of_task.values()
        if (pairs := _pairs_of(bad, of_task.values(), conditions))
    ]


def _pairs_of(bad: Trajectory, others: Iterable[Trajectory], conditions: Conditions) -> list[Pair]:
    found = []
    for good in others:
        if conditions.admits(bad.reward, good.reward):
            try:
                found.append(Pair(bad, good))
            except ValueError:  # one is the beginning of the other
                continue
    return found


def way_back(world: World, state: Hashable, most: int) -> tuple[str, ...] | None:
    """Fewest admissible actions, at the most `most`, that lead to `state` without ending the episode.

    None where there are none. Raises NotImplementedError for a world that shows no state.
    """
    queue, seen = deque([(world.clone(), ())]), {world.state}
    while queue:
        here, actions = queue.popleft()
        if here.state == state:
            return actions
        for action in here.admissible_actions() if len(actions) < most else ():
            there = here.clone()
            there.step(action)
            if not there.is_over and there.state not in seen:
                seen.add(there.state)
                queue.append((there, (*actions, action)))
    return None


def splice(pair: Pair, point: int, signal: str, back: Sequence[str] = ()) -> tuple[Step, ...]:
    """The steps of τ_r: τ_b up to step `point`, then `back`, then τ_g after τ_i; `signal` opens the second.

    `trained` is False up to the point and True from there on. `back` leads from the state after the error to
    that after τ_i, where τ_g went on. Observations and rewards are those of the pair: `execute` has the world
    say what they are.

    Raises ValueError for a point that is not in the part of τ_b that is bad, and for an empty signal.
    """
    bad, shared = pair.bad, pair.shared
    if not shared < point <= len(bad.steps):
        raise ValueError(
            f"transition point {point} is not among the bad steps {shared + 1} to {len(bad.steps)} (the "
            f"first {shared} are the good episode's too); give one of those, counted from 1"
        )
    if not signal.strip():
        raise ValueError("the revision signal is empty; give a thought, e.g. one of SIGNALS")
    seen = [replace(step, trained=False) for step in bad.steps[:point]]
    # Ids and log-probs were sampled after another history, and belong to that.
    after = [
        replace(step, ids=(), logprobs=(), written=None, failures=(), trained=True)
        for step in (*(Step("", "", action) for action in back), *pair.good.steps[shared:])
    ]
    thought = f"{signal} ; {after[0].thought}" if after[0].thought else signal
    return (*seen, replace(after[0], thought=thought), *after[1:])


def revise(pair: Pair, point: int, signal: str, back: int = 0) -> Revision | None:
    """τ_r cut at `point`, executed in a fresh world; None where it does not earn what τ_g earned.

    It must do so by the good steps themselves: each is admissible if it was, and the end is the same. `back`:
    admissible actions that may be put between error and good part to return to the state after τ_i; 0 tries
    the good part as it is. The shortest way that works is taken.

    Raises ValueError as `splice`, and for a bad episode that its world does not play as recorded.
    """
    revision = _executed(pair, point, signal, ())
    if revision is None and back:
        wrong = replace(
            pair.bad, steps=pair.bad.steps[:point], last_observation=pair.bad.observation(point + 1)
        )
        places = replay(wrong, spare=back + 1)
        after = places[point - 1].world.clone()
        after.step(pair.bad.steps[point - 1].action)
        if not after.is_over:
            way = way_back(after, places[pair.shared].world.state, back)
            revision = _executed(pair, point, signal, way) if way else None
    return revision


def _executed(pair: Pair, point: int, signal: str, back: Sequence[str]) -> Revision | None:
    steps, good = splice(pair, point, signal, back), pair.good
    made = execute(good.world, good.task, steps)
    wanted = len(good.steps) - pair.shared
    legal = (
        len(made.steps) == len(steps)
        and made.terminated == good.terminated
        and math.isclose(made.reward, good.reward, abs_tol=1e-9)
        and all(
            is_now or not was
            for is_now, was in zip(
                (step.admissible for step in made.steps[-wanted:]),
                (step.admissible for step in good.steps[pair.shared :]),
                strict=True,
            )
        )
    )
    return Revision(replace(made, policy="revision"), pair, point, signal) if legal else None


@dataclass(frozen=True)
class Revisions:
    """What came of making revisions of pairs."""

    made: tuple[Revision, ...]
    """Those that play."""
    pointless: int
    """Pairs in whose bad part no transition point was found."""
    refused: int
    """Pairs whose good part does not play after the error."""


def make_revisions(
    pairs: Sequence[Pair],
    point: TransitionPoint,
    seed: int,
    back: int = 0,
    signals: Sequence[str] = SIGNALS,
) -> Revisions:
    """One revision a pair, where one can be made; its signal is drawn from `signals` by `seed`."""
    rng = random.Random(f"revision signals {seed}")
    made, pointless, refused = [], 0, 0
    for pair in pairs:
        # Drawn for every pair, so that a signal does not hang on what became of the pairs before.
        signal, at = rng.choice(signals), point(pair)
        if at is None:
            pointless += 1
        elif (revision := revise(pair, at, signal, back)) is None:
            refused += 1
        else:
            made.append(revision)
    return Revisions(tuple(made), pointless, refused)
