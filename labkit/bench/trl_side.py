"""TRL's side of the speed comparisons: a step of its GRPOTrainer, and transformers' `generate`.

Set up so that only the implementation differs from ours: the same weights in the same dtype, the same
prompts as token ids, plain sampling at temperature 1 (top-k, which transformers sets to 50 by default,
is off), the end-of-sequence token ends a row, one update a step on what was just sampled, no KL, no
gradient checkpointing, no mixed precision, nothing logged, saved or evaluated. That the mathematics
agree is tested elsewhere (tests/rl/test_trl_parity.py).

What remains different is TRL's design: it prefills each of the `group_size` copies of a prompt, decodes
until the last row has ended, scores rows under prompt padding, and trains on groups without signal.
"""

from __future__ import annotations

import statistics
import tempfile
import time
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from labkit.bench.fresh import in_fresh_process, resident_bytes
from labkit.bench.workloads import StepTimes, Workload, check, load

if TYPE_CHECKING:
    import torch
    from transformers import PreTrainedModel, PreTrainedTokenizerFast


def trl_grpo(workload: Workload, steps: int = 1, warmup: int = 1) -> StepTimes:
    """Time `steps` steps of TRL's GRPOTrainer after `warmup` untimed ones, in a process of their own.

    Raises `ValueError` for a workload that cannot be split as it says.
    """
    check(workload, steps)
    fresh = in_fresh_process(trl_grpo_here, workload, steps, warmup, threads=workload.threads)
    return replace(fresh.result, peak_bytes=fresh.peak_bytes)


def generate_rate(workload: Workload, repeats: int = 3) -> float:
    """Tokens a second of `model.generate` on the workload's rows: median of `repeats`, after a warm-up.

    Counted are the tokens of completions, as far as their end-of-sequence token.
    """
    check(workload, repeats)
    return in_fresh_process(generate_rate_here, workload, repeats, threads=workload.threads).result


def trl_grpo_here(workload: Workload, steps: int, warmup: int) -> StepTimes:
    """`trl_grpo` in this process and with the threads it has; `peak_bytes` stays 0."""
    from datasets import Dataset

    model, tokenizer = load(workload)
    before = resident_bytes()
    with tempfile.TemporaryDirectory(prefix="labkit-trl-") as folder:
        trainer = _timed_trainer_class()(
            model=model,
            reward_funcs=workload.reward,
            args=_trl_config(workload, steps + warmup, folder),
            # Text is all that TRL takes as a prompt; the trainer looks the ids up by it.
            train_dataset=Dataset.from_dict({"prompt": [str(i) for i in range(len(workload.prompts))]}),
            processing_class=tokenizer,
            peft_config=lora_config(workload),
        )
        trainer.prompts = workload.prompts
        trainer.train()
    times = trainer.times[warmup:]
    return StepTimes(
        tuple(t["seconds"] for t in times),
        tuple(t["sampling"] for t in times),
        tuple(t["tokens"] for t in times),
        before,
    )


def generate_rate_here(workload: Workload, repeats: int) -> float:
    """`generate_rate` in this process and with the threads it has."""
    model, tokenizer = load(workload)
    rates = []
    for _ in range(1 + repeats):
        start = time.perf_counter()
        completions = generate(model, tokenizer, workload)
        rates.append(num_tokens(completions, tokenizer.eos_token_id) / (time.perf_counter() - start))
    return statistics.median(rates[1:])


def generate(model: PreTrainedModel, tokenizer: PreTrainedTokenizerFast, workload: Workload) -> torch.Tensor:
    """Completions `[rows, time]` of the workload by `model.generate`, settings as TRL passes them."""
    import torch
    from transformers import GenerationConfig

    config = GenerationConfig(
        max_new_tokens=workload.max_new_tokens,
        do_sample=True,
        temperature=1.0,
        top_k=0,
        top_p=1.0,
        pad_token_id=tokenizer.pad_token_id,
        bos_token_id=tokenizer.bos_token_id,
        eos_token_id=tokenizer.eos_token_id,
        disable_compile=True,
    )
    width = max(map(len, workload.prompts))
    padding = [[tokenizer.pad_token_id] * (width - len(prompt)) for prompt in workload.prompts]
    ids = torch.tensor([[*pad, *prompt] for pad, prompt in zip(padding, workload.prompts, strict=True)])
    mask = torch.tensor([[0] * len(p) + [1] * (width - len(p)) for p in padding])
    rows = torch.arange(len(ids)).repeat_interleave(workload.group_size)
    with torch.no_grad():
        output = model.generate(input_ids=ids[rows], attention_mask=mask[rows], generation_config=config)
    return output[:, width:]


def num_tokens(completions: torch.Tensor, eos_id: int) -> int:
    """Tokens of `[rows, time]` up to the first `eos_id` of each row, that one included."""
    ended_before = ((completions == eos_id).cumsum(-1) - (completions == eos_id).long()) > 0
    return int((~ended_before).sum())


def lora_config(workload: Workload) -> Any:
    """peft's configuration of the adapters, None without."""
    if not workload.lora_rank:
        return None
    from peft import LoraConfig

    rank = workload.lora_rank
    return LoraConfig(
        r=rank, lora_alpha=2 * rank, lora_dropout=0.0, target_modules="all-linear", task_type="CAUSAL_LM"
    )


def _trl_config(workload: Workload, steps: int, folder: str) -> Any:
    from trl import GRPOConfig

    return GRPOConfig(
        output_dir=folder,
        max_steps=steps,
        per_device_train_batch_size=workload.micro_batch_size,
        gradient_accumulation_steps=workload.rows // workload.micro_batch_size,
        num_generations=workload.group_size,
        max_completion_length=workload.max_new_tokens,
        loss_type=workload.loss_type,
        learning_rate=workload.learning_rate,
        lr_scheduler_type="constant",
        temperature=1.0,
        top_k=0,
        top_p=1.0,
        beta=0.0,
        # TRL's defaults would save memory and lose time, and train in another precision than we do.
        activation_checkpointing=False,
        bf16=False,
        use_cpu=True,
        dataloader_num_workers=0,
        dataloader_pin_memory=False,
        logging_strategy="no",
        save_strategy="no",
        eval_strategy="no",
        report_to=[],
        disable_tqdm=True,
    )


def _timed_trainer_class() -> type:
    # Made on demand: importing TRL takes seconds, and every benchmark's module is imported to list them.
    from transformers import PrinterCallback, TrainerCallback
    from trl import GRPOTrainer

    class StepClock(TrainerCallback):
        def __init__(self, times: list[dict[str, float]]) -> None:
            self.times = times

        def on_step_begin(self, *args: Any, **kwargs: Any) -> None:
            self.times.append({"seconds": -time.perf_counter(), "sampling": 0.0, "tokens": 0})

        def on_step_end(self, *args: Any, **kwargs: Any) -> None:
            self.times[-1]["seconds"] += time.perf_counter()

    class TimedGRPOTrainer(GRPOTrainer):
        """TRL's trainer on prompts given as ids, with a clock at the step and around sampling."""

        prompts: tuple[tuple[int, ...], ...]

        def __init__(self, **arguments: Any) -> None:
            super().__init__(**arguments)
            self.times: list[dict[str, float]] = []
            self.add_callback(StepClock(self.times))
            self.remove_callback(PrinterCallback)  # standard output belongs to the benchmark's own table

        def _tokenize_prompts(self, prompts: list[str]) -> tuple[list[list[int]], None, dict]:
            return [list(self.prompts[int(i)]) for i in prompts], None, {}

        def _generate_single_turn(self, *args: Any, **kwargs: Any) -> Any:
            start = time.perf_counter()
            result = super()._generate_single_turn(*args, **kwargs)
            self.times[-1]["sampling"] += time.perf_counter() - start
            self.times[-1]["tokens"] += sum(map(len, result[0]))
            return result

    return TimedGRPOTrainer
