"""Step one episode a transition at a time, with every symbol of the formalism side by side."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import ipywidgets as widgets
from IPython.display import HTML

from labkit.envs.world import World
from labkit.workshop.controls import Panel, button, choice, debounced, status_html
from labkit.workshop.react_episode import Chooser, SteppedEpisode
from labkit.workshop.react_views import alias_text, end_text, episode_html, step_html

WAIT_SECONDS = 0.01
"""Pause after a move of the slider before the step is shown: less than a frame of the browser."""
MOST_ACTIONS = 24
"""Admissible actions that get a button of their own; a search page has 15."""
YOU = "you"
"""Who chose, where the learner did."""


class Stepper(Panel):
    """The widget that `stepper` makes."""

    _showing = False

    def __init__(self, episode: SteppedEpisode) -> None:
        self.episode = episode
        self.t = 1
        """The step shown; T + 1 after the end."""
        self.chooser = choice("chosen by", [(name, name) for name in episode.choosers], self._handed_over)
        self.back_button = button("Back", lambda: self.show(self.t - 1), "The step before, as it was")
        self.forward_button = button("Forward", lambda: self.show(self.t + 1), "The next transition")
        self.restart_button = button("Restart", self.restart, "Back to the start; the steps are forgotten")
        self.slider = widgets.IntSlider(
            value=1,
            min=1,
            max=2,
            description="step t",
            style={"description_width": "initial"},
            layout=widgets.Layout(width="min(340px, 100%)"),
        )
        self.actions = choice("what if", [], self._branched)
        self.typed = widgets.Text(
            description="or type an action",
            placeholder="any words",
            continuous_update=False,
            style={"description_width": "initial"},
            layout=widgets.Layout(width="340px"),
        )
        self._more, self._step, self._status = (widgets.HTML() for _ in range(3))
        show_soon = debounced(WAIT_SECONDS)(lambda: self.show(self.slider.value))
        self.slider.observe(lambda _: self._showing or show_soon(), "value")
        self.typed.observe(lambda change: self._typed(change["new"].strip()), "value")
        wrap = widgets.Layout(flex_flow="row wrap", align_items="center")
        super().__init__(
            [
                self.chooser,
                widgets.HBox(
                    [self.back_button, self.forward_button, self.restart_button, self.slider], layout=wrap
                ),
                self.actions,
                widgets.HBox([self.typed, self._more], layout=wrap),
                self._status,
                self._step,
            ]
        )
        self.show(1)

    def show(self, t: int, says: str = "") -> None:
        """Show step t. Steps not taken yet are taken by the chooser; those that were are as they were."""
        episode = self.episode
        failed = self._tried(lambda: episode.reach(max(t, 1), self.chooser.value))
        self.t = t = min(max(t, 1), len(episode.moments))
        moment, over = episode.moments[t - 1], bool(episode.moments[-1].end)
        offered = moment.actions[:MOST_ACTIONS]
        action = episode.turns[t - 1].step.action if t <= episode.length else None
        # What is set here is not the learner's doing.
        self._showing = True
        self.slider.max = len(episode.moments)
        self.slider.value = t
        if self.actions.options != offered:
            self.actions.options = offered
        self.actions.value = action if action in offered else None
        self.typed.value = ""
        self._showing = False
        self.back_button.disabled = t == 1
        self.forward_button.disabled = over and t == len(episode.moments)
        self.typed.disabled = bool(moment.end)
        left = len(moment.actions) - len(offered)
        self._more.value = f"{left} more admissible actions are not shown" if left > 0 else ""
        self._step.value = step_html(episode, t)
        self._status.value = status_html(failed or f"{says} {self._says()}".strip())

    def restart(self) -> None:
        """Begin the same episode again."""
        self.episode.restart()
        self.show(1, "From the start.")

    def still(self) -> str:
        """The steps taken so far, as a table."""
        return episode_html(self.episode)

    def _tried(self, choose: Callable[[], None]) -> str:
        """Have steps chosen; says what went wrong, "" if nothing did.

        A widget's callback has nowhere to raise to: an error would look like a button that does nothing.
        """
        try:
            choose()
        except Exception as error:
            return f"{self.chooser.value} could not choose: {error}."
        return ""

    def _says(self) -> str:
        t, episode = self.t, self.episode
        if t > episode.length:
            return f"t = {t}, after the last step. The episode is over; {end_text(episode)}."
        turn, after = episode.turns[t - 1], episode.moments[t]
        said = f"t = {t}: action {turn.step.action or 'none'}, chosen by {turn.by}."
        if turn.step.failures:
            said += f" Failure: {', '.join(turn.step.failures)}."
        if after.end:
            said += f" The episode is over; {end_text(episode)}."
        return f"{said} {alias_text(episode, t)}".strip()

    def _handed_over(self, name: str) -> None:
        failed = self._tried(lambda: self.episode.take_over(self.t, name))
        self.show(self.t, failed or f"Now {name} chooses, from t = {self.t} on.")

    def _branched(self, action: str | None) -> None:
        if not self._showing and action is not None:
            self._branch(action)

    def _typed(self, action: str) -> None:
        if not self._showing and action:
            self._branch(action)

    def _branch(self, action: str) -> None:
        before = self.episode.turns[self.t - 1].step.action if self.t <= self.episode.length else ""
        if self.episode.branch(self.t, action, YOU):
            self.show(self.t, f"The episode branches at t = {self.t}: {action} instead of {before}.")
        else:
            self.show(self.t, f"{action} is the action at t = {self.t} already.")


def stepper(
    world: World, choosers: Mapping[str, Chooser], *, task: Any | None = None, seed: int = 0
) -> Stepper:
    """A widget that steps one episode of `world`: back, forward, and aside by another action or chooser.

    `choosers`, by name: functions (world, h_t) -> (ρ_t, a_t), which get a copy of the world in state s_t and
    may step it, or policies of `labkit.agents.react`, for which chance comes from `seed`. The first of them
    begins. `world` is reset to `task` (None: drawn by `seed`); then only copies of it are stepped.

    Going back and forward computes nothing again. Another action at step t, or another chooser, begins a
    branch: later steps are dropped.

    Raises ValueError without a chooser, and what `world.reset` raises for something that is not a task.
    """
    return Stepper(SteppedEpisode(world, choosers, task, seed))


def static_stepper(
    world: World,
    choosers: Mapping[str, Chooser],
    *,
    task: Any | None = None,
    seed: int = 0,
    chosen_by: str | None = None,
) -> HTML:
    """The whole episode as a table with the symbols of `stepper`, for a notebook that is only read.

    `chosen_by` names the chooser (default: the first). Raises ValueError for one that there is not.
    """
    episode = SteppedEpisode(world, choosers, task, seed)
    name = next(iter(choosers)) if chosen_by is None else chosen_by
    if name not in choosers:
        raise ValueError(f"chosen_by {name!r} is not one of {', '.join(choosers)}")
    while not episode.moments[-1].end:
        episode.reach(episode.length + 1, name)
    return HTML(episode_html(episode))
