"""Record the expert's episodes of the Java worlds: python -m labkit.envs.recorded

Needs the optional extra `worlds`. Takes about a minute.
"""

from __future__ import annotations

from labkit.envs.recorded import FOLDER, record
from labkit.envs.scienceworld import ScienceWorld, ScienceWorldTask
from labkit.envs.textworld_express import GAMES, TextWorldExpress, TextWorldExpressTask
from labkit.envs.trajectory import save_trajectories

SCIENCE_TASKS = (
    ScienceWorldTask("find-plant", 0),
    ScienceWorldTask("find-animal", 3),
    ScienceWorldTask("lifespan-longest-lived-then-shortest-lived", 2),
    ScienceWorldTask("boil", 3),
)


def main() -> None:
    """Record and write, one world at a time, so that one Java process runs at a time."""
    science = ScienceWorld([*SCIENCE_TASKS])
    save_trajectories([record(science, task) for task in SCIENCE_TASKS], FOLDER / "scienceworld.jsonl")
    science.close()
    express = TextWorldExpress("train")
    tasks = [TextWorldExpressTask(game, seed) for game in GAMES for seed in (0, 1)]
    save_trajectories([record(express, task) for task in tasks], FOLDER / "textworld_express.jsonl")
    express.close()


if __name__ == "__main__":
    main()
