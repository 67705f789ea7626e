"""How an agent does: success, failures and steps on fixed sets of tasks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

from labkit.agents.cloning import PHONE_STEPS, phone_tasks
from labkit.agents.react import FAILURES, Policy, failure_counts, play, success_within
from labkit.envs.phone.env import PhoneWorld
from labkit.envs.phone.goals import Task, load_tasks
from labkit.envs.phone.planner import split_by_history
from labkit.envs.trajectory import Trajectory
from labkit.study import Rows

BUDGETS = (2, 4, 6, 8, 10, 12, 16, 20, 24)
"""Step budgets at which success is told."""


@dataclass(frozen=True)
class EvaluationSet:
    """Tasks of PhoneWorld."""

    name: str
    """What they have in common."""
    tasks: tuple[Task, ...]
    """The tasks."""

    def play(self, policy: Policy, seed: int = 0, progress: bool = False) -> list[Trajectory]:
        """One episode of each task."""
        worlds = [PhoneWorld(max_steps=PHONE_STEPS) for _ in self.tasks]
        return play(worlds, policy, self.tasks, seed=seed, progress=progress)


@lru_cache(maxsize=None)
def evaluation_sets(part: str = "test", most: int = 60) -> tuple[EvaluationSet, ...]:
    """The sets of a part, `validation` or `test`; validation has no sets outside the distribution.

    `most` tasks in each set at the most. The tasks are those of the known phone that are never demonstrated,
    apart by whether they need history (`aliased`); outside: goals held out.
    """
    parts = split_by_history(phone_tasks(part))
    sets = {name: parts[name] for name in ("aliased", "unaliased")}
    if part == "test":
        sets["held-out goals"] = load_tasks("held_out_goals")
    return tuple(EvaluationSet(name, tasks[:most]) for name, tasks in sets.items())


def measure(policy: Policy, sets: Sequence[EvaluationSet], seed: int = 0) -> Rows:
    """A row a set: share of successes, of episodes with each kind of failure, steps, success by budget."""
    return [{"set": found.name, **summary(found.play(policy, seed))} for found in sets]


def summary(trajectories: Sequence[Trajectory]) -> dict[str, float]:
    """What a row tells of one set's episodes."""
    number, failures = len(trajectories), failure_counts(trajectories)
    return {
        "episodes": number,
        "success": sum(t.success for t in trajectories) / number,
        "reward": sum(t.reward for t in trajectories) / number,
        "steps": sum(len(t.steps) for t in trajectories) / number,
        **{f"failure {kind}": failures[kind] / number for kind in FAILURES},
        **{f"within {budget}": success_within(trajectories, budget) for budget in BUDGETS},
    }
