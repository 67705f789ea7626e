"""The models that the knowledge study fine-tunes: they have read about a world made to order.

`python -m labkit run knowledge-base --profile full` remakes the committed one, of seed 0 (a minute).
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path

from transformers import PreTrainedModel

from labkit.files import atomic_write_text, cache_dir, repo_root
from labkit.knowledge.categories import CategoryConfig, Knowledge, categorise
from labkit.knowledge.facts import Fact
from labkit.knowledge.synthetic import ATTRIBUTES, FORM, Dose, TwinConfig, World, draw_world, passage_batch
from labkit.lm.models import TinyConfig, load_model, num_parameters, tiny_model
from labkit.lm.sft import sft_algorithm
from labkit.lm.training import OptimizerConfig, TrainState, train

HELD_OUT_RELATION = ATTRIBUTES[-1].name
"""Never trained on in fine-tuning: its facts are the out-of-distribution set."""
CHECKPOINT_EVERY = 100
TWIN = TwinConfig(
    people=480,
    doses=(
        Dose("often", 0.24, 1.0),
        Dose("sometimes", 0.20, 0.06),
        Dose("seldom", 0.28, 0.035),
        Dose("once", 0.03, 0.004),
        Dose("never", 0.25, 0.0),
    ),
    steps=600,
)
"""Doses such that every category has facts enough; chosen in one world, seed 100, by categories alone."""
SMOKE_TWIN = TwinConfig(
    people=60,
    exemplar_people=6,
    answer_words=12,
    model=TinyConfig(layers=2, width=64, mlp_width=128, max_positions=96, init_std=0.125),
    optimizer=OptimizerConfig(learning_rate=5e-3, warmup_steps=10, schedule="cosine"),
    steps=120,
    batch_passages=16,
)


def twin_config(profile: str) -> TwinConfig:
    """World and pretraining of a profile; ValueError if there is no such profile."""
    sizes = {"full": TWIN, "workshop": TWIN, "smoke": SMOKE_TWIN}
    if profile not in sizes:
        raise ValueError(f"profile {profile!r} is not one of {', '.join(sizes)}")
    return sizes[profile]


PARTS = ("train", "validation", "test", "out-of-distribution")
"""Uses of a world's facts. The first three share no person; the last is about the people of the test."""


def split_world(world: World) -> dict[str, tuple[Fact, ...]]:
    """The facts of each part: those to fine-tune on, those that settings and the epoch to stop at are chosen
    on, those reported, and those of the relation that is not trained on.

    Held-out people are dealt to validation and test in turn.
    """
    people = list(dict.fromkeys(fact.subject for fact in world.test))
    validation = set(people[::2])
    test = [fact for fact in world.test if fact.subject not in validation]
    facts = (
        [fact for fact in world.train if fact.relation != HELD_OUT_RELATION],
        [f for f in world.test if f.subject in validation and f.relation != HELD_OUT_RELATION],
        [fact for fact in test if fact.relation != HELD_OUT_RELATION],
        [fact for fact in test if fact.relation == HELD_OUT_RELATION],
    )
    return dict(zip(PARTS, map(tuple, facts), strict=True))


def pretrain(
    config: TwinConfig, folder: Path | None = None, report: Callable[[float], None] = lambda share: None
) -> tuple[World, PreTrainedModel, TrainState]:
    """A world and the model that has read about it; goes on from what an interrupted call left in `folder`.

    `report` is called with the share that is done.
    """
    world = draw_world(config)
    model = tiny_model(config.model, world.tokenizer, config.seed)
    state = TrainState.start(model, config.optimizer, config.steps, config.seed)
    path = None if folder is None else folder / f"twin-{_digest(config)}.pt"
    if path is not None and path.exists():
        state.load(path)

    def after(state: TrainState) -> None:
        if path is not None and (state.step % CHECKPOINT_EVERY == 0 or state.step == state.total_steps):
            state.save(path)
        report(state.step / state.total_steps)

    train(state, sft_algorithm(passage_batch(world)), callbacks=[after])
    return world, model.eval(), state


def _digest(config: TwinConfig) -> str:
    return hashlib.sha256(repr(config).encode()).hexdigest()[:16]


def ask(
    world: World,
    model: PreTrainedModel,
    config: CategoryConfig,
    folder: Path | None = None,
    progress: bool = False,
) -> dict[str, list[Knowledge]]:
    """What the model knows of the facts of each part, asked in the form of its text."""
    return {
        name: categorise(
            model, world.tokenizer, facts, world.exemplars, config, FORM, folder=folder, progress=progress
        )
        for name, facts in split_world(world).items()
    }


def twin_folder() -> Path:
    """Where the committed twin lies."""
    return repo_root() / "figures" / "knowledge" / "twin"


def load_twin() -> tuple[World, PreTrainedModel]:
    """The committed twin and its world, of seed 0 of the study."""
    model, _ = load_model(twin_folder())
    return draw_world(TWIN), model


def make_twin(config: TwinConfig, folder: Path) -> None:
    """Pretrain; write model, tokenizer and `twin.json` (command, settings, loss) to `folder`."""
    world, model, state = pretrain(config)
    model.save_pretrained(folder)
    world.tokenizer.save_pretrained(folder)
    record = {
        "command": "python -m labkit run knowledge-base --profile full",
        "parameters": num_parameters(model),
        "config": asdict(config),
        "loss": [row["loss"] for row in state.history],
    }
    atomic_write_text(folder / "twin.json", json.dumps(record, indent=1) + "\n")


def main(profile: str) -> None:
    """What `python -m labkit run knowledge-base` does: at `full`, remake the committed twin in place."""
    folder = twin_folder() if profile == "full" else cache_dir() / f"knowledge-twin-{profile}"
    make_twin(twin_config(profile), folder)
    print(f"twin written to {folder}")
