"""Boundaries and predicted surfaces against models whose answers are known."""

import numpy as np
import pytest
import torch
from torch import nn

import leadline as ll
from leadline.data.data import Data, Split
from leadline.errors import UserError


def known(weight, bias):
    model = ll.models.Linear(len(weight[0]), len(weight))
    with torch.no_grad():
        model.map.weight.copy_(torch.tensor(weight))
        model.map.bias.copy_(torch.tensor(bias))
    return model


def identity_data(y, x=None):
    x = torch.rand(60, 3, generator=torch.Generator().manual_seed(0)) if x is None else x
    return Data(
        Split(x, y(x)),
        *[Split(x[:0], y(x)[:0])] * 2,
        ll.data.target.Target("real")
        if y(x).is_floating_point()
        else ll.data.target.Target("binary", classes=("no", "yes")),
    )


def test_a_linear_boundary_is_where_the_plane_is_zero():
    data = identity_data(lambda x: (x[:, 0] > x[:, 2]).long())
    view = ll.lens.boundary(known([[4.0, 0.5, -4.0]], [0.0]), data, (0, 2), held={1: 2.0})
    p = view.answer[:, :, 1]
    z = 4 * view.first[None] + 1.0 - 4 * view.second[:, None]
    assert np.allclose(p, 1 / (1 + np.exp(-z)), atol=1e-5)
    assert view.held == {"x2": 2.0} and view.classes == ("no", "yes") and view.names == ("x1", "x3")
    assert np.allclose(view.answer.sum(2), 1, atol=1e-6)
    # the rows are judged whole, with their own second feature
    x = data.train.x.double().numpy()
    right = (4 * x[:, 0] + 0.5 * x[:, 1] - 4 * x[:, 2] > 0) == data.train.y.numpy().astype(bool)
    assert (view.wrong == ~right).all() and 0 < view.wrong.sum() < 60


@pytest.mark.parametrize("held", ["median", "mean"])
def test_others_are_held_at_the_middle_of_the_rows(held):
    data = identity_data(lambda x: x[:, 0] ** 4)
    normal = ll.likelihoods.Normal(variance="fixed")
    view = ll.lens.boundary(known([[1.0, 2.0, 3.0]], [0.5]), data, (0, 1), held=held, likelihood=normal)
    middle = getattr(np, held)(data.train.x[:, 2].double().numpy())
    assert view.held["x3"] == pytest.approx(middle)
    assert np.allclose(view.answer, 0.5 + view.first + 2 * view.second[:, None] + 3 * middle, atol=1e-4)
    assert view.classes == () and not view.wrong.any()
    assert view.plot().axes[0].get_title(loc="left") == "Predicted y, 1 other feature held"


def test_a_projection_runs_through_the_middle_of_the_inputs():
    data = ll.data.iris()
    model = ll.models.build("Linear", data.dim_input, 3)
    view = ll.lens.boundary(model, data, "pca", num=11)
    x = data.inputs.encode(data.train.x).double()
    assert 0.9 < sum(view.explained) <= 1
    share = torch.linalg.svdvals(x - x.mean(0)).square()
    assert view.explained[0] == pytest.approx((share[0] / share.sum()).item(), rel=1e-4)
    shown = ll.lens.boundary(model, data, "pca", window=((-1e-6, 1e-6), (-1e-6, 1e-6)), num=3)
    expected = model(x.mean(0)[None].float()).softmax(1)[0].detach().numpy()
    assert np.allclose(shown.answer[1, 1], expected, atol=1e-4)
    assert view.points.shape == (len(data.train), 2)
    assert np.allclose(view.points.mean(0), 0, atol=1e-6)


def test_features_of_a_table_go_by_name_and_unit():
    data = ll.data.iris()
    model = ll.models.build("MLP", data.dim_input, 3, hidden=(8,))
    view = ll.lens.boundary(model, data, ("petal length (cm)", "sepal width (cm)"), num=5)
    assert view.first[0] < data.train.x[:, 2].min() and view.names[0] == "petal length (cm)"
    raw = torch.tensor(list(view.held.values()))
    row = torch.tensor([[raw[0], view.second[1], view.first[3], raw[1]]], dtype=data.train.x.dtype)
    model.eval()
    expected = model(data.inputs.encode(row).float()).softmax(1)[0].detach().numpy()
    assert list(view.held) == ["sepal length (cm)", "petal width (cm)"]
    assert np.allclose(view.answer[1, 3], expected, atol=1e-5)


def test_a_category_is_held_at_its_commonest_level(tmp_path):
    rows = "\n".join(f"{k % 17},{'red' if k % 3 else 'blue'},{(k * 7) % 11},{k % 17 + 0.1 * k % 3}" for k in range(120))
    (tmp_path / "t.csv").write_text("size,colour,age,price\n" + rows + "\n")
    data = ll.data.table(tmp_path / "t.csv", target="price")
    view = ll.lens.boundary(ll.models.build("Linear", data.dim_input, 1), data, ("size", "age"), num=5)
    assert view.held["colour"] == 1.0  # red, of blue and red


def test_images_are_seen_on_their_plane():
    x = torch.randn(40, 1, 4, 4)
    net = nn.Sequential(nn.Conv2d(1, 2, 3), nn.Flatten(), nn.Linear(8, 3))
    view = ll.lens.boundary(net, (x, torch.arange(40) % 3), "pca", likelihood=ll.likelihoods.Categorical(3), num=5)
    assert view.answer.shape == (5, 5, 3) and view.classes == ("class 0", "class 1", "class 2")
    with pytest.raises(UserError, match='features="pca"'):
        ll.lens.boundary(net, (x, torch.arange(40) % 3), likelihood=ll.likelihoods.Categorical(3))


@pytest.mark.parametrize(
    ("features", "options", "words"),
    [
        (("x1", "x9"), {}, "Known: x1, x2"),
        ((0, 7), {}, "from 0 to 1"),
        ((0, 0), {}, "must differ"),
        ("umap", {}, "or pca"),
        ((0, 1, 2), {}, "two features"),
        ((0, 1), {"held": "mode"}, "held must be"),
        ((0, 1), {"window": ((1, 0), (0, 1))}, "window must be"),
    ],
)
def test_mistakes_are_answered(features, options, words):
    with pytest.raises(UserError, match=words):
        ll.lens.boundary(ll.models.Linear(2, 1), ll.data.moons(num=60), features, **options)
