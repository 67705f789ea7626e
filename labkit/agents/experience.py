"""Early experience: at each state an expert passed through, other actions are tried and their outcomes kept.

    D_expert = {(s_i, a_i)}                             what the expert did
    D_rollout = {(s_i, a_i^j, s_i^j) : j = 1 ... K}     what K other actions lead to, and the expert's own

No reward is looked at: the next state itself is the supervision (Zhang et al. 2025, Agent Learning via
Early Experience, arXiv 2510.08558, section 4). A policy sees states through its history and observations, so
a triple is kept as the episode up to it.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass, replace

import gymnasium
import torch

import labkit.envs  # noqa: F401  (registers the worlds)
from labkit.agents.react import Context, Policy
from labkit.agents.words import FINISH
from labkit.envs.trajectory import Step, Trajectory
from labkit.envs.world import World

Propose = Callable[[Sequence[Context]], Sequence[Sequence[str]]]
"""Actions that a policy would take, several a context."""


@dataclass(frozen=True)
class Branching:
    """One state of an expert's episode, and what different actions led to from there."""

    expert: Trajectory
    """The episode up to and with the expert's action at this state."""
    alternatives: tuple[Trajectory, ...]
    """The same history, ended by another action each; no two are alike."""
    state: Hashable = None
    """The hidden state, for leakage checks; None in a world that shows none."""

    @property
    def outcomes(self) -> tuple[Trajectory, ...]:
        """All K + 1 triples, the expert's first."""
        return (self.expert, *self.alternatives)


def branch_off(
    demonstrations: Sequence[Trajectory],
    k: int,
    seed: int,
    propose: Propose | None = None,
) -> list[Branching]:
    """At each state of each demonstration, execute up to `k` other actions in clones of the world.

    Actions come from those admissible and, with `propose`, from what a policy would do there, admissible or
    not: half of `k`, rounded up, as far as it names so many. Each is drawn once, and none is the expert's or
    `finish`, which is said to no world. In a state with fewer than `k` others there are fewer.

    Raises ValueError for a `k` below 1 and for a demonstration that its world does not play as recorded.
    """
    if k < 1:
        raise ValueError(f"k is {k}; at least 1 alternative action a state is needed")
    rng = random.Random(f"early experience {seed}")
    places = [place for demonstration in demonstrations for place in replay(demonstration)]
    proposed = propose([place.context for place in places]) if propose else [()] * len(places)
    return [
        place.branch(_others(place, k, names, rng)) for place, names in zip(places, proposed, strict=True)
    ]


@dataclass(frozen=True)
class Place:
    """Step t of an episode that was played, with the world in the state before it."""

    demonstration: Trajectory
    """The episode."""
    t: int
    """Counted from 1."""
    world: World
    """A clone in the state in which step t was taken."""

    @property
    def context(self) -> Context:
        """What the policy was given at this step."""
        d = self.demonstration
        return Context(d.goal, d.history(self.t), d.observation(self.t), self.world)

    @property
    def taken(self) -> str:
        """What was done."""
        return self.demonstration.steps[self.t - 1].action

    def branch(self, actions: Iterable[str]) -> Branching:
        """This step, and what other actions lead to."""
        try:
            state = self.world.state
        except NotImplementedError:
            state = None
        return Branching(self._ended_by(self.taken), tuple(map(self._ended_by, actions)), state)

    def _ended_by(self, action: str) -> Trajectory:
        d = self.demonstration
        world = self.world.clone()
        observation, reward, terminated, truncated, info = world.step(action)
        before = (replace(step, trained=False) for step in d.history(self.t))
        last = Step(d.observation(self.t), "", action, reward, info["admissible"])
        return replace(
            d,
            steps=(*before, last),
            last_observation=observation,
            terminated=terminated,
            truncated=truncated,
            policy=d.policy if action == self.taken else "exploration",
        )


def replay(demonstration: Trajectory, spare: int = 1) -> list[Place]:
    """Play an episode again in a fresh world: a place for each step, `spare` steps left after the last.

    Raises ValueError where the world does not show what was recorded.
    """
    budget = len(demonstration.steps) + spare
    world = gymnasium.make(demonstration.world, max_steps=budget, disable_env_checker=True).unwrapped
    observation, _ = world.reset(options={"task": world.unpack_task(demonstration.task)})
    recorded = [step.observation for step in demonstration.steps] + [demonstration.last_observation]
    places = []
    for t, seen in enumerate(recorded, 1):
        if observation != seen:
            raise ValueError(
                f"observation {t} of {demonstration.goal!r} was recorded as {seen!r}, but its world "
                f"shows {observation!r}: give episodes that were played in this version of the world"
            )
        if t < len(recorded):
            places.append(Place(demonstration, t, world.clone()))
            observation, *_ = world.step(demonstration.steps[t - 1].action)
    return places


def _others(place: Place, k: int, proposed: Sequence[str], rng: random.Random) -> list[str]:
    named = [action for action in dict.fromkeys(proposed) if action not in ("", FINISH, place.taken)]
    named = named[: (k + 1) // 2]
    admissible = [a for a in place.world.admissible_actions() if a != place.taken and a not in named]
    return named + rng.sample(admissible, min(k - len(named), len(admissible)))


def sampled_proposals(policy: Policy, number: int, seed: int) -> Propose:
    """What `policy` writes in `number` tries at each context; what cannot be read is left out."""

    def propose(contexts: Sequence[Context]) -> list[list[str]]:
        generator = torch.Generator().manual_seed(seed)
        found: list[list[str]] = [[] for _ in contexts]
        for _ in range(number):
            for names, written in zip(found, policy.write(contexts, generator), strict=True):
                names.append(policy.form.parse(written.text).action)
        return found

    return propose


def coverage(branchings: Sequence[Branching]) -> dict[str, float]:
    """What was seen: number of states and triples, and the shares that tell how much is new.

    `distinct`: different (task, state, action) among them. `refused`: triples whose action could not be
    done. `beyond expert`: triples whose next observation no step of the same expert episode shows.
    """
    triples = [(b, outcome) for b in branchings for outcome in b.outcomes]
    shown: dict[str, set[str]] = {}
    for b in branchings:
        shown.setdefault(_episode(b.expert), set()).update(
            (*(step.observation for step in b.expert.steps), b.expert.last_observation)
        )
    different = {(_episode(b.expert), b.state, outcome.steps[-1].action) for b, outcome in triples}
    number = len(triples)
    return {
        "states": len(branchings),
        "triples": number,
        "distinct": len(different) / number,
        "refused": sum(not outcome.steps[-1].admissible for _, outcome in triples) / number,
        "beyond expert": sum(o.last_observation not in shown[_episode(b.expert)] for b, o in triples)
        / number,
    }


def leaked_tasks(branchings: Sequence[Branching], held_back: Iterable[Trajectory | tuple[str, dict]]) -> int:
    """How many tasks that early experience branched off are among those held back for measuring; 0 is right.

    `held_back`: pairs of world id and packed task, or episodes of them.
    """
    kept = {
        _key(item.world, item.task) if isinstance(item, Trajectory) else _key(*item) for item in held_back
    }
    return len({_episode(b.expert) for b in branchings} & kept)


def _episode(trajectory: Trajectory) -> str:
    return _key(trajectory.world, trajectory.task)


def _key(world: str, task: object) -> str:
    return f"{world} {task!r}"
