"""ScienceWorld and TextWorldExpress: what is recorded is what they do; one Java process; ends and clones."""

import json
import weakref

import pytest

from labkit.envs import SCIENCE_WORLD_ID, TEXT_WORLD_EXPRESS_ID
from labkit.envs.java import HOW_TO_GET, shared_server, why_missing
from labkit.envs.recorded import load_episodes, record
from labkit.envs.scienceworld import TOPICS, ScienceWorld, ScienceWorldTask
from labkit.envs.textworld_express import FOLDS, GAMES, WALKS, TextWorldExpress, TextWorldExpressTask

RECORDED = {"scienceworld": ScienceWorld, "textworld_express": TextWorldExpress}


def running(world):
    """A world of a kind, its Java kept for all tests of this file; skips where the extra is missing."""
    if reason := why_missing(world.package):
        pytest.skip(reason)
    server = shared_server(world.package, world.interface)
    yield world
    server.close()


@pytest.fixture(scope="module")
def science():
    yield from running(ScienceWorld)


@pytest.fixture(scope="module")
def express():
    yield from running(TextWorldExpress)


@pytest.mark.parametrize("name", RECORDED)
def test_recorded_episodes_can_be_read_without_java(name):
    episodes = load_episodes(name)
    ids = {"scienceworld": SCIENCE_WORLD_ID, "textworld_express": TEXT_WORLD_EXPRESS_ID}
    assert len(episodes) >= 4
    for episode in episodes:
        assert episode.world == ids[name] and episode.goal and episode.steps[0].observation
        assert episode.success and episode.terminated and not episode.truncated
        assert episode.reward > 0.5
        assert all(1 <= len(step.choices) <= 13 for step in episode.steps)
        assert RECORDED[name].unpack_task(episode.task)


def test_every_game_is_recorded():
    assert {episode.task["game"] for episode in load_episodes("textworld_express")} == set(GAMES)


def test_recordings_that_there_are_not_are_named():
    with pytest.raises(ValueError, match="'phone'; there are some of scienceworld, textworld_express"):
        load_episodes("phone")


@pytest.mark.parametrize("world", RECORDED.values())
def test_without_the_extra_one_line_says_how_to_get_it(world, monkeypatch):
    monkeypatch.setattr("labkit.envs.java.importlib.util.find_spec", lambda name: None)
    monkeypatch.setattr("labkit.envs.java._servers", {})
    reason = why_missing(world.package)
    assert HOW_TO_GET in reason and "\n" not in reason
    with pytest.raises(ModuleNotFoundError) as raised:
        world()
    assert str(raised.value) == reason


@pytest.mark.parametrize("name", RECORDED)
def test_the_recorded_episodes_are_what_happens_now(name, request, tmp_path):
    # In another process and perhaps on another machine than the recording: word for word the same.
    cls = request.getfixturevalue("science" if name == "scienceworld" else "express")
    episodes = load_episodes(name)
    world = cls("train")
    for episode in episodes:
        first = world.reset(options={"task": world.unpack_task(episode.task)})
        assert first == (episode.observation(1), {"goal": episode.goal, "steps_left": 100})
        for t, step in enumerate(episode.steps, 1):
            assert set(step.choices) <= set(world.admissible_actions())
            observation, reward, terminated, truncated, info = world.step(step.action)
            assert observation == episode.observation(t + 1) and info["admissible"] and not truncated
            assert terminated == (t == len(episode.steps))
            assert reward == pytest.approx(step.reward, abs=1e-6)
    # The expert's choices as well, except where the simulator searches at random.
    again = [e for e in episodes if e.task.get("game") not in WALKS][:3]
    assert [record(world, world.unpack_task(e.task)) for e in again] == again
    world.close()


def test_worlds_share_one_java_process_which_ends_with_the_last(express):
    shared = shared_server(express.package, express.interface)
    one, two = express(), express("dev")
    assert one.server is two.server is shared
    one.reset(seed=0)
    one.close()
    two.reset(seed=0)
    with pytest.raises(RuntimeError, match="closed; make a new one"):
        one.reset(seed=0)
    two.close()


def test_java_ends_when_its_last_world_is_closed(monkeypatch):
    if reason := why_missing(TextWorldExpress.package):
        pytest.skip(reason)
    monkeypatch.setattr("labkit.envs.java._servers", weakref.WeakValueDictionary())
    world = TextWorldExpress()
    process = world.server._gateway.java_process
    assert process.poll() is None
    world.reset(seed=0)
    twin = world.clone()
    world.close()
    assert process.poll() is None
    twin.close()
    assert process.wait(timeout=10) is not None


def test_the_expert_keeps_to_the_gold_path_through_refusals_and_not_after_other_actions(express):
    world = express()
    world.reset(options={"task": TextWorldExpressTask("mapreader", 0)})
    first = world.expert_action()
    world.step("dance")
    assert world.expert_action() == first is not None
    world.step(next(action for action in world.admissible_actions() if action != first))
    assert world.expert_action() is None
    world.close()


def test_a_clone_is_replayed_from_its_task_and_actions(express):
    world = express()
    world.reset(options={"task": TextWorldExpressTask("coin", 0)})
    for _ in range(3):
        world.step(world.expert_action())
    twin = world.clone()
    assert twin.state == world.state and len(world.state[1]) == 3
    # The parent goes on before the clone is used for the first time.
    action = world.expert_action()
    first = world.step(action)
    assert world.state != twin.state and twin.step(action) == first
    assert twin.state == world.state
    world.close()
    twin.close()


def test_a_failure_ends_the_episode_with_a_negative_score(express, science):
    world = express()
    world.reset(options={"task": TextWorldExpressTask("simonsays", 0)})
    wrong = next(a for a in world.admissible_actions() if a != world.expert_action())
    _, reward, terminated, truncated, _ = world.step(wrong)
    assert (reward, terminated, truncated) == (-1, True, False)
    world.close()
    world = science()
    world.reset(options={"task": ScienceWorldTask("find-living-thing", 3)})
    assert "focus on axe" in world.admissible_actions()
    _, reward, terminated, truncated, _ = world.step("focus on axe")
    assert reward < -1 and terminated and not truncated
    world.close()


def test_where_scienceworld_asks_which_thing_was_meant_only_the_numbers_are_admissible(science):
    world = science()
    world.reset(options={"task": ScienceWorldTask("find-living-thing", 5)})
    world.step("go to door")
    observation, *_, info = world.step("focus on door")
    assert observation.startswith("Ambiguous request") and info["admissible"]
    choices = world.admissible_actions()
    assert choices == tuple(map(str, range(len(choices)))) and len(choices) > 1
    twin = world.clone()
    observation, *_, info = world.step("look around")
    assert observation == "Please enter one of the numbers." and not info["admissible"]
    assert world.admissible_actions() == twin.admissible_actions() == choices
    one, two = world.step("1"), twin.step("1")
    assert one[:4] == two[:4] and one[4]["admissible"] and one[0].startswith("You focus on")
    world.close()
    twin.close()


def test_thermometers_read_the_same_in_two_simulators_of_a_process(science):
    # With Java's usual hashes they differ by a degree from run to run.
    world = science()
    world.reset(options={"task": ScienceWorldTask("use-thermometer", 5)})
    twin = world.clone()
    seen = []
    while (action := world.expert_action()) is not None:
        seen.append((world.step(action)[0], twin.step(action)[0]))
    assert world.is_over and all(one == two for one, two in seen)
    assert any("degrees celsius" in one for one, _ in seen)
    world.close()
    twin.close()


def test_the_folds_are_the_simulators(science, express):
    simulator = shared_server(express.package, express.interface).simulator()
    simulator.load("coin", "")
    for fold, seeds in FOLDS.items():
        assert json.loads(getattr(simulator, f"getSeeds{fold.capitalize()}")().toString()) == list(seeds)
        assert TextWorldExpressTask("coin", seeds[0]).fold == fold
    with pytest.raises(ValueError, match="seed 5000 is in no fold"):
        _ = TextWorldExpressTask("coin", 5000).fold
    world = science()
    train, dev, test = (set(world.variations("find-plant", fold)) for fold in ("train", "dev", "test"))
    assert not train & dev | train & test | dev & test and min(map(len, (train, dev, test))) >= 75
    with pytest.raises(ValueError, match="no variations of 'find-gold'"):
        world.variations("find-gold", "train")
    world.close()


def test_what_makes_no_sense_is_named(science, express):
    for make, said in [
        (lambda: science("valid"), "'valid' is not one of train, dev, test"),
        (lambda: science(topics=["find-gold"]), "unknown topics .'find-gold'.; the simulator has boil"),
        (lambda: science([]), "the list is empty"),
        (lambda: express("valid"), "'valid' is not one of train, dev, test"),
        (lambda: express(games=["sorting"]), "unknown games .'sorting'.; games are coin"),
        (lambda: express([]), "the list is empty"),
        (lambda: express(params="nonsense=1").reset(seed=0), "nonsense"),
        (lambda: express().reset(options={"task": "coin"}), "not 'coin'"),
    ]:
        with pytest.raises(ValueError, match=said):
            make()


@pytest.mark.slow
def test_scienceworlds_expert_solves_three_variations_of_each_topic_and_stands_500_resets(science):
    world = science()
    solved = []
    for topic in TOPICS:
        for variation in world.variations(topic, "train")[::25][:3]:
            world.reset(options={"task": ScienceWorldTask(topic, variation)})
            terminated = False
            while not world.is_over and (action := world.expert_action()) is not None:
                *_, terminated, _, _ = world.step(action)
            solved.append(terminated and world.render().endswith("Score: 1.00"))
    assert len(solved) >= 3 * len(TOPICS) - 3 and all(solved)
    task = ScienceWorldTask("lifespan-shortest-lived", 0)
    first = world.reset(options={"task": task}), world.admissible_actions()
    for _ in range(500):
        world.reset(options={"task": task})
    assert (world.reset(options={"task": task}), world.admissible_actions()) == first
    world.close()
