"""A tiny model as actor in a search, and as judge of steps: its log-probs of whole actions, many at once."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor
from transformers import PreTrainedModel

from labkit.agents.forms import WordForm
from labkit.agents.history import FULL, History
from labkit.agents.phases import Guess
from labkit.agents.react import Context
from labkit.agents.words import ACT, EOS
from labkit.lm.sampling import evaluating, left_pad
from labkit.lm.scoring import sequence_logprobs
from labkit.lm.shared_prompt import continuation_logprobs


class Actor:
    """log π(a | o_t, h_t, g) of a model that writes in words, acting without a thought.

    Each prompt runs through the model once, whatever the number of actions, and prompts run side by side.
    """

    def __init__(
        self,
        model: PreTrainedModel,
        form: WordForm,
        history: History = FULL,
        temperature: float = 1.0,
        batch_size: int = 64,
    ) -> None:
        """`history`: what of h_t it is shown, as in training. `temperature`: log-probs of priors are divided
        by it (`guess`). `batch_size`: prompts at a time.

        Raises ValueError for a temperature that is not positive.
        """
        if not temperature > 0:
            raise ValueError(f"temperature is {temperature}; it is above 0 (1 leaves the priors as they are)")
        self.model, self.form, self.history = model, form, history
        self.temperature, self.batch_size = temperature, batch_size

    @torch.no_grad()
    def scores(self, contexts: Sequence[Context], actions: Sequence[Sequence[str]]) -> list[list[float]]:
        """Log-probs in nats of `actions`, a list of them a context; `<eos>` is part of an action.

        Raises ValueError for a number of lists that is not that of the contexts.
        """
        if len(contexts) != len(actions):
            raise ValueError(f"{len(actions)} lists of actions for {len(contexts)} contexts; give one each")
        found: list[list[float]] = []
        with evaluating(self.model):
            for start in range(0, len(contexts), self.batch_size):
                rows = slice(start, start + self.batch_size)
                found += self._scored(contexts[rows], actions[rows])
        return found

    def _scored(self, contexts: Sequence[Context], actions: Sequence[Sequence[str]]) -> list[list[float]]:
        begin = self.form.ids(ACT)
        prompts = [
            self.form.prompt_ids(c.goal, c.history, c.observation, self.history) + begin for c in contexts
        ]
        prompt_ids, prompt_mask = (x.to(self.model.device) for x in left_pad(prompts, 0))
        written = [self.form.ids(f"{action} {EOS}") for names in actions for action in names]
        # Padded on the right: turned round, padded on the left, and turned back.
        ids, mask = (x.flip(-1).to(self.model.device) for x in left_pad([w[::-1] for w in written], 0))
        sizes = [len(names) for names in actions]
        of_row = torch.repeat_interleave(torch.arange(len(sizes)), torch.tensor(sizes)).to(ids.device)
        logprobs = continuation_logprobs(self.model, prompt_ids, prompt_mask, of_row, ids, mask)
        sums: Tensor = sequence_logprobs(logprobs, mask)
        return [part.tolist() for part in sums.split(sizes)]

    def guess(self, contexts: Sequence[Context]) -> list[Guess]:
        """A guide of `labkit.agents.mcts`: the admissible actions, with softmax(log π / T) as priors."""
        actions = [context.world.admissible_actions() for context in contexts]
        return [
            Guess(names, tuple(torch.tensor(scores).div(self.temperature).softmax(0).tolist()))
            for names, scores in zip(actions, self.scores(contexts, actions), strict=True)
        ]
