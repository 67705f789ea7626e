"""Comparing at equal skill; the target is placed on a known segment of each curve."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from labkit.statistics import first_crossing
from labkit.workshop.checking import call, close, first_match, to_number
from labkit.workshop.exercises import OTHER, Exercise, Mistake


@dataclass(frozen=True)
class Crossing:
    """Curves whose crossing is known because the target was placed on a segment."""

    name: str
    id_accuracy: tuple[float, ...]
    ood_accuracy: tuple[float, ...]
    target: float
    wanted: float


def _crossing(
    name: str, id_accuracy: Sequence[float], ood_accuracy: Sequence[float], segment: int, share: float
) -> Crossing:
    """The target lies `share` of the way from point `segment` to the next."""
    x, y = tuple(id_accuracy), tuple(ood_accuracy)
    target, wanted = (c[segment] + share * (c[segment + 1] - c[segment]) for c in (x, y))
    return Crossing(name, x, y, target, wanted)


CROSSINGS = (
    _crossing("rising", (0.10, 0.20, 0.40, 0.60, 0.70), (0.15, 0.18, 0.10, 0.06, 0.02), 2, 0.25),
    # Long enough that np.interp, which bisects, does not land on the first crossing by luck.
    _crossing(
        "peaked",
        (0.10, 0.15, 0.20, 0.30, 0.60, 0.35, 0.40, 0.50, 0.45),
        (0.15, 0.16, 0.15, 0.14, 0.12, 0.09, 0.07, 0.05, 0.01),
        3,
        0.55,
    ),
    _crossing("dipping", (0.30, 0.10, 0.20, 0.60, 0.55), (0.20, 0.16, 0.14, 0.08, 0.10), 2, 0.6),
)


ABOVE_AT_START = Crossing("above at the start", (0.40, 0.50, 0.60), (0.15, 0.11, 0.03), 0.35, 0.15)


ON_A_POINT = Crossing("on a point", (0.10, 0.30, 0.30, 0.50), (0.15, 0.12, 0.07, 0.05), 0.30, 0.12)


NEVER = Crossing("never", (0.10, 0.30, 0.25), (0.15, 0.12, 0.13), 0.50, math.nan)


def crossing_mistakes() -> dict[str, list[float]]:
    """What typical wrong answers give for CROSSINGS."""

    def each(formula: Callable[[np.ndarray, np.ndarray, float], float]) -> list[float]:
        return [
            float(formula(np.array(c.id_accuracy), np.array(c.ood_accuracy), c.target)) for c in CROSSINGS
        ]

    def first(x: np.ndarray, t: float) -> int:
        return int(np.argmax(x >= t))

    def last(x: np.ndarray, t: float) -> int:
        return int(max(i for i in range(1, len(x)) if min(x[i - 1], x[i]) <= t <= max(x[i - 1], x[i])))

    def blend(x: np.ndarray, y: np.ndarray, t: float, i: int, turned: bool = False) -> float:
        share = (t - x[i - 1]) / (x[i] - x[i - 1])
        return y[i - 1] + (1 - share if turned else share) * (y[i] - y[i - 1])

    return {
        "best_ood": each(lambda x, y, t: y.max()),
        "last_point": each(lambda x, y, t: y[-1]),
        "no_interpolation": each(lambda x, y, t: y[np.abs(x - t).argmin()]),
        "no_interpolation (first above)": each(lambda x, y, t: y[first(x, t)]),
        "no_interpolation (last below)": each(lambda x, y, t: y[first(x, t) - 1]),
        "best_id": each(lambda x, y, t: y[x.argmax()]),
        "order_lost": each(lambda x, y, t: np.interp(t, x, y)),
        "order_lost (sorted)": each(lambda x, y, t: np.interp(t, np.sort(x), y[np.argsort(x)])),
        "order_lost (sorted apart)": each(lambda x, y, t: np.interp(t, np.sort(x), np.sort(y))),
        "last_crossing": each(lambda x, y, t: blend(x, y, t, last(x, t))),
        "weights_swapped": each(lambda x, y, t: blend(x, y, t, first(x, t), turned=True)),
        "midpoint": each(lambda x, y, t: (y[first(x, t)] + y[first(x, t) - 1]) / 2),
    }


CROSSING_MESSAGES = {
    "best_ood": "That is the best out-of-distribution accuracy of the run. It was reached at another "
    "in-distribution accuracy, and one would not know when to stop without looking at the test.",
    "last_point": "That is the end of the run. In-distribution accuracy is not the target there.",
    "best_id": "That is where in-distribution accuracy is best, not where it is the target.",
    "no_interpolation": (
        "You return a measured point. Between two evaluations both accuracies move: at the target itself, "
        "the answer lies between two points."
    ),
    "order_lost": (
        "`np.interp` (like sorting) needs an x that only rises. Accuracy during training goes up and down: "
        "follow the run in the order of its steps."
    ),
    "last_crossing": (
        "The curve passes the target more than once; you take the last time. Asked for is the first."
    ),
    "weights_swapped": (
        "You interpolate between the right points with the weights swapped: close to the first of them, the "
        "result must be close to its value."
    ),
    "midpoint": (
        "You take the middle between the right points. How far from one to the other does the target lie?"
    ),
}


def examine(answer: Callable[..., float]) -> str:
    """Accuracy at a matched point, on curves whose crossing is known by construction."""
    got = [_accuracy_at(answer, c) for c in CROSSINGS]
    if not all(close(g, c.wanted) for g, c in zip(got, CROSSINGS, strict=True)):
        if match := first_match(got, crossing_mistakes()):
            name = match.partition(" ")[0]
            raise Mistake(name, CROSSING_MESSAGES[name])
        case, number = next((c, g) for c, g in zip(CROSSINGS, got, strict=True) if not close(g, c.wanted))
        raise Mistake(OTHER, f"{_story(case)} you get {number:.4g}, not {case.wanted:.4g}.")
    for case, name, text in (
        (
            ABOVE_AT_START,
            "wraps_around",
            "The run starts above the target, so it has reached it at its first point.",
        ),
        (ON_A_POINT, "on_a_point", "The target is met exactly at a point, and held at the next."),
    ):
        if not close(number := _accuracy_at(answer, case), case.wanted):
            raise Mistake(name, f"{text} {_story(case)} you get {number:.4g}, not {case.wanted:.4g}.")
    try:
        never = _accuracy_at(answer, NEVER)
    except (IndexError, StopIteration, ZeroDivisionError, ValueError) as error:
        raise Mistake(
            "fails_if_never_reached",
            f"A run that never reaches the target stops your function with `{type(error).__name__}`. It has "
            "no such accuracy: return `float('nan')`.",
        ) from None
    if not math.isnan(never):
        raise Mistake(
            "number_if_never_reached",
            f"A run that never reaches the target gives {never:.4g}. An arm that did not get there must not "
            "look as if it had: return `float('nan')`.",
        )
    return "Right for runs that rise, peak, dip, start above the target, and never reach it."


def _accuracy_at(answer: Callable[..., float], case: Crossing) -> float:
    result = call(answer, list(case.id_accuracy), list(case.ood_accuracy), case.target)
    return to_number(result, "an accuracy")


def _story(case: Crossing) -> str:
    return (
        f"With in-distribution {list(case.id_accuracy)}, out-of-distribution {list(case.ood_accuracy)} and "
        f"target {case.target:.4g}"
    )


EXERCISE = Exercise(
    id="03.matched_accuracy",
    title="Compare at equal skill",
    difficulty=2,
    importance=3,
    minutes=10,
    task="""\
SFT usually learns the training rule in fewer steps than RL. Comparing both after the same number of steps
would compare a finished run with a beginner. Fairer: what is the out-of-distribution accuracy of the SFT
run *at the point where it first was as good as RL in distribution*?

Write `my_matched_accuracy(id_accuracy, ood_accuracy, target)`. The two lists hold the accuracies at the
evaluations of one run, in order. Find where the in-distribution accuracy first reaches `target` and
return the out-of-distribution accuracy there. Between two evaluations both change along straight lines. A
run that starts at or above the target has reached it at its first point; for one that never does, return
`float("nan")`.""",
    stub='''\
def my_matched_accuracy(id_accuracy, ood_accuracy, target):
    """Out-of-distribution accuracy where in-distribution accuracy first reaches target; NaN if never."""
    raise NotImplementedError
''',
    hints=(
        "Draw one run: evaluations along the x-axis, both accuracies above it. Draw the target as a "
        "horizontal line. Where do you read off the answer?",
        "Go through the evaluations in order and stop at the first with in-distribution accuracy at or "
        "above the target. The crossing lies between it and the one before (if there is one before).",
        "How far along the segment? `(target - x0) / (x1 - x0)`, a number from 0 to 1. The other accuracy "
        "has gone the same share of its way.",
        """\
Fill in the blanks:

```python
def my_matched_accuracy(id_accuracy, ood_accuracy, target):
    for i, x in enumerate(id_accuracy):
        if x >= target:
            if i == 0:
                return ____
            share = (target - id_accuracy[i - 1]) / (x - id_accuracy[i - 1])
            return ood_accuracy[i - 1] + share * (____)
    return float("nan")
```""",
    ),
    solution=first_crossing,
    examine=examine,
    why=(
        "Is it fair to compare with the best out-of-distribution accuracy that SFT had anywhere in its run?",
        "It answers another question: how good could early stopping be? Someone who stops there has looked "
        "at the test rule, which by assumption is not known in training. It is worth reporting beside the "
        "matched comparison, as counter-evidence: out-of-distribution accuracy often peaks early in SFT.",
    ),
)
