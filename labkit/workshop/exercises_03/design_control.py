"""A control experiment; the check looks at what it changes and how it is measured."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from labkit.workshop.exercises import Exercise, Mistake

RL_ARM: Mapping[str, Any] = {
    "start": "base",
    "responses": "sampled from the policy",
    "reward": "verifier",
    "compute": 1.0,
}
"""What the control is compared with: the four things in which an arm can differ."""


OPTIONS: Mapping[str, tuple[str, ...]] = {
    "start": ("base", "SFT checkpoint"),
    "responses": ("sampled from the policy", "solver demonstrations"),
    "reward": (
        "verifier",
        "verifier, doubled",
        "1 for every response",
        "coin flip",
        "shuffled within the group",
    ),
    "settings_chosen_on": ("validation hands", "test hands"),
    "claim_holds_if": (
        "RL is higher out of distribution",
        "RL and the control do not differ",
        "the control is higher out of distribution",
    ),
}


MEASURES = ("in-distribution", "out-of-distribution")


KEYS = (*RL_ARM, "measured_on", "settings_chosen_on", "seeds", "claim_holds_if")


FEWEST_SEEDS = 3


def examine(answer: Mapping[str, Any]) -> str:
    """Whether a control differs from the RL arm in the reward's information alone, and is measured fairly."""
    if not isinstance(answer, Mapping):
        raise Mistake("wrong_type", "The answer is a dict, one entry a line of the table.")
    blank = [key for key in KEYS if answer.get(key) in (None, ...)]
    if blank:
        raise Mistake("incomplete", f"Still to choose: {', '.join(f'`{key}`' for key in blank)}.")
    _examine_options(answer)
    changed = [key for key in RL_ARM if answer[key] != RL_ARM[key]]
    if not changed:
        raise Mistake(
            "no_change", "This is the RL arm itself. A control takes away what the claim says matters."
        )
    if len(changed) > 1:
        raise Mistake(
            "two_changes",
            f"It differs from the RL arm in {', '.join(f'`{key}`' for key in changed)}. If the results "
            "differ, which of these was it?",
        )
    if changed != ["reward"]:
        raise Mistake(
            "wrong_change",
            f"It changes `{changed[0]}` and keeps the verifier's reward: whatever comes out, it says nothing "
            "about the reward signal.",
        )
    if answer["reward"] == "verifier, doubled":
        raise Mistake(
            "same_signal",
            "Advantages are divided by the group's standard deviation: doubling the reward cancels.",
        )
    if answer["reward"] == "1 for every response":
        raise Mistake(
            "no_update",
            "With equal rewards every advantage is 0 and nothing is ever updated. The control would lack "
            "the updates as well as the signal; it should be pushed as hard, in directions that mean "
            "nothing.",
        )
    _examine_measurement(answer)
    return (
        "One thing is changed: the rewards have the same size and push as hard, but do not say which "
        "response was right. Start, data and compute are as in the RL arm, and it is measured where the "
        "claim is made."
    )


def _examine_options(answer: Mapping[str, Any]) -> None:
    for key, accepted in OPTIONS.items():
        if answer[key] not in accepted:
            raise Mistake(
                "unknown_option", f"`{key}` is one of: {'; '.join(accepted)}. You have {answer[key]!r}."
            )
    measured = _listed(answer["measured_on"])
    if not measured or not set(measured) <= set(MEASURES):
        raise Mistake("unknown_option", f"`measured_on` is a list of one or both of: {'; '.join(MEASURES)}.")
    for key in ("compute", "seeds"):
        if isinstance(answer[key], bool) or not isinstance(answer[key], int | float) or answer[key] <= 0:
            raise Mistake("unknown_option", f"`{key}` is a positive number. You have {answer[key]!r}.")


def _examine_measurement(answer: Mapping[str, Any]) -> None:
    if "out-of-distribution" not in _listed(answer["measured_on"]):
        raise Mistake("in_distribution_only", "The claim is about generalising. Where would one see that?")
    if answer["settings_chosen_on"] != "validation hands":
        raise Mistake(
            "chosen_on_test",
            "Settings chosen on the test hands fit them by luck; what is then measured on them is too good. "
            "Which hands are there for choosing?",
        )
    if answer["seeds"] < FEWEST_SEEDS:
        raise Mistake(
            "too_few_seeds",
            f"{answer['seeds']:g} seed{'s' * (answer['seeds'] != 1)}: how would one tell the arms' "
            "difference from that between two runs of the same arm?",
        )
    if answer["claim_holds_if"] != OPTIONS["claim_holds_if"][0]:
        raise Mistake(
            "wrong_prediction",
            "If the claim is true, what does taking the signal away do to out-of-distribution accuracy?",
        )


def _listed(value: Any) -> list[Any]:
    return [value] if isinstance(value, str) else list(value) if isinstance(value, list | tuple | set) else []


def _option_rows() -> str:
    accepted = {**OPTIONS, "compute": ("a number; 1.0 is that of the RL arm",), "seeds": ("a number",)}
    accepted["measured_on"] = (f"a list with one or both of `{'`, `'.join(MEASURES)}`",)
    keys = (*RL_ARM, "measured_on", "settings_chosen_on", "seeds", "claim_holds_if")
    cells = {
        k: v[0] if k not in OPTIONS else ", ".join(f"`{text}`" for text in v) for k, v in accepted.items()
    }
    return "\n".join(
        f"| `{key}` | {f'`{RL_ARM[key]}`' if key in RL_ARM else ''} | {cells[key]} |" for key in keys
    )


EXERCISE = Exercise(
    id="03.design_control",
    title="Design a control",
    difficulty=3,
    importance=4,
    minutes=10,
    task=f"""\
Claim: *RL generalises because its reward says which responses are right*; not merely because it trains on
its own samples, starts where it starts, or computes for so long.

Design the control arm that could prove this wrong. Fill in the dict; texts as in the table.

| key | the RL arm has | you may choose |
|---|---|---|
{_option_rows()}""",
    stub="""\
my_control = {
    "start": ...,
    "responses": ...,
    "reward": ...,
    "compute": ...,
    "measured_on": ...,
    "settings_chosen_on": ...,
    "seeds": ...,
    "claim_holds_if": ...,
}
""",
    hints=(
        "A control differs from the arm in one thing: the one that the claim calls the cause. Which of the "
        "first four lines is that?",
        "The policy should be pushed just as hard, but in directions that mean nothing. What does GRPO do "
        "with rewards that are all equal, or all doubled? (Look at the formula of the advantage.)",
        "Then measure: where the claim is made, on hands that were not used for choosing, often enough to "
        "know the spread between runs (three seeds are few, one is none), and write down beforehand what "
        "the claim predicts.",
    ),
    solution={
        **RL_ARM,
        "reward": "shuffled within the group",
        "measured_on": list(MEASURES),
        "settings_chosen_on": "validation hands",
        "seeds": 5,
        "claim_holds_if": "RL is higher out of distribution",
    },
    examine=examine,
    why=(
        "SFT differs from RL in the reward, and is in the study. Why is it no control for this claim?",
        "It differs in more: its responses come from a solver and not from the policy, its tokens are "
        "pushed up only and never down, and it spends no compute on sampling. If SFT does worse, any of "
        "these may be why. Shuffled rewards keep all of it and take away the one thing. (They also keep how "
        "often a reward is given, which a coin flip does only on average.)",
    ),
)
