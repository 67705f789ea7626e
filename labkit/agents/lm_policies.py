"""Language models as policies: a tiny one that writes, and any one that scores the admissible actions."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from transformers import PreTrainedModel, PreTrainedTokenizerBase, PreTrainedTokenizerFast

from labkit.agents.forms import TextForm, WordForm
from labkit.agents.history import FULL, History
from labkit.agents.react import Context, Written
from labkit.agents.words import ACT, OBS, THINK
from labkit.lm.sampling import STOP, SamplingConfig, evaluating, left_pad, sample
from labkit.lm.scoring import sequence_logprobs
from labkit.lm.shared_prompt import continuation_logprobs

LONGEST_STEP = 48
"""Tokens of a thought and an action at the most; the longest that an expert writes has 40."""


class TinyPolicy:
    """A tiny model that writes thought and action, token by token, for all episodes at once.

    It stops at `<eos>`; at `<obs>` as well, where it begins to invent an observation.
    """

    def __init__(
        self,
        model: PreTrainedModel,
        tokenizer: PreTrainedTokenizerFast,
        history: History = FULL,
        sampling: SamplingConfig | None = None,
        thoughts: bool | None = None,
        name: str = "tiny",
        batch_size: int = 64,
    ) -> None:
        """`history`: what of h_t it is shown; it must be what the model was trained with. `sampling`: greedy
        by default. `thoughts`: True has it begin with a thought, False with an action; None leaves the choice
        to the model. `batch_size`: prompts run at a time.
        """
        self.model, self.form, self.history, self.name = model, WordForm(tokenizer), history, name
        self.sampling = sampling or SamplingConfig(LONGEST_STEP, greedy=True)
        self.batch_size = batch_size
        self._begin = self.form.ids({True: THINK, False: ACT, None: ""}[thoughts])
        self._stop = self.form.ids(OBS)

    def write(self, contexts: Sequence[Context], generator: torch.Generator) -> list[Written]:
        prompts = [
            self.form.prompt_ids(c.goal, c.history, c.observation, self.history) + self._begin
            for c in contexts
        ]
        written: list[Written | None] = [None] * len(prompts)
        # Of like length together, so that little is padded.
        order = sorted(range(len(prompts)), key=lambda i: len(prompts[i]))
        for start in range(0, len(order), self.batch_size):
            rows = order[start : start + self.batch_size]
            samples = sample(
                self.model,
                [prompts[i] for i in rows],
                self.sampling,
                generator=generator,
                stop_sequences=[[self._stop]] * len(rows),
            )
            logprobs = samples.logprobs.tolist()
            for i, ids, scores, reason in zip(
                rows, samples.completions(), logprobs, samples.stop_reasons, strict=True
            ):
                text = self.form.text([*self._begin, *ids])
                # What begins an observation is told by the text, and is no part of the step.
                ids = ids[:-1] if reason == STOP else ids
                scores = scores[: len(ids)]
                given = [0.0] * len(self._begin)  # not sampled, so sure
                written[i] = Written(text, (*self._begin, *ids), (*given, *scores))
        return written


class ScoringPolicy:
    """Any language model: takes the admissible action that it finds likeliest after the prompt.

    The prompt is ReAct's text; `instruction` stands before it. For a model with a chat template it is the
    user's turn. The actions are continuations of one prompt, which is run once. No thoughts: only what is
    admissible is compared, so that this policy has no format failures and no inadmissible actions.
    """

    def __init__(
        self,
        model: PreTrainedModel,
        tokenizer: PreTrainedTokenizerBase,
        instruction: str = "",
        history: History = FULL,
        per_token: bool = True,
        name: str = "scored",
    ) -> None:
        """`per_token`: compare mean log-probs of the tokens; else sums, which favour short actions."""
        self.model, self.tokenizer, self.name = model, tokenizer, name
        self.instruction, self.history, self.per_token = instruction, history, per_token
        self.form = TextForm()

    def write(self, contexts: Sequence[Context], generator: torch.Generator) -> list[Written]:
        return [Written(self.form.write("", self._best(context))) for context in contexts]

    def _best(self, context: Context) -> str:
        actions = context.world.admissible_actions()
        scores = self.scores(self.prompt(context), actions)
        return actions[int(scores.argmax())]

    def prompt(self, context: Context) -> str:
        """The text before the action."""
        text = self.form.prompt(context.goal, context.history, context.observation, self.history)
        if self.instruction:
            text = f"{self.instruction}\n\n{text}"
        if not getattr(self.tokenizer, "chat_template", None):
            return f"{text}Action:"
        turn = [{"role": "user", "content": text}]
        return (
            self.tokenizer.apply_chat_template(turn, tokenize=False, add_generation_prompt=True) + "Action:"
        )

    @torch.no_grad()
    def scores(self, prompt: str, actions: Sequence[str]) -> torch.Tensor:
        """Log-prob of each action after the prompt, `[actions]`, in nats (a token, with `per_token`)."""
        # A template writes the special tokens itself.
        special = not getattr(self.tokenizer, "chat_template", None)
        device = self.model.device
        ids = torch.tensor([self.tokenizer(prompt, add_special_tokens=special)["input_ids"]], device=device)
        tokens = [self.tokenizer(f" {a}", add_special_tokens=False)["input_ids"] for a in actions]
        padded, mask = (x.flip(-1).to(device) for x in left_pad([t[::-1] for t in tokens], 0))
        rows = torch.zeros(len(actions), dtype=torch.long, device=device)
        with evaluating(self.model):
            logprobs = continuation_logprobs(
                self.model, ids, torch.ones_like(ids, dtype=torch.bool), rows, padded, mask
            )
        sums = sequence_logprobs(logprobs, mask)
        return sums / mask.sum(-1) if self.per_token else sums
