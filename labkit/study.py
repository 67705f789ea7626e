"""Run a study: arms × seeds at a profile, cached, resumable, with progress and time left.

A study is data: its arms are configurations, its `run` turns one configuration and one seed into rows
of measurements. Finished runs are kept as tidy frames, one file an arm; what is there with the same
configuration hash is not run again. Full-profile frames live in figures/<study>/data and are committed.
"""

from __future__ import annotations

import hashlib
import json
import multiprocessing
import os
import shutil
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Executor, Future, ProcessPoolExecutor, wait
from dataclasses import asdict, dataclass, is_dataclass
from pathlib import Path
from queue import Empty
from typing import Any

import pandas as pd
from tqdm.auto import tqdm

from labkit.files import atomic_write_text, cache_dir, repo_root

PROFILES = ("smoke", "workshop", "full")
Rows = list[dict[str, Any]]


@dataclass(frozen=True)
class RunContext:
    """What a run gets besides its configuration."""

    seed: int
    """Seed of everything random in the run."""
    folder: Path
    """Where runs keep unfinished or shared state; emptied when all runs of the study are done."""
    report: Callable[[float], None]
    """Call with the share of the run that is done, 0 to 1."""


RunFunction = Callable[[Any, RunContext], Rows]


@dataclass(frozen=True)
class Study:
    """An experiment as data."""

    name: str
    """Name in the ledger, on the command line and of its folder in figures/."""
    version: int
    """Raised by hand when the code changes what a run measures, so that cached results are not reused."""
    arms: Callable[[str], Mapping[str, Any]]
    """Profile -> configuration (a dataclass) of each arm, in the order they are run."""
    seeds: Mapping[str, int]
    """Number of seeds of each profile."""
    run: RunFunction
    """One run: rows of measurements, without arm and seed. A module-level function: it is sent to
    worker processes."""
    cost: Callable[[Any], float] = lambda config: 1.0
    """Relative cost of a run, for the estimate of the time left."""


def active_profile() -> str:
    """The profile from `LABKIT_PROFILE`, by default `workshop`."""
    return check_profile(os.environ.get("LABKIT_PROFILE", "").strip() or "workshop")


def check_profile(profile: str) -> str:
    """The profile itself; ValueError if there is no such one."""
    if profile not in PROFILES:
        raise ValueError(f"profile {profile!r} is not one of {', '.join(PROFILES)}")
    return profile


def config_hash(study: Study, config: Any) -> str:
    """Twelve hex digits that change with the study's version or any field of the configuration."""
    plain = asdict(config) if is_dataclass(config) else config
    text = json.dumps([study.name, study.version, plain], sort_keys=True, default=str)
    return hashlib.sha256(text.encode()).hexdigest()[:12]


def data_path(study: Study, profile: str, arm: str) -> Path:
    """The file of one arm's rows: in the repository for `full`, else in the user's cache."""
    if check_profile(profile) == "full":
        return repo_root() / "figures" / study.name / "data" / f"{arm}.csv"
    return cache_dir() / "studies" / study.name / profile / f"{arm}.csv"


def load_arm(study: Study, profile: str, arm: str, config: Any | None = None) -> pd.DataFrame:
    """The finished rows of one arm; empty if there are none.

    With `config`, rows of any other configuration are left out. A file that cannot be read is set
    aside as `<arm>.csv.corrupt` and counts as missing: the runs are made again.
    """
    path = data_path(study, profile, arm)
    if not path.exists():
        return pd.DataFrame()
    try:
        frame = pd.read_csv(path, dtype={"config": str})
        if not {"arm", "seed", "config", "step"} <= set(frame.columns):
            raise ValueError("columns are missing")
    except (ValueError, UnicodeDecodeError, pd.errors.ParserError):
        path.replace(path.with_name(path.name + ".corrupt"))
        return pd.DataFrame()
    return frame if config is None else frame[frame["config"] == config_hash(study, config)]


def load_study(study: Study, profile: str = "full", arms: Sequence[str] | None = None) -> pd.DataFrame:
    """All finished rows of a study at a profile, one tidy frame; FileNotFoundError if there are none."""
    names = list(study.arms(profile)) if arms is None else list(arms)
    frames = [f for arm in names if len(f := load_arm(study, profile, arm))]
    if not frames:
        raise FileNotFoundError(
            f"no results of study {study.name!r} at profile {profile!r} for arms {names}; "
            f"make them with `python -m labkit run {study.name} --profile {profile}`"
        )
    return pd.concat(frames, ignore_index=True)


@dataclass(frozen=True)
class _Task:
    arm: str
    seed: int
    config: Any
    key: str


def run_tasks(
    study: Study, profile: str, arms: Sequence[str] | None, seeds: int | None
) -> tuple[list[_Task], int]:
    """The runs still to be made, seeds in the outer loop, and how many there are in all."""
    configs = dict(study.arms(check_profile(profile)))
    unknown = [arm for arm in arms or () if arm not in configs]
    if unknown:
        raise ValueError(f"study {study.name!r} has no arm {unknown}; its arms are {', '.join(configs)}")
    chosen = {arm: configs[arm] for arm in (arms or configs)}
    number = study.seeds[profile] if seeds is None else seeds
    if number < 1:
        raise ValueError(f"{number} seeds; at least 1 is needed")
    done = {
        arm: set(f["seed"]) if len(f := load_arm(study, profile, arm, config)) else set()
        for arm, config in chosen.items()
    }
    tasks = [
        _Task(arm, seed, config, config_hash(study, config))
        for seed in range(number)
        for arm, config in chosen.items()
        if seed not in done[arm]
    ]
    return tasks, number * len(chosen)


def run(
    study: Study,
    profile: str,
    *,
    seeds: int | None = None,
    workers: int = 1,
    arms: Sequence[str] | None = None,
    executor: Executor | None = None,
) -> pd.DataFrame:
    """Make all missing runs and return the frame of all rows.

    Each finished run is written at once, so that an interruption loses only what is in flight, and a
    run in flight goes on from its own checkpoint. With `workers` > 1, runs are spread over that many
    processes of one thread each; the results are the same as one by one.
    """
    tasks, total = run_tasks(study, profile, arms, seeds)
    if not tasks:
        return load_study(study, profile, arms)
    with multiprocessing.Manager() as manager:
        progress = manager.Queue()
        own = executor is None
        if own:
            executor = ProcessPoolExecutor(workers, multiprocessing.get_context("spawn"))
        try:
            futures = {executor.submit(_work, study.name, study.run, task, progress): task for task in tasks}
            _gather(study, profile, futures, progress, total - len(tasks), total)
        finally:
            if own:
                executor.shutdown(cancel_futures=True)
    shutil.rmtree(unfinished_folder(study.name), ignore_errors=True)
    return load_study(study, profile, arms)


def _work(name: str, run: RunFunction, task: _Task, progress: Any) -> Rows:
    """One run in a worker process, which gets the run function alone: arms may be lambdas."""
    os.environ["LABKIT_THREADS"] = "1"
    import torch

    torch.set_num_threads(1)
    return _run_task(name, run, task, lambda share: progress.put((task, share)))


def unfinished_folder(name: str) -> Path:
    """Where runs of a study keep state that an interruption must not lose."""
    return cache_dir() / "unfinished" / name


def run_one(
    study: Study, arm: str, config: Any, seed: int, report: Callable[[float], None] = lambda share: None
) -> Rows:
    """One run in this process; its rows carry arm, seed and configuration hash."""
    return _run_task(study.name, study.run, _Task(arm, seed, config, config_hash(study, config)), report)


def _run_task(name: str, run: RunFunction, task: _Task, report: Callable[[float], None]) -> Rows:
    folder = unfinished_folder(name)
    folder.mkdir(parents=True, exist_ok=True)
    rows = run(task.config, RunContext(task.seed, folder, report))
    return [{"arm": task.arm, "seed": task.seed, "config": task.key, **row} for row in rows]


def _gather(
    study: Study,
    profile: str,
    futures: Mapping[Future, _Task],
    progress: Any,
    finished: int,
    total: int,
) -> None:
    costs = {task: study.cost(task.config) for task in futures.values()}
    shares = dict.fromkeys(costs, 0.0)
    bar = tqdm(
        total=sum(costs.values()),
        desc=f"{study.name} ({profile})",
        bar_format="{desc}: {percentage:3.0f}%|{bar}| {elapsed}<{remaining}{postfix}",
    )
    pending, failures = set(futures), []
    bar.set_postfix_str(f"{finished} of {total} runs")
    while pending:
        done, pending = wait(pending, timeout=1.0, return_when=FIRST_COMPLETED)
        while True:
            try:
                task, share = progress.get_nowait()
            except Empty:
                break
            shares[task] = max(shares[task], share)
        for future in done:
            task = futures[future]
            shares[task] = 1.0
            if future.exception() is not None:
                failures.append((task, future.exception()))
                continue
            store_rows(study, profile, task.arm, future.result())
            finished += 1
            bar.set_postfix_str(f"{finished} of {total} runs")
        bar.update(sum(costs[t] * s for t, s in shares.items()) - bar.n)
    bar.close()
    if failures:
        task, error = failures[0]
        raise RuntimeError(
            f"{len(failures)} of {len(futures)} runs of {study.name} failed, the others are kept; the "
            f"first: arm {task.arm}, seed {task.seed}"
        ) from error


def store_rows(study: Study, profile: str, arm: str, rows: Rows) -> Path:
    """Add one run's rows to its arm's file, in place of rows of the same seed or of older settings."""
    new = pd.DataFrame(rows)
    old = load_arm(study, profile, arm)
    if len(old):
        old = old[(old["config"] == rows[0]["config"]) & (old["seed"] != rows[0]["seed"])]
    frame = pd.concat([old, new], ignore_index=True) if len(old) else new
    frame = frame.sort_values(["seed", "step"], kind="stable")
    return atomic_write_text(data_path(study, profile, arm), frame.to_csv(index=False, float_format="%.6g"))


def run_study(name: str, profile: str, seeds: int | None, workers: int, arms: Sequence[str] | None) -> None:
    """What `python -m labkit run` does: run a study by name and say where its data are."""
    from labkit.studies import COMMANDS, get_study

    started = time.time()
    if name in COMMANDS:
        COMMANDS[name](profile)
        return
    study = get_study(name)
    frame = run(study, profile, seeds=seeds, workers=workers, arms=arms)
    folder = data_path(study, profile, "x").parent
    print(f"{len(frame)} rows in {folder} after {time.time() - started:.0f} s")
