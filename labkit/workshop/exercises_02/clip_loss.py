"""PPO's clipped loss; the oracle is a loop with if and else, and the slope on each piece."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from labkit.rl.losses import clipped_policy_loss
from labkit.workshop.checking import call, first_match, to_tensor
from labkit.workshop.exercises import OTHER, Exercise, Mistake
from labkit.workshop.exercises_02.gradients import agree, gradient_of

LOW, HIGH = 0.2, 0.3
RATIOS = (0.3, 0.75, 0.9, 1.0, 1.1, 1.25, 2.5)
ADVANTAGES = (2.0, -1.5)


def _clip(x: float, low: float, high: float) -> float:
    # As torch does: with low above high the result is high.
    return min(max(x, low), high)


def loss_by_cases() -> list[float]:
    """The loss at each ratio and advantage: where the clip acts, it is flat; elsewhere it is -r A."""
    losses = []
    for a in ADVANTAGES:
        for r in RATIOS:
            if a > 0 and r > 1 + HIGH:
                losses.append(-(1 + HIGH) * a)
            elif a < 0 and r < 1 - LOW:
                losses.append(-(1 - LOW) * a)
            else:
                losses.append(-r * a)
    return losses


def slope_by_cases() -> list[float]:
    """Derivative of the loss with respect to the ratio."""
    return [
        0.0 if (a > 0 and r > 1 + HIGH) or (a < 0 and r < 1 - LOW) else -a for a in ADVANTAGES for r in RATIOS
    ]


def clip_mistakes() -> dict[str, list[float]]:
    """What typical wrong answers give."""

    def each(loss: Callable[[float, float], float]) -> list[float]:
        return [loss(r, a) for a in ADVANTAGES for r in RATIOS]

    def objective(low: float, high: float) -> list[float]:
        return each(lambda r, a: -min(r * a, _clip(r, low, high) * a))

    return {
        "clip_on_product": each(lambda r, a: -min(r * a, _clip(r * a, 1 - LOW, 1 + HIGH))),
        "bounds_swapped": objective(1 + HIGH, 1 - LOW),
        "sides_swapped": objective(1 - HIGH, 1 + LOW),
        "one_bound_for_both (low)": objective(1 - LOW, 1 + LOW),
        "one_bound_for_both (high)": objective(1 - HIGH, 1 + HIGH),
        "absolute_bounds": objective(LOW, HIGH),
        "max_for_min": each(lambda r, a: -max(r * a, _clip(r, 1 - LOW, 1 + HIGH) * a)),
        "no_minimum": each(lambda r, a: -_clip(r, 1 - LOW, 1 + HIGH) * a),
        "no_clip": each(lambda r, a: -r * a),
        "sign": [-loss for loss in loss_by_cases()],
    }


MESSAGES = {
    "clip_on_product": (
        "You clip r·A. The bounds are meant for the ratio: with A = 2 and r = 1 the product is 2, far "
        "outside them, though the policy has not moved at all."
    ),
    "bounds_swapped": (
        "The lower bound of your clip is above its upper bound, as in some printed versions of the formula. "
        "The clipped ratio is then the same number everywhere."
    ),
    "sides_swapped": "You use `clip_high` below 1 and `clip_low` above; it is the other way round.",
    "one_bound_for_both": (
        "You use the same distance on both sides of 1. Here they differ (DAPO's clip-higher): one bound for "
        "falling, one for rising."
    ),
    "absolute_bounds": "`clip_low` and `clip_high` are distances from 1, not the bounds themselves.",
    "max_for_min": (
        "You take the larger objective where the smaller belongs. (The minimum of two objectives is the "
        "*maximum* of two losses.) The clip is there to be pessimistic."
    ),
    "no_minimum": (
        "You clip always. For A < 0 and r = 2.5 the policy has made a bad action likelier and must be able "
        "to go back; clipped, it gets no gradient."
    ),
    "no_clip": "Nothing is clipped: your loss goes on falling however far the ratio has moved.",
    "sign": "The sign is turned round: PPO maximises this objective, and a loss is minimised.",
}


def examine(answer: Callable[..., Tensor]) -> str:
    """Value and slope in each case of sign and ratio, against if and else."""
    ratio = torch.tensor([RATIOS, RATIOS], dtype=torch.float64)
    advantages = torch.tensor(ADVANTAGES, dtype=torch.float64)[:, None]
    result = call(answer, ratio, advantages, LOW, HIGH)
    got = to_tensor(result, ratio.shape, "the loss").flatten().tolist()
    if not agree(got, loss_by_cases()):
        if match := first_match(got, clip_mistakes()):
            name = match.partition(" ")[0]
            raise Mistake(name, MESSAGES[name])
        wrong = next(i for i, (g, w) in enumerate(zip(got, loss_by_cases(), strict=True)) if g != w)
        raise Mistake(
            OTHER,
            f"For A = {ADVANTAGES[wrong // len(RATIOS)]:g}, r = {RATIOS[wrong % len(RATIOS)]:g} and clips "
            f"{LOW:g} and {HIGH:g} you get {got[wrong]:.3f}, not {loss_by_cases()[wrong]:.3f}.",
        )
    slopes = gradient_of(answer, ratio, lambda leaf: (leaf, advantages, LOW, HIGH)).flatten().tolist()
    if not agree(slopes, slope_by_cases()):
        raise Mistake(
            "wrong_gradient",
            "The values are right, the gradient is not: it should be -A where the clip does not act, and 0 "
            "where it does.",
        )
    return "Right for both signs of A, below, within and above the bounds, in value and in gradient."


EXERCISE = Exercise(
    id="02.clip_loss",
    title="The clip, case by case",
    difficulty=2,
    importance=5,
    minutes=6,
    task=r"""
Write PPO's loss for one token, with a bound of its own on each side:

$$-\min\bigl(r A,\; \mathrm{clip}(r,\, 1 - \varepsilon_{low},\, 1 + \varepsilon_{high})\, A\bigr)$$

`my_clip_loss(ratio, advantages, clip_low, clip_high)`: `ratio` is `[rows, time]`, `advantages` `[rows, 1]`;
return `[rows, time]`. Work out four numbers first, with both clips 0.2: A = 2 and A = −2, each at r = 1.5 and
at r = 0.5.""".strip(),
    stub='''\
def my_clip_loss(ratio, advantages, clip_low, clip_high):
    """Clipped loss a token: [rows, time]; both clips are distances from 1."""
    raise NotImplementedError
''',
    hints=(
        "Two objectives: one with the ratio as it is, one with the clipped ratio. PPO believes "
        "the worse one.",
        "`ratio.clamp(0.8, 1.2)` clips; `torch.minimum(a, b)` takes the smaller, entry by entry. The sign "
        "changes at the very end.",
        """\
Fill in the blanks:

```python
import torch

def my_clip_loss(ratio, advantages, clip_low, clip_high):
    clipped = ratio.clamp(____, ____)
    return -torch.____(ratio * advantages, clipped * advantages)
```""",
    ),
    solution=clipped_policy_loss,
    examine=examine,
    why=(
        "For which sign of A and which ratios is there no gradient, and why only there?",
        "A > 0 with r above 1 + ε: the action is already likelier by as much as one step may make it. A < 0 "
        "with r below 1 - ε: it is already less likely by as much. In the other two corners the policy has "
        "moved the wrong way, and the gradient that brings it back must stay.",
    ),
)
