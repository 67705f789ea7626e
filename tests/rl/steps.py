"""One step of policy-gradient training through its public interface, with everything that happened in it."""

from __future__ import annotations

import copy
from dataclasses import dataclass, field
from typing import Any
from unittest import mock

import torch

from labkit.lm.training import OptimizerConfig, TrainState
from labkit.rl import trainer
from labkit.rl.config import RLConfig
from labkit.rl.reference import Reference
from labkit.rl.rollout import Rollouts


@dataclass
class Step:
    rollouts: Rollouts | None = None
    state: TrainState | None = None
    """After the step."""
    weights: list[dict[str, torch.Tensor]] = field(default_factory=list)
    """Of the model before each update."""
    gradients: list[dict[str, torch.Tensor | None]] = field(default_factory=list)
    """As each update found them."""
    metrics: dict[str, float] = field(default_factory=dict)
    final_logprobs: torch.Tensor | None = None
    """Of the rollouts, after the last update."""


def one_step(
    model: Any,
    config: RLConfig,
    prompts: list[list[int]],
    judge: Any,
    *,
    reference: Any = None,
    learning_rate: float = 1e-3,
) -> Step:
    state = TrainState.start(model.train(), OptimizerConfig(learning_rate), 1, seed=0)
    step = Step(state=state)
    original_collect, original_update = trainer.collect, state.update

    def collect(*args, **more):
        step.rollouts = original_collect(*args, **more)
        return step.rollouts

    def update():
        step.weights.append(copy.deepcopy(model.state_dict()))
        step.gradients.append(
            {name: None if p.grad is None else p.grad.clone() for name, p in model.named_parameters()}
        )
        return original_update()

    state.update = update
    with mock.patch.object(trainer, "collect", collect):
        reference = None if reference is None else Reference(reference)
        algorithm = trainer.policy_gradient_algorithm(config, lambda state: (prompts, judge), reference)
        step.metrics = dict(algorithm(state))
    model.eval()
    step.final_logprobs = trainer.score_rollouts(model, step.rollouts, config)
    return step
