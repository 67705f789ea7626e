"""Settings for all tests. They are environment variables, so that notebooks' kernels inherit them."""

from __future__ import annotations

import os
import shutil
import tempfile

import pytest

CACHE = pytest.StashKey[str]()

# One thread, before anything imports torch: tests share the machine, and spinning threads slow all of them.
os.environ.setdefault("LABKIT_THREADS", "1")
os.environ.setdefault("OMP_NUM_THREADS", os.environ["LABKIT_THREADS"])
os.environ.setdefault("LABKIT_PROFILE", "smoke")
# Figures are drawn to files; no test may need a display.
os.environ.setdefault("MPLBACKEND", "agg")


def pytest_configure(config: pytest.Config) -> None:
    # The user's cache stays untouched, and no test passes because of what lies in it.
    config.stash[CACHE] = os.environ["LABKIT_CACHE"] = tempfile.mkdtemp(prefix="labkit-tests-")
    os.environ["LABKIT_PROGRESS"] = os.path.join(config.stash[CACHE], "progress.json")


def pytest_unconfigure(config: pytest.Config) -> None:
    shutil.rmtree(config.stash[CACHE], ignore_errors=True)
