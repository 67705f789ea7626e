"""Scoring many continuations of few prompts: each prompt runs through the model once.

A group of G completions repeats its prompt in each of its G rows. Here the prompt is run once, forward
*and* backward: its keys and values are handed to every row, and the gradients of the rows flow back
through them. The result and its gradient are those of the plain pass over whole rows.
"""

from __future__ import annotations

import torch
from torch import Tensor
from transformers import DynamicCache, PreTrainedModel

from labkit.lm.scoring import decoder, position_ids, state_logprobs


def continuation_logprobs(
    model: PreTrainedModel,
    prompt_ids: Tensor,
    prompt_mask: Tensor,
    prompt_of_row: Tensor,
    ids: Tensor,
    mask: Tensor,
    temperature: float = 1.0,
) -> Tensor:
    """Log-probabilities `[rows, time]` of the tokens that follow each row's prompt.

    `prompt_ids` and `prompt_mask` are `[prompts, P]`, padded on the left; `ids` and `mask` `[rows, time]`,
    padded on the right; `prompt_of_row` `[rows]` says which prompt a row continues. Values at padding mean
    nothing.
    """
    states = continuation_states(model, prompt_ids, prompt_mask, prompt_of_row, ids, mask)
    return state_logprobs(model, states, ids, temperature)


def continuation_states(
    model: PreTrainedModel,
    prompt_ids: Tensor,
    prompt_mask: Tensor,
    prompt_of_row: Tensor,
    ids: Tensor,
    mask: Tensor,
) -> Tensor:
    """Hidden states `[rows, time, width]` from which each token of `ids` is predicted; shapes as above."""
    inner = decoder(model)
    used, prompt_of_row = prompt_of_row.unique(return_inverse=True)
    prompt_ids, prompt_mask = prompt_ids[used], prompt_mask[used]
    cache = DynamicCache(config=inner.config)
    padded = not bool(prompt_mask.all())
    prompt = inner(
        input_ids=prompt_ids,
        attention_mask=prompt_mask if padded else None,
        position_ids=position_ids(prompt_mask),
        cache=cache,
        use_cache=True,
    ).last_hidden_state
    first = prompt[prompt_of_row, -1:]
    if ids.shape[1] == 1:
        return first
    cache.batch_select_indices(prompt_of_row)
    # Causality hides the padding on the right; only that of prompts needs a mask.
    whole = torch.cat([prompt_mask[prompt_of_row], torch.ones_like(mask[:, :-1])], -1)
    rest = inner(
        input_ids=ids[:, :-1],
        attention_mask=whole if padded else None,
        position_ids=position_ids(whole)[:, prompt_ids.shape[1] :],
        cache=cache,
        use_cache=True,
    ).last_hidden_state
    return torch.cat([first, rest], 1)
