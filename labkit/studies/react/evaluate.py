"""The sets of tasks that the ReAct study measures on."""

from __future__ import annotations

from functools import lru_cache

from labkit.agents.cloning import phone_tasks
from labkit.agents.evaluation import EvaluationSet, phone_set
from labkit.envs.phone.goals import load_tasks
from labkit.envs.phone.planner import split_by_history


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
    return tuple(phone_set(name, tasks, most) for name, tasks in sets.items())
