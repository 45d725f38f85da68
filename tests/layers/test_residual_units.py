"""Units of convolutions and highway layers: what they compute, written out once by hand."""

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from leadline.errors import UnknownName, UserError
from leadline.init.branches import branches
from leadline.layers.feature_norm import NORMS, feature_norm
from leadline.layers.highway import HighwayLayer
from leadline.layers.residual_units import BottleneckUnit, PlainUnit


@pytest.mark.parametrize(("stride", "dilation"), [(1, 1), (2, 1), (1, 2)])
def test_a_plain_unit_is_two_kernels_beside_a_skip(stride, dilation):
    torch.manual_seed(0)
    unit, x = PlainUnit(3, 4, stride, dilation, norm="none"), torch.randn(2, 3, 7, 9)
    first, last = unit.branch[2], unit.branch[5]
    h = F.conv2d(x.relu(), first.weight, first.bias, stride, dilation, dilation).relu()
    h = F.conv2d(h, last.weight, last.bias, 1, dilation, dilation)
    kept = F.conv2d(F.avg_pool2d(x, stride, ceil_mode=True), unit.skip[1].weight)
    assert torch.allclose(unit(x), kept + h, atol=1e-6)


@pytest.mark.parametrize("memory", [torch.contiguous_format, torch.channels_last])
def test_halving_has_a_gradient_in_any_order_of_memory(memory):
    unit, x = PlainUnit(8, 16, stride=2).to(memory_format=memory), torch.randn(16, 8, 64, 64)  # once ended the process
    unit(x.contiguous(memory_format=memory)).square().mean().backward()
    assert all(bool(p.grad.isfinite().all()) for p in unit.parameters())


def test_a_unit_that_keeps_the_shape_has_a_bare_skip():
    assert isinstance(PlainUnit(4, 4).skip, nn.Identity) and isinstance(BottleneckUnit(4, 4).skip, nn.Identity)
    assert not isinstance(PlainUnit(4, 4, stride=2).skip, nn.Identity)


def test_the_bottleneck_of_the_book_has_its_number_of_weights():
    count = sum(p.numel() for p in BottleneckUnit(512, 512, 128).parameters())
    biases = 128 + 128 + 512  # counted in the book; none here, where a normalisation makes them idle
    assert count + biases == 280_832


def test_units_declare_their_branches():
    net = nn.Sequential(PlainUnit(3, 4), BottleneckUnit(4, 4), HighwayLayer(4, gate="none"), HighwayLayer(4))
    assert [(b.path, len(b.maps)) for b in branches(net)] == [("0", 2), ("1", 3), ("2", 1)]


@pytest.mark.parametrize("name", NORMS)
@pytest.mark.parametrize("dims", [1, 2, 3])
def test_normalised_maps_have_mean_zero_and_variance_one(name, dims):
    h = 3 + 2 * torch.randn(4, 6, *(5,) * dims, generator=torch.Generator().manual_seed(0))
    out = feature_norm(name, 6, dims)(h)
    axes = {"batch": (0, 2), "instance": (2,), "group": None}
    if name == "none":
        assert out is h
        return
    flat = out.flatten(2) if name != "group" else out.reshape(4, 2, -1)
    mean = flat.mean(axes[name] if name != "group" else 2)
    assert mean.abs().max() < 1e-5
    assert flat.square().mean(axes[name] if name != "group" else 2).sub(1).abs().max() < 1e-3


def test_a_norm_without_a_name_or_a_place_is_refused():
    with pytest.raises(UnknownName, match="Did you mean batch"):
        feature_norm("bach", 4)
    with pytest.raises(UserError, match="dims must be 1, 2 or 3"):
        feature_norm("batch", 4, 4)


@pytest.mark.parametrize("gate", ["coupled", "separate", "none"])
def test_a_highway_layer_written_out(gate):
    torch.manual_seed(0)
    layer, x = HighwayLayer(4, "tanh", gate, carry=0.5), torch.randn(3, 4)
    made = (x @ layer.map.weight.T + layer.map.bias).tanh()
    t = c = torch.ones(())
    if gate != "none":
        t = (x @ layer.transform.weight.T - 0.5).sigmoid()
        c = 1 - t
    if gate == "separate":
        c = (x @ layer.carry_gate.weight.T + 0.5).sigmoid()
    assert torch.allclose(layer(x), t * made + c * x, atol=1e-6)


def test_an_activation_that_doubles_is_refused():
    with pytest.raises(UserError, match="keep the number of units"):
        HighwayLayer(4, "crelu")
