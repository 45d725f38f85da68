"""Losses that are no likelihoods, and say so."""

import json
import math

import pytest
import torch

import leadline as ll
from leadline.data.target import Target
from leadline.errors import DataError, ShapeError, UnknownName, UserError
from leadline.likelihoods import Distance, Margin, likelihood_for
from leadline.likelihoods.margin import DISTANCES, NoDensity
from leadline.testing import check_likelihood

BY_HAND = {
    "perceptron": lambda m: max(0.0, -m),
    "hinge": lambda m: max(0.0, 1 - m),
    "squared_hinge": lambda m: max(0.0, 1 - m) ** 2,
    "exponential": lambda m: math.exp(-m),
}


@pytest.mark.parametrize("name", BY_HAND)
def test_margin_losses_by_hand_and_by_contract(name):
    torch.manual_seed(0)
    output, y = 2 * torch.randn(9, 1), torch.arange(9) % 2
    margins = ((2 * y - 1) * output.flatten()).tolist()
    assert Margin(name).loss(output, y).tolist() == pytest.approx([BY_HAND[name](m) for m in margins], rel=1e-5)
    check_likelihood(Margin(name), output, y)


@pytest.mark.parametrize("name", BY_HAND)
def test_margin_losses_stay_finite(name):
    output = torch.tensor([[1e4], [-1e4], [50.0], [-50.0]], requires_grad=True)
    for y in (torch.zeros(4), torch.ones(4)):
        loss = Margin(name).loss(output, y)
        (gradient,) = torch.autograd.grad(loss.sum(), output)
        assert bool(loss.isfinite().all()) and bool(gradient.isfinite().all())


def test_the_exponential_goes_straight_on_without_a_step():
    m = torch.tensor([-29.999, -30.0, -30.001], dtype=torch.float64)
    loss = Margin("exponential").loss(m[:, None], torch.ones(3))
    assert bool((loss.diff() > 0).all()) and float(loss.diff()[1] / loss.diff()[0]) == pytest.approx(1.0, rel=2e-3)


def test_a_score_of_zero_is_no_answer():
    found = Margin().measures(torch.tensor([[0.0], [0.0], [1.0], [-1.0]]), torch.tensor([0, 1, 1, 0]))
    assert found["accuracy"].tolist() == [0.0, 0.0, 1.0, 1.0] and "nll" not in found


def test_what_has_no_density_says_so():
    for likelihood, output in ((Margin("hinge"), torch.zeros(2, 1)), (Distance("absolute"), torch.zeros(2, 1))):
        prediction = likelihood.prediction(output)
        assert prediction.mode.shape == (2,) and len(prediction) == 2
        for ask in (
            lambda p=prediction: p.log_prob(torch.zeros(2)),
            lambda p=prediction: p.interval(0.9),
            lambda p=prediction: p.quantile(0.5),
            lambda p=prediction: p.sample(2),
            lambda p=prediction: p.mean,
            lambda p=prediction: p.std,
            lambda p=prediction: p.distribution,
            lambda model=likelihood, out=output: model.distribution(out),
        ):
            with pytest.raises(NoDensity, match="only a likelihood has a density.*a loss without probabilities"):
                ask()


@pytest.mark.parametrize(("name", "wanted"), [("absolute", 7.0), ("squared", 25.0), ("largest", 4.0), ("cosine", None)])
def test_distances(name, wanted):
    torch.manual_seed(0)
    loss = Distance(name, dim=2).loss(torch.tensor([[1.0, 1.0]]), torch.tensor([[4.0, -3.0]]))
    assert loss.item() == pytest.approx(1 - 1 / math.sqrt(50) if wanted is None else wanted)
    check_likelihood(Distance(name, dim=2), torch.randn(5, 2), torch.randn(5, 2))
    if name != "cosine":
        check_likelihood(Distance(name), torch.randn(5, 1), torch.randn(5))


def relative(y, output):
    return ((y - output).abs() / (1 + y.abs())).mean(-1)


def test_a_distance_of_ones_own(tmp_path):
    likelihood = Distance(relative)
    assert likelihood.loss(torch.tensor([[3.0]]), torch.tensor([1.0])).item() == 1.0
    check_likelihood(likelihood, torch.randn(5, 1), torch.randn(5))
    assert json.loads(json.dumps(likelihood.config)) == {"measure": "relative", "dim": 1}
    data = ll.data.line(num=60, val=0.0)
    model = ll.models.Linear(1, 1)
    run = ll.fit(model, data, likelihood=likelihood, epochs=60, lr=0.05, progress=False)
    assert run.evaluate("test")["distance"] < 0.3
    del DISTANCES["relative"]
    with pytest.raises(UnknownName, match="distance must be a known name"):
        Distance("relative")  # a stranger's file cannot bring a function along


def test_a_distance_is_one_number_a_row():
    def whole(y, output):
        return (y - output).abs().sum()

    with pytest.raises(ShapeError, match="one number a row"):
        Distance(whole).loss(torch.zeros(3, 1), torch.zeros(3))
    del DISTANCES["whole"]


def test_hinge_learns_what_can_be_parted():
    data = ll.data.separable(num=300, margin=0.1, val=0.0)
    run = ll.fit(ll.models.Linear(2, 1), data, likelihood="margin", epochs=60, lr=0.05, progress=False)
    found = run.evaluate("test")
    assert found["accuracy"] > 0.97 and set(found) == {"loss", "accuracy"}
    assert set(run.predict(data.test.x).mode.tolist()) <= {0, 1}


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: Margin("hing"), "Did you mean hinge"),
        (lambda: Distance("euclid"), "distance must be a known name"),
        (lambda: Distance(lambda y, f: y), "a function that has one"),
        (lambda: Distance(3), "a function that has one"),
        (lambda: Distance(dim=0), "dim must be"),
        (lambda: Margin().check(torch.tensor([0, 2])), "0 … 1"),
        (lambda: Distance().check(torch.zeros(3, 2)), "shape \\(n,\\)"),
        (lambda: Distance(dim=2).check(torch.zeros(3)), "shape \\(n, 2\\)"),
        (lambda: Distance().check(torch.zeros(3, dtype=torch.int64)), "floating-point"),
        (lambda: likelihood_for(Target("real"), "Margin"), "must fit the target"),
    ],
)
def test_bad_arguments_are_explained(call, words):
    with pytest.raises(UserError, match=words):
        call()


def test_a_known_distance_keeps_its_meaning():
    def squared(y, output):
        return 0 * (y - output).sum(-1)

    with pytest.raises(UserError, match="name of a known one"):
        Distance(squared)
    with pytest.raises(DataError):
        Distance().check(torch.zeros(3, dtype=torch.int64))
