"""Rollouts: what the policy did, kept exactly as it was sampled."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, fields

import torch
from torch import Tensor
from torch.nn.functional import pad
from transformers import PreTrainedModel

from labkit.envs.judging import Judge
from labkit.lm.adapters import merged_adapters
from labkit.lm.sampling import Samples, SamplingConfig, left_pad, sample


@dataclass(frozen=True)
class Rollouts:
    """Episodes as tokens. Each prompt stands once; the rows that continue it lie side by side.

    `P` is the longest prompt, `time` the longest of what followed one: attempts and feedback.
    """

    prompt_ids: Tensor
    """`[prompts, P]`, padded on the left."""
    prompt_mask: Tensor
    """`[prompts, P]`, True on real tokens."""
    ids: Tensor
    """`[rows, time]`, padded on the right."""
    mask: Tensor
    """`[rows, time]`, True on real tokens."""
    turn_of_token: Tensor
    """`[rows, time]`: the attempt, from 0, that a sampled token belongs to; -1 on feedback and padding."""
    logprobs: Tensor
    """`[rows, time]` log-probs the tokens were sampled with, 0 where nothing was sampled."""
    turn_rewards: Tensor
    """`[rows, turns]` reward of each attempt, 0 after the last."""
    rewards: Tensor
    """`[rows]`: the last attempt's reward, which is the episode's."""
    turns: Tensor
    """`[rows]`: attempts made."""

    @property
    def completion_mask(self) -> Tensor:
        """True on the tokens that the policy sampled: not on feedback or padding."""
        return self.turn_of_token >= 0

    @property
    def group_size(self) -> int:
        """Rows a prompt."""
        return len(self.ids) // len(self.prompt_ids)

    @property
    def prompt_of_row(self) -> Tensor:
        """`[rows]`: the prompt each row continues."""
        return torch.arange(len(self.prompt_ids), device=self.ids.device).repeat_interleave(self.group_size)

    @property
    def num_tokens(self) -> int:
        """Real tokens of all rows, each with its prompt."""
        return int(self.prompt_mask.sum()) * self.group_size + int(self.mask.sum())

    @property
    def groups_with_signal(self) -> Tensor:
        """`[prompts]`: whether the rewards of a group differ."""
        groups = self.rewards.view(-1, self.group_size)
        return (groups != groups[:, :1]).any(-1)

    def select(self, groups: Tensor) -> Rollouts:
        """The rollouts of some prompts (indices or a mask), in that order."""
        prompts = torch.arange(len(self.prompt_ids), device=groups.device)[groups]
        rows = torch.arange(len(self.ids), device=groups.device).view(-1, self.group_size)[prompts].flatten()
        per_prompt = ("prompt_ids", "prompt_mask")
        return Rollouts(
            **{f.name: getattr(self, f.name)[prompts if f.name in per_prompt else rows] for f in fields(self)}
        )


def join(parts: Sequence[Rollouts]) -> Rollouts:
    """Rollouts of several batches as one; the shorter ones are padded."""

    def joined(name: str) -> Tensor:
        tensors = [getattr(part, name) for part in parts]
        if tensors[0].dim() == 1:
            return torch.cat(tensors)
        width = max(t.shape[1] for t in tensors)
        fill = -1 if name == "turn_of_token" else 0
        on_left = name.startswith("prompt_")
        widths = [(width - t.shape[1], 0) if on_left else (0, width - t.shape[1]) for t in tensors]
        return torch.cat([pad(t, w, value=fill) for t, w in zip(tensors, widths, strict=True)])

    return Rollouts(**{f.name: joined(f.name) for f in fields(Rollouts)})


@dataclass
class _Row:
    """What followed a prompt so far."""

    ids: list[int] = field(default_factory=list)
    turn_of_token: list[int] = field(default_factory=list)
    logprobs: list[float] = field(default_factory=list)
    rewards: list[float] = field(default_factory=list)

    def extend(self, ids: Sequence[int], turn: int, logprobs: Sequence[float]) -> None:
        self.ids += ids
        self.turn_of_token += [turn] * len(ids)
        self.logprobs += logprobs


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
    if max_turns < 1:
        raise ValueError(f"max_turns is {max_turns}; an episode has at least 1")
    rows = [_Row() for _ in range(len(prompts) * group_size)]
    open_rows = list(range(len(rows)))
    with merged_adapters(model):
        for turn in range(max_turns):
            # In the first turn a group shares its prompt; later every row has a history of its own.
            first = turn == 0
            contexts = prompts if first else [[*prompts[r // group_size], *rows[r].ids] for r in open_rows]
            samples = sample(
                model, contexts, sampling, num_samples=group_size if first else 1, generator=generator
            )
            if on_samples is not None:
                on_samples(samples)
            completions = samples.completions()
            still_open = []
            for row, completion, logprobs, judgement in zip(
                open_rows, completions, samples.logprobs.tolist(), judge(open_rows, completions), strict=True
            ):
                rows[row].extend(completion, turn, logprobs[: len(completion)])
                rows[row].rewards.append(judgement.reward)
                if judgement.feedback_ids is not None and turn + 1 < max_turns:
                    rows[row].extend(judgement.feedback_ids, -1, [0.0] * len(judgement.feedback_ids))
                    still_open.append(row)
            open_rows = still_open
            if not open_rows:
                break
    pad_id = model.config.pad_token_id or 0
    return _stack(prompts, rows, pad_id, max_turns, model.device)


def _stack(
    prompts: Sequence[Sequence[int]],
    rows: Sequence[_Row],
    pad_id: int,
    max_turns: int,
    device: torch.device,
) -> Rollouts:
    length = max(len(row.ids) for row in rows)

    def padded(lists: list[list], fill: float, dtype: torch.dtype, width: int = length) -> Tensor:
        return torch.tensor([x + [fill] * (width - len(x)) for x in lists], dtype=dtype, device=device)

    prompt_ids, prompt_mask = (x.to(device) for x in left_pad(prompts, pad_id))
    return Rollouts(
        prompt_ids,
        prompt_mask,
        ids=padded([r.ids for r in rows], pad_id, torch.long),
        mask=padded([[True] * len(r.ids) for r in rows], False, torch.bool),
        turn_of_token=padded([r.turn_of_token for r in rows], -1, torch.long),
        logprobs=padded([r.logprobs for r in rows], 0.0, torch.float32),
        turn_rewards=padded([r.rewards for r in rows], 0.0, torch.float32, max_turns),
        rewards=torch.tensor([r.rewards[-1] for r in rows], dtype=torch.float32, device=device),
        turns=torch.tensor([len(r.rewards) for r in rows], device=device),
    )
