"""Making a base checkpoint: train from scratch, resumable, and write model, tokenizer and a record."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any, Protocol

from tqdm.auto import tqdm
from transformers import PreTrainedModel, PreTrainedTokenizerFast

from labkit.files import atomic_write_text
from labkit.lm.models import TinyConfig, num_parameters, tiny_model
from labkit.lm.sft import Batch, sft_algorithm
from labkit.lm.training import OptimizerConfig, TrainState, train


class BaseTraining(Protocol):
    """What the configuration of a base must say (a frozen dataclass with these and more)."""

    @property
    def model(self) -> TinyConfig:
        """Shape of the network."""

    @property
    def optimizer(self) -> OptimizerConfig:
        """Optimiser and schedule."""

    @property
    def steps(self) -> int:
        """Updates."""

    @property
    def seed(self) -> int:
        """Seed of weights and data."""


def train_base(
    config: BaseTraining,
    tokenizer: PreTrainedTokenizerFast,
    next_batch: Callable[[TrainState], Batch],
    folder: Path,
    *,
    title: str,
    command: str,
    checkpoint: Path | None = None,
    measure: Callable[[PreTrainedModel], Mapping[str, Any]] = lambda model: {},
) -> dict[str, Any]:
    """Train a fresh tiny model by SFT on `next_batch`; write model, tokenizer and `base.json` to `folder`.

    `next_batch` must draw from its state alone: then a run that was interrupted continues from `checkpoint`
    (written every 100 steps, removed at the end) and gives the same base. `title`: for the progress bar.
    `base.json` holds `command`, parameters, config, what `measure` finds at the trained model, and the loss
    of each step in nats a kept token. Returns that record.
    """
    model = tiny_model(config.model, tokenizer, config.seed)
    state = TrainState.start(model, config.optimizer, config.steps, config.seed)
    if checkpoint is not None and checkpoint.exists():
        state.load(checkpoint)
    bar = tqdm(total=config.steps, initial=state.step, desc=title, unit="step")

    def report(state: TrainState) -> None:
        bar.update()
        bar.set_postfix(loss=f"{state.history[-1]['loss']:.3f}")
        if checkpoint is not None and state.step % 100 == 0:
            state.save(checkpoint)

    train(state, sft_algorithm(next_batch), callbacks=[report])
    bar.close()
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    record = {
        "command": command,
        "parameters": num_parameters(model),
        "config": asdict(config),
        **measure(model.eval()),
        "loss": [row["loss"] for row in state.history],
    }
    atomic_write_text(folder / "base.json", json.dumps(record, indent=1) + "\n")
    if checkpoint is not None:
        checkpoint.unlink(missing_ok=True)
    return record
