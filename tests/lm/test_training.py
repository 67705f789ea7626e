import math

import numpy as np
import pytest
import torch

from labkit.envs.judging import Judgement
from labkit.lm.models import num_parameters
from labkit.lm.sft import collate, sft_algorithm
from labkit.lm.training import (
    OptimizerConfig,
    StopTraining,
    TrainState,
    learning_rate_at,
    micro_batches,
    train,
)
from labkit.rl.config import RLConfig
from labkit.rl.trainer import policy_gradient_algorithm
from tests.tiny import BOS, EOS, PAD, A, B, C, gpt2, llama

STEPS = 5


def sft():
    """Random targets each step, so that the numbers depend on the generator."""

    def next_batch(state):
        targets = torch.randint(A, C + 1, (6, 3), generator=state.generator).tolist()
        return collate([([BOS, *t, EOS], [False] + [True] * 4) for t in targets], PAD)

    return sft_algorithm(next_batch, micro_batch_size=4)


def grpo(**settings):
    def next_prompts(state):
        rng = state.python_random()
        prompts = [[BOS, rng.choice([A, B, C])] for _ in range(3)]
        return prompts, lambda rows, completions: [Judgement(float(c[0] == A)) for c in completions]

    config = RLConfig(group_size=4, max_new_tokens=3, epochs=2, updates_per_epoch=2, **settings)
    return policy_gradient_algorithm(config, next_prompts)


def new_state(seed=0, **settings):
    config = OptimizerConfig(**{"learning_rate": 3e-3, "warmup_steps": 2, "schedule": "cosine", **settings})
    return TrainState.start(llama(), config, STEPS, seed)


@pytest.mark.parametrize("make", [sft, grpo])
@pytest.mark.parametrize("stop_at", [1, 3])
def test_interrupt_and_resume_gives_the_same_numbers_bit_for_bit(make, stop_at, tmp_path):
    whole = train(new_state(), make())
    train(first := new_state(), make(), until=stop_at)
    first.save(tmp_path / "state")
    second = new_state(seed=99)  # whatever a new process would start with
    second.load(tmp_path / "state")
    train(second, make())
    assert second.history == whole.history
    assert (second.tokens_trained, second.tokens_sampled) == (whole.tokens_trained, whole.tokens_sampled)
    assert torch.equal(second.generator.get_state(), whole.generator.get_state())
    for (name, ours), expected in zip(
        second.model.state_dict().items(), whole.model.state_dict().values(), strict=True
    ):
        assert torch.equal(ours, expected), f"{name} differs after resuming"


@pytest.mark.parametrize("make", [sft, grpo])
def test_the_same_seed_trains_the_same_model_and_another_seed_another(make):
    histories = [train(new_state(seed), make()).history for seed in (0, 0, 1)]
    assert histories[0] == histories[1]
    assert histories[0] != histories[2]


@pytest.mark.parametrize("make", [sft, grpo])
def test_every_parameter_moves(make):
    # Pitfall 24: a run with an empty optimiser group looks like training.
    state = new_state(learning_rate=1e-2)
    before = {name: p.detach().clone() for name, p in state.model.named_parameters()}
    train(state, make())
    still = [name for name, p in state.model.named_parameters() if torch.equal(p, before[name])]
    assert not still, f"training left {still} as they were"


def test_frozen_parameters_stay_and_a_wholly_frozen_model_is_an_error():
    model = llama()
    model.requires_grad_(False)
    with pytest.raises(ValueError, match="nothing can be trained"):
        TrainState.start(model, OptimizerConfig(), STEPS, seed=0)
    last = model.model.layers[-1]
    last.requires_grad_(True)
    before = {name: p.detach().clone() for name, p in model.named_parameters()}
    train(TrainState.start(model, OptimizerConfig(), STEPS, seed=0), sft())
    moved = {name for name, p in model.named_parameters() if not torch.equal(p, before[name])}
    assert moved == {f"model.layers.1.{name}" for name, _ in last.named_parameters()}


def test_learning_rates_by_hand():
    constant = OptimizerConfig(learning_rate=1.0, warmup_steps=4)
    assert [learning_rate_at(constant, s, 8) for s in range(8)] == [0.25, 0.5, 0.75, 1, 1, 1, 1, 1]
    cosine = OptimizerConfig(learning_rate=2.0, warmup_steps=2, schedule="cosine")
    expected = [1.0, 2.0, 2.0, 2 * (0.1 + 0.45 * (1 + math.sqrt(0.5))), 2 * 0.55]
    assert [learning_rate_at(cosine, s, 6) for s in range(5)] == pytest.approx(expected)
    assert learning_rate_at(cosine, 6, 6) == learning_rate_at(cosine, 60, 6) == pytest.approx(0.2)
    assert learning_rate_at(OptimizerConfig(warmup_steps=3, schedule="cosine"), 3, 3) == pytest.approx(1e-3)


def test_each_step_uses_the_rate_of_the_schedule():
    state, used = new_state(), []
    train(state, sft(), callbacks=[lambda s: used.append(s.optimizer.param_groups[0]["lr"])])
    assert used == [learning_rate_at(state.config, step, STEPS) for step in range(STEPS)]


def test_gradients_are_clipped_to_the_norm_and_the_norm_before_is_returned():
    weight = torch.nn.Parameter(torch.zeros(2))
    config = OptimizerConfig(learning_rate=1.0, max_grad_norm=0.5)
    state = TrainState(torch.nn.Module(), torch.optim.SGD([weight], lr=9.0), config, 1, torch.Generator())
    weight.grad = torch.tensor([3.0, 4.0])
    assert state.update() == 5.0
    torch.testing.assert_close(weight.detach(), torch.tensor([-0.3, -0.4]))
    assert weight.grad is None, "gradients left over would be added to the next step's"


def test_a_callback_ends_training_cleanly_and_training_can_go_on():
    def stop_after_two(state):
        if state.step == 2:
            raise StopTraining

    state = train(new_state(), sft(), callbacks=[stop_after_two])
    assert state.step == len(state.history) == 2
    assert train(state, sft()).history == train(new_state(), sft()).history


def test_callbacks_see_the_step_just_done_and_their_metrics_are_kept(tmp_path):
    state = new_state()

    def measure(state):
        assert not state.model.training, "a callback measures, so dropout is off"
        state.history[-1]["accuracy"] = np.float64(state.step) / 10

    train(state, sft(), callbacks=[measure])
    state.save(tmp_path / "state")
    other = new_state()
    other.load(tmp_path / "state")
    assert [row["step"] for row in other.history] == [1, 2, 3, 4, 5]
    assert [row["accuracy"] for row in other.history] == [0.1, 0.2, 0.3, 0.4, 0.5]


def test_the_model_is_in_training_mode_while_an_algorithm_runs():
    modes = []
    state = TrainState.start(gpt2(dropout=0.1), OptimizerConfig(), 2, seed=0)
    train(state, lambda state: modes.append(state.model.training) or {})
    assert modes == [True, True]


def test_other_errors_of_a_callback_are_not_swallowed():
    def broken(state):
        raise KeyError("accuracy")

    with pytest.raises(KeyError):
        train(new_state(), sft(), callbacks=[broken])


def test_compute_is_six_nd_for_training_and_two_nd_for_sampling():
    state = new_state()
    train(state, grpo())
    n = num_parameters(state.model)
    assert state.compute(n) == n * (6 * state.tokens_trained + 2 * state.tokens_sampled)
    # Two epochs train on each sampled token at the most twice; groups without signal are not trained on.
    assert 0 < state.tokens_trained <= 2 * state.tokens_sampled


@pytest.mark.parametrize(("rows", "size", "sizes"), [(5, 2, [2, 2, 1]), (4, 4, [4]), (3, 8, [3]), (0, 4, [])])
def test_micro_batches_cover_the_rows_in_order(rows, size, sizes):
    pieces = micro_batches(torch.arange(rows), size)
    assert [len(piece) for piece in pieces] == sizes
    assert [int(row) for piece in pieces for row in piece] == list(range(rows))


def test_parameters_under_a_name_learn_at_their_own_rate() -> None:
    model = torch.nn.ModuleDict({"body": torch.nn.Linear(1, 1), "head": torch.nn.Linear(1, 1)})
    config = OptimizerConfig(learning_rate=1e-3, max_grad_norm=math.inf)
    state = TrainState.start(model, config, 1, seed=0, rate_factors={"head.": 10.0})
    before = {name: p.detach().clone() for name, p in model.named_parameters()}
    sum(p.sum() for p in model.parameters()).backward()
    state.update()
    # Adam's first step is the learning rate, whatever the gradient.
    moved = {name: (before[name] - p).abs().item() for name, p in model.named_parameters()}
    assert moved["body.weight"] == pytest.approx(1e-3, rel=1e-3)
    assert moved["head.weight"] == pytest.approx(1e-2, rel=1e-3)


def test_a_rate_for_a_name_that_no_parameter_has_is_refused() -> None:
    with pytest.raises(ValueError, match="begins with"):
        TrainState.start(torch.nn.Linear(1, 1), OptimizerConfig(), 1, seed=0, rate_factors={"critic.": 2.0})
