"""PhoneWorld's T and Ω: scenes worked by hand, and what each hidden part of the state hides."""

import gymnasium
import pytest

import labkit.envs
from labkit.envs.phone.env import PhoneWorld
from labkit.envs.phone.goals import Goal, Task, load_tasks, single, tasks_of
from labkit.envs.phone.layout import RADIOS, STANDARD, draw_layout
from labkit.envs.phone.picture import phone_svg
from labkit.envs.phone.planner import planner
from labkit.envs.phone.rules import State, actions, observe, transition
from labkit.envs.phone.words import vocabulary

WIFI = "open Settings;open Network;open WiFi"


def go(state, *scenes, layout=STANDARD):
    """The state after the actions, each of which must be admissible; `;` separates them."""
    for action in ";".join(scenes).split(";"):
        assert action in actions(layout, state), (action, observe(layout, state))
        state = transition(layout, state, action)
    return state


def seen(state):
    return observe(STANDARD, state)


def test_the_running_example_step_by_step():
    env = PhoneWorld()
    observation, info = env.reset(options={"task": Task(single("on", "wifi"))})
    assert info == {"goal": "turn on the WiFi", "steps_left": 24}
    scene = [observation]
    for action in ("open Settings", "open Network", "open WiFi", "toggle WiFi"):
        observation, reward, terminated, _, _ = env.step(action)
        scene.append(observation)
    assert scene == [
        "Home : Settings , Maps , Camera , Chat",
        "Settings : Search , Network , Sound , Display , Privacy , System , Apps",
        "Network : WiFi , Airplane , Radio",
        "WiFi : off",
        "WiFi : on",
    ]
    assert (reward, terminated) == (1.0, True)


def test_airplane_mode_blocks_a_radio_until_it_is_off():
    start = State(on=frozenset({"airplane", "lock"}))
    assert seen(start) == "Home airplane : Settings , Maps , Camera , Chat"
    page = go(start, WIFI)
    blocked = go(page, "toggle WiFi")
    assert seen(blocked) == "Blocked by airplane : ok"
    assert go(blocked, "ok") == page
    free = go(page, "back;open Airplane;toggle Airplane;back;open WiFi;toggle WiFi")
    assert seen(free) == "WiFi : on" and free.on == {"wifi", "lock"}
    # Other switches do not care.
    assert go(start, "open Settings;open Sound;open Mute;toggle Mute").on == {"airplane", "lock", "mute"}


def test_airplane_mode_turns_the_radios_off_and_does_not_bring_them_back():
    page = go(State(on=RADIOS | {"dark"}), "open Settings;open Network;open Airplane")
    on = go(page, "toggle Airplane")
    assert on.on == {"airplane", "dark"}
    assert go(on, "toggle Airplane").on == {"dark"}


def test_an_app_asks_once_and_forgets_on_reset():
    asked = go(State(), "open Maps")
    assert seen(asked) == "Allow location ? : allow , deny"
    # Leaving without an answer leaves the question open.
    assert go(asked, "back") == go(asked, "home") == State()
    allowed, denied = go(asked, "allow"), go(asked, "deny")
    assert (seen(allowed), seen(denied)) == ("Maps : location allowed", "Maps : location denied")
    assert seen(go(denied, "home;open Maps")) == "Maps : location denied"
    assert seen(go(allowed, "home;open Camera")) == "Allow location ? : allow , deny"
    assert go(allowed, "reset") == go(denied, "reset") == State()
    from_menu = go(State(), "open Settings;open Apps;open Maps")
    assert seen(go(from_menu, "back")) == seen(go(from_menu, "allow;back")) == "Apps : Maps , Camera , Chat"


def test_search_opens_what_was_typed_and_back_retraces_it():
    found = go(State(), "open Settings;open Search;search Hotspot")
    assert seen(found) == "Results : Result"
    page = go(found, "open Result")
    assert seen(page) == "Hotspot : off"
    assert go(page, "back") == found
    assert seen(go(found, "back")) == "Search :" and go(found, "back").query == ""
    assert go(page, "home") == State()


def test_what_is_not_admissible_changes_nothing():
    home = State()
    for action in ("back", "home", "toggle WiFi", "open WiFi", "open settings", " open Settings", "", "ok"):
        assert transition(STANDARD, home, action) is home
    env = PhoneWorld()
    env.reset(options={"task": Task(single("open", "wifi"))})
    assert env.step("open WiFi")[0] == "Not possible . Home : Settings , Maps , Camera , Chat"
    assert env.state == State(on=STANDARD.on)


@pytest.mark.parametrize(
    ("one", "other", "action"),
    [
        # Who asks for the location.
        (go(State(), "open Maps"), go(State(), "open Camera"), "allow"),
        # Where the app was opened from.
        (go(State(), "open Maps"), go(State(), "open Settings;open Apps;open Maps"), "back"),
        # Airplane mode, on the page of a radio.
        (go(State(), WIFI), go(State(on=frozenset({"airplane"})), WIFI), "toggle WiFi"),
        # What was typed.
        *[
            (go(State(), "open Settings;open Search;search WiFi"), other, "open Result")
            for other in [go(State(), "open Settings;open Search;search Dark")]
        ],
        # How one came to a page.
        (go(State(), WIFI), go(State(), "open Settings;open Search;search WiFi;open Result"), "back"),
        # A switch behind a menu.
        (go(State(), "open Settings;open Sound"),
         go(State(on=frozenset({"mute"})), "open Settings;open Sound"), "open Mute"),
    ],
)  # fmt: skip
def test_states_that_share_a_screen_differ_in_what_an_action_does(one, other, action):
    assert one != other and seen(one) == seen(other)
    assert phone_svg(STANDARD, one) == phone_svg(STANDARD, other)
    after_one, after_other = go(one, action), go(other, action)
    assert after_one != after_other
    if action == "allow":
        assert (after_one.allowed, after_other.allowed) == ({"maps"}, {"camera"})
    else:
        assert seen(after_one) != seen(after_other)


def reachable(layout, limit=4000):
    queue = [State(), State(on=frozenset({"airplane"}))]
    found = set(queue)
    for state in queue:
        for action in actions(layout, state):
            after = transition(layout, state, action)
            if after not in found and len(found) < limit:
                found.add(after)
                queue.append(after)
    return queue


@pytest.mark.parametrize("layout", [STANDARD, draw_layout(1)], ids=lambda layout: layout.name)
def test_what_looks_alike_offers_the_same_actions_and_has_the_same_picture(layout):
    offered, drawn = {}, {}
    for state in reachable(layout):
        text = observe(layout, state)
        assert offered.setdefault(text, actions(layout, state)) == actions(layout, state)
        if drawn.setdefault(text, phone_svg(layout, state)) != phone_svg(layout, state):
            raise AssertionError(f"two pictures of {text!r}")
    # And the other way: two looks, two pictures.
    assert len(set(drawn.values())) == len(drawn)


def test_the_first_observation_and_the_goal_determine_the_start():
    # So the whole history determines the state, and no expert knows more than a history tells.
    for layout in (STANDARD, draw_layout(3), draw_layout(1003)):
        for goal in {task.goal for task in load_tasks("known_phone")}:
            starts = [task.start for task in tasks_of(layout, [goal])]
            assert len({observe(layout, start) for start in starts}) == len(starts)
            assert not any(goal.holds(start) for start in starts)


def test_starts_undo_the_goal_and_keep_the_rest_as_the_phone_has_it():
    pair = Goal((("on", "wifi"), ("on", "vibration")))
    assert Task(pair).start == State(on=STANDARD.on - {"vibration"})
    assert Task(pair, airplane=True).start.on == STANDARD.on - {"vibration"} | {"airplane"}
    assert Task(single("off", "dark")).start.on == STANDARD.on | {"dark"}
    assert Task(single("off", "wifi")).start.on == STANDARD.on | {"wifi"}


def test_both_halves_of_a_goal_must_hold_at_once():
    goal = Goal((("on", "mute"), ("on", "dark")))
    assert [goal.holds(State(on=frozenset(on))) for on in ({"mute"}, {"dark"}, {"mute", "dark"})] == [0, 0, 1]
    goal = Goal((("allow", "maps"), ("deny", "chat")))
    maps, chat = frozenset({"maps"}), frozenset({"chat"})
    assert goal.holds(State(allowed=maps, denied=chat))
    assert not goal.holds(State(allowed=maps | chat)) and not goal.holds(State(allowed=chat, denied=maps))
    assert single("open", "wifi").holds(go(State(), "open Settings;open Search;search WiFi;open Result"))


def test_words_are_closed_and_none_is_spare():
    used = set()
    layouts = [STANDARD, *(draw_layout(seed) for seed in range(30))]
    for layout in layouts:
        for state in reachable(layout, 400):
            used |= set(observe(layout, state).split())
            used |= {word for action in actions(layout, state) for word in action.split()}
    for task in load_tasks("known_phone") + load_tasks("held_out_goals"):
        used |= set(task.goal.text.split())
    env = PhoneWorld()
    env.reset(seed=0)
    used |= set(env.step("nonsense")[0].split())
    assert len(set(vocabulary())) == len(vocabulary())
    assert used == set(vocabulary())


def test_render_shows_what_the_screen_hides():
    env = gymnasium.make(labkit.envs.PHONE_WORLD_ID, render_mode="ansi").unwrapped
    env.reset(options={"task": Task(single("on", "hotspot"), airplane=True)})
    for action in ("open Maps", "deny", "home", "open Settings", "open Search", "search Hotspot"):
        env.step(action)
    assert env.render().splitlines() == [
        "goal: turn on the Hotspot",
        "screen: Results : Result",
        "opened: home > settings > search > results",
        "on: airplane, lock, rotation, updates, vibration",
        "location allowed: -",
        "location denied: maps",
        "searched for: hotspot",
    ]


def test_the_picture_has_alt_text_and_shows_every_line():
    env = PhoneWorld()
    env.reset(options={"task": Task(single("on", "wifi"), airplane=True)})
    picture = env.picture()
    assert f'aria-label="A phone. On its screen: {observe(STANDARD, env.state)}"' in picture
    for words in ("✈ airplane", "Home", "Settings", "Maps", "Camera", "Chat"):
        assert f">{words}<" in picture
    for name, there in (("on", True), ("off", False)):
        page = go(State(on=frozenset({"wifi"} if there else ())), WIFI)
        assert f">{name}<" in phone_svg(STANDARD, page)
    assert 'width="90" height="160"' in phone_svg(STANDARD, State(), scale=0.5)


def test_a_goal_is_played_under_the_names_of_its_phone():
    layout = next(p for p in map(draw_layout, range(99)) if p.label["wifi"] == "Wireless")
    task = Task(single("open", "wifi"), layout)
    assert task.goal.text == "open the WiFi"
    plan = planner(layout, task.goal).plan(task.start)
    assert plan[-1] in ("open Wireless", "open Result")
    assert observe(layout, go(task.start, *plan, layout=layout)).startswith("Wireless :")


def test_tasks_can_be_given_or_filtered_and_wrong_ones_are_named():
    one = Task(single("open", "power"))
    env = PhoneWorld([one])
    assert env.reset(seed=0)[1]["goal"] == "open the Power" and env.task is one
    for options, said in [
        ({"tasks": "dev"}, "'dev' is not one of known_phone"),
        ({"tasks": []}, "no task to play"),
        ({"history": "some"}, "'some' is not one of aliased, unaliased"),
        ({"tasks": [one], "history": "aliased"}, "no task to play"),
    ]:
        with pytest.raises(ValueError, match=said):
            PhoneWorld(**options)
    with pytest.raises(ValueError, match="not str"):
        env.reset(options={"task": "open the Power"})
