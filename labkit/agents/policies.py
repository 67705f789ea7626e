"""Policies without a network: what the loop is tried on, and what a model is compared with."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch

from labkit.agents.forms import Form, TextForm
from labkit.agents.react import Context, Written
from labkit.envs.trajectory import Step, Trajectory
from labkit.envs.world import World

Think = Callable[[World], str]
"""What an expert thinks before it acts, e.g. `labkit.agents.thoughts.expert_thought`."""


def silent(world: World) -> str:
    """No thought."""
    return ""


class Scripted:
    """Writes given texts, one a step; the last of them again when they are used up."""

    def __init__(self, texts: Sequence[str], form: Form | None = None, name: str = "scripted") -> None:
        """Raises ValueError without a text."""
        if not texts:
            raise ValueError("a script needs at least one text")
        self.texts, self.form, self.name = tuple(texts), form or TextForm(), name

    def write(self, contexts: Sequence[Context], generator: torch.Generator) -> list[Written]:
        last = len(self.texts) - 1
        return [Written(self.texts[min(len(context.history), last)]) for context in contexts]


class Recorded:
    """Does again what a trajectory says, thoughts included. Raises IndexError beyond its end."""

    def __init__(self, trajectory: Trajectory, form: Form | None = None) -> None:
        self.steps, self.form = trajectory.steps, form or TextForm()
        self.name = f"{trajectory.policy or 'recorded'} again"

    def write(self, contexts: Sequence[Context], generator: torch.Generator) -> list[Written]:
        return [self._again(self.steps[len(context.history)]) for context in contexts]

    def _again(self, step: Step) -> Written:
        text = self.form.write(step.thought, step.action) if step.written is None else step.written
        return Written(text, step.ids, step.logprobs)


class NoisyExpert:
    """With probability `noise` a random admissible action, without a thought; else what the expert does.

    Looks at the world: it is a teacher, not a ReAct policy. `noise` 0 is the expert, 1 chance. Raises
    ValueError for a noise that is no probability, and where a world's expert knows no action.
    """

    def __init__(self, noise: float = 0.0, think: Think = silent, form: Form | None = None) -> None:
        if not 0 <= noise <= 1:
            raise ValueError(f"noise is {noise}; it is a probability, 0 to 1")
        self.noise, self.think, self.form = noise, think, form or TextForm()
        self.name = {0: "expert", 1: "random"}.get(noise, f"expert with {noise:.0%} noise")

    def write(self, contexts: Sequence[Context], generator: torch.Generator) -> list[Written]:
        return [Written(self.form.write(*self._choose(context.world, generator))) for context in contexts]

    def _choose(self, world: World, generator: torch.Generator) -> tuple[str, str]:
        if torch.rand((), generator=generator) < self.noise:
            choices = world.admissible_actions()
            return "", choices[int(torch.randint(len(choices), (), generator=generator))]
        action = world.expert_action()
        if action is None:
            raise ValueError(f"the expert of {type(world).__name__} knows no action for {world.goal!r}")
        return self.think(world), action


def random_policy(form: Form | None = None) -> NoisyExpert:
    """Chance: any admissible action."""
    return NoisyExpert(1.0, form=form)
