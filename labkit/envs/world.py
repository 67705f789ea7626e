"""What every text world here promises: gymnasium's protocol, and what search and imitation need besides."""

from __future__ import annotations

import copy
import string
from abc import ABC, abstractmethod
from collections.abc import Hashable, Mapping
from dataclasses import fields
from functools import lru_cache
from types import MappingProxyType
from typing import Any, ClassVar, NamedTuple, Self

import gymnasium
from gymnasium.spaces import Text
from pydantic import TypeAdapter, ValidationError

CHARACTERS = string.digits + string.ascii_letters + string.punctuation + " \n\t"
"""Characters of actions and observations, unless a world says otherwise."""
ACTION_LENGTH = 200
"""Longest action in characters."""
OBSERVATION_LENGTH = 20_000
"""Longest observation in characters."""


class Reply(NamedTuple):
    """What a world answers to one action."""

    observation: str
    """Ω of the state after the action; for an inadmissible action, words that say so and the same Ω."""
    reward: float
    """Reward of this step."""
    done: bool
    """Whether the episode is over by the world's own rules: `terminated`."""
    admissible: bool = True
    """Whether the action could be done; if not, the state is unchanged."""
    extra: Mapping[str, Any] = MappingProxyType({})
    """More entries for `info`, if a world has any."""


class World(gymnasium.Env[str, str], ABC):
    """A partially observed world of text: the state s stays inside, `step` returns the observation Ω(s).

    `terminated`: the world is over by its own rules, as a rule because the goal holds. `truncated`: the
    budget of `max_steps` actions is used up and the world is not over. Never both: a state that was cut off
    still has a value, a terminal one has none.

    An inadmissible action is answered in words, costs a step and changes nothing else. `info` holds `goal`
    (text), `steps_left` (int) and, after a step, `admissible` (bool).

    A world is made by `_begin`, `_act`, `clone`'s parts (see `clone`), `admissible_actions` and `render`.
    It draws at random in `_begin` only, from `np_random`.
    """

    metadata = {"render_modes": ["ansi"], "render_fps": 1}
    action_space = Text(ACTION_LENGTH, min_length=0, charset=CHARACTERS)
    observation_space = Text(OBSERVATION_LENGTH, min_length=0, charset=CHARACTERS)

    id: ClassVar[str]
    """Gymnasium id."""
    task_type: ClassVar[type]
    """Dataclass of its tasks."""
    state_recurs: ClassVar[bool] = True
    """Whether `state` can come again; not where it is kept as all the actions that led to it."""
    task: Any
    """Task of the current episode, of that type."""
    goal: str
    """Goal of the current episode, in words."""

    def __init__(self, max_steps: int, render_mode: str | None = None) -> None:
        """`max_steps`: actions before the episode is truncated.

        Raises ValueError for a budget below 1 and a render mode other than None and `ansi`.
        """
        if max_steps < 1:
            raise ValueError(f"max_steps is {max_steps}; an episode needs at least 1 action")
        if render_mode not in (None, *self.metadata["render_modes"]):
            raise ValueError(f"render_mode {render_mode!r} is not 'ansi' (or None)")
        self.max_steps, self.render_mode = max_steps, render_mode
        self.goal = ""
        self._over: str | None = "it has not begun"
        self._steps_left = max_steps
        self._shares_generator = False
        # Gymnasium seeds a space when asked to; one object for all worlds would tie them together.
        self.action_space, self.observation_space = (
            copy.copy(space) for space in (type(self).action_space, type(self).observation_space)
        )

    @abstractmethod
    def _begin(self, task: Any | None) -> str:
        """Start an episode of `task`, or of one drawn with `np_random`; set `goal`; return Ω of the start.

        Raises ValueError for something that is not a task of this world.
        """

    @abstractmethod
    def _act(self, action: str) -> Reply:
        """Do one action."""

    @abstractmethod
    def admissible_actions(self) -> tuple[str, ...]:
        """Actions that can be done now, in a fixed order."""

    @abstractmethod
    def render(self) -> str:
        """The whole state in words, hidden parts too: for a human, never for the policy."""

    def expert_action(self) -> str | None:
        """Next action of a shortest (or gold) plan from here; None when done or unknown."""
        return None

    @property
    def state(self) -> Hashable:
        """The hidden state as an immutable value, where a world has one to give."""
        raise NotImplementedError(f"{type(self).__name__} does not show its state as a value")

    @classmethod
    def pack_task(cls, task: Any) -> dict[str, Any]:
        """A task as plain data, for JSON. Raises ValueError for something that is no task of this world."""
        if not isinstance(task, cls.task_type):
            raise ValueError(f"a task of {cls.__name__} is a {cls.task_type.__name__}, not {task!r}")
        return _adapter(cls.task_type).dump_python(task, mode="json")

    @classmethod
    def unpack_task(cls, data: Mapping[str, Any]) -> Any:
        """The task that `pack_task` packed. Raises ValueError for other data, naming what is wrong."""
        known = {field.name for field in fields(cls.task_type)}
        if unknown := sorted(map(str, set(data) - known)):
            raise ValueError(f"not a task of {cls.__name__}: it has no {', '.join(unknown)}")
        try:
            return _adapter(cls.task_type).validate_python(dict(data))
        except ValidationError as error:
            first = error.errors()[0]
            where = ".".join(map(str, first["loc"]))
            raise ValueError(
                f"not a task of {cls.__name__}: {where}: {first['msg']}; give what pack_task made of one"
            ) from None

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[str, dict[str, Any]]:
        """Start an episode: a task drawn at random, or the one in `options={"task": ...}`.

        Raises ValueError for an unknown option and for something that is not a task.
        """
        if self._shares_generator and seed is None:
            self._np_random = copy.deepcopy(self._np_random)
        self._shares_generator = False
        super().reset(seed=seed)
        options = dict(options or {})
        task = options.pop("task", None)
        if options:
            raise ValueError(f"unknown option {sorted(options)}; reset knows 'task'")
        observation = self._begin(task)
        self._over = None
        self._steps_left = self.max_steps
        return observation, {"goal": self.goal, "steps_left": self._steps_left}

    def step(self, action: str) -> tuple[str, float, bool, bool, dict[str, Any]]:
        """Do one action. Raises TypeError for an action that is no string, RuntimeError after the end."""
        if self._over is not None:
            raise RuntimeError(f"there is no episode to act in: {self._over}. Call reset() first.")
        if not isinstance(action, str):
            raise TypeError(f"the action is a str, not {type(action).__name__}")
        observation, reward, done, admissible, extra = self._act(action)
        self._steps_left -= 1
        truncated = not done and self._steps_left == 0
        if done or truncated:
            self._over = "it is finished" if done else "its steps are used up"
        info = {"goal": self.goal, "steps_left": self._steps_left, "admissible": admissible, **extra}
        return observation, reward, done, truncated, info

    @property
    def is_over(self) -> bool:
        """Whether `step` would refuse: before the first reset, and after the end of an episode."""
        return self._over is not None

    @property
    def steps_left(self) -> int:
        """Actions before the episode is truncated."""
        return self._steps_left

    def extended(self, steps: int) -> Self:
        """A clone with a budget of `steps` more: for planning, where a search minds the budget itself."""
        twin = self.clone()
        twin._steps_left += steps
        return twin

    def clone(self) -> Self:
        """An independent copy in the same state: stepping or resetting one leaves the other unchanged.

        Cheap where all state is in immutable values, as in our own worlds: then a shallow copy is one that
        shares nothing that changes. A world with mutable parts must copy those (or replay).
        """
        # Copying a generator costs more than many steps, and a search steps its clones but does not reset
        # them: both sides take a generator of their own only when they are reset.
        self._shares_generator = True
        # What `copy.copy` does for such an object, in a quarter of its time.
        twin = object.__new__(type(self))
        twin.__dict__.update(self.__dict__)
        return twin


@lru_cache(maxsize=None)
def _adapter(kind: type) -> TypeAdapter:
    return TypeAdapter(kind)
