"""The live training panel: SFT or RL from the same base, with both accuracies moving while it trains."""

from __future__ import annotations

import copy
import math
import threading
import time
from collections.abc import Sequence
from dataclasses import replace

import ipywidgets as widgets
from matplotlib.figure import Figure
from tqdm.auto import tqdm
from transformers import PreTrainedModel

from labkit.envs.points24.play import Codec
from labkit.workshop.controls import (
    Panel,
    Refresher,
    button,
    choice,
    figure_html,
    progress_html,
    status_html,
)
from labkit.workshop.points24_live import (
    METHODS,
    LiveConfig,
    LiveRun,
    Snapshot,
    live_alt,
    live_figure,
)

POLL_SECONDS = 0.1


class TrainingPanel(Panel):
    """Train SFT or RL from the same base, watch, stop, resume; one at a time.

    Training runs in a thread of its own, so that the kernel stays free. A stop takes effect after the step
    in hand, and what is resumed gives the same numbers as if it had not been stopped. `steps`,
    `evaluate_every` and `max_hands` override the profile's size.
    """

    def __init__(
        self,
        model: PreTrainedModel,
        codec: Codec,
        *,
        steps: int | None = None,
        evaluate_every: int | None = None,
        max_hands: int | None = None,
        seed: int = 0,
    ) -> None:
        sizes = {"steps": steps, "evaluate_every": evaluate_every, "max_hands": max_hands}
        given = {name: size for name, size in sizes.items() if size is not None}
        if small := [name for name, size in given.items() if size < 1]:
            raise ValueError(f"{small[0]} is {given[small[0]]}; at least 1 is needed")
        self.configs = {m: replace(LiveConfig.of_profile(m), seed=seed, **given) for m in METHODS}
        """Size of each method's run."""
        self._base, self._codec = copy.deepcopy(model).eval().requires_grad_(False), codec
        self.runs: dict[str, LiveRun] = {}
        """Runs begun so far, by method."""
        self._thread: threading.Thread | None = None
        self._active: str | None = None
        self._stop = threading.Event()
        self._drawn: tuple | None = None
        self._pictures: dict[str, str] = {}
        self.method = choice("Method", [(m, m) for m in METHODS], lambda _: self._method_changed())
        self.axis = choice("x-axis", [("updates", "step"), ("compute", "compute")], lambda _: self._draw())
        self.start_button = button("Start", self.start, "Train the method chosen, from the base")
        self.stop_button = button("Stop", self.stop, "Stop after the step in hand")
        self.resume_button = button("Resume", self.resume, "Go on where it was stopped")
        self.reset_button = button("Reset", self.reset, "Forget the run of the method chosen")
        self._progress, self._figure, self._status = (widgets.HTML() for _ in range(3))
        wrap = widgets.Layout(flex_flow="row wrap", align_items="center")
        buttons = [self.start_button, self.stop_button, self.resume_button, self.reset_button]
        super().__init__(
            [
                widgets.HBox([self.method, self.axis], layout=wrap),
                widgets.HBox([*buttons, self._progress], layout=wrap),
                self._status,
                self._figure,
            ]
        )
        self._refresher = Refresher(self._refresh)
        self._say("Nothing is trained yet. Choose a method and press Start.")
        self._refresh()

    @property
    def training(self) -> bool:
        """Whether a run is going on now."""
        return self._active is not None

    def start(self) -> None:
        """Train the chosen method from the base; says so if it has begun already."""
        method = self.method.value
        if self.training:
            self._say(f"{self._active} is training; stop it first.")
        elif method in self.runs:
            go_on = "" if self.runs[method].finished else "press Resume to go on, or "
            self._say(f"{method} stands at step {self.runs[method].step}: {go_on}press Reset to begin anew.")
        else:
            self._launch(method)
            self._say(f"{method} is training.")

    def stop(self) -> None:
        """Stop after the step in hand."""
        if self.training:
            self._stop.set()
            self._say(f"{self._active} stops after this step.")
        else:
            self._say("Nothing is training.")

    def resume(self) -> None:
        """Go on with the chosen method from where it stands."""
        method = self.method.value
        if self.training:
            self._say(f"{self._active} is training already.")
        elif method not in self.runs:
            self._say(f"{method} has not begun: press Start.")
        elif self.runs[method].finished or self.runs[method].error is not None:
            self._say(f"{method} cannot go on: press Reset to begin anew.")
        else:
            step = self.runs[method].step
            self._launch(method)
            self._say(f"{method} goes on from step {step}.")

    def reset(self) -> None:
        """Forget the chosen method's run; if it is training, it is stopped first."""
        method = self.method.value
        if self.training and self._active == method:
            self._stop.set()
            self.wait()
        self.runs.pop(method, None)
        self._say(f"{method} is back at the base.")
        self._refresh()

    def wait(self, timeout: float | None = None) -> bool:
        """Wait for the run going on, keeping the picture up to date; False if it is not over in time.

        Interrupting the kernel stops the run after the step in hand.
        """
        if self._thread is None:
            return True
        end = time.monotonic() + (math.inf if timeout is None else timeout)
        try:
            while self._thread.is_alive() and time.monotonic() < end:
                self._thread.join(POLL_SECONDS)
                self._refresher.run_if_asked()
        except KeyboardInterrupt:
            self._stop.set()
            self._thread.join()
            raise
        finally:
            self._refresher.run_if_asked()
        return not self._thread.is_alive()

    def run_blocking(self, steps: int | None = None, methods: Sequence[str] = tuple(METHODS)) -> None:
        """Train without the buttons: each method to its end, or `steps` further, and wait for it.

        A run that the buttons started is waited for. ValueError for an unknown method.
        """
        if unknown := [m for m in methods if m not in METHODS]:
            raise ValueError(f"method {unknown[0]!r} is not one of {', '.join(METHODS)}")
        self.wait()
        for method in methods:
            if method in self.runs and self.runs[method].error is not None:
                del self.runs[method]
            done = self.runs[method].step if method in self.runs else 0
            total = self.configs[method].steps
            until = total if steps is None else min(done + steps, total)
            if done == until:
                continue
            self._launch(method, until)
            with tqdm(total=until, initial=done, desc=method, unit="step") as bar:
                while not self.wait(2 * POLL_SECONDS):
                    bar.update(self.runs[method].step - bar.n)
                bar.update(self.runs[method].step - bar.n)
            if self.runs[method].error is not None:
                raise RuntimeError(f"training {method} failed: {self.runs[method].error}")

    def snapshots(self) -> list[Snapshot]:
        """The models kept at each evaluation, the base (step 0) included; the base alone before any run."""
        kept = [snapshot for run in self._ordered() for snapshot in list(run.snapshots)]
        return kept or [Snapshot("base", 0, self._base)]

    def figure(self) -> Figure:
        """The picture as it stands."""
        return live_figure(self._ordered(), self.axis.value)

    def alt(self) -> str:
        """What the picture shows, in words."""
        return live_alt(self._ordered())

    def still(self) -> str:
        """The picture with its alt text."""
        axis = self.axis.value
        if axis not in self._pictures:
            self._pictures[axis] = figure_html(self.figure(), self.alt())
        return self._pictures[axis]

    def _ordered(self) -> list[LiveRun]:
        return [self.runs[m] for m in METHODS if m in self.runs]

    def _launch(self, method: str, until: int | None = None) -> None:
        if method not in self.runs:
            self.runs[method] = LiveRun(method, self._base, self._codec, self.configs[method])
        self._stop.clear()
        self._active = method
        # A daemon: a kernel that is shut down does not wait for the end of training.
        self._thread = threading.Thread(target=self._work, args=(self.runs[method], until), daemon=True)
        self._thread.start()

    def _work(self, run: LiveRun, until: int | None) -> None:
        try:
            run.advance(until, self._stop, self._refresher.ask)
        except Exception as error:
            run.error = f"{type(error).__name__}: {error}"
        finally:
            self._active = None
            self._refresher.ask()

    def _method_changed(self) -> None:
        self._say(f"{self.method.value} is chosen.")
        self._refresh()

    def _refresh(self) -> None:
        """Bring progress, status and picture up to date; the picture only after an evaluation."""
        active = self._active
        run = self.runs.get(active or self.method.value)
        if run is not None:
            self._progress.value = self._progress_of(run)
        else:
            total = self.configs[self.method.value].steps
            self._progress.value = progress_html(0, total, f"step 0 of {total}", "training progress")
        evaluated = tuple((r.method, id(r), len(r.rows)) for r in self._ordered())
        changed, self._drawn = evaluated != self._drawn, evaluated
        if changed:
            self._pictures.clear()
            self._draw()
        if changed or not active:
            self._report(active)

    def _progress_of(self, run: LiveRun) -> str:
        step, total = run.step, run.config.steps
        left = run.seconds_left()
        time_left = "" if left is None or run.finished else f", about {left:.0f} s left"
        return progress_html(
            step, total, f"{run.method} step {step} of {total}{time_left}", "training progress"
        )

    def _report(self, active: str | None) -> None:
        """Say where training stands, at evaluations and at the end: each step would be a nuisance."""
        run = self.runs.get(active or self.method.value)
        if run is not None and run.error is not None:
            self._say(f"Training {run.method} failed: {run.error}. Press Reset to begin anew.")
        if run is None or run.error is not None or not run.rows:
            return
        row = run.rows[-1]
        state = "is training" if active else "is done" if run.finished else "is stopped"
        self._say(
            f"{run.method} {state} at step {run.step}. Solved at step {row['step']:.0f}: "
            f"{row['id_accuracy']:.0%} under the training rule, {row['ood_accuracy']:.0%} under the other "
            f"(of {run.config.max_hands} hands each)."
        )

    def _draw(self) -> None:
        self._figure.value = self.still()

    def _say(self, text: str) -> None:
        self._status.value = status_html(text)
