"""PhoneWorld's two functions: the transition T(s, a) and the observation Ω(s).

The state holds more than the screen shows, and each hidden part makes two states look the same:

- *the way here*: `back` closes what is shown, and what lies under it is not shown. The dialog that asks for
  the location does not say which app asks, nor whether the app was opened from the home screen or a menu;
- *airplane mode* keeps WiFi, Bluetooth and hotspot off. Their pages do not show it; the home screen does, and
  whoever tries meets a dialog;
- *the query*: what a search found is one line, `Result`, which does not say what was typed;
- *switches elsewhere*: a menu does not show which switches behind it are on.
"""

from __future__ import annotations

from typing import NamedTuple

from labkit.envs.phone.layout import APPS, BLOCKED, PERMISSION, RADIOS, RESULTS, SWITCHES, Layout

NOTHING: frozenset[str] = frozenset()
_HOME = ("home",)


class State(NamedTuple):
    """All there is to know of a phone, apart from its map. Immutable and hashable."""

    path: tuple[str, ...] = _HOME
    """Screens opened one over another, by key; the last is shown, `back` closes it."""
    on: frozenset[str] = NOTHING
    """Switches that are on."""
    allowed: frozenset[str] = NOTHING
    """Apps that may see the location."""
    denied: frozenset[str] = NOTHING
    """Apps that may not. An app in neither asks when it is opened."""
    query: str = ""
    """Key of the switch that was last searched for, while its result is open."""


def actions(layout: Layout, state: State) -> tuple[str, ...]:
    """Admissible actions, in a fixed order."""
    return tuple(layout.moves[state.path[-1]])


def transition(layout: Layout, state: State, action: str) -> State:
    """T(s, a): the next state; the same state for an action that is not admissible.

    >>> from labkit.envs.phone.layout import STANDARD
    >>> transition(STANDARD, State(), "open Settings").path
    ('home', 'settings')
    """
    path, on, allowed, denied, query = state
    move = layout.moves[path[-1]].get(action)
    if move is None:
        return state
    verb, key = move
    if verb == "open":
        key = key or query
        asks = key in APPS and key not in allowed and key not in denied
        return State((*path, key, PERMISSION) if asks else (*path, key), on, allowed, denied, query)
    if verb == "back":
        # Closing the question closes the app that asked it.
        rest = path[: -2 if path[-1] == PERMISSION else -1]
        return State(rest, on, allowed, denied, query if RESULTS in rest else "")
    if verb == "home":
        return State(_HOME, on, allowed, denied)
    if verb == "toggle":
        if key in RADIOS and key not in on and "airplane" in on:
            return State((*path, BLOCKED), on, allowed, denied, query)
        on = on - {key} if key in on else on | {key}
        return State(path, on - RADIOS if "airplane" in on else on, allowed, denied, query)
    if verb == "ok":
        return State(path[:-1], on, allowed, denied, query)
    if verb == "search":
        return State((*path, RESULTS), on, allowed, denied, key)
    if verb == "allow":
        return State(path[:-1], on, allowed | {path[-2]}, denied, query)
    if verb == "deny":
        return State(path[:-1], on, allowed, denied | {path[-2]}, query)
    # `reset`: the app forgets the answer and closes.
    return State(path[:-1], on, allowed - {path[-1]}, denied - {path[-1]}, query)


class Screen(NamedTuple):
    """What can be seen, in parts: as much as a picture or a text may use."""

    title: str
    """First line of the screen."""
    lines: tuple[str, ...]
    """What stands below it, from top to bottom."""
    kind: str
    """`menu`, `page` (one fact), `search` (an empty box) or `dialog` (a question over the rest)."""
    airplane: bool = False
    """Whether the status line shows airplane mode; the home screen has a status line, no other does."""


def look(layout: Layout, state: State) -> Screen:
    """Ω(s) in parts; see the head of this file for what it leaves out."""
    screen = state.path[-1]
    if screen in SWITCHES:
        return Screen(layout.label[screen], ("on" if screen in state.on else "off",), "page")
    if screen in APPS:
        return Screen(
            layout.label[screen],
            ("location allowed" if screen in state.allowed else "location denied",),
            "page",
        )
    if screen == PERMISSION:
        return Screen("Allow location ?", ("allow", "deny"), "dialog")
    if screen == BLOCKED:
        return Screen("Blocked by airplane", ("ok",), "dialog")
    if screen == RESULTS:
        return Screen("Results", ("Result",), "menu")
    if screen == "search":
        return Screen(layout.label[screen], (), "search")
    title = "Home" if screen == "home" else layout.label[screen]
    lines = tuple(layout.label[key] for key in layout.entries[screen])
    return Screen(title, lines, "menu", screen == "home" and "airplane" in state.on)


def observe(layout: Layout, state: State) -> str:
    """Ω(s) as text: words separated by single spaces.

    >>> from labkit.envs.phone.layout import STANDARD
    >>> observe(STANDARD, State(on=frozenset({"airplane"})))
    'Home airplane : Settings , Maps , Camera , Chat'
    >>> observe(STANDARD, State(("home", "settings", "network", "wifi")))
    'WiFi : off'
    """
    title, lines, _, airplane = look(layout, state)
    return f"{title}{' airplane' if airplane else ''} : {' , '.join(lines)}".rstrip()
