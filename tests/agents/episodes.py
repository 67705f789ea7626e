"""Episodes for tests: given actions done in a world, and what searches found."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

from labkit.agents.cloning import phone_tasks
from labkit.agents.execution import execute
from labkit.agents.mcts import Search
from labkit.agents.phases import SearchConfig
from labkit.agents.react import Episode
from labkit.envs.craft.env import CraftWorld
from labkit.envs.craft.tasks import draw_task, make_task
from labkit.envs.phone.env import PhoneWorld
from labkit.envs.phone.goals import Task, single
from labkit.envs.trajectory import Step, Trajectory

WIFI = Task(single("open", "wifi"))
ROPE = make_task("rope", names="fixed")


def acted(*actions: str, world=PhoneWorld, task=WIFI) -> Trajectory:
    """An episode in which these actions were done."""
    return execute(world.id, world.pack_task(task), [Step("", "", action) for action in actions])


def crafted(*actions: str, task=ROPE) -> Trajectory:
    return acted(*actions, world=CraftWorld, task=task)


@lru_cache(maxsize=None)
def searched(kind: str) -> Sequence[Trajectory]:
    """What short searches went through, good and bad, in `phone` or `craft`."""
    if kind == "phone":
        starts = [(PhoneWorld, task) for task in phone_tasks("demonstrations")[:8]]
    else:
        starts = [(CraftWorld, draw_task("train", i)) for i in range(8)]
    episodes = []
    for world, task in starts:
        told = []
        context = Episode(world(max_steps=24), task).context
        search = Search(context, SearchConfig(simulations=60, depth=14), on_found=told.append).run()
        episodes += [search.episode(found) for found in dict.fromkeys(told[:25])]
    return tuple(episodes)
