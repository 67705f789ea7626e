"""The study of fine-tuning on Unknown facts at smoke size: sets, measures, stops, claims and charts."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import asdict, replace

import numpy as np
import pandas as pd
import pytest
import torch

from labkit.knowledge.answering import AnswerConfig, answer_questions
from labkit.knowledge.categories import CATEGORIES, Category, Knowledge
from labkit.knowledge.facts import Fact, is_correct
from labkit.knowledge.prompts import DONT_KNOW
from labkit.knowledge.synthetic import FINE_TUNING_FORM, TwinConfig, draw_world
from labkit.studies.knowledge import CLAIMS, FIGURES, STUDY
from labkit.studies.knowledge.arms import (
    BASE,
    REFUSING,
    SHARES,
    SHUFFLED,
    SINGLES,
    TUNING,
    arms,
    filtered_arm,
    share_arm,
    single_arm,
)
from labkit.studies.knowledge.claims import answered_accuracy
from labkit.studies.knowledge.frames import CONVERGED, EARLY, at_stop, linear_fits, stop_row
from labkit.studies.knowledge.run import (
    NATURAL,
    BaseConfig,
    FineTuning,
    Measure,
    choose,
    fine_tune,
    taught_answers,
)
from labkit.studies.knowledge.tuning import TRIED
from labkit.studies.knowledge.tuning import arms as tuning_arms
from labkit.studies.knowledge.twin import (
    HELD_OUT_RELATION,
    PARTS,
    SMOKE_TWIN,
    TWIN,
    load_twin,
    make_twin,
    pretrain,
    split_world,
    twin_folder,
)
from labkit.study import run, run_one

ARMS = (BASE, share_arm(0), share_arm(50), filtered_arm(50), REFUSING, single_arm("Unknown"))
OUTCOMES = dict(
    zip(
        CATEGORIES,
        [((True,), (1,)), ((True, False), (0, 0)), ((False,), (1,)), ((False,), (0,))],
        strict=True,
    )
)


def made(**numbers: int) -> list[Knowledge]:
    """So many facts of each category, of two relations in turn."""
    return [
        Knowledge(
            Fact("rs"[i % 2], f"{name}{i}", "?", (f"{name} {i}",)), *OUTCOMES[Category[name]], samples=1
        )
        for name, number in numbers.items()
        for i in range(number)
    ]


FOUND = made(HIGHLY_KNOWN=9, MAYBE_KNOWN=8, WEAKLY_KNOWN=7, UNKNOWN=12)


@pytest.fixture(scope="module")
def frame() -> pd.DataFrame:
    return run(STUDY, "smoke", seeds=1, arms=ARMS)


@pytest.fixture(scope="module")
def twin(tmp_path_factory):
    return pretrain(SMOKE_TWIN, tmp_path_factory.mktemp("twin"))[:2]


def test_the_pipeline_runs_at_smoke_size_and_measures_every_epoch_from_the_start(frame) -> None:
    assert set(frame["arm"]) == set(ARMS)
    for arm, rows in frame[frame["arm"] != BASE].groupby("arm"):
        assert rows["step"].tolist() == [0, 1, 2, 3], arm
    shares = frame.filter(regex="^(train|fitted|validation|test|out-of)")
    assert (shares.isna() | shares.le(1) & shares.ge(0)).all(axis=None)


def test_arms_start_from_one_twin_and_end_apart(frame) -> None:
    rows = frame[frame["arm"] != BASE]
    assert rows[rows["step"] == 0]["test"].nunique() == 1
    assert rows[rows["step"] == 3]["loss"].nunique() == len(ARMS) - 1


def test_fitted_shares_add_up_to_the_training_accuracy(frame) -> None:
    rows = frame[frame["arm"] != BASE]
    assert (rows["fitted_known"] + rows["fitted_unknown"]).tolist() == pytest.approx(rows["train"].tolist())
    assert rows[rows["arm"] == share_arm(0)]["train_unknown"].isna().all()


def test_the_base_counts_every_fact_once_by_dose_and_once_asked_again(frame) -> None:
    rows = frame[frame["arm"] == BASE]
    facts = sum(map(len, split_world(draw_world(SMOKE_TWIN)).values()))
    assert rows.groupby("table")["facts"].sum().loc[["dose", "again"]].tolist() == [facts, facts]
    by_dose = rows[rows["table"] == "dose"].groupby("dose")["stated"].first()
    assert by_dose["never"] == 0 < by_dose["once"] < by_dose["often"]


def test_the_same_seed_gives_the_same_rows_and_another_seed_others() -> None:
    config = arms("smoke")[share_arm(50)]
    one, again, other = (run_one(STUDY, "x", config, seed) for seed in (0, 0, 1))
    assert str(one) == str(again)
    assert one[-1]["loss"] != other[-1]["loss"]


def test_parts_share_no_person_and_the_relation_kept_apart_is_in_its_own_part_alone() -> None:
    world = draw_world(TWIN)
    parts = split_world(world)
    people = {name: {fact.subject for fact in facts} for name, facts in parts.items()}
    assert tuple(parts) == PARTS
    assert not people["train"] & people["validation"]
    assert not (people["train"] | people["validation"]) & people["test"]
    assert people["out-of-distribution"] == people["test"]
    assert len(people["validation"]) == len(people["test"]) == 96
    for name, facts in parts.items():
        assert {f.relation == HELD_OUT_RELATION for f in facts} == {name == "out-of-distribution"}
    shown = {fact.subject for fact in world.exemplars}
    assert not shown & set.union(*people.values())


@pytest.mark.parametrize(
    ("tuning", "expected"),
    [
        (FineTuning(8, 0.25), {"Known": 6, "Unknown": 2}),
        (FineTuning(8, 0.25, known_only=True), {"Known": 6}),
        (FineTuning(7, category="MaybeKnown"), {"MaybeKnown": 7}),
        (FineTuning(36, category=NATURAL), {"Known": 24, "Unknown": 12}),
    ],
)
def test_chosen_facts_are_of_the_kinds_asked_for(tuning, expected) -> None:
    chosen = choose(FOUND, tuning, seed=0)
    exact = tuning.category in map(str, CATEGORIES)
    kinds = Counter(
        str(k.category) if exact else "Unknown" if k.category is Category.UNKNOWN else "Known" for k in chosen
    )
    assert kinds == expected and len({k.fact for k in chosen}) == len(chosen)


@pytest.mark.parametrize(
    ("category", "message"),
    [
        ("WeaklyKnown", "8 WeaklyKnown facts asked for, 7 there"),
        ("Weak", "category 'Weak'; accepted are HighlyKnown"),
    ],
)
def test_facts_that_are_not_there_are_refused(category, message) -> None:
    with pytest.raises(ValueError, match=message):
        choose(FOUND, FineTuning(8, category=category), seed=0)


def test_what_is_taught() -> None:
    chosen = choose(FOUND, FineTuning(20, 0.5), seed=0)
    true = [k.fact.answer for k in chosen]
    assert taught_answers(chosen, FineTuning(), 0) == true
    refusing = taught_answers(chosen, FineTuning(refuse_unknown=True), 0)
    for k, answer in zip(chosen, refusing, strict=True):
        assert answer == (DONT_KNOW if k.category is Category.UNKNOWN else k.fact.answer)
    dealt = taught_answers(chosen, FineTuning(shuffle_answers=True), 0)
    by_relation = [
        Counter((k.fact.relation, a) for k, a in zip(chosen, x, strict=True)) for x in (dealt, true)
    ]
    assert by_relation[0] == by_relation[1]
    assert sum(a == b for a, b in zip(dealt, true, strict=True)) < 6


def test_measured_answers_are_those_that_decoding_writes(twin) -> None:
    world, model = twin
    facts = split_world(world)["validation"]
    found = [Knowledge(fact, *OUTCOMES[CATEGORIES[i % 4]], samples=1) for i, fact in enumerate(facts)]
    taught = [k.fact.answer for k in found]
    row = Measure(world, found, taught, {"validation": found})(model)
    greedy = AnswerConfig(samples=0)
    answers = answer_questions(model, world.tokenizer, facts, (), greedy, FINE_TUNING_FORM, finish=True)
    right = np.array([is_correct(a.greedy, fact) for a, fact in zip(answers, facts, strict=True)])
    assert 0 < right.sum() < len(right)
    assert row["validation"] == pytest.approx(right.mean()) == pytest.approx(row["train"])
    for i, category in enumerate(CATEGORIES):
        assert row[f"validation_{category}"] == pytest.approx(right[i::4].mean())
    assert row["train_unknown"] == pytest.approx(right[3::4].mean())
    assert row["validation_answered"] == 1


def test_refusals_are_counted_when_a_model_has_learnt_to_refuse(twin) -> None:
    world, model = twin
    facts = split_world(world)["validation"]
    found = [Knowledge(fact, *OUTCOMES[Category.UNKNOWN], samples=1) for fact in facts]
    tuning = FineTuning(
        len(found), refuse_unknown=True, epochs=25, batch_size=16,
        optimizer=replace(TUNING.optimizer, learning_rate=3e-3),
    )  # fmt: skip
    before = {name: value.clone() for name, value in model.state_dict().items()}
    epochs = []
    fine_tune(world, model, found, tuning, 0, lambda epoch, state: epochs.append(epoch))
    row = Measure(world, found, [DONT_KNOW] * len(found), {"validation": found})(model)
    model.load_state_dict(before)
    assert epochs == list(range(26))
    assert row["train"] == 1 and row["validation_answered"] == 0 and row["validation"] == 0


def test_pretraining_goes_on_from_what_was_left(tmp_path, monkeypatch) -> None:
    config = replace(SMOKE_TWIN, steps=6)
    monkeypatch.setattr("labkit.studies.knowledge.twin.CHECKPOINT_EVERY", 2)
    whole = pretrain(config)[1].state_dict()

    def stop(share: float) -> None:
        if share > 0.5:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        pretrain(config, tmp_path, stop)
    done = []
    resumed = pretrain(config, tmp_path, done.append)[1].state_dict()
    assert min(done) > 0.5
    assert all(torch.equal(whole[name], resumed[name]) for name in whole)
    other = pretrain(replace(config, seed=1), tmp_path)[1].state_dict()
    assert not torch.equal(whole["model.norm.weight"], other["model.norm.weight"])


def _run(validation: list[float], **metrics: list[float]) -> pd.DataFrame:
    return pd.DataFrame({"step": range(len(validation)), "validation": validation, **metrics})


def test_the_early_stop_is_the_first_best_epoch_and_never_the_start() -> None:
    rows = _run([0.9, 0.3, 0.5, 0.5, 0.2])
    assert stop_row(rows, EARLY)["step"] == 2
    assert stop_row(rows.iloc[::-1], EARLY)["step"] == 2
    assert stop_row(rows, CONVERGED)["step"] == 4
    with pytest.raises(ValueError, match="stop 'late'"):
        stop_row(rows, "late")
    with pytest.raises(ValueError, match="1 measurements"):
        stop_row(rows.iloc[:1], EARLY)


def test_values_at_stops_and_accuracy_of_what_is_answered() -> None:
    first = _run([0, 0.6, 0.5], test=[0, 0.5, 0.3], test_answered=[1, 1, 0.6]).assign(seed=0)
    second = _run([0, 0.5, 0.6], test=[0, 0.4, 0.2], test_answered=[1, 1, 0]).assign(seed=1)
    frame = pd.concat([first, second]).assign(arm="a")
    assert at_stop(frame, "a", "test", EARLY) == {0: 0.5, 1: 0.2}
    accuracy = answered_accuracy(frame, "a", CONVERGED)
    assert accuracy[0] == pytest.approx(0.5) and np.isnan(accuracy[1])
    with pytest.raises(ValueError, match="'b' has no rows"):
        at_stop(frame, "b", "test", EARLY)


def test_arms_differ_in_what_they_are_named_for() -> None:
    full = arms("full")
    differing = {
        name: {f for f, v in vars(c.tuning).items() if v != vars(TUNING)[f]}
        for name, c in full.items()
        if not isinstance(c, BaseConfig)
    }
    assert differing[share_arm(50)] == set()
    assert differing[share_arm(25)] == {"unknown_share"}
    assert differing[filtered_arm(25)] == {"unknown_share", "known_only"}
    assert differing[filtered_arm(50)] == {"known_only"}
    assert differing[REFUSING] == {"refuse_unknown"} and differing[SHUFFLED] == {"shuffle_answers"}
    assert all(differing[single_arm(c)] == {"category", "size", "epochs"} for c in SINGLES)
    assert {p for p in SHARES if full[share_arm(p)].tuning.unknown_share * 100 == p} == set(SHARES)
    assert set(full) == set(arms("smoke")) == set(arms("workshop"))
    with pytest.raises(ValueError, match="profile 'tiny'"):
        arms("tiny")


def test_settings_were_chosen_on_validation_facts_and_are_among_those_tried() -> None:
    configs = tuning_arms("full")
    assert {config.parts for config in configs.values()} == {("validation",)}
    assert (TUNING.optimizer.learning_rate, TUNING.batch_size) in TRIED
    assert len(configs) == len(TRIED)


def _invented() -> pd.DataFrame:
    """Every arm for three seeds: what is lost grows with the epoch, the share of Unknown and the seed."""
    rows = []
    for number, (arm, config) in enumerate(arms("full").items()):
        for seed in range(3):
            if isinstance(config, BaseConfig):
                rows += _invented_base(arm, seed)
                continue
            tuning = config.tuning
            unknown = 1.0 if tuning.category == "Unknown" else tuning.unknown_share
            if tuning.known_only or tuning.category not in (None, "Unknown"):
                unknown = 0.0
            for step in (0, 1, 2, 5, 10, 30):
                known_fitted = (1 - unknown) * min(1, 0.5 + step / 4)
                unknown_fitted = 0 if tuning.shuffle_answers else unknown * step / 30
                test = 0.4 + 0.1 * known_fitted - (0.2 + 0.01 * seed) * unknown_fitted + 0.001 * number
                metrics = {
                    "fitted_known": known_fitted, "fitted_unknown": unknown_fitted,
                    "train_known": min(1, 0.5 + step / 4), "train_unknown": step / 30,
                    "validation": 0.5 - abs(step - 2) / 100, "test": test, "out-of-distribution": test / 2,
                    "test_answered": 0.5 if tuning.refuse_unknown else 1.0,
                }  # fmt: skip
                for i, category in enumerate(CATEGORIES):
                    metrics[f"test_{category}"] = test * (1 - i / 4)
                    metrics[f"test_answered_{category}"] = 1 - i / 4
                rows.append({"arm": arm, "seed": seed, "step": step, **metrics})
    return pd.DataFrame(rows)


def _invented_base(arm: str, seed: int) -> list[dict]:
    names = list(map(str, CATEGORIES))
    common = {"arm": arm, "seed": seed, "step": 0}
    rows = [
        {
            **common,
            "table": "dose",
            "dose": dose,
            "stated": stated,
            "category": name,
            "facts": 1 + (i == place),
        }
        for place, (dose, stated) in enumerate((("often", 100), ("seldom", 9), ("never", 0)))
        for i, name in enumerate(names)
    ]
    again = [
        {**common, "table": "again", "category": a, "second": b, "facts": 9 if a == b else 1 - (seed == 2)}
        for a in names
        for b in names
    ]
    return rows + again


@pytest.mark.parametrize("claim", CLAIMS, ids=lambda claim: claim.id)
def test_claims_measure_one_difference_a_seed_of_arms_that_exist(claim) -> None:
    assert len(claim.differences(_invented())) == 3
    assert set(claim.arms) <= set(arms("full")) and claim.paper and claim.smallest > 0


def test_claims_measure_what_they_say() -> None:
    frame, found = _invented(), {claim.id.removeprefix("knowledge/"): claim.differences for claim in CLAIMS}
    # At convergence all is fitted: 0 % has .1 more for Known and nothing for Unknown; names add .001 an arm.
    position = {arm: i for i, arm in enumerate(arms("full"))}
    offset = 0.001 * (position[share_arm(0)] - position[share_arm(100)])
    harm = [0.3 + 0.01 * seed + offset for seed in range(3)]
    assert found["more-unknown-is-worse"](frame) == pytest.approx(harm)
    # The early stop is epoch 2: 2/30 of the Unknown facts are fitted there.
    early = [0.1 + (0.2 + 0.01 * seed) * 2 / 30 + offset for seed in range(3)]
    expected = [late - soon for late, soon in zip(harm, early, strict=True)]
    assert found["harm-comes-with-convergence"](frame) == pytest.approx(expected)
    assert found["known-is-forgotten"](frame) == pytest.approx(harm)
    assert found["unknown-fitted-later"](frame) == pytest.approx([1 - 2 / 30] * 3)
    # Rise to the early stop: .025 for Known, less what the Unknown cost; the fall is larger.
    rise = [0.05 * 0.5 - (0.1 + 0.005 * seed) * 2 / 30 + 0.025 - 0.025 for seed in range(3)]
    assert found["peaks-then-falls"](frame) == pytest.approx(rise)
    assert found["linear-known-helps"](frame) == pytest.approx([0.1] * 3, abs=0.01)
    assert found["linear-unknown-harms"](frame) == pytest.approx([0.2, 0.21, 0.22], abs=0.01)
    assert found["linear-unknown-harms-outside"](frame) == pytest.approx([0.1, 0.105, 0.11], abs=0.005)
    assert found["refusing-knows-what-it-knows"](frame) == pytest.approx([0.75] * 3)


def test_a_fit_uses_the_checkpoints_after_the_start_alone() -> None:
    frame = _invented()
    spoilt = frame.assign(test=frame["test"].where(frame["step"] > 0, 0.0))
    names = tuple(map(share_arm, SHARES))
    assert linear_fits(frame, names, "test") == linear_fits(spoilt, names, "test")


@pytest.mark.parametrize("draw", [draw for draw, _ in FIGURES], ids=lambda draw: draw.__name__)
def test_every_figure_can_be_drawn(draw) -> None:
    figure, table = draw(_invented())
    assert len(table) and table["mean"].notna().all()
    assert all(ax.get_xlabel() or ax.get_title() or ax.get_ylabel() for ax in figure.axes)


def test_a_twin_is_made_and_found_again(tmp_path, monkeypatch) -> None:
    config = replace(SMOKE_TWIN, steps=3)
    make_twin(config, tmp_path)
    monkeypatch.setattr("labkit.studies.knowledge.twin.twin_folder", lambda: tmp_path)
    monkeypatch.setattr("labkit.studies.knowledge.twin.TWIN", config)
    world, model = load_twin()
    made_again = pretrain(config)[1].state_dict()
    assert world.facts == draw_world(config).facts
    assert all(torch.equal(value, made_again[name]) for name, value in model.state_dict().items())


def test_the_committed_twin_is_of_the_present_settings() -> None:
    record = json.loads((twin_folder() / "twin.json").read_text())
    assert record["config"] == json.loads(json.dumps(asdict(TWIN)))
    assert record["parameters"] < 1e6 and len(record["loss"]) == TWIN.steps
    assert isinstance(TWIN, TwinConfig)
