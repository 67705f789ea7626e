"""What the speed comparisons train and sample on: the same prompts, sizes and precision for both sides."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from transformers import PreTrainedModel, PreTrainedTokenizerFast

    from labkit.envs.points24.play import Codec

Reward = Callable[..., Sequence[float]]
"""TRL's signature: called with `prompts`, `completions` (text) and `completion_ids` among its keywords."""


def distinct_tokens(completion_ids: Sequence[Sequence[int]], **columns: Any) -> list[float]:
    """How many different tokens a completion has: a reward that costs nothing and differs in every group."""
    return [float(len(set(ids))) for ids in completion_ids]


@lru_cache(maxsize=1)
def _points24() -> tuple[Codec, tuple[tuple[int, ...], ...]]:
    """The tiny model's codec, and the hands of its workload."""
    from labkit.envs.points24 import compact
    from labkit.envs.points24.data import split_hands
    from labkit.envs.points24.play import Codec
    from labkit.lm.tokenizer import word_tokenizer

    return Codec(word_tokenizer(compact.VOCABULARY)), tuple(split_hands().train[:16])


def makes_24(prompts: Sequence[str], completion_ids: Sequence[Sequence[int]], **columns: Any) -> list[float]:
    """1 for a completion that makes 24 of its hand, else 0: the game's own reward.

    `prompts` are numbers of the workload's prompts, as text.
    """
    from labkit.envs.points24 import compact
    from labkit.envs.points24.rules import FACES_AS_TEN

    codec, hands = _points24()
    return [
        float(compact.grade(codec.decode(ids), hands[int(prompt)], FACES_AS_TEN).correct)
        for prompt, ids in zip(prompts, completion_ids, strict=True)
    ]


@dataclass(frozen=True)
class Workload:
    """What is sampled and trained on, the same for both sides."""

    folder: Path
    """Folder of the model and its tokenizer, as `save_pretrained` writes it."""
    prompts: tuple[tuple[int, ...], ...]
    """Token ids of the prompts of one step."""
    group_size: int
    """Completions of each prompt."""
    max_new_tokens: int
    """Longest completion in tokens."""
    micro_batch_size: int
    """Rows a forward and backward pass; divides the rows of a step."""
    dtype: str = "float32"
    """Of the model: `float32` or `bfloat16`. peft makes the weights of adapters float32 in both cases."""
    lora_rank: int = 0
    """Rank of adapters on all linear layers but the output; 0 trains the model itself."""
    loss_type: str = "dapo"
    """TRL's name: `dapo` is the mean over all tokens, `grpo` the mean of the rows' means."""
    learning_rate: float = 1e-5
    """Of AdamW, constant."""
    reward: Reward = distinct_tokens
    """Reward function, at the top of a module."""
    threads: int = 1
    """CPU threads."""

    @property
    def rows(self) -> int:
        """Completions a step."""
        return len(self.prompts) * self.group_size


@dataclass(frozen=True)
class StepTimes:
    """Of each timed step, in order."""

    seconds: tuple[float, ...]
    """The whole step."""
    sampling_seconds: tuple[float, ...]
    """Of that, until the completions were there."""
    completion_tokens: tuple[int, ...]
    """Tokens sampled, end-of-sequence tokens included, padding not."""
    resident_bytes: int
    """Memory held with libraries and model loaded, before the first step."""
    peak_bytes: int = 0
    """Most memory ever held, by the process that did nothing else."""

    @property
    def training_seconds(self) -> tuple[float, ...]:
        """The rest of each step: reward, forward and backward passes, update."""
        return tuple(a - b for a, b in zip(self.seconds, self.sampling_seconds, strict=True))


def points24_workload(threads: int = 1) -> Workload:
    """The tiny 24-point model in float32: 16 prompts x 16 completions, as the study trains it."""
    from labkit.envs.points24.rules import FACES_AS_TEN
    from labkit.studies.points24.base import base_folder

    codec, hands = _points24()
    return Workload(
        folder=base_folder("two-rules"),
        prompts=tuple(map(tuple, codec.prompts(hands, FACES_AS_TEN))),
        group_size=16,
        max_new_tokens=32,
        micro_batch_size=64,
        learning_rate=1e-4,
        reward=makes_24,
        threads=threads,
    )


def smollm_workload(
    num_prompts: int = 8,
    group_size: int = 8,
    max_new_tokens: int = 32,
    prompt_tokens: int = 229,
    dtype: str | None = None,
    threads: int = 1,
) -> Workload:
    """SmolLM2-135M with LoRA of rank 8, asked in English to mend an answer to a 24-point task.

    A prompt is the last `prompt_tokens` tokens of task, answer (the cards added up) and feedback, a chat.

    `dtype` None takes the faster one on this machine; where bfloat16 is emulated, it is slower by far.
    Fewer and shorter prompts and completions make a quick one. Raises `ValueError` for more tokens than
    the tasks have.
    """
    from transformers import PreTrainedTokenizerFast

    from labkit.envs.points24.data import split_hands
    from labkit.envs.points24.forms import JSON
    from labkit.envs.points24.rules import FACES_AS_TEN, RANKS
    from labkit.lm.runtime import choose_dtype
    from labkit.lm.smollm import smollm_folder

    folder = smollm_folder()
    tokenizer = PreTrainedTokenizerFast.from_pretrained(folder)
    prompts = []
    for hand in split_hands().train[:num_prompts]:
        values = FACES_AS_TEN.values(hand)
        answer = json.dumps(
            {
                "cards": [RANKS[rank - 1] for rank in hand],
                "number": values,
                "formula": "+".join(map(str, values)),
            }
        )
        outcome = JSON.grade(answer, hand, FACES_AS_TEN, 24).outcome
        chat = [
            {"role": "user", "content": JSON.prompt(hand, FACES_AS_TEN, 24, 0)},
            {"role": "assistant", "content": answer},
            {"role": "user", "content": JSON.feedback(outcome)},
        ]
        text = tokenizer.apply_chat_template(chat, tokenize=False, add_generation_prompt=True)
        ids = tokenizer(text)["input_ids"]
        if len(ids) < prompt_tokens:
            raise ValueError(
                f"prompt_tokens is {prompt_tokens}, but a task has only {len(ids)}; ask for fewer"
            )
        prompts.append(tuple(ids[-prompt_tokens:]))
    return Workload(
        folder=folder,
        prompts=tuple(prompts),
        group_size=group_size,
        max_new_tokens=max_new_tokens,
        micro_batch_size=min(8, num_prompts * group_size),
        dtype=dtype or str(choose_dtype()).removeprefix("torch."),
        lora_rank=8,
        threads=threads,
    )


def check(workload: Workload, repeats: int) -> None:
    """Raise `ValueError` for a workload that cannot be split as it says, or nothing to time."""
    if repeats < 1:
        raise ValueError(f"{repeats} timed repetitions asked for; at least 1 is needed")
    if workload.rows % workload.micro_batch_size:
        raise ValueError(
            f"{len(workload.prompts)} prompts x {workload.group_size} completions do not split into "
            f"micro-batches of {workload.micro_batch_size}; TRL needs a divisor of {workload.rows}"
        )


def load(workload: Workload) -> tuple[PreTrainedModel, PreTrainedTokenizerFast]:
    """The workload's model (in its dtype, eval mode, without adapters) and tokenizer."""
    from transformers import AutoModelForCausalLM, PreTrainedTokenizerFast
    from transformers.utils import logging

    logging.disable_progress_bar()
    model = AutoModelForCausalLM.from_pretrained(workload.folder, dtype=workload.dtype)
    return model.eval(), PreTrainedTokenizerFast.from_pretrained(workload.folder)
