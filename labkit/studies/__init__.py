"""The workbook's studies by name: what `python -m labkit run NAME` and `figures` know."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from labkit.claims import Claim
    from labkit.plotting import Drawing
    from labkit.study import Study

STUDIES = {
    "points24": "labkit.studies.points24",
    "points24-tuning": "labkit.studies.points24.tuning",
    "ppo_grpo": "labkit.studies.ppo_grpo",
    "ppo_grpo-tuning": "labkit.studies.ppo_grpo.tuning",
    "react": "labkit.studies.react",
    "react-tuning": "labkit.studies.react.tuning",
    "early_experience": "labkit.studies.early_experience",
    "early_experience-tuning": "labkit.studies.early_experience.tuning",
    "knowledge": "labkit.studies.knowledge",
    "knowledge-tuning": "labkit.studies.knowledge.tuning",
}
"""Name of a study -> module with `STUDY`, its `CLAIMS` and its `FIGURES` (drawings of `labkit.plotting`)."""


def _make_points24_base(profile: str) -> None:
    from labkit.studies.points24.base import main

    main(profile)


def _make_react_base(profile: str) -> None:
    from labkit.agents.base import main

    main(profile)


def _make_react_agent(profile: str) -> None:
    from labkit.studies.react.agent import main

    main(profile)


def _make_knowledge_base(profile: str) -> None:
    from labkit.studies.knowledge.twin import main

    main(profile)


def _measure_speed(profile: str) -> None:
    from labkit.bench.scaling import main

    main(profile)


COMMANDS: dict[str, Callable[[str], None]] = {
    "points24-base": _make_points24_base,
    "react-base": _make_react_base,
    "react-agent": _make_react_agent,
    "knowledge-base": _make_knowledge_base,
    "speed": _measure_speed,
}
"""Things `run` makes that are not studies: name -> function of the profile."""


def _module(name: str):
    if name not in STUDIES:
        known = ", ".join([*STUDIES, *COMMANDS])
        raise ValueError(f"no study {name!r}; there are {known}")
    return import_module(STUDIES[name])


def get_study(name: str) -> Study:
    """The study of that name; ValueError, naming those there are, if there is none."""
    return _module(name).STUDY


def get_claims(name: str) -> list[Claim]:
    """The claims that a study tests."""
    return _module(name).CLAIMS


def get_figures(name: str) -> list[Drawing]:
    """The figures drawn from a study's data."""
    return _module(name).FIGURES


def draw_figures(study: str | None = None) -> list[Path]:
    """Draw the figures of one study (or all) from its full-profile data, then ledger and gallery."""
    from labkit.bench import charts
    from labkit.claims import write_ledger
    from labkit.gallery import write_gallery, write_readme_claims
    from labkit.plotting import save_drawings
    from labkit.study import load_study

    paths = []
    for name in [study] if study else STUDIES:
        if figures := get_figures(name):
            paths += save_drawings(figures, load_study(get_study(name)))
    return [
        *paths,
        *([] if study else charts.draw_figures()),
        write_ledger(),
        write_gallery(),
        write_readme_claims(),
    ]
