"""A policy of one's own, without a network or a look at the world; the oracle is the world, played."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from labkit.envs.phone.env import PhoneWorld
from labkit.envs.phone.goals import Task, single
from labkit.envs.phone.rules import State
from labkit.envs.trajectory import Step
from labkit.workshop.checking import call
from labkit.workshop.exercises import OTHER, Exercise, Mistake

BUDGET = 16
"""Steps that an episode may take; the longest shortest plan of these tasks has 7."""
OPEN, ON = single("open", "wifi"), single("on", "wifi")
ALLOW, DENY = single("allow", "maps"), single("deny", "maps")
TASKS = (
    Task(OPEN),
    Task(OPEN, airplane=True),
    Task(ON),
    Task(ALLOW),
    Task(DENY),
    Task(ON, airplane=True),
)
# Goals that must make a difference to what is done; what is right for "turn on" may be right for "open".
_ELSEWHERE = {OPEN: (ALLOW, DENY), ON: (OPEN, ALLOW, DENY), ALLOW: (DENY, OPEN), DENY: (ALLOW, OPEN)}
DIALOGS = ("Blocked by airplane", "Allow location ?")


def phone_policy(goal: str, observation: str, history: Sequence[Step]) -> str:
    """The next action towards `TASKS`, from what a policy may see: g, o_t and h_t.

    The first observation of an episode is the home screen, which shows airplane mode; whether it was put off
    since then, the actions in the history say.
    """
    seen = [step.observation for step in history] + [observation]
    flying = "airplane" in seen[0] and all(step.action != "toggle Airplane" for step in history)
    land_first = flying and goal.startswith("turn on")
    screen = observation.partition(" :")[0]
    if screen == "Allow location ?":
        return goal.split()[0]
    if screen.startswith("Home"):
        return "open Maps" if "Maps" in goal else "open Settings"
    return {
        "Settings": "open Network",
        "Network": "open Airplane" if land_first else "open WiFi",
        "Airplane": "toggle Airplane" if land_first else "back",
        "WiFi": "toggle WiFi",
    }.get(screen, "home")


class Turn(NamedTuple):
    """What a policy was given, the state it did not see, and what it did."""

    goal: str
    observation: str
    history: tuple[Step, ...]
    state: State
    action: str
    admissible: bool


def play(answer: Callable[..., str], task: Task) -> tuple[list[Turn], bool]:
    """The turns of one episode, and whether the goal was reached; an inadmissible action is the last."""
    world = PhoneWorld(max_steps=BUDGET)
    observation, info = world.reset(options={"task": task})
    turns: list[Turn] = []
    history: tuple[Step, ...] = ()
    while not world.is_over:
        action = call(answer, info["goal"], observation, history)
        if not isinstance(action, str):
            raise Mistake("wrong_type", f"An action is text; your policy returns `{action!r}`.")
        state = world.state
        seen, reward, terminated, _, told = world.step(action)
        turns.append(Turn(info["goal"], observation, history, state, action, told["admissible"]))
        step = Step(observation, "", action, reward, told["admissible"])
        history, observation = (*history, step), seen
        if not turns[-1].admissible:
            break
    return turns, terminated


MESSAGES = {
    "memoryless": (
        "With `{goal}` and airplane mode on, your policy never arrives, and does not look at the history: "
        "without it, it does the same. The screen `Network` looks no different once airplane mode is off, "
        "but another action is right then; only what was done before tells the two apart."
    ),
    "ignores_dialog": (
        "On `{screen}` your policy says `{action}`, which a dialog does not offer. A dialog lies over the "
        "screen and must be answered, or left, first."
    ),
    "not_on_screen": (
        "On `{screen}` your policy says `{action}`, which cannot be done there. Actions are `open` with an "
        "entry that is shown, `toggle` on a switch's page, `back`, `home`, and the answers of a dialog."
    ),
    "goal_ignored": (
        "For `{goal}` your policy does not arrive, and it does exactly what it would do for `{other}`. "
        "Does it read the goal?"
    ),
    "puts_airplane_on": (
        "For `{goal}` your policy flips airplane mode although it was off: now it is on, and blocks the "
        "WiFi. Which screen, seen at step 1, shows what it was?"
    ),
    "loops": (
        "For `{goal}` your policy goes round: on `{screen}` it says `{action}` in a state in which it did so "
        "before, so that nothing new can come of it. What could tell it that it has been here?"
    ),
    "state_outside": (
        "Asked again in the situations it has been in, in another order, your policy answers otherwise. It "
        "must follow from goal, observation and history alone: no counters outside the function, no chance."
    ),
}


def examine(answer: Callable[..., str]) -> str:
    """Six tasks played from the start; then the same situations again, in another order."""
    turns, steps = [], []
    for task in TASKS:
        played, reached = play(answer, task)
        if not reached:
            _diagnose(answer, task, played)
        turns += played
        steps.append(str(len(played)))
    for turn in reversed(turns):
        if answer(turn.goal, turn.observation, turn.history) != turn.action:
            raise Mistake("state_outside", MESSAGES["state_outside"])
    return f"All {len(TASKS)} goals reached, in {', '.join(steps)} steps."


def _diagnose(answer: Callable[..., str], task: Task, turns: Sequence[Turn]) -> None:
    def fail(name: str, turn: Turn, other: str = "") -> None:
        screen = turn.observation
        raise Mistake(
            name, MESSAGES[name].format(screen=screen, action=turn.action, goal=turn.goal, other=other)
        )

    for turn in turns:
        if not turn.admissible:
            fail("ignores_dialog" if turn.observation.startswith(DIALOGS) else "not_on_screen", turn)
    for turn in turns:
        if turn.action == "toggle Airplane" and "airplane" not in turn.state.on and not task.airplane:
            fail("puts_airplane_on", turn)
    again = _repeated(turns)
    if task == TASKS[-1] and all(answer(t.goal, t.observation, ()) == t.action for t in turns):
        fail("memoryless", again or turns[-1])
    for other in _ELSEWHERE[task.goal] if task != TASKS[-1] else ():
        if all(answer(other.text, t.observation, t.history) == t.action for t in turns):
            fail("goal_ignored", turns[-1], other.text)
    if again:
        fail("loops", again)
    raise Mistake(
        OTHER,
        f"For `{turns[0].goal}` your policy is not there after {BUDGET} steps, at `{turns[-1].observation}`.",
    )


def _repeated(turns: Sequence[Turn]) -> Turn | None:
    done: set[tuple[State, str]] = set()
    for turn in turns:
        if (turn.state, turn.action) in done:
            return turn
        done.add((turn.state, turn.action))
    return None


EXERCISE = Exercise(
    id="01.policy",
    title="Be the policy",
    difficulty=3,
    importance=4,
    minutes=12,
    task=f"""\
Write `my_policy(goal, observation, history)`, which returns the next action. No network, no world: only
what a ReAct policy is given. It shall reach these goals on the standard phone, each within {BUDGET} steps:

- `{OPEN.text}`, with airplane mode off and on;
- `{ON.text}`, with airplane mode off;
- `{ALLOW.text}` and `{DENY.text}`;
- `{ON.text}` with airplane mode **on**, which blocks the WiFi until it is put off.

`goal` and `observation` are text, as above. `history` is a tuple of steps with `.observation` and
`.action`, empty at first. Each episode starts on the home screen, and is lost with the first action that the
screen does not offer. WiFi and Airplane are in Network, Network is in Settings.""",
    stub='''\
def my_policy(goal, observation, history):
    """The next action, from what a policy may see."""
    raise NotImplementedError
''',
    hints=(
        "Begin with one goal and no history: which action belongs to each screen on the way? Then the "
        "dialogs. Which screen needs two different actions in the last task?",
        "`observation.partition(' :')[0]` is the title of the screen. A dict from title to action is a "
        "policy without memory, and enough for all tasks but the last.",
        "For the last: was airplane mode on at the start, and have you put it off since? The first is in "
        "`history[0].observation` (the home screen), the second in the actions: "
        "`[step.action for step in history]`.",
        """\
Fill in the blanks:

```python
def my_policy(goal, observation, history):
    first = history[0].observation if history else observation
    landed = ____ in [step.action for step in history]
    land_first = "airplane" in first and not landed and goal == "turn on the WiFi"
    if observation.startswith("Allow location"):
        return "deny" if goal.startswith("deny") else ____
    if observation.startswith("Home"):
        return "open Maps" if "Maps" in goal else "open Settings"
    if observation.startswith("Settings"):
        return "open Network"
    if observation.startswith("Network"):
        return "open Airplane" if ____ else "open WiFi"
    if observation.startswith("Airplane"):
        return "toggle Airplane" if land_first else ____
    return "toggle WiFi"
```""",
    ),
    solution=phone_policy,
    examine=examine,
    why=(
        "Could a policy without memory solve the last task if it wrote its thoughts, and the thoughts "
        "stayed in its prompt?",
        "Yes: a thought such as `airplane on ; turn it off first`, read again at the next step, carries "
        "what the screen no longer shows. It is memory that the policy writes for itself. That is one of "
        "the things thoughts are good for, and why a history that drops them can cost as much as one that "
        "drops the steps.",
    ),
)
