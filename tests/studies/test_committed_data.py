"""What every study's committed data must be."""

from __future__ import annotations

import pytest

from labkit.studies import STUDIES, get_study
from labkit.study import config_hash, load_arm


@pytest.mark.parametrize("name", STUDIES)
def test_committed_data_are_of_the_present_settings_and_all_seeds_are_there(name) -> None:
    study = get_study(name)
    for arm, config in study.arms("full").items():
        rows = load_arm(study, "full", arm)
        command = f"run `python -m labkit run {name} --profile full`"
        assert len(rows), f"{arm} is missing: {command}"
        assert set(rows["config"]) == {config_hash(study, config)}, f"{arm} is of other settings: {command}"
        assert set(rows["seed"]) == set(range(study.seeds["full"])), f"{arm}: {command}"
