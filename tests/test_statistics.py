import numpy as np
import pandas as pd
import pytest
from scipy import stats

from labkit.statistics import (
    Effect,
    Verdict,
    bootstrap_interval,
    effect,
    first_crossing,
    summarise,
    t_interval,
    verdict,
)


@pytest.mark.parametrize("level", [0.5, 0.95])
@pytest.mark.parametrize("number", [2, 5, 30])
def test_t_interval_equals_scipys(number, level):
    values = np.random.default_rng(number).normal(3, 2, number)
    expected = stats.ttest_1samp(values, 0).confidence_interval(level)
    assert t_interval(values, level) == pytest.approx((expected.low, expected.high))


def test_one_value_says_nothing_about_the_spread():
    assert t_interval([2.0]) == (float("-inf"), float("inf"))
    assert verdict(effect([2.0]), 0.1) == Verdict.INCONCLUSIVE
    assert bootstrap_interval([2.0]) == (2.0, 2.0)


def coverage(interval, number, samples=1000):
    """How often the interval of `number` standard normal values holds their mean, 0."""
    data = np.random.default_rng(3).normal(size=(samples, number))
    return np.mean([low <= 0 <= high for low, high in map(interval, data)])


def test_five_seeds_cover_as_often_as_the_docstring_says():
    # Standard error of these shares: about .012.
    assert coverage(bootstrap_interval, 5) == pytest.approx(0.83, abs=0.03)
    assert coverage(t_interval, 5) == pytest.approx(0.95, abs=0.025)


def test_bootstrap_stays_in_the_range_of_the_data_and_repeats_itself():
    values = [0.0, 0.0, 1.0]
    low, high = bootstrap_interval(values)
    assert 0.0 <= low <= 1 / 3 <= high <= 1.0
    assert bootstrap_interval(values) == (low, high)
    # 1000 values: as narrow as the normal approximation.
    many = np.random.default_rng(0).normal(size=1000)
    half = 1.96 * many.std() / np.sqrt(1000)
    assert bootstrap_interval(many) == pytest.approx((many.mean() - half, many.mean() + half), abs=0.01)


@pytest.mark.parametrize("interval", [bootstrap_interval, t_interval])
def test_no_values_have_no_interval(interval):
    with pytest.raises(ValueError, match="no values"):
        interval([])


def test_summary_takes_each_seed_once_however_many_rows_it_has():
    frame = pd.DataFrame(
        {
            "arm": ["a"] * 4 + ["b"],
            "step": [1, 1, 1, 1, 1],
            "seed": [0, 0, 0, 1, 0],
            "score": [0.0, 0.0, 0.0, 1.0, 5.0],
        }
    )
    summary = summarise(frame, ["arm", "step"], "score")
    assert list(summary.columns) == ["arm", "step", "mean", "low", "high", "seeds"]
    first, second = summary.to_dict("records")
    assert (first["arm"], first["mean"], first["seeds"]) == ("a", 0.5, 2)
    assert (first["low"], first["high"]) == bootstrap_interval([0.0, 1.0])
    assert (second["mean"], second["low"], second["high"], second["seeds"]) == (5.0, 5.0, 5.0, 1)
    assert list(summarise(frame, ["arm"], "score")["arm"]) == ["a", "b"]


@pytest.mark.parametrize(
    ("low", "high", "expected"),
    [
        (0.01, 0.20, Verdict.REPRODUCED),
        (1e-9, 0.02, Verdict.REPRODUCED),
        (-0.20, -0.01, Verdict.REVERSED),
        (-0.02, 0.04, Verdict.NOT_REPRODUCED),
        (0.0, 0.04, Verdict.NOT_REPRODUCED),
        (0.0, 0.0, Verdict.NOT_REPRODUCED),
        (-0.20, 0.0, Verdict.NOT_REPRODUCED),
        (-0.02, 0.06, Verdict.INCONCLUSIVE),
        (-0.02, 0.05, Verdict.INCONCLUSIVE),
        (float("-inf"), float("inf"), Verdict.INCONCLUSIVE),
    ],
)
def test_verdict_table(low, high, expected):
    # The least effect that would matter is .05.
    assert verdict(Effect((low + high) / 2, low, high, 5), 0.05) == expected


def test_an_effect_that_matters_must_be_positive():
    for smallest in (0.0, -0.1):
        with pytest.raises(ValueError, match="must be positive"):
            verdict(Effect(0.1, 0.0, 0.2, 5), smallest)


def test_effect_is_the_mean_of_differences_with_its_t_interval():
    differences = [0.1, 0.3, 0.2, 0.25]
    measured = effect(differences)
    assert (measured.low, measured.high) == t_interval(differences)
    assert (measured.mean, measured.seeds) == (pytest.approx(0.2125), 4)


@pytest.mark.parametrize(
    ("x", "target", "expected"),
    [
        ([0.0, 1.0, 2.0], 1.0, 20.0),
        ([0.0, 1.0, 2.0], 1.25, 22.5),
        ([0.0, 0.5, 0.25, 1.0], 0.4, 18.0),  # the first time, though it falls back below
        ([3.0, 1.0, 4.0], 2.0, 10.0),  # there from the start
        ([1.0], 1.0, 10.0),
    ],
)
def test_first_crossing_by_hand(x, target, expected):
    y = [10.0, 20.0, 30.0, 40.0][: len(x)]
    assert first_crossing(x, y, target) == pytest.approx(expected)


def test_a_target_never_reached_is_nan_and_curves_must_match():
    assert np.isnan(first_crossing([0.0, 1.0], [5.0, 6.0], 1.5))
    for x, y in (([0.0], [1.0, 2.0]), ([], [])):
        with pytest.raises(ValueError, match="both need the same number"):
            first_crossing(x, y, 0.5)
