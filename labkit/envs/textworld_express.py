"""TextWorldExpress (Jansen and Côté 2022, arXiv 2208.01174): fast text games, by this protocol.

The simulator is that of the package `textworld-express` 1.1.0 (Apache-2.0) and runs in Java; see `java`.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from labkit.envs import TEXT_WORLD_EXPRESS_ID
from labkit.envs.java import JavaWorld, printable
from labkit.envs.world import Reply

GAMES = (
    "coin",
    "mapreader",
    "arithmetic",
    "twc",
    "cookingworld",
    "simonsays",
    "peckingorder",
)
"""The games, with the simulator's names. Its eighth, `sorting`, is left out: two of it in one Java process
change each other's quantities, so that it has no clone."""
WALKS = {"coin": 30, "twc": 30}
"""Games whose gold path is a random walk that cannot be seeded, and of how many to take the shortest."""
FOLDS = {"train": range(0, 1000), "dev": range(10_000, 11_000), "test": range(20_000, 21_000)}
"""The simulator's folds and their seeds."""


@dataclass(frozen=True)
class TextWorldExpressTask:
    """One episode to play."""

    game: str
    """One of `GAMES`."""
    seed: int
    """Which game of it; a seed belongs to one fold."""
    params: str = ""
    """The simulator's settings of the game, e.g. `numLocations=3`; "" for its defaults."""

    @property
    def fold(self) -> str:
        """The fold of the seed. Raises ValueError for a seed that is in none."""
        for fold, seeds in FOLDS.items():
            if self.seed in seeds:
                return fold
        raise ValueError(f"seed {self.seed} is in no fold; folds are {FOLDS}")


class TextWorldExpress(JavaWorld):
    """Rooms, doors and things: find the coin, follow the map, cook the meal, put each thing in its place.

    Observation: what the simulator answers. Reward: change of its score, which goes to 1. `terminated` at
    success and, in some games, at a failure, of which the score may be -1.

    Admissible is what the simulator lists; other text is not passed on to it.

    The world is the same in every run, and so is the expert except in `coin` and `twc`. There the simulator
    searches at random, so the expert takes the shortest of 30 such paths: mostly, but not always, the same.
    """

    package = "textworld_express"
    interface = "textworldexpress.runtime.PythonInterface"

    id = TEXT_WORLD_EXPRESS_ID
    task_type = TextWorldExpressTask
    folds = FOLDS

    def __init__(
        self,
        tasks: str | Sequence[TextWorldExpressTask] = "train",
        games: Sequence[str] = GAMES,
        params: str = "",
        max_steps: int = 100,
        render_mode: str | None = None,
    ) -> None:
        """`tasks`: a fold, from which a game and then a seed are drawn, or a list to draw from.

        Raises ValueError for another fold or game, an empty list, a budget below 1 and another render mode,
        and ModuleNotFoundError without the extra `worlds`.
        """
        super().__init__(tasks, games, max_steps, render_mode)
        if unknown := set(games) - set(GAMES):
            raise ValueError(f"unknown games {sorted(unknown)}; games are {', '.join(GAMES)}")
        self.games, self.params = tuple(games), params

    def _draw(self, fold: str) -> TextWorldExpressTask:
        return TextWorldExpressTask(self._choice(self.games), self._choice(FOLDS[fold]), self.params)

    def _act(self, action: str) -> Reply:
        if action not in self.admissible_actions():
            return Reply("Unknown action: I'm not sure what you mean.", 0.0, False, admissible=False)
        # Before the action: a clone that was not used yet is replayed here, which sets what is known last.
        simulator, before = self._simulator, self._last["score"]
        answer = printable(self._send(simulator, action))
        self._done = (*self._done, action)
        last = self._last
        done = last["score"] >= 1 or last["tasksuccess"] or last["taskfailure"]
        return Reply(answer, last["score"] - before, done)

    def admissible_actions(self) -> tuple[str, ...]:
        """What the simulator lists, sorted."""
        return tuple(sorted(set(self._last["validActions"])))

    def render(self) -> str:
        """The task, the room, the inventory and the score."""
        last = self._last
        parts = [self.goal, last["look"], last["inventory"], f"Score: {last['score']:.2f}"]
        return printable("\n\n".join(parts))

    def _gold_path(self) -> tuple[str, ...]:
        paths = [super(TextWorldExpress, self)._gold_path() for _ in range(WALKS.get(self.task.game, 1))]
        return min(paths, key=lambda path: (len(path), path))

    def _load(self, simulator: Any, task: TextWorldExpressTask, gold: bool = False) -> str:
        if problem := simulator.load(task.game, task.params):
            raise ValueError(f"{task}: {problem}")
        answer = json.loads(simulator.generateNewGameJSON(task.seed, task.fold, gold))
        if not gold:
            self._last = answer
        return answer["observation"]

    def _send(self, simulator: Any, action: str) -> str:
        self._last = json.loads(simulator.stepJSON(action))
        return self._last["observation"]
