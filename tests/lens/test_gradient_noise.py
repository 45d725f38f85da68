"""Gradient noise against the gradients of single rows and of all batches; update ratios against the weights."""

from itertools import combinations, pairwise

import numpy as np
import pytest
import torch
from torch import nn

import leadline as ll
from leadline.errors import UserError
from leadline.lens.gradient_noise import noise_of


def half_square(output, y):
    return (output[:, 0] - y) ** 2 / 2


def setup(n=7):
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(2, 3), nn.Tanh(), nn.Linear(3, 1)).double()
    x, y = torch.randn(n, 2, dtype=torch.float64), torch.randn(n, dtype=torch.float64)
    each = []
    for k in range(n):
        loss = half_square(model(x[k : k + 1]), y[k : k + 1]).mean()
        each.append(torch.cat([g.flatten() for g in torch.autograd.grad(loss, list(model.parameters()))]))
    return model, (x, y), torch.stack(each)


def test_rows_one_by_one_give_their_covariance():
    model, data, each = setup()
    view = ll.lens.gradient_noise(model, data, batch=1, likelihood=half_square)
    assert view.names == ("all", "0.weight", "0.bias", "2.weight", "2.bias") and view.rows == 7
    assert view.scatter[0] == pytest.approx(each.var(0).sum().item())
    assert view.scatter[3] == pytest.approx(each[:, 9:12].var(0).sum().item())
    assert view.scatter[1:].sum() == pytest.approx(view.scatter[0])
    assert view.mean[0] == pytest.approx(each.mean(0).norm().item())
    assert view.signal[0] == pytest.approx(view.mean[0] ** 2 - view.scatter[0] / 7)
    unit = (each / each.norm(dim=1, keepdim=True)).numpy()
    cosine = unit @ unit.T
    assert view.cosine[0] == pytest.approx(cosine[~np.eye(7, dtype=bool)].mean())
    assert np.allclose(np.sort(view.cosines, None), np.sort(cosine, None))


@pytest.mark.parametrize("batch", [2, 3])
def test_the_mean_over_all_batches_is_free_of_bias(batch):
    model, _, each = setup()
    batches = torch.stack([each[list(chosen)].mean(0) for chosen in combinations(range(7), batch)])
    view = noise_of(model, batches, each.mean(0), batch, 7)
    assert view.scatter[0] == pytest.approx(each.var(0).sum().item())
    assert view.scale[0] == pytest.approx(view.scatter[0] / view.signal[0]) or view.signal[0] <= 0


def test_disjoint_batches_are_what_is_measured():
    model, data, each = setup(9)
    view = ll.lens.gradient_noise(model, data, batch=4, likelihood=half_square, seed=3)
    order = torch.randperm(9, generator=torch.Generator().manual_seed(3))
    g = torch.stack([each[order[:4]].mean(0), each[order[4:8]].mean(0)])
    assert view.spread[0] == pytest.approx((g - each.mean(0)).square().sum(1).mean().sqrt().item())
    assert view.cosine[0] == pytest.approx(torch.cosine_similarity(g[0], g[1], dim=0).item())
    with pytest.raises(UserError, match="two batches"):
        ll.lens.gradient_noise(model, data, batch=5, likelihood=half_square)


def test_frozen_weights_make_no_noise():
    model, data, each = setup()
    model[0].weight.requires_grad_(False)
    view = ll.lens.gradient_noise(model, data, batch=1, likelihood=half_square)
    assert view.names == ("all", "0.bias", "2.weight", "2.bias")
    assert view.scatter[0] == pytest.approx(each[:, 6:].var(0).sum().item())


def test_equal_rows_are_all_signal():
    x = torch.ones(8, 2, dtype=torch.float64)
    view = ll.lens.gradient_noise(
        nn.Linear(2, 1).double(), (x, 5 * x[:, 0]), batch=2, likelihood=half_square, batches=3
    )
    assert view.scatter[0] == pytest.approx(0, abs=1e-12) and view.cosine[0] == pytest.approx(1)
    assert view.cosines.shape == (3, 3)


def test_update_ratios_are_those_of_the_weights():
    data, model = ll.data.moons(num=60), ll.models.MLP(2, (4,), 1)
    ratios, path = ll.lens.UpdateRatios(model), ll.lens.Path(model)
    with pytest.raises(UserError, match="made steps"):
        ratios.view()
    ll.fit(model, data, epochs=4, batch=16, progress=False, compile="off", listeners=[ratios, path])
    view = ratios.view()
    states = [path.state(k) for k in range(len(path))]
    assert view.steps.tolist() == path.steps[1:] and view.names == ("layers.0.map.weight", "head.weight")
    for k, name in enumerate(view.names):
        moved = [((b[name] - a[name]).norm() / b[name].norm()).item() for a, b in pairwise(states)]
        assert np.allclose(view.ratio[:, k], moved, rtol=1e-4)
    assert np.allclose(view.typical, np.median(view.ratio, axis=0)) and view.plot().axes


def test_several_steps_at_once_count_as_their_mean():
    from leadline.engine.events import RunStarted, StepsDone

    model = nn.Linear(1, 1)
    nn.init.ones_(model.weight)
    ratios = ll.lens.UpdateRatios(model)
    ratios(RunStarted(1, 8))
    nn.init.constant_(model.weight, 2.0)
    ratios(StepsDone(0, 4, torch.zeros(4)))
    assert ratios.view().ratio.item() == pytest.approx(1 / 2 / 4)
