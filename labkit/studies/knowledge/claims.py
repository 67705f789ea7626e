"""What the paper on knowledge categories says that controlled twins can test."""

from __future__ import annotations

from collections.abc import Callable

import pandas as pd

from labkit.claims import Claim, seed_differences
from labkit.knowledge.categories import Category
from labkit.studies.knowledge.arms import (
    REFUSING,
    SHARES,
    SHUFFLED,
    filtered_arm,
    share_arm,
    single_arm,
)
from labkit.studies.knowledge.frames import CONVERGED, EARLY, at_start, at_stop, linear_fits

GEKHMAN = "Gekhman et al. 2024, Does fine-tuning LLMs on new knowledge encourage hallucinations? (2405.05904)"
TEST, OUTSIDE = "test", "out-of-distribution"
HALF, NONE, ALL = share_arm(50), share_arm(0), share_arm(100)
SHARE_ARMS = tuple(map(share_arm, SHARES))
HIGHLY, MAYBE, WEAKLY, UNKNOWN = map(single_arm, Category)

Point = tuple[str, str, str]
"""Arm, metric, stop."""
Differences = Callable[[pd.DataFrame], list[float]]


def _gap(better: Point, worse: Point) -> Differences:
    """`better - worse`, seed by seed."""
    return lambda frame: seed_differences(at_stop(frame, *better), at_stop(frame, *worse))


def _more(first: Differences, second: Differences) -> Differences:
    """How much larger the first difference is than the second, seed by seed."""
    return lambda frame: [a - b for a, b in zip(first(frame), second(frame), strict=True)]


def _fall(arm: str, metric: str = TEST) -> Differences:
    """What a metric loses from the early stop to convergence."""
    return _gap((arm, metric, EARLY), (arm, metric, CONVERGED))


def _rise_then_fall(frame: pd.DataFrame) -> list[float]:
    """The smaller one of what is gained up to the early stop and of what is lost after it."""
    early = at_stop(frame, HALF, TEST, EARLY)
    gained = seed_differences(early, at_start(frame, HALF, TEST))
    lost = seed_differences(early, at_stop(frame, HALF, TEST, CONVERGED))
    return [min(pair) for pair in zip(gained, lost, strict=True)]


def _coefficient(name: str, sign: int, metric: str) -> Differences:
    """A coefficient of the linear model over all checkpoints of the share arms, times `sign`."""

    def differences(frame: pd.DataFrame) -> list[float]:
        fits = linear_fits(frame, SHARE_ARMS, metric)
        return [sign * getattr(fits[seed], name) for seed in sorted(fits)]

    return differences


def answered_accuracy(frame: pd.DataFrame, arm: str, stop: str) -> dict[int, float]:
    """Seed -> right ones among the test questions that are answered, not refused; NaN where all are."""
    right, answered = (at_stop(frame, arm, metric, stop) for metric in (TEST, f"{TEST}_answered"))
    return {seed: right[seed] / answered[seed] if answered[seed] else float("nan") for seed in right}


def _claim(
    name: str,
    place: str,
    statement: str,
    metric: str,
    arms: tuple[str, ...],
    differences: Differences,
    paper: str,
    remark: str = "",
    smallest: float = 0.02,
) -> Claim:
    return Claim(
        f"knowledge/{name}",
        "knowledge",
        f"{GEKHMAN}, {place}",
        statement,
        metric,
        arms,
        differences,
        smallest,
        paper,
        remark,
    )


CLAIMS = [
    _claim(
        "unknown-fitted-later",
        "Fig. 1",
        "Half Known, half Unknown: at the early stop the Known facts are fitted and the Unknown are not.",
        "share of training facts fitted at the early stop: Known minus Unknown",
        (HALF,),
        _gap((HALF, "train_known", EARLY), (HALF, "train_unknown", EARLY)),
        "shown as curves: most Known fitted, a small part of the Unknown",
    ),
    _claim(
        "fitted-first-because-known",
        "Fig. 1 (a control of ours)",
        "That is because they are known: with answers dealt at random among the facts, the gap closes.",
        "the same gap at the early stop: true answers minus shuffled ones",
        (HALF, SHUFFLED),
        _more(
            _gap((HALF, "train_known", EARLY), (HALF, "train_unknown", EARLY)),
            _gap((SHUFFLED, "train_known", EARLY), (SHUFFLED, "train_unknown", EARLY)),
        ),
        "not measured there",
    ),
    _claim(
        "peaks-then-falls",
        "Fig. 1",
        "Held-out accuracy first rises and then falls while the Unknown facts are fitted.",
        "test accuracy, the smaller of: early stop minus start, early stop minus convergence",
        (HALF,),
        _rise_then_fall,
        "shown as curves",
    ),
    _claim(
        "more-unknown-is-worse",
        "Fig. 3a",
        "Of as many facts, the more are Unknown the lower is test accuracy at convergence.",
        "test accuracy at convergence: 0 % minus 100 % Unknown",
        (NONE, ALL),
        _gap((NONE, TEST, CONVERGED), (ALL, TEST, CONVERGED)),
        "shown as curves; one category at a time: HighlyKnown 40.0, Unknown 25.8",
    ),
    _claim(
        "harm-comes-with-convergence",
        "Fig. 3a",
        "The harm comes from training on: at the early stop it is smaller.",
        "loss of test accuracy between 0 % and 100 % Unknown: at convergence minus at the early stop",
        (NONE, ALL),
        _more(
            _gap((NONE, TEST, CONVERGED), (ALL, TEST, CONVERGED)),
            _gap((NONE, TEST, EARLY), (ALL, TEST, EARLY)),
        ),
        "shown as curves",
    ),
    _claim(
        "filtering-helps",
        "Fig. 3b",
        "Leaving the Unknown facts out, with the same Known ones, gives a higher accuracy at convergence.",
        "test accuracy at convergence: Known half alone minus both halves",
        (filtered_arm(50), HALF),
        _gap((filtered_arm(50), TEST, CONVERGED), (HALF, TEST, CONVERGED)),
        "shown as curves",
    ),
    _claim(
        "filtering-helps-less-early",
        "Fig. 3b",
        "At the early stop that gains less: Unknown facts that are not fitted are nearly neutral.",
        "gain of test accuracy by leaving out Unknown facts: at convergence minus at the early stop",
        (filtered_arm(50), HALF),
        _more(
            _gap((filtered_arm(50), TEST, CONVERGED), (HALF, TEST, CONVERGED)),
            _gap((filtered_arm(50), TEST, EARLY), (HALF, TEST, EARLY)),
        ),
        "shown as curves; at the early stop the lines nearly coincide",
    ),
    _claim(
        "known-is-forgotten",
        "section 5",
        "Fine-tuned on Unknown facts, a model gets wrong what it knew well: it hallucinates about it.",
        "test accuracy on HighlyKnown facts at convergence: 0 % minus 100 % Unknown",
        (NONE, ALL),
        _gap((NONE, f"{TEST}_HighlyKnown", CONVERGED), (ALL, f"{TEST}_HighlyKnown", CONVERGED)),
        "the abstract: as Unknown facts are learned, hallucination about what was known rises linearly",
    ),
    _claim(
        "linear-unknown-harms",
        "section 4.3",
        "In a linear model of test accuracy, fitting Unknown facts counts negatively.",
        "minus the coefficient of the share of Unknown facts fitted",
        SHARE_ARMS,
        _coefficient("unknown", -1, TEST),
        "coefficient −8.3 points (R² .86)",
    ),
    _claim(
        "linear-known-helps",
        "section 4.3",
        "And fitting Known facts counts positively.",
        "coefficient of the share of Known facts fitted",
        SHARE_ARMS,
        _coefficient("known", 1, TEST),
        "coefficient +7.3 points",
    ),
    _claim(
        "linear-unknown-harms-outside",
        "section 4.4",
        "Facts of a relation that is not trained on suffer too.",
        "minus the coefficient of the share of Unknown facts fitted, out of distribution",
        SHARE_ARMS,
        _coefficient("unknown", -1, OUTSIDE),
        "coefficient −3.0 points",
    ),
    _claim(
        "maybe-beats-highly",
        "Table 2",
        "At convergence, training on MaybeKnown facts is better than on HighlyKnown ones.",
        "test accuracy at convergence: MaybeKnown minus HighlyKnown",
        (MAYBE, HIGHLY),
        _gap((MAYBE, TEST, CONVERGED), (HIGHLY, TEST, CONVERGED)),
        "43.2 against 40.0 %",
    ),
    _claim(
        "maybe-beats-unknown",
        "Table 2",
        "And far better than on Unknown ones.",
        "test accuracy at convergence: MaybeKnown minus Unknown",
        (MAYBE, UNKNOWN),
        _gap((MAYBE, TEST, CONVERGED), (UNKNOWN, TEST, CONVERGED)),
        "43.2 against 25.8 %",
    ),
    _claim(
        "unknown-overfits-most",
        "Table 2",
        "From early stop to convergence, training on Unknown facts loses more than on HighlyKnown ones.",
        "fall of test accuracy from early stop to convergence: Unknown minus HighlyKnown",
        (UNKNOWN, HIGHLY),
        _more(_fall(UNKNOWN), _fall(HIGHLY)),
        "37.5 → 25.8 against 40.5 → 40.0 %",
    ),
    _claim(
        "weakly-overfits",
        "Table 2",
        "So does training on WeaklyKnown ones.",
        "fall of test accuracy from early stop to convergence: WeaklyKnown minus HighlyKnown",
        (WEAKLY, HIGHLY),
        _more(_fall(WEAKLY), _fall(HIGHLY)),
        "39.2 → 35.4 against 40.5 → 40.0 %",
    ),
    _claim(
        "refusing-is-safer",
        "section 6",
        'Taught to say "I don\'t know" to Unknown facts, a model is right more often when it answers.',
        "accuracy on the test questions answered, at convergence: refusing minus plain",
        (REFUSING, HALF),
        lambda frame: seed_differences(
            answered_accuracy(frame, REFUSING, CONVERGED), answered_accuracy(frame, HALF, CONVERGED)
        ),
        "61.8 % of those answered, at both stops",
    ),
    _claim(
        "refusing-knows-what-it-knows",
        "section 6 (a control of ours)",
        "And it refuses held-out Unknown facts more often than HighlyKnown ones.",
        "share of test questions answered at convergence: HighlyKnown minus Unknown",
        (REFUSING,),
        _gap(
            (REFUSING, f"{TEST}_answered_HighlyKnown", CONVERGED),
            (REFUSING, f"{TEST}_answered_Unknown", CONVERGED),
        ),
        "not measured there",
    ),
]
