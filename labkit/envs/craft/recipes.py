"""CraftWorld's table of recipes: what is made of what, before an episode gives the items other names."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache

BASE = ("wood", "stone", "clay", "sand", "iron", "wool", "reed", "coal", "hide", "herb")
"""Items that lie around: one can `get` them."""

TABLE: Mapping[str, Mapping[str, int]] = {
    # depth 1: of base items alone
    "plank": {"wood": 2},
    "brick": {"clay": 1, "coal": 1},
    "glass": {"sand": 2, "coal": 1},
    "thread": {"wool": 1},
    "paper": {"reed": 2},
    "nail": {"iron": 1},
    "leather": {"hide": 1, "herb": 1},
    "blade": {"stone": 1, "iron": 1},
    # depth 2
    "rope": {"thread": 2},
    "cloth": {"thread": 2, "wool": 1},
    "bottle": {"glass": 1, "sand": 1},
    "board": {"plank": 2, "nail": 1},
    "book": {"paper": 2, "leather": 1},
    "wall": {"brick": 2, "clay": 1},
    "knife": {"blade": 1, "wood": 1},
    "bag": {"leather": 1, "thread": 1},
    # depth 3
    "net": {"rope": 2, "reed": 1},
    "sail": {"cloth": 1, "rope": 1},
    "potion": {"bottle": 1, "herb": 2},
    "table": {"board": 1, "wood": 1},
    "oven": {"wall": 1, "iron": 2},
    "lamp": {"bottle": 1, "thread": 1},
    "spear": {"knife": 1, "plank": 1},
    "tent": {"cloth": 2, "hide": 1},
    # depth 4
    "trap": {"net": 1, "stone": 2},
    "raft": {"sail": 1, "plank": 1},
    "medicine": {"potion": 1, "clay": 1},
    "desk": {"table": 1, "iron": 1},
    "kiln": {"oven": 1, "brick": 1},
    "lantern": {"lamp": 1, "iron": 1},
    "harpoon": {"spear": 1, "nail": 1},
    "camp": {"tent": 1, "coal": 1},
}
"""Item -> its ingredients and how many of each. One recipe an item, and it makes one."""

ITEMS = (*BASE, *TABLE)
"""Every name there is."""


@dataclass(frozen=True)
class Recipe:
    """One line of a recipe book; it makes one `item`."""

    item: str
    """What it makes."""
    ingredients: tuple[tuple[str, int], ...]
    """Pairs of item and count, each item once; they are used up."""

    def __str__(self) -> str:
        """The line as the book shows it.

        >>> print(Recipe("rope", (("thread", 2),)))
        craft rope using 2 thread
        """
        used = " , ".join(f"{count} {name}" for name, count in self.ingredients)
        return f"craft {self.item} using {used}"


@lru_cache(maxsize=None)
def depth_of(item: str) -> int:
    """Longest chain of recipes below an item of the table: 0 for a base item, at the most 4.

    Raises ValueError for a name that is not in the table.
    """
    if item in BASE:
        return 0
    if item not in TABLE:
        raise ValueError(f"{item!r} is not an item; items are {', '.join(ITEMS)}")
    return 1 + max(depth_of(ingredient) for ingredient in TABLE[item])


@lru_cache(maxsize=None)
def needed_for(item: str) -> tuple[str, ...]:
    """Items that must be crafted on the way to `item`, itself first, each after all that it is used in."""
    needed = {item} if item in TABLE else set()
    for ingredient in TABLE.get(item, ()):
        needed.update(needed_for(ingredient))
    # A recipe's item is deeper than its ingredients, so falling depth is such an order.
    return tuple(sorted(needed, key=lambda name: (-depth_of(name), name)))
