"""A key-value cache that writes in place, for decoding many rows."""

from __future__ import annotations

import torch
from torch import Tensor
from transformers import PreTrainedConfig
from transformers.cache_utils import Cache, DynamicLayer


class PreallocatedLayer(DynamicLayer):
    """One layer's keys and values `[batch, heads, capacity, head_dim]`, filled from the left.

    transformers' `DynamicLayer` copies the whole cache for each new token; this one writes the token
    into room that is already there and hands out a view.
    """

    def __init__(self, capacity: int) -> None:
        super().__init__()
        self.capacity = capacity
        self.length = 0

    def update(self, key_states: Tensor, value_states: Tensor, *args, **kwargs) -> tuple[Tensor, Tensor]:
        if not self.is_initialized:
            self.lazy_initialization(key_states, value_states)
            batch, heads, _, width = key_states.shape
            self._keys = key_states.new_empty(batch, heads, self.capacity, width)
            self._values = value_states.new_empty(batch, heads, self.capacity, width)
        end = self.length + key_states.shape[-2]
        if end > self.capacity:
            raise ValueError(f"cache holds {self.capacity} tokens, {end} were given")
        self._keys[:, :, self.length : end] = key_states
        self._values[:, :, self.length : end] = value_states
        self.length = end
        return self._expose()

    def select(self, rows: Tensor) -> None:
        """Keep `rows` (indices, repeats allowed) of the batch, in that order; copies filled room only."""
        self._keys, self._values = self._take(self._keys, rows), self._take(self._values, rows)
        self._expose()

    def _take(self, buffer: Tensor, rows: Tensor) -> Tensor:
        taken = buffer.new_empty(len(rows), *buffer.shape[1:])
        taken[:, :, : self.length] = buffer[:, :, : self.length].index_select(0, rows)
        return taken

    def _expose(self) -> tuple[Tensor, Tensor]:
        self.keys = self._keys[:, :, : self.length]
        self.values = self._values[:, :, : self.length]
        return self.keys, self.values


class DecodingCache(Cache):
    """A `PreallocatedLayer` for each layer of a model."""

    def __init__(self, config: PreTrainedConfig, capacity: int) -> None:
        super().__init__(layers=[PreallocatedLayer(capacity) for _ in range(config.num_hidden_layers)])

    def select(self, rows: Tensor) -> None:
        """Keep `rows` (indices, repeats allowed) of the batch in every layer."""
        rows = torch.as_tensor(rows)
        for layer in self.layers:
            layer.select(rows)
