"""The one training loop: every algorithm of the workbook (SFT, GRPO, PPO, ...) runs in it.

An *algorithm* is a function of the `TrainState` that accumulates gradients, calls
`state.update()` once or several times, and returns its metrics. Everything random comes from
`state.generator`, so that a run that is interrupted and resumed gives the same numbers as one
that is not.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

import torch
from torch import Tensor

from labkit.files import atomic_write_bytes


@dataclass(frozen=True)
class OptimizerConfig:
    """AdamW and its schedule."""

    learning_rate: float = 1e-3
    """Peak learning rate."""
    betas: tuple[float, float] = (0.9, 0.95)
    """Decay of AdamW's running means of gradient and squared gradient."""
    weight_decay: float = 0.0
    """Decoupled weight decay."""
    max_grad_norm: float = 1.0
    """Gradients are scaled down to this global norm; infinity switches it off."""
    warmup_steps: int = 0
    """Steps over which the learning rate rises linearly from 0."""
    schedule: Literal["constant", "cosine"] = "constant"
    """What the rate does after warm-up; cosine falls to a tenth of the peak at the last step."""


def learning_rate_at(config: OptimizerConfig, step: int, total_steps: int) -> float:
    """Learning rate of step `step` (from 0) out of `total_steps`."""
    if step < config.warmup_steps:
        return config.learning_rate * (step + 1) / config.warmup_steps
    if config.schedule == "constant":
        return config.learning_rate
    span = max(total_steps - config.warmup_steps, 1)
    progress = min((step - config.warmup_steps) / span, 1.0)
    return config.learning_rate * (0.1 + 0.9 * 0.5 * (1 + math.cos(math.pi * progress)))


@dataclass
class TrainState:
    """Everything that changes while training, and nothing else."""

    model: torch.nn.Module
    optimizer: torch.optim.Optimizer
    config: OptimizerConfig
    total_steps: int
    generator: torch.Generator
    step: int = 0
    """Steps done."""
    tokens_trained: int = 0
    """Tokens that went through forward and backward."""
    tokens_sampled: int = 0
    """Tokens that went through forward only, for rollouts."""
    history: list[dict[str, float]] = field(default_factory=list)
    """One row of metrics a step."""

    @classmethod
    def start(
        cls,
        model: torch.nn.Module,
        config: OptimizerConfig,
        total_steps: int,
        seed: int,
        rate_factors: Mapping[str, float] | None = None,
    ) -> TrainState:
        """A fresh state; trains the parameters that require gradients.

        Parameters whose name begins with a key of `rate_factors` learn at that multiple of the rate (a new
        head beside a trained model, say). Raises ValueError when there is nothing to train, or nothing
        under such a name: a run would otherwise "train" and change nothing.
        """
        factors = {"": 1.0, **(rate_factors or {})}
        groups = {prefix: [] for prefix in factors}
        for name, parameter in model.named_parameters():
            if parameter.requires_grad:
                groups[max((p for p in factors if name.startswith(p)), key=len)].append(parameter)
        if not any(groups.values()):
            raise ValueError("no parameter of the model requires a gradient, so nothing can be trained")
        if empty := [prefix for prefix, group in groups.items() if prefix and not group]:
            raise ValueError(f"no trainable parameter has a name that begins with {empty}")
        optimizer = torch.optim.AdamW(
            [{"params": group, "rate_factor": factors[prefix]} for prefix, group in groups.items() if group],
            lr=config.learning_rate,
            betas=config.betas,
            weight_decay=config.weight_decay,
            fused=True,
        )
        return cls(model, optimizer, config, total_steps, torch.Generator().manual_seed(seed))

    def update(self) -> float:
        """Clip the accumulated gradients, make one optimiser step, clear them. Returns their norm."""
        parameters = [p for group in self.optimizer.param_groups for p in group["params"]]
        norm = torch.nn.utils.clip_grad_norm_(parameters, self.config.max_grad_norm)
        for group in self.optimizer.param_groups:
            rate = learning_rate_at(self.config, self.step, self.total_steps)
            group["lr"] = rate * group.get("rate_factor", 1.0)
        self.optimizer.step()
        self.optimizer.zero_grad(set_to_none=True)
        return float(norm)

    def python_random(self) -> random.Random:
        """A `random.Random` seeded by the next draw of the generator."""
        return random.Random(int(torch.randint(2**62, (), generator=self.generator)))

    def compute(self, parameters: int) -> float:
        """Floating-point operations so far: 6ND for training, 2ND for sampling."""
        return parameters * (6.0 * self.tokens_trained + 2.0 * self.tokens_sampled)

    def save(self, path: Path) -> None:
        """Write the whole state to one file, or leave what was there."""
        import io

        buffer = io.BytesIO()
        torch.save(
            {
                "model": self.model.state_dict(),
                "optimizer": self.optimizer.state_dict(),
                "generator": self.generator.get_state(),
                "counters": (self.step, self.tokens_trained, self.tokens_sampled),
                # A numpy number would be written but not read again: `load` takes plain data only.
                "history": [
                    {name: value.item() if hasattr(value, "item") else value for name, value in row.items()}
                    for row in self.history
                ],
            },
            buffer,
        )
        atomic_write_bytes(path, buffer.getvalue())

    def load(self, path: Path) -> None:
        """Continue from a file written by `save`."""
        saved = torch.load(path, weights_only=True)
        self.model.load_state_dict(saved["model"])
        self.optimizer.load_state_dict(saved["optimizer"])
        self.generator.set_state(saved["generator"])
        self.step, self.tokens_trained, self.tokens_sampled = saved["counters"]
        self.history = saved["history"]


Algorithm = Callable[[TrainState], Mapping[str, float]]
Callback = Callable[[TrainState], None]


class StopTraining(Exception):
    """Raised by a callback to end training early and cleanly."""


def train(
    state: TrainState,
    algorithm: Algorithm,
    *,
    until: int | None = None,
    callbacks: Sequence[Callback] = (),
) -> TrainState:
    """Run `algorithm` until `until` steps are done (default: all), calling `callbacks` after each.

    A callback reads the last row of `state.history` and may add metrics to it. Calling `train` again
    continues where the state stands.
    """
    last = state.total_steps if until is None else min(until, state.total_steps)
    while state.step < last:
        state.model.train()
        metrics = dict(algorithm(state))
        state.model.eval()
        state.step += 1
        state.history.append({"step": state.step, **metrics})
        try:
            for callback in callbacks:
                callback(state)
        except StopTraining:
            break
    return state


def micro_batches(rows: Tensor, size: int) -> Sequence[Tensor]:
    """Row indices in pieces of at most `size`: small pieces fit the processor's cache."""
    return rows.split(size) if len(rows) else ()
