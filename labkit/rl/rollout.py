"""Rollouts: what the policy did, kept exactly as it was sampled."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor
from transformers import PreTrainedModel

from labkit.envs.judging import Judge
from labkit.lm.sampling import Samples, SamplingConfig, sample


@dataclass(frozen=True)
class Rollouts:
    """Episodes as tokens, rows of a group side by side, padded on the right; `[rows, time]` tensors."""

    ids: Tensor
    attention_mask: Tensor
    """True on real tokens."""
    completion_mask: Tensor
    """True on tokens that the policy sampled: not on prompts, feedback or padding."""
    logprobs: Tensor
    """Log-probs the tokens were sampled with; 0 where `completion_mask` is False."""
    rewards: Tensor
    """`[rows]`."""
    turns: Tensor
    """Attempts made, `[rows]`."""
    prompt_length: int
    """Tokens before the first sampled one in the row where that is least."""

    @property
    def num_tokens(self) -> int:
        """Real tokens in all rows."""
        return int(self.attention_mask.sum())


@dataclass
class _Row:
    ids: list[int]
    keep: list[bool]
    logprobs: list[float]
    reward: float = 0.0
    turns: int = 0

    def extend(self, ids: Sequence[int], keep: bool, logprobs: Sequence[float] | None = None) -> None:
        self.ids += ids
        self.keep += [keep] * len(ids)
        self.logprobs += [0.0] * len(ids) if logprobs is None else logprobs


def collect(
    model: PreTrainedModel,
    prompts: Sequence[Sequence[int]],
    judge: Judge,
    sampling: SamplingConfig,
    *,
    group_size: int,
    generator: torch.Generator,
    max_turns: int = 1,
    on_samples: Callable[[Samples], None] | None = None,
) -> Rollouts:
    """Sample `group_size` episodes of each prompt, with up to `max_turns` judged attempts each.

    Ids stay ids: nothing is decoded and tokenised again between sampling and training. `on_samples`
    sees each batch that was sampled.

    Raises ValueError for top-k or top-p sampling, whose log-probs the policy cannot reproduce: the
    ratio would not be 1 before the first update.
    """
    if sampling.truncates or sampling.greedy:
        raise ValueError(
            "rollouts need plain sampling: with top_k, top_p or greedy decoding the log-probs sampled "
            "with are not the policy's, so the ratio is wrong from the first step. Leave them out."
        )
    rows = [_Row(list(p), [False] * len(p), [0.0] * len(p)) for p in prompts for _ in range(group_size)]
    open_rows = list(range(len(rows)))
    for turn in range(max_turns):
        # In the first turn a group shares its prompt; later every row has a history of its own.
        contexts = prompts if turn == 0 else [rows[r].ids for r in open_rows]
        samples = sample(
            model,
            contexts,
            sampling,
            num_samples=group_size if turn == 0 else 1,
            generator=generator,
        )
        if on_samples is not None:
            on_samples(samples)
        completions = samples.completions()
        still_open = []
        for row, completion, logprobs, judgement in zip(
            open_rows, completions, samples.logprobs.tolist(), judge(open_rows, completions), strict=True
        ):
            rows[row].extend(completion, True, logprobs[: len(completion)])
            rows[row].reward, rows[row].turns = judgement.reward, turn + 1
            if judgement.feedback_ids is not None and turn + 1 < max_turns:
                rows[row].extend(judgement.feedback_ids, False)
                still_open.append(row)
        open_rows = still_open
        if not open_rows:
            break
    return _stack(rows, model.config.pad_token_id or 0, min(map(len, prompts)))


def _stack(rows: Sequence[_Row], pad_id: int, prompt_length: int) -> Rollouts:
    length = max(len(row.ids) for row in rows)

    def padded(lists: list[list], fill: float, dtype: torch.dtype) -> Tensor:
        return torch.tensor([x + [fill] * (length - len(x)) for x in lists], dtype=dtype)

    return Rollouts(
        ids=padded([r.ids for r in rows], pad_id, torch.long),
        attention_mask=padded([[True] * len(r.ids) for r in rows], False, torch.bool),
        completion_mask=padded([r.keep for r in rows], False, torch.bool),
        logprobs=padded([r.logprobs for r in rows], 0.0, torch.float32),
        rewards=torch.tensor([r.reward for r in rows], dtype=torch.float32),
        turns=torch.tensor([r.turns for r in rows]),
        prompt_length=prompt_length,
    )
