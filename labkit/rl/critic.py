"""The critic: what a policy expects to earn from a state."""

from __future__ import annotations

import copy

from torch import Tensor, nn
from transformers import PreTrainedModel


class Critic(nn.Module):
    """Values of hidden states: a linear head, on the policy's own states or on those of a second model."""

    def __init__(self, width: int, backbone: PreTrainedModel | None = None) -> None:
        super().__init__()
        self.backbone = backbone
        self.head = nn.Linear(width, 1)
        # Values start at 0, so that the first advantages are the rewards themselves, not noise.
        nn.init.zeros_(self.head.weight)
        nn.init.zeros_(self.head.bias)

    def forward(self, states: Tensor) -> Tensor:
        """`V(s_t)` of states `[rows, time, width]`: `[rows, time]`, float32."""
        return self.head(states.to(self.head.weight.dtype)).squeeze(-1)


def attach_critic(model: PreTrainedModel, kind: str) -> Critic:
    """Hang a critic on a policy as `model.critic` and return it.

    As a part of the model it is trained, saved and resumed with it. `shared`: a head on the policy's last
    hidden states, `width + 1` parameters. `separate`: a copy of the policy as it is now, with a head.
    """
    if hasattr(model, "critic"):
        raise ValueError("the model has a critic already; start from a model without one")
    if kind not in ("shared", "separate"):
        raise ValueError(f"critic {kind!r} is not one of 'shared', 'separate'")
    backbone = copy.deepcopy(model) if kind == "separate" else None
    model.critic = Critic(model.config.hidden_size, backbone).to(model.device)
    return model.critic
