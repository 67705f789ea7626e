"""Supervised fine-tuning: maximise log p(y|x) on the tokens that the mask keeps."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy
from transformers import PreTrainedModel

from labkit.lm.sampling import evaluating
from labkit.lm.scoring import model_inputs
from labkit.lm.training import TrainState, micro_batches

IGNORE = -100


@dataclass(frozen=True)
class Batch:
    """Right-padded sequences, all `[batch, time]`."""

    ids: Tensor
    attention_mask: Tensor
    completion_mask: Tensor
    """True on the tokens that are trained on."""


def collate(sequences: Sequence[tuple[Sequence[int], Sequence[bool]]], pad_id: int) -> Batch:
    """Pad `(ids, keep)` pairs on the right into a batch."""
    length = max(len(ids) for ids, _ in sequences)
    ids = torch.full((len(sequences), length), pad_id)
    attention_mask = torch.zeros(len(sequences), length, dtype=torch.bool)
    completion_mask = torch.zeros(len(sequences), length, dtype=torch.bool)
    for row, (tokens, keep) in enumerate(sequences):
        ids[row, : len(tokens)] = torch.tensor(tokens)
        attention_mask[row, : len(tokens)] = True
        completion_mask[row, : len(keep)] = torch.tensor(keep)
    return Batch(ids, attention_mask, completion_mask)


def sft_loss_sum(model: PreTrainedModel, batch: Batch) -> Tensor:
    """`-Σ log p(y_t | x, y_<t)` over the kept tokens of the batch, a scalar in nats."""
    logits = model(**model_inputs(batch.ids, batch.attention_mask), use_cache=False).logits
    labels = batch.ids.masked_fill(~batch.completion_mask, IGNORE)
    # The logit at position t predicts token t+1, hence the shift.
    return cross_entropy(
        logits[:, :-1].flatten(0, 1), labels[:, 1:].flatten(), ignore_index=IGNORE, reduction="sum"
    )


def sft_algorithm(
    next_batch: Callable[[TrainState], Batch], micro_batch_size: int = 64
) -> Callable[[TrainState], Mapping[str, float]]:
    """SFT as an algorithm of `labkit.lm.training.train`: mean loss over the kept tokens of a batch."""

    def algorithm(state: TrainState) -> Mapping[str, float]:
        batch = next_batch(state)
        kept = batch.completion_mask[:, 1:].sum()
        total = 0.0
        for rows in micro_batches(torch.arange(len(batch.ids)), micro_batch_size):
            part = take_rows(batch, rows)
            loss = sft_loss_sum(state.model, part) / kept
            loss.backward()
            total += float(loss.detach())
        state.tokens_trained += int(batch.attention_mask.sum())
        return {"loss": total, "grad_norm": state.update()}

    return algorithm


def take_rows(batch: Batch, rows: Tensor) -> Batch:
    """Some rows (indices `[n]`) of a batch, without the padding that only longer ones need."""
    length = int(batch.attention_mask[rows].sum(-1).max())
    parts = (batch.ids, batch.attention_mask, batch.completion_mask)
    return Batch(*(part[rows, :length] for part in parts))


def epochs_of(batch: Batch, batch_size: int, seed: int) -> tuple[Callable[[TrainState], Batch], int]:
    """`next_batch` for `sft_algorithm` that takes every row once an epoch, and the updates of an epoch.

    The order of an epoch is drawn anew from `seed` and the number of the epoch, so that an interrupted run
    continues with it. The last update of an epoch has the rows that are left. Raises `ValueError` for an
    empty batch or a `batch_size` below 1.
    """
    num_rows = len(batch.ids)
    if num_rows < 1 or batch_size < 1:
        raise ValueError(f"{num_rows} rows in updates of {batch_size}; at least 1 of each is needed")
    updates = math.ceil(num_rows / batch_size)

    def next_batch(state: TrainState) -> Batch:
        epoch, place = divmod(state.step, updates)
        order = list(range(num_rows))
        random.Random(f"{seed} epoch {epoch}").shuffle(order)
        return take_rows(batch, torch.tensor(order[place * batch_size : (place + 1) * batch_size]))

    return next_batch, updates


@torch.no_grad()
def would_write(model: PreTrainedModel, batch: Batch, batch_size: int = 256) -> Tensor:
    """Whether greedy decoding would write each row's kept tokens, end included: `[rows]`, bool.

    By teacher forcing: each kept token is the likeliest after all before it. That is one pass in place of one
    a token. Meant for kept tokens at the end of a row.
    """
    with evaluating(model):
        found = []
        for rows in micro_batches(torch.arange(len(batch.ids)), batch_size):
            part = take_rows(batch, rows)
            likeliest = model(**model_inputs(part.ids, part.attention_mask)).logits[:, :-1].argmax(-1)
            found.append(~((likeliest != part.ids[:, 1:]) & part.completion_mask[:, 1:]).any(-1))
    return torch.cat(found) if found else torch.zeros(0, dtype=torch.bool)
