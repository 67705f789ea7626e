"""Failures counted in episodes; the oracle lists by hand which episode has which."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any

from labkit.agents.react import FAILURES, failure_counts
from labkit.envs.trajectory import Step, Trajectory
from labkit.workshop.checking import call
from labkit.workshop.exercises import OTHER, Exercise, Mistake

FORMAT, INADMISSIBLE, REPEATED, INVENTED, PREMATURE, BUDGET = FAILURES

# How each episode ends, and for each step: observation, action, failures.
_SCREEN, _WIFI = "Network : WiFi , Airplane , Radio", "WiFi : off"
EPISODES: tuple[tuple[str, tuple[tuple[str, str, tuple[str, ...]], ...]], ...] = (
    ("terminated", ((_SCREEN, "open WiFi", ()), (_WIFI, "toggle WiFi", ()))),
    # On to the goal after two slips of one kind: failures are not only of episodes that fail.
    ("terminated", ((_SCREEN, "allow", (INADMISSIBLE,)), (_SCREEN, "deny", (INADMISSIBLE,)))),
    # The same screen and action twice, but in another state: airplane mode was put off in between.
    ("terminated", ((_SCREEN, "open WiFi", ()), (_WIFI, "back", ()), (_SCREEN, "open WiFi", ()))),
    ("truncated", ((_SCREEN, "open WiFi", ()), (_WIFI, "ok", (INADMISSIBLE,)))),
    ("truncated", ((_WIFI, "ok", (INADMISSIBLE,)), (_WIFI, "ok", (INADMISSIBLE, REPEATED)))),
    ("truncated", ((_WIFI, "", (FORMAT,)), (_WIFI, "", (FORMAT, REPEATED)), (_WIFI, "", (FORMAT, REPEATED)))),
    ("truncated", ((_SCREEN, "open Radio", (INVENTED,)), ("Radio : Bluetooth , Hotspot", "back", ()))),
    ("finished", ((_SCREEN, "open WiFi", ()), (_WIFI, "finish", (PREMATURE,)))),
    ("finished", ((_WIFI, "finish", (INVENTED, PREMATURE)),)),
    ("finished", ((_SCREEN, "", (FORMAT,)), (_WIFI, "ok", (INADMISSIBLE,)), (_WIFI, "finish", (PREMATURE,)))),
)
WANTED = {FORMAT: 2, INADMISSIBLE: 4, REPEATED: 2, INVENTED: 2, PREMATURE: 3, BUDGET: 4}
"""Counted by hand."""


def trajectories() -> list[Trajectory]:
    """`EPISODES` as trajectories."""
    found = []
    for end, steps in EPISODES:
        last = len(steps) - 1
        taken = tuple(
            Step(
                observation,
                "",
                action,
                reward=float(end == "terminated" and i == last),
                admissible=not {FORMAT, INADMISSIBLE} & set(failures),
                failures=failures,
            )
            for i, (observation, action, failures) in enumerate(steps)
        )
        found.append(
            Trajectory(
                "labkit/PhoneWorld-v0",
                {},
                "turn on the WiFi",
                taken,
                _WIFI,
                terminated=end == "terminated",
                truncated=end == "truncated",
            )
        )
    return found


def count_mistakes() -> dict[str, dict[str, int]]:
    """What typical wrong answers give for `EPISODES`."""
    ends = Counter(end for end, _ in EPISODES)

    def counted(once: bool = True, first: bool = False, failed_only: bool = False) -> Counter[str]:
        counts: Counter[str] = Counter()
        for end, steps in EPISODES:
            kinds = [kind for *_, failures in steps for kind in failures]
            kinds = kinds[:1] if first else kinds
            if not (failed_only and end == "terminated"):
                counts.update(set(kinds) if once else kinds)
        return counts

    by_screen = sum(len({step[:2] for step in steps}) < len(steps) for _, steps in EPISODES)
    cut = {BUDGET: ends["truncated"]}
    return {
        "counts_steps": counted(once=False) | Counter(cut),
        "budget_forgotten": counted(),
        "budget_for_terminated": counted() | Counter({BUDGET: ends["terminated"]}),
        "budget_for_every_failure": counted() | Counter({BUDGET: ends["truncated"] + ends["finished"]}),
        "budget_for_every_end": counted() | Counter({BUDGET: len(EPISODES)}),
        "failed_episodes_only": counted(failed_only=True) | Counter(cut),
        "first_failure_only": counted(first=True) | Counter(cut),
        "repeated_by_observation": {**counted(), REPEATED: by_screen, **cut},
    }


MESSAGES = {
    "counts_steps": (
        "You count steps. One episode that repeats itself twenty times would outweigh nineteen that do so "
        "once; asked for is in how many *episodes* a kind occurs."
    ),
    "budget_forgotten": (
        "Your counts have no `budget`. No step carries it: it is how the episode ended, and the trajectory "
        "says so."
    ),
    "budget_for_terminated": (
        "You count `budget` where an episode was terminated. Those reached the goal; which flag says that "
        "the steps were used up?"
    ),
    "budget_for_every_failure": (
        "You count `budget` wherever the goal was not reached. Some of those episodes still had steps left: "
        "the policy itself said that it was finished."
    ),
    "budget_for_every_end": "You count `budget` for every episode; most of them ended in another way.",
    "failed_episodes_only": (
        "You leave out episodes that reached the goal. A policy may stumble on its way there, and that "
        "counts too."
    ),
    "first_failure_only": (
        "You count one kind for each episode. A step can have several failures, and another step another one."
    ),
    "repeated_by_observation": (
        "You call an action repeated when it was done on the same *screen* before. In the third episode the "
        "state was another one. Two states can look the same; use the kinds that the steps carry, which the "
        "loop found by the hidden state."
    ),
}


def examine(answer: Callable[..., Any]) -> str:
    """Ten episodes counted, also one at a time."""
    got = _counts(call(answer, trajectories()))
    if got != WANTED:
        _diagnose(got)
    for number, trajectory in enumerate(trajectories(), 1):
        kinds = {kind for step in trajectory.steps for kind in step.failures}
        wanted = kinds | ({BUDGET} if trajectory.truncated else set())
        if (one := _counts(call(answer, [trajectory]))) != dict.fromkeys(wanted, 1):
            raise Mistake(OTHER, f"Right for all together, but episode {number} on its own gives {one}.")
    return f"Right for {len(EPISODES)} episodes, together and one by one."


def _counts(result: Any) -> dict[str, int]:
    if not isinstance(result, Mapping):
        raise Mistake(
            "wrong_type", f"Return a mapping from kind to number; you return a `{type(result).__name__}`."
        )
    # A kind that did not occur may be left out.
    return {str(kind): number for kind, number in result.items() if number}


def _diagnose(got: dict[str, int]) -> None:
    for name, counts in count_mistakes().items():
        if got == {kind: number for kind, number in counts.items() if number}:
            raise Mistake(name, MESSAGES[name])
    kind = next(kind for kind in (*WANTED, *got) if got.get(kind, 0) != WANTED.get(kind, 0))
    wanted = f"by hand it is {WANTED[kind]}" if kind in WANTED else "there is no such kind"
    raise Mistake(OTHER, f"For {len(EPISODES)} episodes you count `{kind}` as {got.get(kind, 0)}; {wanted}.")


EXERCISE = Exercise(
    id="01.failures",
    title="Count failures",
    difficulty=2,
    importance=3,
    minutes=6,
    task="""\
Write `my_failure_counts(trajectories)`: in how many *episodes* does each kind of failure occur, at least
once? Return a mapping from kind to number; a kind that does not occur may be left out.

`trajectory.steps[i].failures` is a tuple of the kinds at a step, found by the loop, which knows the hidden
state: `format`, `inadmissible`, `repeated`, `invented observation`, `premature finish`. One kind is of the
episode as a whole and of no step: `budget`, where the steps were used up. `trajectory.terminated` and
`trajectory.truncated` say how it ended; where both are False the policy said `finish`.""",
    stub='''\
def my_failure_counts(trajectories):
    """In how many trajectories each kind of failure occurred, as a mapping."""
    raise NotImplementedError
''',
    hints=(
        "For one episode: which kinds occur in it? A kind that occurs five times in it is still one kind.",
        "A set keeps each kind once: `{kind for step in trajectory.steps for kind in step.failures}`. What "
        "has to be added to it, and when?",
        """\
Fill in the blanks:

```python
def my_failure_counts(trajectories):
    counts = {}
    for trajectory in trajectories:
        kinds = {kind for step in trajectory.steps for kind in step.failures}
        if trajectory.____:
            kinds.add(____)
        for kind in kinds:
            counts[kind] = counts.get(kind, 0) + ____
    return counts
```""",
    ),
    solution=failure_counts,
    examine=examine,
    why=(
        "Two policies reach the same share of goals. One fails by `premature finish`, the other by "
        "`budget` with `repeated`. Would you mend them in the same way?",
        "No. The first stops when it should go on: it misjudges whether the goal holds, and training on "
        "how episodes end may mend that. The second does not notice that it has been here before: it lacks "
        "memory, or does not use it. The share of goals alone says neither; the kinds of failure point at "
        "causes.",
    ),
)
