"""The base checkpoint of the tiny agents: it reads both worlds. How well, its reading test says.

`python -m labkit run react-base --profile full` remakes it (about 15 minutes on one core).
"""

from __future__ import annotations

import math
import random
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from transformers import PreTrainedModel, PreTrainedTokenizerFast

from labkit.agents.reading import LONGEST_ANSWER, TEST_PHONES, Question, Scene, draw_scene, prompt, sequence
from labkit.agents.words import tokenizer as agent_tokenizer
from labkit.files import cache_dir, repo_root
from labkit.lm.bases import train_base
from labkit.lm.models import TinyConfig
from labkit.lm.sampling import SamplingConfig, sample
from labkit.lm.sft import Batch, collate
from labkit.lm.training import OptimizerConfig, TrainState

POOL = 4
"""Batches' worth of sequences among which one of like lengths is drawn."""


@dataclass(frozen=True)
class ReactBaseConfig:
    """How the base is trained."""

    model: TinyConfig = field(default_factory=lambda: TinyConfig(max_positions=1024, init_std=0.06))
    """Shape of the network."""
    optimizer: OptimizerConfig = field(
        default_factory=lambda: OptimizerConfig(
            learning_rate=2e-3, schedule="cosine", warmup_steps=50, weight_decay=0.01
        )
    )
    """Optimiser and schedule."""
    steps: int = 1600
    """Updates."""
    batch_size: int = 32
    """Sequences an update."""
    length: int = 160
    """Words that a sequence is filled up to with questions."""
    first_longest: int = 48
    """Words of the longest scene (questions not counted) in the first step."""
    last_longest: int = 160
    """The limit rises evenly to this by the middle of training; from then on there is none."""
    first_craft_share: float = 0.1
    """Share of CraftWorld's scenes in the first step; rises evenly to a half by the middle."""
    test_questions: int = 100
    """Questions of each kind in the reading test."""
    seed: int = 0
    """Seed of weights and data."""


def base_folder() -> Path:
    """Where the committed base lies."""
    return repo_root() / "figures" / "react" / "base-reading"


def lesson(step: int, config: ReactBaseConfig) -> dict[str, float]:
    """What scenes step `step` (from 0) draws, as arguments of `draw_scene`: from easy to all there is.

    In short scenes of the phone, where names come again at each step, a model learns soonest to look
    things up; books need that and more.
    """
    progress = 2 * step / config.steps
    if progress >= 1:
        return {"longest": math.inf, "craft_share": 0.5}
    return {
        "longest": config.first_longest + progress * (config.last_longest - config.first_longest),
        "craft_share": config.first_craft_share + progress * (0.5 - config.first_craft_share),
    }


def next_batch(state: TrainState, config: ReactBaseConfig, tokenizer: PreTrainedTokenizerFast) -> Batch:
    """A batch of fresh reading sequences, drawn from the state's generator."""
    rng, ids = state.python_random(), tokenizer.get_vocab()
    scenes = lesson(state.step, config)
    # Neighbours in length make up a batch: a third of it would be padding otherwise.
    rows = [sequence(draw_scene(rng, **scenes), config.length) for _ in range(POOL * config.batch_size)]
    rows.sort(key=lambda row: len(row[0]))
    start = rng.randrange(POOL) * config.batch_size
    rows = rows[start : start + config.batch_size]
    return collate([([ids[word] for word in words], keep) for words, keep in rows], tokenizer.pad_token_id)


def reading_test(per_kind: int, seed: int = 0) -> list[tuple[Scene, Question]]:
    """`per_kind` questions of each kind, one a scene and kind, on phones and books of the test's own."""
    rng = random.Random(f"reading test {seed}")
    found: dict[str, list[tuple[Scene, Question]]] = defaultdict(list)
    misses = 0
    # Kinds are not listed anywhere: enough scenes in a row that bring none that is wanted end the search.
    while misses < 200:
        scene = draw_scene(rng, TEST_PHONES)
        first = {question.kind: question for question in reversed(scene.questions)}
        wanted = [question for kind, question in first.items() if len(found[kind]) < per_kind]
        for question in wanted:
            found[question.kind].append((scene, question))
        misses = 0 if wanted else misses + 1
    return [item for kind in sorted(found) for item in found[kind]]


def reading_accuracy(
    model: PreTrainedModel,
    tokenizer: PreTrainedTokenizerFast,
    items: Sequence[tuple[Scene, Question]],
    batch_size: int = 64,
) -> dict[str, float]:
    """Share of answers that are right to the word, by kind of question, decoded greedily."""
    ids = tokenizer.get_vocab()
    config = SamplingConfig(LONGEST_ANSWER + 1, greedy=True)
    right: dict[str, list[bool]] = {question.kind: [] for _, question in items}
    # Prompts of like length together: less padding.
    ordered = sorted(items, key=lambda item: len(item[0].words))
    for start in range(0, len(ordered), batch_size):
        part = ordered[start : start + batch_size]
        prompts = [[ids[word] for word in prompt(scene, question)] for scene, question in part]
        for (_, question), written in zip(part, sample(model, prompts, config).completions(), strict=True):
            answer = [*(ids[word] for word in question.answer.split()), tokenizer.eos_token_id]
            right[question.kind].append(written == answer)
    return {kind: sum(found) / len(found) for kind, found in right.items()}


def make_base(config: ReactBaseConfig, folder: Path, checkpoint: Path | None = None) -> dict[str, float]:
    """Train the base and write it to `folder`; resumes from `checkpoint`. Returns its reading accuracy."""
    tokenizer = agent_tokenizer()
    record = train_base(
        config,
        tokenizer,
        lambda state: next_batch(state, config, tokenizer),
        folder,
        title="react-base",
        command="python -m labkit run react-base --profile full",
        checkpoint=checkpoint,
        measure=lambda model: {
            "reading_accuracy": reading_accuracy(model, tokenizer, reading_test(config.test_questions))
        },
    )
    return record["reading_accuracy"]


def main(profile: str) -> None:
    """What `python -m labkit run react-base` does: at `full`, remake the committed base in place.

    Other profiles train a few steps into the cache, to see that it runs.
    """
    if profile == "full":
        config, folder = ReactBaseConfig(), base_folder()
    else:
        config = ReactBaseConfig(steps=4, batch_size=4, test_questions=2)
        folder = cache_dir() / "react-base"
    accuracy = make_base(config, folder, cache_dir() / "unfinished" / f"react-base-{profile}.pt")
    for kind, share in accuracy.items():
        print(f"{kind:15} {share:.3f}")
    print(f"base written to {folder}")
