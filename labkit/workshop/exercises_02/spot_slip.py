"""Six lines as one finds them printed, four of them wrong."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from labkit.workshop.exercises import Exercise, Mistake

RIGHT = "right"
REPAIRS = (
    "swap state and action",
    "swap the bounds",
    "clip the ratio, not the product",
    "standardise, do not rank",
    "put the reference first",
    "sum over rewards, not values",
)
LINES: Mapping[str, tuple[str, str]] = {
    "line_1": (
        r"$r_t(\theta) = \dfrac{\pi_\theta(s_t \mid a_t)}{\pi_{old}(s_t \mid a_t)}$",
        "swap state and action",
    ),
    "line_2": (r"$A_t = R_t - V(s_t)$, with $R_t$ the reward-to-go: the simplest advantage", RIGHT),
    "line_3": (
        r"$L^{CLIP} = \mathbb{E}_t\bigl[\min(r_t A_t,\; \mathrm{clip}(r_t,\, 1+\varepsilon,\, "
        r"1-\varepsilon)\,"
        r" A_t)\bigr]$",
        "swap the bounds",
    ),
    "line_4": (
        r"in GRPO: $\min\bigl(r_{i,t} A_i,\; \mathrm{clip}(r_{i,t} A_i,\, 1-\varepsilon,\, 1+\varepsilon)"
        r"\bigr)$",
        "clip the ratio, not the product",
    ),
    "line_5": (
        "the rewards of a group are ranked, and the rank of a completion is its advantage $A_i$",
        "standardise, do not rank",
    ),
    "line_6": (
        r"$\mathrm{KL}(\pi \Vert ref) = \sum_x \pi(x)\,\log\dfrac{\pi(x)}{ref(x)}$, subtracted with weight β",
        RIGHT,
    ),
}
"""Each line as printed, and what repairs it."""

MESSAGES = {
    "state_given_action": (
        "Line 1 reads *state given action*. Which of the two does a policy choose, and which is it given?"
    ),
    "bounds_swapped": (
        "Line 3 clips between a larger lower and a smaller upper bound. Try ε = 0.2 with r = "
        "1: what comes out?"
    ),
    "clip_on_product": (
        "Line 4 compares a product with bounds that lie around 1. Try A = 3 with r = 1: the policy has not "
        "moved, and it is clipped."
    ),
    "ranked": (
        "Line 5: rewards 0, 1, 2, 3 and 0, 1, 2, 9 have the same ranks. GRPO gives the third +0.39 in the "
        "first group and −0.24 in the second."
    ),
    "false_alarm": (
        "You repair a line that is right. Evaluate it with small numbers, or look it up in the "
        "sections above."
    ),
    "wrong_repair": "You found a line that is wrong, but that repair does not mend it.",
}
_NAMES = {
    "line_1": "state_given_action",
    "line_3": "bounds_swapped",
    "line_4": "clip_on_product",
    "line_5": "ranked",
}


def examine(answer: Mapping[str, Any]) -> str:
    """Each line's verdict and repair, the first wrong one explained."""
    if not isinstance(answer, Mapping):
        raise Mistake("wrong_type", "The answer is a dict, one entry a line.")
    blank = [key for key in LINES if answer.get(key) in (None, ...)]
    if blank:
        raise Mistake("incomplete", f"Still to judge: {', '.join(f'`{key}`' for key in blank)}.")
    for key in LINES:
        if answer[key] not in (RIGHT, *REPAIRS):
            raise Mistake(
                "unknown_option",
                f"`{key}` is one of: {'; '.join((RIGHT, *REPAIRS))}. You have {answer[key]!r}.",
            )
    for key, (_, repair) in LINES.items():
        if answer[key] == repair:
            continue
        if answer[key] == RIGHT:
            raise Mistake(_NAMES[key], MESSAGES[_NAMES[key]])
        name = "false_alarm" if repair == RIGHT else "wrong_repair"
        raise Mistake(name, f"`{key}`: {MESSAGES[name]}")
    return "All four slips found, and the two right lines left alone."


_ROWS = "\n".join(f"| `{key}` | {text} |" for key, (text, _) in LINES.items())

EXERCISE = Exercise(
    id="02.spot_slip",
    title="Spot the slip",
    difficulty=2,
    importance=4,
    minutes=6,
    task=f"""\
Popular write-ups of PPO and GRPO print these lines. Four of the six are wrong.

| key | as printed |
|---|---|
{_ROWS}

For each line give `"right"` or the repair, one of: {", ".join(f'`"{repair}"`' for repair in REPAIRS)}. Two
repairs are not needed.""",
    stub="""\
my_verdicts = {
    "line_1": ...,
    "line_2": ...,
    "line_3": ...,
    "line_4": ...,
    "line_5": ...,
    "line_6": ...,
}
""",
    hints=(
        "Do not read the formulas, evaluate them. For those with a clip take ε = 0.2 and a policy that has "
        "not moved: every ratio is 1. What should come out, for A = 3 and for A = −3?",
        "A policy is asked: here is the state, what do you do? Which side of the bar is which?",
        "The bounds of a clip go from smaller to larger and belong to what lies around 1 when nothing has "
        "moved. And compare the advantages of rewards 0, 1, 2, 3 with those of 0, 1, 2, 9.",
    ),
    solution={key: repair for key, (_, repair) in LINES.items()},
    examine=examine,
    why=(
        "Code copied from line 3 runs without an error. How would one notice?",
        "`clamp` with a lower bound above the upper one returns the upper bound everywhere, so the clipped "
        "objective is a constant times A. Near r = 1 the minimum is that constant for good actions, without "
        "a gradient, and the plain term for bad ones. Training runs, and only pushes down there. A test at "
        "one point of each case finds it at once.",
    ),
)
