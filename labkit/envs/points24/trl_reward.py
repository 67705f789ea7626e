"""The 24-point verifier as a TRL reward function, and its hands as a dataset: the way to hub models.

    from trl import GRPOConfig, GRPOTrainer

    trainer = GRPOTrainer(
        model="Qwen/Qwen2.5-0.5B-Instruct",
        reward_funcs=points24_reward(),
        train_dataset=points24_dataset("train", FACES_AS_TEN, chat=True),
        args=GRPOConfig(output_dir="runs/grpo"),
    )
    trainer.train()

Columns of the dataset other than the prompt reach the reward function as lists, a value a completion.
"""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from labkit.envs.completions import Completion, column, completion_text
from labkit.envs.points24.compact import EOS
from labkit.envs.points24.data import shuffled
from labkit.envs.points24.forms import choose_hands, get_form
from labkit.envs.points24.grading import PAPER_REWARDS, Outcome, reward_table
from labkit.envs.points24.rules import Rule
from labkit.envs.points24.solver import TARGET

if TYPE_CHECKING:
    from datasets import Dataset


class Points24Reward:
    """What `points24_reward` makes: called with TRL's keyword arguments, a reward for each completion.

    A class and not a closure, since TRL pickles reward functions to send them to worker processes.
    """

    __name__ = "points24_reward"

    def __init__(self, rule: Rule | None, form: str, rewards: Mapping[Outcome, float], target: int) -> None:
        self.rule, self.form, self.target = rule, get_form(form).name, target
        self.rewards = reward_table(**{str(outcome): value for outcome, value in rewards.items()})

    def __call__(
        self,
        prompts: Sequence[Any],
        completions: Sequence[Completion],
        hand: Sequence[Sequence[int]] | None = None,
        rule: Sequence[Sequence[int]] | None = None,
        log_extra: Any = None,
        **columns: Any,
    ) -> list[float]:
        """Rewards `[len(completions)]`; the prompts are not read (an answer in one must not count).

        Raises ValueError where the columns `hand` or `rule` are missing, have another length, or `rule`
        is not the rule that the function was made for.
        """
        rows = len(completions)
        hands = column("hand", hand, rows)
        if rule is None and self.rule is not None:
            rules = [self.rule] * rows
        else:
            rules = [Rule(*faces) for faces in column("rule", rule, rows)]
        if self.rule is not None and any(r != self.rule for r in rules):
            raise ValueError(
                f"the column rule names {next(r for r in rules if r != self.rule).name}, the reward was made "
                f"for {self.rule.name}; make it without a rule to follow the column"
            )
        outcomes = [
            self._outcome(text, tuple(h), r)
            for text, h, r in zip(map(completion_text, completions), hands, rules, strict=True)
        ]
        if log_extra is not None:
            log_extra("outcome", [outcome.value for outcome in outcomes])
        return [self.rewards[outcome] for outcome in outcomes]

    def _outcome(self, text: str, hand: tuple[int, ...], rule: Rule) -> Outcome:
        if self.form == "compact" and EOS not in text.split():
            # TRL leaves special tokens out when it decodes. A response that was cut off is malformed anyway.
            text = f"{text} {EOS}"
        return get_form(self.form).grade(text, hand, rule, self.target).outcome


def points24_reward(
    rule: Rule | None = None,
    form: str = "json",
    rewards: Mapping[Outcome, float] = PAPER_REWARDS,
    target: int = TARGET,
) -> Points24Reward:
    """A reward function `f(prompts, completions, **columns) -> list[float]` for TRL's trainers.

    The dataset has a column `hand` (four ranks a row) and a column `rule` (what J, Q, K count), as
    `points24_dataset` makes them; with `rule` given here, that column may be missing. Completions are
    strings or lists of messages, of which the last is graded. The table is looked up once a completion:
    outcomes do not add up. Raises ValueError for an unknown form or an incomplete table.
    """
    return Points24Reward(rule, form, rewards, target)


def points24_dataset(
    split: str | Sequence[Sequence[int]],
    rule: Rule,
    form: str = "json",
    wordings: Sequence[int] = (0,),
    *,
    target: int = TARGET,
    chat: bool = False,
    seed: int = 0,
) -> Dataset:
    """A row for each hand and wording, with the columns `prompt`, `hand` and `rule`.

    `split` is `train`, `validation`, `test` (hands that can be solved), or a list of hands, such as
    `out_of_distribution(...).hands`; cards of a split's hand are in random order, from `seed`. `hand` holds
    four ranks, `rule` what J, Q and K count. With `chat`, a prompt is a list of one user message, which TRL
    puts through the model's chat template. Raises ValueError for an unknown split or form.
    """
    from datasets import Dataset

    rng, text_form = random.Random(seed), get_form(form)
    dealt = choose_hands(split, rule, text_form, target)
    if isinstance(split, str):
        dealt = [shuffled(hand, rng) for hand in dealt]
    rows = [
        {"prompt": text_form.prompt(hand, rule, target, wording), "hand": hand, "rule": rule.faces}
        for hand in dealt
        for wording in wordings
    ]
    if chat:
        rows = [row | {"prompt": [{"role": "user", "content": row["prompt"]}]} for row in rows]
    return Dataset.from_list(rows)
