"""How sure a network grows, and how right it is; reliability and coverage against brute force."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

import leadline as ll
from leadline.engine.events import RunStarted, StepsDone
from leadline.errors import UserError
from leadline.likelihoods.calibration import expected_error, expected_error_even


def test_error_loss_and_confidence_of_each_kept_step():
    torch.manual_seed(0)
    model = nn.Linear(2, 3)
    x, y = torch.randn(30, 2), torch.arange(30) % 3
    path, expected = ll.lens.Path(model), []
    for k in range(3):
        with torch.no_grad():
            model.weight.mul_(2)
        path(StepsDone(0, k, torch.zeros(1)) if k else RunStarted(1, 3))
        p = model(x).softmax(1).detach().double()
        expected.append(
            [(p.argmax(1) != y).double().mean(), -p[torch.arange(30), y].log().mean(), p.max(1).values.mean()]
        )
    with torch.no_grad():
        model.weight.zero_()  # what it is now does not count
    data = ll.data.Data(*(ll.data.Split(x, y),) * 3, ll.data.Target("classes", classes=("a", "b", "c")))
    view = ll.lens.confidence(model, data, path, splits=("val", "test"), likelihood=ll.likelihoods.Categorical(3))
    for k in (0, 1):
        assert np.allclose(np.stack([view.error[k], view.loss[k], view.confidence[k]], 1), expected, rtol=1e-5)
    assert not view.gap.any() and (np.diff(view.logits[0]) > 0).all() and view.steps.tolist() == [0, 1, 2]


def test_yes_and_no_are_classes_too():
    model, data = nn.Linear(2, 1), ll.data.moons(num=60)
    path = ll.lens.Path(model)
    path(RunStarted(1, 1))
    view = ll.lens.confidence(model, data, path)
    p = torch.sigmoid(model(data.inputs.encode(data.test.x))[:, 0]).detach()
    assert view.confidence[1, 0] == pytest.approx(torch.maximum(p, 1 - p).mean().item(), rel=1e-5)
    assert view.error[1, 0] == pytest.approx(((p > 0.5) != data.test.y.bool()).double().mean().item())


def test_what_is_no_classifier_or_no_path_is_said():
    model = nn.Linear(2, 1)
    path = ll.lens.Path(model)
    with pytest.raises(UserError, match="no steps"):
        ll.lens.confidence(model, ll.data.moons(num=60), path)
    path(RunStarted(1, 1))
    with pytest.raises(UserError, match="classifier"):
        ll.lens.confidence(
            model,
            (torch.randn(4, 2), torch.randn(4)),
            path,
            likelihood=ll.likelihoods.Normal("fixed"),
            splits=["train"],
        )


@settings(max_examples=40, deadline=None)
@given(st.lists(st.tuples(st.floats(0.001, 1.0), st.booleans()), min_size=1, max_size=60), st.integers(1, 12))
def test_errors_of_bins_against_loops(rows, bins):
    confidence = torch.tensor([c for c, _ in rows], dtype=torch.float64)
    correct = torch.tensor([float(r) for _, r in rows], dtype=torch.float64)
    even = 0.0
    for k in range(bins):
        inside = [(c, r) for c, r in rows if k / bins < c <= (k + 1) / bins]
        even += abs(sum(r for _, r in inside) - sum(c for c, _ in inside)) / len(rows)
    safe = min(abs(c * bins - round(c * bins)) for c, _ in rows) > 1e-9
    if safe:
        assert float(expected_error_even(confidence, correct, bins)) == pytest.approx(even, abs=1e-9)
    # in one bin both are the distance of accuracy and confidence
    one = abs(float(correct.mean() - confidence.mean()))
    assert float(expected_error(confidence, correct, 1)) == pytest.approx(one, abs=1e-12)
    assert float(expected_error(confidence, correct, bins)) >= one - 1e-12


def test_error_of_equal_bins_by_hand():
    confidence = torch.tensor([0.5, 0.5, 0.9, 0.9])
    correct = torch.tensor([1.0, 0.0, 0.0, 1.0])  # gaps: 0 in the first bin, 0.4 in the second
    assert float(expected_error(confidence, correct, bins=2)) == pytest.approx(0.2)


def probabilities(n, temperature, seed=0):
    g = torch.Generator().manual_seed(seed)
    logits = 1.5 * torch.randn(n, 3, generator=g)
    y = torch.multinomial(logits.softmax(1), 1, generator=g)[:, 0]
    return ll.likelihoods.Categorical(3).prediction(logits / temperature), y


def test_a_reliability_diagram_tells_true_from_bold():
    from sklearn.calibration import calibration_curve

    prediction, y = probabilities(3000, 1.0)
    true, bold = ll.lens.calibration(prediction, y), ll.lens.calibration(*probabilities(3000, 0.4))
    assert true.error < true.chance_most < bold.error and bold.confidence > bold.accuracy + 0.05
    confidence, choice = prediction.probabilities.max(1)
    right, sure = calibration_curve((choice == y).numpy(), confidence.numpy(), n_bins=10, strategy="quantile")
    assert np.allclose(true.right, right, atol=1e-6) and np.allclose(true.sure, sure, atol=1e-6)
    assert ((true.low < true.sure) & (true.sure < true.high)).sum() >= 8 and (bold.high < bold.sure).sum() >= 5
    assert (true.low <= true.right).all() and true.count.sum() == 3000 and true.plot().axes


def test_coverage_and_places_of_numbers():
    y = torch.randn(4000, generator=torch.Generator().manual_seed(0))
    normal = ll.likelihoods.Normal(variance="fixed")
    zero = torch.zeros(4000, 1)
    true, narrow = (ll.lens.calibration(normal.prediction(zero), s * y) for s in (1.0, 1.5))
    assert true.distance < 0.03 < 0.1 < narrow.distance
    brute = [float((y.abs() <= torch.distributions.Normal(0, 1).icdf(torch.tensor((1 + p) / 2))).double().mean())
             for p in true.levels]  # fmt: skip
    assert np.allclose(true.held, brute, atol=1e-3)
    assert np.allclose(np.sort(true.pit), np.linspace(0, 1, 4000), atol=0.03) and narrow.plot().axes


def test_counts_have_a_place_in_their_step():
    rate = torch.full((4000, 1), 0.7)
    prediction = ll.likelihoods.Poisson().prediction(rate)
    y = torch.poisson(prediction.mean, generator=torch.Generator().manual_seed(0))
    view = ll.lens.calibration(prediction, y)
    assert np.allclose(np.sort(view.pit), np.linspace(0, 1, 4000), atol=0.03)


def test_a_run_is_judged_on_its_split():
    data = ll.data.moons(num=200)
    run = ll.fit(ll.models.MLP(2, (8,), 1), data, epochs=3, progress=False)
    view = ll.lens.calibration(run, split="val", bins=4)
    assert len(view.sure) == 4 and view.count.sum() == len(data.val)
    assert view.accuracy == pytest.approx(run.evaluate("val")["accuracy"])
    with pytest.raises(UserError, match="what came true"):
        ll.lens.calibration(run.predict(data.val.x))
    with pytest.raises(UserError, match="one value"):
        ll.lens.calibration(run.predict(data.val.x), data.test.y[:3])


@pytest.mark.parametrize("places", [1, 6])
def test_tokens_are_no_column_of_classes(places):
    y = torch.randint(5, (20, places))
    prediction = ll.likelihoods.Tokens(5).prediction(torch.randn(20, places, 5))
    with pytest.raises(UserError, match=rf"one column of y. Got y of shape \(20, {places}\). .* one place of each row"):
        ll.lens.calibration(prediction, y)
    found = ll.lens.calibration(ll.likelihoods.Categorical(5).prediction(torch.randn(20, 5)), y[:, 0])
    assert found.count.sum() == 20
