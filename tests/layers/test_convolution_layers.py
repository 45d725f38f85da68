"""Convolutions that torch lacks, against the reference, torch and finite differences."""

import pytest
import torch
import torch.nn.functional as F
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from torch import nn

from leadline.errors import ShapeError, UserError
from leadline.init import he
from leadline.layers import DepthwiseSeparable, Inception, RankOne, SubPixel, TrueConvolution, shuffled, spacing
from leadline.layers.true_convolution import CONVOLUTIONS
from leadline.reference import convolution, pooling

SUMS = {1: F.conv1d, 2: F.conv2d, 3: F.conv3d}


def drawn(*shape):
    return torch.randn(shape, dtype=torch.float64, generator=torch.Generator().manual_seed(0))


def same(found, expected):
    torch.testing.assert_close(found, torch.as_tensor(expected, dtype=torch.float64), rtol=1e-10, atol=1e-10)


@settings(max_examples=30, deadline=None)
@given(
    dims=st.integers(1, 3),
    kernel=st.integers(1, 3),
    stride=st.integers(1, 3),
    padding=st.integers(0, 2),
    zeros=st.integers(0, 1),
    groups=st.sampled_from([1, 2]),
    mode=st.sampled_from(["zeros", "circular", "reflect"]),
)
def test_a_true_convolution_is_the_reference_of_the_flipped_kernel(dims, kernel, stride, padding, zeros, groups, mode):
    sizes = (5, 4, 3)[:dims]
    assume(spacing(zeros) * (kernel - 1) + 1 <= min(sizes) + 2 * padding)
    layer = TrueConvolution(2, 4, kernel, dims, stride, padding, zeros, groups, mode).double()
    x = drawn(2, 2, *sizes)
    w = [[convolution.flipped(kernel) for kernel in channel] for channel in layer.weight.tolist()]
    expected = [
        convolution.layer(row, w, layer.bias.tolist(), stride, padding, spacing(zeros), groups, mode)
        for row in x.tolist()
    ]
    same(layer(x), expected)


def test_true_convolution_commutes_and_the_other_does_not():
    f, h = drawn(4), drawn(6).flip(0)

    def applied(signal, kernel):
        layer = TrueConvolution(1, 1, len(kernel), dims=1, padding=len(kernel) - 1).double()
        layer.weight.data, layer.bias.data = kernel[None, None], torch.zeros(1).double()
        return layer(signal[None, None]).detach()

    same(applied(f, h), applied(h, f))
    plain = F.conv1d(f[None, None], h[None, None], padding=5), F.conv1d(h[None, None], f[None, None], padding=3)
    assert not torch.allclose(*plain)


def test_first_weights_are_drawn_as_for_any_convolution():
    torch.manual_seed(3)
    layer = TrueConvolution(4, 64, 3)
    torch.manual_seed(3)
    assert torch.equal(layer.weight, nn.Conv2d(4, 64, 3).weight)
    he(nn.Sequential(layer), torch.Generator().manual_seed(0))
    assert float(layer.weight.detach().var()) == pytest.approx(2 / 36, rel=0.1)
    assert bool((layer.bias == 0).all())


@pytest.mark.parametrize("make", [
    lambda: TrueConvolution(2, 2, 3, dims=2, stride=2, padding=1, mode="circular"),
    lambda: RankOne(2, 3, 3, padding=1),
    lambda: DepthwiseSeparable(2, 3, 3, zeros=1),
    lambda: SubPixel(2, 1, 2, dims=2),
])  # fmt: skip
def test_gradients_are_those_of_differences(make):
    layer, x = make().double(), drawn(1, 2, 5, 5).requires_grad_()
    names = [name for name, _ in layer.named_parameters()]

    def answer(x, *values):
        return torch.func.functional_call(layer, dict(zip(names, values)), x)

    assert torch.autograd.gradcheck(answer, (x, *layer.parameters()))


@pytest.mark.parametrize("dims", [1, 2, 3])
@pytest.mark.parametrize(("stride", "padding"), [(1, 0), (2, 1)])
def test_rank_one_is_the_convolution_of_its_product(dims, stride, padding):
    layer, x = RankOne(3, 4, 3, dims, stride, padding).double(), drawn(2, 3, *[6] * dims)
    torch.testing.assert_close(layer(x), SUMS[dims](x, layer.kernels(), layer.along[-1].bias, stride, padding))
    assert sum(p.numel() for p in layer.parameters()) == 4 * (3 + dims * 3) + 4
    u, *axes = (layer.pointwise.weight[1].flatten(), *[part.weight[1].flatten() for part in layer.along])
    same(layer.kernels()[1], convolution.rank_one(u.tolist(), *[axis.tolist() for axis in axes]))


def test_first_kernels_of_rank_one_have_the_variance_of_torch_s():
    torch.manual_seed(0)
    ours, torchs = RankOne(32, 512, 5).kernels().detach().var(), nn.Conv2d(32, 512, 5).weight.detach().var()
    assert float(ours / torchs) == pytest.approx(1, rel=0.15)


@pytest.mark.parametrize("dims", [1, 2, 3])
def test_depthwise_then_pointwise_is_one_kernel_of_low_rank(dims):
    layer, x = DepthwiseSeparable(3, 4, 3, dims, stride=2, padding=1, zeros=1).double(), drawn(2, 3, *[7] * dims)
    w = layer.pointwise.weight * layer.depthwise.weight[:, 0]
    torch.testing.assert_close(layer(x), SUMS[dims](x, w, layer.pointwise.bias, 2, 1, 2))


def test_an_inception_block_lays_its_branches_behind_each_other():
    layer, x = Inception(3, ((1, 0, 2), (3, 4, 5)), pooled=6).double(), drawn(2, 3, 7, 8)
    out = layer(x)
    assert out.shape == (2, layer.dim_output, 7, 8) == (2, 13, 7, 8)
    alone, squeezed, pooled = layer.branches
    torch.testing.assert_close(out[:, :2], F.relu(F.conv2d(x, alone[0][0].weight, alone[0][0].bias)))
    inner = F.relu(F.conv2d(x, squeezed[0][0].weight, squeezed[0][0].bias))
    torch.testing.assert_close(out[:, 2:7], F.relu(F.conv2d(inner, squeezed[1][0].weight, squeezed[1][0].bias, 1, 1)))
    most = F.max_pool2d(x, 3, 1, 1)
    torch.testing.assert_close(out[:, 7:], F.relu(F.conv2d(most, pooled[1][0].weight, pooled[1][0].bias)))
    assert Inception(3, ((1, 0, 2),), pooled=0).dim_output == 2


@pytest.mark.parametrize("dims", [1, 2, 3])
@pytest.mark.parametrize("factor", [1, 2, 3])
def test_channels_become_places(dims, factor):
    h = drawn(2, 2 * factor**dims, *[3, 2, 2][:dims])
    same(shuffled(h, factor), [pooling.shuffled(row, factor) for row in h.tolist()])
    if dims == 2:
        assert torch.equal(shuffled(h, factor), F.pixel_shuffle(h, factor))


def test_sub_pixel_convolution_is_a_convolution_of_stride_one_over_s():
    """Insert zeros between the places, and slide the kernels interleaved into one."""
    torch.manual_seed(0)
    layer, x = SubPixel(2, 1, 2, dims=1).double(), drawn(1, 2, 5)
    nn.init.zeros_(layer.map.bias)
    kernel = layer.map.weight.flip(2).permute(1, 2, 0).reshape(2, 1, 6)  # taps of both phases in turn, flipped
    spread = F.conv_transpose1d(x, kernel, stride=2, padding=2)
    torch.testing.assert_close(layer(x), spread)


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda: TrueConvolution(3, 4, 3, groups=2), "groups must divide both numbers of channels. Got dim_input=3"),
        (lambda: TrueConvolution(3, 4, 3, dims=4), "dims must be a whole number from 1 to 3"),
        (lambda: TrueConvolution(3, 4, 3, mode="circle"), "Did you mean circular"),
        (lambda: TrueConvolution(3, 4, 0), "kernel must be a whole number of at least 1"),
        (lambda: spacing(-1), "zeros must be a whole number of at least 0"),
        (lambda: SubPixel(3, 4, kernel=2), "odd sizes. Got kernel=2. Pass 3"),
        (lambda: Inception(3, ((4, 0, 2),)), "odd sizes. Got kernel=4. Pass 5"),
        (lambda: Inception(3, (), pooled=0), "must have a branch"),
    ],
)
def test_what_cannot_be_built_is_refused(make, said):
    with pytest.raises(UserError, match=said):
        make()


def test_channels_that_do_not_share_out_are_refused():
    with pytest.raises(ShapeError, match="multiple of 4. Got 6 channels, factor=2, 2 axes. Pass 8 channels"):
        shuffled(torch.zeros(1, 6, 2, 2), 2)


def test_every_number_of_axes_has_its_layer():
    assert [CONVOLUTIONS[dims](1, 1, 3).weight.dim() - 2 for dims in (1, 2, 3)] == [1, 2, 3]
