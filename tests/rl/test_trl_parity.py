"""labkit's GRPO against the loss of TRL's trainer, on the same rollouts and stored log-probs."""

import pytest
import torch
from datasets import Dataset

from labkit.envs.judging import Judgement
from labkit.lm.sampling import left_pad
from labkit.rl.trainer import GRPOConfig, score_rollouts
from tests.rl.steps import one_step
from tests.tiny import BOS, PAD, A, B, C, D, E, llama, tokenizer

trl = pytest.importorskip("trl")

PROMPTS = [[BOS, A], [BOS, B, C, D], [BOS, E, A]]
GROUP, LENGTH = 4, 5
LOSS_TYPES = {
    "grpo": "sequence_mean_token_mean",
    "dapo": "token_mean",
    "dr_grpo": "sequence_mean_token_sum_norm",
}


def judge(rows, completions):
    return [Judgement(float(len(c) + (A in c) - row % 2)) for row, c in zip(rows, completions, strict=True)]


def second_try(rows, completions):
    return [
        Judgement(j.reward, (E, BOS) if row % 3 else None)
        for row, j in zip(rows, judge(rows, completions), strict=True)
    ]


@pytest.fixture(scope="module")
def trainer_of(tmp_path_factory):
    def make(loss_type, beta, temperature):
        args = trl.GRPOConfig(
            output_dir=str(tmp_path_factory.mktemp("trl")),
            loss_type=loss_type,
            temperature=temperature,
            epsilon=0.2,
            epsilon_high=0.28,
            max_completion_length=LENGTH,
            num_generations=GROUP,
            per_device_train_batch_size=GROUP,
            # Not DeepSeekMath's GRPO, and on by default.
            use_bias_correction_kl=False,
            bf16=False,
            activation_checkpointing=False,
            use_cpu=True,
            report_to=[],
        )
        trainer = trl.GRPOTrainer(
            model=llama(),
            reward_funcs=lambda completions, **columns: [0.0] * len(completions),
            args=args,
            train_dataset=Dataset.from_dict({"prompt": ["a"] * GROUP}),
            processing_class=tokenizer(),
        )
        # With beta in the arguments TRL would load the reference from a hub; its log-probs are given here.
        trainer.beta = beta
        trainer.model.eval()  # no gradient accumulation in the normaliser
        return trainer

    return make


def trl_inputs(rollouts, reference_logprobs):
    """TRL's layout: prompts padded on the left, the rest of the episode on the right."""
    lengths = [len(PROMPTS[row // GROUP]) for row in range(len(rollouts.ids))]
    width = max(int(rollouts.attention_mask[row].sum()) - n for row, n in enumerate(lengths))

    def completions(values, fill):
        rows = [values[row, n : n + width] for row, n in enumerate(lengths)]
        return torch.stack([torch.nn.functional.pad(r, (0, width - len(r)), value=fill) for r in rows])

    prompt_ids, prompt_mask = left_pad([PROMPTS[row // GROUP] for row in range(len(lengths))], PAD)
    groups = rollouts.rewards.view(-1, GROUP)
    advantages = (groups - groups.mean(1, keepdim=True)) / (groups.std(1, keepdim=True) + 1e-4)
    return {
        "prompt_ids": prompt_ids,
        "prompt_mask": prompt_mask.long(),
        "completion_ids": completions(rollouts.ids, PAD),
        "completion_mask": completions(rollouts.attention_mask, False).long(),
        "tool_mask": completions(rollouts.completion_mask, False).long(),
        "advantages": advantages.flatten(),
        "old_per_token_logps": completions(rollouts.logprobs, 0.0),
        "ref_per_token_logps": completions(reference_logprobs, 0.0),
        "num_items_in_batch": rollouts.completion_mask.sum(),
    }


@pytest.mark.parametrize("loss_type", LOSS_TYPES)
@pytest.mark.parametrize(
    ("beta", "temperature", "turns"), [(0.0, 1.0, 1), (0.2, 1.0, 1), (0.2, 0.7, 1), (0.0, 1.0, 2)]
)
def test_loss_and_gradient_equal_trls(loss_type, beta, temperature, turns, trainer_of):
    config = GRPOConfig(
        group_size=GROUP,
        max_new_tokens=LENGTH,
        max_turns=turns,
        temperature=temperature,
        epochs=3,  # from the second on, ratios differ from 1 and the clip acts
        clip_low=0.2,
        clip_high=0.28,
        kl_coef=beta,
        aggregation=LOSS_TYPES[loss_type],
        micro_batch_size=5,
    )
    step = one_step(
        llama(), config, PROMPTS, second_try if turns > 1 else judge, reference=llama(1), learning_rate=3e-3
    )
    assert step.metrics["clipped"] > 0, "the clip never acted, so the test would not see it"
    assert step.metrics["groups_without_signal"] < 1

    trainer = trainer_of(loss_type, beta, temperature)
    inputs = trl_inputs(step.rollouts, score_rollouts(llama(1), step.rollouts, config))
    losses = []
    for weights, ours in zip(step.weights, step.gradients, strict=True):
        trainer.model.load_state_dict(weights)
        trainer.model.zero_grad()
        loss = trainer._compute_loss(trainer.model, inputs)
        loss.backward()
        losses.append(loss.item())
        for name, parameter in trainer.model.named_parameters():
            difference = (ours[name] - parameter.grad).abs().max().item()
            assert difference <= 1e-5, f"gradient of {name} differs from TRL's by {difference:.1e}"
    ours = step.metrics["policy_loss"] + beta * step.metrics.get("kl", 0.0)
    assert ours == pytest.approx(sum(losses) / len(losses), abs=1e-5)
