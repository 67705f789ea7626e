"""CraftWorld's tasks and splits: which item, which recipe book, and what the items are called."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property, lru_cache

import numpy as np

from labkit.envs.craft.recipes import ITEMS, TABLE, Recipe, depth_of, needed_for

MOST_LINES = 8
"""Longest recipe book in lines."""
HELD_OUT = ("glass", "leather", "board", "bag", "oven", "lamp")
"""Items of the table kept for testing as goals, two of each depth that is trained on."""


@dataclass(frozen=True)
class Task:
    """One episode to play: an item to craft with a recipe book. The book is all there is to know.

    Raises ValueError for a book that is too long, has two lines for one item or no line for the goal.
    """

    target: str
    """The item to craft, by the name that it has in this episode."""
    book: tuple[Recipe, ...]
    """The recipe lines in the order shown, those of no use among them. An item that no line makes lies
    around."""
    depth: int
    """Longest chain of recipes to the target."""
    distractors: int
    """Lines of no use for the target."""
    origin: str
    """The target's name in the table; `HELD_OUT` is about these."""

    def __post_init__(self) -> None:
        made = [recipe.item for recipe in self.book]
        if len(made) > MOST_LINES or len(set(made)) < len(made) or self.target not in made:
            raise ValueError(
                f"a book has 1 to {MOST_LINES} lines, one for each item that it makes, and one of them for "
                f"the target {self.target!r}; this one makes {', '.join(made) or 'nothing'}"
            )

    @property
    def goal(self) -> str:
        """The task in words: the recipe book and what to craft."""
        lines = "\n".join(str(recipe) for recipe in self.book)
        return f"recipes :\n{lines}\ngoal : craft {self.target}"

    @cached_property
    def items(self) -> tuple[str, ...]:
        """The items of the book, sorted by name. An inventory counts them in this order."""
        named = {recipe.item for recipe in self.book}
        for recipe in self.book:
            named.update(name for name, _ in recipe.ingredients)
        return tuple(sorted(named))

    @cached_property
    def moves(self) -> dict[str, tuple[int, tuple[tuple[int, int], ...]]]:
        """Action -> what it makes, and pairs of what it uses up and how many; items by their index."""
        index = {name: i for i, name in enumerate(self.items)}
        recipes = {recipe.item: recipe.ingredients for recipe in self.book}
        return {
            f"craft {name}" if name in recipes else f"get {name}": (
                index[name],
                tuple((index[used], count) for used, count in recipes.get(name, ())),
            )
            for name in self.items
        }

    @cached_property
    def goal_index(self) -> int:
        """Index of the target in `items`."""
        return self.items.index(self.target)

    @cached_property
    def order(self) -> tuple[tuple[int, tuple[tuple[int, int], ...]], ...]:
        """The moves that lead to the target, each after all that use what it makes; as in `moves`."""
        makes = dict(self.moves.values())
        order: list[int] = []

        def visit(item: int) -> None:
            if item not in order:
                for used, _ in makes[item]:
                    visit(used)
                order.append(item)

        visit(self.goal_index)
        return tuple((item, makes[item]) for item in reversed(order))


@dataclass(frozen=True)
class Split:
    """From what the tasks of a split are drawn: evenly a depth, then a goal of it, then a number of lines."""

    depths: tuple[int, ...]
    """Depths of the goals."""
    distractors: tuple[int, ...]
    """Numbers of lines of no use; fewer where the book would get longer than `MOST_LINES`."""
    held_out: bool = False
    """Whether the goals are those of `HELD_OUT`, or all others."""

    def goals(self, depth: int) -> tuple[str, ...]:
        """The goals of one depth, by their names in the table."""
        return tuple(
            item for item in TABLE if depth_of(item) == depth and (item in HELD_OUT) == self.held_out
        )


SPLITS: Mapping[str, Split] = {
    "train": Split((1, 2, 3), (0, 1, 2)),
    "held_out_goals": Split((1, 2, 3), (0, 1, 2), held_out=True),
    "deeper": Split((4,), (0, 1, 2)),
    "more_distractors": Split((1, 2, 3), (4,)),
}
"""`train`, and three ways out of its distribution, one at a time: other goals, deeper ones, longer books."""


def get_split(name: str) -> Split:
    """The split of a name. Raises ValueError for one that there is not."""
    if name not in SPLITS:
        raise ValueError(f"{name!r} is not one of {', '.join(SPLITS)}")
    return SPLITS[name]


def check_names(names: str) -> None:
    """Raise ValueError unless `names` is `permuted` or `fixed`."""
    if names not in ("permuted", "fixed"):
        raise ValueError(f"names {names!r} is not 'permuted' or 'fixed'")


@lru_cache(maxsize=None)
def _distracting(origin: str) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Items of no use for `origin`: (those made with it or with something that it needs, all others)."""
    needed = needed_for(origin)
    used = {name for item in needed for name in (item, *TABLE[item])}
    others = [item for item in TABLE if item not in needed]
    return (
        tuple(item for item in others if used & set(TABLE[item])),
        tuple(item for item in others if not used & set(TABLE[item])),
    )


def make_task(
    origin: str,
    distractors: int = 0,
    rng: np.random.Generator | int = 0,
    names: str = "permuted",
) -> Task:
    """A task for one item of the table.

    `distractors`: lines of no use (fewer if the book is full), by preference such as use an item that the
    plan has to do with. `rng`: a generator or seed for their choice, the order of lines and the names.
    `names`: `permuted` gives the items of the table each other's names, so that names say nothing and the
    book must be read; `fixed` leaves them as they are, so that a model can learn the table by heart.

    Raises ValueError for something that cannot be crafted, a negative number of lines and other `names`.
    """
    if origin not in TABLE:
        raise ValueError(f"{origin!r} cannot be crafted; one of {', '.join(TABLE)} can")
    if distractors < 0:
        raise ValueError(f"distractors is {distractors}; a number of lines is 0 or more")
    check_names(names)
    rng = np.random.default_rng(rng)
    needed = needed_for(origin)
    distractors = min(distractors, MOST_LINES - len(needed))
    near, far = _distracting(origin)
    chosen = [near[i] for i in rng.permutation(len(near))] + [far[i] for i in rng.permutation(len(far))]
    shown = [*needed, *chosen[:distractors]]
    new = [ITEMS[i] for i in rng.permutation(len(ITEMS))] if names == "permuted" else ITEMS
    called = dict(zip(ITEMS, new, strict=True))
    book = tuple(
        Recipe(called[item], tuple((called[used], count) for used, count in TABLE[item].items()))
        for item in (shown[i] for i in rng.permutation(len(shown)))
    )
    return Task(called[origin], book, depth_of(origin), distractors, origin)


def draw_task(split: str, rng: np.random.Generator | int, names: str = "permuted") -> Task:
    """A task of a split, at random. Raises ValueError for a split or `names` that there is not."""
    rng = np.random.default_rng(rng)
    chosen = get_split(split)
    goals = chosen.goals(chosen.depths[rng.integers(len(chosen.depths))])
    origin = goals[rng.integers(len(goals))]
    return make_task(origin, chosen.distractors[rng.integers(len(chosen.distractors))], rng, names)
