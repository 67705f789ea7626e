"""Episodes as rollouts: a world judges what a policy writes turn by turn, for `labkit.rl` to train on."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from labkit.agents.forms import WordForm
from labkit.agents.react import Episode, Written
from labkit.agents.words import ACT, THINK
from labkit.envs.judging import Judgement
from labkit.envs.world import World


class EpisodeJudge:
    """Plays one episode a row; the world's answers are the feedback, which is never trained on.

    A row reads `<bos> {g} <obs> {o_1} <act>`, then what is sampled, then `<obs> {o_2} <act>`, and so on; with
    `thoughts`, `<think>` stands where `<act>` does. The token that begins a step is given, not sampled: it
    belongs to the prompt. What a policy writes after an observation of its own making is not acted on, but
    stays in the row: it was sampled, and is trained on.

    Each turn is paid all that the episode has earned so far, so the last turn's reward is the return.
    """

    def __init__(
        self,
        make_world: Callable[[], World],
        tasks: Sequence[Any],
        form: WordForm,
        group_size: int,
        thoughts: bool,
    ) -> None:
        """Each task is played `group_size` times, its rows side by side."""
        self.form = form
        self.begin = THINK if thoughts else ACT
        self.episodes = [Episode(make_world(), task) for task in tasks for _ in range(group_size)]
        self.returns = [0.0] * len(self.episodes)
        self._firsts = self.episodes[::group_size]

    @property
    def prompts(self) -> list[list[int]]:
        """One a task."""
        begin = self.form.ids(self.begin)
        return [
            self.form.prompt_ids(episode.goal, (), episode.observation) + begin for episode in self._firsts
        ]

    def __call__(self, rows: Sequence[int], completions: Sequence[Sequence[int]]) -> list[Judgement]:
        """Advance each row's episode by what it wrote (`labkit.envs.judging.Judge`)."""
        return [self._advance(row, ids) for row, ids in zip(rows, completions, strict=True)]

    def _advance(self, row: int, ids: Sequence[int]) -> Judgement:
        episode = self.episodes[row]
        text = f"{self.begin} {self.form.text(ids)}"
        self.returns[row] += episode.advance(Written(text), self.form).reward
        if episode.over:
            return Judgement(self.returns[row])
        shown = self.form.observation_ids(episode.observation) + self.form.ids(self.begin)
        return Judgement(self.returns[row], tuple(shown))
