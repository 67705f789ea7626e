"""The prompt at step t; the oracle writes it from tags that say what each line is and of which step."""

from __future__ import annotations

from collections.abc import Callable

from labkit.agents.forms import TextForm
from labkit.envs.trajectory import Step, Trajectory
from labkit.workshop.checking import call
from labkit.workshop.exercises import OTHER, Exercise, Mistake

GOAL = "open the WiFi"
STEPS = (
    ("Home : Settings , Maps , Camera , Chat", "it is among the settings", "open Settings"),
    ("Settings : Search , Network , Sound , Display , Privacy , System , Apps", "a radio", "open Network"),
    ("Network : WiFi , Airplane , Radio", "it has an entry", "open Airplane"),
    ("Airplane : off", "the wrong page", "back"),
)
LAST = "Network : WiFi , Airplane , Radio"


def trajectory() -> Trajectory:
    """Four steps towards the WiFi, one of them astray, cut off then."""
    steps = tuple(Step(*step) for step in STEPS)
    return Trajectory("labkit/PhoneWorld-v0", {}, GOAL, steps, LAST, terminated=False, truncated=True)


def prompt_at(goal: str, trajectory: Trajectory, t: int) -> str:
    """The text that π is conditioned on at step t (from 1 to T + 1): g, h_t and o_t, in `TextForm`.

    Raises IndexError for a step that the trajectory does not have.
    """
    history = trajectory.steps[: t - 1]
    if not 1 <= t <= len(trajectory.steps) + 1:
        raise IndexError(f"t is {t}; this trajectory has steps 1 to {len(trajectory.steps)}")
    lines = [f"Goal: {goal}"]
    for step in history:
        lines += [f"Observation: {step.observation}", TextForm().write(step.thought, step.action)]
    return "\n".join([*lines, f"Observation: {trajectory.observation(t)}", ""])


def lines_by_tags(t: int) -> list[str]:
    """Lines of the prompt at step t, each written down with the step it belongs to and then kept or not."""
    tagged = [(0, f"Goal: {GOAL}")]
    for number, (observation, thought, action) in enumerate(STEPS, 1):
        # An observation is seen at its own step, what the policy writes only after it.
        tagged.append((number, f"Observation: {observation}"))
        tagged += [(number + 1, f"Thought: {thought}"), (number + 1, f"Action: {action}")]
    tagged.append((len(STEPS) + 1, f"Observation: {LAST}"))
    return [line for since, line in tagged if since <= t]


MESSAGES = {
    "step_t_included": (
        "At t = {t} your prompt holds the thought and action of step {t} itself. That is what the policy is "
        "about to write: whoever trains on it teaches to copy, and whoever acts does not have it yet."
    ),
    "thoughts_dropped": (
        "Your prompt has no thoughts. They are part of the history: $h_t$ is made of triples, and a policy "
        "that worked something out at step 1 must be able to read it at step 3."
    ),
    "actions_dropped": (
        "Your prompt has no actions. From what was seen alone, the policy cannot tell what it did in between."
    ),
    "stale_observation": (
        "The last line at t = {t} is an older observation, not $o_{t}$: your policy always acts on the "
        "screen before the last."
    ),
    "observation_missing": (
        "At t = {t} the prompt does not end in an observation. What is $o_{t}$, and where does it stand, if "
        "$h_{t}$ stops a step earlier?"
    ),
    "twice": "At t = {t} the same observation stands twice in a row. Of which step is each of the two?",
    "no_goal": "Your prompt does not begin with the goal; the policy would not know what for.",
    "newest_first": "Your history runs backwards. The oldest step comes first, as it happened.",
    "only_last_step": (
        "At t = {t} you show the last step alone. That is a window of one; $h_t$ holds all the steps "
        "before t."
    ),
}


def examine(answer: Callable[..., str]) -> str:
    """The prompt at every step, the one after the last included, line by line."""
    last = len(STEPS) + 1
    got = {}
    for t in range(1, last + 1):
        result = call(answer, GOAL, trajectory(), t)
        if not isinstance(result, str):
            raise Mistake(
                "wrong_type", f"Your function returns a `{type(result).__name__}`; the prompt is text."
            )
        got[t] = [line.strip() for line in result.strip().splitlines() if line.strip()]
    # In the middle a mistake shows more of itself than at the ends, where a step is missing anyway.
    for t in (*range(last - 1, 0, -1), last):
        if got[t] != lines_by_tags(t):
            _diagnose(t, got[t])
    return f"The same lines as by hand, at t = 1 to {last}."


def _diagnose(t: int, got: list[str]) -> None:
    wanted = lines_by_tags(t)

    def fail(name: str) -> None:
        raise Mistake(name, MESSAGES[name].format(t=t))

    if wanted[0] not in got[:1]:
        fail("no_goal")
    if not any(line.startswith("Thought:") for line in got) and t > 1:
        fail("thoughts_dropped")
    if not any(line.startswith("Action:") for line in got) and t > 1:
        fail("actions_dropped")
    later = lines_by_tags(t + 1)[len(wanted) :]
    if later and any(line in got for line in later if line.startswith(("Thought:", "Action:"))):
        fail("step_t_included")
    done = [[line for line in lines if line.startswith("Action:")] for lines in (got, wanted)]
    if done[0] == done[1][::-1] and len(done[0]) > 1:
        fail("newest_first")
    if any(one == other for one, other in zip(got, got[1:], strict=False)):
        fail("twice")
    if not got[-1].startswith("Observation:"):
        fail("observation_missing")
    if got[-1] != wanted[-1] and got[-1] in wanted:
        fail("stale_observation")
    if t > 2 and got == [wanted[0], *wanted[-4:]]:
        fail("only_last_step")
    wrong = next((i for i, (a, b) in enumerate(zip(got, wanted, strict=False)) if a != b), len(wanted) - 1)
    found = f"`{got[wrong]}`" if wrong < len(got) else "missing"
    raise Mistake(OTHER, f"At t = {t}, line {wrong + 1} of your prompt is {found}; compare it with the task.")


EXERCISE = Exercise(
    id="01.history",
    title="What the policy is given at step t",
    difficulty=2,
    importance=5,
    minutes=8,
    task="""\
Write `my_prompt(goal, trajectory, t)`: the text that π(· | $o_t$, $h_t$, g) is given at step t, counted
from 1. `trajectory.steps` is a tuple whose entries have `.observation`, `.thought` and `.action`;
`trajectory.last_observation` is what came back after the last of them. Every step has a thought, and no
text has a line end. At t = 2 the prompt looks so, a line each:

```
Goal: open the WiFi
Observation: (what was seen at step 1)
Thought: (of step 1)
Action: (of step 1)
Observation: (what is seen at step 2)
```

t runs from 1 to one more than there are steps: there the policy would go on, had it not been cut off.""",
    stub='''\
def my_prompt(goal, trajectory, t):
    """The text that a policy is given at step t, counted from 1."""
    raise NotImplementedError
''',
    hints=(
        "Which lines does the prompt have at t = 1? How many steps are in the history then? Python counts "
        "from 0, the formula from 1.",
        "The history at step t is `trajectory.steps[: t - 1]`. The present observation is not in it, and is "
        "written after it, without a thought or an action.",
        "Observations are one more than steps: `[s.observation for s in trajectory.steps]` and then "
        "`trajectory.last_observation`. In that list $o_t$ stands at `t - 1`.",
        """\
Fill in the blanks:

```python
def my_prompt(goal, trajectory, t):
    lines = [f"Goal: {goal}"]
    for step in trajectory.steps[: ____]:
        lines += [f"Observation: {step.observation}", f"Thought: {step.thought}", f"Action: {step.action}"]
    seen = [step.observation for step in trajectory.steps] + [trajectory.last_observation]
    return "\\n".join([*lines, f"Observation: {seen[____]}"])
```""",
    ),
    solution=prompt_at,
    examine=examine,
    why=(
        "A prompt that holds step t itself, used to train by imitation: what would the training loss look "
        "like, and what would the policy do when it acts?",
        "The loss would fall to nearly zero at once, as the answer stands in the prompt and copying is "
        "easy to learn. When it acts there is nothing to copy at that place, so that the policy does what "
        "it never learned, or copies the step before. A loss that is too good is a reason to print the "
        "prompt.",
    ),
)
