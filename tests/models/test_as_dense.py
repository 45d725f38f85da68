"""Convolutions as the dense maps that they are."""

import copy
from itertools import pairwise

import pytest
import torch
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from torch import nn

import leadline as ll
from leadline.errors import UserError
from leadline.layers import (
    BatchNorm,
    DepthwiseSeparable,
    GhostBatchNorm,
    MaxBlurPool,
    RankOne,
    Skip,
    SubPixel,
    Subsample,
    TrueConvolution,
)
from leadline.models import MLP, ConvNet, ConvNet1D, LeNet, as_dense, dense_matrix, tied
from leadline.reference import convolution

CONVOLUTIONS = {1: nn.Conv1d, 2: nn.Conv2d, 3: nn.Conv3d}
TRANSPOSED = {1: nn.ConvTranspose1d, 2: nn.ConvTranspose2d, 3: nn.ConvTranspose3d}


def rows(count, *shape, dtype=torch.float64):
    return torch.randn(count, *shape, dtype=dtype, generator=torch.Generator().manual_seed(1))


def same(module, shape):
    W, b = dense_matrix(module, shape)
    x = rows(5, *shape).to(W)
    assert W.shape == (module(x).shape[1:].numel(), x[0].numel())
    torch.testing.assert_close(x.flatten(1) @ W.T + b, module(x).flatten(1), rtol=1e-10, atol=1e-10)
    return W


@settings(max_examples=15, deadline=None)
@given(
    dims=st.integers(1, 3),
    kernel=st.integers(1, 3),
    stride=st.integers(1, 2),
    padding=st.integers(0, 1),
    dilation=st.integers(1, 2),
    groups=st.sampled_from([1, 2]),
    mode=st.sampled_from(["zeros", "circular", "reflect", "replicate"]),
)
def test_any_convolution_is_its_matrix(dims, kernel, stride, padding, dilation, groups, mode):
    sizes = {1: (7,), 2: (5, 4), 3: (3, 3, 2)}[dims]
    assume(dilation * (kernel - 1) + 1 <= min(sizes) + 2 * padding)
    conv = CONVOLUTIONS[dims](2, 4, kernel, stride, padding, dilation, groups, padding_mode=mode).double()
    W = same(conv, (2, *sizes))
    labels = tied(conv, (2, *sizes))
    assert torch.equal(labels != 0, W != 0)
    number = conv.weight.numel()
    single = (labels > 0) & (labels <= number)
    assert torch.equal(W[single], conv.weight.detach().flatten()[labels[single] - 1])


@pytest.mark.parametrize("dims", [1, 2, 3])
@pytest.mark.parametrize(
    "options", [{}, {"stride": 2, "padding": 1, "output_padding": 1}, {"groups": 2, "dilation": 2}]
)
def test_a_transposed_convolution_has_the_transposed_matrix(dims, options):
    up = TRANSPOSED[dims](4, 2, 3, bias=False, **options).double()
    W = same(up, (4, *[3] * dims))
    options.pop("output_padding", None)
    down = CONVOLUTIONS[dims](2, 4, 3, bias=False, **options).double()
    down.weight.data = up.weight.data
    made = up(torch.zeros(1, 4, *[3] * dims).double()).shape[2:]
    torch.testing.assert_close(dense_matrix(down, (2, *made))[0], W.T, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("mode", ["zeros", "circular", "reflect"])
def test_the_matrix_is_the_reference_s(mode):
    conv = nn.Conv1d(1, 1, 5, 2, 4, 2, padding_mode=mode, bias=False).double()
    W, b = dense_matrix(conv, (1, 11))
    expected = convolution.matrix(conv.weight.flatten().tolist(), 11, 2, 4, 2, mode)
    torch.testing.assert_close(W, torch.tensor(expected, dtype=torch.float64))
    assert not b.any()


def test_a_strided_matrix_is_a_sampling_matrix_times_the_matrix_of_stride_one():
    plain, strided = nn.Conv1d(1, 1, 3, 1, 1, bias=False).double(), nn.Conv1d(1, 1, 3, 2, 1, bias=False).double()
    strided.weight = plain.weight
    sampling, _ = dense_matrix(Subsample(2).double(), (1, 6))
    W = sampling.double() @ dense_matrix(plain, (1, 6))[0]
    torch.testing.assert_close(W, dense_matrix(strided, (1, 6))[0])


@pytest.mark.parametrize(
    ("module", "shape"),
    [
        (nn.AvgPool2d(3, 2, 1), (2, 5, 5)),
        (nn.AdaptiveAvgPool2d(2), (2, 5, 4)),
        (nn.Upsample(scale_factor=2, mode="nearest"), (2, 3, 3)),
        (nn.Upsample(scale_factor=2, mode="bilinear", align_corners=False), (1, 3, 4)),
        (nn.PixelShuffle(2), (8, 2, 2)),
        (nn.ZeroPad2d(1), (1, 2, 2)),
        (nn.Linear(4, 3), (4,)),
        (nn.Flatten(), (2, 3)),
        (Subsample(2), (2, 5, 4)),
        (MaxBlurPool(window=1), (2, 5, 6)),
        (TrueConvolution(2, 3, 3, stride=2, padding=1, zeros=1, mode="circular"), (2, 6, 5)),
        (RankOne(3, 2, 3, padding=1), (3, 4, 4)),
        (DepthwiseSeparable(3, 2, 3), (3, 4, 4)),
        (SubPixel(2, 1), (2, 3, 3)),
        (nn.BatchNorm2d(2).eval(), (2, 3, 3)),
        (BatchNorm(2).eval(), (2, 3, 3)),
        (Skip(nn.Conv1d(2, 2, 3, padding=1)), (2, 5)),
    ],
    ids=lambda value: type(value).__name__,
)
def test_whatever_is_affine_has_a_matrix(module, shape):
    before = {name: value.clone() for name, value in module.state_dict().items()}
    torch.set_default_dtype(torch.float64)
    try:
        same(copy.deepcopy(module).double(), shape)
    finally:
        torch.set_default_dtype(torch.float32)
    W, _ = dense_matrix(module, shape)
    assert W.dtype == torch.float32
    assert all(torch.equal(value, before[name]) for name, value in module.state_dict().items())


def test_many_rows_are_taken_in_turn():
    same(nn.Conv1d(1, 3, 3, padding=1).double(), (1, 400))


# ── which weights are the same ───────────────────────────────────────────────────────────────────────────────────────


def test_the_pictures_of_tied_weights():
    full = tied(nn.Linear(6, 6), (6,))
    assert sorted(full.flatten().tolist()) == list(range(1, 37))
    plain = tied(nn.Conv1d(1, 1, 3, padding=1), (1, 6))
    for k in (1, 2, 3):
        assert torch.equal(plain == k, torch.diag(torch.ones(6 - abs(k - 2)), k - 2).bool())
    strided = tied(nn.Conv1d(1, 1, 3, stride=2, padding=1), (1, 6))
    assert strided.tolist() == [[2, 3, 0, 0, 0, 0], [0, 1, 2, 3, 0, 0], [0, 0, 0, 1, 2, 3]]
    up = tied(nn.ConvTranspose1d(1, 1, 3, stride=2, padding=1, output_padding=1), (1, 3))
    assert torch.equal(up, strided.T)


def test_channels_have_kernels_of_their_own():
    two = tied(nn.Conv1d(1, 2, 3, padding=1), (1, 6))  # 12 × 6, as one input channel makes two
    assert two.shape == (12, 6) and sorted(two.unique().tolist()) == list(range(7))
    grouped = tied(nn.Conv2d(2, 2, 3, padding=1, groups=2), (2, 3, 4))  # 24 × 24
    assert grouped.shape == (24, 24)
    assert not grouped[:12, 12:].any() and not grouped[12:, :12].any()


def test_sums_and_constants_have_numbers_of_their_own():
    mirrored = tied(nn.Conv1d(1, 1, 3, padding=1, padding_mode="reflect", bias=False), (1, 4))
    assert mirrored.tolist() == [[2, 4, 0, 0], [1, 2, 3, 0], [0, 1, 2, 3], [0, 0, 4, 2]]  # 4: w1 + w3, at both ends
    assert tied(nn.AvgPool1d(2), (1, 4)).tolist() == [[1, 1, 0, 0], [0, 0, 1, 1]]


def test_a_kernel_flipped_is_numbered_from_the_other_end():
    assert tied(TrueConvolution(1, 1, 3, dims=1, padding=1), (1, 3)).tolist() == [[2, 1, 0], [3, 2, 1], [0, 3, 2]]


# ── whole networks ───────────────────────────────────────────────────────────────────────────────────────────────────


def equal(model, shape, digits=1e-10):
    model.eval()
    made = as_dense(model, shape)
    assert all(isinstance(layer, nn.Linear) or not list(layer.children()) for layer in made)
    assert not any(isinstance(a, nn.Linear) and isinstance(b, nn.Linear) for a, b in pairwise(made))
    x = rows(20, *shape).to(next(model.parameters()))
    torch.testing.assert_close(made(x), model(x).flatten(1), rtol=digits, atol=digits)
    return made


def test_the_network_of_mnist_1d_and_its_dense_twin():
    net = nn.Sequential(
        nn.Conv1d(1, 15, 3, 2), nn.ReLU(), nn.Conv1d(15, 15, 3, 2), nn.ReLU(), nn.Conv1d(15, 15, 3, 2), nn.ReLU(),
        nn.Flatten(), nn.Linear(60, 10),
    )  # fmt: skip
    made = equal(net, (1, 40), 1e-5)
    assert [layer.out_features for layer in made if isinstance(layer, nn.Linear)] == [285, 135, 60, 10]
    assert sum(p.numel() for p in net.parameters()) == 2050
    assert sum(p.numel() for p in made.parameters()) == 59065
    twin = MLP(40, (285, 135, 60), 10, activation="relu", p_drop=0.0)
    with torch.no_grad():
        for own, other in zip([m for m in twin.modules() if isinstance(m, nn.Linear)], made[1::2]):
            own.load_state_dict(other.state_dict())
        x = rows(9, 1, 40, dtype=torch.float32)
        torch.testing.assert_close(twin.eval()(x), net(x), rtol=1e-5, atol=1e-5)
    equal(net.double(), (1, 40))


class _Stage(nn.Module):
    def __init__(self, dim_input, dim_output):
        super().__init__()
        self.map, self.norm, self.activation = (
            nn.Conv2d(dim_input, dim_output, 3),
            nn.BatchNorm2d(dim_output),
            nn.GELU(),
        )
        self.drop = ll.layers.Dropout(0.5)

    def forward(self, x):
        return self.drop(self.activation(self.norm(self.map(x))))


class _Network(nn.Module):
    def __init__(self):
        super().__init__()
        self.stages = nn.ModuleList([_Stage(2, 3), _Stage(3, 4)])
        self.head = nn.Linear(4 * 6, 3)

    def forward(self, x):
        for stage in self.stages:
            x = stage(x)
        return self.head(x.flatten(1))


def test_a_model_that_calls_its_children_in_a_row():
    torch.manual_seed(0)
    model = _Network().double()
    model(rows(8, 2, 6, 7))  # so that normalisation has statistics
    made = equal(model, (2, 6, 7))
    assert [type(layer).__name__ for layer in made] == ["Flatten", "Linear", "GELU", "Linear", "GELU", "Linear"]


@pytest.mark.parametrize(
    "pool",
    [
        nn.MaxPool2d(2),
        nn.MaxPool2d(3, 2, 1),
        nn.MaxPool2d((2, 3), stride=1),
        nn.MaxPool2d(2, 2, 1, dilation=2),
        nn.MaxPool2d(2, ceil_mode=True),
    ],
)
def test_maximum_pooling_becomes_relus(pool):
    torch.manual_seed(0)
    net = nn.Sequential(nn.Conv2d(1, 2, 2), nn.Tanh(), pool, nn.Conv2d(2, 1, 2), nn.Flatten()).double()
    equal(net, (1, 7, 8))


def test_parts_of_many_kinds():
    torch.manual_seed(0)
    net = nn.Sequential(
        nn.Conv2d(1, 4, 3, padding=1), nn.PReLU(4), nn.AvgPool2d(2),
        nn.Sequential(RankOne(4, 4, 3), nn.ReLU(inplace=True)), GhostBatchNorm(4), SubPixel(4, 2), nn.ELU(),
        nn.Dropout2d(0.5), nn.ConvTranspose2d(2, 1, 3, 2), nn.Flatten(), nn.Linear(81, 3),
    ).double()  # fmt: skip
    nn.init.uniform_(net[1].weight)
    made = equal(net, (1, 8, 8))
    x = rows(3, 1, 8, 8)
    kept = x.clone()
    made(x)
    assert torch.equal(x, kept)


def test_models_whose_layers_are_joined_by_functions():
    """Reshaping, mean pooling and the mean over all places between calls, and one activation called again and again."""
    torch.manual_seed(0)
    book = ConvNet1D(40, 10, widths=(15,) * 3, strides=(2,) * 3, kernel=3, padding="valid", norm="none", p_drop=0.0)
    widths = [layer.out_features for layer in equal(book, (40,), 1e-5) if isinstance(layer, nn.Linear)]
    assert widths == [285, 135, 60, 10]
    for model in (LeNet.tiny(), ConvNet.tiny()):
        equal(model.double(), model.input_shape)


def test_an_mlp_is_itself():
    net = MLP(4, (5, 6), 3, activation="relu")
    made = equal(net, (4,), 1e-6)
    assert [layer.out_features for layer in made if isinstance(layer, nn.Linear)] == [5, 6, 3]


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda: dense_matrix(nn.ReLU(), (4,)), "Got ReLU, which is neither"),
        (lambda: dense_matrix(nn.MaxPool1d(2), (1, 4)), "Got MaxPool1d"),
        (lambda: tied(nn.Sequential(nn.Linear(2, 2), nn.Tanh()), (2,)), "Got Sequential"),
        (
            lambda: as_dense(nn.Sequential(nn.Linear(3, 3), nn.Softmax(1)), (3,)),
            "Got Sequential before its first activation",
        ),
        (lambda: as_dense(nn.Sequential(nn.LayerNorm(3)), (3,)), "Got Sequential before its first"),
        (
            lambda: as_dense(nn.Sequential(Skip(nn.Sequential(nn.Linear(3, 3), nn.ReLU()))), (3,)),
            "Got Sequential, which is neither",
        ),
        (
            lambda: dense_matrix(nn.Conv2d(3, 3, 3, padding=1), (3, 224, 224)),
            "at most 268,435,456.* Got 150,528 × 150,528",
        ),
    ],
)
def test_what_is_not_dense_is_refused(make, said):
    with pytest.raises(UserError, match=said):
        make()
