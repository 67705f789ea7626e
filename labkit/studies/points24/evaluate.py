"""What is measured at each point of a run of the 24-point study."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from transformers import PreTrainedModel

from labkit.envs.points24 import compact
from labkit.envs.points24.data import Hand, out_of_distribution, outcome_shares, split_hands, writable
from labkit.envs.points24.metrics import reading_accuracy
from labkit.envs.points24.play import Codec, attempts
from labkit.envs.points24.rules import Rule, has_face
from labkit.lm.sampling import SamplingConfig, sample
from labkit.lm.scoring import completion_logits, entropy, kl_to_reference

EVALUATION_SEED = 2024


@dataclass(frozen=True)
class EvaluationSet:
    """Hands one is measured on, under one rule."""

    name: str
    """`id` (the training rule) or `ood` (the other one)."""
    hands: tuple[Hand, ...]
    rule: Rule


def evaluation_sets(
    split: str, train_rule: Rule, test_rule: Rule, max_hands: int
) -> tuple[EvaluationSet, EvaluationSet]:
    """In- and out-of-distribution hands of a split (`validation` or `test`), at most `max_hands` each.

    Both have a face card, so that they differ in the rule alone. Hands of the out-of-distribution set
    whose value multiset some training hand has are left out. Always the same hands.
    """
    if split not in ("validation", "test"):
        raise ValueError(
            f"split {split!r} is not 'validation' or 'test'; one does not measure on training hands"
        )
    hands = getattr(split_hands(), split)
    inside = [h for h in writable(hands, train_rule) if has_face(h)]
    outside = out_of_distribution(hands, train_rule, test_rule).hands
    return (
        EvaluationSet("id", tuple(inside[:max_hands]), train_rule),
        EvaluationSet("ood", tuple(outside[:max_hands]), test_rule),
    )


def evaluate(
    model: PreTrainedModel,
    reference: PreTrainedModel,
    codec: Codec,
    sets: Sequence[EvaluationSet],
    *,
    max_turns: int = 1,
    num_divergence: int = 64,
) -> dict[str, float]:
    """Metrics by set, prefixed `id_` and `ood_`.

    `accuracy` greedy, first attempt; `accuracy_turns` within `max_turns` attempts; `reading` share of
    hands whose four values are read right; `outcome_*` shares; `entropy` nats a token and `kl` nats a
    response from `reference`, on completions sampled at temperature 1 for `num_divergence` hands.
    """
    metrics: dict[str, float] = {}
    for part in sets:
        played = attempts(model, codec, part.hands, part.rule, max_turns=max_turns)
        first = [a[0].verdict for a in played]
        solved = [a[-1].verdict.correct for a in played]
        measured = {
            "accuracy": sum(v.correct for v in first) / len(first),
            "accuracy_turns": sum(solved) / len(solved),
            "reading": reading_accuracy(first, part.hands, part.rule),
            **{f"outcome_{k}": v for k, v in outcome_shares([v.outcome for v in first]).items()},
            **divergence(model, reference, codec, part, num_divergence),
        }
        metrics |= {f"{part.name}_{k}": v for k, v in measured.items()}
    return metrics


@torch.no_grad()
def divergence(
    model: PreTrainedModel,
    reference: PreTrainedModel,
    codec: Codec,
    part: EvaluationSet,
    num_hands: int,
) -> dict[str, float]:
    """Entropy (nats a token) of the model and KL (nats a response) from the reference."""
    prompts = codec.prompts(part.hands[:num_hands], part.rule)
    generator = torch.Generator().manual_seed(EVALUATION_SEED)
    config = SamplingConfig(compact.RESPONSE_LENGTH + 2)
    drawn = sample(model, prompts, config, generator=generator)
    ids, attention, mask = drawn.sequence_ids, drawn.sequence_mask, drawn.mask
    per_token = entropy(completion_logits(model, ids, attention, mask.shape[1]))
    kl = kl_to_reference(model, reference, ids, attention, mask)
    return {"entropy": float((per_token * mask).sum() / mask.sum()), "kl": float(kl.mean())}
