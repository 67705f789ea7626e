"""TextCraft (Prasad et al. 2024, arXiv 2311.05772): Minecraft's recipes as a world of text, by this protocol.

The rules and answers are those of the package `textcraft`, MIT, whose data this reads. What differs, and why:

- the recipe lines stand in the goal, and the first observation is the inventory: the package prints the
  lines once, as the first observation;
- lines of no use are drawn by the episode's seed: the package's follow the process's hash seed, and its
  tables grow at every reset;
- `get` takes 1 to 64 at once, and a command must match as a whole: the package gets any amount, 0 too, and
  ignores what follows a command;
- the inventory is sorted, and a refusal names the item where the package prints a Python object.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import product
from typing import Any

import numpy as np

from labkit.envs import TEXT_CRAFT_ID
from labkit.envs.textcraft_recipes import Recipe, load_recipes, name_of
from labkit.envs.textcraft_rules import State, apply, command, craft, inventory_text, is_done, plan
from labkit.envs.world import Reply, World

DISTRACTORS = 10
"""Lines of no use in a task, at the most."""


@dataclass(frozen=True)
class TextCraftTask:
    """One episode to play."""

    target: str
    """Id of the item to craft, e.g. `minecraft:oak_sign`."""
    depth: int
    """Depth of its flattest recipe: 2, 3 or 4."""
    commands: tuple[Recipe, ...]
    """The recipe lines in the order shown, those of no use among them. All of the game's recipes work."""

    @property
    def goal(self) -> str:
        """The task as the package words it."""
        lines = "\n".join(dict.fromkeys(map(str, self.commands)))
        return f"Crafting commands:\n{lines}\n\nGoal: craft {name_of(self.target)}."


@lru_cache(maxsize=None)
def targets(tasks: str = "all") -> tuple[str, ...]:
    """Items that one can be asked to craft: `all` 419, those of `depth_2`, `depth_3` or `depth_4`, `train`
    or `held_out` (one in five of each depth).

    Raises ValueError for another name.
    """
    depths = load_recipes().depths
    by_depth = {
        depth: sorted(item for item in load_recipes().by_item if depths[item] == depth) for depth in (2, 3, 4)
    }
    draw = np.random.default_rng(24)
    held_out = {
        items[i] for items in by_depth.values() for i in draw.permutation(len(items))[: len(items) // 5]
    }
    everything = [item for items in by_depth.values() for item in items]
    groups: dict[str, list[str]] = {
        "all": everything,
        "train": [item for item in everything if item not in held_out],
        "held_out": [item for item in everything if item in held_out],
        **{f"depth_{depth}": items for depth, items in by_depth.items()},
    }
    if tasks not in groups:
        raise ValueError(f"{tasks!r} is not one of {', '.join(groups)}")
    return tuple(groups[tasks])


@lru_cache(maxsize=None)
def _lines(target: str) -> tuple[tuple[Recipe, ...], tuple[Recipe, ...]]:
    """(recipes that may be of use for an item, others that use something which those use)."""
    book = load_recipes()
    needed = book.needed_for(target)
    used = {ingredient.id for recipe in needed for ingredient in recipe.ingredients}
    others = [recipe for recipes in book.by_item.values() for recipe in recipes if recipe not in needed]
    return needed, tuple(r for r in others if used & {ingredient.id for ingredient in r.ingredients})


def make_task(
    target: str, rng: np.random.Generator | int = 0, distractors: int = DISTRACTORS
) -> TextCraftTask:
    """A task: every line that may be of use for `target` and some of no use, shuffled.

    A line of no use is one that uses something which the others use. Raises ValueError for an item that is
    not among `targets()`.
    """
    if target not in targets():
        raise ValueError(f"{target!r} is not an item that takes two crafting steps or more; see targets()")
    rng = np.random.default_rng(rng)
    needed, others = _lines(target)
    shown = [*needed, *(others[i] for i in rng.permutation(len(others))[:distractors])]
    return TextCraftTask(
        target, load_recipes().depths[target], tuple(shown[i] for i in rng.permutation(len(shown)))
    )


class TextCraft(World):
    """An item to craft in Minecraft's way: `get N ITEM`, `craft N ITEM using N ITEM, N ITEM`, `inventory`.

    The observation says what the last action did, not what one has: that takes `inventory`, or a memory.
    Reward 1 for the target, which terminates, and 0 before.

    An action that the game refuses is inadmissible; any text that it takes is admissible, while
    `admissible_actions` lists those that the lines of the task suggest. `state` has inventory and target.
    """

    id = TEXT_CRAFT_ID
    task_type = TextCraftTask

    def __init__(
        self,
        tasks: str | Sequence[TextCraftTask] = "all",
        max_steps: int = 100,
        render_mode: str | None = None,
    ) -> None:
        """`tasks`: a name that `targets` knows, or a list of tasks to draw from.

        The expert needs 3 to 91 actions, more than 36 for two items only.
        Raises ValueError for another name, an empty list, a budget below 1 and another render mode, and
        ModuleNotFoundError without the package `textcraft`.
        """
        super().__init__(max_steps, render_mode)
        if isinstance(tasks, str):
            targets(tasks)
        elif not tasks:
            raise ValueError("there is no task to play: the list is empty")
        self.tasks = tasks if isinstance(tasks, str) else tuple(tasks)
        self._book = load_recipes()

    def _begin(self, task: Any | None) -> str:
        if task is None and isinstance(self.tasks, str):
            items = targets(self.tasks)
            task = make_task(items[self.np_random.integers(len(items))], self.np_random)
        elif task is None:
            task = self.tasks[self.np_random.integers(len(self.tasks))]
        if not isinstance(task, TextCraftTask):
            raise ValueError(f"a task of TextCraft is a TextCraftTask, not {task!r}")
        self.task, self.goal = task, task.goal
        self._state = State((), task.target)
        return inventory_text(self._state)

    def _act(self, action: str) -> Reply:
        answer, state = apply(self._book, self._state, action)
        if state is None:
            return Reply(answer, 0.0, False, admissible=False)
        done = is_done(state)
        self._state = state
        return Reply(answer, float(done), done)

    @property
    def state(self) -> State:
        """Inventory and target."""
        return self._state

    def admissible_actions(self) -> tuple[str, ...]:
        """Actions that the lines of the task suggest and the game would take now, sorted."""
        if is_done(self._state):
            return ("inventory",)
        have = dict(self._state.inventory)
        actions = {"inventory"}
        for recipe in self.task.commands:
            choices = [self._book.options(ingredient) for ingredient in recipe.ingredients]
            counts = [ingredient.count for ingredient in recipe.ingredients]
            for options, count in zip(choices, counts, strict=True):
                actions.update(f"get {count} {name_of(i)}" for i in options if i in self._book.gettable)
            held = [[i for i in o if have.get(i, 0) >= n] for o, n in zip(choices, counts, strict=True)]
            for items in product(*held):
                used = list(zip(items, counts, strict=True))
                if craft(self._book, have, recipe.output, used) is not None:
                    actions.add(command(recipe, used))
        return tuple(sorted(actions))

    def expert_action(self) -> str | None:
        """Next action of a plan that takes the cheapest recipe at each turn, not always the shortest; None
        once one has the target."""
        if is_done(self._state):
            return None
        steps = plan(self._book, dict(self._state.inventory), self._state.target)
        return steps[0] if steps else None

    def render(self) -> str:
        """The goal, the inventory, and what the expert's plan still has to do."""
        steps = (
            [] if is_done(self._state) else plan(self._book, dict(self._state.inventory), self._state.target)
        )
        return f"{self.goal}\n{inventory_text(self._state)}\nLeft to do: {', then '.join(steps) or 'nothing'}"
