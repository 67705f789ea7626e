"""Phones and goals as data: what is drawn, what is held out, and what is not."""

import subprocess
import sys

import pytest

from labkit.envs.phone.goals import (
    HELD_OUT_PHONES,
    SPLITS,
    TRAINING_PHONES,
    Goal,
    all_goals,
    load_tasks,
    single,
    split_goals,
)
from labkit.envs.phone.layout import APPS, NAMES, STANDARD, SWITCHES, draw_layout
from labkit.files import repo_root


def places(layout):
    """Which menu each entry is in, apart from apps, which are in two."""
    return {key: menu for menu, keys in layout.menus for key in keys if key not in APPS}


def test_names_are_single_words_and_none_is_shared():
    words = [word for names in NAMES.values() for word in names]
    assert len(set(words)) == len(words) and all(word.split() == [word] for word in words)
    assert len(SWITCHES) == 13 and set(SWITCHES) < set(NAMES)


@pytest.mark.parametrize("seed", [1, 2, 1001, 1002])
def test_a_drawn_phone_holds_every_entry_once(seed):
    layout = draw_layout(seed)
    assert set(places(layout)) == set(places(STANDARD))
    for menu, keys in layout.menus:
        assert len(keys) == len(STANDARD.entries[menu])
    assert all(layout.label[key] in NAMES[key] for key in NAMES)
    moved = {key for key in SWITCHES if places(layout)[key] != places(STANDARD)[key]}
    # Six change places in a ring, and a neighbour in the ring may live in the same menu.
    assert 2 <= len(moved) <= 6
    assert "airplane" not in layout.on and layout.on < set(SWITCHES)


def test_renaming_and_moving_are_apart():
    both, renamed, moved = draw_layout(7), draw_layout(7, moved=0), draw_layout(7, renamed=False)
    assert renamed.menus == STANDARD.menus and renamed.label == both.label != STANDARD.label
    assert moved.label == STANDARD.label and moved.menus == both.menus != STANDARD.menus
    assert both == draw_layout(7) and both != draw_layout(8)
    for count in (-1, 1, 14):
        with pytest.raises(ValueError, match=f"moved is {count}"):
            draw_layout(7, moved=count)


def test_held_out_phones_are_none_of_the_training_phones():
    trained = {draw_layout(seed) for seed in TRAINING_PHONES} | {STANDARD}
    tested = {draw_layout(seed) for seed in HELD_OUT_PHONES}
    assert len(trained) == 41 and len(tested) == 20
    maps = {frozenset(places(layout).items()) for layout in trained}
    assert not maps & {frozenset(places(layout).items()) for layout in tested}
    assert not {layout.names for layout in trained} & {layout.names for layout in tested}


def test_training_phones_use_every_name():
    used = {name for seed in TRAINING_PHONES for name in draw_layout(seed).label.values()}
    assert used == {name for names in NAMES.values() for name in names}


def test_held_out_goals_are_new_in_combination_and_not_in_words():
    train, held_out = split_goals()
    assert not set(train) & set(held_out) and set(train) | set(held_out) == set(all_goals())
    assert len({goal.text for goal in all_goals()}) == len(all_goals()) == 135
    words = {word for goal in train for word in goal.text.split()}
    assert {word for goal in held_out for word in goal.text.split()} <= words
    alone = {goal.conditions[0][1] for goal in train if len(goal.conditions) == 1}
    assert {key for goal in held_out for _, key in goal.conditions} <= alone
    kinds = [{goal.kind for goal in goals} for goals in (train, held_out)]
    assert kinds[0] == kinds[1]


def test_splits_play_what_their_names_say():
    known, goals = load_tasks("known_phone"), load_tasks("held_out_goals")
    assert {task.layout for task in known + goals} == {STANDARD}
    assert not {task.goal for task in known} & {task.goal for task in goals}
    phones, unseen = load_tasks("many_phones"), load_tasks("held_out_phones")
    assert {task.goal for task in phones} == {task.goal for task in unseen} == {task.goal for task in known}
    assert not {task.layout for task in phones} & {task.layout for task in unseen}
    assert {task.layout.menus for task in load_tasks("renamed_phones")} == {STANDARD.menus}
    assert {task.layout.names for task in load_tasks("moved_phones")} == {STANDARD.names}
    for split in SPLITS:
        assert len(set(load_tasks(split))) == len(load_tasks(split))
    with pytest.raises(ValueError, match="'test' is not one of known_phone, held_out_goals"):
        load_tasks("test")


def test_splits_do_not_hang_on_the_hash_seed():
    code = (
        "from labkit.envs.phone.goals import load_tasks, split_goals; from labkit.envs.phone.layout import *;"
        "print([g.text for g in split_goals()[1]], [(t.goal.text, t.layout.menus, t.layout.names,"
        "sorted(t.start.on)) for t in load_tasks('held_out_phones')[::97]])"
    )
    found = {
        subprocess.run(
            [sys.executable, "-c", code], env={"PYTHONHASHSEED": seed}, cwd=repo_root(), check=True,
            capture_output=True, text=True,
        ).stdout
        for seed in ("1", "2")
    }  # fmt: skip
    assert len(found) == 1 and len(found.pop()) > 100


@pytest.mark.parametrize(
    ("kind", "key"), [("shut", "wifi"), ("open", "home"), ("on", "network"), ("allow", "wifi"), ("open", "x")]
)
def test_goals_that_make_no_sense_are_named(kind, key):
    with pytest.raises(ValueError, match=f"no goal '{kind}' of '{key}'"):
        single(kind, key)


def test_goals_in_words():
    texts = {goal.text for goal in all_goals()}
    assert {
        "open the WiFi", "turn on the WiFi", "turn off the Lock", "allow location for Maps",
        "turn on the WiFi and turn on the Mute", "allow location for Maps and deny location for Chat",
    } <= texts  # fmt: skip
    assert Goal((("on", "wifi"), ("on", "airplane"))).text not in texts
