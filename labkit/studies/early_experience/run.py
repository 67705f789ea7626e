"""One run of the study: learn from experts, with or without early experience, then perhaps by RL; measure."""

from __future__ import annotations

import hashlib
import random
from dataclasses import dataclass, field, replace
from functools import lru_cache
from pathlib import Path
from typing import Any

from transformers import PreTrainedModel, PreTrainedTokenizerFast

from labkit.agents.base import base_folder
from labkit.agents.cloning import phone_tasks
from labkit.agents.early import EarlyConfig, start_early
from labkit.agents.evaluation import EvaluationSet, craft_sets, measure, outcome_accuracy, phone_sets
from labkit.agents.examples import without_thoughts
from labkit.agents.experience import branch_off
from labkit.agents.forms import WordForm
from labkit.agents.judge import EpisodeJudge
from labkit.agents.lm_policies import TinyPolicy
from labkit.agents.policies import NoisyExpert
from labkit.envs.craft.env import CraftWorld
from labkit.envs.craft.tasks import draw_task
from labkit.envs.phone.env import PhoneWorld
from labkit.envs.trajectory import Trajectory
from labkit.lm.models import load_model
from labkit.lm.sampling import SamplingConfig
from labkit.lm.training import Algorithm, Callback, OptimizerConfig, TrainState, train
from labkit.rl.config import RLConfig
from labkit.rl.trainer import Prompts, policy_gradient_algorithm
from labkit.study import Rows, RunContext

CHECKPOINT_EVERY = 50
LONGEST_RATIONALE = 64
"""Tokens of a rationale and an action, at the most."""
LONGEST_ACTION = 8
"""Tokens of an action without one."""
CRAFT_TRAINING_SEEDS = 400_000
"""CraftWorld's training tasks are drawn by seeds below this; those measured on lie above."""
PREDICTION_SEED = 7
"""Seed of the branches on which next-observation prediction is measured."""


@dataclass(frozen=True)
class RLStage:
    """GRPO on whole episodes, paid by the world."""

    steps: int
    """Rollout batches."""
    max_steps: int
    """Budget of an episode in training, in actions."""
    learning_rate: float = 1e-4
    """Constant learning rate."""
    algorithm: RLConfig = field(default_factory=RLConfig)
    """The algorithm; turns and the longest completion are set by `max_steps` and the policy."""
    evaluate_at: tuple[int, ...] = ()
    """Steps at which to measure, besides the end."""


@dataclass(frozen=True)
class RunConfig:
    """An arm of the study."""

    early: EarlyConfig
    """How it learns from experts."""
    rl: RLStage | None = None
    """What comes after."""
    split: str = "test"
    """Tasks measured on: `test`, or `validation` while settings are chosen."""
    most: int = 60
    """Tasks in each set at the most."""


def evaluation_sets(config: RunConfig) -> tuple[EvaluationSet, ...]:
    """The sets of a run's world."""
    return {"phone": phone_sets, "craft": craft_sets}[config.early.world](config.split, config.most)


@lru_cache(maxsize=None)
def unseen_triples(world: str, number: int = 20) -> tuple[Trajectory, ...]:
    """What actions lead to in episodes of validation tasks: no arm learns from any of them."""
    found = {"phone": phone_sets, "craft": craft_sets}[world]("validation", number)[0]
    shown = [without_thoughts(trajectory) for trajectory in found.play(NoisyExpert(0.0))]
    return tuple(triple for b in branch_off(shown, 2, PREDICTION_SEED) for triple in b.outcomes)


def policy_of(model: PreTrainedModel, tokenizer: PreTrainedTokenizerFast, early: EarlyConfig) -> TinyPolicy:
    """The policy that an arm is measured by: greedy, with a rationale first where it learned to write one."""
    sampling = SamplingConfig(LONGEST_RATIONALE, greedy=True)
    return TinyPolicy(model, tokenizer, sampling=sampling, thoughts=early.thinks)


def start_rl(
    model: PreTrainedModel,
    tokenizer: PreTrainedTokenizerFast,
    early: EarlyConfig,
    stage: RLStage,
    seed: int,
) -> tuple[TrainState, Algorithm]:
    """State and algorithm of the RL stage, from `model` as it is now."""
    form = WordForm(tokenizer)
    algorithm = replace(
        stage.algorithm,
        max_turns=stage.max_steps,
        max_new_tokens=LONGEST_RATIONALE if early.thinks else LONGEST_ACTION,
    )
    make_world = {"phone": PhoneWorld, "craft": CraftWorld}[early.world]

    def next_prompts(state: TrainState) -> Prompts:
        rng = state.python_random()
        tasks = [draw_training_task(early.world, rng) for _ in range(algorithm.prompts_per_step)]
        judge = EpisodeJudge(
            lambda: make_world(max_steps=stage.max_steps), tasks, form, algorithm.group_size, early.thinks
        )
        return judge.prompts, judge

    state = TrainState.start(model, OptimizerConfig(stage.learning_rate), stage.steps, seed)
    return state, policy_gradient_algorithm(algorithm, next_prompts)


def draw_training_task(world: str, rng: random.Random) -> Any:
    """A task that may be demonstrated, and so may be trained on."""
    if world == "phone":
        return rng.choice(phone_tasks("demonstrations"))
    return draw_task("train", rng.randrange(CRAFT_TRAINING_SEEDS))


def run(config: RunConfig, context: RunContext) -> Rows:
    """A row for each set of tasks, after learning from experts and at each evaluation of RL."""
    early, rl = config.early, config.rl
    model, tokenizer = load_model(base_folder())
    sets = evaluation_sets(config)
    policy = policy_of(model, tokenizer, early)
    share = 1.0 if rl is None else cost(replace(config, rl=None)) / cost(config)

    def measured(state: TrainState, stage: str) -> Rows:
        row = {"step": state.step, "stage": stage, "tokens": state.tokens_trained}
        return [{**row, **found} for found in measure(policy, sets, context.seed)]

    path = context.folder / f"early-{_digest(early)}-{context.seed}.pt"
    triples = unseen_triples(early.world, config.most // 3)

    def predicted() -> float:
        return outcome_accuracy(model, WordForm(tokenizer), triples)

    def predict(state: TrainState) -> None:
        if early.method.startswith("iwm") and state.step == early.world_model_updates:
            state.history[-1]["predicted"] = predicted()

    state, algorithm = start_early(model, tokenizer, early, context.seed)
    _resume(state, path)
    train(state, algorithm, callbacks=[predict, _saving(path), _reporting(context, 0.0, share * 0.9)])
    before = next((found["predicted"] for found in state.history if "predicted" in found), float("nan"))
    found = {"predicted before imitation": before, "predicted": predicted()}
    rows = [{**row, **found} for row in measured(state, "experts")]
    if rl is None:
        return rows
    path = context.folder / f"early-rl-{_digest(config)}-{context.seed}.pt"
    state, algorithm = start_rl(model, tokenizer, early, rl, context.seed)
    _resume(state, path)

    def evaluate(state: TrainState) -> None:
        if state.step in rl.evaluate_at or state.step == rl.steps:
            state.history[-1]["measured"] = measured(state, "rl")

    train(state, algorithm, callbacks=[evaluate, _saving(path), _reporting(context, share, 1 - share)])
    return rows + [row for found in state.history for row in found.get("measured", [])]


def _resume(state: TrainState, path: Path) -> None:
    if path.exists():
        state.load(path)


def _saving(path: Path) -> Callback:
    def callback(state: TrainState) -> None:
        if state.step % CHECKPOINT_EVERY == 0 or state.step == state.total_steps:
            state.save(path)

    return callback


def _reporting(context: RunContext, start: float, share: float) -> Callback:
    return lambda state: context.report(start + share * state.step / state.total_steps)


def _digest(config: Any) -> str:
    return hashlib.sha256(repr(config).encode()).hexdigest()[:16]


def cost(config: RunConfig) -> float:
    """Rough seconds of a run on one core, for the time left."""
    early = config.early
    seconds = early.updates * 0.25 + config.most * (1.5 if early.thinks else 0.5)
    if early.method.startswith("iwm"):
        seconds += early.world_model_updates * 0.5
    if config.rl is not None:
        seconds += config.rl.steps * (12 if early.thinks else 4)
    return seconds
