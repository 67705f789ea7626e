"""An estimate of KL(π‖ref) from samples; the oracle is the exact divergence over the vocabulary."""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from torch import Tensor

from labkit.rl.kl import kl_estimate
from labkit.workshop.checking import call, first_match, to_tensor
from labkit.workshop.exercises import OTHER, Exercise, Mistake
from labkit.workshop.exercises_02.gradients import agree, gradient_of

POLICY = (0.5, 0.25, 0.2, 0.05)
REFERENCE = (0.1, 0.4, 0.3, 0.2)


def _each(formula: Callable[[float, float], float]) -> list[float]:
    return [formula(p, q) for p, q in zip(POLICY, REFERENCE, strict=True)]


def k3_by_hand() -> list[float]:
    """`ref/π - 1 - log(ref/π)` of each token, from the probabilities."""
    return _each(lambda p, q: q / p - 1 - math.log(q / p))


def exact_divergence() -> float:
    """`Σ π log(π/ref)` in nats."""
    return math.fsum(_each(lambda p, q: p * math.log(p / q)))


def estimate_mistakes() -> dict[str, list[float]]:
    """What typical wrong answers give for each token."""
    return {
        "direction": _each(lambda p, q: p / q - 1 - math.log(p / q)),
        "sign": [-k for k in k3_by_hand()],
        "sign_of_the_log": _each(lambda p, q: q / p - 1 + math.log(q / p)),
        "one_forgotten": _each(lambda p, q: q / p - math.log(q / p)),
        "k1": _each(lambda p, q: math.log(p / q)),
        "k2": _each(lambda p, q: 0.5 * math.log(q / p) ** 2),
        "k1 (negative)": _each(lambda p, q: math.log(q / p)),
        "not_exponentiated": _each(lambda p, q: math.log(q) / math.log(p) - 1 - math.log(q / p)),
        "times_probability": _each(lambda p, q: p * math.log(p / q)),
    }


MESSAGES = {
    "direction": (
        "Your ratio is π/ref. Averaged over tokens that π drew, that is not KL(π‖ref): the estimator needs "
        "ref/π, whose mean under π is 1."
    ),
    "sign": "A divergence is never negative, and neither is k3, on any single token. Yours is.",
    "sign_of_the_log": "The logarithm enters with the wrong sign. For r close to 1 the two "
    "parts must cancel.",
    "one_forgotten": "For π = ref the estimate must be 0. At r = 1, what does yours give?",
    "k1": "That is k1, the log-ratio itself: unbiased too, but negative on some tokens.",
    "k2": "That is k2, half the squared log-ratio: small variance, but biased.",
    "not_exponentiated": "The ratio is one of *probabilities*; you divide logarithms.",
    "times_probability": (
        "You weigh each token with its probability. Tokens that π sampled already come as often as they "
        "should; the mean over samples does the weighing."
    ),
    "wrong_gradient": (
        "The values are right, the gradient with respect to π is not: nothing in k3 stands "
        "still while π moves."
    ),
}


def examine(answer: Callable[..., Tensor]) -> str:
    """Values token by token; their mean against the exact divergence; the slope in log π."""
    policy, reference = (
        torch.tensor([p], dtype=torch.float64).log() for p in (POLICY, REFERENCE)
    )  # one row, a token each
    result = call(answer, policy, reference)
    got = to_tensor(result, policy.shape, "the estimate").flatten().tolist()
    if not agree(got, k3_by_hand()):
        if match := first_match(got, estimate_mistakes()):
            name = match.partition(" ")[0]
            raise Mistake(name, MESSAGES[name])
        raise Mistake(
            OTHER,
            f"For a token with π = {POLICY[0]} and ref = {REFERENCE[0]} you get {got[0]:.4f}, not "
            f"{k3_by_hand()[0]:.4f}.",
        )
    slopes = gradient_of(answer, policy, lambda leaf: (leaf, reference)).flatten().tolist()
    if not agree(slopes, _each(lambda p, q: 1 - q / p)):
        raise Mistake("wrong_gradient", MESSAGES["wrong_gradient"])
    mean = math.fsum(p * k for p, k in zip(POLICY, got, strict=True))
    return (
        f"The mean over π is {mean:.4f}, the exact KL(π‖ref) {exact_divergence():.4f}; no value is negative."
    )


EXERCISE = Exercise(
    id="02.kl_k3",
    title="A divergence from samples",
    difficulty=2,
    importance=4,
    minutes=5,
    task=r"""
The sum in $\mathrm{KL}(\pi\Vert ref)$ runs over the whole vocabulary; usually one keeps only the
log-probabilities of the sampled tokens. With $r = ref/\pi$, GRPO uses $k_3 = r - 1 - \log r$.

Write `my_k3(logprobs, reference_logprobs)`: two tensors of the same shape, under π and under the reference,
of tokens that *π* sampled. Return the estimates in the same shape.""".strip(),
    stub='''\
def my_k3(logprobs, reference_logprobs):
    """k3 of each token, in nats: the same shape as the inputs."""
    raise NotImplementedError
''',
    hints=(
        "Which distribution drew the tokens? The ratio has the other one above the line.",
        "Compute log r first, a difference of what you are given. Everything else is made of it.",
        """\
Fill in the blanks:

```python
def my_k3(logprobs, reference_logprobs):
    log_ratio = ____
    return ____ - 1 - log_ratio
```""",
    ),
    solution=kl_estimate,
    examine=examine,
    why=(
        "k1 is simpler and just as unbiased. Why does GRPO take k3?",
        "A single k1 may be negative, and its spread is large against its mean when the distributions are "
        "close; k3 adds r - 1, whose mean under π is 0, and there the two cancel in part. That is about the "
        "*value*, and so are the paper's reasons. As a loss, k3's gradient is that of KL(ref‖π).",
    ),
)
