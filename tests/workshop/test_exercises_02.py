"""What is particular to the exercises of notebook 02; what holds of all is in test_exercises."""

from __future__ import annotations

import ast
import itertools

import pytest
import torch

from labkit.workshop import exercises
from labkit.workshop.exercises_02 import (
    cispo,
    clip_loss,
    gae,
    gradients,
    grpo_bug_hunt,
    kl_k3,
    policy_gradient_loss,
    rloo,
    sequence_ratio,
    token_weights,
)


def test_notebook_02_has_its_exercises_in_order():
    assert [e.id for e in exercises.of_notebook("02")] == [
        "02.policy_gradient_loss",
        "02.clip_loss",
        "02.gae",
        "02.rloo",
        "02.token_weights",
        "02.which_groups",
        "02.kl_k3",
        "02.sequence_ratio",
        "02.cispo",
        "02.spot_slip",
        "02.grpo_bug_hunt",
    ]


@pytest.mark.parametrize(
    ("wanted", "mistakes"),
    [
        pytest.param(*each, id=name)
        for name, each in {
            "policy_gradient_loss": (
                [-g for g in policy_gradient_loss.exact_gradient()],
                policy_gradient_loss.loss_gradients(),
            ),
            "clip_loss": (clip_loss.loss_by_cases(), clip_loss.clip_mistakes()),
            "gae": (
                [a for e in gae.EPISODES for a in gae.advantages_by_double_sum(e)],
                gae.advantage_mistakes(),
            ),
            "rloo": (rloo.leave_one_out(rloo.REWARDS, rloo.GROUP_SIZE), rloo.rloo_mistakes()),
            "kl_k3": (kl_k3.k3_by_hand(), kl_k3.estimate_mistakes()),
            "sequence_ratio": (sequence_ratio.ratios_by_geometric_mean(), sequence_ratio.ratio_mistakes()),
            "cispo": (cispo.loss_and_gradient()[0], cispo.value_mistakes()),
            "grpo_bug_hunt": (
                [grpo_bug_hunt.loss_by_loop(grpo_bug_hunt.batch()[0])],
                grpo_bug_hunt.loss_mistakes(),
            ),
            **{
                mode: (token_weights.weights_by_counting(mode), token_weights.weight_mistakes(mode))
                for mode in token_weights.MODES
            },
        }.items()
    ],
)
def test_each_mistake_of_notebook_02_gives_numbers_of_its_own(wanted, mistakes):
    numbers = {"right": wanted} | {name: list(found) for name, found in mistakes.items()}
    for (one, a), (other, b) in itertools.combinations(numbers.items(), 2):
        # Two ways of writing the same mistake may give the same numbers.
        if one.partition(" ")[0] != other.partition(" ")[0]:
            assert max(abs(x - y) for x, y in zip(a, b, strict=True)) > 1e-5, (one, other)


def test_the_oracle_of_the_bug_hunt_finds_the_stub_wrong_in_three_ways():
    namespace = {}
    exec(exercises.get("02.grpo_bug_hunt").stub, namespace)
    new, old, rewards, mask = grpo_bug_hunt.batch()
    loss = namespace["my_grpo_loss"](new, old, rewards, mask, grpo_bug_hunt.GROUP_SIZE, 0.2, 0.28)
    bugs = "batch_statistics+clip_on_product+padding_counted"
    assert float(loss) == pytest.approx(grpo_bug_hunt.loss_mistakes()[bugs][0], abs=1e-9)


@pytest.mark.parametrize("exercise", exercises.of_notebook("02"), ids=lambda e: e.id)
def test_a_stub_run_as_a_notebook_runs_it_counts_as_untouched(exercise):
    # A notebook compiles a cell's statements one by one; beside an import the same call compiles differently.
    namespace = {}
    for statement in ast.parse(exercise.stub).body:
        exec(compile(ast.Module([statement], []), "<cell>", "exec"), namespace)
    assert not exercise.check(namespace[exercise.answer_name]).attempted


def test_the_bug_hunts_clip_silences_the_best_completions_before_anything_has_moved():
    namespace = {}
    exec(exercises.get("02.grpo_bug_hunt").stub, namespace)
    logprobs = torch.full((4, 2), -1.0, dtype=torch.float64, requires_grad=True)
    rewards = torch.tensor([1.0, 0.0, 0.0, 0.0], dtype=torch.float64)  # advantages 1.5 and three of -0.5
    loss = namespace["my_grpo_loss"](logprobs, logprobs.detach(), rewards, torch.ones(4, 2), 4, 0.2, 0.28)
    best, *others = torch.autograd.grad(loss, logprobs)[0].abs().sum(-1).tolist()
    assert best == 0 and min(others) > 0


def test_a_gradient_that_does_not_flow_is_named():
    for answer in (lambda x: x.detach(), lambda x: 1.0, lambda x: torch.ones(1, requires_grad=True)):
        with pytest.raises(exercises.Mistake, match="no gradient flows"):
            gradients.gradient_of(answer, [1.0, 2.0], lambda leaf: (leaf,))
    doubled = gradients.gradient_of(lambda x: x**2, [1.0, 2.0], lambda leaf: (leaf,), weights=0.5)
    assert doubled.tolist() == [1.0, 2.0]
