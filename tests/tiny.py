"""Models so small that a test can enumerate what they do, and oracles that share no code with labkit."""

from __future__ import annotations

import torch
from transformers import (
    GPT2Config,
    GPT2LMHeadModel,
    LlamaForCausalLM,
    PreTrainedModel,
    PreTrainedTokenizerFast,
)

from labkit.lm.models import TinyConfig, tiny_model
from labkit.lm.tokenizer import word_tokenizer

WORDS = ("<pad>", "<bos>", "<eos>", "a", "b", "c", "d", "e")
PAD, BOS, EOS, A, B, C, D, E = range(len(WORDS))
SHAPE = TinyConfig(layers=2, width=16, heads=2, mlp_width=32, max_positions=64)


def tokenizer(words: tuple[str, ...] = WORDS) -> PreTrainedTokenizerFast:
    return word_tokenizer(words)


def llama(seed: int = 0, *, words: tuple[str, ...] = WORDS, sharpness: float = 12.0) -> LlamaForCausalLM:
    """Rotary positions."""
    return _sharpen(tiny_model(SHAPE, tokenizer(words), seed), sharpness).eval()


def gpt2(seed: int = 0, *, dropout: float = 0.0, sharpness: float = 12.0) -> GPT2LMHeadModel:
    """Absolute positions, and dropout where it is asked for."""
    config = GPT2Config(
        vocab_size=len(WORDS),
        n_positions=64,
        n_embd=16,
        n_layer=2,
        n_head=2,
        resid_pdrop=dropout,
        embd_pdrop=dropout,
        attn_pdrop=dropout,
        pad_token_id=PAD,
        bos_token_id=BOS,
        eos_token_id=EOS,
    )
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return _sharpen(GPT2LMHeadModel(config), sharpness).eval()


def _sharpen(model: PreTrainedModel, factor: float) -> PreTrainedModel:
    # Fresh weights give nearly uniform predictions, under which a wrong shift, mask or position hardly shows.
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.dim() > 1:
                parameter.mul_(factor)
    return model


@torch.no_grad()
def next_token_probabilities(
    model: PreTrainedModel, context: list[int], temperature: float = 1.0
) -> torch.Tensor:
    """`[V]`, float64, from one unpadded, uncached forward pass over one row."""
    return (model(torch.tensor([context])).logits[0, -1].double() / temperature).softmax(-1)


def one_by_one_logprobs(
    model: PreTrainedModel, context: list[int], completion: list[int], temperature: float = 1.0
) -> torch.Tensor:
    """Log-probs `[len(completion)]`, each token in a forward pass of its own."""
    return torch.stack(
        [
            next_token_probabilities(model, context + completion[:t], temperature)[token].log()
            for t, token in enumerate(completion)
        ]
    ).float()


def seeded(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)
