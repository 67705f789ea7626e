"""Measuring in a process of its own, whose memory is that of the work and whose threads are set at birth."""

from __future__ import annotations

import sys
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import psutil


@dataclass(frozen=True)
class Fresh:
    """What a function returned in a fresh process, and the memory it took there."""

    result: Any
    peak_bytes: int
    """Most memory the process ever held, libraries included."""


def in_fresh_process(function: Callable[..., Any], *arguments: Any, threads: int) -> Fresh:
    """Call `function(*arguments)` in a new Python process that computes with `threads` threads.

    Function, arguments and result travel by pickle, so the function must stand at the top of a module.
    An error in it is raised here; a process that dies (out of memory, say) raises `BrokenProcessPool`.
    """
    # Spawned, not forked: a forked child starts with its parent's memory, models and all.
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
        return pool.submit(_measure, function, arguments, threads).result()


def _measure(function: Callable[..., Any], arguments: tuple[Any, ...], threads: int) -> Fresh:
    import torch

    torch.set_num_threads(threads)
    return Fresh(function(*arguments), peak_bytes())


def resident_bytes() -> int:
    """Memory this process holds now."""
    return psutil.Process().memory_info().rss


def peak_bytes() -> int:
    """Most memory this process ever held.

    On Linux not from `getrusage`: its maximum outlives the exec that starts a process, so that a child
    of a large notebook would never seem smaller than the notebook.
    """
    try:
        for line in Path("/proc/self/status").read_text().splitlines():
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) * 1024
    except OSError:
        pass
    import resource

    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit
