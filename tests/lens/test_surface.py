"""The loss surface against the loss itself, and the path against the weights that a run had."""

import numpy as np
import pytest
import torch
from torch import nn

import leadline as ll
from leadline.data.data import Data, Split
from leadline.data.target import Target
from leadline.errors import ShapeError, UserError


def line_data():
    x = torch.linspace(0, 2, 12)[:, None]
    y = 0.8 + 0.3 * x[:, 0] + 0.05 * torch.sin(9 * x[:, 0])
    none = Split(x[:0], y[:0])
    return Data(Split(x, y), none, none, Target("real"))


NORMAL = ll.likelihoods.Normal(variance="fixed")


def test_two_parameters_give_the_least_squares_bowl():
    data, model = line_data(), ll.models.Linear(1, 1)
    view = ll.lens.loss_surface(
        model, data, likelihood=NORMAL, parameters=("map.bias[0]", "map.weight[0, 0]"), window=((-1, 2), (-1, 2)), num=7
    )
    x, y = data.train.x[:, 0].double().numpy(), data.train.y.double().numpy()
    for i, slope in enumerate(view.second):
        for j, offset in enumerate(view.first):
            expected = 0.5 * ((y - offset - slope * x) ** 2).mean() + 0.5 * np.log(2 * np.pi)
            assert view.loss[i, j] == pytest.approx(expected, rel=1e-5)
    assert view.here == pytest.approx((model.map.bias.item(), model.map.weight.item()))
    assert view.names == ("map.bias[0]", "map.weight[0, 0]")


def test_the_path_of_a_run_is_its_weights():
    data, model = line_data(), ll.models.Linear(1, 1)
    start = ll.lens.flat(model)
    path = ll.lens.Path(model)
    ll.fit(model, data, likelihood=NORMAL, epochs=7, batch=4, progress=False, compile="off", listeners=[path])
    assert path.steps == list(range(22)) and path.weights.shape == (22, 2)
    assert torch.equal(path.weights[0], start)
    view = ll.lens.loss_surface(
        model, data, likelihood=NORMAL, parameters=("map.weight[0,0]", "map.bias[0]"), path=path, num=5
    )
    assert np.allclose(view.path, path.weights.numpy(), atol=1e-6)
    assert view.held == pytest.approx(1)
    low, high = view.path.min(0), view.path.max(0)
    assert view.first[0] < low[0] and view.first[-1] > high[0] and view.second[0] < low[1] and view.second[-1] > high[1]


def test_a_path_can_be_thinned():
    data, model = line_data(), ll.models.Linear(1, 1)
    path = ll.lens.Path(model, every=5)
    ll.fit(model, data, likelihood=NORMAL, epochs=7, batch=4, progress=False, compile="off", listeners=[path])
    assert path.steps == [0, 5, 10, 15, 20]


def test_the_loss_at_the_middle_is_the_loss_of_the_model():
    data = ll.data.moons(num=200)
    model = ll.models.MLP(2, (8,), 1, p_drop=0.5)
    run = ll.fit(model, data, epochs=2, progress=False)
    view = ll.lens.loss_surface(model, data, likelihood=run.likelihood, num=5)
    split = data.train
    output = run.outputs("train")
    expected = run.likelihood.loss(output, split.y.to(output.dtype) if output.shape[1] == 1 else split.y).mean().item()
    assert view.loss_here == pytest.approx(expected, rel=1e-5)
    assert view.loss[2, 2] == pytest.approx(expected, rel=1e-5)
    assert view.first.tolist() == [-1, -0.5, 0, 0.5, 1]


def test_weights_of_rows_count():
    x, y = torch.tensor([[0.0], [1.0]]), torch.tensor([0.0, 1.0])
    model = nn.Linear(1, 1)
    nn.init.zeros_(model.weight), nn.init.zeros_(model.bias)
    rows = Split(x, y, weight=torch.tensor([1.0, 3.0]))
    square = lambda output, y: (output[:, 0] - y) ** 2  # noqa: E731
    assert ll.lens.loss_slice(model, rows, likelihood=square, parameter="bias[0]", num=3).loss[1] == pytest.approx(0.75)
    assert ll.lens.loss_slice(model, (x, y), likelihood=square, parameter="bias[0]", num=3).loss[1] == pytest.approx(
        0.5
    )


def test_random_directions_have_the_lengths_of_the_filters():
    model = ll.models.MLP(3, (5, 4), 2)
    with torch.no_grad():
        model.layers[0].map.weight.mul_(7)
    from leadline.lens.directions import random_direction

    direction, again, other = (random_direction(model, seed) for seed in (0, 0, 1))
    assert torch.equal(direction, again) and not torch.equal(direction, other)
    place = 0
    for p in model.parameters():
        part = direction[place : place + p.numel()].view_as(p)
        place += p.numel()
        if p.ndim == 1:
            assert not part.any()
        else:
            assert torch.allclose(part.norm(dim=1), p.norm(dim=1), rtol=1e-5)


def test_pca_of_a_path_in_a_plane_holds_all_of_it():
    torch.manual_seed(0)
    model = nn.Linear(3, 1)
    u, v = torch.randn(4), torch.randn(4)
    s = torch.linspace(1, 0, 9)
    path = ll.lens.flat(model) + s[:, None] * 3 * u + (s**2)[:, None] * v
    data = (torch.randn(20, 3), torch.randn(20))
    square = lambda output, y: (output[:, 0] - y) ** 2  # noqa: E731
    view = ll.lens.loss_surface(model, data, likelihood=square, directions="pca", path=path, num=5)
    assert view.held == pytest.approx(1, abs=1e-6)
    # distances are kept: the axes are orthonormal
    assert np.hypot(*(view.path[0] - view.path[4])) == pytest.approx((path[0] - path[4]).norm().item(), rel=1e-4)
    off = ll.lens.loss_surface(
        model, data, likelihood=square, directions=(torch.eye(4)[0], torch.eye(4)[1]), path=path, num=3
    )
    assert off.held < 1


def test_a_slice_between_two_models_ends_in_both():
    data = line_data()
    a, b = ll.models.Linear(1, 1), ll.models.Linear(1, 1)
    view = ll.lens.loss_slice(a, data, likelihood=NORMAL, to=b, num=7)
    for place, model in ((1, a), (5, b)):
        loss = NORMAL.loss(model(data.train.x), data.train.y).mean().item()
        assert view.loss[place] == pytest.approx(loss, rel=1e-5) and view.at[place] == pytest.approx((place - 1) / 4)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"parameters": ("map.weight[0,0]", "map.bia[0]")}, "Did you mean map.bias"),
        ({"parameters": ("map.weight[0,0]", "map.weight")}, r"Write map.weight\[0, 0\]"),
        ({"parameters": ("map.weight[0,0]", "map.weight[4,0]")}, "must be named with a place in it"),
        ({"parameters": ("map.bias[0]", "map.bias[0]")}, "two different"),
        ({"directions": "pcs"}, "Did you mean pca"),
        ({"directions": "pca"}, "at least 3 steps"),
        ({"directions": (torch.ones(3), torch.ones(2))}, "each of the 2 parameters"),
        ({"path": torch.zeros(4, 9)}, "must hold 2 weights a step"),
        ({"window": 3}, "window must be"),
        ({"num": 1}, "num must be"),
    ],
)
def test_mistakes_are_answered(options, words):
    with pytest.raises(UserError, match=words):
        ll.lens.loss_surface(ll.models.Linear(1, 1), line_data(), likelihood=NORMAL, **{"num": 3, **options})


def test_slices_and_pairs_are_answered_too():
    with pytest.raises(ShapeError, match="same parameters"):
        ll.lens.loss_slice(ll.models.Linear(1, 1), line_data(), to=nn.Linear(2, 1))
    with pytest.raises(UserError, match="must come with a likelihood"):
        ll.lens.loss_slice(nn.Linear(1, 1), (torch.zeros(2, 1), torch.zeros(2)))
    with pytest.raises(UserError, match="not 0"):
        model = nn.Linear(1, 1)
        nn.init.zeros_(model.weight)
        ll.lens.loss_slice(model, line_data())
    with pytest.raises(UserError, match="Data, a Split"):
        ll.lens.loss_slice(nn.Linear(1, 1), 5)


def test_filter_normalised_planes_do_not_see_how_a_network_is_written():
    torch.manual_seed(0)
    model = ll.models.MLP(2, (8, 8), 1, activation="relu", p_drop=0.0).double()
    other = ll.models.rescale(ll.models.rescale(model, 0, 5.0), 1, 0.1)
    data = ll.data.moons(num=60)
    one, two = (ll.lens.loss_surface(m, data, num=5) for m in (model, other))
    assert np.allclose(one.loss, two.loss, rtol=1e-9)
    line, again = (ll.lens.loss_slice(m, data, num=5) for m in (model, other))
    assert np.allclose(line.loss, again.loss, rtol=1e-9)
    plain, changed = (ll.lens.loss_surface(m, data, num=5, normalise="none") for m in (model, other))
    assert not np.allclose(plain.loss, changed.loss, rtol=1e-2)
    with pytest.raises(UserError, match="Did you mean filter"):
        ll.lens.loss_surface(model, data, normalise="filters")


def test_a_path_keeps_buffers_too():
    from leadline.engine.events import RunStarted, StepsDone

    model = nn.Sequential(nn.Linear(1, 2), nn.BatchNorm1d(2))
    path = ll.lens.Path(model)
    path(RunStarted(1, 1))
    first = {name: t.clone() for name, t in model.state_dict().items()}
    model(torch.randn(8, 1))
    with torch.no_grad():
        model[0].weight.add_(1)
    path(StepsDone(0, 1, torch.zeros(1)))
    assert len(path) == 2 and all(torch.equal(path.state(0)[name], t) for name, t in first.items())
    assert all(torch.equal(path.state(1)[name], t) for name, t in model.state_dict().items())
    assert not torch.equal(path.state(0)["1.running_mean"], path.state(1)["1.running_mean"])
