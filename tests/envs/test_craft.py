"""CraftWorld's T and Ω: scenes worked by hand; its tasks, names and splits; its rewards."""

import random

import numpy as np
import pytest

from labkit.envs.craft.env import CraftWorld
from labkit.envs.craft.recipes import BASE, ITEMS, TABLE, Recipe, depth_of, needed_for
from labkit.envs.craft.rules import (
    CAPACITY,
    State,
    actions,
    is_done,
    observe,
    refusal,
    start,
    transition,
)
from labkit.envs.craft.tasks import HELD_OUT, MOST_LINES, SPLITS, Task, draw_task, get_split, make_task
from labkit.envs.craft.words import vocabulary

ROPE = make_task("rope", names="fixed")


def go(task, *scene):
    """The state after the actions, each of which must be admissible."""
    state = start(task)
    for action in scene:
        assert action in actions(task, state), (action, observe(task, state))
        state = transition(task, state, action)
    return state


def test_a_rope_step_by_step():
    env = CraftWorld()
    observation, info = env.reset(options={"task": ROPE})
    assert sorted(info["goal"].split("\n")) == [
        "craft rope using 2 thread",
        "craft thread using 1 wool",
        "goal : craft rope",
        "recipes :",
    ]
    scene = [("", observation, 0, False)]
    for action in ("get wool", "craft thread", "get wool", "craft thread", "craft rope"):
        observation, reward, terminated, truncated, info = env.step(action)
        assert info["admissible"] and not truncated
        scene.append((action, observation, reward, terminated))
    assert scene == [
        ("", "have : nothing", 0, False),
        ("get wool", "have : 1 wool", 0.2, False),
        ("craft thread", "have : 1 thread", 0.2, False),
        ("get wool", "have : 1 thread , 1 wool", 0.2, False),
        ("craft thread", "have : 2 thread", 0.2, False),
        ("craft rope", "have : 1 rope", 0.2, True),
    ]


def test_what_cannot_be_done_is_answered_with_the_reason():
    state = go(ROPE, "get wool")
    for action, reason in {
        "craft rope": "missing 2 thread",
        "get thread": "cannot do that",
        "craft wool": "cannot do that",
        "get wood": "cannot do that",
        "": "cannot do that",
    }.items():
        assert refusal(ROPE, state, action) == reason
        assert transition(ROPE, state, action) == state
    env = CraftWorld()
    env.reset(options={"task": ROPE})
    observation, reward, *_, info = env.step("craft rope")
    assert (observation, reward, info["admissible"]) == ("missing 2 thread\nhave : nothing", 0, False)


def test_one_carries_at_most_nine_of_an_item():
    state = go(ROPE, *["get wool"] * CAPACITY)
    assert CAPACITY == 9 and refusal(ROPE, state, "get wool") == "full : wool"
    assert actions(ROPE, state) == ("craft thread", "wait")
    assert "get wool" in actions(ROPE, transition(ROPE, state, "craft thread"))


def test_wait_changes_nothing():
    env = CraftWorld()
    env.reset(options={"task": ROPE})
    env.step("get wool")
    before, seen = env.state, observe(ROPE, env.state)
    observation, reward, terminated, truncated, info = env.step("wait")
    assert (env.state, observation, reward, info["admissible"]) == (before, seen, 0, True)
    assert not terminated and not truncated


def test_using_up_what_was_needed_takes_reward_back_and_the_sum_is_the_share_done():
    # net: 2 rope (each 2 thread, each 1 wool), 1 reed: 12 actions. A bag of one's thread sets back by 2.
    book = (*make_task("net", names="fixed").book, Recipe("bag", (("thread", 1), ("hide", 1))))
    env = CraftWorld()
    env.reset(options={"task": Task("net", book, 3, 1, "net")})
    rewards = [env.step(a)[1] for a in ("get wool", "craft thread", "get hide", "craft bag", "get reed")]
    assert rewards == pytest.approx([1 / 12, 1 / 12, 0, -2 / 12, 1 / 12])
    draw = random.Random(0)
    for seed in range(40):
        env = CraftWorld(max_steps=25)
        env.reset(seed=seed)
        total = 0.0
        while not env.is_over:
            greedy = draw.random() < seed / 40
            action = env.expert_action() if greedy else draw.choice(env.admissible_actions())
            _, reward, terminated, *_ = env.step(action)
            total += reward
            assert -1e-9 <= total <= 1 + 1e-9
        assert (total == pytest.approx(1)) == terminated


def test_without_partial_reward_only_the_goal_pays():
    env = CraftWorld(partial=False)
    env.reset(options={"task": ROPE})
    rewards = []
    while not env.is_over:
        rewards.append(env.step(env.expert_action())[1])
    assert rewards == [0, 0, 0, 0, 1]


def test_the_table_has_the_promised_size_and_depths():
    assert 20 <= len(TABLE) <= 40 and not set(BASE) & set(TABLE)
    assert all(used in ITEMS for uses in TABLE.values() for used in uses)
    depths = [depth_of(item) for item in TABLE]
    assert sorted(set(depths)) == [1, 2, 3, 4] and depths == sorted(depths)
    assert needed_for("sail") == ("sail", "cloth", "rope", "thread") and needed_for("wool") == ()
    with pytest.raises(ValueError, match="'gold' is not an item"):
        depth_of("gold")


@pytest.mark.parametrize("split", SPLITS)
def test_tasks_of_a_split_are_what_it_says(split):
    rng = np.random.default_rng(0)
    tasks = [draw_task(split, rng) for _ in range(300)]
    chosen = SPLITS[split]
    assert {task.depth for task in tasks} == set(chosen.depths)
    assert {task.distractors for task in tasks} == set(chosen.distractors)
    assert {task.origin in HELD_OUT for task in tasks} == {chosen.held_out}
    for task in tasks:
        assert len(task.book) == len(needed_for(task.origin)) + task.distractors <= MOST_LINES
        assert len({task.target for task in tasks if task.origin == tasks[0].origin}) > 1


def test_the_splits_leave_the_training_distribution_one_way_each():
    train = SPLITS["train"]
    goals = {d: set(train.goals(d)) for d in (1, 2, 3)}
    assert {d: set(SPLITS["held_out_goals"].goals(d)) & goals[d] for d in goals} == {
        1: set(),
        2: set(),
        3: set(),
    }
    assert [len(SPLITS["held_out_goals"].goals(d)) for d in (1, 2, 3)] == [2, 2, 2]
    assert SPLITS["held_out_goals"].distractors == SPLITS["deeper"].distractors == train.distractors
    assert min(SPLITS["deeper"].depths) > max(train.depths)
    assert SPLITS["more_distractors"].depths == train.depths
    assert min(SPLITS["more_distractors"].distractors) > max(train.distractors)


def test_names_are_permuted_in_every_episode_and_the_recipes_stay():
    tasks = [make_task("sail", 0, seed) for seed in range(30)]
    assert len({task.target for task in tasks}) > 15
    for task in tasks:
        # Back to the names of the table, by walking both from the goal.
        recipes = {recipe.item: dict(recipe.ingredients) for recipe in task.book}
        assert sorted(map(sorted, (uses.values() for uses in recipes.values()))) == sorted(
            sorted(TABLE[item].values()) for item in needed_for("sail")
        )
        assert set(task.items) <= set(ITEMS)
    fixed = make_task("sail", 2, 5, names="fixed")
    assert fixed.target == "sail" and all(dict(r.ingredients) == TABLE[r.item] for r in fixed.book)


def test_lines_of_no_use_prefer_what_the_plan_needs_and_come_in_any_order():
    places = set()
    for seed in range(30):
        task = make_task("rope", 2, seed, names="fixed")
        useless = [recipe for recipe in task.book if recipe.item not in needed_for("rope")]
        assert len(useless) == 2
        assert all(
            {"wool", "thread", "rope"} & {name for name, _ in recipe.ingredients} for recipe in useless
        )
        places.add(task.book.index(useless[0]))
    assert len(places) > 2
    # Six lines are needed for a raft, so that no more than two fit.
    assert make_task("raft", 4).distractors == 2


def test_every_word_is_in_the_vocabulary_and_every_word_of_it_is_used():
    words = set()
    draw = random.Random(0)
    for split in SPLITS:
        env = CraftWorld(split)
        for seed in range(30):
            observation, info = env.reset(seed=seed)
            words.update(info["goal"].split(), observation.split())
            while not env.is_over:
                words.update(word for action in env.admissible_actions() for word in action.split())
                action = draw.choice([*env.admissible_actions(), "dance", *env.task.moves])
                words.update(env.step(action)[0].split())
    for count in range(1, CAPACITY + 1):
        words.update(observe(ROPE, State((0, 0, count), "rope")).split())
    words.update(refusal(ROPE, State((0, 0, CAPACITY), "rope"), "get wool").split())
    assert words == set(vocabulary()) and len(vocabulary()) == len(words)


def test_a_task_of_ones_own_can_be_played():
    book = (Recipe("a", (("b", 1), ("c", 2))), Recipe("c", (("b", 3),)))
    task = Task("a", book, 2, 0, "a")
    assert task.items == ("a", "b", "c") and actions(task, start(task)) == ("get b", "wait")
    env = CraftWorld([task])
    env.reset(seed=0)
    plan = []
    while not env.is_over:
        plan.append(env.expert_action())
        env.step(plan[-1])
    assert is_done(task, env.state)
    assert sorted(plan) == ["craft a", "craft c", "craft c"] + ["get b"] * 7


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda: Task("a", (), 1, 0, "a"), "this one makes nothing"),
        (lambda: Task("a", (Recipe("b", (("c", 1),)),), 1, 0, "a"), "target 'a'; this one makes b"),
        (lambda: Task("a", (Recipe("a", (("c", 1),)),) * 2, 1, 0, "a"), "one for each item"),
        (lambda: Task("a", tuple(Recipe(i, (("z", 1),)) for i in "abcdefghi"), 1, 0, "a"), "1 to 8 lines"),
        (lambda: make_task("wood"), "'wood' cannot be crafted"),
        (lambda: make_task("rope", -1), "distractors is -1"),
        (lambda: make_task("rope", names="mixed"), "names 'mixed'"),
        (lambda: get_split("test"), "'test' is not one of train, held_out_goals"),
        (lambda: CraftWorld("test"), "'test' is not one of train"),
        (lambda: CraftWorld([]), "the list is empty"),
        (lambda: CraftWorld(names="mixed"), "names 'mixed'"),
        (lambda: CraftWorld().reset(options={"task": "rope"}), "not 'rope'"),
    ],
)
def test_what_makes_no_sense_is_named(make, said):
    with pytest.raises(ValueError, match=said):
        make()
