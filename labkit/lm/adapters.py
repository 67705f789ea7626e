"""LoRA adapters folded into the weights for as long as nothing is trained."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from peft import PeftModel
from peft.tuners.lora import Linear, LoraLayer
from peft.utils import ModulesToSaveWrapper
from transformers import PreTrainedModel


@contextmanager
def merged_adapters(model: PreTrainedModel | PeftModel) -> Iterator[None]:
    """Within the context, adapted layers cost what plain ones do; models without adapters are left alone.

    The weights are put back as they were, bit for bit: subtracting what was added would leave rounding
    errors that add up over a training run. Needs memory for a second copy of the adapted weights.

    So is left alone what a sum of weights does not describe exactly: adapters of another kind than plain
    LoRA on linear layers, and weights in less than float32, whose rounding would swallow a small adapter.
    """
    if not (isinstance(model, PeftModel) and _can_be_merged(model)):
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


def _can_be_merged(model: PeftModel) -> bool:
    layers = [layer for layer in model.modules() if isinstance(layer, LoraLayer)]
    plain = all(
        type(layer) is Linear
        and not layer.lora_variant
        and not any(layer.lora_bias.values())
        and layer.get_base_layer().weight.dtype == torch.float32
        for layer in layers
    )
    return bool(layers) and plain and not any(isinstance(m, ModulesToSaveWrapper) for m in model.modules())
