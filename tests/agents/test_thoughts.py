"""Thoughts of the expert: worked by hand, and read back by one who knows the screen but not the state."""

import random

import pytest

from labkit.agents.thoughts import expert_thought
from labkit.envs.craft.rules import State as Craft
from labkit.envs.craft.tasks import Recipe
from labkit.envs.craft.tasks import Task as CraftTask
from labkit.envs.phone.goals import Goal, Task, single
from tests.envs.walks import make

PHONE, CRAFT = "labkit/PhoneWorld-v0", "labkit/CraftWorld-v0"


def phone_thoughts(task, actions=""):
    """Thoughts of an episode: before each of the actions given (`;` separates them) and after the last."""
    env = make(PHONE)
    env.reset(options={"task": task})
    thoughts = [expert_thought(env)]
    for action in filter(None, actions.split(";")):
        assert action in env.admissible_actions()
        env.step(action)
        thoughts.append(expert_thought(env))
    return thoughts


def test_the_running_example():
    scene = phone_thoughts(Task(single("on", "wifi")), "open Settings;open Network;open WiFi")
    assert scene == [
        "airplane off ; turn on WiFi in Network in Settings",
        "airplane off ; turn on WiFi in Network",
        "airplane off ; turn on WiFi",
        "airplane off ; turn on WiFi",
    ]


def test_a_blocked_radio_sends_the_expert_to_airplane_mode_first():
    task = Task(single("on", "wifi"), airplane=True)
    scene = phone_thoughts(
        task,
        "open Settings;open Network;open WiFi;toggle WiFi;ok;back;open Airplane;toggle Airplane;back",
    )
    assert scene[4:] == [
        "airplane on ; turn off Airplane ; ok",
        "airplane on ; turn off Airplane ; back",
        "airplane on ; turn off Airplane",
        "airplane on ; turn off Airplane",
        "airplane off ; turn on WiFi ; back",
        "airplane off ; turn on WiFi",
    ]


def test_a_dialog_does_not_say_which_app_asks_but_the_thought_does():
    task = Task(Goal((("allow", "maps"), ("deny", "chat"))))
    scene = phone_thoughts(task, "open Chat;deny;home;open Maps;deny;reset")
    assert scene == [
        "allow Maps",
        "deny Chat",
        "done Chat ; allow Maps ; back",
        "done Chat ; allow Maps",
        "done Chat ; allow Maps",
        "done Chat ; reset Maps",
        "done Chat ; allow Maps",
    ]


def test_what_is_done_is_what_holds_now():
    task = Task(Goal((("on", "dark"), ("on", "mute"))))
    to_dark = "open Settings;open Display;open Dark;toggle Dark"
    assert phone_thoughts(task, to_dark)[-1] == "done Dark ; turn on Mute in Sound ; back"
    assert phone_thoughts(task, to_dark + ";toggle Dark")[-1] == "turn on Dark"


def craft(inventory, book, target):
    env = make(CRAFT)
    task = CraftTask(target, book, 2, 0, "wall")
    env.reset(options={"task": task})
    env._state = Craft(tuple(inventory.get(item, 0) for item in task.items), target)
    return expert_thought(env)


def test_down_the_recipe_to_what_is_short():
    book = (
        Recipe("lamp", (("brick", 2), ("reed", 1))),
        Recipe("brick", (("clay", 1), ("coal", 1))),
        Recipe("net", (("reed", 2),)),
    )
    start = "lamp needs 2 brick have"
    for inventory, thought in {
        (): f"{start} nothing ; brick needs 1 clay have nothing ; get clay",
        (
            ("brick", 1),
            ("clay", 1),
        ): f"{start} 1 ; brick needs 1 clay have 1 , 1 coal have nothing ; get coal",
        (
            ("brick", 1),
            ("clay", 1),
            ("coal", 3),
        ): f"{start} 1 ; brick needs 1 clay have 1 , 1 coal have 3 ; craft brick",
        (("brick", 2), ("net", 1)): f"{start} 2 , 1 reed have nothing ; get reed",
        (("brick", 2), ("reed", 1)): f"{start} 2 , 1 reed have 1 ; craft lamp",
    }.items():
        assert craft(dict(inventory), book, "lamp") == thought


def read_phone(thought, screen):
    """The action that a thought leads to on a screen: rules of the text alone."""
    last = thought.split(" ; ")[-1].split()
    if last[-1] in ("back", "home", "ok"):
        return last[-1]
    title, _, shown = screen.removeprefix("Not possible . ").partition(" :")
    if title.startswith("Allow"):
        return last[0]
    if title == "Results":
        return "open Result"
    if last[-1] in shown.split():
        return f"open {last[-1]}"
    if title == last[-1]:
        return f"toggle {title}" if last[0] == "turn" else last[0]
    return f"search {last[-1]}"


def wander(world, steps, mistakes, **options):
    """(world, last observation) before each step of an expert that errs now and then."""
    env, draw = make(world, **options), random.Random(3)
    observation, _ = env.reset(seed=3)
    for _ in range(steps):
        yield env, observation
        action = env.expert_action()
        if draw.random() < mistakes:
            action = draw.choice([*env.admissible_actions(), "open Nothing"])
        observation, _, terminated, truncated, _ = env.step(action)
        if terminated or truncated:
            observation, _ = env.reset()


@pytest.mark.parametrize("tasks", ["known_phone", "held_out_goals", "many_phones"])
def test_the_action_can_be_read_off_thought_and_screen(tasks):
    longest = 0
    for env, screen in wander(PHONE, 1500, 0.4, tasks=tasks):
        thought = expert_thought(env)
        assert read_phone(thought, screen) == env.expert_action(), (env.render(), thought)
        longest = max(longest, len(thought.split()))
    assert longest <= 17


@pytest.mark.parametrize("tasks", ["train", "deeper"])
def test_a_thought_about_crafting_is_true_and_ends_in_the_action(tasks):
    longest = 0
    for env, observation in wander(CRAFT, 1000, 0.3, tasks=tasks):
        *levels, action = expert_thought(env).split(" ; ")
        assert action == env.expert_action()
        assert levels[0].startswith(f"{env.task.target} needs ")
        held = dict(
            reversed(part.split()) for part in observation.split("have : ")[-1].split(" , ") if " " in part
        )
        for level in levels:
            item, _, used = level.partition(" needs ")
            # The lines of the book in its own words, the counts those of the inventory in sight.
            read = [part.split(" have ") for part in used.split(" , ")]
            assert any(
                line.startswith(f"craft {item} using {' , '.join(need for need, _ in read)}")
                for line in env.goal.split("\n")
            )
            assert all(have == held.get(need.split()[1], "nothing") for need, have in read)
        longest = max(longest, sum(map(len, map(str.split, levels))) + len(levels) + 2)
    assert longest <= 40


def test_what_one_may_not_ask():
    env = make(PHONE)
    env.reset(options={"task": Task(single("open", "settings"))})
    env.step("open Settings")
    with pytest.raises(ValueError, match="open the Settings"):
        expert_thought(env)
    with pytest.raises(TypeError, match="TextCraft"):
        expert_thought(make("labkit/TextCraft-v0"))
