"""The arms of the ReAct study at each profile: one thing changed at a time."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from labkit.agents.cloning import CloningConfig
from labkit.agents.history import History
from labkit.studies.react.run import FixedConfig, RunConfig

BOTH, ACT_ONLY, THINK_ONLY = "both", "act-only", "think-only"
WINDOW, SUMMARY, NONE, FORGETFUL = "window-1", "summary", "none", "thoughts-forgotten"
EXPERT, NOISY, RANDOM = "expert", "expert-noise-0.3", "random"

CLONING = CloningConfig()
"""As chosen on validation tasks (react-tuning)."""
CHANGES: Mapping[str, dict] = {
    BOTH: {},
    ACT_ONLY: {"thoughts": False},
    THINK_ONLY: {"history": History(observations=False)},
    NONE: {"history": History("none")},
    WINDOW: {"history": History("window", window=1)},
    SUMMARY: {"history": History("summary")},
    FORGETFUL: {"history": History(thoughts=False)},
}
"""Arms that learn: `both` thinks, acts and is shown everything; the others lack one thing."""
FIXED: Mapping[str, float] = {EXPERT: 0.0, NOISY: 0.3, RANDOM: 1.0}
"""Arms that do not learn, by the share of random actions."""


def arms(profile: str) -> Mapping[str, RunConfig | FixedConfig]:
    """Configuration of each arm; smoke and workshop differ from full in size alone."""
    base = {
        "full": CLONING,
        "workshop": replace(CLONING, updates=120),
        "smoke": replace(CLONING, updates=2, steps_per_update=4, phone_demonstrations=2),
    }[profile]
    most = {"full": 60, "workshop": 20, "smoke": 2}[profile]
    configs: dict[str, RunConfig | FixedConfig] = {
        name: RunConfig(replace(base, **changes), most=most) for name, changes in CHANGES.items()
    }
    return configs | {name: FixedConfig(noise, most=most) for name, noise in FIXED.items()}
