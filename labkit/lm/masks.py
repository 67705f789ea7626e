"""Which tokens of a sequence are trained on, and the loss over them."""

from __future__ import annotations

import torch
from torch import Tensor


def completion_mask(ids: Tensor, prompt_lengths: Tensor, eos_id: int, pad_id: int) -> Tensor:
    """True on the tokens of each response, the token that ends it included: `[batch, time]`, bool.

    `ids` is `[batch, time]`, padded on the right; `prompt_lengths` `[batch]` counts the tokens before
    each response. A response that was cut off has no EOS and ends where padding begins. `pad_id` may
    equal `eos_id`: the first one after the prompt is then the EOS, and stays; a response that was cut
    off cannot be told from one that ended there.

    Example: prompt `a b`, response `c <eos>`, one pad: `[False, False, True, True, False]`.
    """
    in_response = torch.arange(ids.shape[1], device=ids.device) >= prompt_lengths.unsqueeze(-1)
    ends = in_response & (ids == eos_id)
    ended_before = ends.cumsum(-1) > ends.long()
    padding = (ids == pad_id) & ~ends
    return in_response & ~ended_before & ~padding


def completion_loss(logits: Tensor, ids: Tensor, completion_mask: Tensor) -> Tensor:
    """Mean of `-log p(y_t | x, y_<t)` over the kept tokens of the batch, a scalar in nats.

    `logits` is `[batch, time, V]`, `ids` and `completion_mask` (bool) `[batch, time]`. Every kept token
    counts the same, however long its row is. The first token of a row is never kept: nothing stands
    before it that could predict it. NaN if no token is kept.
    """
    # The logit at position t predicts token t+1, hence the shift; the mask moves with the tokens.
    logprobs = logits[:, :-1].log_softmax(-1)
    chosen = logprobs.gather(-1, ids[:, 1:].unsqueeze(-1)).squeeze(-1)
    return -chosen[completion_mask[:, 1:]].mean()
