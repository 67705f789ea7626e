"""A key-value cache that writes in place, for decoding many rows."""

from __future__ import annotations

import torch
from torch import Tensor
from transformers import PreTrainedConfig
from transformers.cache_utils import Cache, DynamicLayer


class PreallocatedLayer(DynamicLayer):
    """One layer's keys and values `[batch, heads, capacity, head_dim]`, filled from the left.

    transformers' `DynamicLayer` copies the whole cache for each new token; this one writes the token
    into room that is already there and hands out a view. For use without gradients.
    """

    def __init__(self, capacity: int, max_rows: int) -> None:
        super().__init__()
        self.capacity, self.max_rows = capacity, max_rows
        self.length = self.rows = 0

    def update(self, key_states: Tensor, value_states: Tensor, *args, **kwargs) -> tuple[Tensor, Tensor]:
        if not self.is_initialized:
            self.lazy_initialization(key_states, value_states)
            self._buffers, self._spares = (
                [self._room(states) for states in (key_states, value_states)] for _ in range(2)
            )
            self.rows = len(key_states)
        end = self.length + key_states.shape[-2]
        if end > self.capacity or len(key_states) > self.max_rows:
            raise ValueError(
                f"cache holds {self.max_rows} rows of {self.capacity} tokens, "
                f"{len(key_states)} of {end} were given"
            )
        for buffer, states in zip(self._buffers, (key_states, value_states), strict=True):
            buffer[: self.rows, :, self.length : end] = states
        self.length = end
        return self._expose()

    def select(self, rows: Tensor) -> None:
        """Keep `rows` (indices, repeats allowed) of the batch, in that order; copies filled room only."""
        if len(rows) > self.max_rows:
            raise ValueError(f"there is room for {self.max_rows} rows, {len(rows)} were asked for")
        for buffer, spare in zip(self._buffers, self._spares, strict=True):
            filled, chosen = buffer[: self.rows, :, : self.length], spare[: len(rows), :, : self.length]
            torch.index_select(filled, 0, rows, out=chosen)
        # Two buffers change places: fresh memory at every step would cost more than the copy itself.
        self._buffers, self._spares = self._spares, self._buffers
        self.rows = len(rows)
        self._expose()

    def _room(self, states: Tensor) -> Tensor:
        _, heads, _, width = states.shape
        return states.new_empty(self.max_rows, heads, self.capacity, width)

    def _expose(self) -> tuple[Tensor, Tensor]:
        self.keys, self.values = (buffer[: self.rows, :, : self.length] for buffer in self._buffers)
        return self.keys, self.values


class DecodingCache(Cache):
    """A `PreallocatedLayer` for each layer of a model: room for `max_rows` rows of `capacity` tokens."""

    def __init__(self, config: PreTrainedConfig, capacity: int, max_rows: int) -> None:
        super().__init__(
            layers=[PreallocatedLayer(capacity, max_rows) for _ in range(config.num_hidden_layers)]
        )

    def select(self, rows: Tensor) -> None:
        """Keep `rows` (indices, repeats allowed) of the batch in every layer."""
        rows = torch.as_tensor(rows)
        for layer in self.layers:
            layer.select(rows)
