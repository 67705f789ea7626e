"""The learner's progress: one local JSON file that several notebooks may write at once.

The file is `{"version": 1, "exercises": {id: {...}}, "predictions": {id: {...}}}`. Keys that this version
does not know are kept. Nothing leaves the machine.
"""

from __future__ import annotations

import copy
import json
import os
from collections.abc import Callable, Iterable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from filelock import FileLock

from labkit.files import atomic_write_text
from labkit.workshop.exercises import CheckResult, Exercise

LOCK_SECONDS = 5.0
"""How long to wait for another notebook that is writing."""

State = dict[str, Any]
Change = Callable[[State], None]
_PENDING: dict[Path, list[Change]] = {}
"""Changes of this kernel that could not be written yet, by file."""


def progress_path() -> Path:
    """`LABKIT_PROGRESS` if set, else progress.json in the user's data folder of this system."""
    chosen = os.environ.get("LABKIT_PROGRESS", "").strip()
    if chosen:
        return Path(chosen).expanduser().resolve()
    import platformdirs

    return Path(platformdirs.user_data_dir("labkit")) / "progress.json"


def read() -> State:
    """Progress so far; empty if there is none or the file cannot be used."""
    path = progress_path()
    try:
        state = _parse(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        state = _empty()
    return _changed(state, _PENDING.get(path, ()))


def update(change: Change) -> State:
    """Apply `change` to the progress as it stands in the file, and write it if it differs.

    Read, changed and written under a lock, so that no notebook undoes what another wrote. A file that
    cannot be read is set aside as `.corrupt` and a new one begun. Where the file cannot be written
    (no rights, disk full), changes are kept for this kernel and written as soon as it can be. Both are
    said in a printed line.
    """
    path = progress_path()
    pending = [*_PENDING.get(path, ()), change]
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with FileLock(path.with_name(path.name + ".lock"), timeout=LOCK_SECONDS):
            before = _read_or_set_aside(path)
            state = _changed(before, pending)
            if state != before:
                atomic_write_text(path, json.dumps(state, indent=1, ensure_ascii=False) + "\n")
        _PENDING.pop(path, None)
        return state
    # filelock raises NotImplementedError on file systems without locks.
    except (OSError, NotImplementedError) as error:
        if path not in _PENDING:
            print(f"Progress is not saved ({type(error).__name__}); it counts until you restart. Go on.")
        _PENDING[path] = pending
        return read()


def _changed(state: State, changes: Iterable[Change]) -> State:
    state = copy.deepcopy(state)
    for change in changes:
        change(state)
    return state


def _empty() -> State:
    return {"version": 1, "exercises": {}, "predictions": {}}


def _parse(text: str) -> State:
    state = json.loads(text)
    parts = [state.get(k) for k in ("exercises", "predictions")] if isinstance(state, dict) else [None]
    if not all(isinstance(part, dict) and all(isinstance(e, dict) for e in part.values()) for part in parts):
        raise ValueError("not a progress file")
    return state


def _read_or_set_aside(path: Path) -> State:
    if not path.exists():
        return _empty()
    try:
        return _parse(path.read_text(encoding="utf-8"))
    except ValueError:  # of JSON, of UTF-8, of the shape
        kept, number = path.with_name(path.name + ".corrupt"), 1
        while kept.exists():
            number += 1
            kept = path.with_name(f"{path.name}.corrupt-{number}")
        path.replace(kept)
        print(f"Your progress file could not be read. It is kept as {kept.name}; a new one is begun.")
        return _empty()


def exercise_entry(state: State, id: str) -> dict[str, Any]:
    """What is known of an exercise, in `state` itself; begun if there is nothing yet."""
    blank = {"attempts": 0, "solved": False, "hints": 0, "solution_shown": False, "mistakes": {}}
    entry = state["exercises"].setdefault(id, {})
    for key, value in blank.items():
        entry.setdefault(key, value)
    return entry


def record_check(id: str, result: CheckResult, answer: str | None) -> State:
    """Note a checked answer and its text. An untouched stub leaves no trace; solved stays solved."""
    if not result.attempted:
        return read()

    def change(state: State) -> None:
        entry = exercise_entry(state, id)
        if answer is not None and (result.passed or not entry["solved"]):
            entry["answer"] = answer
        if entry["solved"]:
            return
        entry["attempts"] += 1
        if result.passed:
            entry |= {"solved": True, "solved_at": now(), "unaided": not entry["solution_shown"]}
        elif result.mistake:
            entry["mistakes"][result.mistake] = entry["mistakes"].get(result.mistake, 0) + 1

    return update(change)


def record_hint(id: str, available: int) -> int:
    """Count one more hint, of `available`; returns how many have been shown."""

    def change(state: State) -> None:
        entry = exercise_entry(state, id)
        entry["hints"] = min(entry["hints"] + 1, available)

    return update(change)["exercises"][id]["hints"]


def record_solution(id: str) -> State:
    """Note that the solution was shown."""
    return update(lambda state: exercise_entry(state, id).update(solution_shown=True))


def record_prediction(id: str, **fields: Any) -> dict[str, Any]:
    """Set fields of a prediction; returns all its fields."""
    return update(lambda state: state["predictions"].setdefault(id, {}).update(fields))["predictions"][id]


def summary(state: State, exercises: Iterable[Exercise]) -> str:
    """One line, e.g. `3 of 8 solved (1 after seeing the solution), 2 hints used`."""
    known = list(exercises)
    entries = [state["exercises"].get(e.id, {}) for e in known]
    solved = [e for e in entries if e.get("solved")]
    aided = sum(not e.get("unaided", True) for e in solved)
    hints = sum(e.get("hints", 0) for e in entries)
    after = f" ({aided} after seeing the solution)" if aided else ""
    return f"{len(solved)} of {len(known)} solved{after}, {hints} {'hint' if hints == 1 else 'hints'} used"


def now() -> str:
    """The time as text, in UTC."""
    return datetime.now(UTC).isoformat(timespec="seconds")
