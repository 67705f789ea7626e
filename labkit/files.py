"""Where labkit's files lie, and writing them so that a reader never meets half a file."""

from __future__ import annotations

import os
import secrets
from pathlib import Path


def atomic_write_bytes(path: Path | str, data: bytes) -> Path:
    """Write a file that is whole or not there, whenever the process or the machine stops.

    Missing folders are made. An existing file is replaced in one step; if anything fails it stays
    as it was and the error is raised (`OSError`). Returns the path.
    """
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    # In the same folder, since a rename is one step only within a file system.
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(4)}.tmp")
    try:
        with open(temporary, "xb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    return path


def atomic_write_text(path: Path | str, text: str) -> Path:
    """`atomic_write_bytes` for text: UTF-8, line ends as given."""
    return atomic_write_bytes(path, text.encode("utf-8"))


def cache_dir() -> Path:
    """Folder for what can be made again (converted models, measurements, unfinished runs).

    `LABKIT_CACHE` if set, else the user's cache folder of this system. Not created here.
    """
    chosen = os.environ.get("LABKIT_CACHE", "").strip()
    if chosen:
        return Path(chosen).expanduser().resolve()
    import platformdirs

    return Path(platformdirs.user_cache_dir("labkit"))


def repo_root() -> Path:
    """The folder that holds notebooks/ and figures/, found from where this package lies.

    Raises `FileNotFoundError` if labkit was installed without its repository.
    """
    root = Path(__file__).resolve().parent.parent
    if not (root / "pyproject.toml").is_file():
        raise FileNotFoundError(
            f"labkit's code is in {root}, where there is no pyproject.toml: it was installed without its "
            "repository, which holds notebooks/ and figures/. Clone the repository and run `make lab` there."
        )
    return root
