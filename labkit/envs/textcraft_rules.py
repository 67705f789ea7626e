"""TextCraft's rules: what the game answers to an action and what it does, and a plan for an item."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from labkit.envs.textcraft_recipes import Recipe, RecipeBook, id_of, name_of

STACK = 64
"""Most that one `get` brings."""
_GET = re.compile(r"get ([0-9]{1,9}) (.+)")
_CRAFT = re.compile(r"craft (?:[0-9]+ )?(.+?) using (.+)")
_COUNTED = re.compile(r"([0-9]{1,9}) (.+)")


class State(NamedTuple):
    """All there is to know. Immutable and hashable."""

    inventory: tuple[tuple[str, int], ...]
    """Pairs of item and count, sorted."""
    target: str
    """Id of the item to craft."""


def is_done(state: State) -> bool:
    """Whether one has the target."""
    return any(item == state.target for item, _ in state.inventory)


def apply(book: RecipeBook, state: State, action: str) -> tuple[str, State | None]:
    """(the game's answer, the next state); None for a state where the game refuses the action."""
    if action == "inventory":
        return inventory_text(state), state
    have = dict(state.inventory)
    if found := _GET.fullmatch(action):
        amount, name = int(found[1]), found[2]
        if id_of(name) not in book.gettable:
            return f"Could not find {_shown(name)}", None
        if not 1 <= amount <= STACK:
            return f"Could not get {amount} at once: 1 to {STACK}", None
        have[id_of(name)] = have.get(id_of(name), 0) + amount
        return f"Got {amount} {name}", _state(have, state.target)
    found = _CRAFT.fullmatch(action)
    if found is None:
        return f"Could not execute {_shown(action)}", None
    parts = [(part.strip(), _COUNTED.fullmatch(part.strip())) for part in found[2].split(",")]
    for part, counted in parts:
        if counted is None:
            return f"Wrong item format: {_shown(part)}", None
    used = [(id_of(counted[2]), int(counted[1])) for _, counted in parts if counted is not None]
    output = id_of(found[1])
    if any(have.get(item, 0) < count or item in book.kinds for item, count in used):
        return f"Could not find enough items to craft {_shown(output)}", None
    recipe = craft(book, have, output, used)
    if recipe is None:
        return f"Could not find a valid recipe for {_shown(output)}", None
    for item, count in used:
        have[item] -= count
    have[output] = have.get(output, 0) + recipe.count
    return f"Crafted {recipe.count} {output}", _state(have, state.target)


def craft(
    book: RecipeBook, have: Mapping[str, int], output: str, used: Sequence[tuple[str, int]]
) -> Recipe | None:
    """The recipe by which `used` makes `output`; None if there is none or one has not enough."""
    total: dict[str, int] = {}
    for item, count in used:
        total[item] = total.get(item, 0) + count
    if output in book.kinds or any(count < 1 or have.get(item, 0) < total[item] for item, count in used):
        return None
    for recipe in book.by_item.get(output, ()):
        left = list(used)
        for ingredient in recipe.ingredients:
            options = book.options(ingredient)
            match = next((pair for pair in left if pair[0] in options), None)
            if match is None or match[1] != ingredient.count:
                break
            left.remove(match)
        else:
            if not left:
                return recipe
    return None


def plan(book: RecipeBook, inventory: dict[str, int], target: str) -> list[str]:
    """Actions that craft `target` from an inventory; none if it cannot be had.

    Takes the cheapest recipe (`RecipeBook.costs`) of all that is lacking, and what one has first.
    """
    have, steps = dict(inventory), []

    def choose(recipe: Recipe) -> list[tuple[str, int]]:
        used = []
        for ingredient in recipe.ingredients:
            options = book.options(ingredient)
            held = [item for item in options if have.get(item, 0) >= ingredient.count]
            used.append((held[0] if held else book.cheapest(ingredient)[1], ingredient.count))
        return used

    def price(recipe: Recipe) -> float:
        return sum(book.cheapest(ingredient)[0] for ingredient in recipe.ingredients)

    def take(item: str, count: int) -> None:
        """Set `count` of an item aside, after all steps that it takes to have them."""
        while have.get(item, 0) < count:
            if item in book.gettable:
                steps.append(f"get {count} {name_of(item)}")
                have[item] = have.get(item, 0) + count
            else:
                make(item)
        have[item] -= count

    def make(item: str) -> None:
        recipe = min(book.by_item[item], key=price)
        used = choose(recipe)
        for one, count in used:
            take(one, count)
        steps.append(command(recipe, used))
        have[item] = have.get(item, 0) + recipe.count

    if target not in book.costs:
        return []
    make(target)
    return steps


def command(recipe: Recipe, used: Sequence[tuple[str, int]]) -> str:
    """A crafting command with the items that are used, pairs of item and count."""
    parts = ", ".join(f"{count} {name_of(item)}" for item, count in used)
    return f"craft {recipe.count} {name_of(recipe.output)} using {parts}"


def _state(have: Mapping[str, int], target: str) -> State:
    return State(tuple(sorted((item, count) for item, count in have.items() if count)), target)


def inventory_text(state: State) -> str:
    """What the action `inventory` is answered."""
    if not state.inventory:
        return "Inventory: You are not carrying anything."
    return "Inventory: " + " ".join(f"[{name_of(item)}] ({count})" for item, count in state.inventory)


def _shown(text: str) -> str:
    """Someone's text as an observation may repeat it."""
    return "".join(c if " " <= c <= "~" else "?" for c in text[:100])
