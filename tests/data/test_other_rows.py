"""Resampling, tasks without labels, and whitening."""

import json

import pytest
import torch

import leadline as ll
from leadline.data import (
    Whiten,
    bootstrap,
    inputs_from,
    label_noise,
    reconstruction,
    which_is_original,
    whitened,
    whitening,
)
from leadline.errors import DataError


def test_a_bootstrap_draws_rows_with_replacement_and_leaves_the_rest():
    data = ll.data.mnist1d(num=1000)
    again = bootstrap(data, 3)
    shares = len(again.train.rows.unique()) / len(data.train)
    assert shares == pytest.approx(1 - 1 / 2.718, abs=0.03)
    assert again.fingerprint == bootstrap(data, 3).fingerprint != bootstrap(data, 4).fingerprint
    assert again.test is data.test and again.recipe is None


@pytest.mark.parametrize(("uniform", "share"), [(False, 0.15), (True, 0.15 * 0.9)])
def test_a_fraction_of_labels_is_switched_in_training_alone(uniform, share):
    data = ll.data.mnist1d(num=4000)
    noisy = label_noise(data, 0.15, uniform=uniform)
    assert float((noisy.train.y != data.train.y).float().mean()) == pytest.approx(
        share, abs=1e-3 if not uniform else 0.02
    )
    assert torch.equal(noisy.test.y, data.test.y) and torch.equal(noisy.train.x, data.train.x)
    assert set(noisy.train.y.tolist()) == set(range(10))
    with pytest.raises(DataError, match="classes"):
        label_noise(ll.data.line())


def test_rows_are_their_own_target_as_the_network_reads_them():
    data = ll.data.wine()
    task = reconstruction(data)
    torch.testing.assert_close(task.test.y, data.inputs.encode(data.test.x))
    run = ll.fit(ll.models.MLP(13, (32,), 13), task, epochs=25, lr=0.01, regularize="mask(0.3)", progress=False)
    assert run.evaluate("test")["r2"] > 0.2  # half of the columns could not be told without the others


def test_swapped_rows_have_the_columns_of_the_rows_and_not_their_company():
    data = ll.data.wine()
    task = which_is_original(data, 0.5)
    x, y = task.train.x, task.train.y
    count = len(data.train)
    assert torch.equal(x[:count], data.inputs.encode(data.train.x)) and y.tolist() == [1] * count + [0] * count
    changed = (x[count:] != x[:count]).float().mean()
    assert 0.3 < float(changed) < 0.5
    known = [set(column.tolist()) for column in x[:count].mT]
    assert all(value in known[j] for j, column in enumerate(x[count:].mT) for value in column.tolist())


@pytest.mark.parametrize("kind", ["pca", "zca", "cholesky"])
def test_whitening_matrices_whiten(kind):
    g = torch.Generator().manual_seed(0)
    A = torch.randn(5, 5, generator=g).double()
    sigma = A @ A.mT + 0.1 * torch.eye(5)
    W = whitening(sigma, kind)
    torch.testing.assert_close(W @ sigma @ W.mT, torch.eye(5).double())
    if kind == "zca":
        torch.testing.assert_close(W, W.mT)
    if kind == "cholesky":
        assert torch.equal(W, W.tril())
    root = torch.linalg.cholesky(sigma)  # what a source prints, or nearly so: Σ^½ does not whiten
    assert float((root @ sigma @ root.mT - torch.eye(5)).abs().max()) > 1


def test_whitened_data_train_and_their_inputs_come_back_from_json():
    data = whitened(ll.data.wine(), "pca")
    z = data.inputs.encode(data.train.x).double()
    torch.testing.assert_close(z.mT @ z / len(z), torch.eye(13).double(), atol=1e-3, rtol=0)
    again = inputs_from("Whiten", json.loads(json.dumps(data.inputs.config)))
    assert isinstance(again, Whiten) and torch.equal(again.encode(data.test.x), data.inputs.encode(data.test.x))
    ll.fit(ll.models.Linear(13, 3), data, epochs=1, progress=False)
    flat = Whiten.fit(torch.tensor([[1.0, 2.0], [2.0, 2.0], [3.0, 2.0]]), "zca")  # a constant column
    assert bool(flat.encode(torch.tensor([[4.0, 2.0]])).isfinite().all())
