"""Language models at the 24-point game, in the compact token form."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor
from transformers import PreTrainedModel, PreTrainedTokenizerFast

from labkit.envs.judging import Judge, Judgement
from labkit.envs.points24 import compact
from labkit.envs.points24.grading import Outcome, Verdict
from labkit.envs.points24.rules import Rule
from labkit.envs.points24.solver import TARGET
from labkit.lm.sampling import SamplingConfig, sample


class Codec:
    """Compact-form tokens to ids and back, one to one."""

    def __init__(self, tokenizer: PreTrainedTokenizerFast) -> None:
        self.ids = tokenizer.get_vocab()
        if missing := [t for t in compact.VOCABULARY if t not in self.ids]:
            raise ValueError(f"the tokenizer lacks {missing[:5]}: it is not that of a compact-form model")
        self.tokens = {i: t for t, i in self.ids.items()}

    def encode(self, tokens: Sequence[str]) -> list[int]:
        """Ids of tokens; KeyError for one that is not in the vocabulary."""
        return [self.ids[t] for t in tokens]

    def decode(self, ids: Sequence[int] | Tensor) -> list[str]:
        """Tokens of ids."""
        return [self.tokens[int(i)] for i in ids]

    def prompts(self, hands: Sequence[Sequence[int]], rule: Rule, target: int = TARGET) -> list[list[int]]:
        """Prompt ids of each hand."""
        return [self.encode(compact.prompt_tokens(hand, rule, target)) for hand in hands]


def compact_judge(
    codec: Codec,
    hands: Sequence[Sequence[int]],
    rule: Rule,
    rewards: Mapping[Outcome, float],
    group_size: int,
) -> Judge:
    """A judge for `labkit.rl.rollout.collect`: row r belongs to `hands[r // group_size]`.

    A correct answer ends the episode; after any other the verifier names the outcome.
    """
    feedback = {
        outcome: tuple(codec.encode(compact.feedback_tokens(outcome)))
        for outcome in Outcome
        if outcome is not Outcome.CORRECT
    }

    def judge(rows: Sequence[int], completions: Sequence[Sequence[int]]) -> list[Judgement]:
        outcomes = [
            compact.grade(codec.decode(ids), hands[row // group_size], rule).outcome
            for row, ids in zip(rows, completions, strict=True)
        ]
        return [Judgement(rewards[outcome], feedback.get(outcome)) for outcome in outcomes]

    return judge


@dataclass(frozen=True)
class Attempt:
    """One response to a hand."""

    tokens: tuple[str, ...]
    verdict: Verdict


def attempts(
    model: PreTrainedModel,
    codec: Codec,
    hands: Sequence[Sequence[int]],
    rule: Rule,
    *,
    target: int = TARGET,
    max_turns: int = 1,
    generator: torch.Generator | None = None,
    temperature: float = 1.0,
) -> list[list[Attempt]]:
    """What a model answers: for each hand its attempts, the last of them right or out of turns.

    Greedy without a generator; with one, sampled at `temperature`.
    """
    config = SamplingConfig(compact.RESPONSE_LENGTH + 2, temperature=temperature, greedy=generator is None)
    contexts = codec.prompts(hands, rule, target)
    played: list[list[Attempt]] = [[] for _ in hands]
    open_hands = list(range(len(hands)))
    for _ in range(max_turns):
        samples = sample(model, [contexts[i] for i in open_hands], config, generator=generator)
        still_open = []
        for i, ids in zip(open_hands, samples.completions(), strict=True):
            tokens = codec.decode(ids)
            verdict = compact.grade(tokens, hands[i], rule, target)
            played[i].append(Attempt(tuple(tokens), verdict))
            if not verdict.correct:
                contexts[i] = contexts[i] + ids + codec.encode(compact.feedback_tokens(verdict.outcome))
                still_open.append(i)
        open_hands = still_open
        if not open_hands:
            break
    return played


def read_correctly(verdict: Verdict, hand: Sequence[int], rule: Rule) -> bool:
    """Whether a response wrote down what all its cards count, solved or not."""
    return verdict.values_read == rule.values(hand)
