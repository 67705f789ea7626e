"""Behaviour cloning: a model learns to write what an expert thought and did."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import lru_cache

from transformers import PreTrainedModel, PreTrainedTokenizerFast

from labkit.agents.examples import Example, examples, without_thoughts
from labkit.agents.forms import WordForm
from labkit.agents.history import History
from labkit.agents.policies import NoisyExpert
from labkit.agents.react import play
from labkit.agents.thoughts import expert_thought
from labkit.envs.craft.env import CraftWorld
from labkit.envs.craft.tasks import draw_task
from labkit.envs.phone.env import PhoneWorld
from labkit.envs.phone.goals import Task, load_tasks
from labkit.envs.trajectory import Trajectory
from labkit.lm.sft import Batch, collate, sft_algorithm
from labkit.lm.training import Algorithm, OptimizerConfig, TrainState

PHONE_STEPS, CRAFT_STEPS = 24, 20
"""Budgets of an episode. The longest shortest plans have 14 and 16 actions."""
PHONE_PARTS = {"demonstrations": 95, "validation": 40, "test": 60}
"""Tasks of the known phone by their use; 195 in all. What is demonstrated is never measured."""


@dataclass(frozen=True)
class CloningConfig:
    """Whom a policy learns from, what it is shown, and how long it learns."""

    history: History = field(default_factory=History)
    """What of h_t it is shown, in training as later."""
    thoughts: bool = True
    """Whether it thinks before it acts."""
    phone_demonstrations: int = 40
    """Expert episodes in PhoneWorld, each of another task of the known phone."""
    craft_demonstrations: int = 0
    """Expert episodes in CraftWorld, each with a book of its own. None by default: the base reads recipe
    books too badly (its reading test) for forty episodes to teach crafting."""
    updates: int = 200
    """Updates."""
    steps_per_update: int = 36
    """Steps of episodes whose thoughts and actions an update trains on, at least; as many of each world.
    The same number whether an episode is one sequence or each step is."""
    optimizer: OptimizerConfig = field(
        default_factory=lambda: OptimizerConfig(learning_rate=1e-3, schedule="cosine", warmup_steps=10)
    )
    """Optimiser and schedule."""


@lru_cache(maxsize=None)
def phone_tasks(part: str) -> tuple[Task, ...]:
    """Tasks of the known phone for `demonstrations`, `validation` or `test`; ValueError for another part."""
    if part not in PHONE_PARTS:
        raise ValueError(f"part {part!r} is not one of {', '.join(PHONE_PARTS)}")
    tasks = list(load_tasks("known_phone"))
    random.Random("react phone tasks").shuffle(tasks)
    start = 0
    for name, size in PHONE_PARTS.items():
        if name == part:
            return tuple(tasks[start : start + size])
        start += size
    raise AssertionError("unreachable")


def phone_demonstrations(number: int, seed: int) -> list[Trajectory]:
    """Expert episodes with thoughts, each of another task drawn from those kept for demonstrations."""
    pool = phone_tasks("demonstrations")
    if not 0 <= number <= len(pool):
        raise ValueError(f"{number} demonstrations asked for; there are tasks for 0 to {len(pool)}")
    tasks = random.Random(f"phone demonstrations {seed}").sample(pool, number)
    worlds = [PhoneWorld(max_steps=PHONE_STEPS) for _ in tasks]
    return play(worlds, NoisyExpert(0.0, expert_thought), tasks)


def craft_demonstrations(number: int, seed: int) -> list[Trajectory]:
    """Expert episodes with thoughts, of tasks drawn from the training split."""
    tasks = [draw_task("train", 10_000 * (seed + 1) + i) for i in range(number)]
    worlds = [CraftWorld(max_steps=CRAFT_STEPS) for _ in tasks]
    return play(worlds, NoisyExpert(0.0, expert_thought), tasks)


def demonstrations(config: CloningConfig, seed: int) -> tuple[list[Trajectory], list[Trajectory]]:
    """(episodes in PhoneWorld, episodes in CraftWorld), without thoughts for a policy that only acts."""
    both = (
        phone_demonstrations(config.phone_demonstrations, seed),
        craft_demonstrations(config.craft_demonstrations, seed),
    )
    if config.thoughts:
        return both
    return tuple([without_thoughts(trajectory) for trajectory in part] for part in both)


def num_steps(example: Example, eos_id: int) -> int:
    """Steps that an example trains on: each ends in one `<eos>` that is kept."""
    return sum(keep and token == eos_id for token, keep in zip(*example, strict=True))


def start_cloning(
    model: PreTrainedModel,
    tokenizer: PreTrainedTokenizerFast,
    config: CloningConfig,
    parts: Sequence[Sequence[Trajectory]],
    seed: int,
) -> tuple[TrainState, Algorithm]:
    """State and algorithm for `labkit.lm.training.train`: SFT on `parts`, each with an equal share of every
    update, whatever its size. Parts without an episode are left out; ValueError if all are.
    """
    form, eos = WordForm(tokenizer), tokenizer.eos_token_id
    pools = [[e for t in part for e in examples(t, form, config.history)] for part in parts]
    pools = [[(e, num_steps(e, eos)) for e in pool] for pool in pools if pool]
    if not pools:
        raise ValueError("there is no demonstration to learn from; ask for at least one")
    share = config.steps_per_update / len(pools)

    def next_batch(state: TrainState) -> Batch:
        rng, drawn = state.python_random(), []
        for pool in pools:
            steps = 0
            while steps < share:
                example, number = rng.choice(pool)
                drawn.append(example)
                steps += number
        # Of like length together, so that a micro-batch is little padded.
        drawn.sort(key=lambda example: len(example[0]))
        return collate(drawn, tokenizer.pad_token_id)

    state = TrainState.start(model, config.optimizer, config.updates, seed)
    return state, sft_algorithm(next_batch, micro_batch_size=16)
