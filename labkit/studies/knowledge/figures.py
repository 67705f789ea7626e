"""The figures of the knowledge study with their captions."""

from __future__ import annotations

from functools import partial

from labkit.plotting import drawing
from labkit.studies.knowledge import charts, exposure
from labkit.studies.knowledge.claims import GEKHMAN

_drawing = partial(drawing, "knowledge")

FIGURES = [
    _drawing(
        exposure.exposure,
        "What is known, by how often it was read",
        "Stacked bars, one for each of five doses from some 250 statements of a fact to none: shares of "
        "facts that are HighlyKnown, MaybeKnown, WeaklyKnown and Unknown.",
        f"{GEKHMAN}, Fig. 2 (categories; exposure is not known there)",
    ),
    _drawing(
        exposure.stability,
        "The same facts, asked again",
        "A four by four table of shares: the category of a fact at first, against its category with other "
        "exemplars and samples; most facts lie on the diagonal.",
        "none: a check of ours",
    ),
    _drawing(
        charts.learning,
        "Known facts are fitted first",
        "Two line charts of accuracy by epoch, on Known and Unknown training facts and on test facts: on "
        "the left with true answers, on the right with answers shuffled.",
        f"{GEKHMAN}, Fig. 1",
        "unknown-fitted-later",
        "fitted-first-because-known",
        "peaks-then-falls",
    ),
    _drawing(
        charts.shares,
        "Test accuracy by share of Unknown facts",
        "Two line charts of test accuracy against the percentage of Unknown training facts: on the left at "
        "four durations of training, on the right with and without the Unknown facts.",
        f"{GEKHMAN}, Fig. 3",
        "more-unknown-is-worse",
        "harm-comes-with-convergence",
        "filtering-helps",
        "filtering-helps-less-early",
    ),
    _drawing(
        charts.fitted,
        "What is fitted at the early stop",
        "Two line charts, early stop and convergence: shares of Known and of Unknown training facts that "
        "are fitted, against the percentage of Unknown ones.",
        f"{GEKHMAN}, Fig. 4",
        "unknown-fitted-later",
    ),
    _drawing(
        charts.linear,
        "A linear model of test accuracy",
        "On the left measured test accuracy against that of a linear model, a point a checkpoint; on the "
        "right the model's coefficients for Known and Unknown facts fitted, ours beside the paper's.",
        f"{GEKHMAN}, sections 4.3 and 4.4",
        "linear-unknown-harms",
        "linear-known-helps",
        "linear-unknown-harms-outside",
    ),
    _drawing(
        charts.single_categories,
        "Training on one category",
        "Two bar charts of test accuracy at early stop and at convergence after training on HighlyKnown, "
        "MaybeKnown, WeaklyKnown, Unknown facts or a natural mix: ours on the left, the paper's on the "
        "right.",
        f"{GEKHMAN}, Table 2",
        "maybe-beats-highly",
        "maybe-beats-unknown",
        "unknown-overfits-most",
        "weakly-overfits",
    ),
    _drawing(
        charts.refusing,
        "Taught to say that it does not know",
        "Two bar charts at early stop and convergence: accuracy on the questions answered, with answers or "
        "refusals taught for Unknown facts; and the share answered by category of the test fact.",
        f"{GEKHMAN}, section 6",
        "refusing-is-safer",
        "refusing-knows-what-it-knows",
    ),
    _drawing(
        charts.outside,
        "Out of distribution",
        "Two line charts of accuracy against the percentage of Unknown training facts, at early stop and "
        "convergence: on relations trained on, and on one kept apart.",
        f"{GEKHMAN}, Fig. 7",
        "linear-unknown-harms-outside",
    ),
    _drawing(
        charts.forgotten,
        "What is forgotten",
        "Two line charts, early stop and convergence: test accuracy on HighlyKnown, MaybeKnown, WeaklyKnown "
        "and Unknown facts against the percentage of Unknown training facts.",
        f"{GEKHMAN}, Table 2 (columns by category)",
        "known-is-forgotten",
    ),
]
TRIED = _drawing(
    charts.tried,
    "What was tried for the twins",
    "Bars of accuracy on validation facts at early stop and convergence for each of nine pairs of learning "
    "rate and batch size that were tried.",
    "none: the choice of settings",
)
"""Drawn from the tuning's data."""
