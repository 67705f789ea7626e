"""labkit's losses against the loss of TRL's trainer, on the same rollouts and stored log-probs."""

import pytest
import torch
from datasets import Dataset

from labkit.envs.judging import Judgement
from labkit.rl.config import RLConfig
from labkit.rl.updates import score_rollouts
from tests.rl.steps import one_step
from tests.tiny import BOS, A, B, C, D, E, llama, tokenizer

trl = pytest.importorskip("trl")

PROMPTS = [[BOS, A], [BOS, B, C, D], [BOS, E, A]]
GROUP, LENGTH = 4, 5
CLIP = {"clip_low": 0.2, "clip_high": 0.28}
VARIANTS = {
    # our settings, TRL's
    "grpo": ({"aggregation": "sequence_mean_token_mean"}, {"loss_type": "grpo"}),
    "bnpo": ({"aggregation": "token_mean"}, {"loss_type": "bnpo"}),
    "dapo": ({"aggregation": "token_mean"}, {"loss_type": "dapo"}),
    "dr_grpo": ({"aggregation": "sequence_mean_token_sum_norm"}, {"loss_type": "dr_grpo"}),
    "dual_clip": ({"dual_clip": 1.3}, {"loss_type": "grpo", "delta": 1.3}),
    "gspo": (
        {"ratio": "sequence", "clip_low": 0.05, "clip_high": 0.06},
        {"loss_type": "grpo", "importance_sampling_level": "sequence", "epsilon": 0.05, "epsilon_high": 0.06},
    ),
    # Ours is a distance from 1, as elsewhere; TRL's is the bound itself.
    "cispo": (
        {"loss": "cispo", "clip_high": 0.28, "aggregation": "token_mean"},
        {"loss_type": "cispo", "epsilon_high": 1.28},
    ),
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
    def make(beta, temperature, turns, **settings):
        args = trl.GRPOConfig(
            output_dir=str(tmp_path_factory.mktemp("trl")),
            **{
                "temperature": temperature,
                "epsilon": 0.2,
                "epsilon_high": 0.28,
                "max_completion_length": LENGTH * turns,
                "num_generations": GROUP,
                "per_device_train_batch_size": GROUP,
                # Not DeepSeekMath's GRPO, and on by default.
                "use_bias_correction_kl": False,
                "bf16": False,
                "activation_checkpointing": False,
                "use_cpu": True,
                "report_to": [],
                **settings,
            },
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
    groups = rollouts.rewards.view(-1, GROUP)
    advantages = (groups - groups.mean(1, keepdim=True)) / (groups.std(1, keepdim=True) + 1e-4)
    prompts = torch.arange(len(PROMPTS)).repeat_interleave(GROUP)
    return {
        "prompt_ids": rollouts.prompt_ids[prompts],
        "prompt_mask": rollouts.prompt_mask[prompts].long(),
        "completion_ids": rollouts.ids,
        "completion_mask": rollouts.mask.long(),
        "tool_mask": rollouts.completion_mask.long(),
        "advantages": advantages.flatten(),
        "old_per_token_logps": rollouts.logprobs,
        "ref_per_token_logps": reference_logprobs,
        "num_items_in_batch": rollouts.completion_mask.sum(),
    }


def assert_parity(trainer_of, ours, theirs, beta=0.0, temperature=1.0, turns=1, slack=1e-5):
    config = RLConfig(
        **{
            "group_size": GROUP,
            "max_new_tokens": LENGTH,
            "max_turns": turns,
            "temperature": temperature,
            "epochs": 3,  # from the second on, ratios differ from 1 and the clip acts
            "kl_coef": beta,
            "micro_batch_size": 5,
            **CLIP,
            **ours,
        }
    )
    step = one_step(
        llama(), config, PROMPTS, second_try if turns > 1 else judge, reference=llama(1), learning_rate=3e-3
    )
    assert step.metrics["groups_without_signal"] < 1
    trainer = trainer_of(beta, temperature, turns, **theirs)
    inputs = trl_inputs(step.rollouts, score_rollouts(llama(1), step.rollouts, config))
    losses = []
    for weights, gradients in zip(step.weights, step.gradients, strict=True):
        trainer.model.load_state_dict(weights)
        trainer.model.zero_grad()
        loss = trainer._compute_loss(trainer.model, inputs)
        loss.backward()
        losses.append(loss.item())
        for name, parameter in trainer.model.named_parameters():
            difference = (gradients[name] - parameter.grad).abs().max().item()
            assert difference <= slack, f"gradient of {name} differs from TRL's by {difference:.1e}"
    assert step.metrics["loss"] == pytest.approx(sum(losses) / len(losses), abs=1e-5)
    return step


@pytest.mark.parametrize("variant", VARIANTS)
@pytest.mark.parametrize(
    ("beta", "temperature", "turns"), [(0.0, 1.0, 1), (0.2, 1.0, 1), (0.2, 0.7, 1), (0.0, 1.0, 2)]
)
def test_loss_and_gradient_equal_trls(variant, beta, temperature, turns, trainer_of):
    step = assert_parity(trainer_of, *VARIANTS[variant], beta, temperature, turns)
    if variant != "cispo":
        assert step.metrics["clipped"] > 0, "the clip never acted, so the test would not see it"


def test_kl_times_the_ratio_is_trls_bias_correction(trainer_of):
    # TRL's default, and not DeepSeekMath's GRPO: there the penalty is k3 alone.
    assert_parity(
        trainer_of, {"kl_with_ratio": True}, {"loss_type": "grpo", "use_bias_correction_kl": True}, 0.2
    )


def test_trls_defaults_are_not_the_grpo_of_the_paper():
    # Whoever compares with TRL must know; the notebook says so. If this fails, correct the notebook.
    defaults = trl.GRPOConfig(use_cpu=True, bf16=False)
    assert (defaults.loss_type, defaults.beta, defaults.use_bias_correction_kl) == ("dapo", 0.0, True)
    assert (defaults.num_generations, defaults.epsilon, defaults.learning_rate) == (8, 0.2, 1e-6)
    assert defaults.scale_rewards == "group"
