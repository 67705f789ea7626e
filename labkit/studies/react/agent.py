"""The committed agent: it thinks and acts in PhoneWorld, and succeeds on a part of its tasks only.

Early experience and Agent-R start from it. `python -m labkit run react-agent --profile full` remakes it: it
is the policy of the study's arm `both`, seed 0 (about a minute on one core).
"""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path

from labkit.agents.cloning import CloningConfig
from labkit.agents.lm_policies import TinyPolicy
from labkit.files import atomic_write_text, cache_dir, repo_root
from labkit.lm.models import load_model, num_parameters
from labkit.studies.react.arms import BOTH, arms
from labkit.studies.react.run import clone

SEED = 0


def agent_folder() -> Path:
    """Where the committed agent lies."""
    return repo_root() / "figures" / "react" / "agent"


def load_agent(name: str = "tiny agent") -> TinyPolicy:
    """The committed agent as a policy."""
    model, tokenizer = load_model(agent_folder())
    return TinyPolicy(model, tokenizer, CloningConfig().history, thoughts=True, name=name)


def make_agent(profile: str, folder: Path) -> None:
    """Train it and write model, tokenizer and `agent.json` (command, settings, loss) to `folder`."""
    config = arms(profile)[BOTH].cloning
    state, policy = clone(config, SEED, progress=True)
    policy.model.save_pretrained(folder)
    policy.form.tokenizer.save_pretrained(folder)
    record = {
        "command": "python -m labkit run react-agent --profile full",
        "parameters": num_parameters(policy.model),
        "seed": SEED,
        "config": asdict(config),
        "loss": [row["loss"] for row in state.history],
    }
    atomic_write_text(folder / "agent.json", json.dumps(record, indent=1) + "\n")


def main(profile: str) -> None:
    """What `python -m labkit run react-agent` does: at `full`, remake the committed agent in place."""
    folder = agent_folder() if profile == "full" else cache_dir() / f"react-agent-{profile}"
    make_agent(profile, folder)
    print(f"agent written to {folder}")
