"""One run of the study: fine-tune a twin on chosen facts, measuring epoch by epoch; or say what it knows."""

from __future__ import annotations

import random
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

import torch
from torch import Tensor
from transformers import PreTrainedModel

from labkit.knowledge.categories import (
    CATEGORIES,
    Category,
    CategoryConfig,
    Knowledge,
    agreement,
)
from labkit.knowledge.mixing import fitted_shares, mix
from labkit.knowledge.prompts import DONT_KNOW, PromptForm, training_batch
from labkit.knowledge.synthetic import FINE_TUNING_FORM, FORM, TwinConfig, World
from labkit.lm.sft import epochs_of, sft_algorithm, would_write
from labkit.lm.training import OptimizerConfig, TrainState, train
from labkit.studies.knowledge.twin import PARTS, ask, pretrain
from labkit.study import Rows, RunContext

NATURAL = "natural"
"""In place of a category: facts drawn as they come."""


@dataclass(frozen=True)
class FineTuning:
    """What is fine-tuned on, and how."""

    size: int = 160
    """Facts, before any are left out."""
    unknown_share: float = 0.5
    """Share of them that are Unknown, 0 to 1."""
    category: str | None = None
    """All of one category instead, or `NATURAL`; `unknown_share` is then not used."""
    known_only: bool = False
    """Leave the Unknown ones out afterwards (the paper's ablation)."""
    refuse_unknown: bool = False
    """Teach "I don't know" in place of Unknown facts' answers (the paper's remedy)."""
    shuffle_answers: bool = False
    """Deal the answers of each relation among its facts: a control in which nothing taught is known."""
    epochs: int = 30
    """Epochs: enough that Unknown facts are fitted too."""
    batch_size: int = 32
    """Facts an update."""
    optimizer: OptimizerConfig = field(default_factory=lambda: OptimizerConfig(learning_rate=1e-4))
    """Optimiser and schedule."""


@dataclass(frozen=True)
class RunConfig:
    """A twin fine-tuned."""

    twin: TwinConfig
    """World and pretraining; the seed of a run replaces its seed."""
    tuning: FineTuning = field(default_factory=FineTuning)
    """What it is fine-tuned on."""
    asking: CategoryConfig = field(default_factory=CategoryConfig)
    """How facts are categorised."""
    evaluate_at: tuple[int, ...] = (*range(11), 12, 15, 20, 25, 30, 40, 50, 60)
    """Epochs after which the model is measured, those beyond the last left out."""
    parts: tuple[str, ...] = PARTS[1:]
    """Held-out facts measured on."""


@dataclass(frozen=True)
class BaseConfig:
    """A twin as pretrained: what it knows, by exposure, and whether asking again finds the same."""

    twin: TwinConfig
    """World and pretraining; the seed of a run replaces its seed."""
    asking: CategoryConfig = field(default_factory=CategoryConfig)
    """How facts are categorised; the second time with other exemplars and samples."""


def choose(found: Sequence[Knowledge], tuning: FineTuning, seed: int) -> list[Knowledge]:
    """The facts to fine-tune on, out of what is known of the training facts.

    Raises `ValueError` if there are too few of a kind or the category does not exist.
    """
    if tuning.category is None:
        return mix(found, tuning.size, tuning.unknown_share, seed, known_only=tuning.known_only)
    if tuning.category not in (NATURAL, *CATEGORIES):
        raise ValueError(
            f"category {tuning.category!r}; accepted are {', '.join(CATEGORIES)} and {NATURAL!r}"
        )
    members = [k for k in found if tuning.category in (NATURAL, str(k.category))]
    if len(members) < tuning.size:
        raise ValueError(
            f"{tuning.size} {tuning.category} facts asked for, {len(members)} there; take a smaller size"
        )
    return random.Random(f"{seed} {tuning.category}").sample(members, tuning.size)


def taught_answers(chosen: Sequence[Knowledge], tuning: FineTuning, seed: int) -> list[str]:
    """What each chosen fact's question is answered with in fine-tuning."""
    answers = [k.fact.answer for k in chosen]
    if tuning.refuse_unknown:
        pairs = zip(chosen, answers, strict=True)
        return [DONT_KNOW if k.category is Category.UNKNOWN else answer for k, answer in pairs]
    if tuning.shuffle_answers:
        places: dict[str, list[int]] = defaultdict(list)
        for place, k in enumerate(chosen):
            places[k.fact.relation].append(place)
        dealt = list(answers)
        for relation, members in places.items():
            order = random.Random(f"{seed} {relation} answers").sample(members, len(members))
            for place, other in zip(members, order, strict=True):
                dealt[place] = answers[other]
        return dealt
    return answers


def fine_tune(
    world: World,
    model: PreTrainedModel,
    chosen: Sequence[Knowledge],
    tuning: FineTuning,
    seed: int,
    after_epoch: Callable[[int, TrainState], None],
    form: PromptForm = FINE_TUNING_FORM,
) -> TrainState:
    """Fine-tune `model` in place; calls `after_epoch` with the number of epochs done, 0 before the first."""
    answers = taught_answers(chosen, tuning, seed)
    batch = training_batch(world.tokenizer, [k.fact for k in chosen], form, answers)
    next_batch, updates = epochs_of(batch, tuning.batch_size, seed)
    state = TrainState.start(model, tuning.optimizer, updates * tuning.epochs, seed)
    after_epoch(0, state)
    for epoch in range(1, tuning.epochs + 1):
        train(state, sft_algorithm(next_batch), until=epoch * updates)
        after_epoch(epoch, state)
    return state


class Measure:
    """Measures a twin on what it is fine-tuned on and on held-out facts; batches are built once."""

    def __init__(
        self,
        world: World,
        chosen: Sequence[Knowledge],
        answers: Sequence[str],
        held_out: Mapping[str, Sequence[Knowledge]],
        form: PromptForm = FINE_TUNING_FORM,
    ) -> None:
        """`answers`: what the chosen facts are taught with. `held_out`: part -> its facts."""
        self._chosen = chosen
        self._train = training_batch(world.tokenizer, [k.fact for k in chosen], form, answers)
        self._parts = {
            name: (
                found,
                training_batch(world.tokenizer, [k.fact for k in found], form),
                training_batch(world.tokenizer, [k.fact for k in found], form, [DONT_KNOW] * len(found)),
            )
            for name, found in held_out.items()
        }

    def __call__(self, model: PreTrainedModel) -> dict[str, float]:
        """Shares of the training set, of its Known and its Unknown facts that are fitted; and for each part
        the accuracy, the share answered (not refused), and both by category."""
        right = would_write(model, self._train)
        categories = [k.category for k in self._chosen]
        fitted_known, fitted_unknown = fitted_shares(right.tolist(), categories)
        unknown = torch.tensor([c is Category.UNKNOWN for c in categories])
        row = {
            "fitted_known": fitted_known,
            "fitted_unknown": fitted_unknown,
            "train": _share(right),
            "train_known": _share(right[~unknown]),
            "train_unknown": _share(right[unknown]),
        }
        for name, (found, asked, refused) in self._parts.items():
            correct, answered = would_write(model, asked), ~would_write(model, refused)
            row |= {name: _share(correct), f"{name}_answered": _share(answered)}
            for category in CATEGORIES:
                members = torch.tensor([k.category is category for k in found])
                row[f"{name}_{category}"] = _share(correct[members])
                row[f"{name}_answered_{category}"] = _share(answered[members])
        return row


def _share(flags: Tensor) -> float:
    """Share of true ones; NaN for none at all."""
    return float(flags.float().mean()) if len(flags) else float("nan")


def run(config: RunConfig | BaseConfig, context: RunContext) -> Rows:
    """A row an epoch measured; for a `BaseConfig`, counts of facts (see `describe`)."""
    twin = replace(config.twin, seed=context.seed)
    world, model, state = pretrain(twin, context.folder, lambda share: context.report(0.6 * share))
    found = ask(world, model, config.asking, context.folder)
    if isinstance(config, BaseConfig):
        again = replace(
            config.asking, seed=config.asking.seed + 1, answers=replace(config.asking.answers, seed=1)
        )
        return describe(world, model, found, ask(world, model, again, context.folder), state)
    tuning = config.tuning
    chosen = choose(found["train"], tuning, context.seed)
    measure = Measure(
        world,
        chosen,
        taught_answers(chosen, tuning, context.seed),
        {name: found[name] for name in config.parts},
    )
    rows: Rows = []

    def after_epoch(epoch: int, state: TrainState) -> None:
        context.report(0.6 + 0.4 * epoch / tuning.epochs)
        if epoch in config.evaluate_at or epoch == tuning.epochs:
            loss = state.history[-1]["loss"] if state.history else float("nan")
            rows.append({"step": epoch, "updates": state.step, "loss": loss, **measure(model)})

    fine_tune(world, model, chosen, tuning, context.seed, after_epoch)
    return rows


def describe(
    world: World,
    model: PreTrainedModel,
    found: Mapping[str, Sequence[Knowledge]],
    again: Mapping[str, Sequence[Knowledge]],
    state: TrainState,
) -> Rows:
    """Counts of facts: `dose` by `category` with the mean number of times one was `stated`, and `category` by
    the `second` one found when asked again; and accuracy on the test facts in the form of the text."""
    everything = [k for part in found.values() for k in part]
    rows: Rows = []
    for dose in world.config.doses:
        members = [k for k in everything if world.doses[k.fact] == dose]
        counts = Counter(str(k.category) for k in members)
        stated = sum(world.expected_mentions(k.fact) for k in members) / max(len(members), 1)
        rows += [
            {"table": "dose", "dose": dose.name, "stated": stated, "category": str(c), "facts": counts[c]}
            for c in CATEGORIES
        ]
    kept = agreement(everything, [k for part in again.values() for k in part])
    rows += [
        {"table": "again", "category": first, "second": second, "facts": int(kept.loc[first, second])}
        for first in kept.index
        for second in kept.columns
    ]
    batch = training_batch(world.tokenizer, [k.fact for k in found["test"]], FORM)
    correct = would_write(model, batch)
    rows.append({"table": "own form", "test": _share(correct), "facts": len(correct)})
    return [{"step": 0, "pretraining_loss": state.history[-1]["loss"], **row} for row in rows]


def cost(config: RunConfig | BaseConfig) -> float:
    """Rough seconds of a run on one core, for the time left; the base is what trains its seed's twin."""
    if isinstance(config, BaseConfig):
        return 0.1 * config.twin.steps + 10
    return 1 + config.tuning.epochs * config.tuning.size * 0.001
