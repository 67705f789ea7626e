"""Each test here has a progress file of its own; the user's is never touched."""

import pytest

from labkit.workshop import progress


@pytest.fixture(autouse=True)
def progress_file(tmp_path, monkeypatch):
    path = tmp_path / "ü b" / "progress.json"
    monkeypatch.setenv("LABKIT_PROGRESS", str(path))
    monkeypatch.setattr(progress, "_PENDING", {})
    return path
