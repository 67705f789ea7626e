"""The 24-point study: its pipeline at smoke size, and what its committed data must be."""

from __future__ import annotations

import math

import pytest

from labkit.envs.points24.data import multiset, split_hands
from labkit.envs.points24.rules import FACES_AS_RANK, FACES_AS_TEN, has_face
from labkit.studies.points24 import CLAIMS, STUDY
from labkit.studies.points24.evaluate import evaluation_sets
from labkit.studies.points24.run import RunConfig, SFTStage, training_hands
from labkit.study import run, run_one

ARMS = ("sft-0.0003", "grpo", "sft-short-grpo", "grpo-turns3", "sft-varied")


@pytest.fixture(scope="module")
def frame():
    return run(STUDY, "smoke", seeds=1, arms=ARMS)


def test_the_pipeline_runs_at_smoke_size(frame) -> None:
    assert set(frame["arm"]) == set(ARMS)
    assert (frame["step"] == 0).sum() == len(ARMS)
    shares = frame.filter(regex="(accuracy|reading|outcome_)")
    assert ((shares >= 0) & (shares <= 1)).all().all()


def test_outcomes_are_shares_of_all_responses(frame) -> None:
    for side in ("id", "ood"):
        total = frame.filter(regex=f"^{side}_outcome_").sum(axis=1)
        assert total.round(6).eq(1).all()


def test_the_base_is_at_no_distance_from_itself_and_arms_start_equal(frame) -> None:
    start = frame[frame["step"] == 0]
    assert start["id_kl"].abs().max() < 1e-6
    assert start["ood_accuracy"].nunique() == 1


def test_compute_grows_and_counts_both_stages(frame) -> None:
    rows = frame[frame["arm"] == "sft-short-grpo"].sort_values("step")
    assert list(rows["stage"])[0] == 0 and list(rows["stage"])[-1] == 1
    assert rows["compute"].is_monotonic_increasing


def test_the_same_seed_gives_the_same_rows_and_another_seed_others() -> None:
    config = STUDY.arms("smoke")["sft-0.0003"]
    one, again, other = (run_one(STUDY, "sft-0.0003", config, seed) for seed in (0, 0, 1))
    assert one == again
    assert one[-1]["loss"] != other[-1]["loss"]


@pytest.mark.parametrize("rules", [(FACES_AS_TEN, FACES_AS_RANK), (FACES_AS_RANK, FACES_AS_TEN)])
@pytest.mark.parametrize("split", ["validation", "test"])
def test_evaluation_hands_are_held_out_and_differ_in_the_rule_alone(rules, split) -> None:
    inside, outside = evaluation_sets(split, *rules, max_hands=1000)
    train = set(split_hands().train)
    shown = {multiset(h, rules[0]) for h in train}
    assert not train & {*inside.hands, *outside.hands}
    assert all(has_face(h) for h in (*inside.hands, *outside.hands))
    assert not any(multiset(h, rules[1]) in shown for h in outside.hands)


def test_measuring_on_training_hands_is_refused() -> None:
    with pytest.raises(ValueError, match="training hands"):
        evaluation_sets("train", FACES_AS_TEN, FACES_AS_RANK, 10)


def test_asking_for_more_hands_than_there_are_is_refused() -> None:
    config = RunConfig(FACES_AS_TEN, FACES_AS_RANK, (SFTStage(1, 1e-3),), ())
    with pytest.raises(ValueError, match="can be solved"):
        training_hands(config, 10_000)


def test_claims_are_measurable_and_say_what_would_matter() -> None:
    assert len(CLAIMS) >= 6
    assert all(c.smallest > 0 and math.isfinite(c.smallest) and c.paper for c in CLAIMS)
