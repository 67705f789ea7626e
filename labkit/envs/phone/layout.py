"""A phone as data: which entries each menu holds, what they are called, and what one can do on a screen.

Two phones differ in names (`WiFi`, `Wireless`, `WLAN`) and in where a switch lives. Keys are the same on all.
"""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import NamedTuple

NAMES: dict[str, tuple[str, str, str]] = {
    "settings": ("Settings", "Options", "Setup"),
    "search": ("Search", "Find", "Lookup"),
    "network": ("Network", "Connections", "Internet"),
    "radio": ("Radio", "Signals", "Antenna"),
    "sound": ("Sound", "Audio", "Tones"),
    "display": ("Display", "Screen", "Look"),
    "privacy": ("Privacy", "Security", "Safety"),
    "system": ("System", "General", "Device"),
    "power": ("Power", "Battery", "Energy"),
    "apps": ("Apps", "Programs", "Software"),
    "wifi": ("WiFi", "Wireless", "WLAN"),
    "bluetooth": ("Bluetooth", "Pairing", "Headset"),
    "airplane": ("Airplane", "Flight", "Aircraft"),
    "hotspot": ("Hotspot", "Tethering", "Sharing"),
    "mute": ("Mute", "Silent", "Quiet"),
    "vibration": ("Vibration", "Buzz", "Haptics"),
    "dark": ("Dark", "Night", "Black"),
    "rotation": ("Rotation", "Turning", "Landscape"),
    "lock": ("Lock", "Passcode", "Pin"),
    "tracking": ("Tracking", "Ads", "Profiling"),
    "updates": ("Updates", "Upgrades", "Patches"),
    "saver": ("Saver", "Economy", "Eco"),
    "standby": ("Standby", "Sleep", "Idle"),
    "maps": ("Maps", "Atlas", "Navigator"),
    "camera": ("Camera", "Photos", "Lens"),
    "chat": ("Chat", "Messages", "Talk"),
}
"""Names an entry may have. Goals use the first; screens and actions the one that the phone uses."""

STANDARD_MENUS: dict[str, tuple[str, ...]] = {
    "home": ("settings", "maps", "camera", "chat"),
    "settings": ("search", "network", "sound", "display", "privacy", "system", "apps"),
    "network": ("wifi", "airplane", "radio"),
    "radio": ("bluetooth", "hotspot"),
    "sound": ("mute", "vibration"),
    "display": ("dark", "rotation"),
    "privacy": ("lock", "tracking"),
    "system": ("updates", "power"),
    "power": ("saver", "standby"),
    "apps": ("maps", "camera", "chat"),
}
"""Entries of each menu on the standard phone. Apps are on the home screen and in a menu."""

APPS = ("maps", "camera", "chat")
"""Apps, each of which asks for the location when opened for the first time."""
SWITCHES = tuple(
    key for menu, keys in STANDARD_MENUS.items() if menu not in ("home", "apps") for key in keys
    if key not in STANDARD_MENUS and key != "search"
)  # fmt: skip
"""Entries that are a page with one switch."""
RADIOS = frozenset({"wifi", "bluetooth", "hotspot"})
"""Switches that airplane mode turns off and keeps off."""
STANDARD_ON = frozenset({"vibration", "rotation", "lock", "updates"})
"""Switches that are on when nobody has touched them."""

PERMISSION, BLOCKED, RESULTS = "permission", "blocked", "results"
"""Screens besides menus, pages and the search box: two dialogs and what a search found."""


class Move(NamedTuple):
    """What an action does, read off its words."""

    verb: str
    """`open`, `back`, `home`, `toggle`, `allow`, `deny`, `reset`, `ok` or `search`."""
    key: str = ""
    """The entry it is about, if any."""


@dataclass(frozen=True)
class Layout:
    """One phone's map. Immutable; two phones with the same content are equal."""

    name: str
    """Name for tables, e.g. `standard` or `phone 7`."""
    menus: tuple[tuple[str, tuple[str, ...]], ...]
    """Each menu's key with the keys of its entries, in the order shown."""
    names: tuple[tuple[str, str], ...]
    """Each entry's key with its name on this phone: one word."""
    on: frozenset[str] = STANDARD_ON
    """Switches that are on when nobody has touched them."""

    @cached_property
    def entries(self) -> Mapping[str, tuple[str, ...]]:
        """Keys in each menu, by the menu's key."""
        return dict(self.menus)

    @cached_property
    def label(self) -> Mapping[str, str]:
        """The name on this phone, by key."""
        return dict(self.names)

    @cached_property
    def moves(self) -> Mapping[str, Mapping[str, Move]]:
        """For each screen, what its admissible actions do, in their fixed order.

        This hangs on the screen alone, so a policy that sees the screen could know it.
        """
        leave = {"back": Move("back"), "home": Move("home")}
        moves: dict[str, dict[str, Move]] = {}
        for menu, keys in self.menus:
            moves[menu] = {f"open {self.label[key]}": Move("open", key) for key in keys}
            if menu != "home":
                moves[menu] |= leave
        for key in SWITCHES:
            moves[key] = {f"toggle {self.label[key]}": Move("toggle", key)} | leave
        for key in APPS:
            moves[key] = {"reset": Move("reset")} | leave
        moves["search"] = {f"search {self.label[key]}": Move("search", key) for key in SWITCHES} | leave
        moves[RESULTS] = {"open Result": Move("open")} | leave
        moves[PERMISSION] = {"allow": Move("allow"), "deny": Move("deny")} | leave
        moves[BLOCKED] = {"ok": Move("ok"), "home": Move("home")}
        return moves


STANDARD = Layout(
    "standard", tuple(STANDARD_MENUS.items()), tuple((key, names[0]) for key, names in NAMES.items())
)
"""The phone that studies of one known phone use: every entry in its usual place under its first name."""


@lru_cache(maxsize=1024)
def draw_layout(seed: int, renamed: bool = True, moved: int = 6) -> Layout:
    """Phone number `seed`: the standard one with names drawn and some switches in one another's places.

    `renamed`: draw each entry's name from `NAMES`. `moved`: this many of the 13 switches change places, in a
    ring, so that each of them is somewhere else; menus are then shown in a drawn order. 0 leaves all where it
    is. What is on at first is drawn too. The same arguments give the same phone on every machine.

    Raises ValueError for a number of moved switches that cannot be (negative, 1, or above 13).
    """
    if moved == 1 or not 0 <= moved <= len(SWITCHES):
        raise ValueError(
            f"moved is {moved}; it can be 0, or 2 to {len(SWITCHES)} switches that change places"
        )
    # Its own stream, so that the names of a phone do not hang on whether switches moved.
    draw_names, draw_places = (random.Random(f"phone {seed} {what}") for what in ("names", "places"))
    names = {key: draw_names.choice(known) if renamed else known[0] for key, known in NAMES.items()}
    on = frozenset(key for key in SWITCHES if key != "airplane" and draw_names.random() < 0.4)
    menus = dict(STANDARD_MENUS)
    if moved:
        ring = draw_places.sample(SWITCHES, moved)
        takes = dict(zip(ring, ring[1:] + ring[:1], strict=True))
        for menu, keys in STANDARD_MENUS.items():
            menus[menu] = tuple(draw_places.sample([takes.get(key, key) for key in keys], len(keys)))
    return Layout(f"phone {seed}", tuple(menus.items()), tuple(names.items()), on)
