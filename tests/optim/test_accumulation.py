"""k micro-batches give the gradient of the whole batch, however ragged, weighted or noisy it is."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from leadline.data.data import Batch
from leadline.layers import noise
from leadline.likelihoods import Categorical, Normal
from leadline.models import MLP
from leadline.optim import Gradient
from leadline.settings import Settings


def batch_of(rows: int, weighted: bool, keyed: bool, seed: int = 0) -> Batch:
    generator = torch.Generator().manual_seed(seed)
    x = torch.randn(rows, 4, dtype=torch.float64, generator=generator)
    y = torch.randint(0, 3, (rows,), generator=generator)
    weight = torch.rand(rows, dtype=torch.float64, generator=generator) + 0.1 if weighted else None
    example = torch.arange(rows)
    return Batch(x, y, weight, example, noise.example_keys(seed, 0, example) if keyed else None)


def gradients(batch: Batch, accumulate: int, p_drop: float, **more) -> tuple[float, list[torch.Tensor]]:
    torch.manual_seed(3)
    model = MLP(4, (6, 5), 3, p_drop=p_drop).double()
    rule = Gradient(Settings(accumulate=accumulate, **more))
    rule.bind(model, Categorical(3).double(), 10)
    loss = rule.backward(batch)
    return float(loss.detach()), [p.grad for p in model.parameters()]


@pytest.mark.parametrize("accumulate", [2, 3, 7])
@pytest.mark.parametrize("rows", [7, 8, 23])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("p_drop", [0.0, 0.4])
def test_micro_batches_equal_the_whole(accumulate, rows, weighted, p_drop):
    batch = batch_of(rows, weighted, keyed=p_drop > 0)
    loss, whole = gradients(batch, 1, p_drop)
    same_loss, parts = gradients(batch, accumulate, p_drop)
    assert same_loss == pytest.approx(loss, rel=1e-6)
    for a, b in zip(whole, parts, strict=True):
        torch.testing.assert_close(a, b, rtol=1e-12, atol=1e-14)


@settings(max_examples=40, deadline=None)
@given(st.integers(1, 40), st.integers(1, 50), st.booleans(), st.integers(0, 99))
def test_any_size_and_any_number_of_parts(rows, accumulate, weighted, seed):
    batch = batch_of(rows, weighted, keyed=True, seed=seed)
    assert sum(len(part) for part in batch.parts(accumulate)) == rows
    assert len(batch.parts(accumulate)) <= accumulate
    _, whole = gradients(batch, 1, 0.3)
    _, parts = gradients(batch, accumulate, 0.3)
    for a, b in zip(whole, parts, strict=True):
        torch.testing.assert_close(a, b, rtol=1e-11, atol=1e-13)


def test_loss_of_a_double_batch_is_kept_in_double():
    batch = batch_of(9, weighted=True, keyed=False)
    loss, _ = gradients(batch, 1, 0.0)
    parts, _ = gradients(batch, 3, 0.0)
    assert parts == pytest.approx(loss, rel=1e-12)


def test_clipping_comes_after_the_parts_are_added():
    batch = batch_of(11, weighted=False, keyed=False)
    _, whole = gradients(batch, 1, 0.0, clip=0.01)
    _, parts = gradients(batch, 4, 0.0, clip=0.01)
    for a, b in zip(whole, parts, strict=True):
        torch.testing.assert_close(a, b, rtol=1e-11, atol=1e-14)


@pytest.mark.parametrize("clip", [1e-3, 0.1])
def test_clip_bounds_the_norm(clip):
    _, free = gradients(batch_of(16, False, False), 1, 0.0)
    _, clipped = gradients(batch_of(16, False, False), 1, 0.0, clip=clip)
    norm = lambda group: float(torch.cat([g.flatten() for g in group]).norm())  # noqa: E731
    assert norm(free) > clip
    assert norm(clipped) == pytest.approx(clip, rel=1e-2)
    direction = torch.cosine_similarity(*(torch.cat([g.flatten() for g in group]) for group in (free, clipped)), dim=0)
    assert float(direction) == pytest.approx(1.0)


def test_a_large_clip_changes_nothing():
    _, free = gradients(batch_of(16, False, False), 1, 0.0)
    _, clipped = gradients(batch_of(16, False, False), 1, 0.0, clip=1e6)
    assert all(torch.equal(a, b) for a, b in zip(free, clipped, strict=True))


def test_weights_scale_rows_by_their_share():
    """A row of weight 2 counts as the row twice."""
    batch = batch_of(5, False, False)
    heavy = Batch(batch.x, batch.y, torch.tensor([2.0, 1, 1, 1, 1], dtype=torch.float64))
    doubled = Batch(torch.cat([batch.x[:1], batch.x]), torch.cat([batch.y[:1], batch.y]))
    for a, b in zip(gradients(heavy, 1, 0.0)[1], gradients(doubled, 1, 0.0)[1], strict=True):
        torch.testing.assert_close(a, b, rtol=1e-12, atol=1e-14)


def test_parameters_of_the_likelihood_learn_too():
    likelihood = Normal(variance="learned")
    rule = Gradient(Settings(optimizer="sgd", lr=0.1))
    rule.bind(torch.nn.Linear(1, 1), likelihood, 10)
    before = likelihood.rho.detach().clone()
    rule.step(Batch(torch.zeros(4, 1), torch.full((4,), 5.0)), 5)
    assert not torch.equal(likelihood.rho.detach(), before)
