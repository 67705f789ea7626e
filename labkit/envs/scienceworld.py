"""ScienceWorld (Wang et al. 2022, arXiv 2203.07540): science experiments in words, by this protocol.

The simulator is that of the package `scienceworld` 1.2.3 (Apache-2.0) and runs in Java; see `java`.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from labkit.envs import SCIENCE_WORLD_ID
from labkit.envs.java import JavaWorld, printable
from labkit.envs.world import Reply

TOPICS = (
    "find-animal",
    "find-living-thing",
    "find-non-living-thing",
    "find-plant",
    "lifespan-longest-lived",
    "lifespan-longest-lived-then-shortest-lived",
    "lifespan-shortest-lived",
)
"""Topics with short gold paths, about 5 to 12 actions. The simulator has 30; any of them can be asked for."""
FOLDS = ("train", "dev", "test")
"""The simulator's own parts of the variations of a topic."""
_UNKNOWN = ("No known action matches", "Unknown action")


@dataclass(frozen=True)
class ScienceWorldTask:
    """One episode to play."""

    topic: str
    """The simulator's name of the task, e.g. `find-plant`."""
    variation: int
    """Which of its variations: other rooms, substances, things."""
    simplifications: str = "easy"
    """What is made easier, comma-separated; `easy` is all of it (doors open, no electricity, ...)."""


class ScienceWorld(JavaWorld):
    """A house with a workshop, a garden and things to find, heat, grow or connect.

    Observation: what the simulator answers. Reward: change of its score, which goes from 0 to 1; the first
    look may have earned some of it. `terminated` when the task is completed or failed, as by focusing on the
    wrong thing: then the score is -1 and the reward takes it there.

    An action that the simulator's parser knows is admissible even where it does not succeed. Where it asks
    which of several things was meant, only the numbers that it offers are. `admissible_actions` is the
    simulator's list of what would succeed, 100 to 1,000 entries: it has one name for each thing, and the
    gold path may use another, so that the expert's action need not be in it.
    """

    package = "scienceworld"
    interface = "scienceworld.runtime.pythonapi.PythonInterface"

    id = SCIENCE_WORLD_ID
    task_type = ScienceWorldTask
    folds = FOLDS

    def __init__(
        self,
        tasks: str | Sequence[ScienceWorldTask] = "train",
        topics: Sequence[str] = TOPICS,
        simplifications: str = "easy",
        max_steps: int = 100,
        render_mode: str | None = None,
    ) -> None:
        """`tasks`: a fold, from which a topic and then a variation are drawn, or a list to draw from.

        Raises ValueError for another fold or topic, an empty list, a budget below 1 and another render mode,
        and ModuleNotFoundError without the extra `worlds`.
        """
        super().__init__(tasks, topics, max_steps, render_mode)
        self.topics, self.simplifications = tuple(topics), simplifications
        known = self.server.texts(self.server.simulator().getTaskNames())
        if unknown := set(self.topics) - set(known):
            raise ValueError(f"unknown topics {sorted(unknown)}; the simulator has {', '.join(known)}")

    def variations(self, topic: str, fold: str) -> tuple[int, ...]:
        """The variations of a topic in a fold. Raises ValueError for another topic or fold."""
        known = self.server.known
        if (topic, fold) not in known:
            simulator = self.server.simulator()
            if fold not in FOLDS or topic not in self.server.texts(simulator.getTaskNames()):
                raise ValueError(f"no variations of {topic!r} in {fold!r}")
            simulator.load(topic, 0, "", False)
            for name in FOLDS:
                # As text, e.g. "[0, 1]": one exchange with Java instead of one an entry.
                found = getattr(simulator, f"getVariations{name.capitalize()}")()
                known[topic, name] = tuple(json.loads(found.toString()))
        return known[topic, fold]

    def _draw(self, fold: str) -> ScienceWorldTask:
        topic = self._choice(self.topics)
        return ScienceWorldTask(topic, self._choice(self.variations(topic, fold)), self.simplifications)

    def _begin(self, task: Any | None) -> str:
        observation = super()._begin(task)
        self.goal = self.goal.removeprefix("Task Description:\n")
        self._score = self._simulator.getScore()
        self._asked = False
        return observation

    def _act(self, action: str) -> Reply:
        if self._asked and action not in self.admissible_actions():
            return Reply("Please enter one of the numbers.", 0.0, False, admissible=False)
        answer = self._send(self._simulator, action)
        if answer.startswith(_UNKNOWN):
            return Reply(printable(answer), 0.0, False, admissible=False)
        self._done = (*self._done, action)
        self._asked = answer.startswith("Ambiguous request")
        score = self._simulator.getScore()
        reward, self._score = score - self._score, score
        done = self._simulator.getCompleted() or score < 0
        return Reply(printable(answer), reward, done)

    def admissible_actions(self) -> tuple[str, ...]:
        """What the simulator says would succeed, sorted; takes a tenth of a second or more."""
        found = json.loads(self._simulator.getValidActionObjectCombinationsJSON())
        return tuple(sorted({entry["action"] for entry in found["validActions"]}))

    def render(self) -> str:
        """The task, the room, the inventory and the score, none of which takes time."""
        simulator = self._simulator
        parts = [self.goal, simulator.freeActionLook(), simulator.freeActionInventory()]
        return printable("\n\n".join([*parts, simulator.getGoalProgressStr(), f"Score: {self._score:.2f}"]))

    def _load(self, simulator: Any, task: ScienceWorldTask, gold: bool = False) -> str:
        simulator.load(task.topic, task.variation, task.simplifications, gold)
        # Scores and the end of the last task are only updated by an action; the package begins with this too.
        return simulator.step("look around")

    def _send(self, simulator: Any, action: str) -> str:
        return simulator.step(action)
