import itertools
import math

import pytest
import torch

import leadline as ll
from leadline.errors import DataError, ShapeError, UserError
from leadline.likelihoods import PlackettLuce
from leadline.reference import orders as twin
from leadline.testing import check_likelihood


def rankings(count, items, seed=0):
    generator = torch.Generator().manual_seed(seed)
    return torch.rand(count, items, generator=generator).argsort(1)


@pytest.mark.parametrize("form", ["order", "ranks"])
@pytest.mark.parametrize("items", [2, 5])
def test_it_keeps_the_contract(items, form):
    torch.manual_seed(0)
    check_likelihood(PlackettLuce(items, form), torch.randn(12, items), rankings(12, items))


def test_the_loss_equals_the_twin_in_both_forms():
    torch.manual_seed(1)
    scores, y = 2 * torch.randn(20, 6).double(), rankings(20, 6)
    by_order, by_ranks = PlackettLuce(6).loss(scores, y), PlackettLuce(6, "ranks").loss(scores, y.argsort(1))
    torch.testing.assert_close(by_order, by_ranks)
    for k in range(20):
        assert float(by_order[k]) == pytest.approx(twin.ranking_loss(scores[k].tolist(), y[k].tolist()), rel=1e-9)


def test_all_rankings_add_up_to_one():
    scores = torch.randn(1, 4).double()
    orders = torch.tensor(list(itertools.permutations(range(4))))
    log_p = PlackettLuce(4).prediction(scores.expand(24, 4)).log_prob(orders)
    assert float(log_p.exp().sum()) == pytest.approx(1.0)
    best = orders[log_p.argmax()]
    assert torch.equal(PlackettLuce(4).prediction(scores).mode[0], best)


def test_places_and_samples_are_those_of_the_law():
    scores = torch.tensor([[1.0, 0.0, -1.0, 0.5]]).double()
    prediction = PlackettLuce(4).prediction(scores)
    wanted = [twin.mean_place(scores[0].tolist(), item) for item in range(4)]
    assert prediction.mean[0].tolist() == pytest.approx(wanted, abs=1e-9)
    drawn = prediction.sample(20_000, seed=3)[:, 0]
    first = torch.bincount(drawn[:, 0], minlength=4) / 20_000
    assert first.tolist() == pytest.approx(prediction.first[0].tolist(), abs=0.015)
    assert drawn.argsort(1).double().mean(0).tolist() == pytest.approx(wanted, abs=0.04)
    before = (drawn.argsort(1)[:, 0] < drawn.argsort(1)[:, 2]).double().mean()
    assert float(before) == pytest.approx(float(prediction.before(0, 2)), abs=0.015)


@pytest.mark.parametrize("far", [-1e4, 1e4])
def test_far_scores_stay_finite(far):
    output = torch.tensor([[far, 0.0, -far]], requires_grad=True)
    loss = PlackettLuce(3).loss(output, torch.tensor([[2, 0, 1]]))
    (gradient,) = torch.autograd.grad(loss.sum(), output)
    assert bool(loss.isfinite().all() & gradient.isfinite().all())


def test_it_learns_to_rank_from_arrays_and_comes_back(tmp_path):
    torch.manual_seed(0)
    x = torch.randn(600, 3)
    weight = torch.tensor([[1.0, -1.0, 0.0, 2.0], [0.5, 1.0, -1.0, 0.0], [0.0, 0.0, 1.0, -1.0]])
    noise = -torch.empty(600, 4).exponential_().log()
    y = (3 * x @ weight + noise).argsort(1, descending=True)
    data = ll.data.arrays(x, y, kind="ranking")
    assert str(data.target) == "y: ranking of 4 items"
    run = ll.fit(ll.models.Linear(3, 4), data, epochs=40, lr=0.05, folder=tmp_path / "run", progress=False)
    assert run.evaluate("test")["pairs"] > 0.85
    assert run.evaluate("test")["nll"] < math.log(math.factorial(4))
    again = ll.load(tmp_path / "run", data=data)
    assert torch.equal(again.predict(x[:5]).mode, run.predict(x[:5]).mode)


@pytest.mark.parametrize(
    ("y", "error", "words"),
    [
        (torch.tensor([[1, 2, 3]]), DataError, "Count from 0: pass y - 1"),
        (torch.tensor([[0, 0, 2]]), DataError, r"each once. Got \[0, 0, 2\] in row 0"),
        (torch.tensor([[0, 1]]), ShapeError, r"\(n, 3\)"),
    ],
)
def test_what_is_no_ranking_is_refused(y, error, words):
    with pytest.raises(error, match=words):
        PlackettLuce(3).check(y)


def test_it_has_no_interval_and_says_what_it_has():
    with pytest.raises(UserError, match=r"rankings have none.*before\(k, l\)"):
        PlackettLuce(3).prediction(torch.zeros(1, 3)).interval()
    with pytest.raises(DataError, match="whole numbers"):
        ll.data.arrays(torch.randn(9, 2), torch.rand(9, 3), kind="ranking")
    with pytest.raises(DataError, match="a column for each place"):
        ll.data.arrays(torch.randn(9, 2), torch.arange(9), kind="ranking")
