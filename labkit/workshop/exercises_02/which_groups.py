"""Which groups DAPO keeps: a table to fill in, and a count of prompts to draw."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from labkit.workshop.exercises import Exercise, Mistake

KEPT, DROPPED = "kept", "dropped"
GROUPS: Mapping[str, tuple[str, str]] = {
    "one_right": ("1, 0, 0, 0", "one of four"),
    "all_right": ("1, 1, 1, 1", "all four"),
    "all_wrong": ("0, 0, 0, 0", "none"),
    "one_wrong": ("1, 1, 1, 0", "three of four"),
    "one_too_long": ("1, 1, 1, 0.5", "all four; the last loses 0.5 for its length"),
}
"""Rewards of each group, and how many answers are right."""
WANTED: Mapping[str, Any] = {
    "one_right": KEPT,
    "all_right": DROPPED,
    "all_wrong": DROPPED,
    "one_wrong": KEPT,
    "one_too_long": DROPPED,
    "prompts_to_draw": 10,
    "kl_still_pushes": "yes",
}

MESSAGES = {
    "easy_group_kept": (
        "All four answers are right and get the same reward, so all four advantages are 0: "
        "what would it teach?"
    ),
    "hard_group_kept": (
        "A prompt that nobody solved looks like the one to learn from, but four equal rewards make four "
        "advantages of 0."
    ),
    "mixed_group_dropped": (
        "A group with right and wrong answers is what there is to learn from; one success among four has the "
        "largest advantage of all."
    ),
    "judged_by_reward": (
        "The rewards of `one_too_long` differ, so it has a gradient, but about length alone. DAPO's "
        "condition counts right answers, not rewards: here all four are right."
    ),
    "counts_wanted_not_drawn": (
        "That many useful groups are wanted. Of the prompts drawn, only two in five become one."
    ),
    "counts_dropped": "That many prompts of those drawn are lost; asked for is how many must be drawn.",
    "wrong_number": "Check `prompts_to_draw`: drawn prompts × 2/5 should be the number of groups wanted.",
    "kl_forgotten": (
        "The advantages of a group of equal rewards are 0, but a KL penalty in the loss does not look at "
        "them: its gradient is there on every token."
    ),
}


def examine(answer: Mapping[str, Any]) -> str:
    """Each group by the number of right answers; then the refill, and what a penalty does meanwhile."""
    if not isinstance(answer, Mapping):
        raise Mistake("wrong_type", "The answer is a dict, one entry a line of the table.")
    blank = [key for key in WANTED if answer.get(key) in (None, ...)]
    if blank:
        raise Mistake("incomplete", f"Still to fill in: {', '.join(f'`{key}`' for key in blank)}.")
    _examine_options(answer)
    for key, name in (
        ("one_right", "mixed_group_dropped"),
        ("one_wrong", "mixed_group_dropped"),
        ("all_right", "easy_group_kept"),
        ("all_wrong", "hard_group_kept"),
        ("one_too_long", "judged_by_reward"),
    ):
        if answer[key] != WANTED[key]:
            raise Mistake(name, f"`{key}`: {MESSAGES[name]}")
    number = answer["prompts_to_draw"]
    if number != WANTED["prompts_to_draw"]:
        name = {4: "counts_wanted_not_drawn", 6: "counts_dropped"}.get(number, "wrong_number")
        raise Mistake(name, MESSAGES[name])
    if answer["kl_still_pushes"] != "yes":
        raise Mistake("kl_forgotten", MESSAGES["kl_forgotten"])
    return "Right: what counts is whether some, but not all, answers are right."


def _examine_options(answer: Mapping[str, Any]) -> None:
    for key in GROUPS:
        if answer[key] not in (KEPT, DROPPED):
            raise Mistake("unknown_option", f"`{key}` is 'kept' or 'dropped'. You have {answer[key]!r}.")
    if answer["kl_still_pushes"] not in ("yes", "no"):
        raise Mistake("unknown_option", "`kl_still_pushes` is 'yes' or 'no'.")
    number = answer["prompts_to_draw"]
    if isinstance(number, bool) or not isinstance(number, int | float):
        raise Mistake("unknown_option", f"`prompts_to_draw` is a number. You have {number!r}.")


_ROWS = "\n".join(f"| `{key}` | {rewards} | {right} |" for key, (rewards, right) in GROUPS.items())

EXERCISE = Exercise(
    id="02.which_groups",
    title="Which groups teach anything?",
    difficulty=2,
    importance=4,
    minutes=4,
    task=f"""\
DAPO keeps a group only if *some but not all* of its answers are right, and draws more prompts until the
batch is full ("dynamic sampling"). For each group of four, `"kept"` or `"dropped"`:

| key | rewards | right answers |
|---|---|---|
{_ROWS}

Then `prompts_to_draw`: a batch should hold 4 kept groups, and 2 prompts in 5 give one. How many prompts
have to be drawn, on average? And `kl_still_pushes`: in plain GRPO (nothing dropped) with a KL penalty in the
loss, is there a gradient from the group `all_right`? `"yes"` or `"no"`.""",
    stub="""\
my_groups = {
    "one_right": ...,
    "all_right": ...,
    "all_wrong": ...,
    "one_wrong": ...,
    "one_too_long": ...,
    "prompts_to_draw": ...,
    "kl_still_pushes": ...,
}
""",
    hints=(
        "Compute the four advantages of each group in your head. Which groups have only zeros?",
        "One group has unequal rewards although all its answers are right. Read the condition again: what "
        "does it count?",
        "If 2 of 5 prompts are useful, 5 prompts give 2 groups. The penalty in the loss is a term of its own "
        "beside the advantages.",
    ),
    solution=dict(WANTED),
    examine=examine,
    why=(
        "Does dropping groups change what is optimised?",
        "Yes. Prompts no longer count as often as they are drawn, but as often as they give mixed groups: "
        "those of middling difficulty come to dominate, and which these are changes while the policy learns. "
        "The gradient is larger for the same batch size; the sampling of the dropped groups is paid for all "
        "the same, which comparisons by *updates* do not show.",
    ),
)
