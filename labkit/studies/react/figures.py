"""The figures of the study with their captions, saved from its committed data."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pandas as pd

from labkit.plotting import FigureCard, save_drawings
from labkit.studies.react import charts
from labkit.studies.react.claims import POMDP, REACT
from labkit.study import load_study

Draw = Callable[[pd.DataFrame], charts.Drawn]


def _card(draw: Draw, title: str, alt: str, paper: str, *claims: str) -> tuple[Draw, FigureCard]:
    ids = tuple(f"react/{claim}" for claim in claims)
    return draw, FigureCard("react", draw.__name__, title, alt, paper, ids)


FIGURES = [
    _card(
        charts.history,
        "What the history is good for",
        "Bars of the share of goals reached for six ways to show the history, from all of it to none, and "
        "chance, on aliased and on unaliased tasks.",
        POMDP,
        "history-needed-where-aliased",
        "history-matters-more-where-aliased",
        "full-history-beats-window",
        "observations-worth-more-than-actions",
        "thoughts-are-memory",
    ),
    _card(
        charts.thoughts,
        "Thinking, acting, and both",
        "Two bar charts: on the left the share of goals reached by policies that only think, only act, or do "
        "both, on aliased and unaliased tasks; on the right the paper's four tasks in the same manner.",
        f"{REACT}, Tables 1, 3 and 4",
        "thinking-and-acting-beats-acting",
        "thinking-and-acting-beats-thinking",
    ),
    _card(
        charts.budget,
        "Success against the budget of steps",
        "Two line charts, aliased and unaliased tasks: share of goals reached against the steps allowed, for "
        "the expert, policies that think and act, only act, or have no history, and chance.",
        "none: the price of a detour",
    ),
    _card(
        charts.failures,
        "Kinds of failure by policy",
        "Two bar charts, aliased and unaliased tasks: share of episodes with each of six kinds of "
        "failure, for four learned policies, a noisy expert and chance.",
        f"{REACT}, Table 2 (failure modes on HotpotQA)",
    ),
    _card(
        charts.outside,
        "Outside what was demonstrated",
        "Pairs of bars of the share of goals reached in distribution and for goals held out: policies with "
        "full history, the last step, past actions only, no thoughts at all, no history, and chance.",
        "none",
    ),
]
TRIED = _card(
    charts.tried,
    "What was tried for the agents",
    "Bars of the share of goals reached on validation tasks for each number of "
    "demonstrations, of updates and learning rate that was tried.",
    "none: the choice of settings",
)


def draw_figures() -> list[Path]:
    """Draw and save every figure; needs the full-profile data of the study and of its tuning."""
    from labkit.studies.react import STUDY
    from labkit.studies.react.tuning import STUDY as TUNING

    data, tuning = load_study(STUDY, "full"), load_study(TUNING, "full")
    return [*save_drawings(FIGURES, data), *save_drawings([TRIED], tuning)]
