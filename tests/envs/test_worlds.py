"""What every world promises, asked of each. A world is added by a line in WORLDS."""

import json
import os
import subprocess
import sys
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import gymnasium
import pytest
from gymnasium.utils.env_checker import check_env

import labkit.envs
from labkit.envs import textcraft
from labkit.envs.craft.tasks import draw_task
from labkit.envs.java import shared_server, why_missing
from labkit.envs.scienceworld import TOPICS, ScienceWorld, ScienceWorldTask
from labkit.envs.textworld_express import FOLDS, GAMES, TextWorldExpress, TextWorldExpressTask
from labkit.files import repo_root
from tests.envs.walks import digest, make, walk


@dataclass(frozen=True)
class Case:
    """One world as the tests play it."""

    id: str
    """Its id with gymnasium."""
    options: dict[str, Any] = field(default_factory=dict)
    """Arguments of `gymnasium.make`; JSON, so that another process can be given them."""
    steps: int = 60
    """Length of the random walks: fewer for slow worlds."""
    resets: int = 500
    """How many resets it must stand."""
    tasks: Callable[[Any], Sequence[Any]] = lambda env: env.tasks
    """The tasks that its expert claims to solve, given the environment."""
    listed: bool = True
    """Whether the expert's action is always among `admissible_actions`."""
    java: type[Any] | None = None
    """The world's class, if it runs in Java."""

    @property
    def skip(self):
        """Why it cannot be tested here; "" if it can."""
        return why_missing(self.java.package) if self.java else ""

    def make(self, **more):
        return make(self.id, **{**self.options, **more})


def _known(name):
    """Tasks of a split of PhoneWorld, all of the known phone's and some of many phones'."""
    return Case(
        labkit.envs.PHONE_WORLD_ID,
        {"tasks": name},
        tasks=lambda env: env.tasks if len(env.tasks) < 500 else env.tasks[:: len(env.tasks) // 100],
    )


def _craft(split):
    """CraftWorld has no end of tasks; some of a split."""
    return Case(
        labkit.envs.CRAFT_WORLD_ID,
        {"tasks": split},
        tasks=lambda env: [draw_task(split, seed) for seed in range(100)],
    )


WORLDS = {
    "phone": _known("known_phone"),
    "phone, held-out goals": _known("held_out_goals"),
    "phone, held-out phones": _known("held_out_phones"),
    "craft": _craft("train"),
    "craft, deeper": _craft("deeper"),
    "craft, more distractors": _craft("more_distractors"),
    "textcraft": Case(
        labkit.envs.TEXT_CRAFT_ID,
        tasks=lambda env: [textcraft.make_task(target) for target in textcraft.targets()[::4]],
    ),
    "scienceworld": Case(
        labkit.envs.SCIENCE_WORLD_ID,
        steps=10,
        resets=20,
        tasks=lambda env: [ScienceWorldTask(topic, env.variations(topic, "dev")[1]) for topic in TOPICS],
        listed=False,
        java=ScienceWorld,
    ),
    "textworld express": Case(
        labkit.envs.TEXT_WORLD_EXPRESS_ID,
        steps=30,
        tasks=lambda env: [
            TextWorldExpressTask(game, seeds[7]) for game in GAMES for seeds in FOLDS.values()
        ],
        java=TextWorldExpress,
    ),
}


# One world after another, so that Java is started once for each that runs in it.
@pytest.fixture(params=WORLDS, scope="module")
def case(request):
    case = WORLDS[request.param]
    if case.skip:
        pytest.skip(case.skip)
    server = shared_server(case.java.package, case.java.interface) if case.java else None
    yield case
    if server is not None:
        server.close()


@pytest.fixture
def env(case):
    env = case.make()
    yield env
    env.close()


def after(env, actions):
    """What the steps return, up to the end of the episode."""
    seen = []
    for action in actions:
        seen.append(env.step(action))
        if env.is_over:
            break
    return seen


def test_gymnasiums_check_passes_without_a_warning(case):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        check_env(case.make())


def test_each_admissible_action_can_be_done_and_leaves_the_parent_alone(case, env):
    # Pitfall 27: a clone that shares state with its parent.
    env.reset(seed=1)
    for step in range(max(2, case.steps // 6)):
        here, choices = env.render(), env.admissible_actions()
        assert len(set(choices)) == len(choices) > 0
        for action in choices[:20]:
            child = env.clone()
            observation, _, _, _, info = child.step(action)
            assert info["admissible"], action
            assert observation in env.observation_space and action in env.action_space
        assert (env.render(), env.admissible_actions()) == (here, choices)
        env.step(choices[step % len(choices)])
        if env.is_over:
            env.reset()


def test_a_clone_goes_the_same_way_as_its_parent(case, env):
    met = walk(env, 2, case.steps // 2, resets=False)
    actions = [entry[0] for entry in met if len(entry) == 6]
    env.reset(seed=2)
    after(env, actions[: len(actions) // 2])
    child = env.clone()
    first = after(child, actions[len(actions) // 2 :])
    # The clone has ended or moved on; the parent takes the same steps and meets the same.
    assert first == after(env, actions[len(actions) // 2 :])
    assert (child.render(), child.is_over) == (env.render(), env.is_over)


def test_a_clone_that_is_reset_leaves_its_parents_draws_alone(case):
    def draws(clone_resets):
        env = case.make()
        env.reset(seed=3)
        child = env.clone()
        for _ in range(clone_resets):
            child.reset()
        goals = [env.reset()[1]["goal"] for _ in range(3)]
        env.close()
        return goals

    assert draws(0) == draws(2)


def test_a_clone_and_its_parent_draw_the_same_tasks_each_by_itself(env):
    env.reset(seed=4)
    child = env.clone()
    # In turns: a generator that both used would deal the tasks out between them.
    pairs = [(env.reset(), child.reset()) for _ in range(4)]
    assert all(one == other for one, other in pairs)


def test_replays_are_equal_in_processes_with_different_hash_seeds(case):
    command = [sys.executable, "-m", "tests.envs.walks", case.id, "5", str(case.steps)]
    found = {
        subprocess.run(
            [*command, json.dumps(case.options)],
            env={**os.environ, "PYTHONHASHSEED": seed},
            cwd=repo_root(),
            check=True,
            capture_output=True,
            text=True,
        ).stdout
        for seed in ("1", "2")
    }
    env = case.make()
    assert found == {digest(walk(env, 5, case.steps)) + "\n"}
    env.close()


def test_many_resets_change_nothing(case, env):
    fresh = walk(env, 6, case.steps // 2)
    for _ in range(case.resets):
        env.reset()
    assert walk(env, 6, case.steps // 2) == fresh


def test_the_same_seed_draws_the_same_tasks_and_another_seed_others(env):
    # Pitfall 42.
    def goals(seed):
        return [env.reset(seed=seed if i == 0 else None) for i in range(8)]

    assert goals(1) == goals(1) != goals(2)


def test_an_inadmissible_action_is_answered_costs_a_step_and_changes_nothing_else(env):
    _, info = env.reset(seed=7)
    here, choices = env.render(), env.admissible_actions()
    observation, reward, terminated, truncated, after_info = env.step("dance with the moon")
    assert not after_info["admissible"] and after_info["steps_left"] == info["steps_left"] - 1
    assert observation.strip() and reward <= 0 and not terminated and not truncated
    assert (env.render(), env.admissible_actions()) == (here, choices)


def test_a_used_up_budget_truncates_and_does_not_terminate(case):
    # Pitfall 18: the two ends are told apart.
    env = case.make(max_steps=3)
    env.reset(seed=8)
    steps = [env.step("dance with the moon") for _ in range(3)]
    assert [step[2:4] for step in steps] == [(False, False), (False, False), (False, True)]
    assert [step[4]["steps_left"] for step in steps] == [2, 1, 0]
    with pytest.raises(RuntimeError, match=r"steps are used up.*reset\(\)"):
        env.step("dance")
    env.close()


def test_the_goal_reached_with_the_last_action_terminates_and_does_not_truncate(case, env):
    task = case.tasks(env)[0]
    env.reset(options={"task": task})
    plan = []
    while not env.is_over:
        plan.append(env.expert_action())
        env.step(plan[-1])
    short = case.make(max_steps=len(plan))
    short.reset(options={"task": task})
    assert after(short, plan)[-1][2:4] == (True, False)
    assert short.expert_action() is None
    with pytest.raises(RuntimeError, match="it is finished"):
        short.step(plan[-1])
    short.close()


def test_the_expert_solves_what_it_claims(case, env):
    solved = []
    tasks = case.tasks(env)
    for task in tasks:
        env.reset(options={"task": task})
        terminated = truncated = False
        while not (terminated or truncated) and (action := env.expert_action()) is not None:
            assert not case.listed or action in env.admissible_actions()
            _, reward, terminated, truncated, info = env.step(action)
            assert info["admissible"]
        solved.append(terminated and reward > 0)
    assert sum(solved) >= 0.99 * len(tasks) and tasks


@pytest.mark.parametrize("action", [None, 3, b"back", ["back"]])
def test_an_action_that_is_no_text_is_refused(env, action):
    with pytest.raises(RuntimeError, match=r"has not begun.*reset\(\)"):
        env.step("back")
    _, info = env.reset(seed=9)
    with pytest.raises(TypeError, match=f"not {type(action).__name__}"):
        env.step(action)
    assert env.step("dance")[4]["steps_left"] == info["steps_left"] - 1


def test_settings_that_make_no_sense_are_named(case, env):
    with pytest.raises(ValueError, match="max_steps is 0"):
        case.make(max_steps=0)
    with pytest.raises(ValueError, match="'human' is not 'ansi'"):
        type(env)(render_mode="human")
    with pytest.raises(ValueError, match="reset knows 'task'"):
        env.reset(options={"tasks": 1})
    with pytest.raises(ValueError, match="task"):
        env.reset(options={"task": object()})


def test_importing_registers_by_name_and_loads_no_world():
    code = (
        "import sys, importlib, warnings; warnings.simplefilter('error');"
        "import labkit.envs, gymnasium; importlib.reload(labkit.envs);"
        "assert set(labkit.envs.ENTRY_POINTS) <= set(gymnasium.registry);"
        "loaded = {p.split(':')[0] for p in labkit.envs.ENTRY_POINTS.values()} & set(sys.modules);"
        "assert not loaded, loaded;"
        "gymnasium.make('labkit/PhoneWorld-v0');"
        "assert not {'torch', 'transformers', 'matplotlib'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True, cwd=repo_root())
    for id, entry_point in labkit.envs.ENTRY_POINTS.items():
        assert gymnasium.spec(id).entry_point == entry_point
