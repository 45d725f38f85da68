"""The width of a family is settled at the kept weights: intervals hold what they say, and a run comes back with it."""

import pytest
import torch

import leadline as ll
from leadline.engine.spread import settle_spread
from leadline.likelihoods.scores import coverage

FAMILIES = ["Normal", "Laplace", "StudentT", "Huber", "Robust"]


def line(count, seed, noise=0.5):
    x = torch.randn(count, 3, generator=torch.Generator().manual_seed(seed))
    e = torch.randn(count, generator=torch.Generator().manual_seed(seed + 1))
    return x, x @ torch.tensor([2.0, -1.0, 0.5]) + 1 + noise * e


def fitted(family, count=500, **options):
    x, y = line(count, seed=0)
    data = ll.data.arrays(x, y)
    likelihood = ll.likelihoods.likelihood_for(data.target, family)
    torch.manual_seed(0)
    model = ll.models.MLP(3, (32,), likelihood.dim_output)
    return ll.fit(model, data, likelihood=likelihood, progress=False, **options)


@pytest.mark.parametrize("family", FAMILIES)
def test_intervals_hold_new_rows_as_often_as_they_say(family):
    """Also after ten epochs, when a width that learns step by step would be several times too large."""
    x, y = line(4000, seed=10)
    assert coverage(fitted(family, epochs=10).predict(x), y) == pytest.approx(0.9, abs=0.05)


def test_it_is_the_most_likely_width():
    """Of a Normal: the root mean square of the misses, over the validation rows and 30 of the training rows' mean."""
    run = fitted("Normal", epochs=3)
    misses = {}
    for split in ("train", "val"):
        rows = run.data[split]
        misses[split] = (run.predict(rows.x).mean - rows.y).double().square().mean()
    count = len(run.data.val)
    wanted = ((count * misses["val"] + 30 * misses["train"]) / (count + 30)).sqrt()
    assert float(run.predict(run.data.val.x).std[0]) == pytest.approx(float(wanted), rel=1e-3)


def test_rows_count_by_their_weight():
    likelihood = ll.likelihoods.Normal()
    rows = (torch.zeros(4, 1), torch.tensor([1.0, -1.0, 9.0, -9.0]), torch.tensor([1.0, 1.0, 0.0, 0.0]))
    settle_spread(likelihood, rows, rows)
    assert likelihood.prediction(torch.zeros(1, 1)).std.item() == pytest.approx(1.0, rel=1e-3)


def test_a_run_comes_back_with_it_and_goes_on_to_the_same_bits(tmp_path):
    run = fitted("Normal", epochs=6, folder=tmp_path / "run", with_report=False)
    assert torch.equal(ll.load(tmp_path / "run").likelihood.rho, run.likelihood.rho)
    assert torch.equal(ll.resume(tmp_path / "run", data=run.data, progress=False).likelihood.rho, run.likelihood.rho)


def test_each_column_has_its_own_and_the_weights_of_the_tasks_stay():
    x, y = line(400, seed=0)
    both = torch.stack([y, 10 * x[:, 0] + 3 * torch.randn(400, generator=torch.Generator().manual_seed(5))], 1)
    data = ll.data.arrays(x, both)
    joint = ll.likelihoods.likelihood_for(data.target, "Joint", weighting="learned")
    torch.manual_seed(0)
    run = ll.fit(ll.models.MLP(3, (32,), 2), data, likelihood=joint, epochs=30, progress=False)
    first, second = run.predict(x).columns
    assert float(first.std[0]) == pytest.approx(0.5, rel=0.35) and float(second.std[0]) == pytest.approx(3, rel=0.35)
    assert not torch.equal(joint.rho.detach(), torch.zeros(2))


def test_a_closed_form_keeps_its_own():
    x, y = line(60, seed=0)
    data = ll.data.arrays(x, y)
    run = ll.fit(ll.models.Linear(3, 1), data, rule=ll.optim.LeastSquares(), epochs=1, progress=False)
    rows = data.train
    least = (run.predict(rows.x).mean - rows.y).double().square().mean().sqrt()
    assert float(run.predict(rows.x).std[0]) == pytest.approx(float(least), rel=1e-3)
