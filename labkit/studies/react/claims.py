"""What the ReAct paper, and the formalism, say that the study can test."""

from __future__ import annotations

from collections.abc import Sequence

import pandas as pd

from labkit.claims import Claim, seed_differences
from labkit.studies.episodes import success
from labkit.studies.react.arms import (
    ACT_ONLY,
    BOTH,
    FORGETFUL,
    NONE,
    SUMMARY,
    THINK_ONLY,
    WINDOW,
)

REACT = "Yao et al. 2022, ReAct (arXiv 2210.03629)"
POMDP = "Kaelbling et al. 1998, Planning and acting in partially observable domains"
ALIASED, UNALIASED = "aliased", "unaliased"
INSIDE = (ALIASED, UNALIASED)
"""Sets of the distribution that was demonstrated."""
HELD_OUT = "held-out goals"
"""The set outside it: other goals on the known phone."""


def _gap(frame: pd.DataFrame, better: str, worse: str, sets: Sequence[str]) -> list[float]:
    return seed_differences(success(frame, better, sets), success(frame, worse, sets))


def _claim(
    name: str,
    source: str,
    statement: str,
    better: str,
    worse: str,
    sets: Sequence[str],
    paper: str,
    remark: str = "",
) -> Claim:
    return Claim(
        f"react/{name}",
        "react",
        source,
        statement,
        f"share of goals reached on {', '.join(sets)}: {better} minus {worse}",
        (better, worse),
        lambda frame: _gap(frame, better, worse, sets),
        0.05,
        paper,
        remark,
    )


CLAIMS = [
    _claim(
        "history-needed-where-aliased",
        POMDP,
        "Where one observation belongs to several states, a policy without history loses.",
        BOTH, NONE, [ALIASED],
        "a policy of the last observation is not enough in general; no numbers",
    ),
    Claim(
        "react/history-matters-more-where-aliased",
        "react",
        POMDP,
        "And it loses more there than on tasks that a memoryless policy can solve.",
        "loss of share of goals reached without history: aliased minus unaliased tasks",
        (BOTH, NONE),
        lambda frame: [
            aliased - unaliased
            for aliased, unaliased in zip(
                _gap(frame, BOTH, NONE, [ALIASED]), _gap(frame, BOTH, NONE, [UNALIASED]), strict=True
            )
        ],
        0.05,
        "follows from the formalism; no numbers",
    ),
    _claim(
        "full-history-beats-window",
        REACT,
        "The full history is worth more than the last step alone.",
        BOTH, WINDOW, [ALIASED],
        "the paper keeps the full history; no comparison",
        remark="The last step's thought says what matters of all before it, in a prompt as short as those "
        "trained on. With its full history a policy stops writing readable steps in long episodes, which no "
        "expert showed it.",
    ),
    _claim(
        "observations-worth-more-than-actions",
        REACT,
        "Seeing earlier observations and thoughts beats a summary of the actions done.",
        BOTH, SUMMARY, [ALIASED],
        "the paper keeps the full history; no comparison",
        remark="In a deterministic world the first observation and the actions since determine the state, "
        "and their list stays short.",
    ),
    _claim(
        "thinking-and-acting-beats-acting",
        f"{REACT}, Table 3",
        "A policy that thinks before it acts beats one that only acts.",
        BOTH, ACT_ONLY, INSIDE,
        "ALFWorld, best of six prompts: ReAct 71 %, acting only 45 %",
        remark="Thoughts gain on the short, unaliased tasks and lose on the long ones, where they make the "
        "history longer than any that was demonstrated.",
    ),
    _claim(
        "thinking-and-acting-beats-thinking",
        f"{REACT}, Table 1",
        "A policy that sees what its actions bring about beats one that only reasons from the first "
        "observation.",
        BOTH, THINK_ONLY, INSIDE,
        "FEVER: ReAct 60.9 %, chain of thought 56.3 %; HotpotQA: 27.4 % against 29.4 %",
        remark="On a known phone that obeys every time, the first observation tells all there is to know: "
        "later ones only make the history longer. The paper's questions ask for facts one must look up.",
    ),
    _claim(
        "thoughts-are-memory",
        REACT,
        "Thoughts are worth keeping in the history.",
        BOTH, FORGETFUL, [ALIASED],
        "the paper keeps them; no comparison",
        remark="A thought says again what the observations before it told, so that little is lost with it, "
        "and the prompt is shorter.",
    ),
]  # fmt: skip
