"""Kernels, feature maps, tied matrices and checkerboards: against definitions and torch."""

import json

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn
from torch.nn import functional as F

from leadline.errors import ShapeError, UserError
from leadline.lens import artefacts, checkerboard, feature_maps, filters, tied


def test_filters_are_the_weights():
    net = nn.Sequential(nn.BatchNorm2d(3), nn.Conv2d(3, 5, (3, 2)), nn.Conv2d(5, 4, 3))
    view = filters(net)
    assert view.name == "1" and np.allclose(view.kernels, net[1].weight.detach())
    assert np.allclose(view.norms, net[1].weight.detach().flatten(1).norm(dim=1))
    assert filters(net, "2").kernels.shape == (4, 5, 3, 3)
    up = nn.ConvTranspose2d(2, 3, 4)
    assert np.allclose(filters(up, up).kernels[2, 1], up.weight[1, 2].detach())
    for part in (net[1], net[2], nn.Conv1d(2, 3, 5), nn.Conv3d(1, 2, 3), nn.Conv2d(1, 80, 3)):
        view = filters(part)
        assert view.plot().axes
        json.dumps(view.to_dict(), allow_nan=False)
    with pytest.raises(UserError, match="must have kernels"):
        filters(net, "0")
    with pytest.raises(UserError, match="must have a convolution"):
        filters(nn.Linear(1, 1))


def test_feature_maps_are_the_outputs_the_strongest_first():
    torch.manual_seed(0)
    net = nn.Sequential(nn.Conv2d(1, 6, 3), nn.ReLU(inplace=True), nn.Conv2d(6, 2, 3), nn.Flatten(), nn.Linear(72, 2))
    x = torch.randn(3, 1, 10, 10)
    view = feature_maps(net, x, row=2, most=4)
    assert view.names == ("0", "2") and view.channels == (6, 2)
    z = net[0](x[2:])[0].detach()
    for channel, values in zip(view.picked[0], view.maps[0], strict=True):
        assert np.allclose(values, z[channel], atol=1e-6)  # before the activation in place
    sizes = [(m**2).mean() for m in view.maps[0]]
    assert len(sizes) == 4 and sizes == sorted(sizes, reverse=True)
    assert view.plot().axes
    json.dumps(view.to_dict(), allow_nan=False)
    with pytest.raises(ShapeError, match="channels and positions"):
        feature_maps(net, x, ["4"])


MODULES = {
    "dense": (nn.Linear(6, 6), (6,), 36),
    "kernel of 3": (nn.Conv1d(1, 1, 3, padding=1), (1, 6), 3),
    "stride 2": (nn.Conv1d(1, 1, 3, stride=2, padding=1), (1, 6), 3),
    "kernel of 5, stride 2": (nn.Conv1d(1, 1, 5, stride=2, padding=2), (1, 12), 5),
    "dilated": (nn.Conv1d(1, 1, 3, dilation=2, padding=2), (1, 12), 3),
    "two channels out": (nn.Conv1d(1, 2, 3, padding=1), (1, 6), 6),
    "two channels in": (nn.Conv1d(2, 1, 3, padding=1), (2, 6), 6),
    "pictures": (nn.Conv2d(1, 1, 3, padding=1), (1, 4, 6), 9),
    "groups": (nn.Conv2d(4, 4, 2, groups=2), (4, 3, 3), 32),
    "transposed": (nn.ConvTranspose1d(1, 1, 3, stride=2), (1, 3), 3),
    "means": (nn.AvgPool1d(2), (1, 6), 1),
    "subsampling": (nn.Upsample(scale_factor=2), (1, 3), 1),
}


@pytest.mark.parametrize("name", MODULES)
def test_tied_matrices(name):
    module, shape, weights = MODULES[name]
    view = tied(module, shape)
    x = torch.randn(2, *shape, dtype=torch.float64)
    double = torch.func.functional_call(module, {n: p.double() for n, p in module.named_parameters()}, (x,))
    zero = torch.func.functional_call(module, {n: p.double() for n, p in module.named_parameters()}, (0 * x,))
    assert np.allclose((double - zero).detach().flatten(1), x.flatten(1) @ view.matrix.T)
    assert view.weights == weights and view.codes.max() == weights
    for code in range(1, weights + 1):  # one code is one value
        assert np.ptp(view.matrix[view.codes == code]) < 1e-12
    assert not view.matrix[view.codes == 0].any() and view.plot().axes
    json.dumps(view.to_dict(), allow_nan=False)


def test_a_transposed_matrix_is_the_transpose():
    down = nn.Conv1d(1, 1, 3, stride=2, padding=1, bias=False)
    up = nn.ConvTranspose1d(1, 1, 3, stride=2, padding=1, output_padding=1, bias=False)
    up.weight = down.weight
    assert (tied(up, (1, 3)).codes == tied(down, (1, 6)).codes.T).all()
    assert tied(down, (1, 6)).codes.tolist() == [[2, 3, 0, 0, 0, 0], [0, 1, 2, 3, 0, 0], [0, 0, 0, 1, 2, 3]]


def test_only_linear_modules_have_a_matrix():
    with pytest.raises(UserError, match="only an affine layer"):
        tied(nn.ReLU(), (1, 4))
    with pytest.raises(ShapeError, match="small enough to draw"):
        tied(nn.Conv2d(1, 1, 3), (1, 100, 100))


@settings(max_examples=20, deadline=None)
@given(st.integers(1, 7), st.integers(1, 4), st.integers(1, 2), st.integers(0, 1), st.integers(4, 9))
def test_overlaps_are_those_of_torch(kernel, stride, spacing, padding, inputs):
    if (inputs - 1) * stride + (kernel - 1) * spacing + 1 <= 2 * padding:
        return
    view = checkerboard(kernel, stride, spacing=spacing, padding=padding, inputs=inputs)
    ones = torch.ones(1, 1, inputs), torch.ones(1, 1, kernel)
    theirs = F.conv_transpose1d(*ones, stride=stride, dilation=spacing, padding=padding)[0, 0]
    assert view.counts.tolist() == theirs.int().tolist()
    if spacing == 1:
        assert view.even == (kernel % stride == 0) and (view.unevenness == 0) == view.even
        assert view.period.sum() == kernel and view.grid >= view.unevenness


def test_the_meter_finds_uneven_overlaps_and_passes_even_ones():
    ones = lambda k: nn.init.ones_(nn.ConvTranspose2d(1, 1, k, stride=2, bias=False).weight)  # noqa: E731
    uneven, even = nn.ConvTranspose2d(1, 1, 3, 2, bias=False), nn.ConvTranspose2d(1, 1, 4, 2, bias=False)
    uneven.weight, even.weight = nn.Parameter(ones(3)), nn.Parameter(ones(4))
    found = artefacts(uneven, (1, 12, 12), 2)
    assert found.phases.ravel().tolist() == [1.75, -0.25, -0.25, -1.25] and found.strength > 0.3
    assert artefacts(even, (1, 12, 12), 2).strength < 1e-7
    better = nn.Sequential(nn.Upsample(scale_factor=2), nn.Conv2d(1, 3, 3, padding=1))
    torch.manual_seed(0)
    assert artefacts(better, torch.randn(64, 1, 16, 16), 2).strength < 0.05
    line = nn.ConvTranspose1d(1, 1, 3, 2, bias=False)
    line.weight = nn.Parameter(torch.ones(1, 1, 3))
    assert artefacts(line, (1, 12), 2).phases.tolist() == [0.5, -0.5]
    for view in (found, checkerboard(5, 3), artefacts(line, (1, 12), 2)):
        assert view.plot().axes
        json.dumps(view.to_dict(), allow_nan=False)
    with pytest.raises(ShapeError, match="margins"):
        artefacts(uneven, (1, 3, 3), 2)
