import os
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from labkit import study as studies
from labkit.study import Study, config_hash, data_path, load_arm, load_study, run, run_tasks


@dataclass(frozen=True)
class ToyConfig:
    slope: float
    log: str
    """Folder where each run leaves a file, since runs happen in other processes."""
    crash_seed: int | None = None
    """This seed fails while the file `<log>/crash` exists, after saving a checkpoint."""


def toy_run(config, context):
    log, here = Path(config.log), f"{config.slope}-{context.seed}"
    (log / f"{here}-{len(list(log.glob(here + '-*')))}").touch()
    if context.seed == config.crash_seed:
        saved = context.folder / f"{here}.pt"
        if (log / "crash").exists():
            saved.write_text("half way")
            raise RuntimeError("out of memory")
        (log / "resumed").write_text(saved.read_text() if saved.exists() else "")
    context.report(0.5)
    noise = np.random.default_rng(context.seed).normal(size=4)
    return [{"step": i, "score": config.slope * i + noise[i], "outcome": "a,b"} for i in range(4)]


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("LABKIT_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(studies, "repo_root", lambda: tmp_path / "repository")


@pytest.fixture
def log(tmp_path):
    folder = tmp_path / "log"
    folder.mkdir()
    return folder


def toy(log, version=1, crash_seed=None, steep=2.0):
    arms = {
        "steep": ToyConfig(steep, str(log), crash_seed),
        "flat": ToyConfig(0.1, str(log)),
    }
    return Study("toy", version, lambda profile: arms, {"smoke": 2, "workshop": 2, "full": 3}, toy_run)


def run_here(study, profile="smoke", **more):
    """In threads of this process, which spares starting interpreters."""
    with ThreadPoolExecutor(1) as executor:
        return run(study, profile, executor=executor, **more)


def runs_made(log):
    return sorted(path.name for path in log.iterdir() if path.name[0].isdigit())


def test_a_frame_has_the_rows_of_every_arm_and_seed(log):
    frame = run_here(toy(log))
    assert list(frame.columns) == ["arm", "seed", "config", "step", "score", "outcome"]
    assert len(frame) == 2 * 2 * 4
    assert list(frame["arm"].unique()) == ["steep", "flat"], "arms come in the order of the study"
    row = frame[(frame["arm"] == "flat") & (frame["seed"] == 1) & (frame["step"] == 3)].iloc[0]
    assert row["score"] == pytest.approx(0.1 * 3 + np.random.default_rng(1).normal(size=4)[3], rel=1e-5)
    assert row["config"] == config_hash(toy(log), ToyConfig(0.1, str(log)))


def test_what_is_there_is_not_run_again(log):
    first = run_here(toy(log))
    made = runs_made(log)
    pd.testing.assert_frame_equal(run_here(toy(log)), first)
    assert runs_made(log) == made
    more = run_here(toy(log), seeds=3)
    assert set(runs_made(log)) - set(made) == {"0.1-2-0", "2.0-2-0"}, "only the third seed was missing"
    assert sorted(more["seed"].unique()) == [0, 1, 2]


def test_arms_can_be_run_alone(log):
    assert set(run_here(toy(log), arms=["flat"])["arm"]) == {"flat"}
    assert runs_made(log) == ["0.1-0-0", "0.1-1-0"]


def test_one_run_that_fails_costs_no_other_and_goes_on_from_its_checkpoint(log):
    (log / "crash").touch()
    study = toy(log, crash_seed=0)
    with pytest.raises(RuntimeError, match="1 of 4 runs of toy failed.*arm steep, seed 0") as error:
        run_here(study)
    assert "out of memory" in str(error.value.__cause__)
    kept = load_study(study, "smoke")
    assert len(kept) == 3 * 4
    (log / "crash").unlink()
    frame = run_here(study)
    assert (log / "resumed").read_text() == "half way"
    assert runs_made(log) == ["0.1-0-0", "0.1-1-0", "2.0-0-0", "2.0-0-1", "2.0-1-0"], (
        "a finished run was made again"
    )
    assert len(frame) == 16
    unfinished = Path(os.environ["LABKIT_CACHE"]) / "unfinished" / "toy"
    assert not unfinished.exists(), "runs that all ended well leave no checkpoint"


def test_a_changed_setting_makes_the_runs_of_its_arm_again_and_drops_the_old_rows(log):
    run_here(toy(log))
    frame = run_here(toy(log, steep=3.0))
    assert runs_made(log) == ["0.1-0-0", "0.1-1-0", "2.0-0-0", "2.0-1-0", "3.0-0-0", "3.0-1-0"]
    assert frame[frame["arm"] == "steep"]["config"].nunique() == 1
    assert len(frame) == 16


def test_a_new_version_makes_every_run_again(log):
    run_here(toy(log))
    run_here(toy(log, version=2))
    assert runs_made(log) == [f"{name}-{i}" for name in ("0.1-0", "0.1-1", "2.0-0", "2.0-1") for i in (0, 1)]


def test_the_hash_sees_every_field_the_version_and_the_name(log):
    study, config = toy(log), ToyConfig(2.0, "x")
    hashes = {
        config_hash(study, config),
        config_hash(study, replace(config, slope=2.1)),
        config_hash(study, replace(config, crash_seed=1)),
        config_hash(replace(study, version=2), config),
        config_hash(replace(study, name="other"), config),
    }
    assert len(hashes) == 5
    assert config_hash(study, config) == config_hash(toy(log), ToyConfig(2.0, "x"))


@pytest.mark.parametrize("damage", [b"", b"\xff\xfe\x00rubbish", b"arm,seed\nsteep,0\n", b'a,b\n"1'])
def test_a_file_that_cannot_be_read_is_set_aside_and_made_again(log, damage):
    expected = run_here(toy(log))
    path = data_path(toy(log), "smoke", "steep")
    path.write_bytes(damage)
    pd.testing.assert_frame_equal(run_here(toy(log)), expected)
    assert path.with_name("steep.csv.corrupt").read_bytes() == damage, "it may be somebody's work"
    assert "2.0-0-1" in runs_made(log)
    assert "0.1-0-1" not in runs_made(log)


def test_processes_give_the_same_frame_as_one_and_so_does_the_same_seed_again(log):
    # Pitfall 42. Processes of their own: nothing may be carried over from one run to the next.
    here = run_here(toy(log))
    for workers in (1, 2):
        for arm in ("steep", "flat"):
            data_path(toy(log), "smoke", arm).unlink()
        pd.testing.assert_frame_equal(run(toy(log), "smoke", workers=workers), here)
    assert not np.allclose(here[here["seed"] == 0]["score"], here[here["seed"] == 1]["score"])


def test_full_results_lie_in_the_repository_and_others_in_the_cache(log, tmp_path):
    study = toy(log)
    run_here(study, "full")
    assert data_path(study, "full", "flat") == tmp_path / "repository/figures/toy/data/flat.csv"
    assert data_path(study, "full", "flat").exists()
    assert tmp_path / "cache" in data_path(study, "smoke", "flat").parents
    assert load_arm(study, "smoke", "flat").empty, "profiles do not mix"
    assert sorted(load_study(study)["seed"].unique()) == [0, 1, 2], "full is what figures are drawn from"


def test_files_are_the_same_bytes_whatever_the_order_of_the_runs(log):
    run_here(toy(log))
    path = data_path(toy(log), "smoke", "steep")
    expected = path.read_bytes()
    frame = pd.read_csv(path)
    path.write_text(frame[frame["seed"] == 1].to_csv(index=False))
    run_here(toy(log))
    assert path.read_bytes() == expected


def test_progress_is_reported(log, capsys):
    run_here(toy(log))
    shown = capsys.readouterr().err
    assert "toy (smoke): 100%" in shown
    assert "4 of 4 runs" in shown


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (
            lambda s: run_tasks(s, "smoke", ["steep", "sleep"], None),
            r"no arm \['sleep'\]; its arms are steep, flat",
        ),
        (lambda s: run_tasks(s, "huge", None, None), "profile 'huge' is not one of smoke, workshop, full"),
        (lambda s: run_tasks(s, "smoke", None, 0), "0 seeds; at least 1"),
        (lambda s: data_path(s, "huge", "steep"), "profile 'huge'"),
    ],
)
def test_unknown_names_are_answered_with_the_known_ones(log, call, message):
    with pytest.raises(ValueError, match=message):
        call(toy(log))


def test_missing_results_say_how_to_make_them(log):
    with pytest.raises(FileNotFoundError, match="python -m labkit run toy --profile workshop"):
        load_study(toy(log), "workshop")


def test_the_profile_comes_from_the_environment(monkeypatch):
    monkeypatch.setenv("LABKIT_PROFILE", "full")
    assert studies.active_profile() == "full"
    monkeypatch.delenv("LABKIT_PROFILE")
    assert studies.active_profile() == "workshop"
    monkeypatch.setenv("LABKIT_PROFILE", "fast")
    with pytest.raises(ValueError, match="'fast' is not one of"):
        studies.active_profile()
