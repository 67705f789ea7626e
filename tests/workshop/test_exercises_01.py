"""What is particular to the exercises of notebook 01; what holds of all is in test_exercises."""

from __future__ import annotations

import ast
import itertools
import random
from collections import deque
from dataclasses import replace

import pytest

from labkit.agents.examples import examples, without_thoughts
from labkit.agents.forms import TextForm, WordForm
from labkit.agents.history import History
from labkit.agents.policies import NoisyExpert, Scripted, random_policy
from labkit.agents.react import BUDGET, FAILURES, play
from labkit.agents.thoughts import expert_thought
from labkit.agents.words import tokenizer
from labkit.envs.phone.env import PhoneWorld
from labkit.envs.phone.planner import aliases as alias_pairs
from labkit.envs.phone.planner import memoryless_policy, planner
from labkit.envs.phone.rules import State, observe
from labkit.workshop import exercises
from labkit.workshop.exercises_01 import (
    aliases,
    failures,
    history,
    mask,
    parse,
    policy,
    transition,
    truncation,
)


def test_notebook_01_has_its_exercises_in_order():
    assert [e.id for e in exercises.of_notebook("01")] == [
        "01.transition",
        "01.aliases",
        "01.history",
        "01.parse",
        "01.failures",
        "01.policy",
        "01.truncation",
        "01.mask",
    ]


@pytest.mark.parametrize("exercise", exercises.of_notebook("01"), ids=lambda e: e.id)
def test_a_stub_run_as_a_notebook_runs_it_counts_as_untouched(exercise):
    # A notebook compiles a cell's statements one by one; beside an import the same call compiles differently.
    namespace = {}
    for statement in ast.parse(exercise.stub).body:
        exec(compile(ast.Module([statement], []), "<cell>", "exec"), namespace)
    assert not exercise.check(namespace[exercise.answer_name]).attempted


def test_the_transitions_are_what_the_rules_say_by_hand():
    assert dict(transition.WANTED) == {
        "on_2": ["airplane"],
        "observation_2": "Airplane : on",
        "path_3": ["home"],
        "observation_3": "Home airplane : Settings , Maps , Camera , Chat",
        "path_4": ["home", "maps", "permission"],
        "observation_4": "Allow location ? : allow , deny",
    }
    start, shown = transition.PLAYED[0]
    assert start == State(("home", "settings", "network", "airplane"), frozenset({"wifi"}))
    assert f"`{shown}`" in transition.EXERCISE.task and "on is `wifi`" in transition.EXERCISE.task


def best_by_search(state):
    """First actions of the shortest plans from a state, by trying all plans, short ones first."""
    world = PhoneWorld(max_steps=100)
    world.reset(options={"task": aliases.TASK})
    world._state = state
    queue = deque((action, world, action, 1) for action in world.admissible_actions())
    best, length, seen = set(), None, set()
    while queue:
        first, before, action, depth = queue.popleft()
        if length is not None and depth > length:
            break
        after = before.clone()
        _, _, terminated, *_ = after.step(action)
        if terminated:
            length = depth
            best.add(first)
        elif (first, after.state) not in seen:
            seen.add((first, after.state))
            queue += [(first, after, then, depth + 1) for then in after.admissible_actions()]
    return best


@pytest.mark.parametrize(
    "way",
    [
        [],
        ["open Maps"],
        ["open Camera"],
        ["open Settings", "open Apps", "open Maps"],
        ["open Maps", "deny"],
    ],
    ids=" ".join,
)
def test_the_planner_that_judges_aliases_agrees_with_trying_all_plans(way):
    state, _ = aliases.follow("first", way)
    assert set(planner(aliases.TASK.layout, aliases.TASK.goal).best(state)) == best_by_search(state)


def test_the_pair_that_the_planner_lists_is_right_and_the_one_of_the_solution_is_of_its_kind():
    (pair,) = alias_pairs(aliases.TASK.layout, aliases.TASK.goal)
    found = [aliases.follow(key, aliases.WANTED[key]) for key in ("first", "second")]
    assert {shown for _, shown in found} == {pair.observation}
    assert {state.path for state, _ in found} == {pair.first.path, pair.second.path}


def test_prompts_are_those_of_labkits_form_for_every_step():
    episode = history.trajectory()
    for t in range(1, len(episode.steps) + 2):
        theirs = TextForm().prompt(episode.goal, episode.history(t), episode.observation(t))
        assert history.prompt_at(episode.goal, episode, t) == theirs
        assert theirs.splitlines() == history.lines_by_tags(t)
    for t in (0, len(episode.steps) + 2):
        with pytest.raises(IndexError, match="has steps 1 to 4"):
            history.prompt_at(episode.goal, episode, t)


def test_the_steps_of_the_history_exercise_are_the_worlds():
    world = PhoneWorld()
    seen, _ = world.reset(options={"task": policy.TASKS[0]})
    for observation, _, action in history.STEPS:
        assert seen == observation
        seen = world.step(action)[0]
    assert seen == history.LAST


def test_reading_agrees_with_labkits_form_on_any_text_without_back_slashes():
    rng = random.Random(0)
    parts = ["Thought:", "Action:", "Observation:", "\n", "\n", " ", "open", "WiFi", "Action", ":"]
    texts = ["".join(rng.choices(parts, k=rng.randint(0, 14))) for _ in range(3000)]
    for text in [*texts, *(case.written for case in parse.CASES)]:
        parsed = TextForm().parse(text)
        assert parse.read_step(text) == (parsed.thought.strip(), parsed.action.strip()), text


def test_failures_are_counted_by_hand_as_by_the_table():
    of_each = dict.fromkeys(FAILURES, 0)
    for end, steps in failures.EPISODES:
        for kind in FAILURES:
            of_each[kind] += end == "truncated" if kind == BUDGET else any(kind in f for *_, f in steps)
    assert of_each == failures.WANTED


def test_each_way_to_miscount_gives_counts_of_its_own():
    counts = {"right": failures.WANTED} | failures.count_mistakes()
    for (one, a), (other, b) in itertools.combinations(counts.items(), 2):
        assert {k: n for k, n in a.items() if n} != {k: n for k, n in b.items() if n}, (one, other)


def test_the_loop_would_have_found_the_failures_of_the_repeating_episodes():
    texts = ["Action: open Settings", "Action: open Network", "Action: open WiFi", "Action: ok", "Action: ok"]
    episode = play([PhoneWorld(max_steps=5)], Scripted(texts), [policy.TASKS[2]])[0]
    assert [step.failures for step in episode.steps[3:]] == [steps[-1] for steps in failures.EPISODES[4][1]]


def test_only_the_last_task_needs_history_and_all_have_a_plan_within_the_budget():
    for task in policy.TASKS:
        plan = planner(task.layout, task.goal).plan(task.start)
        assert len(plan) <= policy.BUDGET
        states, shown = [task.start], {}
        for action in plan:
            assert (
                shown.setdefault(observe(task.layout, states[-1]), action) == action
                or task == policy.TASKS[-1]
            )
            states.append(policy_step(task, states[-1], action))
    assert memoryless_policy(policy.TASKS[-1].layout, policy.ON) is None


def policy_step(task, state, action):
    world = PhoneWorld()
    world.reset(options={"task": task})
    world._state = state
    world.step(action)
    return world.state


def test_the_policy_of_the_solution_takes_shortest_ways():
    for task in policy.TASKS:
        turns, reached = policy.play(policy.phone_policy, task)
        assert reached and len(turns) == len(planner(task.layout, task.goal).plan(task.start))
    assert policy.phone_policy("open the WiFi", "Camera : location denied", ()) == "home"


def test_each_wrong_target_gives_numbers_of_its_own():
    right = [truncation.target_by_going_on(case) for case in truncation.CASES]
    numbers = {"right": right} | truncation.target_mistakes()
    for (one, a), (other, b) in itertools.combinations(numbers.items(), 2):
        assert max(abs(x - y) for x, y in zip(a, b, strict=True)) > 1e-2, (one, other)
    ends = {(case.terminated, case.truncated) for case in truncation.CASES}
    assert ends == {(False, False), (True, False), (False, True)}


@pytest.fixture(scope="module")
def episodes():
    tasks = list(policy.TASKS)
    experts = play([PhoneWorld() for _ in tasks], NoisyExpert(0.0, expert_thought), tasks)
    return experts + play([PhoneWorld(max_steps=6) for _ in tasks], random_policy(), tasks, seed=3)


@pytest.mark.parametrize(
    "remembered",
    [History(), History("window"), History("summary"), History("none"), History(observations=False)],
    ids=lambda h: h.kind if h.observations else "blind",
)
def test_the_mask_is_that_of_training_where_one_sequence_is_one_episode_or_one_step(episodes, remembered):
    form = WordForm(tokenizer())
    for episode in episodes:
        for shown in (episode, without_thoughts(episode)):
            rows = examples(shown, form, remembered)
            for ids, keep in rows:
                words = form.text(ids).split()
                if len(rows) == 1 or remembered.kind in ("summary", "none"):
                    assert mask.trained_words(words) == keep
                else:
                    # A window holds earlier steps as context; they are trained on in sequences of their own.
                    pairs = zip(mask.trained_words(words), keep, strict=True)
                    assert all(written for written, now in pairs if now)


def test_the_mask_of_a_step_that_is_not_trained_on_is_another_matter(episodes):
    episode = replace(
        episodes[0], steps=tuple(replace(step, trained=i > 0) for i, step in enumerate(episodes[0].steps))
    )
    form = WordForm(tokenizer())
    ((ids, keep),) = examples(episode, form)
    written = mask.trained_words(form.text(ids).split())
    assert sum(written) - sum(keep) == len(form.step_ids(episode.steps[0]))
