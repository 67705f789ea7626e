"""Tasks as plain data: a round trip for all five worlds, the same bytes whatever the hash seed."""

import json
import os
import subprocess
import sys

import pytest

from labkit.envs.craft.env import CraftWorld
from labkit.envs.craft.tasks import SPLITS as CRAFT_SPLITS
from labkit.envs.craft.tasks import draw_task
from labkit.envs.phone.env import PhoneWorld
from labkit.envs.phone.goals import Task, load_tasks, single
from labkit.envs.phone.layout import STANDARD, draw_layout
from labkit.envs.scienceworld import ScienceWorld, ScienceWorldTask
from labkit.envs.textcraft import TextCraft, TextCraftTask
from labkit.envs.textcraft_recipes import Ingredient, Recipe
from labkit.envs.textworld_express import TextWorldExpress, TextWorldExpressTask

# By hand, since the package that has the recipes is optional.
STICK = Recipe("minecraft:stick", 4, (Ingredient("minecraft:planks", 2, any_of_kind=True),), "sticks")
LADDER = TextCraftTask(
    "minecraft:ladder", 2, (STICK, Recipe("minecraft:ladder", 3, (Ingredient("minecraft:stick", 7),)))
)
TASKS = [
    *((PhoneWorld, task) for task in load_tasks("known_phone")[::40]),
    *((PhoneWorld, task) for task in load_tasks("many_phones")[::900]),
    (PhoneWorld, Task(single("on", "wifi"), draw_layout(3), airplane=True)),
    *((CraftWorld, draw_task(split, seed)) for split in CRAFT_SPLITS for seed in (0, 1)),
    (TextCraft, LADDER),
    (ScienceWorld, ScienceWorldTask("find-plant", 2, "")),
    (ScienceWorld, ScienceWorldTask("find-plant", 0)),
    (TextWorldExpress, TextWorldExpressTask("coin", 7, "numLocations=3")),
    (TextWorldExpress, TextWorldExpressTask("twc", 10_000)),
]


@pytest.mark.parametrize("world, task", TASKS)
def test_a_task_comes_back_from_json_as_it_was(world, task):
    text = json.dumps(world.pack_task(task))
    back = world.unpack_task(json.loads(text))
    assert back == task and type(back) is type(task) and hash(back) == hash(task)
    assert json.dumps(world.pack_task(back)) == text


def test_what_a_task_keeps_in_its_cache_is_no_part_of_its_data():
    task, fresh = (draw_task("train", 4) for _ in range(2))
    assert task.items and task.moves and task.order
    assert CraftWorld.pack_task(task) == CraftWorld.pack_task(fresh)
    phone = Task(single("on", "wifi"), draw_layout(3))
    before = json.dumps(PhoneWorld.pack_task(phone))
    assert phone.goal.text and phone.layout.moves and phone.start
    assert json.dumps(PhoneWorld.pack_task(phone)) == before


def test_the_standard_phone_goes_by_name_and_no_other_phone_does():
    assert PhoneWorld.pack_task(Task(single("on", "wifi")))["layout"] == "standard"
    other = draw_layout(3)
    like = type(STANDARD)("standard", other.menus, other.names, other.on)
    task = Task(single("on", "wifi"), like)
    packed = PhoneWorld.pack_task(task)
    assert packed["layout"]["name"] == "standard" and PhoneWorld.unpack_task(packed) == task


@pytest.mark.parametrize("world", [PhoneWorld, CraftWorld])
def test_an_unpacked_task_plays_the_same_episode(world):
    one, other = world(), world()
    first, info = one.reset(seed=5)
    assert other.reset(options={"task": world.unpack_task(world.pack_task(one.task))})[0] == first
    assert other.goal == info["goal"] and other.state == one.state
    while not one.is_over:
        action = one.expert_action()
        assert other.expert_action() == action and other.step(action) == one.step(action)


@pytest.mark.parametrize("world", [PhoneWorld, CraftWorld, TextCraft, ScienceWorld, TextWorldExpress])
def test_a_task_of_another_world_is_refused_in_both_directions(world):
    for other, task in TASKS:
        if other is not world:
            with pytest.raises(
                ValueError, match=f"a task of {world.__name__} is a {world.task_type.__name__}"
            ):
                world.pack_task(task)
            with pytest.raises(ValueError, match=f"not a task of {world.__name__}"):
                world.unpack_task(other.pack_task(task))


@pytest.mark.parametrize(
    "world, data, message",
    [
        (CraftWorld, {}, "target: Field required"),
        (TextCraft, {"target": "minecraft:stick"}, "depth: Field required"),
        (
            TextCraft,
            {"target": "x", "depth": "deep", "commands": []},
            "depth: Input should be a valid integer",
        ),
        (TextCraft, {"target": "x", "depth": 1, "commands": [], "seed": 3}, "it has no seed"),
        (ScienceWorld, {"topic": 3, "variation": 0}, "topic: Input should be a valid string"),
        (PhoneWorld, {"goal": {"conditions": [["on"]]}}, "goal.conditions.0.1: Field required"),
        (PhoneWorld, {"goal": {"conditions": []}, "layout": "phone 3"}, "layout: "),
    ],
)
def test_data_that_is_no_task_is_named_with_its_field(world, data, message):
    with pytest.raises(ValueError, match=f"not a task of {world.__name__}: {message}"):
        world.unpack_task(data)


PROGRAM = """
import sys
from labkit.agents.policies import NoisyExpert
from labkit.agents.react import play
from labkit.envs.craft.env import CraftWorld
from labkit.envs.phone.env import PhoneWorld
from labkit.envs.trajectory import save_trajectories
worlds = [PhoneWorld("many_phones"), PhoneWorld(), CraftWorld()]
print(save_trajectories(play(worlds, NoisyExpert(0.4), seed=3), sys.argv[1]).read_text())
"""


def test_saved_trajectories_are_the_same_whatever_the_hash_seed(tmp_path):
    texts = {
        subprocess.run(
            [sys.executable, "-c", PROGRAM, str(tmp_path / f"{seed}.jsonl")],
            env=os.environ | {"PYTHONHASHSEED": seed},
            capture_output=True,
            check=True,
            text=True,
        ).stdout
        for seed in ("0", "1")
    }
    (text,) = texts
    # The first is on a phone whose map is written out, with its set of switches.
    assert '"on":["' in text
