"""Balanced sets, mixes, fitted shares and the linear model, against counts and closed forms."""

import itertools
from collections import Counter

import numpy as np
import pytest

from labkit.knowledge.categories import CATEGORIES, Category, Knowledge
from labkit.knowledge.facts import Fact
from labkit.knowledge.mixing import balanced, fit_linear, fitted_shares, known_or_unknown, mix

OUTCOMES = dict(
    zip(
        CATEGORIES,
        [((True,), (1,)), ((True, False), (0, 0)), ((False,), (1,)), ((False,), (0,))],
        strict=True,
    )
)


def make(relation, **numbers):
    return [
        Knowledge(Fact(relation, f"{name}{i}", "?", ("x",)), *OUTCOMES[Category[name]], samples=1)
        for name, number in numbers.items()
        for i in range(number)
    ]


EASY = make("easy", HIGHLY_KNOWN=9, MAYBE_KNOWN=5, WEAKLY_KNOWN=2, UNKNOWN=3)
HARD = make("hard", HIGHLY_KNOWN=1, MAYBE_KNOWN=2, WEAKLY_KNOWN=3, UNKNOWN=20)
FOUND = EASY + HARD


def counts(found, group):
    return Counter((k.fact.relation, group(k.category)) for k in found)


def test_balanced_takes_as_many_unknown_as_known_of_each_relation():
    kept = balanced(FOUND, seed=0)
    expected = {"easy": 3, "hard": 6}
    assert counts(kept, known_or_unknown) == {
        (r, g): n for r, n in expected.items() for g in ("Known", "Unknown")
    }
    assert balanced(FOUND, seed=0) == kept != balanced(FOUND, seed=1)


def test_balanced_by_category():
    kept = balanced(FOUND, 0, groups=str)
    assert counts(kept, str) == {(r, str(c)): n for r, n in (("easy", 2), ("hard", 1)) for c in CATEGORIES}


def test_a_relation_without_one_of_the_groups_is_left_out():
    assert balanced(EASY + make("lost", UNKNOWN=5), 0) == balanced(EASY, 0)


@pytest.mark.parametrize(("share", "unknown"), [(0, 0), (0.25, 5), (0.5, 10), (1, 20)])
def test_a_mix_has_the_size_and_share_asked_for(share, unknown):
    kinds = Counter(known_or_unknown(k.category) for k in mix(FOUND, 20, share, seed=0))
    assert kinds == Counter({"Unknown": unknown, "Known": 20 - unknown})


def test_the_ablation_has_the_same_known_facts_alone():
    whole, known = mix(FOUND, 20, 0.4, seed=3), mix(FOUND, 20, 0.4, seed=3, known_only=True)
    assert set(map(id, known)) == {id(k) for k in whole if k.category is not Category.UNKNOWN}
    assert len(known) == 12


def test_larger_shares_keep_the_unknown_facts_of_smaller_ones():
    sets = [
        {id(k) for k in mix(FOUND, 20, share, seed=0) if k.category is Category.UNKNOWN}
        for share in (0.1, 0.3, 0.9)
    ]
    assert sets[0] < sets[1] < sets[2]


def test_a_mix_that_cannot_be_is_refused():
    with pytest.raises(ValueError, match="30 Unknown facts asked for, 23 given"):
        mix(FOUND, 30, 1.0, seed=0)
    with pytest.raises(ValueError, match="between 0 and 1"):
        mix(FOUND, 10, 50, seed=0)


def test_fitted_shares_are_shares_of_the_whole_set():
    for correct in itertools.product((False, True), repeat=4):
        weak, high, unknown, other = correct
        categories = (Category.WEAKLY_KNOWN, Category.HIGHLY_KNOWN, Category.UNKNOWN, Category.UNKNOWN)
        assert fitted_shares(correct, categories) == ((weak + high) / 4, (unknown + other) / 4)
    with pytest.raises(ValueError, match="no examples"):
        fitted_shares([], [])


def test_the_linear_model_finds_the_paper_s_coefficients_again():
    rng = np.random.default_rng(0)
    known, unknown = rng.random((2, 30))
    fit = fit_linear(known, unknown, 36.9 + 7.3 * known - 8.3 * unknown)
    assert (fit.intercept, fit.known, fit.unknown) == pytest.approx((36.9, 7.3, -8.3))
    assert fit.r_squared == pytest.approx(1)
    assert fit.predict([0, 1], [0, 1]) == pytest.approx([36.9, 35.9])


def test_r_squared_and_coefficients_of_four_points_by_hand():
    # A 2 x 2 design: effects are differences of means, and the interaction of 4 · 0.5² is what is left.
    fit = fit_linear([0, 0, 1, 1], [0, 1, 0, 1], [1.5, 0.5, 2.5, 2.5])
    assert (fit.intercept, fit.known, fit.unknown) == pytest.approx((1.25, 1.5, -0.5))
    assert fit.r_squared == pytest.approx(1 - 0.25 / 2.75)


def test_shares_that_move_together_do_not_determine_a_fit():
    with pytest.raises(ValueError, match="determine 2 of 3"):
        fit_linear([0, 0.5, 1], [0, 0.25, 0.5], [1, 2, 3])
