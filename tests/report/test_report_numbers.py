"""The arrays behind the page, against scikit-learn, closed forms and hand counts."""

import numpy as np
import pytest
import torch
from sklearn.metrics import confusion_matrix, precision_recall_fscore_support
from trained_runs import class_data, real_data, train

from leadline.likelihoods import NegativeBinomial, Normal, Poisson
from leadline.report.numbers import (
    LEVELS,
    Answers,
    confusion,
    coverage,
    per_class,
    reliability,
    some,
    top_confusions,
    wilson,
    worst,
)


@pytest.fixture
def codes():
    draw = np.random.default_rng(0)
    return draw.integers(0, 5, 300), draw.integers(0, 5, 300)


def test_confusion_is_scikit_learns(codes):
    assert (confusion(*codes, 5) == confusion_matrix(*codes)).all()


def test_per_class_is_scikit_learns(codes):
    expected = precision_recall_fscore_support(*codes)
    for values, theirs in zip(per_class(confusion(*codes, 5)).values(), expected, strict=True):
        np.testing.assert_allclose(values, theirs)


def test_a_class_that_is_nowhere_has_no_score():
    scores = per_class(np.array([[3, 0], [0, 0]]))
    assert np.isnan([scores[name][1] for name in ("precision", "recall", "f1")]).all()


def test_top_confusions_leave_out_right_answers():
    counts = np.array([[9, 0, 1], [4, 9, 0], [0, 0, 9]])
    assert top_confusions(counts) == [(1, 0, 4), (0, 2, 1)]


def test_calibrated_answers_have_no_calibration_error():
    draw = np.random.default_rng(0)
    p = draw.uniform(0, 1, 200_000)
    assert reliability(p, draw.uniform(0, 1, len(p)) < p).ece < 0.01
    assert reliability(p, draw.uniform(0, 1, len(p)) < p**2).ece == pytest.approx(1 / 6, abs=0.01)  # mean of p - p²


def test_too_sure_and_too_unsure_do_not_cancel():
    p, hit = np.repeat([0.25, 0.75], 100), np.tile([0, 1], 100)
    assert reliability(p, hit).ece == pytest.approx(0.25)


def test_reliability_counts_every_row_once():
    bins = reliability(np.array([0.0, 0.05, 0.1, 0.999, 1.0, np.nan]), np.array([0, 0, 1, 1, 1, 1]))
    assert bins.rows.tolist() == [2, 1, 2] and bins.left.tolist() == [0.0, 0.1, 0.9]
    assert bins.frequency.tolist() == [0, 1, 1]


def test_wilson_interval_of_none_in_ten():
    low, high = wilson(np.array([0.0]), np.array([10]))
    assert low[0] == 0 and high[0] == pytest.approx(0.2775, abs=1e-4)


def test_intervals_of_the_true_distribution_cover_as_they_say():
    likelihood = Normal(variance="fixed", sigma=2.0)
    draw = torch.Generator().manual_seed(0)
    output = torch.randn(20000, 1, generator=draw)
    y = output[:, 0] + 2 * torch.randn(20000, generator=draw)
    answers = Answers(y.double().numpy(), likelihood.prediction(output), np.zeros(20000))
    np.testing.assert_allclose(coverage(answers)[:, 0], LEVELS, atol=0.015)


@pytest.mark.parametrize("likelihood", [Poisson(1.3), NegativeBinomial("fixed", 0.8, scale=1.3)])
def test_honest_counts_cover_as_they_say(likelihood):
    """The 10 % interval of so few counts holds twice as many and more: its ends are whole."""
    prediction = likelihood.prediction(torch.zeros(20000, 1))
    y = prediction.sample(1, seed=1)[0]
    answers = Answers(y.double().numpy(), prediction, np.zeros(20000))
    assert prediction.holds(y, 0.1).double().mean() > 0.2
    np.testing.assert_allclose(coverage(answers)[:, 0], LEVELS, atol=0.015)
    narrow = Answers(2 * answers.y, prediction, np.zeros(20000))
    assert coverage(narrow)[-2, 0] < 0.8


def test_classes_have_no_coverage():
    assert coverage(Answers.of(train(class_data()), "test")) is None


def test_answers_are_what_the_likelihood_says():
    facts = train(real_data(dim=2))
    answers = Answers.of(facts, "test")
    mu, _ = facts.likelihood.parameters_of(facts.outputs["test"])
    np.testing.assert_allclose(answers.mean, mu.detach().numpy(), rtol=1e-6)
    assert answers.nll.mean() == pytest.approx(facts.evaluations["test"]["nll"], rel=1e-6)
    assert answers.probabilities is None


def test_worst_puts_what_is_not_a_number_first():
    assert worst(np.array([1.0, np.inf, np.nan, 5.0]), 3).tolist() == [1, 2, 3]


def test_some_is_the_same_choice_each_time():
    assert (some(5000, 100) == some(5000, 100)).all() and len(set(some(5000, 100))) == 100
    assert some(7, 100).tolist() == list(range(7))
