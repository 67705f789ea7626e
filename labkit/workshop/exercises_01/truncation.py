"""Cut off is not over; the oracle continues the episode that was cut off."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from labkit.workshop.checking import call, close, first_match, to_number
from labkit.workshop.exercises import OTHER, Exercise, Mistake


def one_step_target(
    reward: float, next_value: float, terminated: bool, truncated: bool, gamma: float
) -> float:
    """Target of V(s_t): y_t = r_t + γ (1 - terminated_t) V(s_{t+1}).

    A terminal state has value 0, whatever a network says of it. A state that was cut off has the value it
    always had, so `truncated` changes nothing. Source: Pardo et al. 2018, arXiv 1712.00378.
    """
    return reward + (0.0 if terminated else gamma * next_value)


class Case(NamedTuple):
    """One step, and what becomes of it: rewards still to come if the world went on (none if it is over)."""

    reward: float
    to_come: tuple[float, ...]
    critic_says: float
    """What a network gives for s_{t+1}. Of a state that is not over it is right here."""
    terminated: bool
    truncated: bool
    gamma: float


def _case(reward: float, to_come: tuple[float, ...], end: str, gamma: float, says: float = 0.0) -> Case:
    value = sum(gamma**k * r for k, r in enumerate(to_come)) if to_come else says
    return Case(reward, to_come, value, end == "terminated", end == "truncated", gamma)


CASES = (
    _case(0.0, (0.0, 1.0), "goes on", 0.9),
    _case(0.25, (1.0,), "goes on", 0.8),
    _case(0.0, (0.0, 0.0, 1.0), "truncated", 0.9),
    _case(0.5, (0.0, 2.0), "truncated", 0.5),
    _case(1.0, (), "terminated", 0.9, says=0.7),
    _case(0.0, (), "terminated", 0.8, says=-0.4),
)


def target_by_going_on(case: Case) -> float:
    """Discounted sum of the reward and all that would still come, whoever stopped the clock."""
    return sum(case.gamma**k * r for k, r in enumerate((case.reward, *case.to_come)))


def target_mistakes() -> dict[str, list[float]]:
    """What typical wrong answers give for `CASES`."""
    return {
        "truncation_as_termination": [
            c.reward + (0 if c.terminated or c.truncated else c.gamma * c.critic_says) for c in CASES
        ],
        "bootstraps_terminal": [c.reward + c.gamma * c.critic_says for c in CASES],
        "flags_swapped": [c.reward + (0 if c.truncated else c.gamma * c.critic_says) for c in CASES],
        "only_at_a_cut": [c.reward + (c.gamma * c.critic_says if c.truncated else 0) for c in CASES],
        "only_at_the_end": [c.reward + (c.gamma * c.critic_says if c.terminated else 0) for c in CASES],
        "no_discount": [c.reward + (0 if c.terminated else c.critic_says) for c in CASES],
        "reward_lost": [0 if c.terminated else c.gamma * c.critic_says for c in CASES],
        "reward_only_at_the_end": [c.reward if c.terminated else c.gamma * c.critic_says for c in CASES],
        "reward_discounted": [c.gamma * (c.reward + (0 if c.terminated else c.critic_says)) for c in CASES],
        "never_bootstraps": [c.reward for c in CASES],
    }


MESSAGES = {
    "truncation_as_termination": (
        "Where the budget ran out you take the value of what follows for 0. The world was not over there: a "
        "policy that learns from this believes that nothing good can come after the last step it was allowed."
    ),
    "bootstraps_terminal": (
        "You add the value of a terminal state. Nothing follows there, so it is 0, whatever a network that "
        "was never trained on it says."
    ),
    "flags_swapped": (
        "The flags are the wrong way round. Which of the two says that the world is over by its own rules?"
    ),
    "only_at_a_cut": (
        "You add what follows at a cut alone. In the middle of an episode neither flag is set, and something "
        "follows there too."
    ),
    "only_at_the_end": "You add what follows exactly where nothing follows: the condition is inverted.",
    "no_discount": "γ is missing: what follows comes one step later.",
    "reward_lost": "The reward of the step itself is missing.",
    "reward_only_at_the_end": (
        "You count the reward only where the episode terminated. A step may be rewarded on the way."
    ),
    "reward_discounted": "You discount the reward of the step itself. It comes now, what follows later.",
    "never_bootstraps": (
        "Your target is the reward alone. In this world nearly all rewards are 0, so nearly every state "
        "would look worthless."
    ),
}


def examine(answer: Callable[..., float]) -> str:
    """Steps in the middle, at a cut and at the end, against the episode continued."""
    got = [
        to_number(call(answer, c.reward, c.critic_says, c.terminated, c.truncated, c.gamma), "the target")
        for c in CASES
    ]
    wanted = [target_by_going_on(c) for c in CASES]
    if first_match(got, {"right": wanted}) is None:
        if name := first_match(got, target_mistakes()):
            raise Mistake(name, MESSAGES[name])
        wrong = next(i for i, (g, w) in enumerate(zip(got, wanted, strict=True)) if not close(g, w))
        case = CASES[wrong]
        raise Mistake(
            OTHER,
            f"With reward {case.reward}, value {case.critic_says:.3g}, terminated {case.terminated}, "
            f"truncated {case.truncated} and γ = {case.gamma} you get {got[wrong]:.4g}, not "
            f"{wanted[wrong]:.4g}.",
        )
    return "Right in the middle of an episode, where it was cut off, and where it was over."


EXERCISE = Exercise(
    id="01.truncation",
    title="Cut off is not over",
    difficulty=1,
    importance=4,
    minutes=4,
    task="""\
Write `my_one_step_target(reward, next_value, terminated, truncated, gamma)`: the target $y_t$ of $V(s_t)$.
`next_value` is what a critic says of $s_{t+1}$; `terminated` is True if the world was over by its own rules
after this step, `truncated` if the budget of steps was used up and the world was not over. Both are False
in the middle of an episode.

By hand first: reward 0, γ = 0.9, and the critic says 0.5. What is the target in each of the three cases?""",
    stub='''\
def my_one_step_target(reward, next_value, terminated, truncated, gamma):
    """The target of V(s_t)."""
    raise NotImplementedError
''',
    hints=(
        "In which of the three cases (goes on, cut off, over) does something follow, if one let the world "
        "go on?",
        "Does the value of the state after the last allowed step depend on our budget? Then its target "
        "does not either.",
        """\
Fill in the blanks:

```python
def my_one_step_target(reward, next_value, terminated, truncated, gamma):
    follows = 0.0 if ____ else next_value
    return reward + ____ * follows
```""",
    ),
    solution=one_step_target,
    examine=examine,
    why=(
        "If episodes are cut off after 24 steps and cuts are treated as ends, what would the same state be "
        "worth at step 2 and at step 23?",
        "At step 2 what the goal pays, discounted; at step 23 next to nothing, since the goal is out of "
        "reach before the cut. But the state is the same, and does not hold the step number: the critic is "
        "taught two values for one input and learns something between. Either bootstrap at the cut, or put "
        "the time left into the state, if the deadline is part of the problem.",
    ),
)
