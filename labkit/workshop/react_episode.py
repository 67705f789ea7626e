"""An episode that can be stepped back, forward and aside: every state is kept, none is computed twice."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import torch

from labkit.agents.forms import FORMAT
from labkit.agents.react import INADMISSIBLE, PREMATURE, REPEATED, Context, Policy
from labkit.agents.words import FINISH
from labkit.envs.trajectory import Step
from labkit.envs.world import World

Chooser = Callable[[World, Sequence[Step]], tuple[str, str]] | Policy
"""Who thinks and acts at step t: a function of a copy of the world and of h_t that gives (ρ_t, a_t), or a
policy of `labkit.agents.react`, which is given o_t, h_t and g."""

TERMINATED, TRUNCATED, FINISHED = "terminated", "truncated", "finished"


@dataclass(frozen=True)
class Moment:
    """The world as it stood before step t."""

    world: World
    """A copy in state s_t, which nobody steps."""
    observation: str
    """o_t."""
    end: str = ""
    """How the episode ended here: `TERMINATED`, `TRUNCATED`, `FINISHED`, or "" if it goes on."""

    @cached_property
    def state(self) -> Hashable | None:
        """s_t as a value; None in a world that does not show it as one, or as one that never recurs."""
        try:
            return self.world.state if self.world.state_recurs else None
        except NotImplementedError:
            return None

    @property
    def state_or_observation(self) -> Hashable:
        """What tells moments apart: s_t, or o_t in a world that shows no state."""
        return self.observation if self.state is None else self.state

    @cached_property
    def rendered(self) -> str:
        """s_t in words, without the goal, which does not change."""
        return self.world.render().removeprefix(self.world.goal).strip("\n")

    @cached_property
    def actions(self) -> tuple[str, ...]:
        """Admissible actions; none after the end."""
        return () if self.end else self.world.admissible_actions()


@dataclass(frozen=True)
class Turn:
    """Step t, and how it came about."""

    step: Step
    """o_t, ρ_t, a_t and the reward."""
    by: str
    """Name of the chooser."""
    instead: str | None = None
    """The action that this one replaced, where the episode branched off; else None."""


class SteppedEpisode:
    """One episode, t counted from 1. Moments 1 ... T + 1 and turns 1 ... T have been reached so far."""

    def __init__(
        self, world: World, choosers: Mapping[str, Chooser], task: Any | None = None, seed: int = 0
    ) -> None:
        """Reset `world` (wrappers are taken off) to `task`, or to one drawn by `seed`; then step copies.

        Raises ValueError without a chooser.
        """
        if not choosers:
            raise ValueError('nobody chooses; give choosers={"expert": a function of world and history}')
        world = world.unwrapped
        observation, info = world.reset(seed=seed, options=None if task is None else {"task": task})
        self.goal: str = info["goal"]
        self.choosers, self._seed = dict(choosers), seed
        self._start = Moment(world.clone(), observation)
        self.restart()

    def restart(self) -> None:
        """Forget all steps."""
        self.moments, self.turns = [self._start], []
        self._generator = torch.Generator().manual_seed(self._seed)

    @property
    def length(self) -> int:
        """T: steps taken so far."""
        return len(self.turns)

    def history(self, t: int) -> tuple[Step, ...]:
        """h_t: steps 1 ... t - 1, without step t."""
        return tuple(turn.step for turn in self.turns[: t - 1])

    def aliases(self, t: int) -> tuple[int, ...]:
        """Other t' at which the same was observed in another hidden state; none where no state is shown."""
        here = self.moments[t - 1]
        return tuple(
            other
            for other, moment in enumerate(self.moments, 1)
            if moment.observation == here.observation and moment.state != here.state
        )

    def reach(self, t: int, by: str) -> None:
        """Have the chooser named `by` take the steps up to t that have not been taken, or up to the end."""
        while self.length < t and not self.moments[-1].end:
            self._take(self.length + 1, self._choose(self.length + 1, by), by, None)

    def take_over(self, t: int, by: str) -> None:
        """The chooser named `by` chooses step t anew; later steps are dropped. Nothing after the end."""
        if not self.moments[t - 1].end:
            self._take(t, self._choose(t, by), by, self._before(t))

    def branch(self, t: int, action: str, by: str) -> bool:
        """Do `action` at step t without a thought, drop later steps; whether it differs from a_t.

        What is a_t already, and anything after the end, changes nothing.
        """
        before = self._before(t)
        if self.moments[t - 1].end or action == before:
            return False
        self._take(t, Step(self.moments[t - 1].observation, "", action), by, before)
        return True

    def _before(self, t: int) -> str | None:
        """a_t as it stands; None if step t has not been taken."""
        return self.turns[t - 1].step.action if t <= self.length else None

    def _choose(self, t: int, by: str) -> Step:
        chooser, moment, history = self.choosers[by], self.moments[t - 1], self.history(t)
        # A copy: whoever looks may step it.
        world = moment.world.clone()
        if not hasattr(chooser, "write"):
            thought, action = chooser(world, history)
            return Step(moment.observation, thought, action)
        context = Context(self.goal, history, moment.observation, world)
        (written,) = chooser.write([context], self._generator)
        parsed = chooser.form.parse(written.text)
        return Step(
            moment.observation,
            parsed.thought,
            parsed.action,
            failures=parsed.failures,
            written=written.text if parsed.failures else None,
            ids=written.ids,
            logprobs=written.logprobs,
        )

    def _take(self, t: int, step: Step, by: str, before: str | None) -> None:
        """Do step t, as `labkit.agents.react.Episode` does, from a copy of the state kept for t."""
        moment, failures = self.moments[t - 1], list(step.failures)
        if step.action == FINISH:
            # An episode whose goal holds is over already, so that whoever says so now is wrong.
            after, step = Moment(moment.world, moment.observation, FINISHED), replace(step, admissible=False)
            failures.append(PREMATURE)
        else:
            world = moment.world.clone()
            observation, reward, terminated, truncated, info = world.step(step.action)
            after = Moment(world, observation, TERMINATED if terminated else TRUNCATED if truncated else "")
            step = replace(step, reward=float(reward), admissible=info["admissible"])
            failures += [INADMISSIBLE] * (not step.admissible and FORMAT not in failures)
            failures += [REPEATED] * (bool(step.action) and self._was_done(t, step.action))
        instead = before if before != step.action else None
        self.moments[t:], self.turns[t - 1 :] = [after], []
        self.turns.append(Turn(replace(step, failures=tuple(failures)), by, instead))

    def _was_done(self, t: int, action: str) -> bool:
        """Whether `action` was done before in state s_t (after o_t, in a world that shows no state)."""
        here = self.moments[t - 1].state_or_observation
        return any(
            turn.step.action == action and moment.state_or_observation == here
            for moment, turn in zip(self.moments, self.turns[: t - 1], strict=False)
        )
