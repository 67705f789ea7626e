"""The study of the ReAct loop at smoke size, its sets of tasks, claims and charts."""

from __future__ import annotations

import json
from dataclasses import asdict

import pandas as pd
import pytest
import torch

from labkit.agents.base import ReactBaseConfig, base_folder
from labkit.agents.cloning import phone_tasks
from labkit.agents.evaluation import BUDGETS, summary
from labkit.agents.policies import NoisyExpert
from labkit.agents.react import FAILURES
from labkit.envs.phone.goals import load_tasks
from labkit.envs.phone.planner import needs_history
from labkit.studies.episodes import success
from labkit.studies.react import CLAIMS, STUDY
from labkit.studies.react.agent import load_agent, make_agent
from labkit.studies.react.arms import BOTH, CHANGES, CLONING, EXPERT, FIXED, NONE, RANDOM, arms
from labkit.studies.react.claims import ALIASED, HELD_OUT, UNALIASED
from labkit.studies.react.evaluate import evaluation_sets
from labkit.studies.react.figures import FIGURES
from labkit.studies.react.run import clone
from labkit.study import run

ARMS = (BOTH, NONE, EXPERT, RANDOM)


@pytest.fixture(scope="module")
def frame():
    return run(STUDY, "smoke", seeds=1, arms=ARMS)


def test_the_pipeline_runs_at_smoke_size_on_every_set(frame) -> None:
    sets = [found.name for found in evaluation_sets("test", 2)]
    assert set(frame["arm"]) == set(ARMS) and len(sets) == 3
    for _, rows in frame.groupby("arm"):
        assert rows["set"].tolist() == sets
    learned = frame[frame["arm"] == BOTH]
    assert (learned["step"] == 2).all() and (learned["tokens"] > 0).all()


def test_the_expert_always_succeeds_and_never_fails(frame) -> None:
    rows = frame[frame["arm"] == EXPERT]
    assert (rows["success"] == 1).all()
    assert (rows[[f"failure {kind}" for kind in FAILURES]] == 0).all(axis=None)


def test_arms_differ_from_the_full_one_in_what_they_are_named_for() -> None:
    full = arms("full")
    for name, changes in CHANGES.items():
        expected = {**CLONING.__dict__, **changes}
        assert full[name].cloning.__dict__ == expected
    assert {name: full[name].noise for name in FIXED} == dict(FIXED)


def test_sets_are_what_their_names_say() -> None:
    sets = {found.name: found for found in evaluation_sets("test", 60)}
    assert all(needs_history(t.layout, t.goal) for t in sets[ALIASED].tasks)
    assert not any(needs_history(t.layout, t.goal) for t in sets[UNALIASED].tasks)
    assert set(sets[ALIASED].tasks) | set(sets[UNALIASED].tasks) == set(phone_tasks("test"))
    assert not set(sets[HELD_OUT].tasks) & set(load_tasks("known_phone"))
    validation = {t for found in evaluation_sets("validation", 60) for t in found.tasks}
    assert not validation & {t for found in sets.values() for t in found.tasks}


@pytest.mark.parametrize("name", [found.name for found in evaluation_sets("test", 60)])
def test_every_task_can_be_solved_within_its_budget(name) -> None:
    found = next(f for f in evaluation_sets("test", 60) if f.name == name)
    assert summary(found.play(NoisyExpert(0.0)))["success"] == 1


def test_success_by_budget_rises_to_success_and_failures_are_shares() -> None:
    row = summary(evaluation_sets("validation", 20)[0].play(NoisyExpert(0.3), seed=3))
    curve = [row[f"within {budget}"] for budget in BUDGETS]
    assert curve == sorted(curve) and curve[-1] == row["success"] < 1
    assert row["failure budget"] == pytest.approx(1 - row["success"])
    assert all(0 <= row[f"failure {kind}"] <= 1 for kind in FAILURES)


def test_success_over_sets_counts_episodes_and_not_sets() -> None:
    frame = pd.DataFrame(
        {
            "arm": "a",
            "seed": [0, 0, 1, 1],
            "set": ["x", "y"] * 2,
            "success": [1.0, 0.0, 0.5, 0.5],
            "episodes": [30, 10, 30, 10],
        }
    )
    assert success(frame, "a", ["x", "y"]) == {0: 0.75, 1: 0.5}
    assert success(frame, "a", ["y"]) == {0: 0.0, 1: 0.5}
    with pytest.raises(ValueError, match="arm 'b' has no rows of x"):
        success(frame, "b", ["x"])


def _invented(gaps: dict[str, float]) -> pd.DataFrame:
    """A frame in which each arm reaches 0.9 less its gap, on all sets."""
    rows = []
    for arm in (*CHANGES, *FIXED):
        for seed in range(3):
            for found in evaluation_sets("test", 2):
                share = 0.9 - gaps.get(arm, 0.0) * (2 if found.name == ALIASED else 1) - 0.01 * seed
                metrics = {f"failure {kind}": 0.1 for kind in FAILURES} | {
                    f"within {budget}": share * min(1, budget / 12) for budget in BUDGETS
                }
                rows.append(
                    {"arm": arm, "seed": seed, "set": found.name, "episodes": 10, "success": share, **metrics}
                )
    return pd.DataFrame(rows)


def test_claims_measure_what_they_say() -> None:
    frame = _invented({arm: 0.1 for arm in CHANGES if arm != BOTH})
    expected = {"history-matters-more-where-aliased": 0.1, "thinking-and-acting-beats-acting": 0.15,
                "thinking-and-acting-beats-thinking": 0.15}  # fmt: skip
    for claim in CLAIMS:
        gap = expected.get(claim.id.removeprefix("react/"), 0.2)
        assert claim.differences(frame) == pytest.approx([gap] * 3), claim.id


@pytest.mark.parametrize("draw", [draw for draw, _ in FIGURES], ids=lambda draw: draw.__name__)
def test_charts_draw_what_they_are_given(draw) -> None:
    figure, table = draw(_invented({}))
    assert len(table) and table["mean"].between(0, 0.91).all()
    assert all(ax.get_ylabel() or ax.get_title() for ax in figure.axes)


def test_an_agent_is_made_and_found_again(tmp_path, monkeypatch) -> None:
    make_agent("smoke", tmp_path)
    monkeypatch.setattr("labkit.studies.react.agent.agent_folder", lambda: tmp_path)
    found = load_agent("again").model.state_dict()
    _, policy = clone(arms("smoke")[BOTH].cloning, seed=0)
    made = policy.model.state_dict()
    assert found.keys() == made.keys() and all(torch.equal(found[name], made[name]) for name in made)


@pytest.mark.parametrize(
    ("path", "config"),
    [("agent/agent.json", arms("full")[BOTH].cloning), ("base-reading/base.json", ReactBaseConfig())],
)
def test_committed_models_are_of_the_present_settings(path, config) -> None:
    record = json.loads((base_folder().parent / path).read_text())
    assert record["config"] == json.loads(json.dumps(asdict(config)))
    assert record["parameters"] < 1e6 and len(record["loss"]) > 100
