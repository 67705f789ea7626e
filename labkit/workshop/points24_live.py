"""A run of SFT or RL at workshop size that can be stopped at any step, resumed, and watched."""

from __future__ import annotations

import copy
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from transformers import PreTrainedModel

from labkit.envs.points24.metrics import reading_accuracy
from labkit.envs.points24.play import Codec, attempts
from labkit.lm.models import num_parameters
from labkit.lm.training import StopTraining, TrainState, train
from labkit.plotting import COLOURS, Look, new_figure
from labkit.studies.points24.arms import FORGETTING_SFT, arms
from labkit.studies.points24.evaluate import EvaluationSet, evaluation_sets
from labkit.studies.points24.run import RunConfig, SFTStage, Stage, start_stage
from labkit.study import active_profile

METHODS = {"SFT": FORGETTING_SFT, "RL": "grpo"}
"""What can be trained -> arm of the study whose settings are used."""
STEPS = {"SFT": 100, "RL": 40}
"""Updates at workshop size: about the same compute, since an update of RL samples its data first."""
NUM_EVALUATIONS = 10
LOOKS = {"SFT": Look("SFT", COLOURS["orange"], marker="s"), "RL": Look("RL", COLOURS["blue"])}


@dataclass(frozen=True)
class LiveConfig:
    """Size of a live run."""

    steps: int
    """Updates in all."""
    evaluate_every: int
    """Steps between two evaluations."""
    max_hands: int
    """Hands measured on, for each rule."""
    seed: int = 0
    """Seed of the training data and of the rollouts."""

    @classmethod
    def of_profile(cls, method: str, profile: str | None = None) -> LiveConfig:
        """Workshop size, or a few steps at the smoke profile; `full` runs are the study's own."""
        if (profile or active_profile()) == "smoke":
            return cls(steps=4, evaluate_every=2, max_hands=8)
        return cls(STEPS[method], STEPS[method] // NUM_EVALUATIONS, max_hands=60)


@dataclass(frozen=True)
class Snapshot:
    """The model as it was at an evaluation."""

    series: str
    """Method that trained it."""
    step: int
    """Updates it had."""
    model: PreTrainedModel
    """A copy that does not train."""


class LiveRun:
    """One method's training from the base; `advance` alone moves it."""

    def __init__(self, method: str, base: PreTrainedModel, codec: Codec, config: LiveConfig) -> None:
        self.method, self.config = method, config
        self.state: TrainState | None = None
        """Where training stands; None before the first `advance`."""
        self.rows: list[dict[str, float]] = []
        """Metrics at each evaluation, with step and compute (FLOPs)."""
        self.snapshots: list[Snapshot] = []
        """The model at each evaluation."""
        self.seconds = 0.0
        """Time spent on steps and their evaluations."""
        self.error: str | None = None
        """What training failed with."""
        self._base, self._codec = base, codec
        self._run_config, self._stage = stage_of(method, config)

    @property
    def step(self) -> int:
        """Updates made."""
        return self.state.step if self.state else 0

    @property
    def finished(self) -> bool:
        """Whether all steps are done."""
        return self.step == self.config.steps

    def seconds_left(self) -> float | None:
        """Time to the end at the pace so far; None before the first step."""
        return self.seconds / self.step * (self.config.steps - self.step) if self.step else None

    def advance(
        self, until: int | None, stop: threading.Event, on_step: Callable[[], None] = lambda: None
    ) -> None:
        """Train until `until` steps are done (None: all) or `stop` is set; `on_step` is called after each."""
        if self.state is None:
            self._prepare()
            on_step()
        began, before = time.perf_counter(), self.seconds

        def after_step(state: TrainState) -> None:
            if state.step % self.config.evaluate_every == 0 or state.step == state.total_steps:
                self._evaluate()
            self.seconds = before + time.perf_counter() - began
            on_step()
            if stop.is_set():
                raise StopTraining

        if not stop.is_set():
            train(self.state, self._algorithm, until=until, callbacks=[after_step])

    def _prepare(self) -> None:
        # Here rather than in __init__: solving the hands takes a second, and `advance` has its own thread.
        config = self._run_config
        model = copy.deepcopy(self._base).requires_grad_(True)
        self._sets = evaluation_sets(config.split, config.train_rule, config.test_rule, self.config.max_hands)
        state, self._algorithm = start_stage(config, self._stage, model, self._codec, self.config.seed)
        self.state = state
        self._evaluate()

    def _evaluate(self) -> None:
        # Greedy, so that nothing is drawn from the generator that training draws from.
        state = self.state
        measured = measure(state.model, self._codec, self._sets)
        compute = state.compute(num_parameters(state.model))
        frozen = copy.deepcopy(state.model).eval().requires_grad_(False)
        self.snapshots.append(Snapshot(self.method, state.step, frozen))
        self.rows.append({"step": state.step, "compute": compute, **measured})


def stage_of(method: str, config: LiveConfig) -> tuple[RunConfig, Stage]:
    """The study's settings for a method, cut to live size. ValueError for another method."""
    if method not in METHODS:
        raise ValueError(f"method {method!r} is not one of {', '.join(METHODS)}")
    profile = "smoke" if active_profile() == "smoke" else "workshop"
    run_config = arms(profile)[METHODS[method]]
    stage = replace(run_config.stages[0], steps=config.steps)
    if profile == "smoke" and isinstance(stage, SFTStage):
        stage = replace(stage, batch_size=8)
    return run_config, stage


def measure(model: PreTrainedModel, codec: Codec, sets: Sequence[EvaluationSet]) -> dict[str, float]:
    """Greedy accuracy and reading accuracy, 0 to 1, prefixed `id_` and `ood_`."""
    row = {}
    for part in sets:
        verdicts = [a[0].verdict for a in attempts(model, codec, part.hands, part.rule)]
        row[f"{part.name}_accuracy"] = sum(v.correct for v in verdicts) / len(verdicts)
        row[f"{part.name}_reading"] = reading_accuracy(verdicts, part.hands, part.rule)
    return row


def live_figure(runs: Sequence[LiveRun], x: str = "step") -> Figure:
    """Accuracy and reading of each run against `step` or `compute`: solid under the training rule, dashed
    under the other one."""
    figure, axes = new_figure(2, width=4.4, height=3.1, sharey=True)
    for ax, metric in zip(axes, ("accuracy", "reading"), strict=True):
        for run in runs:
            _draw_run(ax, run, metric, x)
        label = "updates" if x == "step" else "training compute (FLOPs)"
        ax.set(xlabel=label, ylim=(-0.03, 1.03))
        if x == "step" and runs:
            ax.set_xlim(-0.5, max(run.config.steps for run in runs) + 0.5)
    axes[0].set(title="Hands solved", ylabel="share of hands")
    axes[1].set(title="All four cards read right")
    if any(run.rows for run in runs):
        # Long enough that a dashed line shows as one behind its marker.
        axes[0].legend(loc="upper left", handlelength=3.5)
    else:
        axes[0].text(0.5, 0.5, "nothing trained yet", transform=axes[0].transAxes, ha="center")
        axes[0].set_xticks([])
        axes[1].set_xticks([])
    return figure


def _draw_run(ax: Axes, run: LiveRun, metric: str, x: str) -> None:
    look = LOOKS[run.method]
    for part, line, rule in (("id", "-", "training rule"), ("ood", "--", "other rule")):
        ax.plot(
            [row[x] for row in run.rows], [row[f"{part}_{metric}"] for row in run.rows],
            color=look.colour, linestyle=line, marker=look.marker, markersize=4,
            markerfacecolor=look.colour if part == "id" else "white", label=f"{look.label}, {rule}",
        )  # fmt: skip


def live_alt(runs: Sequence[LiveRun]) -> str:
    """What `live_figure` shows, in words."""
    shown = [_words(run) for run in runs if run.rows]
    opening = "Share of hands solved and of hands whose cards are read right while training."
    return " ".join([opening, *(shown or ["Nothing has been trained yet."])])


def _words(run: LiveRun) -> str:
    first, last = run.rows[0], run.rows[-1]

    def moved(metric: str) -> str:
        return f"from {first[metric]:.0%} to {last[metric]:.0%}"

    return (
        f"{run.method}, {last['step']:.0f} updates: solved under the training rule {moved('id_accuracy')}, "
        f"under the other rule {moved('ood_accuracy')}; cards read right under the other rule "
        f"{moved('ood_reading')}."
    )
