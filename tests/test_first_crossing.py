import math

import pytest

from labkit.statistics import first_crossing


def test_the_first_crossing_is_interpolated_in_the_order_of_the_curve():
    assert first_crossing([0, 1, 0, 1], [10, 20, 30, 40], 0.25) == pytest.approx(12.5)
    assert first_crossing([0.0, 0.2, 0.1, 0.6], [4, 3, 2, 1], 0.5) == pytest.approx(1.2)


def test_a_curve_has_crossed_at_its_first_point_if_it_starts_above():
    assert first_crossing([0.5, 0.1, 0.9], [7, 8, 9], 0.4) == 7
    assert first_crossing([0.4], [7], 0.4) == 7


def test_a_point_on_the_target_counts_and_so_does_its_first_of_two():
    assert first_crossing([0.1, 0.3, 0.3, 0.5], [1, 2, 3, 4], 0.3) == 2


def test_never_is_nan():
    assert math.isnan(first_crossing([0.1, 0.2], [1, 2], 0.3))


@pytest.mark.parametrize("curves", [([], []), ([0.1], [1, 2])])
def test_curves_that_do_not_match_are_refused(curves):
    with pytest.raises(ValueError, match="same"):
        first_crossing(*curves, 0.5)
