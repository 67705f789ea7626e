"""The study of early experience at smoke size, its tasks, claims and charts."""

from __future__ import annotations

import math
import random
import re
from dataclasses import asdict, replace

import pandas as pd
import pytest

from labkit.agents.early import expert_episodes
from labkit.agents.evaluation import INSIDE
from labkit.agents.experience import branch_off, leaked_tasks
from labkit.envs.craft.env import CraftWorld
from labkit.envs.phone.env import PhoneWorld
from labkit.studies.early_experience import CLAIMS, FIGURES, STUDY
from labkit.studies.early_experience.arms import EARLY, IMITATION, IWM, LONG, MAIN, WORLDS, arm, arms
from labkit.studies.early_experience.claims import OUTSIDE, at_end
from labkit.studies.early_experience.run import (
    RLStage,
    draw_training_task,
    evaluation_sets,
    unseen_triples,
)
from labkit.studies.early_experience.run import (
    run as run_arm,
)
from labkit.study import RunContext, run

SMOKE = [arm(world, method) for world in WORLDS for method in MAIN]


@pytest.fixture(scope="module")
def frame():
    return run(STUDY, "smoke", seeds=1, arms=SMOKE)


def test_the_pipeline_runs_at_smoke_size_on_every_set(frame) -> None:
    assert set(frame["arm"]) == set(SMOKE)
    for world in WORLDS:
        for method in MAIN:
            rows = frame[frame["arm"] == arm(world, method)]
            assert rows["set"].tolist() == [INSIDE, *OUTSIDE[world]]
            assert (rows["step"] == 2).all() and (rows["tokens"] > 0).all()
            assert rows["predicted"].between(0, 1).all()
            assert rows["predicted before imitation"].notna().all() == (method == IWM)


def test_rl_goes_on_from_what_was_learned_and_is_measured_where_asked(tmp_path) -> None:
    config = arms("smoke")[arm("phone", IMITATION)]
    algorithm = replace(RLStage(1, 2).algorithm, prompts_per_step=1, group_size=2)
    config = replace(config, rl=RLStage(2, 2, algorithm=algorithm, evaluate_at=(1,)), most=3)
    context = RunContext(0, tmp_path, lambda share: None)
    rows = pd.DataFrame(run_arm(config, context))
    sets = len(evaluation_sets(config))
    assert rows["stage"].tolist() == ["experts"] * sets + ["rl"] * (2 * sets)
    assert rows["step"].tolist() == [2] * sets + [1] * sets + [2] * sets
    # All is kept: a second call trains nothing, and tells the same.
    assert pd.DataFrame(run_arm(config, context)).equals(rows)


@pytest.mark.parametrize("world", ["phone", "craft"])
def test_what_is_trained_on_and_predicted_is_not_what_is_measured(world) -> None:
    config = arms("full")[arm(WORLDS[0], IMITATION)]
    config = replace(config, early=replace(config.early, world=world))
    rng = random.Random(0)
    trained = {draw_training_task(world, rng) for _ in range(300)}
    assert len(trained) > 50
    make = {"phone": PhoneWorld, "craft": CraftWorld}[world]
    for found in evaluation_sets(config):
        assert not trained & set(found.tasks)
        packed = [make.pack_task(task) for task in found.tasks]
        assert not {str(t.task) for t in unseen_triples(world, 5)} & {str(task) for task in packed}


def test_arms_differ_from_those_of_their_world_in_what_they_are_named_for() -> None:
    for world in WORLDS:
        base = asdict(EARLY[world])
        for name, config in arms("full").items():
            if not name.startswith(world):
                continue
            changed = {key: value for key, value in asdict(config.early).items() if value != base[key]}
            expected = _named(name.removeprefix(f"{world}-"), EARLY[world])
            assert changed == expected and config.split == "test", name


def _named(name: str, base) -> dict[str, object]:
    """Fields that a name says, read by hand."""
    if name == LONG:
        return {"updates": base.updates + base.world_model_updates}
    if name == "iwm-kept":
        return {"method": "iwm", "world_model_share": 0.5}
    method, _, change = name.partition("-")
    said = {} if method == "imitation" else {"method": method}
    if re.fullmatch(r"k\d+", change):
        return said | {"k": int(change[1:])}
    if re.fullmatch(r"1of\d+", change):
        return said | {"demonstrations": base.demonstrations // int(change[3:])}
    return {} if name == "imitation" else {"method": name}


def _invented(success: dict[str, float]) -> pd.DataFrame:
    """A frame in which each arm reaches what is given, or 0.5; half of it outside."""
    rows = []
    for name in arms("full"):
        before = 0.9 if IWM in name else math.nan
        for seed in range(3):
            for found in (INSIDE, *OUTSIDE[name.split("-")[0]]):
                share = success.get(name, 0.5) * (1 if found == INSIDE else 0.5) - 0.01 * seed
                rows.append(
                    {"arm": name, "seed": seed, "set": found, "episodes": 10, "stage": "experts", "step": 300,
                     "success": share, "predicted": 0.1, "predicted before imitation": before}
                )  # fmt: skip
    return pd.DataFrame(rows)


def test_the_end_of_a_run_is_that_of_rl_where_there_was_any() -> None:
    rows = pd.DataFrame(
        [
            {"arm": "a", "seed": 0, "stage": "experts", "step": 300, "success": 0.1},
            {"arm": "a", "seed": 0, "stage": "rl", "step": 20, "success": 0.2},
            {"arm": "a", "seed": 0, "stage": "rl", "step": 40, "success": 0.3},
            {"arm": "b", "seed": 0, "stage": "experts", "step": 300, "success": 0.4},
        ]
    )
    assert at_end(rows)["success"].tolist() == [0.3, 0.4]


def test_each_claim_moves_with_its_better_arm_alone() -> None:
    for claim in CLAIMS:
        better = claim.arms[0]
        outside = claim.id.endswith("outside")
        assert claim.differences(_invented({better: 0.7})) == pytest.approx([0.1 if outside else 0.2] * 3), (
            claim.id
        )
        assert claim.differences(_invented({})) == pytest.approx([0.0] * 3), claim.id


@pytest.mark.parametrize("draw", [draw for draw, _ in FIGURES], ids=lambda draw: draw.__name__)
def test_charts_draw_what_they_are_given(draw) -> None:
    figure, table = draw(_invented({}))
    assert len(table) and table["mean"].between(0.2, 0.65).all()
    assert all(ax.get_ylabel() or ax.get_title() for ax in figure.axes)


def test_no_task_that_is_measured_leaks_into_the_triples() -> None:
    config = arms("full")[arm(WORLDS[0], IMITATION)]
    held_back = [
        (found.world.id, found.world.pack_task(task))
        for found in evaluation_sets(config)
        for task in found.tasks
    ]
    shown = expert_episodes(config.early, 0)
    assert held_back and leaked_tasks(branch_off(shown, 2, 0), held_back) == 0
