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


# ── angles, and one of several columns ──

PLANE = 2 * torch.rand(200, 2, generator=torch.Generator().manual_seed(1)) - 1


class Sides(nn.Module):
    """A network whose outputs are functions of x, one after another."""

    def __init__(self, *functions):
        super().__init__()
        self.functions = functions

    def forward(self, x):
        return torch.cat([f(x) for f in self.functions], 1)


def test_an_angle_has_one_colour_and_one_line_at_the_seam():
    y = torch.atan2(PLANE[:, 1], PLANE[:, 0])
    family = ll.likelihoods.VonMises("fixed", kappa=5.0)
    view = ll.lens.boundary(Sides(lambda x: x), (PLANE, y + 4 * np.pi), likelihood=family, num=41)
    assert view.kind == "angles" and np.abs(view.answer).max() <= np.pi + 1e-6 and np.abs(view.y).max() <= np.pi + 1e-6
    figure = view.plot()
    ax, bar = figure.axes
    mesh = ax.collections[0]
    ends = mesh.cmap(mesh.norm([-np.pi, np.pi]))
    assert np.abs(ends[0] - ends[1]).max() < 0.05
    assert [text.get_text() for text in bar.get_yticklabels()] == ["−π", "0", "π"] and "radians" in bar.get_ylabel()
    lines = [c for c in ax.collections if type(c).__name__.endswith("ContourSet")]
    assert len(lines) == 8
    for line in lines:  # each direction is one ray: no other runs along the seam
        points = np.concatenate([path.vertices for path in line.get_paths()])
        angle = np.arctan2(points[:, 1], points[:, 0])[np.hypot(*points.T) > 0.3]
        assert np.hypot(np.cos(angle).mean(), np.sin(angle).mean()) > 0.99


@pytest.fixture
def joint():
    """Direction by VonMises, speed by Normal, and a class, on named columns."""
    target = ll.data.target.Target
    columns = (
        target("angle", "direction"),
        target("real", "speed"),
        target("classes", "sky", ("clear", "rain", "fog")),
    )
    y = torch.stack([torch.atan2(PLANE[:, 1], PLANE[:, 0]), 5 * PLANE[:, 0], (PLANE[:, 0] > 0).float()], 1)
    data = Data(Split(PLANE, y), *[Split(PLANE[:0], y[:0])] * 2, target.of(*columns))
    options = ({"variance": "fixed"}, {"variance": "fixed"}, {"num_classes": 3})
    families = ("VonMises", "Normal", "Categorical")
    family = ll.likelihoods.Joint(families, options, names=data.target.names)
    model = Sides(
        lambda x: x, lambda x: 5 * x[:, :1], lambda x: torch.cat([-9 * x[:, :1], 9 * x[:, :1], 0 * x[:, :1] - 9], 1)
    )
    return model, data, family


def test_a_column_of_a_joint_likelihood_is_shown_by_name_or_number(joint):
    model, data, family = joint
    shown = {
        output: ll.lens.boundary(model, data, likelihood=family, output=output, num=9) for output in (0, "speed", "sky")
    }
    assert [view.target for view in shown.values()] == ["direction", "speed", "sky"]
    assert [view.kind for view in shown.values()] == ["angles", "numbers", "classes"]
    speed, sky = shown["speed"], shown["sky"]
    assert np.allclose(speed.answer, 5 * speed.first, atol=1e-5) and np.allclose(speed.y, 5 * PLANE[:, 0])
    assert sky.classes == ("clear", "rain", "fog") and sky.answer.shape == (9, 9, 3) and not sky.wrong.any()
    assert speed.plot().axes[0].get_title(loc="left") == "Predicted speed"
    assert sky.plot().axes[0].get_title(loc="left") == "Decision boundary of sky"
    pair = ll.lens.boundary(model, (data.train.x, data.train.y), likelihood=family, output="sky", num=9)
    assert np.allclose(pair.answer, sky.answer) and pair.classes == ("class 0", "class 1", "class 2")
    with pytest.raises(UserError, match="speed"):
        ll.lens.boundary(model, data, likelihood=family, output="sped")


def test_a_ranking_is_bounded_by_its_first_place():
    order = torch.stack([PLANE[:, 0], PLANE[:, 1], 0 * PLANE[:, 0]], 1).argsort(1, descending=True)
    target = ll.data.target.Target("ranking", "taste", ("apple", "banana", "cherry"), dim=3)
    data = Data(Split(PLANE, order), *[Split(PLANE[:0], order[:0])] * 2, target)
    view = ll.lens.boundary(Sides(lambda x: x, lambda x: 0 * x[:, :1]), data, num=9)
    assert view.kind == "places" and view.classes == ("apple", "banana", "cherry") and not view.wrong.any()
    assert (view.y == order[:, 0].numpy()).all() and "first place" in view.plot().axes[0].get_title(loc="left")


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
