import shutil

import pytest

from labkit import doctor
from labkit.doctor import FAIL, NOTE, OK, Check


def test_a_line_per_check_and_exit_code_zero_here(capsys):
    assert doctor.main() == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[1] for line in lines] == [c.__name__.removeprefix("check_") for c in doctor.CHECKS]
    assert all(line.split()[0] in (OK, NOTE) for line in lines)
    (matmul,) = [line for line in lines if " matmul " in line]
    assert matmul.count("GFLOP/s") == 2


def test_only_a_failure_makes_the_exit_code_one(capsys):
    note, fail = (lambda: Check(NOTE, "a", "x")), (lambda: Check(FAIL, "b", "y"))
    assert doctor.main([note]) == 0
    assert doctor.main([note, fail, note]) == 1
    assert len(capsys.readouterr().out.splitlines()) == 4


def test_a_check_that_breaks_is_a_line_of_its_own():
    def check_torch():
        raise ImportError("libgomp.so.1 is missing")

    assert doctor.run_check(check_torch) == Check(FAIL, "torch", "ImportError: libgomp.so.1 is missing")


def test_read_constraints():
    text = "# made by hand\nPyYAML==6.0.4\n\ntyping_extensions==4.16.0  # why\n"
    assert doctor.read_constraints(text) == {"pyyaml": "6.0.4", "typing-extensions": "4.16.0"}


@pytest.mark.parametrize(
    ("installed", "status", "says"),
    [
        ({"torch": "2.13.0+cpu", "numpy": "2.4.6"}, OK, "2 required"),
        ({"torch": "2.13.0", "numpy": "2.5.0"}, NOTE, "numpy 2.5.0 (tested with 2.4.6)"),
        ({"torch": "2.13.0"}, FAIL, "not installed: numpy"),
    ],
)
def test_compare_packages(installed, status, says):
    pinned = {"torch": "2.13.0", "numpy": "2.4.6", "absent-and-not-required": "1"}
    check = doctor.compare_packages(["torch", "numpy"], installed, pinned)
    assert check.status == status and says in check.text


def test_required_packages_leave_out_the_development_tools():
    required = doctor.required_packages()
    assert {"torch", "jupyterlab", "gymnasium"} <= set(required)
    assert not {"pytest", "playwright"} & set(required)


def test_a_missing_browser_is_a_note_with_advice(monkeypatch):
    monkeypatch.setattr(shutil, "which", lambda name: None)
    check = doctor.check_browser()
    assert check.status == NOTE and "install Debian's chromium" in check.text
    monkeypatch.setattr(shutil, "which", lambda name: "/opt/chrome" if name == "google-chrome" else None)
    assert doctor.check_browser() == Check(OK, "browser", "/opt/chrome")


def test_little_memory_or_disk_is_a_note():
    assert doctor.check_memory(least=1e9).status == NOTE
    assert doctor.check_disk(least=1e9).status == NOTE
    assert doctor.check_memory(least=0).status == doctor.check_disk(least=0).status == OK


def test_a_cache_folder_that_cannot_be_made_is_a_failure(monkeypatch, tmp_path):
    file = tmp_path / "file"
    file.touch()
    monkeypatch.setenv("LABKIT_CACHE", str(file / "cache"))
    check = doctor.check_disk()
    assert check.status == FAIL and "LABKIT_CACHE" in check.text


def test_cached_models_are_listed_with_their_sizes(monkeypatch, tmp_path):
    monkeypatch.setenv("LABKIT_CACHE", str(tmp_path))
    assert "none cached" in doctor.check_models().text
    (tmp_path / "models" / "smol").mkdir(parents=True)
    (tmp_path / "models" / "smol" / "model.safetensors").write_bytes(b"0" * 2_000_000)
    assert "smol (2 MB)" in doctor.check_models().text


def test_threads_follow_the_override(monkeypatch):
    monkeypatch.setenv("LABKIT_THREADS", "3")
    assert doctor.check_threads().text.startswith("3 of ")
    monkeypatch.setenv("LABKIT_THREADS", "many")
    check = doctor.run_check(doctor.check_threads)
    assert check.status == FAIL and "'many'" in check.text
