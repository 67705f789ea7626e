"""The loop: what the world gets and what the policy sees, how it ends, and each kind of failure."""

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from labkit.agents.forms import FORMAT, INVENTED, TextForm, WordForm
from labkit.agents.policies import NoisyExpert, Recorded, Scripted, random_policy
from labkit.agents.react import (
    BUDGET,
    FAILURES,
    INADMISSIBLE,
    PREMATURE,
    REPEATED,
    Episode,
    Written,
    failure_counts,
    play,
    success_within,
)
from labkit.agents.thoughts import expert_thought
from labkit.agents.words import tokenizer
from labkit.envs.craft.env import CraftWorld
from labkit.envs.phone.env import PhoneWorld
from labkit.envs.phone.goals import Task, load_tasks, single
from labkit.envs.trajectory import Step, load_trajectories, save_trajectories

WIFI = Task(single("open", "wifi"))
WAY = ("open Settings", "open Network", "open WiFi")
TEXT = TextForm()


def run(actions, world=None, task=WIFI):
    """One episode of these actions, up to the end."""
    episode = Episode(world or PhoneWorld(), task)
    for action in actions:
        episode.advance(Written(TEXT.write("", action)), TEXT)
    return episode


def failures(episode):
    return [step.failures for step in episode.history]


def test_each_step_holds_what_was_seen_before_it_and_the_history_only_steps_before():
    episode, shadow = Episode(PhoneWorld(), WIFI), PhoneWorld()
    seen = shadow.reset(options={"task": WIFI})[0]
    for t, action in enumerate(WAY):
        context = episode.context
        assert (context.goal, context.observation) == ("open the WiFi", seen)
        # h_t holds t - 1 steps, none of them this one.
        assert [step.action for step in context.history] == list(WAY[:t])
        step = episode.advance(Written(f"Thought: {t}\nAction: {action}"), TEXT)
        assert step == Step(seen, str(t), action, reward=float(t == 2))
        assert len(context.history) == t and episode.history == (*context.history, step)
        seen = shadow.step(action)[0]
    assert episode.observation == episode.trajectory().last_observation == seen


def test_the_goal_terminates_and_the_budget_truncates_never_both():
    # Three actions lead to the goal.
    for budget, flags in {2: (False, True), 3: (True, False), 4: (True, False)}.items():
        (found,) = play([PhoneWorld(max_steps=budget)], NoisyExpert(0.0), [WIFI])
        assert (found.terminated, found.truncated) == flags
        assert len(found.steps) == min(budget, 3) and found.success == found.terminated
        assert failure_counts([found])[BUDGET] == found.truncated


def test_finish_while_the_goal_does_not_hold_ends_the_episode_neither_over_nor_cut_off():
    episode = run([*WAY[:2], "finish"])
    found = episode.trajectory("me")
    assert (found.terminated, found.truncated, found.success) == (False, False, False)
    assert found.steps[-1] == replace(
        found.steps[-1], action="finish", reward=0.0, admissible=False, failures=(PREMATURE,)
    )
    # The world was not asked: it stands where it stood.
    assert episode.world.state.path[-1] == "network" and not episode.world.is_over
    assert found.last_observation == found.steps[-1].observation
    assert failure_counts([found]) == dict.fromkeys(FAILURES, 0) | {PREMATURE: 1}


@pytest.mark.parametrize("actions", [WAY, (*WAY[:2], "finish"), ("back",) * 2])
def test_after_the_end_there_is_no_step(actions):
    episode = run(actions, PhoneWorld(max_steps=2) if len(actions) == 2 else None)
    assert episode.over and len(episode.history) == len(actions)
    with pytest.raises(RuntimeError, match="over"):
        episode.advance(Written("Action: home"), TEXT)
    assert len(episode.history) == len(actions)


def test_what_cannot_be_done_or_read_costs_a_step_and_changes_nothing():
    episode = Episode(PhoneWorld(max_steps=3), WIFI)
    start = episode.world.state
    first = episode.advance(Written("Thought: hm\nAction: open WiFi"), TEXT)
    second = episode.advance(Written("I open the settings."), TEXT)
    assert (first.failures, first.admissible, first.written) == ((INADMISSIBLE,), False, None)
    assert (second.failures, second.admissible, second.action) == ((FORMAT,), False, "")
    assert second.written == "I open the settings."
    assert second.observation.startswith("Not possible .")
    assert episode.world.state == start and not episode.over
    episode.advance(Written("Action: "), TEXT)
    assert (episode.terminated, episode.truncated) == (False, True)


class Stateless(PhoneWorld):
    @property
    def state(self):
        raise NotImplementedError


# The dialog looks the same for both apps: one answers for Maps first, then for Camera.
ALIASED = ("open Maps", "deny", "back", "open Camera", "deny")


def test_an_action_is_repeated_in_the_same_hidden_state_not_at_the_same_observation():
    aliased = run(ALIASED)
    dialogs = [step.observation for step in aliased.history if step.action == "deny"]
    assert len(dialogs) == 2 and len(set(dialogs)) == 1
    assert failures(aliased) == [()] * 5
    again = run(["open Settings", "back", "open Settings", "back", "open Maps"])
    assert failures(again) == [(), (), (REPEATED,), (REPEATED,), ()]
    # After an answer that differs in words only, the state is the same.
    assert failures(run(["fly", "fly"])) == [(INADMISSIBLE,), (INADMISSIBLE, REPEATED)]


def test_where_no_state_is_shown_the_observation_stands_for_it():
    assert failures(run(ALIASED, Stateless())) == [(), (), (), (), (REPEATED,)]


def test_another_action_in_the_same_state_and_another_episode_are_no_repetition():
    world = PhoneWorld()
    for _ in range(2):
        assert failures(run(["open Settings", "home", "open Chat"], world)) == [()] * 3


@pytest.mark.parametrize("lie", ["WiFi : on", "Home : Settings , Maps , Camera , Chat"])
def test_an_observation_that_the_policy_wrote_is_discarded_and_counted(lie):
    # Pitfall 26: every step invents what comes next, and what it would do then.
    texts = [f"Thought: so\nAction: {a}\nObservation: {lie}\nAction: finish" for a in WAY]
    (found,) = play([PhoneWorld()], Scripted(texts), [WIFI])
    (honest,) = play([PhoneWorld()], NoisyExpert(0.0), [WIFI])
    assert [step.action for step in found.steps] == list(WAY)
    assert [step.observation for step in found.steps] == [step.observation for step in honest.steps]
    assert [step.written for step in found.steps] == texts
    assert {step.failures for step in found.steps} == {(INVENTED,)}
    assert failure_counts([found, honest])[INVENTED] == 1
    prompt = TEXT.prompt(found.goal, found.steps, found.last_observation)
    assert prompt.count("Observation: ") == 4 and "finish" not in prompt
    assert prompt.count(lie) == sum(o.observation == lie for o in found.steps)


WRITTEN = st.text(max_size=30) | st.sampled_from(
    ["Action: " + action for action in (*WAY, "finish", "back", "craft rope", "wait", "")]
    + ["<act> open Settings <eos>", "<act> wait <obs>", "Action: open Maps\nObservation: done"]
)


@settings(max_examples=80, deadline=None)
@given(st.lists(WRITTEN, min_size=1, max_size=6), st.sampled_from([PhoneWorld, CraftWorld]), st.booleans())
def test_whatever_is_written_the_observations_are_the_worlds_and_nothing_raises(texts, kind, as_text):
    form = TEXT if as_text else WordForm(tokenizer())
    episode, shadow = Episode(kind(max_steps=5), seed=3), kind(max_steps=5)
    seen = shadow.reset(seed=3)[0]
    for text in texts:
        if episode.over:
            break
        step = episode.advance(Written(text), form)
        assert step.observation == seen
        seen = seen if step.action == "finish" else shadow.step(step.action)[0]
    assert episode.observation == seen
    found = episode.trajectory()
    assert not (found.terminated and found.truncated)


def test_a_clone_taken_from_an_episode_and_stepped_leaves_the_episode_alone():
    # Pitfall 27.
    episode = run(WAY[:2])
    before = (episode.world.state, episode.observation, episode.history, episode.over)
    clone = episode.context.world.clone()
    clone.step("toggle nothing")
    clone.step("open WiFi")
    assert clone.is_over
    clone.reset(seed=1)
    assert (episode.world.state, episode.observation, episode.history, episode.over) == before
    step = episode.advance(Written("Action: open WiFi"), TEXT)
    assert (step.reward, episode.terminated) == (1.0, True)


def test_an_episode_on_a_clone_does_not_touch_the_one_it_was_cloned_from():
    episode = run(WAY[:2])
    other = run(["open Maps"], episode.world.clone(), Task(single("on", "dark")))
    assert other.goal == "turn on the Dark"
    assert episode.goal == episode.world.goal == "open the WiFi" and episode.world.task == WIFI
    assert episode.world.state == run(WAY[:2]).world.state


class Looking(NoisyExpert):
    """Tries its action out on clones before it acts."""

    def write(self, contexts, generator):
        for context in contexts:
            clone = context.world.clone()
            for action in clone.admissible_actions()[:2] * 3:
                if not clone.is_over:
                    clone.step(action)
        return super().write(contexts, generator)


def test_a_policy_that_looks_ahead_on_clones_plays_the_same_episodes():
    tasks = load_tasks("known_phone")[:20:4]
    worlds = [PhoneWorld() for _ in tasks]
    assert play(worlds, Looking(0.0), tasks) == play(worlds, NoisyExpert(0.0), tasks)


@pytest.mark.parametrize("kind", [PhoneWorld, CraftWorld])
def test_all_at_once_or_one_by_one_a_deterministic_policy_plays_the_same(kind):
    policy = NoisyExpert(0.0, expert_thought)
    together = play([kind() for _ in range(6)], policy, seed=40)
    assert together == [play([kind()], policy, seed=40 + i)[0] for i in range(6)]
    assert len({len(found.steps) for found in together}) > 1
    assert all(found.success for found in together)


@pytest.mark.parametrize("kind", [PhoneWorld, CraftWorld])
def test_the_same_seed_gives_the_same_trajectories_and_another_one_others(kind):
    def once(seed, tasks=None):
        return play([kind(max_steps=8) for _ in range(4)], random_policy(), tasks, seed=seed)

    first = once(0)
    assert once(0) == first != once(7)
    # On the same tasks too: the policy's own chance hangs on the seed.
    tasks = [kind.unpack_task(found.task) for found in first]
    assert [f.steps for f in once(0, tasks)] == [f.steps for f in first] != [f.steps for f in once(7, tasks)]


@pytest.mark.parametrize("kind", [PhoneWorld, CraftWorld])
def test_a_trajectory_from_a_file_can_be_played_again(kind, tmp_path):
    found = play([kind(max_steps=6) for _ in range(3)], NoisyExpert(0.5, expert_thought), seed=2)
    loaded = load_trajectories(save_trajectories(found, tmp_path / "played.jsonl"))
    assert list(loaded) == found
    for one in loaded:
        (again,) = play([kind(max_steps=6)], Recorded(one), [kind.unpack_task(one.task)], seed=one.seed)
        assert replace(again, policy=one.policy) == one


def test_play_tells_after_each_step_how_many_took_it():
    told = []
    short, long = WIFI, Task(single("on", "standby"))
    found = play([PhoneWorld(), PhoneWorld()], NoisyExpert(0.0), [long, short], on_step=told.append)
    assert told == [2, 2, 2] + [1] * (len(found[0].steps) - 3)


def test_play_refuses_what_would_mix_episodes_up():
    world = PhoneWorld()
    with pytest.raises(ValueError, match="1 tasks for 2 worlds"):
        play([PhoneWorld(), PhoneWorld()], NoisyExpert(0.0), [WIFI])
    with pytest.raises(ValueError, match="cannot share one world"):
        play([world, world], NoisyExpert(0.0), [WIFI, WIFI])
    assert len(play([world, world.clone()], NoisyExpert(0.0), [WIFI, WIFI])) == 2


def test_failures_are_counted_once_an_episode_and_success_within_a_budget_by_hand():
    clumsy = run(["fly", "fly", *WAY]).trajectory()
    lost = run(["back"] * 4, PhoneWorld(max_steps=4)).trajectory()
    quick = run(WAY).trajectory()
    assert failure_counts([clumsy, lost, quick]) == {
        FORMAT: 0,
        INADMISSIBLE: 2,
        REPEATED: 2,
        INVENTED: 0,
        PREMATURE: 0,
        BUDGET: 1,
    }
    found = [success_within([clumsy, lost, quick], budget) for budget in (2, 3, 4, 5, 24)]
    assert found == pytest.approx([0, 1 / 3, 1 / 3, 2 / 3, 2 / 3])


class Diary(PhoneWorld):
    """A phone whose state is all that was done, as in the worlds that run in Java."""

    state_recurs = False

    @property
    def state(self):
        return self.max_steps - self._steps_left


def test_where_a_state_never_recurs_the_observation_tells_what_was_repeated():
    policy = Scripted(["Action: open Settings", "Action: back"] * 2)
    (trajectory,) = play([Diary(max_steps=4)], policy, [Task(single("on", "wifi"))])
    assert [REPEATED in step.failures for step in trajectory.steps] == [False, False, True, True]
