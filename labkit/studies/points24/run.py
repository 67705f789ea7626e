"""One run of the 24-point study: stages of SFT and RL from the base, measured on the way."""

from __future__ import annotations

import copy
import hashlib
import random
from dataclasses import dataclass, field, replace
from pathlib import Path

from transformers import PreTrainedModel

from labkit.envs.points24.data import demonstration, random_rule, shuffled, split_hands, writable
from labkit.envs.points24.grading import BINARY_REWARDS, PAPER_REWARDS
from labkit.envs.points24.play import Codec, compact_judge
from labkit.envs.points24.rules import Rule
from labkit.lm.models import load_model, num_parameters
from labkit.lm.sft import Batch, collate, sft_algorithm
from labkit.lm.training import Algorithm, Callback, OptimizerConfig, TrainState, train
from labkit.rl.config import RLConfig
from labkit.rl.critic import attach_critic
from labkit.rl.reference import Reference
from labkit.rl.trainer import Prompts, policy_gradient_algorithm
from labkit.studies.points24.base import base_folder
from labkit.studies.points24.evaluate import EvaluationSet, evaluate, evaluation_sets
from labkit.study import Rows, RunContext

REWARDS = {"paper": PAPER_REWARDS, "binary": BINARY_REWARDS}
CHECKPOINT_EVERY = 50
STUDY_VERSION = 1
"""Raised when the code changes what a run measures; part of every cached result's name."""


@dataclass(frozen=True)
class SFTStage:
    """Supervised fine-tuning on solved hands."""

    steps: int
    """Updates."""
    learning_rate: float
    """Constant learning rate."""
    batch_size: int = 64
    """Sequences an update."""
    num_hands: int | None = None
    """Training hands to draw from; None takes all that can be solved."""
    varied_rules: bool = False
    """Draw the face cards' values for each sequence (never the test rule) instead of one rule."""


@dataclass(frozen=True)
class RLStage:
    """Policy-gradient training from the verifier's reward."""

    steps: int
    """Rollout batches."""
    learning_rate: float
    """Constant learning rate."""
    algorithm: RLConfig = field(default_factory=RLConfig)
    """The algorithm; GRPO by default."""
    rewards: str = "binary"
    """Reward table: `binary` or `paper`."""
    critic_rate: float = 10.0
    """A critic's learning rate in multiples of the policy's: its head starts from nothing."""


Stage = SFTStage | RLStage


@dataclass(frozen=True)
class RunConfig:
    """An arm of the study."""

    train_rule: Rule
    """The rule of the training hands."""
    test_rule: Rule
    """The rule of the out-of-distribution hands."""
    stages: tuple[Stage, ...]
    """What is done to the base, in order."""
    evaluate_at: tuple[int, ...] = ()
    """Steps (counted over all stages) at which to measure, besides 0 and the end of each stage."""
    base: str = "two-rules"
    """The base to start from: it reads the study's `two-rules`, or `many-rules`."""
    max_turns: int = 1
    """Attempts a hand gets when measured."""
    split: str = "test"
    """Hands measured on: `test`, or `validation` while settings are chosen."""
    max_hands: int = 1000
    """At most this many hands in each evaluation set."""
    every_step: bool = False
    """Keep a row of training metrics for each step, besides those of evaluations."""


def training_hands(config: RunConfig, num_hands: int | None = None) -> list[tuple[int, ...]]:
    """The training hands with a compact solution under the training rule, or the first `num_hands`."""
    hands = writable(split_hands().train, config.train_rule)
    if num_hands is not None and num_hands > len(hands):
        raise ValueError(f"{num_hands} hands asked for, but only {len(hands)} training hands can be solved")
    return hands[:num_hands]


def _sft(config: RunConfig, stage: SFTStage, codec: Codec) -> Algorithm:
    hands = training_hands(config, stage.num_hands)

    def rule_of(hand: tuple[int, ...], rng: random.Random) -> Rule:
        while stage.varied_rules:
            rule = random_rule(rng)
            if rule != config.test_rule and writable([hand], rule):
                return rule
        return config.train_rule

    def next_batch(state: TrainState) -> Batch:
        rng = state.python_random()
        drawn = [rng.choice(hands) for _ in range(stage.batch_size)]
        examples = [demonstration(hand, rule_of(hand, rng), rng) for hand in drawn]
        return collate([(codec.encode(e.tokens), e.keep) for e in examples], pad_id=0)

    return sft_algorithm(next_batch)


def _rl(config: RunConfig, stage: RLStage, codec: Codec, reference: Reference | None) -> Algorithm:
    hands = training_hands(config)

    def next_prompts(state: TrainState) -> Prompts:
        rng = state.python_random()
        drawn = [shuffled(rng.choice(hands), rng) for _ in range(stage.algorithm.prompts_per_step)]
        judge = compact_judge(
            codec, drawn, config.train_rule, REWARDS[stage.rewards], stage.algorithm.group_size
        )
        return codec.prompts(drawn, config.train_rule), judge

    return policy_gradient_algorithm(stage.algorithm, next_prompts, reference)


def start_stage(
    config: RunConfig, stage: Stage, model: PreTrainedModel, codec: Codec, seed: int
) -> tuple[TrainState, Algorithm]:
    """State and algorithm of a stage that starts from `model` as it is now.

    The reference of a KL penalty is the policy that the stage starts from.
    """
    optimizer = OptimizerConfig(stage.learning_rate)
    if isinstance(stage, SFTStage):
        return TrainState.start(model, optimizer, stage.steps, seed), _sft(config, stage, codec)
    reference, factors = Reference(model) if stage.algorithm.kl_coef else None, {}
    if stage.algorithm.critic:
        attach_critic(model, stage.algorithm.critic)
        factors = {"critic.": stage.critic_rate}
    state = TrainState.start(model, optimizer, stage.steps, seed, factors)
    return state, _rl(config, stage, codec, reference)


def run(config: RunConfig, context: RunContext) -> Rows:
    """Train through all stages; a row of metrics at each evaluation."""
    model, tokenizer = load_model(base_folder(config.base))
    base = copy.deepcopy(model).requires_grad_(False)
    codec = Codec(tokenizer)
    sets = evaluation_sets(config.split, config.train_rule, config.test_rule, config.max_hands)
    total, parameters = sum(stage.steps for stage in config.stages), num_parameters(model)
    rows: Rows = [_measure(model, base, codec, sets, config) | {"step": 0, "stage": 0, "compute": 0.0}]
    done_steps, compute = 0, 0.0
    for number, stage in enumerate(config.stages):
        state, algorithm = start_stage(config, stage, model, codec, context.seed + 1000 * number)
        checkpoint = _stage_checkpoint(config, number, context)
        if checkpoint.exists():
            state.load(checkpoint)
        offset = done_steps
        callbacks: list[Callback] = [
            _evaluation(config, base, codec, sets, offset),
            lambda state, offset=offset: context.report((offset + state.step) / total),
            _checkpoints(checkpoint),
        ]
        train(state, algorithm, callbacks=callbacks)
        for row in state.history:
            if config.every_step or "id_accuracy" in row:
                spent = compute + parameters * row["parameter_passes"]
                rows.append({**row, "step": offset + row["step"], "stage": number, "compute": spent})
        done_steps += stage.steps
        compute += state.compute(parameters)
    return rows


def _stage_checkpoint(config: RunConfig, number: int, context: RunContext) -> Path:
    """Where stage `number` keeps its state: arms that begin alike share it, and train it once."""
    shared = replace(config, stages=config.stages[: number + 1])
    digest = hashlib.sha256(f"{STUDY_VERSION} {shared!r} {context.seed}".encode()).hexdigest()[:16]
    return context.folder / f"stage-{digest}.pt"


def _measure(
    model: PreTrainedModel,
    base: PreTrainedModel,
    codec: Codec,
    sets: tuple[EvaluationSet, ...],
    config: RunConfig,
) -> dict[str, float]:
    return evaluate(model, base, codec, sets, max_turns=config.max_turns)


def _evaluation(
    config: RunConfig,
    base: PreTrainedModel,
    codec: Codec,
    sets: tuple[EvaluationSet, ...],
    offset: int,
) -> Callback:
    def callback(state: TrainState) -> None:
        state.history[-1]["parameter_passes"] = state.compute(1)
        if offset + state.step in config.evaluate_at or state.step == state.total_steps:
            state.history[-1] |= _measure(state.model, base, codec, sets, config)

    return callback


def _checkpoints(path: Path) -> Callback:
    def callback(state: TrainState) -> None:
        if state.step % CHECKPOINT_EVERY == 0 or state.step == state.total_steps:
            state.save(path)

    return callback


def cost(config: RunConfig) -> float:
    """Rough seconds of a run on one core, for the time left."""
    seconds = 2.0 * len(config.evaluate_at)
    for stage in config.stages:
        if isinstance(stage, SFTStage):
            seconds += stage.steps * stage.batch_size * 0.005
        else:
            algorithm = stage.algorithm
            rows = algorithm.prompts_per_step * algorithm.group_size
            seconds += stage.steps * rows * 0.0025 * algorithm.max_turns**0.8 * (1 + algorithm.epochs)
    return seconds
