"""Answers to notebook 01's exercises as learners write them, put into the bank beside those of the others.

`WRONG` and `RIGHT` are the tables of all three.
"""

from __future__ import annotations

import random
import re

import numpy as np

from labkit.agents.forms import TextForm
from labkit.agents.react import BUDGET, failure_counts
from labkit.workshop.exercises import get
from labkit.workshop.exercises_01.policy import phone_policy
from tests.workshop.wrong_answers_02 import RIGHT, WRONG
from tests.workshop.wrong_answers_03 import right, wrong

TRANSITION = "01.transition"


def stepped(**changes):
    return {**get(TRANSITION).solution, **changes}


RIGHT[TRANSITION] += [
    stepped(on_2={"airplane"}, path_3="home", path_4="home > maps > permission"),
    stepped(on_2="Airplane", observation_2="airplane: on", path_4=("Home", "Maps", "Permission")),
]
WRONG[TRANSITION] += [
    ("radio_kept", stepped(on_2=["airplane", "wifi"])),
    ("switch_not_flipped", stepped(on_2=["wifi"])),
    ("switch_not_flipped", stepped(on_2=[])),
    ("old_observation", stepped(observation_2="Airplane : off")),
    ("shows_hidden", stepped(observation_2="Airplane : on , WiFi : off")),
    ("home_taken_for_back", stepped(path_3=["home", "settings", "network"])),
    ("status_line_forgotten", stepped(observation_3="Home : Settings , Maps , Camera , Chat")),
    ("no_dialog", stepped(path_4=["home", "maps"])),
    ("no_dialog", stepped(observation_4="Maps : location denied")),
    ("dialog_without_app", stepped(path_4=["home", "permission"])),
    ("shows_hidden", stepped(observation_4="Allow location for Maps ? : allow , deny")),
    ("other", stepped(on_2=["airplane", "mute"])),
    ("other", stepped(observation_2="on")),
    ("other", stepped(path_3=["home", "maps"])),
    ("wrong_type", stepped(on_2=3)),
    ("incomplete", stepped(path_4=...)),
    ("wrong_type", ["home"]),
]

ALIASES = "01.aliases"
TO_MAPS, TO_CHAT = ["open Maps"], ["open Settings", "open Apps", "open Chat"]
RIGHT[ALIASES] += [
    {"first": TO_MAPS, "second": TO_CHAT},
    {"first": ("open Camera",), "second": ("open Settings", "open Apps", "open Maps")},
    {"first": ["open Chat"], "second": ["open Settings", "back", "open Maps"]},
]
WRONG[ALIASES] += [
    ("looks_different", {"first": TO_MAPS, "second": []}),
    ("looks_different", {"first": ["open Settings"], "second": ["open Settings", "open Network"]}),
    ("same_state", {"first": [], "second": ["open Settings", "back"]}),
    ("same_state", {"first": TO_MAPS, "second": TO_MAPS}),
    (
        "common_best",
        {"first": [], "second": ["open Settings", "open Sound", "open Mute", "toggle Mute", "home"]},
    ),
    ("common_best", {"first": ["open Camera"], "second": ["open Chat"]}),
    # The same app, opened in two places: another state, and the same thing to do.
    ("common_best", {"first": TO_MAPS, "second": ["open Settings", "open Apps", "open Maps"]}),
    ("not_admissible", {"first": ["open WiFi"], "second": TO_MAPS}),
    ("not_admissible", {"first": TO_MAPS, "second": [["open Maps"]]}),
    ("goal_reached", {"first": ["open Maps", "allow"], "second": ["open Camera"]}),
    ("wrong_type", {"first": "open Maps", "second": "open Camera"}),
    ("wrong_type", (TO_MAPS, TO_CHAT)),
    ("incomplete", {"first": TO_MAPS, "second": ...}),
]

HISTORY = "01.history"


def prompter(
    end=0,
    show=("observation", "thought", "action"),
    now=lambda seen, t: [seen[t - 1]],
    goal=True,
    order=1,
    window=None,
):
    """A prompt that may hold other steps, other parts of them, and another observation at the end."""

    def my_prompt(goal_text, trajectory, t):
        seen = [step.observation for step in trajectory.steps] + [trajectory.last_observation]
        steps = trajectory.steps[: max(t - 1 + end, 0)][-window if window else None :]
        lines = [f"Goal: {goal_text}"] if goal else []
        for step in steps[::order]:
            lines += [f"{part.capitalize()}: {getattr(step, part)}" for part in show]
        return "\n".join(lines + [f"Observation: {observation}" for observation in now(seen, t)])

    return my_prompt


@right(HISTORY)
def by_the_form(goal, trajectory, t):
    return TextForm().prompt(goal, trajectory.history(t), trajectory.observation(t))


RIGHT[HISTORY].append(prompter())
WRONG[HISTORY] += [
    ("step_t_included", prompter(end=1)),
    ("step_t_included", prompter(end=1, now=lambda seen, t: [])),
    ("thoughts_dropped", prompter(show=("observation", "action"))),
    ("actions_dropped", prompter(show=("observation", "thought"))),
    ("stale_observation", prompter(end=-1, now=lambda seen, t: [seen[max(t - 2, 0)]])),
    ("observation_missing", prompter(now=lambda seen, t: [])),
    ("twice", prompter(now=lambda seen, t: [seen[t - 1]] * 2)),
    ("no_goal", prompter(goal=False)),
    ("newest_first", prompter(order=-1)),
    ("only_last_step", prompter(window=1)),
    ("other", prompter(show=("thought", "action"))),
    ("other", prompter(show=("observation", "action", "thought"))),
    ("wrong_type", lambda goal, trajectory, t: list(trajectory.steps[: t - 1])),
]


@wrong(HISTORY, "stale_observation")
def last_seen_before(goal, trajectory, t):
    return prompter(now=lambda seen, t: [seen[max(t - 2, 0)]])(goal, trajectory, t)


PARSE = "01.parse"


def matched(thought, action, flags=re.MULTILINE, cut=r"^Observation:", last=False, none=""):
    """Two patterns, run on what stands before an observation."""

    def my_parse(written):
        written = re.split(cut, written, flags=re.MULTILINE)[0] if cut else written

        def block(pattern):
            found = list(re.finditer(pattern, written, flags))
            return found[-1 if last else 0][1] if found else none

        return block(thought), block(action)

    return my_parse


BLOCK = r"^{}:(.*?)(?=^(?:Thought|Action|Observation):|\Z)"
FIRST_LINE = r"^{}: *(.*)$"
THOUGHT, ACTION = BLOCK.format("Thought"), BLOCK.format("Action")
DOT = re.MULTILINE | re.DOTALL


@right(PARSE)
def by_lines(written):
    found, current = {}, None
    for line in written.splitlines():
        marker, colon, rest = line.partition(":")
        if colon and marker in ("Thought", "Action", "Observation"):
            if marker == "Observation":
                break
            current = None if marker in found else marker
            line = rest
            found.setdefault(marker, [])
        if current:
            found[current].append(line)
    return tuple("\n".join(found.get(marker, [])) for marker in ("Thought", "Action"))


@right(PARSE)
def by_labkits_form(written):
    parsed = TextForm().parse(written)
    return parsed.thought, parsed.action


RIGHT[PARSE] += [matched(THOUGHT, ACTION, DOT), matched(THOUGHT, ACTION, DOT, none=None)]
WRONG[PARSE] += [
    ("greedy", matched(r"^Thought:(.*)", ACTION, DOT)),
    ("last_action", matched(THOUGHT, r".*^Action:(.*)", DOT)),
    ("last_action", matched(THOUGHT, ACTION, DOT, last=True)),
    ("last_action", matched(THOUGHT, ACTION, DOT, cut=None, last=True)),
    ("past_observation", matched(THOUGHT, ACTION, DOT, cut=None)),
    ("one_line_thought", matched(FIRST_LINE.format("Thought"), FIRST_LINE.format("Action"))),
    ("marker_in_a_line", matched(r"Thought:(.*?)(?=Action:|\Z)", r"Action:([^\n]*)", DOT)),
    ("marker_in_a_line", matched(THOUGHT, r"Action:([^\n]*)", DOT)),
    ("thought_needed", matched(THOUGHT, r"^Thought:.*?^Action:(.*?)(?=^Thought:|^Action:|\Z)", DOT)),
    ("other", lambda written: ("", "")),
    ("wrong_type", lambda written: {"thought": "", "action": ""}),
    ("wrong_type", lambda written: (1, 2)),
]


@wrong(PARSE, "none_not_handled")
def without_a_look_whether_it_matched(written):
    written = re.split(r"^Observation:", written, flags=re.MULTILINE)[0]
    thought = re.search(THOUGHT, written, DOT)
    return thought[1] if thought else "", re.search(ACTION, written, DOT).group(1)


@wrong(PARSE, "last_thought")
def the_latest_thought(written):
    thought = matched(THOUGHT, ACTION, DOT, last=True)(written)[0]
    return thought, by_lines(written)[1]


@wrong(PARSE, "preamble_kept")
def everything_before_the_action_is_thought(written):
    thought, action = by_lines(written)
    before = written.partition("\nThought:")[0]
    return (f"{before} {thought}" if before.startswith("Sure") else thought), action


@wrong(PARSE, "action_from_nothing")
def the_whole_text_if_nothing_is_marked(written):
    thought, action = by_lines(written)
    return thought, action or thought or written


FAILURES = "01.failures"


def counted(kinds=lambda t: {k for s in t.steps for k in s.failures}, budget=lambda t: t.truncated):
    """Counts of the kinds that `kinds` gives of an episode, and `budget` where that says so."""

    def my_failure_counts(trajectories):
        counts = {}
        for trajectory in trajectories:
            for kind in [*kinds(trajectory), *([BUDGET] if budget(trajectory) else [])]:
                counts[kind] = counts.get(kind, 0) + 1
        return counts

    return my_failure_counts


def kinds_by_screen(trajectory):
    kinds = {k for s in trajectory.steps for k in s.failures} - {"repeated"}
    seen = [(step.observation, step.action) for step in trajectory.steps]
    return kinds | ({"repeated"} if len(set(seen)) < len(seen) else set())


RIGHT[FAILURES] += [counted(), lambda found: dict(failure_counts(found))]
WRONG[FAILURES] += [
    ("counts_steps", counted(lambda t: [k for s in t.steps for k in s.failures])),
    ("budget_forgotten", counted(budget=lambda t: False)),
    ("budget_for_terminated", counted(budget=lambda t: t.terminated)),
    ("budget_for_every_failure", counted(budget=lambda t: not t.terminated)),
    ("budget_for_every_end", counted(budget=lambda t: True)),
    (
        "failed_episodes_only",
        counted(lambda t: set() if t.success else {k for s in t.steps for k in s.failures}),
    ),
    ("first_failure_only", counted(lambda t: [k for s in t.steps for k in s.failures][:1])),
    ("repeated_by_observation", counted(kinds_by_screen)),
    ("other", lambda trajectories: {"format": 1}),
    ("other", lambda trajectories: failure_counts(trajectories * (len(trajectories) > 1))),
    ("other", lambda trajectories: {**counted()(trajectories), "stumbled": 2}),
    ("wrong_type", lambda trajectories: list(counted()(trajectories))),
]

POLICY = "01.policy"


@right(POLICY)
def by_trying(goal, observation, history):
    """Learns of airplane mode by running into its dialog."""
    verb, done = goal.split()[0], [step.action for step in history]
    blocked = (
        any(step.observation.startswith("Blocked") for step in history) and "toggle Airplane" not in done
    )
    for title, action in (
        ("Blocked", "ok"),
        ("Allow", verb),
        ("Home", "open Maps" if "Maps" in goal else "open Settings"),
        ("Settings", "open Network"),
        ("Network", "open Airplane" if blocked else "open WiFi"),
        ("Airplane", "toggle Airplane" if blocked else "back"),
        ("WiFi", "back" if blocked else "toggle WiFi"),
    ):
        if observation.startswith(title):
            return action


@right(POLICY)
def by_search(goal, observation, history):
    """Through the search box; leaves it by going home."""
    done = [step.action for step in history]
    seen = [step.observation for step in history] + [observation]
    radio = goal == "turn on the WiFi" and "airplane" in seen[0] and "toggle Airplane" not in done
    wanted = "Airplane" if radio else "WiFi"
    if observation.startswith("Allow"):
        return goal.split()[0]
    if observation.startswith("Home"):
        return "open Maps" if "Maps" in goal else "open Settings"
    if observation.startswith(wanted):
        return f"toggle {wanted}"
    if observation.startswith("Airplane"):
        return "home"
    return {"Settings": "open Search", "Search": f"search {wanted}", "Results": "open Result"}[
        observation.split()[0]
    ]


def memoryless(goal, observation, history, blocked="ok"):
    return {
        "Blocked": blocked,
        "Allow": goal.split()[0],
        "Home": "open Maps" if "Maps" in goal else "open Settings",
        "Settings": "open Network",
        "Network": "open WiFi",
        "WiFi": "toggle WiFi",
    }[observation.split()[0]]


def home_then_memoryless(goal, observation, history):
    """The home screen shows airplane mode; without memory that is forgotten one screen on."""
    screen = observation.split()[0]
    if screen == "Airplane":
        return "back" if observation.endswith("off") else "toggle Airplane"
    if screen == "Network" and goal == "turn on the WiFi" and not history:
        return "open Airplane"
    return memoryless(goal, observation, history, "home")


WRONG[POLICY] += [
    ("memoryless", memoryless),
    ("loops", home_then_memoryless),
    ("ignores_dialog", lambda goal, o, h: memoryless(goal, o, h, "back")),
    ("ignores_dialog", lambda goal, o, h: "toggle WiFi" if o.startswith("Bl") else memoryless(goal, o, h)),
    ("goal_ignored", lambda goal, o, h: phone_policy("turn on the WiFi", o, h)),
    ("goal_ignored", lambda goal, o, h: phone_policy(goal.replace("deny", "allow"), o, h)),
    ("memoryless", lambda goal, o, h: phone_policy(goal.replace("turn on", "open"), o, h)),
    ("not_on_screen", lambda goal, o, h: "open WiFi"),
    ("not_on_screen", lambda goal, o, h: "finish" if o.startswith("WiFi") else phone_policy(goal, o, h)),
    ("wrong_type", lambda goal, o, h: ("open Settings",)),
]


@wrong(POLICY, "goal_ignored")
def always_back_from_the_page(goal, observation, history):
    return "back" if observation.startswith("WiFi") else phone_policy(goal, observation, history)


@wrong(POLICY, "puts_airplane_on")
def flips_airplane_whatever_it_was(goal, observation, history):
    flying = "turn on" in goal and "toggle Airplane" not in [step.action for step in history]
    if observation.startswith("Blocked"):
        return "ok"
    first = "Home airplane :" if flying else "Home :"
    return phone_policy(
        goal,
        first if observation.startswith("Home") else observation,
        [type(step)(first, step.thought, step.action) for step in history],
    )


@wrong(POLICY, "loops")
def looks_at_the_last_step_only(goal, observation, history):
    """Comes back from the page of airplane mode to the WiFi, but does not know any more what it did there."""
    last = history[-1].action if history else ""
    if observation.startswith("Blocked"):
        return "home"
    if observation.startswith("Airplane"):
        return "back"
    if observation.startswith("Network") and goal == "turn on the WiFi" and last == "open Network":
        return "open Airplane"
    return memoryless(goal, observation, history)


@wrong(POLICY, "other")
def wanders(goal, observation, history):
    """Never the same twice, and never there."""
    if "Maps" in goal:
        return phone_policy(goal, observation, history)
    names = "Airplane Bluetooth Hotspot Mute Vibration Dark Rotation Lock Tracking".split()
    number = sum(step.action.startswith("search") for step in history)
    return {
        "Home": "open Settings",
        "Settings": "open Search",
        "Search": f"search {names[number]}",
        "Results": "back",
    }[observation.split()[0]]


ASKED: list[int] = []


@wrong(POLICY, "state_outside")
def counts_on_its_own(goal, observation, history):
    ASKED.append(len(history))
    if len(ASKED) > 1 and len(history) and ASKED[-2] != len(history) - 1:
        return "home"
    return phone_policy(goal, observation, history)


TRUNCATION = "01.truncation"


def target(follows, gamma=lambda g: g, reward=lambda r, end: r):
    def my_one_step_target(reward_, next_value, terminated, truncated, gamma_):
        value = next_value if follows(terminated, truncated) else 0.0
        return reward(reward_, terminated) + gamma(gamma_) * value

    return my_one_step_target


RIGHT[TRUNCATION] += [
    target(lambda end, cut: not end),
    lambda r, v, end, cut, gamma: np.float64(r + gamma * (1 - end) * v),
]
WRONG[TRUNCATION] += [
    ("truncation_as_termination", target(lambda end, cut: not (end or cut))),
    ("bootstraps_terminal", target(lambda end, cut: True)),
    ("flags_swapped", target(lambda end, cut: not cut)),
    ("only_at_a_cut", target(lambda end, cut: cut)),
    ("only_at_the_end", target(lambda end, cut: end)),
    ("no_discount", target(lambda end, cut: not end, gamma=lambda g: 1.0)),
    ("reward_lost", target(lambda end, cut: not end, reward=lambda r, end: 0.0)),
    ("reward_only_at_the_end", target(lambda end, cut: not end, reward=lambda r, end: r if end else 0.0)),
    ("reward_discounted", lambda r, v, end, cut, gamma: gamma * (r + (0 if end else v))),
    ("never_bootstraps", target(lambda end, cut: False)),
    ("other", target(lambda end, cut: not end, gamma=lambda g: g**2)),
    ("wrong_type", lambda r, v, end, cut, gamma: [r + gamma * v]),
]

MASK = "01.mask"


def masker(start=("<think>", "<act>"), end=("<eos>",), drop=(), begin=False):
    """On at `start`, off after `end`; words of `drop` are left out."""

    def my_mask(words):
        mask, writing = [], begin
        for word in words:
            writing = writing or word in start
            mask.append(writing and word not in drop)
            writing = writing and word not in end
        return mask

    return my_mask


def shifted(by):
    def my_mask(words):
        mask = masker()(words)
        return mask[by:] + [False] * by if by > 0 else [False] * -by + mask[:by]

    return my_mask


@right(MASK)
def from_both_ends(words):
    mask = np.zeros(len(words), dtype=bool)
    starts = [i for i, word in enumerate(words) if word in ("<think>", "<act>")]
    for start in starts:
        stop = next((i + 1 for i in range(start, len(words)) if words[i] == "<eos>"), len(words))
        mask[start:stop] = True
    return mask


RIGHT[MASK] += [masker(), lambda words: [int(keep) for keep in masker()(words)]]
WRONG[MASK] += [
    ("inverted", lambda words: [not keep for keep in masker()(words)]),
    ("off_by_one", shifted(1)),
    ("off_by_one", shifted(-1)),
    ("observations_kept", lambda words: [True] * len(words)),
    ("observations_kept", masker(end=())),
    ("observations_kept", masker(start=("<obs>",))),
    ("goal_kept", lambda words: [i < 5 or keep for i, keep in enumerate(masker()(words))]),
    (
        "goal_kept",
        lambda words: [word == "<bos>" or k for word, k in zip(words, masker()(words), strict=True)],
    ),
    ("padding_kept", masker(start=("<think>", "<act>", "<pad>"))),
    ("eos_left_out", masker(drop=("<eos>",))),
    ("markers_left_out", masker(drop=("<think>", "<act>"))),
    ("thoughts_left_out", masker(start=("<act>",))),
    ("other", masker(start=("<think>",))),
    ("other", masker(drop=("open",))),
    ("wrong_shape", lambda words: masker()(words)[1:]),
    ("wrong_type", lambda words: random.Random(0)),
]


@wrong(MASK, "last_step_only")
def from_the_last_marker(words):
    marks = [i for i, word in enumerate(words) if word in ("<obs>", "<eos>", "<bos>")]
    ends = [i for i in marks if i < len(words) - 1 - words.count("<pad>")]
    return [keep and i > ends[-1] for i, keep in enumerate(masker()(words))]


@wrong(MASK, "cut_off_lost")
def steps_that_end(words):
    text = " ".join(words)
    mask = [False] * len(words)
    for found in re.finditer(r"(<think>|<act>).*?<eos>", text):
        first = text[: found.start()].count(" ")
        mask[first : first + len(found[0].split())] = [True] * len(found[0].split())
    return mask
