"""The stepper of notebook 01 without a browser: what it shows, and that going back changes nothing."""

import asyncio
import html
import random
import re
from types import SimpleNamespace

import gymnasium
import ipywidgets as widgets
import pytest

import labkit.envs  # noqa: F401 - registers the worlds
from labkit.agents.forms import TextForm
from labkit.agents.react import Context, Episode, Written
from labkit.envs.craft.tasks import make_task
from labkit.envs.phone.env import PhoneWorld
from labkit.envs.phone.goals import Task, single
from labkit.envs.world import Reply, World
from labkit.workshop import react_stepper
from labkit.workshop.react_episode import SteppedEpisode
from labkit.workshop.react_views import alias_text, history_html
from labkit.workshop.widgets import static_stepper, stepper

TASK = Task(single("on", "wifi"), airplane=True)
PLAN = (
    "open Settings",
    "open Network",
    "open Airplane",
    "toggle Airplane",
    "back",
    "open WiFi",
    "toggle WiFi",
)
"""The only shortest plan, found by hand: airplane mode keeps WiFi off. o_6 = o_3, in another state."""


class Room(World):
    """A world that shows no state: a lamp, which one cannot see."""

    id = "labkit/Room-v0"

    def _begin(self, task):
        self.goal, self._lit = "light the lamp", False
        return "dark glasses"

    def _act(self, action):
        if action not in self.admissible_actions():
            return Reply(f"you cannot {action}\n<here>", 0.0, False, admissible=False)
        self._lit = action == "press"
        return Reply("dark glasses", 0.0, False)

    def admissible_actions(self):
        return ("press", *(f"wait {i}" for i in range(40)))

    def render(self):
        return f"The lamp is {'on' if self._lit else 'off'}.\nNobody knows."


def phone(**settings):
    return gymnasium.make("labkit/PhoneWorld-v0", **settings)


def expert(world, history):
    return f"thought {len(history) + 1}", world.expert_action()


def going_home(world, history):
    return "", "home" if "home" in world.admissible_actions() else world.admissible_actions()[0]


CHOOSERS = {"expert": expert, "home": going_home}


@pytest.fixture(autouse=True)
def at_once(monkeypatch):
    monkeypatch.setattr(react_stepper, "WAIT_SECONDS", 0)


@pytest.fixture
def shown():
    return stepper(phone(), CHOOSERS, task=TASK)


def words(markup: str) -> str:
    return html.unescape(re.sub("<style>.*?</style>|<svg.*?</svg>|<.*?>", " ", markup))


def status(widget) -> str:
    return html.unescape(re.sub("<.*?>", "", widget._status.value))


def cards(widget) -> dict[str, str]:
    """Markup of each card, by its symbol."""
    found = re.findall(r"<section .*?</section>", widget._step.value, re.DOTALL)
    return {re.sub("<.*?>", "", re.search("<b .*?</b>", card)[0]): card for card in found}


def actions_done(widget) -> list[str]:
    return [turn.step.action for turn in widget.episode.turns]


def to(widget, t: int) -> None:
    """Press Forward or Back until step t is shown."""
    for _ in range(abs(t - widget.t)):
        (widget.forward_button if widget.t < t else widget.back_button).click()
    assert widget.t == t, f"the episode ends at {widget.t}"


# One step at a time


def test_each_step_shows_the_worlds_own_states_and_observations(shown):
    world = phone().unwrapped
    observation, _ = world.reset(options={"task": TASK})
    for t, action in enumerate(PLAN, 1):
        to(shown, t)
        seen = cards(shown)
        names = ["g", f"h{t}", f"s{t}", f"o{t}", f"ρ{t}, a{t}", f"s{t + 1}", f"o{t + 1}", f"r{t}"]
        assert list(seen) == names
        assert world.goal in words(seen["g"])
        assert observation in words(seen[f"o{t}"]) and world.picture() in seen[f"o{t}"]
        assert f"thought {t}" in words(seen[f"ρ{t}, a{t}"]) and action in words(seen[f"ρ{t}, a{t}"])
        opened = " > ".join(world.state.path)
        assert opened in words(seen[f"s{t}"])
        observation, reward, terminated, _, _ = world.step(action)
        assert " > ".join(world.state.path) in words(seen[f"s{t + 1}"])
        assert observation in words(seen[f"o{t + 1}"]) and world.picture() in seen[f"o{t + 1}"]
        assert f"reward {reward:.2f}" in re.sub(" +", " ", words(seen[f"r{t}"]))
    assert terminated and "terminated ✓ yes" in words(seen["r7"]) and "truncated no" in words(seen["r7"])


def test_what_the_policy_never_sees_is_marked_and_nothing_else(shown):
    to(shown, 3)
    marked = {name for name, card in cards(shown).items() if "hidden from the policy" in card}
    assert marked == {"s3", "s4"}


def test_the_history_does_not_hold_the_step_shown(shown):
    to(shown, 7)
    to(shown, 4)
    rows = re.findall("<tr>(.*?)</tr>", re.search("<tbody>.*</tbody>", cards(shown)["h4"])[0])
    cells = [[words(c).strip() for c in re.findall("<t[hd].*?>(.*?)</t[hd]>", row)] for row in rows]
    assert [(row[0], row[2], row[3]) for row in cells] == [
        (str(t), f"thought {t}", PLAN[t - 1]) for t in (1, 2, 3)
    ]
    assert "Steps 1 to 3. Step 4 is not in it" in words(cards(shown)["h4"])
    to(shown, 1)
    assert "Empty. Step 1 is not in it" in words(cards(shown)["h1"]) and "<tbody>" not in cards(shown)["h1"]


def test_choosers_are_given_the_state_and_history_of_their_step_and_cannot_disturb_it():
    given = []

    def meddler(world, history):
        action = world.expert_action()
        given.append((world.state.path[-1], [step.action for step in history]))
        while not world.is_over:
            world.step("home")
        return "", action

    shown = stepper(phone(), {"meddler": meddler}, task=TASK)
    to(shown, 7)
    assert actions_done(shown) == list(PLAN)
    screens = ["home", "settings", "network", "airplane", "airplane", "network", "wifi"]
    assert given == [(screen, list(PLAN[:i])) for i, screen in enumerate(screens)]


def test_the_end_is_shown_and_is_the_end(shown):
    to(shown, 8)
    assert shown.forward_button.disabled and shown.typed.disabled and shown.actions.options == ()
    assert status(shown) == "t = 8, after the last step. The episode is over; terminated: the goal holds."
    assert list(cards(shown)) == ["g", "h8", "s8", "o8", "end"]
    shown.chooser.value = "home"
    shown.typed.value = "back"
    assert shown.t == 8 and actions_done(shown) == list(PLAN)


def test_truncation_is_not_termination():
    shown = stepper(phone(max_steps=2), CHOOSERS, task=TASK)
    to(shown, 2)
    assert "terminated no" in words(cards(shown)["r2"]) and "truncated ✓ yes" in words(cards(shown)["r2"])
    assert "truncated: the budget of 2 steps is used up; s_3 is not terminal" in status(shown)


# Back, forward, slider


def test_going_back_and_forward_asks_nobody_and_shows_the_same():
    asked, chance = [], random.Random(1)

    def at_random(world, history):
        asked.append(len(history) + 1)
        return str(chance.random()), chance.choice(world.admissible_actions())

    shown = stepper(phone(), {"random": at_random}, task=TASK)
    views = {}
    for t in range(1, 11):
        to(shown, t)
        views[t] = (shown._step.value, shown.actions.value, shown.slider.value)
    last = shown._step.value
    for t in (*range(9, 0, -1), *range(2, 11)):
        to(shown, t)
        # An alias may have come to light later; all else is as it was.
        cut = [
            re.sub("<div[^>]*><mark.*?</mark></div>", "", view) for view in (shown._step.value, views[t][0])
        ]
        assert cut[0] == cut[1] and (shown.actions.value, shown.slider.value) == views[t][1:]
    assert shown._step.value == last and asked == list(range(1, 11))


def test_the_slider_goes_over_the_steps_taken_and_one_further(shown):
    assert (shown.slider.min, shown.slider.max) == (1, 2)
    to(shown, 5)
    shown.slider.value = 2
    assert shown.t == 2 and "action open Network" in status(shown) and shown.slider.max == 6
    shown.slider.value = 6
    assert shown.t == 6 and shown.slider.max == 7 and actions_done(shown) == list(PLAN[:6])
    to(shown, 8)
    assert (shown.slider.value, shown.slider.max) == (8, 8)
    shown.restart_button.click()
    assert shown.t == 1 and actions_done(shown) == list(PLAN[:1]) and shown.back_button.disabled


def test_a_drag_is_answered_once(monkeypatch):
    async def drag():
        monkeypatch.setattr(react_stepper, "WAIT_SECONDS", 0.01)
        shown = stepper(phone(), CHOOSERS, task=TASK)
        to(shown, 7)
        seen = []
        shown._step.observe(lambda change: seen.append(shown.t), "value")
        for t in range(6, 1, -1):
            shown.slider.value = t
        assert seen == []
        await asyncio.sleep(0.2)
        return seen

    assert asyncio.run(drag()) == [2]


# What if


def test_another_action_branches_from_here_and_drops_what_came_after(shown):
    to(shown, 6)
    to(shown, 3)
    assert shown.actions.options == (
        "open WiFi", "open Airplane", "open Radio", "back", "home",
    )  # fmt: skip
    assert shown.actions.value == "open Airplane"
    shown.actions.value = "open WiFi"
    assert shown.t == 3 and actions_done(shown) == ["open Settings", "open Network", "open WiFi"]
    assert "branches at t = 3: open WiFi instead of open Airplane" in status(shown)
    assert "WiFi : off" in words(cards(shown)["o4"])
    to(shown, 5)
    # The expert goes on from where the branch leads.
    assert actions_done(shown)[3] == "back"
    assert "you branch: instead of open Airplane" in re.sub(" +", " ", words(cards(shown)["h5"]))
    assert words(cards(shown)["h5"]).count("branch") == 1


def test_a_typed_action_gets_the_worlds_answer(shown):
    to(shown, 2)
    shown.typed.value = " open the pod bay doors "
    assert actions_done(shown) == ["open Settings", "open the pod bay doors"] and shown.typed.value == ""
    screen = "Settings : Search , Network , Sound , Display , Privacy , System , Apps"
    assert f"Not possible . {screen}" in words(cards(shown)["o3"])
    assert "✗ inadmissible" in words(cards(shown)["ρ2, a2"]) and "Failure: inadmissible" in status(shown)
    assert cards(shown)["s2"].count("settings") == cards(shown)["s3"].count("settings") > 0
    shown.typed.value = "open the pod bay doors"
    assert "already" in status(shown) and shown.episode.length == 2 and shown.actions.value is None


def test_the_same_action_in_the_same_state_is_named_repeated_as_in_the_loop(shown):
    loop, form = Episode(phone(), TASK), TextForm()
    done = ("open Settings", "home", "open Maps", "home", "open Settings", "no such", "no such", "finish")
    for t, action in enumerate(done, 1):
        to(shown, t)
        shown.typed.value = action
        loop.advance(Written(form.write("", action)), form)
    ours, theirs = ([s.failures for s in steps] for steps in (shown.episode.history(9), loop.history))
    assert ours == theirs and {kind for kinds in ours for kind in kinds} == {
        "repeated", "inadmissible", "premature finish",
    }  # fmt: skip
    to(shown, 9)
    assert "neither terminated nor truncated" in status(shown)


def test_another_chooser_takes_over_from_here(shown):
    to(shown, 4)
    to(shown, 2)
    shown.chooser.value = "home"
    assert actions_done(shown) == ["open Settings", "home"]
    assert "Now home chooses, from t = 2 on." in status(shown)
    to(shown, 4)
    assert [turn.by for turn in shown.episode.turns] == ["expert", "home", "home", "home"]
    assert [turn.instead for turn in shown.episode.turns] == [None, "open Network", None, None]


def test_who_takes_over_is_not_told_what_was_done_at_this_step():
    told = []

    def curious(world, history):
        told.append([step.action for step in history])
        return "", "back"

    shown = stepper(phone(), {"expert": expert, "curious": curious}, task=TASK)
    to(shown, 5)
    to(shown, 3)
    shown.chooser.value = "curious"
    assert told == [list(PLAN[:2])]


def test_a_policy_of_the_loop_is_given_goal_history_and_observation():
    given = []

    def write(contexts, generator):
        (context,) = contexts
        given.append(context)
        broken = len(context.history) == 1
        return [
            Written("Thought: no act" if broken else f"Thought: hm\nAction: {PLAN[0]}", (7, 8), (-1.0, -2.0))
        ]

    policy = SimpleNamespace(name="written", form=TextForm(), write=write)
    shown = stepper(phone(), {"policy": policy}, task=TASK)
    to(shown, 3)
    assert all(isinstance(context, Context) and context.goal == "turn on the WiFi" for context in given)
    assert [context.observation.split()[0] for context in given] == ["Home", "Settings", "Not"]
    assert [len(context.history) for context in given] == [0, 1, 2]
    first, second, _ = shown.episode.turns
    assert (first.step.thought, first.step.ids, first.step.written) == ("hm", (7, 8), None)
    assert second.step.failures == ("format",) and second.step.written == "Thought: no act"
    to(shown, 2)
    assert "Thought: no act" in words(cards(shown)["ρ2, a2"]) and "✗ format" in words(cards(shown)["ρ2, a2"])


# States that look the same


def test_the_same_observation_in_another_state_is_pointed_out(shown):
    to(shown, 3)
    assert "also seen" not in status(shown)
    to(shown, 6)
    said = "o_6 was also seen at t=3, in another state"
    assert said in status(shown) and said in words(cards(shown)["o6"])
    to(shown, 3)
    assert "o_3 was also seen at t=6, in another state" in status(shown)


def test_the_same_state_again_is_no_alias():
    episode = SteppedEpisode(phone(), {"home": going_home}, TASK)
    for t, action in enumerate(("open Settings", "home", "open Settings"), 1):
        episode.branch(t, action, "you")
    assert episode.moments[0].observation == episode.moments[2].observation
    assert episode.aliases(1) == episode.aliases(3) == () and alias_text(episode, 3) == ""


# Other worlds


def test_craft_world_keeps_the_lines_of_its_goal_and_has_no_picture():
    shown = stepper(gymnasium.make("labkit/CraftWorld-v0"), CHOOSERS, task=make_task("rope", names="fixed"))
    to(shown, 2)
    goal = shown.episode.goal
    assert "\n" in goal and goal in html.unescape(cards(shown)["g"])
    assert "<svg" not in shown._step.value
    # The goal is shown once, and what changed is marked.
    assert goal not in html.unescape(cards(shown)["s2"]) and "(changed)" in words(cards(shown)["s3"])
    assert "1 wool" in words(cards(shown)["o2"])


def test_a_world_without_a_state_is_rendered_and_says_nothing_about_aliases():
    shown = stepper(Room(3), {"press": lambda world, history: ("", "press")})
    to(shown, 2)
    assert "The lamp is on.\nNobody knows." in words(cards(shown)["s2"])
    assert shown.episode.moments[0].observation == shown.episode.moments[1].observation
    assert shown.episode.aliases(1) == () and "repeated" in status(shown)
    assert len(shown.actions.options) == react_stepper.MOST_ACTIONS
    assert f"{41 - react_stepper.MOST_ACTIONS} more" in shown._more.value
    shown.typed.value = "wait 39"
    assert actions_done(shown) == ["press", "wait 39"] and "Failure" not in status(shown)


def test_text_is_escaped_everywhere():
    shown = stepper(Room(3), {"<i>me": lambda world, history: ("<script>", "<b>bold")})
    to(shown, 2)
    for markup in (shown._step.value, shown._status.value, shown.still()):
        assert not re.search("<script>|<b>bold|<i>me|<here>", markup)
    assert "&lt;here&gt;" in shown._step.value and "&lt;script&gt;" in history_html(shown.episode, 2)


# Without controls


def test_static_shows_the_whole_episode_with_the_same_symbols():
    table = static_stepper(phone(), CHOOSERS, task=TASK).data
    rows = re.findall("<tr>(.*?)</tr>", table.partition("<tbody>")[2], re.DOTALL)
    cells = [[words(c).strip() for c in re.findall("<t[hd].*?>(.*?)</t[hd]>", r, re.DOTALL)] for r in rows]
    assert [row[0] for row in cells] == [str(t) for t in range(1, 9)]
    assert [row[4] for row in cells[:-1]] == list(PLAN) and cells[-1][3] == "terminated: the goal holds"
    assert [row[6] for row in cells[:-1]] == ["0.00"] * 6 + ["1.00"]
    assert cells[0][1].startswith("screen: Home airplane") and "opened: home > settings" in cells[1][1]
    assert "on: " not in cells[1][1] and "on: lock, rotation, updates, vibration" in cells[4][1]
    assert "also seen at t=3" in cells[5][2] and "hidden from the policy" in table
    assert "without row t itself" in words(table) and "turn on the WiFi" in table


def test_static_by_another_chooser_and_still_of_the_steps_so_far(shown):
    ends = static_stepper(phone(max_steps=4), CHOOSERS, task=TASK, chosen_by="home").data
    assert "truncated: the budget of 4 steps" in ends and "expert" not in words(ends)
    to(shown, 3)
    still = shown._repr_mimebundle_()["text/html"]
    assert PLAN[2] in still and PLAN[3] not in still and "<button" not in still
    with pytest.raises(ValueError, match="'nobody' is not one of expert, home"):
        static_stepper(phone(), CHOOSERS, task=TASK, chosen_by="nobody")


def test_a_seed_draws_the_task_and_the_given_world_is_left_alone_after():
    world = phone().unwrapped
    shown = stepper(world, CHOOSERS, seed=3)
    again = stepper(phone(), CHOOSERS, seed=3)
    assert shown.episode.goal == again.episode.goal
    assert len({stepper(phone(), CHOOSERS, seed=seed).episode.goal for seed in range(5)}) > 1
    state = world.state
    to(shown, 4)
    assert world.state == state
    world.step("open Chat")
    shown.restart_button.click()
    assert shown.episode.moments[0].state == state


def test_someone_must_choose():
    with pytest.raises(ValueError, match="nobody chooses"):
        stepper(phone(), {})


def test_every_control_has_a_name_and_works_from_the_keyboard(shown):
    def descendants(widget):
        return [widget] + [w for child in getattr(widget, "children", ()) for w in descendants(child)]

    controls = [w for w in descendants(shown) if isinstance(w, widgets.DOMWidget)]
    assert not any(isinstance(w, widgets.Dropdown | widgets.RadioButtons | widgets.Select) for w in controls)
    assert all(w.description for w in controls if hasattr(w, "description") and type(w) is not widgets.HTML)


def test_a_chooser_that_fails_says_so_and_leaves_the_episode_as_it_was():
    def fails(world, history):
        if len(history) == 1:
            raise ValueError("no idea")
        return "", world.expert_action()

    panel = stepper(PhoneWorld(), {"fails": fails}, task=Task(single("open", "wifi")))
    panel.forward_button.click()
    assert "fails could not choose: no idea" in panel._status.value
    assert panel.episode.length == 1
    panel.back_button.click()
    assert panel.t == 1 and "could not" not in panel._status.value


def test_a_chooser_that_fails_at_once_leaves_a_panel_to_act_in_by_hand():
    panel = stepper(
        PhoneWorld(), {"none": lambda world, history: ("", None)}, task=Task(single("open", "wifi"))
    )
    assert "none could not choose" in panel._status.value
    panel.actions.value = "open Settings"
    assert panel.episode.length == 1
