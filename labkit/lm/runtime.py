"""Threads, dtype and device, chosen at start-up by measurement.

Threads: two OpenMP threads on cores that are busy with something else wait for each other by
spinning, and a training step then costs several times the CPU time it needs. So labkit takes the
cores that are free when it starts. Dtype: bfloat16 is several times faster than float32 on CPUs that
have instructions for it and much slower on those that do not, so both are timed once per machine.

`LABKIT_THREADS`, `LABKIT_DTYPE` and `LABKIT_DEVICE` override.
"""

from __future__ import annotations

import json
import math
import os
import platform
import time
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import psutil
import torch

from labkit.files import atomic_write_text, cache_dir

DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16}
BF16_GAIN = 1.5
"""bfloat16 is chosen from this many times float32's rate on; below it, its rounding is not worth it."""
LARGE = 512
"""Side of the square matrices whose rates decide: tiny ones gain nothing from bfloat16 anywhere, and
one product of larger ones takes seconds where bfloat16 is emulated."""


@dataclass(frozen=True)
class Runtime:
    """What computations run on."""

    threads: int
    """CPU threads torch uses, at least 1."""
    dtype: torch.dtype
    """Fastest dtype for large matrix products: float32 or bfloat16."""
    device: torch.device
    """Where models are put."""


def _from_env(name: str) -> str:
    return os.environ.get(name, "").strip()


def _positive_int(text: str, source: str) -> int:
    """`text` as an integer of at least 1; `ValueError` names where it came from."""
    if not (text.isascii() and text.isdigit() and int(text) >= 1):
        raise ValueError(
            f"{source} is {text!r}; a whole number, 1 or more, is accepted (unset it to have it chosen)"
        )
    return int(text)


def _quota_cores(cpu_max: str) -> float:
    """Cores a container may use, from the text of cgroup's cpu.max (`max 100000`, `200000 100000`)."""
    quota, _, period = cpu_max.strip().partition(" ")
    return math.inf if quota == "max" else int(quota) / int(period)


def usable_cores() -> int:
    """Cores this process may use: its affinity, capped by physical cores and by a container's quota."""
    affinity = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    # Hyper-threads share one core's arithmetic units: a second thread there adds waiting, not speed.
    physical = psutil.cpu_count(logical=False) or affinity
    try:
        quota = _quota_cores(Path("/sys/fs/cgroup/cpu.max").read_text())
    except (OSError, ValueError):
        quota = math.inf
    return max(1, math.floor(min(affinity, physical, quota)))


def busy_cores(interval: float = 0.2) -> float:
    """How many of this process's cores are busy now, measured over `interval` seconds."""
    percents = psutil.cpu_percent(interval=interval, percpu=True)
    if hasattr(os, "sched_getaffinity"):
        percents = [percents[core] for core in os.sched_getaffinity(0) if core < len(percents)]
    return sum(percents) / 100


def free_cores(cores: int, busy: float) -> int:
    """Whole cores left of `cores` when `busy` are in use; at least 1. A core under 25 % busy is free."""
    return max(1, min(cores, math.floor(cores - busy + 0.25)))


@lru_cache(maxsize=1)
def _free_at_start() -> int:
    # Once per process: asked again later it would count labkit's own training as somebody else's load.
    return free_cores(usable_cores(), busy_cores())


def choose_threads() -> int:
    """Threads to use: `LABKIT_THREADS` if set, else the cores free when this process first asks.

    Raises `ValueError` for a `LABKIT_THREADS` that is not a whole number of at least 1.
    """
    chosen = _from_env("LABKIT_THREADS")
    return _positive_int(chosen, "LABKIT_THREADS") if chosen else _free_at_start()


def choose_device() -> torch.device:
    """`LABKIT_DEVICE` if set (cpu, cuda, cuda:1, mps), else cuda where there is one, else cpu.

    Raises `ValueError` for a name torch does not know or a device this machine does not have.
    """
    chosen = _from_env("LABKIT_DEVICE")
    if not chosen:
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    advice = "cpu, cuda, cuda:1 or mps is accepted (unset it to have it chosen)"
    try:
        device = torch.device(chosen)
    except RuntimeError:
        raise ValueError(f"LABKIT_DEVICE is {chosen!r}, which names no device; {advice}") from None
    present = {"cpu": 1, "cuda": torch.cuda.device_count(), "mps": int(torch.backends.mps.is_available())}
    if (device.index or 0) >= present.get(device.type, 0):
        raise ValueError(f"LABKIT_DEVICE is {chosen!r}, which this machine or this torch lacks; {advice}")
    return device


def matmul_rate(dtype: torch.dtype, size: int = 512, seconds: float = 0.2) -> float:
    """CPU rate of a product of two `[size, size]` matrices, in GFLOP/s.

    Repeats for about `seconds` and takes the fastest, which warming up and other programs disturb least.
    """
    generator = torch.Generator().manual_seed(0)
    a, b = (torch.randn(size, size, generator=generator).to(dtype) for _ in range(2))
    fastest, end = math.inf, time.perf_counter() + seconds
    while True:
        start = time.perf_counter()
        a @ b
        now = time.perf_counter()
        fastest = min(fastest, now - start)
        if now >= end:
            return 2 * size**3 / fastest / 1e9


def cpu_name() -> str:
    """The processor's name, as exact as the system tells."""
    try:
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    except OSError:
        pass
    return platform.processor() or platform.machine()


def measure_rates() -> dict[str, float]:
    """Rate of each dtype in `DTYPES` for a large product, in GFLOP/s. Takes about a second."""
    return {name: matmul_rate(dtype, LARGE, seconds=0.3) for name, dtype in DTYPES.items()}


def _read_rates(path: Path) -> dict[str, dict[str, float]]:
    """What the cache holds of well-formed measurements; empty if it is missing or damaged."""
    try:
        stored = json.loads(path.read_text(encoding="utf-8"))
        return {
            key: {name: float(rates[name]) for name in DTYPES}
            for key, rates in stored.items()
            if all(math.isfinite(float(rates[name])) and float(rates[name]) > 0 for name in DTYPES)
        }
    except (OSError, ValueError, TypeError, KeyError, AttributeError):
        return {}


def cached_rates() -> dict[str, float]:
    """`measure_rates()` of this machine, from the cache folder if it was measured before.

    The measurement is kept per processor and torch version. A cache that cannot be read is measured
    again; one that cannot be written is done without.
    """
    path = cache_dir() / "matmul_rates.json"
    key = f"{cpu_name()} | torch {torch.__version__}"
    known = _read_rates(path)
    if key not in known:
        known[key] = measure_rates()
        try:
            atomic_write_text(path, json.dumps(known, indent=1))
        except OSError:
            pass
    return known[key]


def faster_dtype(rates: Mapping[str, float]) -> torch.dtype:
    """bfloat16 if its rate is at least `BF16_GAIN` times float32's, else float32."""
    return torch.bfloat16 if rates["bfloat16"] >= BF16_GAIN * rates["float32"] else torch.float32


def choose_dtype(device: torch.device | str = "cpu") -> torch.dtype:
    """`LABKIT_DTYPE` if set (float32 or bfloat16), else the faster one for large products on `device`.

    Raises `ValueError` for another `LABKIT_DTYPE`.
    """
    chosen = _from_env("LABKIT_DTYPE")
    if chosen:
        if chosen not in DTYPES:
            raise ValueError(
                f"LABKIT_DTYPE is {chosen!r}; {' or '.join(DTYPES)} is accepted (unset it to measure)"
            )
        return DTYPES[chosen]
    device = torch.device(device)
    if device.type == "cuda":
        return torch.bfloat16 if torch.cuda.is_bf16_supported(including_emulation=False) else torch.float32
    return faster_dtype(cached_rates()) if device.type == "cpu" else torch.float32


def configure(threads: int | None = None) -> Runtime:
    """Set torch's thread count and return what computations run on. Safe to call again.

    `threads` (at least 1) overrides `choose_threads()`. Raises `ValueError` for values that are not
    accepted, in the argument or in the environment.
    """
    threads = choose_threads() if threads is None else _positive_int(str(threads), "threads")
    # Setting it anew rebuilds the thread pool, so only when it differs.
    if torch.get_num_threads() != threads:
        torch.set_num_threads(threads)
    device = choose_device()
    return Runtime(threads, choose_dtype(device), device)
