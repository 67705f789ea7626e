import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from filelock import FileLock

from labkit.workshop import progress
from labkit.workshop.exercises import CheckResult, get, of_notebook

PASSED, UNTOUCHED = CheckResult(True, "ok"), CheckResult(False, "", "not_attempted")
ID = "03.completion_mask"


def failed(mistake="inverted"):
    return CheckResult(False, "no", mistake)


def on_disk(path):
    return json.loads(path.read_text(encoding="utf-8"))


def test_the_path_follows_the_environment(progress_file, monkeypatch):
    assert progress.progress_path() == progress_file
    monkeypatch.setenv("LABKIT_PROGRESS", "~/p.json")
    assert progress.progress_path() == Path.home() / "p.json"
    monkeypatch.setenv("LABKIT_PROGRESS", " ")
    path = progress.progress_path()
    assert path.name == "progress.json" and path.parent.name == "labkit"


def test_reading_makes_nothing(progress_file):
    assert progress.read() == {"version": 1, "exercises": {}, "predictions": {}}
    assert not progress_file.parent.exists()


def test_attempts_mistakes_and_the_answer_are_kept_until_solved(progress_file):
    progress.record_check(ID, failed("inverted"), "one")
    progress.record_check(ID, failed("prompt_kept"), "two")
    progress.record_check(ID, failed("inverted"), "three")
    entry = on_disk(progress_file)["exercises"][ID]
    assert (entry["attempts"], entry["solved"], entry["answer"]) == (3, False, "three")
    assert entry["mistakes"] == {"inverted": 2, "prompt_kept": 1}
    progress.record_check(ID, PASSED, "four")
    progress.record_check(ID, failed(), "five")
    entry = on_disk(progress_file)["exercises"][ID]
    assert (entry["attempts"], entry["solved"], entry["answer"], entry["unaided"]) == (4, True, "four", True)
    assert entry["mistakes"] == {"inverted": 2, "prompt_kept": 1}
    assert entry["solved_at"].endswith("+00:00")


def test_an_untouched_stub_leaves_no_trace(progress_file):
    progress.record_check(ID, UNTOUCHED, "source")
    assert not progress_file.exists()


def test_nothing_is_written_when_nothing_changes(progress_file, monkeypatch):
    progress.record_check(ID, PASSED, "answer")
    monkeypatch.setattr(progress, "atomic_write_text", lambda *args: pytest.fail("written"))
    progress.record_check(ID, PASSED, "answer")
    progress.update(lambda state: None)


def test_hints_are_counted_up_to_those_there_are(progress_file):
    assert [progress.record_hint(ID, 3) for _ in range(5)] == [1, 2, 3, 3, 3]
    assert on_disk(progress_file)["exercises"][ID]["hints"] == 3


def test_a_solution_shown_before_is_remembered():
    progress.record_solution(ID)
    progress.record_check(ID, PASSED, "copied")
    entry = progress.read()["exercises"][ID]
    assert entry["solution_shown"] and not entry["unaided"]
    progress.record_check("03.ood_hands", PASSED, "own")
    progress.record_solution("03.ood_hands")
    assert progress.read()["exercises"]["03.ood_hands"]["unaided"]


def test_predictions_keep_what_is_set():
    progress.record_prediction("03.p.x", options=[0, 1])
    assert progress.record_prediction("03.p.x", guess=0.5) == {"options": [0, 1], "guess": 0.5}


def test_summary_counts_the_exercises_asked_for():
    exercises = of_notebook("03")
    assert progress.summary(progress.read(), exercises) == "0 of 8 solved, 0 hints used"
    progress.record_hint(ID, 3)
    assert progress.summary(progress.read(), exercises) == "0 of 8 solved, 1 hint used"
    progress.record_solution(ID)
    for id in (ID, "03.ood_hands"):
        progress.record_check(id, PASSED, "")
    progress.record_hint("03.ood_hands", 3)
    progress.record_hint("99.other", 3)
    assert (
        progress.summary(progress.read(), exercises)
        == "2 of 8 solved (1 after seeing the solution), 2 hints used"
    )
    assert progress.summary(progress.read(), [get("03.exact_value")]) == "0 of 1 solved, 0 hints used"


def test_keys_of_a_later_version_are_kept(progress_file):
    progress_file.parent.mkdir()
    later = {"version": 2, "exercises": {ID: {"stars": 5}}, "predictions": {}, "badges": [1]}
    progress_file.write_text(json.dumps(later))
    progress.record_check(ID, PASSED, None)
    state = on_disk(progress_file)
    assert (state["version"], state["badges"], state["exercises"][ID]["stars"]) == (2, [1], 5)
    assert state["exercises"][ID]["solved"]


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"{",
        b"\xff\xfe",
        b"[]",
        b"null",
        b'{"exercises": []}',
        b'{"exercises": {"a": 1}, "predictions": {}}',
    ],
)
def test_a_file_that_cannot_be_used_is_set_aside_and_a_new_one_begun(progress_file, capsys, content):
    progress_file.parent.mkdir()
    progress_file.write_bytes(content)
    assert progress.read()["exercises"] == {}
    assert progress_file.read_bytes() == content
    progress.record_check(ID, PASSED, None)
    assert on_disk(progress_file)["exercises"][ID]["solved"]
    assert progress_file.with_name("progress.json.corrupt").read_bytes() == content
    assert "kept as progress.json.corrupt" in capsys.readouterr().out


def test_an_older_corrupt_file_is_not_overwritten(progress_file, capsys):
    progress_file.parent.mkdir()
    for content in ("first", "second", "third"):
        progress_file.write_text(content)
        progress.record_hint(ID, 3)
    kept = {p.name: p.read_text() for p in progress_file.parent.glob("*.corrupt*")}
    assert kept == {
        "progress.json.corrupt": "first",
        "progress.json.corrupt-2": "second",
        "progress.json.corrupt-3": "third",
    }
    assert str(progress_file.parent) not in capsys.readouterr().out


def test_an_error_while_changing_leaves_the_file_as_it_was(progress_file):
    progress.record_hint(ID, 3)
    before = progress_file.read_bytes()

    def half(state):
        state["exercises"].clear()
        raise KeyError("x")

    with pytest.raises(KeyError):
        progress.update(half)
    assert progress_file.read_bytes() == before
    progress.record_hint(ID, 3)


def test_where_nothing_can_be_written_the_session_still_counts_and_is_saved_later(
    progress_file, monkeypatch, capsys
):
    progress.record_hint(ID, 9)

    def full(*args):
        raise OSError("No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(progress, "atomic_write_text", full)
        assert [progress.record_hint(ID, 9) for _ in range(3)] == [2, 3, 4]
        assert progress.read()["exercises"][ID]["hints"] == 4
        assert capsys.readouterr().out.count("Progress is not saved") == 1
    assert on_disk(progress_file)["exercises"][ID]["hints"] == 1
    assert progress.record_hint(ID, 9) == 5
    assert on_disk(progress_file)["exercises"][ID]["hints"] == 5


def test_a_folder_that_cannot_be_made_is_no_error(tmp_path, monkeypatch, capsys):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("LABKIT_PROGRESS", str(tmp_path / "file" / "progress.json"))
    progress.record_check(ID, PASSED, None)
    assert progress.read()["exercises"][ID]["solved"]
    assert "not saved" in capsys.readouterr().out


def test_a_lock_that_another_holds_too_long_is_no_error(progress_file, monkeypatch, capsys):
    progress_file.parent.mkdir()
    monkeypatch.setattr(progress, "LOCK_SECONDS", 0.1)
    with FileLock(progress_file.with_name("progress.json.lock")):
        progress.record_hint(ID, 3)
    assert "not saved" in capsys.readouterr().out
    progress.record_hint("03.ood_hands", 3)
    assert {id: e["hints"] for id, e in on_disk(progress_file)["exercises"].items()} == {
        ID: 1,
        "03.ood_hands": 1,
    }


WRITER = """
import sys
from labkit.workshop import progress
for number in range(25):
    def change(state):
        counter = state["predictions"].setdefault("counter", {"n": 0})
        counter["n"] += 1
        state["exercises"][f"{sys.argv[1]}.{number}"] = {}
    progress.update(change)
assert not progress._PENDING
"""


def test_notebooks_that_write_at_once_lose_nothing(progress_file):
    writers = [
        subprocess.Popen([sys.executable, "-c", WRITER, name], env=dict(os.environ))
        for name in ("a", "b", "c")
    ]
    assert [writer.wait(timeout=120) for writer in writers] == [0, 0, 0]
    state = on_disk(progress_file)
    assert state["predictions"]["counter"]["n"] == 75
    assert len(state["exercises"]) == 75
