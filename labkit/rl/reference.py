"""The reference: the policy that training started from, which a KL penalty stays close to."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from contextlib import contextmanager

from peft import PeftModel, get_peft_model_state_dict, set_peft_model_state_dict
from transformers import PreTrainedModel

from labkit.lm.sampling import evaluating

ADAPTER = "reference"


class Reference:
    """A frozen copy of a policy as it is now.

    Of a policy with a LoRA adapter only the adapter is copied, beside the one that is trained: the
    reference is the adapter one started from, not the raw base below it.
    """

    def __init__(self, policy: PreTrainedModel | PeftModel) -> None:
        self._trained = policy.active_adapter if isinstance(policy, PeftModel) else None
        if self._trained is None:
            self._model = copy.deepcopy(policy).eval().requires_grad_(False)
            return
        if ADAPTER in policy.peft_config:
            raise ValueError("the policy has a reference adapter already; make one Reference a policy")
        self._model = policy
        policy.add_adapter(ADAPTER, policy.peft_config[self._trained])
        weights = get_peft_model_state_dict(policy, adapter_name=self._trained)
        set_peft_model_state_dict(policy, weights, adapter_name=ADAPTER)
        policy.set_adapter(self._trained)

    @contextmanager
    def model(self) -> Iterator[PreTrainedModel]:
        """The model to score with, in eval mode, while the context lasts."""
        with evaluating(self._model):
            if self._trained is None:
                yield self._model
                return
            self._model.set_adapter(ADAPTER, inference_mode=True)
            try:
                yield self._model
            finally:
                self._model.set_adapter(self._trained)
