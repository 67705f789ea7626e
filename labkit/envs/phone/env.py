"""PhoneWorld as a gymnasium environment: a thin shell around T and Ω of `labkit.envs.phone.rules`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from labkit.envs import PHONE_WORLD_ID
from labkit.envs.phone.goals import Task, load_tasks
from labkit.envs.phone.layout import STANDARD
from labkit.envs.phone.planner import planner, split_by_history
from labkit.envs.phone.rules import State, actions, observe, transition
from labkit.envs.world import Reply, World

NOT_POSSIBLE = "Not possible ."
"""Words before the screen when an action was not admissible."""


class PhoneWorld(World):
    """A settings phone, seen one screen at a time; the running example is "open the WiFi".

    Action: a few words, e.g. `open Settings`, `toggle WiFi`, `back`, `allow`. Observation: what the screen
    shows, as words with spaces between them. Reward: 1 when the goal holds, which terminates; else 0.

    >>> import gymnasium, labkit.envs
    >>> from labkit.envs.phone.goals import Task, single
    >>> env = gymnasium.make("labkit/PhoneWorld-v0").unwrapped
    >>> env.reset(options={"task": Task(single("open", "wifi"))})[0]
    'Home : Settings , Maps , Camera , Chat'
    >>> env.goal, env.expert_action()
    ('open the WiFi', 'open Settings')
    """

    id = PHONE_WORLD_ID
    task_type = Task

    def __init__(
        self,
        tasks: str | Sequence[Task] = "known_phone",
        history: str | None = None,
        max_steps: int = 24,
        render_mode: str | None = None,
    ) -> None:
        """`tasks`: a split of `labkit.envs.phone.goals.SPLITS`, or tasks. `history`: keep only the tasks that
        need it (`aliased`) or those that do not (`unaliased`); None keeps all. `max_steps`: the longest
        shortest plan on the standard phone has 14 actions.

        Raises ValueError for another split, word or render mode, and where no task is left.
        """
        super().__init__(max_steps, render_mode)
        self.tasks = load_tasks(tasks) if isinstance(tasks, str) else tuple(tasks)
        if history is not None:
            parts = split_by_history(self.tasks)
            if history not in parts:
                raise ValueError(f"history {history!r} is not one of {', '.join(parts)} (or None)")
            self.tasks = parts[history]
        if not self.tasks:
            raise ValueError("no task to play; give a split's name or at least one Task")

    def _begin(self, task: Any | None) -> str:
        if task is None:
            task = self.tasks[self.np_random.integers(len(self.tasks))]
        elif not isinstance(task, Task):
            raise ValueError(f"the task is a labkit.envs.phone.goals.Task, not {type(task).__name__}")
        self.task, self._state, self.goal = task, task.start, task.goal.text
        return observe(task.layout, self._state)

    def _act(self, action: str) -> Reply:
        layout, state = self.task.layout, self._state
        if action not in layout.moves[state.path[-1]]:
            return Reply(f"{NOT_POSSIBLE} {observe(layout, state)}", 0.0, False, admissible=False)
        self._state = state = transition(layout, state, action)
        done = self.task.goal.holds(state)
        return Reply(observe(layout, state), float(done), done)

    @property
    def state(self) -> State:
        """The hidden state: immutable, so keep it as long as you like."""
        return self._state

    @classmethod
    def pack_task(cls, task: Any) -> dict[str, Any]:
        """As in `World`; the standard phone, which every known-phone study plays on, is written by name."""
        data = super().pack_task(task)
        if task.layout == STANDARD:
            return data | {"layout": STANDARD.name}
        data["layout"]["on"].sort()  # a set has no order of its own, and a file shall not hang on a hash seed
        return data

    @classmethod
    def unpack_task(cls, data: Mapping[str, Any]) -> Task:
        standard = data.get("layout") == STANDARD.name
        return super().unpack_task({**data, "layout": STANDARD} if standard else data)

    def admissible_actions(self) -> tuple[str, ...]:
        """Actions that the screen offers, in a fixed order."""
        return actions(self.task.layout, self._state)

    def expert_action(self) -> str | None:
        """First action of a shortest plan from here; None when the goal holds.

        The plan knows the map and the hidden state. On one known phone the history tells both; on a phone
        never seen before no policy could know the map, so there this is an upper bound, not a teacher.
        """
        best = planner(self.task.layout, self.task.goal).best(self._state)
        return best[0] if best else None

    def render(self) -> str:
        """Goal, screen and hidden state, a line each."""
        layout, (path, on, allowed, denied, query) = self.task.layout, self._state
        parts = {
            "goal": self.goal,
            "screen": observe(layout, self._state),
            "opened": " > ".join(path),
            "on": ", ".join(sorted(on)),
            "location allowed": ", ".join(sorted(allowed)),
            "location denied": ", ".join(sorted(denied)),
            "searched for": query,
        }
        return "\n".join(f"{name}: {value or '-'}" for name, value in parts.items())

    def picture(self) -> str:
        """The screen as a small phone: SVG with alt text, for `IPython.display.HTML`."""
        # Here, because drawing loads matplotlib for its colours, and playing needs none of it.
        from labkit.envs.phone.picture import phone_svg

        return phone_svg(self.task.layout, self._state)
