"""CraftWorld as a gymnasium environment: crafting with a recipe book in the prompt."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from labkit.envs import CRAFT_WORLD_ID
from labkit.envs.craft import planner, rules
from labkit.envs.craft.tasks import Task, check_names, draw_task, get_split
from labkit.envs.world import Reply, World


class CraftWorld(World):
    """An item to craft from others; the goal holds the recipe book, the observation the inventory.

    Actions: `get ITEM` (what no line of the book makes lies around), `craft ITEM` (uses its ingredients up)
    and `wait`, which changes nothing. Everything is text of single words (`words.vocabulary`). The goal has a
    line an item of the book; split it by white space and the words are the same.

    Reward, with `partial`: the share of a shortest plan that this step did, negative where it undid some by
    using up what was needed. The sum over an episode is the share of the plan done at its end: 1 with the
    goal, never below 0. Without: 1 at the goal, else 0. `terminated` once one has the item.

    A model that saw the items under fixed names learns the table and not to read. So names are permuted in
    every episode; `names="fixed"` shows what happens otherwise.

    >>> import gymnasium, labkit.envs
    >>> from labkit.envs.craft.tasks import make_task
    >>> world = gymnasium.make("labkit/CraftWorld-v0").unwrapped
    >>> observation, info = world.reset(options={"task": make_task("rope", names="fixed")})
    >>> observation, world.expert_action()
    ('have : nothing', 'get wool')
    """

    id = CRAFT_WORLD_ID
    task_type = Task

    def __init__(
        self,
        tasks: str | Sequence[Task] = "train",
        max_steps: int = 40,
        names: str = "permuted",
        partial: bool = True,
        render_mode: str | None = None,
    ) -> None:
        """`tasks`: a split (`tasks.SPLITS`), of which every episode is drawn anew, or a list to draw from.

        Plans have 2 to 16 actions. `names`: `permuted` or `fixed`; a task in a list has names of its own.
        Raises ValueError for another split, an empty list, other `names`, a budget below 1 and another
        render mode.
        """
        super().__init__(max_steps, render_mode)
        if isinstance(tasks, str):
            get_split(tasks)
        elif not tasks:
            raise ValueError("there is no task to play: the list is empty")
        check_names(names)
        self.tasks = tasks if isinstance(tasks, str) else tuple(tasks)
        self.names, self.partial = names, partial

    def _begin(self, task: Any | None) -> str:
        if task is None and isinstance(self.tasks, str):
            task = draw_task(self.tasks, self.np_random, self.names)
        elif task is None:
            task = self.tasks[self.np_random.integers(len(self.tasks))]
        if not isinstance(task, Task):
            raise ValueError(f"a task of CraftWorld is a craft.tasks.Task, not {task!r}")
        self.task = task
        self.goal = task.goal
        self._state = rules.start(task)
        self._plan_length = self._left = planner.distance(task, self._state)
        return rules.observe(task, self._state)

    def _act(self, action: str) -> Reply:
        task, state = self.task, self._state
        reason = rules.refusal(task, state, action)
        if reason:
            return Reply(f"{reason}\n{rules.observe(task, state)}", 0.0, False, admissible=False)
        self._state = rules.transition(task, state, action)
        before, self._left = self._left, planner.distance(task, self._state)
        done = self._left == 0
        reward = (before - self._left) / self._plan_length if self.partial else float(done)
        return Reply(rules.observe(task, self._state), reward, done)

    @property
    def state(self) -> rules.State:
        """Inventory and goal."""
        return self._state

    def admissible_actions(self) -> tuple[str, ...]:
        """`get` and `craft` by the item's name, then `wait`."""
        return rules.actions(self.task, self._state)

    def expert_action(self) -> str | None:
        """Next action of a shortest plan; None at the goal."""
        return planner.expert_action(self.task, self._state)

    def render(self) -> str:
        """The goal, the inventory, and what a shortest plan still has to do."""
        left = " , ".join(planner.plan(self.task, self._state)) or "nothing"
        return f"{self.goal}\n{rules.observe(self.task, self._state)}\nleft to do : {left}"
