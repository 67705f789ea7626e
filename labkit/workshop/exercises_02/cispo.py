"""CISPO's loss; value by hand, gradient in closed form."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from labkit.rl.losses import cispo_loss
from labkit.workshop.checking import call, first_match, to_tensor
from labkit.workshop.exercises import OTHER, Exercise, Mistake
from labkit.workshop.exercises_02.gradients import agree, gradient_of

HIGH = 0.5
RATIOS = (0.25, 0.8, 1.0, 1.4, 3.0)
ADVANTAGES = (2.0, -1.5)
OLD = (-0.7, -1.2, -0.5, -2.0, -1.6)


def _logprobs() -> Tensor:
    new = torch.tensor(OLD, dtype=torch.float64) + torch.tensor(RATIOS, dtype=torch.float64).log()
    return new.expand(2, -1).clone()


def loss_and_gradient() -> tuple[list[float], list[float]]:
    """`-w A log π` and its derivative in log π, `-w A`, with w = min(r, 1 + clip_high)."""
    weights = [min(r, 1 + HIGH) for r in RATIOS]
    logprobs = _logprobs()[0].tolist()
    losses = [-w * a * lp for a in ADVANTAGES for w, lp in zip(weights, logprobs, strict=True)]
    return losses, [-w * a for a in ADVANTAGES for w in weights]


def _weighted(weight: Callable[[float, float], float], sign: float = -1.0) -> list[float]:
    logprobs = _logprobs()[0].tolist()
    return [sign * weight(r, a) * a * lp for a in ADVANTAGES for r, lp in zip(RATIOS, logprobs, strict=True)]


def value_mistakes() -> dict[str, list[float]]:
    """Values that typical wrong answers give."""

    def without_log(weight: Callable[[float, float], float]) -> list[float]:
        return [-weight(r, a) for a in ADVANTAGES for r in RATIOS]

    return {
        "no_logprobs": without_log(lambda r, a: min(r, 1 + HIGH) * a),
        "ppo": without_log(lambda r, a: min(r * a, max(1 - HIGH, min(r, 1 + HIGH)) * a)),
        "ppo (upper bound only)": without_log(lambda r, a: min(r * a, min(r, 1 + HIGH) * a)),
        "absolute_bound": _weighted(lambda r, a: min(r, HIGH)),
        "two_sided": _weighted(lambda r, a: max(1 - HIGH, min(r, 1 + HIGH))),
        "not_clipped": _weighted(lambda r, a: r),
        "ratio_ignored": _weighted(lambda r, a: 1.0),
        "clip_on_product": _weighted(lambda r, a: min(r * a, 1 + HIGH) / a),
        "sign": [-v for v in loss_and_gradient()[0]],
    }


MESSAGES = {
    "no_logprobs": (
        "The log-probability is missing. A clipped ratio alone has no gradient where it is clipped, and that "
        "is what CISPO is there to avoid."
    ),
    "ppo": "That is PPO's loss: above the bound its gradient is gone. CISPO bounds a *weight* on A log π.",
    "absolute_bound": (
        "`clip_high` is a distance from 1 here; you use it as the bound itself. (TRL's `epsilon_high` for "
        "this loss is the bound.)"
    ),
    "two_sided": "You clip below as well; the paper switches the lower bound off.",
    "not_clipped": "The weight is not bounded: a token whose ratio is 3 is pushed three times as hard.",
    "ratio_ignored": (
        "The ratio does not enter. Samples of an older policy are then treated as if the new "
        "one had drawn them."
    ),
    "clip_on_product": "You clip r·A. The bound is meant for the ratio alone.",
    "sign": "The sign is turned round: what paid well would become less likely.",
    "no_stop_gradient": (
        "The values are right, but a gradient flows through the weight too. It is meant as a number: stop "
        "the gradient there, or a token below the bound is pushed by log π as well."
    ),
    "wrong_gradient": "The values are right, the gradient is not: with respect to log π it should be -w·A.",
}


def examine(answer: Callable[..., Tensor]) -> str:
    """Value and gradient below and above the bound, for both signs of A."""
    logprobs, old = _logprobs(), torch.tensor(OLD, dtype=torch.float64)
    advantages = torch.tensor(ADVANTAGES, dtype=torch.float64)[:, None]
    result = call(answer, logprobs, (logprobs - old).exp(), advantages, HIGH)
    got = to_tensor(result, logprobs.shape, "the loss").flatten().tolist()
    losses, gradients = loss_and_gradient()
    if not agree(got, losses):
        if match := first_match(got, value_mistakes()):
            name = match.partition(" ")[0]
            raise Mistake(name, MESSAGES[name])
        raise Mistake(
            OTHER,
            f"For r = {RATIOS[0]}, A = {ADVANTAGES[0]} and log π = {float(logprobs[0, 0]):.3f} you get "
            f"{got[0]:.4f}, not {losses[0]:.4f}.",
        )
    slopes = gradient_of(
        answer, logprobs, lambda leaf: (leaf, (leaf - old).exp(), advantages, HIGH)
    ).flatten()
    if not agree(slopes.tolist(), gradients):
        # Where the weight is bounded it is constant anyway, so the leak shows below the bound alone.
        leaky = [
            -min(r, 1 + HIGH) * a - (r * a * lp if r < 1 + HIGH else 0.0)
            for a in ADVANTAGES
            for r, lp in zip(RATIOS, logprobs[0].tolist(), strict=True)
        ]
        name = "no_stop_gradient" if agree(slopes.tolist(), leaky) else "wrong_gradient"
        raise Mistake(name, MESSAGES[name])
    return "Right in value and gradient; no token with A ≠ 0 has lost its gradient."


EXERCISE = Exercise(
    id="02.cispo",
    title="Bound the weight, keep the gradient",
    difficulty=3,
    importance=3,
    minutes=6,
    task=r"""
PPO silences a token whose ratio has left the bounds. CISPO bounds only how *hard* it is pushed:

$$-\mathrm{sg}\bigl[\min(r,\, 1 + \varepsilon_{high})\bigr]\, A\, \log \pi_\theta$$

with sg, "stop gradient", a number to the optimiser. Write
`my_cispo_loss(logprobs, ratio, advantages, clip_high)`: `logprobs` and `ratio` are `[rows, time]`, the ratio
computed *from* the log-probabilities and not detached; `advantages` is `[rows, 1]`. There is no lower bound.
Return `[rows, time]`.""".strip(),
    stub='''\
def my_cispo_loss(logprobs, ratio, advantages, clip_high):
    """CISPO's loss a token: [rows, time]; clip_high is a distance from 1."""
    raise NotImplementedError
''',
    hints=(
        "Begin with the plain policy-gradient loss and put a weight in front of it.",
        "`ratio.clamp(max=1.5)` bounds from above only. Which call makes a tensor a plain "
        "number for autograd?",
        """\
Fill in the blanks:

```python
def my_cispo_loss(logprobs, ratio, advantages, clip_high):
    weight = ratio.____().clamp(max=____)
    return -weight * advantages * ____
```""",
    ),
    solution=cispo_loss,
    examine=examine,
    why=(
        "Which tokens does PPO's clip silence that CISPO's authors wanted to keep?",
        "Rare ones whose probability rises fast, such as a first *wait* or *however* in a line of reasoning: "
        "at probability 0.001 a small step is a large ratio. PPO stops them within the first updates on a "
        "batch. CISPO keeps pushing them, with a bounded weight.",
    ),
)
