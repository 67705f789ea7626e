"""Tiny language models as real transformers models, so that `save_pretrained`, peft and TRL work on them."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import torch
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast
from transformers.utils import logging


@dataclass(frozen=True)
class TinyConfig:
    """Shape of a tiny Llama-style model."""

    layers: int = 4
    """Number of transformer blocks."""
    width: int = 128
    """Hidden size; divisible by `heads`."""
    heads: int = 4
    """Attention heads (as many key-value heads)."""
    mlp_width: int = 384
    """Inner width of the gated MLP."""
    max_positions: int = 256
    """Longest sequence, in tokens."""
    init_std: float = 0.02
    """Standard deviation of fresh weights. The default is that of large models; a narrow one that must look
    things up in its context starts much faster at about 1 / √width."""


def tiny_model(config: TinyConfig, tokenizer: PreTrainedTokenizerFast, seed: int) -> LlamaForCausalLM:
    """A freshly initialised float32 Llama with the tokenizer's vocabulary and tied embeddings.

    Initialisation depends on `seed` alone; the global generator is left as it was.
    """
    llama = LlamaConfig(
        vocab_size=len(tokenizer),
        hidden_size=config.width,
        intermediate_size=config.mlp_width,
        num_hidden_layers=config.layers,
        num_attention_heads=config.heads,
        num_key_value_heads=config.heads,
        max_position_embeddings=config.max_positions,
        initializer_range=config.init_std,
        pad_token_id=tokenizer.pad_token_id,
        bos_token_id=tokenizer.bos_token_id,
        eos_token_id=tokenizer.eos_token_id,
        tie_word_embeddings=True,
        attention_dropout=0.0,
    )
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return LlamaForCausalLM(llama).float()


def num_parameters(model: torch.nn.Module) -> int:
    """Distinct parameters, shared ones counted once."""
    return sum(p.numel() for p in model.parameters())


def load_model(folder: Path | str) -> tuple[LlamaForCausalLM, PreTrainedTokenizerFast]:
    """Model (float32, eval mode) and tokenizer from a local folder written by `save_pretrained`."""
    folder = Path(folder)
    if not (folder / "config.json").exists():
        raise FileNotFoundError(
            f"no model in {folder}: a folder with config.json, model.safetensors and tokenizer.json "
            "is needed. Committed ones are remade by `python -m labkit run points24-base --profile full`, "
            "and so with react-base and react-agent."
        )
    # A bar for a load of milliseconds, once a worker, would bury the bars that tell how long is left.
    logging.disable_progress_bar()
    model = LlamaForCausalLM.from_pretrained(folder, dtype=torch.float32).eval()
    return model, PreTrainedTokenizerFast.from_pretrained(folder)
