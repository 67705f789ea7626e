"""LoRA adapters folded into the weights for as long as nothing is trained."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from peft import PeftModel
from peft.tuners.lora import LoraLayer
from transformers import PreTrainedModel


@contextmanager
def merged_adapters(model: PreTrainedModel | PeftModel) -> Iterator[None]:
    """Within the context, adapted layers cost what plain ones do; models without adapters are left alone.

    The weights are put back as they were, bit for bit: subtracting what was added would leave rounding
    errors that add up over a training run. Needs memory for a second copy of the adapted weights.
    """
    if not isinstance(model, PeftModel):
        yield
        return
    kept = []
    with torch.no_grad():
        for layer in model.modules():
            if isinstance(layer, LoraLayer):
                weight = layer.get_base_layer().weight
                kept.append((weight, weight.data))
                for adapter in layer.active_adapters:
                    if adapter in layer.lora_A:
                        weight.data = weight.data + layer.get_delta_weight(adapter)
    try:
        with model.disable_adapter():
            yield
    finally:
        for weight, data in kept:
            weight.data = data
