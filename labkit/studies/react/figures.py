"""The figures of the ReAct study with their captions."""

from __future__ import annotations

from functools import partial

from labkit.plotting import drawing
from labkit.studies.react import charts
from labkit.studies.react.claims import POMDP, REACT

_drawing = partial(drawing, "react")

FIGURES = [
    _drawing(
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
    _drawing(
        charts.thoughts,
        "Thinking, acting, and both",
        "Two bar charts: on the left the share of goals reached by policies that only think, only act, or do "
        "both, on aliased and unaliased tasks; on the right the paper's four tasks in the same manner.",
        f"{REACT}, Tables 1, 3 and 4",
        "thinking-and-acting-beats-acting",
        "thinking-and-acting-beats-thinking",
    ),
    _drawing(
        charts.budget,
        "Success against the budget of steps",
        "Two line charts, aliased and unaliased tasks: share of goals reached against the steps allowed, for "
        "the expert, policies that think and act, only act, or have no history, and chance.",
        "none: the price of a detour",
    ),
    _drawing(
        charts.failures,
        "Kinds of failure by policy",
        "Two bar charts, aliased and unaliased tasks: share of episodes with each of six kinds of "
        "failure, for four learned policies, a noisy expert and chance.",
        f"{REACT}, Table 2 (failure modes on HotpotQA)",
    ),
    _drawing(
        charts.outside,
        "Outside what was demonstrated",
        "Pairs of bars of the share of goals reached in distribution and for goals held out: policies with "
        "full history, the last step, past actions only, no thoughts at all, no history, and chance.",
        "none",
    ),
]
TRIED = _drawing(
    charts.tried,
    "What was tried for the agents",
    "Bars of the share of goals reached on validation tasks for each number of "
    "demonstrations, of updates and learning rate that was tried.",
    "none: the choice of settings",
)
"""Drawn from the tuning's data."""
