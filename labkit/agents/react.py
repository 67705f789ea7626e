"""The ReAct loop: a policy thinks and acts in a partially observed world (Yao et al. 2022, arXiv 2210.03629).

    (ρ_t, a_t) ~ π(· | o_t, h_t, g)          thought and action, from goal, history and observation
    s_{t+1} = T(s_t, a_t)                    the world moves; the policy never sees s
    o_{t+1} = Ω(s_{t+1})                     what shows of it
    h_{t+1} = (h_t, (o_t, ρ_t, a_t))         so that h_t does not hold step t

until the goal holds (terminated), the budget of steps is used up (truncated), or the policy says `finish`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import torch
from tqdm.auto import tqdm

from labkit.agents.forms import FORMAT, INVENTED, Form
from labkit.agents.words import FINISH
from labkit.envs.trajectory import Step, Trajectory
from labkit.envs.world import World

INADMISSIBLE, REPEATED = "inadmissible", "repeated"
PREMATURE, BUDGET = "premature finish", "budget"
FAILURES = (FORMAT, INADMISSIBLE, REPEATED, INVENTED, PREMATURE, BUDGET)
"""Kinds of failure. `format`: no action could be read. `inadmissible`: the action could not be done.
`repeated`: the same action in the same hidden state as before in this episode, where it can lead to nothing
new (same observation, in a world that shows no state). `invented observation`: the policy wrote one itself.
`premature finish`: it said `finish`, and the goal did not hold. `budget`: the steps were used up."""


@dataclass(frozen=True)
class Context:
    """All that a policy is given at step t."""

    goal: str
    """g."""
    history: tuple[Step, ...]
    """h_t: the steps before this one."""
    observation: str
    """o_t."""
    world: World
    """The world itself, for policies that say so: an expert that knows the state, or one that chooses among
    the admissible actions. A ReAct policy reads the other three fields only."""


@dataclass(frozen=True)
class Written:
    """What a policy wrote at one step."""

    text: str
    """In the policy's form."""
    ids: tuple[int, ...] = ()
    """Token ids, if it sampled tokens."""
    logprobs: tuple[float, ...] = ()
    """Their log-probs, one an id."""


class Policy(Protocol):
    """π: writes thought and action for many episodes at once."""

    name: str
    """For tables."""
    form: Form
    """What its writing is read by."""

    def write(self, contexts: Sequence[Context], generator: torch.Generator) -> list[Written]:
        """One text a context. `generator` is where all chance comes from."""


class Episode:
    """One run through the loop, a step at a time.

    >>> import gymnasium, labkit.envs
    >>> from labkit.agents.forms import TextForm
    >>> from labkit.envs.phone.goals import Task, single
    >>> episode = Episode(gymnasium.make("labkit/PhoneWorld-v0"), Task(single("open", "wifi")))
    >>> episode.advance(Written("Thought: it is a setting\\nAction: open Settings"), TextForm()).action
    'open Settings'
    >>> episode.observation.split()[0], len(episode.history), episode.over
    ('Settings', 1, False)
    """

    def __init__(self, world: World, task: Any | None = None, seed: int | None = None) -> None:
        """Reset `world` (wrappers are taken off) to `task`, or to one drawn by `seed`."""
        self.world: World = world.unwrapped
        options = None if task is None else {"task": task}
        self.observation, info = self.world.reset(seed=seed, options=options)
        self.goal: str = info["goal"]
        self.history: tuple[Step, ...] = ()
        self.terminated = self.truncated = self.finished = False
        self.seed = seed
        self._done: set[tuple[Hashable, str]] = set()

    @property
    def over(self) -> bool:
        """Whether the loop has ended, in whichever of the three ways."""
        return self.terminated or self.truncated or self.finished

    @property
    def context(self) -> Context:
        """(o_t, h_t, g)."""
        return Context(self.goal, self.history, self.observation, self.world)

    def advance(self, written: Written, form: Form) -> Step:
        """Read (ρ_t, a_t), do a_t, append the step to the history; returns the step.

        An action that could not be read goes to the world as "", which no world admits: it costs a step.
        Raises RuntimeError after the end.
        """
        if self.over:
            raise RuntimeError("the episode is over: start another one")
        parsed = form.parse(written.text)
        failures = list(parsed.failures)
        reward, admissible, observation = 0.0, False, self.observation
        if parsed.action == FINISH:
            # The loop ends by itself when the goal holds, so that whoever says so now is wrong.
            self.finished = True
            failures.append(PREMATURE)
        else:
            done = (_state(self.world, self.observation), parsed.action)
            step = self.world.step(parsed.action)
            observation, reward, self.terminated, self.truncated, info = step
            admissible = info["admissible"]
            failures += [INADMISSIBLE] * (not admissible and FORMAT not in failures)
            failures += [REPEATED] * (done in self._done and bool(parsed.action))
            self._done.add(done)
        taken = Step(
            self.observation,
            parsed.thought,
            parsed.action,
            reward,
            admissible,
            tuple(failures),
            _kept(written, form, parsed.thought, parsed.action),
            written.ids,
            written.logprobs,
        )
        self.history, self.observation = (*self.history, taken), observation
        return taken

    def trajectory(self, policy: str = "") -> Trajectory:
        """The episode so far as data."""
        return Trajectory(
            self.world.id,
            self.world.pack_task(self.world.task),
            self.goal,
            self.history,
            self.observation,
            self.terminated,
            self.truncated,
            policy,
            self.seed,
        )


def _state(world: World, observation: str) -> Hashable:
    """s_t as far as one can tell whether it was there before: the observation, where the state cannot say."""
    try:
        return world.state if world.state_recurs else observation
    except NotImplementedError:
        return observation


def _kept(written: Written, form: Form, thought: str, action: str) -> str | None:
    """What was written, if thought and action do not tell it."""
    try:
        told = bool(action) and form.write(thought, action) == written.text
    except ValueError:
        told = False
    return None if told else written.text


def play(
    worlds: Sequence[World],
    policy: Policy,
    tasks: Sequence[Any] | None = None,
    *,
    seed: int = 0,
    on_step: Callable[[int], None] | None = None,
    progress: bool = False,
) -> list[Trajectory]:
    """Play one episode in each world, all in step, so that a model writes for all of them at once.

    `tasks`: one a world; None draws them by `seed`. `on_step` is told after each step in how many episodes it
    was taken. `progress` shows a bar of the episodes. The same arguments give the same trajectories.

    Raises ValueError for a number of tasks that is not that of the worlds, and for one world given twice.
    """
    if len({id(world.unwrapped) for world in worlds}) < len(worlds):
        raise ValueError("two episodes cannot share one world: give a world of its own, or a clone, to each")
    if tasks is not None and len(tasks) != len(worlds):
        raise ValueError(f"{len(tasks)} tasks for {len(worlds)} worlds; give one a world")
    generator = torch.Generator().manual_seed(seed)
    episodes = [
        Episode(world, task, seed + i)
        for i, (world, task) in enumerate(zip(worlds, tasks or [None] * len(worlds), strict=True))
    ]
    bar = tqdm(total=len(episodes), desc=policy.name, unit="episode", disable=not progress)
    while open_episodes := [episode for episode in episodes if not episode.over]:
        contexts = [episode.context for episode in open_episodes]
        for episode, written in zip(open_episodes, policy.write(contexts, generator), strict=True):
            episode.advance(written, policy.form)
            bar.update(episode.over)
        if on_step is not None:
            on_step(len(open_episodes))
    bar.close()
    return [episode.trajectory(policy.name) for episode in episodes]


def failure_counts(trajectories: Iterable[Trajectory]) -> Counter[str]:
    """In how many episodes each kind of failure happened, at least once."""
    counts = Counter(dict.fromkeys(FAILURES, 0))
    for trajectory in trajectories:
        kinds = {kind for step in trajectory.steps for kind in step.failures}
        counts.update(kinds | ({BUDGET} if trajectory.truncated else set()))
    return counts


def success_within(trajectories: Sequence[Trajectory], budget: int) -> float:
    """Share of the episodes that reached the goal in at most `budget` steps."""
    return sum(t.success and len(t.steps) <= budget for t in trajectories) / len(trajectories)
