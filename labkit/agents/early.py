"""Training with early experience: imitation, implicit world model, self-reflection, and their controls.

All start from the same reading base, see the same demonstrations and take the same number of updates
(Zhang et al. 2025, arXiv 2510.08558, sections 4.2 and 4.3).
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

from transformers import PreTrainedModel, PreTrainedTokenizerFast

from labkit.agents.cloning import craft_demonstrations, num_steps, phone_demonstrations
from labkit.agents.examples import Example, examples, outcome_example, without_thoughts
from labkit.agents.experience import Branching, Propose, branch_off
from labkit.agents.forms import WordForm
from labkit.agents.rationales import reflections, shuffled_reflections
from labkit.envs.trajectory import Trajectory
from labkit.lm.sft import Batch, collate, sft_algorithm
from labkit.lm.training import Algorithm, OptimizerConfig, TrainState

Method = Literal["imitation", "iwm", "iwm-random", "sr", "sr-shuffled"]
METHODS: tuple[Method, ...] = ("imitation", "iwm", "iwm-random", "sr", "sr-shuffled")
"""`imitation`: what the expert did. `iwm`: first what actions lead to, then imitation. `sr`: imitation mixed
with rationales. `iwm-random` and `sr-shuffled` are their failing controls: outcomes of other states."""
DEMONSTRATIONS: dict[str, Callable[[int, int], list[Trajectory]]] = {
    "phone": phone_demonstrations,
    "craft": craft_demonstrations,
}


@dataclass(frozen=True)
class EarlyConfig:
    """How a policy learns. Raises ValueError for a method or world that there is not, and for settings that
    leave a stage without an update."""

    world: Literal["phone", "craft"] = "phone"
    """PhoneWorld on the known phone, or CraftWorld."""
    method: Method = "imitation"
    """One of `METHODS`."""
    demonstrations: int = 40
    """Expert episodes, each of another task."""
    k: int = 4
    """Alternative actions at each expert state."""
    updates: int = 300
    """Updates in all, whatever the method."""
    world_model_updates: int = 100
    """Of these, how many predict next observations (`iwm` only)."""
    world_model_share: float = 0.0
    """Share of the steps in each later update that still predict next observations (`iwm` only): 0 as in the
    paper; more keeps imitation from overwriting what was learned of the world."""
    reflection_share: float = 0.5
    """Share of the steps in an update that come with a rationale (`sr` only)."""
    steps_per_update: int = 36
    """Steps of episodes that an update trains on, at least."""
    optimizer: OptimizerConfig = field(
        default_factory=lambda: OptimizerConfig(learning_rate=1e-3, schedule="cosine", warmup_steps=10)
    )
    """Optimiser and schedule."""

    def __post_init__(self) -> None:
        if self.method not in METHODS:
            raise ValueError(f"method {self.method!r} is not one of {', '.join(METHODS)}")
        if self.world not in DEMONSTRATIONS:
            raise ValueError(f"world {self.world!r} is not one of {', '.join(DEMONSTRATIONS)}")
        if self.method.startswith("iwm") and not 0 < self.world_model_updates < self.updates:
            raise ValueError(
                f"world_model_updates is {self.world_model_updates} of {self.updates} updates; at least 1 is "
                "needed, and at least 1 must be left for imitation"
            )
        if not 0 < self.reflection_share <= 1:
            raise ValueError(f"reflection_share is {self.reflection_share}; it is above 0 and at most 1")
        if not 0 <= self.world_model_share < 1:
            raise ValueError(f"world_model_share is {self.world_model_share}; it is 0 or more and below 1")

    @property
    def thinks(self) -> bool:
        """Whether the policy writes a rationale before it acts."""
        return self.method.startswith("sr")


def expert_episodes(config: EarlyConfig, seed: int) -> list[Trajectory]:
    """The demonstrations: states and actions, without thoughts."""
    return [without_thoughts(t) for t in DEMONSTRATIONS[config.world](config.demonstrations, seed)]


def world_model_data(branchings: Sequence[Branching], at_random: bool, seed: int) -> list[Trajectory]:
    """All triples; with `at_random` each has the next observation of another one."""
    triples = [triple for b in branchings for triple in b.outcomes]
    if not at_random:
        return triples
    observations = [triple.last_observation for triple in triples]
    random.Random(f"random next states {seed}").shuffle(observations)
    return [replace(t, last_observation=o) for t, o in zip(triples, observations, strict=True)]


def reflective_episodes(
    demonstrations: Sequence[Trajectory], branchings: Sequence[Branching], texts: Sequence[Sequence[str]]
) -> list[Trajectory]:
    """The demonstrations with rationales as thoughts: one episode for each round of alternatives.

    Round j gives each state its j-th rationale, or its last one where it has fewer. A state without any keeps
    no thought and is not trained on.
    """
    told = iter(zip(branchings, texts, strict=True))
    by_episode = [[next(told)[1] for _ in d.steps] for d in demonstrations]
    found = []
    for demonstration, rationales in zip(demonstrations, by_episode, strict=True):
        for j in range(max(map(len, rationales), default=0)):
            steps = tuple(
                replace(step, thought=options[min(j, len(options) - 1)])
                if options
                else replace(step, trained=False)
                for step, options in zip(demonstration.steps, rationales, strict=True)
            )
            found.append(replace(demonstration, steps=steps))
    return found


def start_early(
    model: PreTrainedModel,
    tokenizer: PreTrainedTokenizerFast,
    config: EarlyConfig,
    seed: int,
    propose: Propose | None = None,
    demonstrations: Sequence[Trajectory] | None = None,
) -> tuple[TrainState, Algorithm]:
    """State and algorithm for `labkit.lm.training.train`. `propose`: whose actions are tried besides random
    ones. `demonstrations`: by default those of `expert_episodes`.

    Raises ValueError where there is no step to learn from, or no rationale to tell.
    """
    form = WordForm(tokenizer)
    shown = expert_episodes(config, seed) if demonstrations is None else list(demonstrations)
    imitation = _pool(shown, form)
    if not imitation:
        raise ValueError(f"{len(shown)} demonstrations hold no step to learn from; give at least one episode")
    first: Pool = []
    mixed: Pool = []
    if config.method != "imitation":
        branchings = branch_off(shown, config.k, seed, propose)
        if config.thinks:
            told = reflections if config.method == "sr" else lambda b: shuffled_reflections(b, seed)
            mixed = _pool(reflective_episodes(shown, branchings, told(branchings)), form)
            if not mixed:
                raise ValueError(
                    f"no rationale can be told of {len(branchings)} states with k = {config.k}: every action "
                    "tried led to what the expert's did; give a larger k or more demonstrations"
                )
        else:
            triples = world_model_data(branchings, config.method == "iwm-random", seed)
            first = [(outcome_example(t, form), 1) for t in triples]

    beside = mixed or first
    share = config.reflection_share if mixed else config.world_model_share if first else 0.0

    def next_batch(state: TrainState) -> Batch:
        rng = state.python_random()
        if first and state.step < config.world_model_updates:
            drawn = _draw(first, config.steps_per_update, rng)
        else:
            drawn = _draw(beside, config.steps_per_update * share, rng)
            drawn += _draw(imitation, config.steps_per_update * (1 - share), rng)
        # Of like length together, so that a micro-batch is little padded.
        drawn.sort(key=lambda example: len(example[0]))
        return collate(drawn, tokenizer.pad_token_id)

    state = TrainState.start(model, config.optimizer, config.updates, seed)
    return state, sft_algorithm(next_batch, micro_batch_size=16)


Pool = list[tuple[Example, int]]
"""Examples, each with the number of steps it trains on."""


def _pool(trajectories: Sequence[Trajectory], form: WordForm) -> Pool:
    eos = form.tokenizer.eos_token_id
    return [(e, num_steps(e, eos)) for t in trajectories for e in examples(t, form)]


def _draw(pool: Pool, steps: float, rng: random.Random) -> list[Example]:
    drawn, number = [], 0
    while number < steps:
        example, of_it = rng.choice(pool)
        drawn.append(example)
        number += of_it
    return drawn
