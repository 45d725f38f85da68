"""Families of curves, activations, folds and superposition, against what is known of them."""

import json
import math

import numpy as np
import pytest
import torch
from torch import nn

import leadline as ll
from leadline.errors import UserError
from leadline.layers.activation import ACTIVATIONS
from leadline.lens.activations import GALLERY

# ── family ──


def test_each_curve_is_the_network_with_its_parameters():
    net = ll.models.Shallow(1, 3, 1)
    before = {name: value.clone() for name, value in net.state_dict().items()}
    choices = [
        {"phi0": 0.5, "theta11": -1.0},
        {"phi0": -0.5, "inner.bias[2]": 0.25},
        {"outer.weight": [[1.0, 2.0, 3.0]]},
    ]
    view = ll.lens.family(net, choices, 0, 2, num=11)
    assert all(torch.equal(value, net.state_dict()[name]) for name, value in before.items())
    x = torch.linspace(0, 2, 11)[:, None]
    for k, change in enumerate(({"phi0": 0.5, "theta11": -1.0}, {"phi0": -0.5, "theta30": 0.25}, None)):
        other = ll.models.Shallow(1, 3, 1)
        other.load_state_dict(before)
        other.set(change or {"phi1": 1.0, "phi2": 2.0, "phi3": 3.0})
        assert np.allclose(view.values[k], other(x).detach(), atol=1e-6)
    assert view.words[2] == "|outer.weight| = 3.742" and view.scalar and view.x[-1] == 2
    json.dumps(view.to_dict(), allow_nan=False)
    assert view.plot().axes


def test_a_sigmoid_is_as_sharp_as_its_weights_are_long():
    lengths = [0.5, 1.0, 2.0, 8.0]
    line = [0.6, 0.8]
    choices = [{"weight": [[0.6 * r, 0.8 * r]], "bias": [0.0]} for r in lengths]
    ends = [[-c for c in line], line]  # one unit of length to either side, along the weights
    view = ll.lens.family(nn.Linear(2, 1), choices, *ends, likelihood=ll.likelihoods.Bernoulli(), num=2001)
    slope = np.gradient(view.values[:, :, 0], 2 / 2000, axis=1).max(1)
    assert slope == pytest.approx([r / 4 for r in lengths], rel=1e-3)
    assert view.names == ("probability of 1",) and not view.scalar
    assert [choice["weight"] for choice in view.choices] == pytest.approx(lengths)


def test_one_weight_over_a_list_of_values_and_three_classes():
    view = ll.lens.family(nn.Linear(1, 3), {"weight[0, 0]": range(9)}, likelihood=ll.likelihoods.Categorical(3), num=5)
    assert view.values.shape == (9, 5, 3) and np.allclose(view.values.sum(2), 1)
    assert len(view.plot().axes) == 3


@pytest.mark.parametrize(
    ("choices", "options", "words"),
    [
        ({"weight[0, 0]": 3.0}, {}, "choices must be"),
        ([], {}, "choices must be"),
        ({"wieght[0, 0]": [1.0]}, {}, "Did you mean weight"),
        ({"weight": [1.0, 2.0]}, {}, "named with a place"),
        ([{"weight": [[1.0, 2.0]]}], {}, "must have shape"),
        ([{"weight[0, 0]": "a"}], {}, "number"),
        ({"weight[0, 0]": [1.0]}, {"low": 1.0, "high": 1.0}, "two ends"),
        ({"weight[0, 0]": [1.0]}, {"low": [0, 0], "high": [1, 1]}, "points of the given shape"),
    ],
)
def test_mistakes_with_choices_are_answered(choices, options, words):
    with pytest.raises(UserError, match=words):
        ll.lens.family(nn.Linear(1, 1), choices, **options)


# ── activations ──


def test_every_activation_has_its_values_and_slopes():
    view = ll.lens.activations(*ACTIVATIONS)
    step = view.z[1] - view.z[0]
    jumps = {"heaviside", "rect"}
    for name, value in view.values.items():
        assert value.shape[1] == (2 if name == "crelu" else 1)
        middle = (value[2:] - value[:-2]) / (2 * step)
        off = np.abs(middle - view.slopes[name][1:-1])
        kinks = 2 if name != "hard_swish" else 4  # points beside a kink
        assert (off > 0.01).sum() <= (4 if name in jumps else kinks), name
    assert float(view.values["relu"].max()) == 4
    assert view.slopes["sigmoid"].max() == pytest.approx(0.25, abs=1e-4)
    json.dumps(view.to_dict(), allow_nan=False)
    assert len(view.plot().axes) >= len(ACTIVATIONS)


def test_the_gallery_has_six_panels_and_a_jump_is_no_line():
    view = ll.lens.activations()
    assert view.panels == GALLERY and len(GALLERY) == 6
    assert [len(ax.get_legend_handles_labels()[1]) for ax in view.plot().axes] == [3, 3, 4, 3, 2, 4]
    drawn = ll.lens.activations("heaviside").plot().axes[0].lines[0].get_ydata()
    assert np.isnan(drawn).sum() == 1
    assert not np.isnan(ll.lens.activations("relu").plot().axes[0].lines[0].get_ydata()).any()


@pytest.mark.parametrize(
    ("names", "options", "words"),
    [
        (("rellu",), {}, "Did you mean"),
        (((),), {}, "must name"),
        ((3.0,), {}, "must name"),
        (("relu",), {"low": 5}, "below"),
    ],
)
def test_mistakes_with_names_are_answered(names, options, words):
    with pytest.raises(UserError, match=words):
        ll.lens.activations(*names, **options)


# ── folding ──


def straight(units):
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(1, units), nn.ReLU(), nn.Linear(units, 1)).double()


@pytest.mark.parametrize("units", [3, 4, 6])
def test_a_sawtooth_folds_the_interval_onto_itself(units):
    net = nn.Sequential(ll.models.sawtooth(units), straight(5))
    view = ll.lens.folding(net, 0, 1)
    assert len(view.folds) == view.most == units + 1 and view.mean == pytest.approx(units + 1)
    assert view.single and view.unit is None and view.rises.tolist() == [(-1.0) ** k for k in range(units + 1)]
    found = ll.lens.joints(ll.models.sawtooth(units), 0, 1)
    assert view.folds[1:, 0] == pytest.approx(found.x, abs=1e-9)
    json.dumps(view.to_dict(), allow_nan=False)
    assert "one function" in view.plot().axes[1].get_title(loc="left")


def test_the_parts_lie_side_by_side_and_share_one_output():
    torch.manual_seed(2)
    net = ll.models.Composed(1, (6, 4)).double()
    view = ll.lens.folding(net, -3, 3)
    assert view.folds[0, 0] == -3 and view.folds[-1, 1] == 3 and (view.folds[1:, 0] == view.folds[:-1, 1]).all()
    x = torch.tensor(view.x)[:, None]
    with torch.no_grad():
        assert np.allclose(view.stage, net.networks[0](x)[:, 0]) and np.allclose(view.output, net(x)[:, 0])
    assert view.single and len(view.folds) >= 2


def test_a_smooth_network_and_a_wide_stage():
    torch.manual_seed(0)
    smooth = ll.lens.folding(ll.models.Composed(1, (5, 5), activation="tanh"), -4, 4)
    assert smooth.single
    net = nn.Sequential(nn.Linear(1, 4), nn.ReLU(), nn.Linear(4, 3), nn.ReLU(), nn.Linear(3, 1))
    with torch.no_grad():
        net[0].weight.copy_(torch.tensor([[1.0], [-1.0], [1.0], [1.0]])), net[0].bias.zero_()
        net[2].weight.copy_(torch.tensor([[1.0, 1, 0, 0], [1, 0, 0, 0], [0, 1, 0, 0]])), net[2].bias.zero_()
        net[4].weight.copy_(torch.tensor([[1.0, 1.0, 0.0]]))
    view = ll.lens.folding(net, -1, 1)
    assert view.unit == 0 and len(view.folds) == 2 and view.folds[1, 0] == pytest.approx(0, abs=1e-12)  # |x|
    assert not view.single and view.spread == pytest.approx(0.5)  # y is |x|, or 2 |x| to the right
    assert ll.lens.folding(net, -1, 1, unit=1).rises.tolist() == [0, 1]
    assert "50 % apart" in view.plot().axes[1].get_title(loc="left")


def test_networks_that_cannot_be_folded():
    with pytest.raises(UserError, match="two stages or more"):
        ll.lens.folding(ll.models.Shallow(1, 3, 1))
    with pytest.raises(UserError, match="one output"):
        ll.lens.folding(ll.models.Composed(1, (3, 3), 2))
    with pytest.raises(UserError, match="one input"):
        ll.lens.folding(ll.models.Composed(2, (3, 3)))
    with pytest.raises(UserError, match="low must be below"):
        ll.lens.folding(ll.models.Composed(1, (3, 3)), 1, 0)
    with pytest.raises(UserError, match="unit must be"):
        ll.lens.folding(ll.models.Composed(1, (3, 3)), unit=9)


# ── superposition ──


@pytest.mark.parametrize(
    ("f", "shape", "verdict"),
    [
        (nn.Linear(3, 2, bias=False), 3, "linear"),
        (nn.Linear(3, 2), 3, "affine"),
        (nn.Sequential(nn.Linear(3, 9), nn.Linear(9, 1)), 3, "affine"),
        (ll.models.Shallow(3, 4, 1), 3, "neither"),
        (nn.Conv1d(1, 2, 3, bias=False), (1, 8), "linear"),
        (nn.ReLU(), 1, "neither"),
        (lambda x: x.flip(0) * 0 + 3 * x, 1, "linear"),
        (lambda x: 3 * x + 1, 2, "affine"),
        (lambda x: x**2, 2, "neither"),
        (torch.abs, 1, "neither"),
        (lambda x: 0 * x, 2, "linear"),
    ],
)
def test_linear_affine_or_neither(f, shape, verdict):
    view = ll.lens.superposition(f, shape)
    assert view.verdict == verdict
    json.dumps(view.to_dict(), allow_nan=False)
    assert view.plot().axes[1].get_title(loc="left") == f"Defects: {verdict}"


def test_the_defect_of_an_offset_is_its_length():
    net = nn.Linear(3, 2)
    view = ll.lens.superposition(net, 3)
    length = net.bias.double().norm().item()
    assert view.sums * view.size == pytest.approx(length, rel=1e-6) and view.doubles * view.size == pytest.approx(
        length
    )
    assert view.offset == pytest.approx(net.bias.detach().numpy()) and math.isfinite(view.size)


@pytest.mark.parametrize(
    ("f", "shape", "words"),
    [
        (nn.Linear(3, 2), 2, "points of the given shape"),
        ("net", 1, "module or a function"),
        (torch.relu, 0, "shape must be"),
        (lambda x: x.sum(), 1, "one row for each"),
    ],
)
def test_mistakes_with_functions_are_answered(f, shape, words):
    with pytest.raises(UserError, match=words):
        ll.lens.superposition(f, shape)
