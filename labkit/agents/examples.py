"""Trajectories as training sequences: what the policy will be shown, then what it shall write."""

from __future__ import annotations

from dataclasses import replace

from labkit.agents.forms import WordForm
from labkit.agents.history import FULL, History
from labkit.agents.words import EOS, OBS
from labkit.envs.trajectory import Trajectory

Example = tuple[list[int], list[bool]]
"""Token ids and which of them are trained on, as `labkit.lm.sft.collate` takes them."""


def without_thoughts(trajectory: Trajectory) -> Trajectory:
    """The same episode acted without thinking: for a policy that only acts. Ids sampled are dropped."""
    steps = (
        # Text that is kept as it was written may hold a thought that could not be read.
        replace(step, thought="", ids=(), logprobs=(), written=None)
        if step.thought or step.written is not None
        else step
        for step in trajectory.steps
    )
    return replace(trajectory, steps=tuple(steps))


def examples(trajectory: Trajectory, form: WordForm, history: History = FULL) -> list[Example]:
    """Sequences whose mask keeps thought, action and `<eos>` of each trained step, and nothing else.

    One for the whole episode where the history shows everything: each step's prompt is then the beginning of
    the next one's. Otherwise one for each trained step, of its prompt and what was written.
    """
    if history.kind == "full" and history.thoughts:
        return _whole(trajectory, form, history)
    return [
        _joined(
            form.prompt_ids(trajectory.goal, trajectory.history(t), step.observation, history),
            form.step_ids(step),
        )
        for t, step in enumerate(trajectory.steps, 1)
        if step.trained
    ]


def _joined(prompt: list[int], written: list[int]) -> Example:
    return prompt + written, [False] * len(prompt) + [True] * len(written)


def _whole(trajectory: Trajectory, form: WordForm, history: History) -> list[Example]:
    trained = [step.trained for step in trajectory.steps]
    if not any(trained):
        return []
    last = len(trained) - trained[::-1].index(True)
    ids: list[int] = []
    keep: list[bool] = []
    for t, step in enumerate(trajectory.steps[:last], 1):
        prompt = form.prompt_ids(trajectory.goal, trajectory.history(t), step.observation, history)
        written = form.step_ids(step)
        keep += [False] * (len(prompt) - len(ids)) + [step.trained] * len(written)
        ids = prompt + written
    return [(ids, keep)]


def outcome_example(triple: Trajectory, form: WordForm) -> Example:
    """The world-model view of an episode's last step: its mask keeps the next observation and its end alone.

        <bos> {g} <obs> {o_1} ... <obs> {o_t} <act> {a_t} <eos> <obs> {o_t+1} <eos>

    Raises ValueError for an episode without a step.
    """
    if not triple.steps:
        raise ValueError("a triple needs a step whose outcome is to be told; this episode has none")
    last = triple.steps[-1]
    prompt = form.prompt_ids(triple.goal, triple.steps[:-1], last.observation)
    prompt += form.step_ids(last) + form.ids(OBS)
    return _joined(prompt, form.observation_ids(triple.last_observation)[1:] + form.ids(EOS))
