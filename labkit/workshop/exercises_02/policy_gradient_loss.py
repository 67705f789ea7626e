"""A loss for its gradient; the oracle is the exact gradient of a three-armed softmax policy."""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from torch import Tensor

from labkit.rl.losses import policy_gradient_loss
from labkit.workshop.checking import call, first_match, to_tensor
from labkit.workshop.exercises import OTHER, Exercise, Mistake
from labkit.workshop.exercises_02.gradients import agree, gradient_of

PROBABILITIES = (0.5, 0.2, 0.3)
REWARDS = (1.0, -0.5, 3.0)


def exact_gradient() -> list[float]:
    """`∂E[R]/∂θ_k = π_k (R_k - E[R])` of a softmax policy, in Python floats."""
    mean = math.fsum(p * r for p, r in zip(PROBABILITIES, REWARDS, strict=True))
    return [p * (r - mean) for p, r in zip(PROBABILITIES, REWARDS, strict=True)]


def _expected(weight: Callable[[float, float], float]) -> list[float]:
    """`E[weight(π_a, R_a) ∇log π_a]`, arm by arm."""
    arms = list(zip(PROBABILITIES, REWARDS, strict=True))
    return [
        math.fsum(p * weight(p, r) * ((a == k) - PROBABILITIES[k]) for a, (p, r) in enumerate(arms))
        for k in range(3)
    ]


def loss_gradients() -> dict[str, list[float]]:
    """Gradients that typical wrong answers have in expectation."""
    return {
        "sign": exact_gradient(),
        "probability": _expected(lambda p, r: -p * r),
        "reward_ignored": _expected(lambda p, r: -1.0),
        "likelihood_of_good_ones": _expected(lambda p, r: -float(r > 0)),
    }


MESSAGES = {
    "sign": "The optimiser goes *down* a loss. With your sign it makes what paid well less likely.",
    "probability": (
        "You differentiate the probability, not its logarithm. The samples already come as often as the "
        "policy draws them; a likely action now counts twice."
    ),
    "reward_ignored": (
        "The reward does not enter: you raise the likelihood of whatever was sampled, and in expectation "
        "that moves nothing."
    ),
    "likelihood_of_good_ones": (
        "Only the sign of the reward enters. (That is imitation of one's own good samples.) How good an "
        "action was must count as well."
    ),
}


def examine(answer: Callable[..., Tensor]) -> str:
    """The mean gradient over all actions, against the exact one; the loss's value is not looked at."""
    logits = torch.tensor(PROBABILITIES, dtype=torch.float64).log()
    rewards = torch.tensor(REWARDS, dtype=torch.float64)[:, None]
    result = call(answer, logits.log_softmax(-1)[:, None], rewards)
    to_tensor(result, (3, 1), "the loss of three rows with one token each")
    tokens = call(answer, torch.zeros(2, 4) - 1, torch.tensor([[1.0], [-1.0]]))
    to_tensor(tokens, (2, 4), "the loss of two rows with four tokens each, one advantage a row,")
    got = gradient_of(
        answer,
        logits,
        lambda leaf: (leaf.log_softmax(-1)[:, None], rewards),
        torch.tensor(PROBABILITIES, dtype=torch.float64)[:, None],
    ).tolist()
    wanted = [-g for g in exact_gradient()]
    if not agree(got, wanted):
        if name := first_match(got, loss_gradients()):
            raise Mistake(name, MESSAGES[name])
        numbers, right = (", ".join(f"{g:.3f}" for g in row) for row in (got, wanted))
        raise Mistake(
            OTHER, f"Averaged over the actions the gradient is ({numbers}); it should be ({right})."
        )
    return "Averaged over all actions, the gradient is that of the expected reward, computed exactly."


EXERCISE = Exercise(
    id="02.policy_gradient_loss",
    title="A loss for the sake of its gradient",
    difficulty=1,
    importance=5,
    minutes=4,
    task=r"""
Frameworks want a loss to go down; the policy gradient theorem gives a gradient to go up:
$\mathbb{E}[A\,\nabla\log\pi]$.

Write `my_policy_gradient_loss(logprobs, advantages)`: `logprobs` is `[rows, time]`, the log-probabilities
of the sampled tokens; `advantages` is `[rows, 1]` or `[rows, time]`, plain numbers. Return one loss a token
whose gradient is the score-function estimate with a minus sign. The check looks at the gradient only.
""".strip(),
    stub='''\
def my_policy_gradient_loss(logprobs, advantages):
    """One loss a token, [rows, time], whose gradient is -A times that of the log-probability."""
    raise NotImplementedError
''',
    hints=(
        "You want something whose derivative you know already. What is the derivative of A times log π, if "
        "A is a number?",
        "`logprobs` are logarithms already: nothing has to be exponentiated.",
        """\
Fill in the blanks:

```python
def my_policy_gradient_loss(logprobs, advantages):
    return -____ * ____
```""",
    ),
    solution=policy_gradient_loss,
    examine=examine,
    why=(
        "If this loss falls from 0.7 to 0.2 during training, has the policy become better?",
        "One cannot tell. The loss was made for its gradient at the samples at hand. Its value depends on "
        "how likely those samples are and on the baseline: with standardised advantages it is minus their "
        "covariance with log π, whatever the reward. Look at the reward.",
    ),
)
