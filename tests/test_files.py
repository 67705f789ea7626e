import os
from pathlib import Path

import pytest

from labkit import files


def test_atomic_write_makes_folders_and_returns_the_path(tmp_path):
    path = tmp_path / "a" / "ü b" / "c.txt"
    assert files.atomic_write_text(path, "naïve\n") == path
    assert path.read_bytes() == "naïve\n".encode()
    assert files.atomic_write_bytes(str(path), b"\x00\xff").read_bytes() == b"\x00\xff"


@pytest.mark.parametrize("breaks", ["fsync", "replace"])
def test_a_failed_write_leaves_the_old_file_and_nothing_else(tmp_path, monkeypatch, breaks):
    path = files.atomic_write_text(tmp_path / "f.txt", "old")

    def fail(*args):
        raise OSError("disk full")

    monkeypatch.setattr(os, breaks, fail)
    with pytest.raises(OSError, match="disk full"):
        files.atomic_write_text(path, "new")
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]


def test_the_target_never_holds_half_the_data(tmp_path, monkeypatch):
    path = files.atomic_write_text(tmp_path / "f.txt", "old")
    seen = []
    monkeypatch.setattr(os, "fsync", lambda fd: seen.append(path.read_text()))
    files.atomic_write_text(path, "new")
    assert seen == ["old"]
    assert path.read_text() == "new"


def test_permissions_follow_the_umask(tmp_path):
    # A temporary file is private by default; a committed figure must not be.
    before = os.umask(0o022)
    try:
        path = files.atomic_write_text(tmp_path / "f.txt", "")
    finally:
        os.umask(before)
    assert path.stat().st_mode & 0o777 == 0o644


def test_cache_dir_follows_the_environment(tmp_path, monkeypatch):
    monkeypatch.setenv("LABKIT_CACHE", str(tmp_path / "x"))
    assert files.cache_dir() == tmp_path / "x"
    monkeypatch.setenv("LABKIT_CACHE", "~/labkit-cache")
    assert files.cache_dir() == Path.home() / "labkit-cache"
    monkeypatch.setenv("LABKIT_CACHE", " ")
    assert files.cache_dir().name == "labkit"


def test_repo_root_is_this_repository():
    assert files.repo_root() == Path(__file__).resolve().parent.parent


def test_repo_root_explains_an_install_without_repository(tmp_path, monkeypatch):
    monkeypatch.setattr(files, "__file__", str(tmp_path / "labkit" / "files.py"))
    with pytest.raises(FileNotFoundError, match="make lab"):
        files.repo_root()
