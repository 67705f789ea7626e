"""Benchmarks: labkit's way of doing something against the obvious one, on this machine.

A benchmark is a function in a module of this package that returns (ours, theirs), registered by
`@benchmark`. Modules are found by themselves; adding one is adding a file.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable, Iterable
from dataclasses import dataclass

Measure = Callable[[], tuple[float, float]]


@dataclass(frozen=True)
class Benchmark:
    """A measurement of two ways to do one thing."""

    id: str
    """Name on the command line and in the results."""
    unit: str
    """Unit of both measurements, e.g. `hands/s`."""
    higher_is_better: bool
    """True for rates, False for times and sizes."""
    measure: Measure
    """Returns (ours, theirs), both positive."""

    def row(self) -> dict[str, str | float]:
        """Measure now; `ratio` above 1 means ours is better, whichever way the unit points."""
        ours, theirs = self.measure()
        ratio = ours / theirs if self.higher_is_better else theirs / ours
        return {"id": self.id, "ours": ours, "theirs": theirs, "ratio": ratio, "unit": self.unit}


_REGISTRY: dict[str, Benchmark] = {}


def benchmark(id: str, unit: str, higher_is_better: bool = True) -> Callable[[Measure], Measure]:
    """Register a function without arguments that returns (ours, theirs) in `unit`.

    Raises `ValueError` if another function already has this id.
    """

    def register(measure: Measure) -> Measure:
        known = _REGISTRY.get(id)
        if known and (known.measure.__module__, known.measure.__qualname__) != (
            measure.__module__,
            measure.__qualname__,
        ):
            raise ValueError(f"benchmark id {id!r} is taken by {known.measure.__module__}; choose another")
        _REGISTRY[id] = Benchmark(id, unit, higher_is_better, measure)
        return measure

    return register


def benchmarks() -> dict[str, Benchmark]:
    """Every benchmark by id, after importing the modules of this package."""
    for module in pkgutil.iter_modules(__path__, f"{__name__}."):
        importlib.import_module(module.name)
    return dict(sorted(_REGISTRY.items()))


def run_benchmarks(only: Iterable[str] | None = None) -> list[dict[str, str | float]]:
    """Measure all benchmarks, or those with the ids in `only`: rows of {id, ours, theirs, ratio, unit}.

    Raises `ValueError` for an id that does not exist.
    """
    known = benchmarks()
    chosen = list(known) if only is None else list(only)
    unknown = [id for id in chosen if id not in known]
    if unknown:
        raise ValueError(f"no benchmark {', '.join(map(repr, unknown))}; there are: {', '.join(known)}")
    return [known[id].row() for id in chosen]
