"""`python -m labkit doctor`: one line per check, with what to do where something is missing."""

from __future__ import annotations

import importlib.metadata
import os
import platform
import shutil
import sys
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import NamedTuple

from labkit.files import cache_dir, repo_root

BROWSERS = ("chromium", "chromium-browser", "google-chrome")
LEAST_PYTHON = (3, 11)
OK, NOTE, FAIL = "OK", "NOTE", "FAIL"


class Check(NamedTuple):
    """One line of the report. `FAIL`: labkit does not work; `NOTE`: something works less well."""

    status: str
    topic: str
    text: str


def read_constraints(text: str) -> dict[str, str]:
    """Canonical package name -> exact version, from the text of constraints.txt."""
    from packaging.requirements import Requirement
    from packaging.utils import canonicalize_name

    lines = (line.partition("#")[0].strip() for line in text.splitlines())
    requirements = [Requirement(line) for line in lines if line]
    return {canonicalize_name(r.name): next(iter(r.specifier)).version for r in requirements}


def installed_versions() -> dict[str, str]:
    """Canonical package name -> version of everything this Python can import packages from."""
    from packaging.utils import canonicalize_name

    return {canonicalize_name(d.name): d.version for d in importlib.metadata.distributions() if d.name}


def required_packages() -> list[str]:
    """Canonical names of labkit's own requirements, the optional ones left out."""
    from packaging.requirements import Requirement
    from packaging.utils import canonicalize_name

    requirements = map(Requirement, importlib.metadata.requires("labkit") or [])
    return [canonicalize_name(r.name) for r in requirements if r.marker is None or r.marker.evaluate()]


def compare_packages(
    required: Iterable[str], installed: Mapping[str, str], pinned: Mapping[str, str]
) -> Check:
    """Whether all that is required is installed, and at the versions labkit was tested with."""
    from packaging.version import Version

    required = sorted(required)
    missing = [name for name in required if name not in installed]
    if missing:
        return Check(FAIL, "packages", f"not installed: {', '.join(missing)}; run `make setup`")
    # The local part says how a release was built (+cpu), not which release it is.
    other = [
        f"{name} {installed[name]} (tested with {version})"
        for name, version in sorted(pinned.items())
        if name in installed and Version(installed[name]).public != Version(version).public
    ]
    if other:
        named = ", ".join(other[:5]) + (f" and {len(other) - 5} more" if len(other) > 5 else "")
        text = f"other versions than tested: {named}; `make setup` with a new .venv installs the tested ones"
        return Check(NOTE, "packages", text)
    return Check(OK, "packages", f"{len(required)} required, all at the versions in constraints.txt")


def check_python() -> Check:
    """labkit needs Python 3.11 or newer."""
    found = f"{platform.python_version()} in {sys.prefix}"
    if sys.version_info >= LEAST_PYTHON:
        return Check(OK, "python", found)
    return Check(FAIL, "python", f"{found}; 3.11 or newer is needed: `make PYTHON=python3.11 lab`")


def check_packages() -> Check:
    """Installed packages against labkit's requirements and constraints.txt."""
    constraints = (repo_root() / "constraints.txt").read_text(encoding="utf-8")
    return compare_packages(required_packages(), installed_versions(), read_constraints(constraints))


def check_threads() -> Check:
    """Threads labkit would use now."""
    from labkit.lm.runtime import choose_threads, usable_cores

    why = "LABKIT_THREADS" if os.environ.get("LABKIT_THREADS") else "the others are busy or shared"
    threads, cores = choose_threads(), usable_cores()
    reason = f" ({why})" if threads != cores else ""
    return Check(OK, "threads", f"{threads} of {cores} cores{reason}; LABKIT_THREADS overrides")


def check_matmul() -> Check:
    """Rate of large matrix products in both dtypes, measured now with the threads labkit would use."""
    import torch

    from labkit.lm.runtime import choose_device, choose_dtype, choose_threads, measure_rates

    before = torch.get_num_threads()
    torch.set_num_threads(choose_threads())
    try:
        rates = measure_rates()
    finally:
        torch.set_num_threads(before)
    measured = ", ".join(f"{name} {rate:.1f} GFLOP/s" for name, rate in rates.items())
    device = choose_device()
    used = str(choose_dtype(device)).removeprefix("torch.")
    return Check(
        OK, "matmul", f"{measured}; {used} on {device} is used, LABKIT_DTYPE and LABKIT_DEVICE override"
    )


def check_memory(least: float = 2.0) -> Check:
    """Memory that programs can have now; below `least` GB training may be stopped by the system."""
    import psutil

    free = psutil.virtual_memory().available / 1e9
    if free >= least:
        return Check(OK, "memory", f"{free:.1f} GB free")
    return Check(NOTE, "memory", f"{free:.1f} GB free, {least:g} GB is comfortable: close other kernels")


def existing_parent(path: Path) -> Path:
    """`path` itself, or the nearest folder above it that exists."""
    return next(p for p in (path, *path.parents) if p.exists())


def check_disk(least: float = 2.0) -> Check:
    """Room for converted models and results, in GB, and whether they can be written."""
    folder = cache_dir()
    parent = existing_parent(folder)
    if not (parent.is_dir() and os.access(parent, os.W_OK)):
        return Check(FAIL, "disk", f"{parent} cannot be written; set LABKIT_CACHE to a folder that can")
    free = shutil.disk_usage(parent).free / 1e9
    if free >= least:
        return Check(OK, "disk", f"{free:.1f} GB free for {folder}")
    return Check(
        NOTE, "disk", f"{free:.1f} GB free for {folder}; make room or set LABKIT_CACHE to another folder"
    )


def find_browser() -> str | None:
    """Path of a Chromium or Chrome, if one is installed."""
    return next(filter(None, map(shutil.which, BROWSERS)), None)


def check_browser() -> Check:
    """Only the browser tests need one of labkit's choice; the notebooks open in any."""
    found = find_browser()
    if found:
        return Check(OK, "browser", found)
    advice = "browser tests need it: install Debian's chromium (sudo apt-get install chromium)"
    return Check(NOTE, "browser", f"none of {', '.join(BROWSERS)} found; {advice}")


def check_models() -> Check:
    """Converted models in the cache folder, with their sizes."""
    models = sorted({p.parent for p in cache_dir().rglob("*.safetensors")}) if cache_dir().is_dir() else []
    if not models:
        return Check(OK, "models", f"none cached yet in {cache_dir()}; made when a notebook first needs one")
    sizes = {m: sum(p.stat().st_size for p in m.glob("*.safetensors")) / 1e6 for m in models}
    text = ", ".join(f"{m.relative_to(cache_dir())} ({size:.0f} MB)" for m, size in sizes.items())
    return Check(OK, "models", f"{text} in {cache_dir()}")


CHECKS: tuple[Callable[[], Check], ...] = (
    check_python,
    check_packages,
    check_threads,
    check_matmul,
    check_memory,
    check_disk,
    check_browser,
    check_models,
)


def run_check(check: Callable[[], Check]) -> Check:
    """The check's result; a check that breaks is a failure with its error, never the end of the report."""
    try:
        return check()
    except Exception as error:
        topic = check.__name__.removeprefix("check_")
        return Check(FAIL, topic, f"{type(error).__name__}: {error}")


def main(checks: Iterable[Callable[[], Check]] = CHECKS) -> int:
    """Print a line per check; 0 if nothing essential fails, else 1."""
    failed = False
    for check in checks:
        result = run_check(check)
        failed |= result.status == FAIL
        print(f"{result.status:<5} {result.topic:<9} {result.text}", flush=True)
    return int(failed)
