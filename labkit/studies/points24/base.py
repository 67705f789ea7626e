"""The base checkpoints of the 24-point study: they read cards and reach whatever value.

One reads the study's two rules, the other random ones as well. `python -m labkit run points24-base
--profile full` remakes them (about 20 minutes each on one core).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from labkit.envs.points24 import compact
from labkit.envs.points24.data import base_example, many_rules, two_rules
from labkit.files import cache_dir, repo_root
from labkit.lm.bases import train_base
from labkit.lm.models import TinyConfig
from labkit.lm.sft import Batch, collate
from labkit.lm.tokenizer import word_tokenizer
from labkit.lm.training import OptimizerConfig, TrainState


@dataclass(frozen=True)
class BaseConfig:
    """How a base is trained."""

    rules: str = "two-rules"
    """Rules it reads: `two-rules` (the two of the study) or `many-rules` (random ones as well)."""

    model: TinyConfig = field(default_factory=TinyConfig)
    """Shape of the network."""
    optimizer: OptimizerConfig = field(
        default_factory=lambda: OptimizerConfig(
            learning_rate=2e-3, schedule="cosine", warmup_steps=50, weight_decay=0.01
        )
    )
    """Optimiser and schedule."""
    steps: int = 1000
    """Updates."""
    batch_size: int = 256
    """Single-attempt sequences an update."""
    revise_every: int = 4
    """Every this many updates, the batch holds sequences with failed attempts before the right one."""
    revise_batch_size: int = 48
    """Sequences in such a batch."""
    max_failed_attempts: int = 4
    """Most failed attempts in a sequence."""
    seed: int = 0
    """Seed of weights and data."""


RULES = {"two-rules": two_rules, "many-rules": many_rules}


def base_folder(rules: str = "two-rules") -> Path:
    """Where the committed base that reads `rules` lies."""
    if rules not in RULES:
        raise ValueError(f"no base {rules!r}; there are {', '.join(RULES)}")
    return repo_root() / "figures" / "points24" / f"base-{rules}"


def _next_batch(state: TrainState, config: BaseConfig, ids: dict[str, int]) -> Batch:
    rng, rule = state.python_random(), RULES[config.rules]
    if state.step % config.revise_every == config.revise_every - 1:
        examples = [
            base_example(rng, rule, rng.randint(1, config.max_failed_attempts))
            for _ in range(config.revise_batch_size)
        ]
    else:
        examples = [base_example(rng, rule) for _ in range(config.batch_size)]
    return collate([([ids[t] for t in e.tokens], e.keep) for e in examples], ids[compact.PAD])


def make_base(config: BaseConfig, folder: Path, checkpoint: Path | None = None) -> None:
    """Train a base and write model, tokenizer and config to `folder`; resumes from `checkpoint`."""
    tokenizer = word_tokenizer(compact.VOCABULARY)
    ids = tokenizer.get_vocab()
    train_base(
        config,
        tokenizer,
        lambda state: _next_batch(state, config, ids),
        folder,
        title=f"points24-base {config.rules}",
        command="python -m labkit run points24-base --profile full",
        checkpoint=checkpoint,
    )


def main(profile: str) -> None:
    """What `python -m labkit run points24-base` does: at `full`, remake the committed bases in place.

    Other profiles train a few steps into the cache, to see that it runs.
    """
    for rules in RULES:
        if profile == "full":
            config, folder = BaseConfig(rules), base_folder(rules)
        else:
            config = BaseConfig(rules, steps=4, batch_size=8, revise_batch_size=4)
            folder = cache_dir() / f"points24-base-{rules}"
        make_base(config, folder, cache_dir() / "unfinished" / f"points24-base-{rules}-{profile}.pt")
        print(f"base written to {folder}")
