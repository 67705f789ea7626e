"""The arms of the knowledge study at each profile: one thing changed at a time."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from labkit.knowledge.answering import AnswerConfig
from labkit.knowledge.categories import CATEGORIES, CategoryConfig
from labkit.studies.knowledge.run import NATURAL, BaseConfig, FineTuning, RunConfig
from labkit.studies.knowledge.twin import twin_config

BASE = "base"
SHARES = (0, 25, 50, 75, 100)
"""Percent Unknown."""
FILTERED = (25, 50, 75)
"""Percent Unknown, of sets from which they are then left out."""
REFUSING, SHUFFLED = "refuse-50", "shuffled-50"
SINGLES = (*map(str, CATEGORIES), NATURAL)

TUNING = FineTuning()
"""As chosen on validation facts (knowledge-tuning)."""
SINGLE_SIZE, SINGLE_EPOCHS = 36, 60
"""Facts of one category, no more than every seed has of the rarest; and epochs, of fewer updates each."""


def share_arm(percent: int) -> str:
    """Name of the arm with so many percent Unknown."""
    return f"share-{percent}"


def filtered_arm(percent: int) -> str:
    """Name of the arm without the Unknown facts of `share_arm(percent)`."""
    return f"known-only-{percent}"


def single_arm(category: str) -> str:
    """Name of the arm that is fine-tuned on one category, or on the natural mix."""
    return f"only-{category}"


def arms(profile: str) -> Mapping[str, RunConfig | BaseConfig]:
    """Configuration of each arm; smoke and workshop differ from full in size alone."""
    twin = twin_config(profile)
    smoke = profile == "smoke"
    asking = CategoryConfig(prompts=3, answers=AnswerConfig(samples=4)) if smoke else CategoryConfig()
    size, epochs = {"full": (160, 30), "workshop": (160, 15), "smoke": (8, 3)}[profile]
    single_size = 2 if smoke else SINGLE_SIZE
    single_epochs = 3 if smoke else SINGLE_EPOCHS

    def config(**changes) -> RunConfig:
        tuning = {"size": size, "epochs": epochs} | changes
        return RunConfig(twin, replace(TUNING, **tuning), asking)

    configs: dict[str, RunConfig | BaseConfig] = {BASE: BaseConfig(twin, asking)}
    configs |= {share_arm(p): config(unknown_share=p / 100) for p in SHARES}
    configs |= {filtered_arm(p): config(unknown_share=p / 100, known_only=True) for p in FILTERED}
    configs[REFUSING] = config(refuse_unknown=True)
    configs[SHUFFLED] = config(shuffle_answers=True)
    return configs | {
        single_arm(c): config(category=c, size=single_size, epochs=single_epochs) for c in SINGLES
    }
