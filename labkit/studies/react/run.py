"""One run of the study: clone experts from the reading base, then play; or play without a network."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from tqdm.auto import tqdm

from labkit.agents.base import base_folder
from labkit.agents.cloning import CloningConfig, demonstrations, start_cloning
from labkit.agents.evaluation import measure
from labkit.agents.lm_policies import TinyPolicy
from labkit.agents.policies import NoisyExpert
from labkit.lm.models import load_model
from labkit.lm.training import Callback, TrainState, train
from labkit.studies.react.evaluate import evaluation_sets
from labkit.study import Rows, RunContext

CHECKPOINT_EVERY = 50


@dataclass(frozen=True)
class RunConfig:
    """A policy cloned from an expert."""

    cloning: CloningConfig = field(default_factory=CloningConfig)
    """How it learns."""
    split: str = "test"
    """Tasks measured on: `test`, or `validation` while settings are chosen."""
    most: int = 60
    """Tasks in each set at the most."""


@dataclass(frozen=True)
class FixedConfig:
    """A policy that learns nothing: chance, or an expert with noise."""

    noise: float
    """Share of random actions; 1 is chance."""
    split: str = "test"
    """Tasks measured on."""
    most: int = 60
    """Tasks in each set at the most."""


def clone(
    config: CloningConfig,
    seed: int,
    callbacks: Sequence[Callback] = (),
    checkpoint: Path | None = None,
    progress: bool = False,
) -> tuple[TrainState, TinyPolicy]:
    """Train a policy from the reading base; resumes from `checkpoint`. Returns state and policy.

    `progress` shows a bar of the updates.
    """
    model, tokenizer = load_model(base_folder())
    state, algorithm = start_cloning(model, tokenizer, config, demonstrations(config, seed), seed)
    if checkpoint is not None and checkpoint.exists():
        state.load(checkpoint)
    bar = tqdm(total=config.updates, initial=state.step, desc="cloning", unit="update", disable=not progress)

    def show(state: TrainState) -> None:
        bar.update()
        bar.set_postfix(loss=f"{state.history[-1]['loss']:.3f}")

    train(state, algorithm, callbacks=[show, *callbacks])
    bar.close()
    return state, TinyPolicy(model, tokenizer, config.history, thoughts=config.thoughts)


def run(config: RunConfig | FixedConfig, context: RunContext) -> Rows:
    """A row for each set of tasks."""
    sets = evaluation_sets(config.split, config.most)
    if isinstance(config, FixedConfig):
        rows = measure(NoisyExpert(config.noise), sets, context.seed)
        return [{"step": 0, **row} for row in rows]
    path = context.folder / f"clone-{_digest(config.cloning)}-{context.seed}.pt"

    def report(state: TrainState) -> None:
        if state.step % CHECKPOINT_EVERY == 0 or state.step == state.total_steps:
            state.save(path)
        context.report(0.6 * state.step / state.total_steps)

    state, policy = clone(config.cloning, context.seed, [report], path)
    loss = sum(row["loss"] for row in state.history[-20:]) / len(state.history[-20:])
    trained = {"step": state.step, "loss": loss, "tokens": state.tokens_trained}
    rows = []
    for i, found in enumerate(sets):
        rows += [{**trained, **row} for row in measure(policy, [found], context.seed)]
        context.report(0.6 + 0.4 * (i + 1) / len(sets))
    return rows


def _digest(config: CloningConfig) -> str:
    return hashlib.sha256(repr(config).encode()).hexdigest()[:16]


def cost(config: RunConfig | FixedConfig) -> float:
    """Rough seconds of a run on one core, for the time left."""
    if isinstance(config, FixedConfig):
        return 3.0
    history = config.cloning.history
    whole = history.kind == "full" and history.thoughts
    update = 0.2 if whole else {"full": 0.9, "window": 0.4, "summary": 0.3, "none": 0.3}[history.kind]
    return config.cloning.updates * update + config.most
