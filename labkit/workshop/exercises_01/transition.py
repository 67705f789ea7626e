"""T and Ω by hand on one phone; the oracle is the world, played."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from labkit.envs.phone.env import PhoneWorld
from labkit.envs.phone.goals import Task, single
from labkit.envs.phone.layout import STANDARD
from labkit.envs.phone.rules import State
from labkit.workshop.exercises import OTHER, Exercise, Mistake
from labkit.workshop.exercises_01.tables import require_filled

TASK = Task(single("allow", "maps"), replace(STANDARD, name="WiFi on", on=frozenset({"wifi"})))
"""A phone on which WiFi is on, and nothing else."""
WAY = ("open Settings", "open Network", "open Airplane")
"""How s_1 is reached."""
ACTIONS = ("toggle Airplane", "home", "open Maps")
"""a_1, a_2, a_3."""


def play() -> list[tuple[State, str]]:
    """(s_t, o_t) for t from 1 to 4, as the world gives them."""
    world = PhoneWorld()
    observation, _ = world.reset(options={"task": TASK})
    for action in WAY:
        observation, *_ = world.step(action)
    found = [(world.state, observation)]
    for action in ACTIONS:
        observation, *_ = world.step(action)
        found.append((world.state, observation))
    return found


PLAYED = play()
WANTED: Mapping[str, Any] = {
    "on_2": sorted(PLAYED[1][0].on),
    "observation_2": PLAYED[1][1],
    "path_3": list(PLAYED[2][0].path),
    "observation_3": PLAYED[2][1],
    "path_4": list(PLAYED[3][0].path),
    "observation_4": PLAYED[3][1],
}

MESSAGES = {
    "radio_kept": (
        "`on_2`: the screen after a_1 speaks of airplane mode alone, but the transition does more than the "
        "screen says. What does airplane mode do to radios that are on?"
    ),
    "switch_not_flipped": "`on_2`: a_1 flips the switch of the page that is shown. Which one is that?",
    "old_observation": (
        "`observation_2`: that is o_1, what was seen before the action. Ω is taken of the state after it."
    ),
    "shows_hidden": (
        "`{key}` says more than the screen does. Ω(s) tells what is shown, here by a page or dialog that "
        "names one thing only; the rest of s stays hidden."
    ),
    "home_taken_for_back": (
        "`path_3`: that is what `back` would do, which closes one screen. `home` leaves none of them open."
    ),
    "status_line_forgotten": (
        "`observation_3`: the home screen has a status line. It is the one place that shows something of "
        "the state which a_1 has changed."
    ),
    "no_dialog": (
        "`{key}`: the app has no answer yet, neither allowed nor denied. What lies over it when it opens?"
    ),
    "dialog_without_app": (
        "`path_4`: the dialog lies over the app that asks, and the app over the home screen. An answer must "
        "reach that app, so the state remembers it, although the screen does not name it."
    ),
}


def examine(answer: Mapping[str, Any]) -> str:
    """Hidden part and observation after each action, against the world."""
    require_filled(answer, WANTED)
    _examine_switches(_names(answer["on_2"]))
    for key in ("observation_2", "path_3", "observation_3", "path_4", "observation_4"):
        if key.startswith("path"):
            got, wanted = list(_names(answer[key])), WANTED[key]
        else:
            got, wanted = _plain(answer[key]), _plain(WANTED[key])
        if got != wanted:
            name = _diagnose(key, got)
            if name is None:
                raise Mistake(
                    OTHER, f"`{key}` is not {answer[key]!r}. Go back to the rules of action and screen."
                )
            raise Mistake(name, MESSAGES[name].format(key=key))
    return "Right: three transitions, and each time what shows of the state and what does not."


def _examine_switches(on: tuple[str, ...]) -> None:
    if sorted(on) == WANTED["on_2"]:
        return
    if "airplane" not in on:
        raise Mistake("switch_not_flipped", MESSAGES["switch_not_flipped"])
    if "wifi" in on:
        raise Mistake("radio_kept", MESSAGES["radio_kept"])
    raise Mistake(OTHER, f"`on_2` holds {', '.join(on)}; at first WiFi was on, and nothing else.")


def _diagnose(key: str, got: Any) -> str | None:
    if key == "observation_2":
        return "old_observation" if got == _plain(PLAYED[0][1]) else "shows_hidden" if "wifi" in got else None
    if key == "path_3":
        return "home_taken_for_back" if got == list(PLAYED[1][0].path[:-1]) else None
    if key == "observation_3":
        return "status_line_forgotten" if got == _plain(WANTED[key].replace(" airplane", "")) else None
    if key == "path_4":
        app = WANTED[key][:-1]
        return "no_dialog" if got == app else "dialog_without_app" if got == ["home", "permission"] else None
    asks = _plain("Allow location")
    return "no_dialog" if asks not in got else "shows_hidden" if "maps" in got else None


def _names(value: Any) -> tuple[str, ...]:
    """Keys of screens or switches, given as a list, a set, or text with anything between them."""
    parts = [value] if isinstance(value, str) else value
    try:
        return tuple(word.lower() for part in parts for word in re.findall(r"\w+", str(part)))
    except TypeError:
        raise Mistake(
            "wrong_type", f"A path and a set of switches are lists of names, not {value!r}."
        ) from None


def _plain(value: Any) -> str:
    return "".join(str(value).lower().split())


_FIRST = PLAYED[0]

EXERCISE = Exercise(
    id="01.transition",
    title="Three transitions by hand",
    difficulty=1,
    importance=4,
    minutes=6,
    task=f"""\
A phone is in the state $s_1$: opened are `{" > ".join(_FIRST[0].path)}`, on is `{", ".join(_FIRST[0].on)}`
and nothing else, no app has asked for the location yet. The screen shows $o_1$ = `{_FIRST[1]}`. Now $a_1$ =
`{ACTIONS[0]}`, $a_2$ = `{ACTIONS[1]}`, $a_3$ = `{ACTIONS[2]}`.

*T.* `toggle` flips the switch of the page shown; airplane mode puts WiFi, Bluetooth and hotspot off when it
comes on. `back` closes one screen, `home` all but the first. An app opened for the first time has a dialog,
`permission`, over it at once. *Ω.* A switch's page: `Name : on` or `Name : off`. The home screen: `Home`,
then `airplane` if that is on, then `: Settings , Maps , Camera , Chat`. The dialog:
`Allow location ? : allow , deny`.

Without running it: `on_2`, the switches that are on in $s_2$; `observation_2` = Ω($s_2$); `path_3`, the
screens opened in $s_3$; `observation_3`; `path_4`; `observation_4`. Paths and switches are lists of names
in small letters, observations are text.""",
    stub="""\
my_steps = {
    "on_2": ...,
    "observation_2": ...,
    "path_3": ...,
    "observation_3": ...,
    "path_4": ...,
    "observation_4": ...,
}
""",
    hints=(
        "Work out each state first, all of it, and only then ask what of it is on the screen. What did a_1 "
        "change besides the switch on its page?",
        "After `home` one screen is left. Of all screens it is the one that shows whether airplane mode is "
        "on.",
        "The app `maps` has neither been allowed nor denied anything, so two screens are opened by a_3: the "
        "app and, over it, the dialog. What is shown is the last one.",
    ),
    solution=dict(WANTED),
    examine=examine,
    why=(
        "After a_1 the screen reads the same whether or not WiFi was on before. Is the policy's history "
        "any help?",
        "Only if the policy has looked at the page of the WiFi in this episode: then o of that step is in "
        "h_t. History can undo what Ω leaves out, but only what was on some screen before, together with "
        "what the policy knows of T. What was never shown stays unknown, however long the history.",
    ),
)
