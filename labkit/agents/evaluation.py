"""How an agent does: success, failures and steps on fixed sets of tasks."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from transformers import PreTrainedModel

from labkit.agents.cloning import CRAFT_STEPS, PHONE_STEPS, phone_tasks
from labkit.agents.examples import outcome_example
from labkit.agents.forms import WordForm
from labkit.agents.react import FAILURES, Policy, failure_counts, play, success_within
from labkit.envs.craft.env import CraftWorld
from labkit.envs.craft.tasks import draw_task
from labkit.envs.phone.env import PhoneWorld
from labkit.envs.phone.goals import load_tasks
from labkit.envs.trajectory import Trajectory
from labkit.envs.world import World
from labkit.lm.sft import collate, would_write

BUDGETS = (2, 4, 6, 8, 10, 12, 16, 20, 24)
"""Step budgets at which success is told."""
INSIDE = "in distribution"
"""Name of the set whose tasks are like those demonstrated."""
CRAFT_SEEDS: Mapping[str, int] = {"validation": 500_000, "test": 900_000}
"""First seed of CraftWorld's drawn tasks by part, far from those of demonstrations."""
CRAFT_SPLITS: Mapping[str, str] = {
    INSIDE: "train",
    "other items": "held_out_goals",
    "deeper": "deeper",
    "longer books": "more_distractors",
}
"""Set -> split of CraftWorld; the three outside are seen on test tasks only."""


@dataclass(frozen=True)
class EvaluationSet:
    """Tasks of one world."""

    name: str
    """What they have in common."""
    world: type[World]
    """What they are played in."""
    max_steps: int
    """Budget of an episode."""
    tasks: tuple[Any, ...]
    """The tasks."""

    def play(self, policy: Policy, seed: int = 0, progress: bool = False) -> list[Trajectory]:
        """One episode of each task."""
        worlds = [self.world(max_steps=self.max_steps) for _ in self.tasks]
        return play(worlds, policy, self.tasks, seed=seed, progress=progress)


def phone_set(name: str, tasks: Sequence[Any], most: int) -> EvaluationSet:
    """The first `most` of some tasks of PhoneWorld."""
    return EvaluationSet(name, PhoneWorld, PHONE_STEPS, tuple(tasks[:most]))


def moved_phones(most: int) -> EvaluationSet:
    """Known goals on phones that nobody has seen, with the usual names in other places; drawn evenly."""
    tasks = list(load_tasks("moved_phones"))
    return phone_set("other phones", random.Random("moved phones").sample(tasks, len(tasks)), most)


def phone_sets(part: str, most: int) -> tuple[EvaluationSet, ...]:
    """PhoneWorld's sets of a part, `validation` or `test`: tasks of the known phone that nobody demonstrates,
    and for `test` goals held out, on the same phone, and other phones. Raises ValueError for another part."""
    if part not in CRAFT_SEEDS:
        raise ValueError(f"part {part!r} is not one of {', '.join(CRAFT_SEEDS)}")
    inside = phone_set(INSIDE, phone_tasks(part), most)
    if part == "validation":
        return (inside,)
    return (inside, phone_set("other goals", load_tasks("held_out_goals"), most), moved_phones(most))


def craft_sets(part: str, most: int) -> tuple[EvaluationSet, ...]:
    """CraftWorld's sets of a part, `validation` or `test`: tasks drawn like those demonstrated, and for
    `test` also from each split outside. Raises ValueError for another part."""
    if part not in CRAFT_SEEDS:
        raise ValueError(f"part {part!r} is not one of {', '.join(CRAFT_SEEDS)}")
    seeds = range(CRAFT_SEEDS[part], CRAFT_SEEDS[part] + most)
    return tuple(
        EvaluationSet(name, CraftWorld, CRAFT_STEPS, tuple(draw_task(split, seed) for seed in seeds))
        for name, split in CRAFT_SPLITS.items()
        if part == "test" or name == INSIDE
    )


def measure(policy: Policy, sets: Sequence[EvaluationSet], seed: int = 0) -> list[dict[str, Any]]:
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


@torch.no_grad()
def outcome_accuracy(
    model: PreTrainedModel, form: WordForm, triples: Sequence[Trajectory], batch_size: int = 32
) -> float:
    """Share of next observations that `model` would write word for word by greedy decoding, 0 to 1.

    Raises:
        ValueError: no triples.
    """
    if not triples:
        raise ValueError("no triples to predict; give at least one (a task's demonstration has some)")
    # Of like length together, so that a batch is little padded.
    rows = sorted((outcome_example(triple, form) for triple in triples), key=lambda row: len(row[0]))
    batch = collate(rows, form.tokenizer.pad_token_id)
    return int(would_write(model, batch, batch_size).sum()) / len(rows)
