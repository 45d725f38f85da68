"""Intervals and tests of differences, against scipy and by hand."""

import math

import numpy as np
import pytest
from scipy import stats

from leadline.selection.paired import corrected_error, interval, p_of_permutations, p_of_signs, p_of_t

VALUES = [0.02, -0.01, 0.05, 0.03, 0.04, 0.01, 0.00, 0.06]


def test_without_overlap_it_is_students_t():
    ours, theirs = p_of_t(VALUES, 0.0), stats.ttest_1samp(VALUES, 0.0)
    assert ours == pytest.approx((theirs.statistic, theirs.pvalue))
    assert interval(VALUES, 0.0) == pytest.approx(tuple(theirs.confidence_interval(0.95)))


def test_the_correction_is_that_of_nadeau_and_bengio():
    s = np.std(VALUES, ddof=1)
    assert corrected_error(VALUES, 1 / 9) == pytest.approx(s * math.sqrt(1 / 8 + 1 / 9))
    assert p_of_t(VALUES, 1 / 9)[1] > p_of_t(VALUES, 0.0)[1]


def test_signs_are_a_binomial():
    assert p_of_signs(VALUES) == pytest.approx(stats.binomtest(1, 7).pvalue)
    assert p_of_signs([0.0, 0.0]) == 1.0


@pytest.mark.parametrize("values", [VALUES, [0.1] * 3, np.random.default_rng(0).normal(0.2, 1, 20).tolist()])
def test_permutations_agree_with_scipy(values):
    def mean(x, axis):
        return np.mean(x, axis=axis)

    n = np.inf if len(values) <= 14 else 20_000
    theirs = stats.permutation_test((np.array(values),), mean, permutation_type="samples", n_resamples=n, rng=1)
    assert p_of_permutations(values) == pytest.approx(theirs.pvalue, abs=0 if n == np.inf else 0.02)


def test_one_value_tells_nothing_and_equal_ones_everything():
    assert math.isnan(corrected_error([1.0], 0.1)) and all(map(math.isnan, p_of_t([1.0], 0.1)))
    assert p_of_t([0.0, 0.0], 0.1) == (0.0, 1.0) and p_of_t([1.0, 1.0], 0.1) == (math.inf, 0.0)
