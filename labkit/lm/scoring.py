"""Log-probabilities, entropies and divergences of token sequences under a causal language model.

Conventions: `ids` and `attention_mask` are `[batch, time]`; per-token results of a completion of
length C are `[batch, C]`, entry t being about completion token t given everything before it.
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.utils.checkpoint import checkpoint
from transformers import PreTrainedModel


def position_ids(attention_mask: Tensor) -> Tensor:
    """Positions `[batch, time]` that count real tokens only, so that padding shifts nothing."""
    return (attention_mask.long().cumsum(-1) - 1).clamp(min=0)


def padded_on_the_right(attention_mask: Tensor) -> bool:
    """Whether no real token has padding before it."""
    return bool((attention_mask[:, 1:] <= attention_mask[:, :-1]).all())


def model_inputs(ids: Tensor, attention_mask: Tensor) -> dict[str, Tensor]:
    """Keyword arguments of a forward pass over padded rows.

    With padding on the right only, causality already hides it from every real token; leaving the mask
    out then lets attention take its fast path.
    """
    if padded_on_the_right(attention_mask):
        positions = torch.arange(ids.shape[1], device=ids.device).expand(ids.shape)
        return {"input_ids": ids, "position_ids": positions}
    return {
        "input_ids": ids,
        "attention_mask": attention_mask,
        "position_ids": position_ids(attention_mask),
    }


def completion_logits(
    model: PreTrainedModel, ids: Tensor, attention_mask: Tensor, num_completion: int
) -> Tensor:
    """Logits `[batch, num_completion, vocabulary]` that predict the last `num_completion` tokens.

    In float32 whatever the model's type, as in sampling. Logits of prompt positions are never computed.
    The logit of token t stands at position t-1.
    """
    _check_window(ids, num_completion)
    logits = model(
        **model_inputs(ids, attention_mask),
        use_cache=False,
        logits_to_keep=num_completion + 1,
    ).logits
    return logits[:, :-1].float()


def _check_window(ids: Tensor, num_completion: int) -> None:
    if not 1 <= num_completion < ids.shape[1]:
        raise ValueError(
            f"num_completion {num_completion} must be at least 1 and less than the sequence length "
            f"{ids.shape[1]}: the first token has nothing before it that could predict it"
        )


def selected_logprobs(logits: Tensor, tokens: Tensor, temperature: float = 1.0) -> Tensor:
    """`log softmax(logits / temperature)` at `tokens`: `[..., V]`, `[...]` -> `[...]`."""
    if temperature <= 0:
        raise ValueError(f"temperature {temperature!r} must be positive; greedy decoding has no log-probs")
    scaled = logits if temperature == 1.0 else logits / temperature
    chosen = scaled.gather(-1, tokens.unsqueeze(-1)).squeeze(-1)
    return chosen - scaled.logsumexp(-1)


MAX_LOGITS = 2**25
"""Logits held at a time when scoring, in numbers (128 MiB in float32)."""


def token_logprobs(
    model: PreTrainedModel,
    ids: Tensor,
    attention_mask: Tensor,
    num_completion: int,
    temperature: float = 1.0,
) -> Tensor:
    """Log-probabilities `[batch, num_completion]` of the last `num_completion` tokens of each row.

    For rows that begin with the same prompts, `labkit.lm.shared_prompt` runs each prompt once.
    """
    _check_window(ids, num_completion)
    states = decoder(model)(**model_inputs(ids, attention_mask), use_cache=False).last_hidden_state
    return state_logprobs(model, states[:, -num_completion - 1 : -1], ids[:, -num_completion:], temperature)


def decoder(model: PreTrainedModel) -> torch.nn.Module:
    """The model without its output layer; its `last_hidden_state` is what that layer reads.

    Raises ValueError for a model that changes its logits after the output layer.
    """
    # Adapters are layers inside the model they adapt, so its decoder runs with them.
    inner = model.get_base_model() if hasattr(model, "get_base_model") else model
    if getattr(inner.config, "final_logit_softcapping", None) or getattr(inner.config, "logit_scale", None):
        raise ValueError(
            f"{type(inner).__name__} changes its logits after the output layer, which scoring from hidden "
            "states leaves out; use a model without final_logit_softcapping and logit_scale"
        )
    return inner.base_model


def state_logprobs(model: PreTrainedModel, states: Tensor, tokens: Tensor, temperature: float) -> Tensor:
    """Log-probabilities of `tokens` `[...]` given the hidden states `[..., width]` that predict them.

    Where the logits of all positions would exceed `MAX_LOGITS`, they are made and used in pieces, and
    made again in the backward pass: a vocabulary of 50,000 words costs memory for one piece only.
    """
    head = model.get_output_embeddings()

    def score(states: Tensor, targets: Tensor) -> Tensor:
        return selected_logprobs(head(states).float(), targets, temperature)

    vocabulary = model.config.vocab_size
    if tokens.numel() * vocabulary <= MAX_LOGITS:
        return score(states, tokens)
    size = max(1, MAX_LOGITS // vocabulary)
    pieces = [
        checkpoint(score, part, targets, use_reentrant=False)
        for part, targets in zip(states.flatten(0, -2).split(size), tokens.flatten().split(size), strict=True)
    ]
    return torch.cat(pieces).view(tokens.shape)


def sequence_logprobs(logprobs: Tensor, completion_mask: Tensor) -> Tensor:
    """`log π(y|x) = Σ_t log π(y_t | x, y_<t)`, `[batch]`, over the tokens the mask keeps."""
    return (logprobs * completion_mask).sum(-1)


def entropy(logits: Tensor) -> Tensor:
    """Entropy in nats of each next-token distribution: `[..., V]` -> `[...]`."""
    logprobs = logits.log_softmax(-1)
    return -(logprobs.exp() * logprobs).sum(-1)


def kl_divergence(logits: Tensor, reference_logits: Tensor) -> Tensor:
    """Exact `KL(π‖ref)` in nats of each next-token distribution: `[..., V]` twice -> `[...]`."""
    logprobs, reference = logits.log_softmax(-1), reference_logits.log_softmax(-1)
    return (logprobs.exp() * (logprobs - reference)).sum(-1)


@torch.no_grad()
def kl_to_reference(
    model: PreTrainedModel,
    reference: PreTrainedModel,
    ids: Tensor,
    attention_mask: Tensor,
    completion_mask: Tensor,
) -> Tensor:
    """`KL(π‖ref)` of whole completions in nats, `[batch]`, for completions sampled from π.

    The sum over tokens of the exact next-token divergence along a sampled completion: an unbiased
    estimate of the sequence divergence with less variance than the log-ratio of the samples.
    `completion_mask` is `[batch, C]` and covers the last C tokens.
    """
    length = completion_mask.shape[1]
    logits = completion_logits(model, ids, attention_mask, length)
    reference_logits = completion_logits(reference, ids, attention_mask, length)
    return (kl_divergence(logits, reference_logits) * completion_mask).sum(-1)
