"""The figures of the study of early experience with their captions."""

from __future__ import annotations

from functools import partial

from labkit.plotting import drawing
from labkit.studies.early_experience import charts
from labkit.studies.early_experience.arms import WORLDS
from labkit.studies.early_experience.claims import PAPER

_drawing = partial(drawing, "early_experience")


def _of_worlds(*names: str) -> tuple[str, ...]:
    return tuple(f"{world}-{name}" for world in WORLDS for name in names)


FIGURES = [
    _drawing(
        charts.main_table,
        "Imitation, a world model first, self-reflection",
        "Bars of the share of goals reached in and out of distribution by policies that imitate, imitate for "
        "longer, learn a world model first, or reflect, and by the controls with wrong outcomes, one panel a "
        "world; beside them the paper's table.",
        f"{PAPER}, main table (s)",
        *_of_worlds(
            "iwm-helps",
            "sr-helps",
            "iwm-beats-long-imitation",
            "iwm-better-kept",
            "iwm-needs-true-outcomes",
            "sr-needs-true-outcomes",
            "iwm-helps-outside",
            "sr-helps-outside",
        ),
    ),
    _drawing(
        charts.demonstrations,
        "Early experience against the number of demonstrations",
        "Lines of the share of goals reached against the number of expert episodes for imitation, world "
        "model and self-reflection, one panel a world; beside them the paper's curves on WebShop.",
        f"{PAPER}, data scaling (s)",
        *_of_worlds("iwm-helps-with-few", "sr-helps-with-few"),
    ),
    _drawing(
        charts.alternatives,
        "Early experience against K",
        "Lines of the share of goals reached against the number of alternatives tried at each expert state, "
        "for world model and self-reflection, with imitation as a flat line, one panel a world.",
        f"{PAPER}, branching factor (s)",
        *_of_worlds("iwm-grows-with-k", "sr-peaks-at-small-k"),
    ),
    _drawing(
        charts.prediction,
        "Prediction and success",
        "Points, one a seed: the share of unseen next observations that a policy predicts against the share "
        "of goals that it reaches, by method, one panel a world; predicted is what was after the stage of "
        "world modelling, where there was one.",
        "none: does it help where it can be learned?",
    ),
]
TRIED = _drawing(
    charts.tried,
    "What was tried for early experience",
    "Bars of the share of goals reached on validation tasks for each setting that was tried.",
    "none: the choice of settings",
)
"""Drawn from the tuning's data."""
