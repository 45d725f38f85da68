"""What a convolution is: a matrix of tied weights that sees a little, moves with its input and has few parameters."""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from leadline.claims.claim import Check, Evidence, claim
from leadline.claims.convolution import book_net
from leadline.claims.curves import Curves
from leadline.data.scenes import scenes
from leadline.layers import LpPool, MaxBlurPool, RankOne, SubPixel, Subsample, TrueConvolution, spacing
from leadline.layers.residual_block import ResidualBlock
from leadline.lens import artefacts, checkerboard, equivariance, receptive_field, shift_consistency, tied
from leadline.models import MLP, VGG, AlexNet, DenseNet, as_dense, dense_matrix, dense_twin
from leadline.reference.convolution import by_fourier, toeplitz
from leadline.reference.convolution import full as convolved

_UDL = "Understanding Deep Learning"


@claim(
    "receptive-fields",
    "Along layers of kernel 3 the receptive field is 3, 5, 7 and, after a stride of 2, 11; kernels 5, 3 and 3 with "
    "stride 2 first and a dilated last one make 5, 9 and 17",
    f"{_UDL}, section 10.2.6, figure 10.6, problems 10.9 and 10.15",
    misprint="the book counts dilation in zeros between taps, so its rate 1 is a spacing of 2 in torch",
)
def receptive_fields(full: bool) -> Evidence:
    conv, relu = nn.Conv1d, nn.ReLU
    wide = spacing(1)
    nets: dict[str, tuple[nn.Module, tuple[int, ...], tuple[int, ...]]] = {
        "figure 10.6": (nn.Sequential(conv(1, 4, 3), relu(), conv(4, 4, 3), relu(), conv(4, 4, 3, stride=2), relu(),
                                      conv(4, 4, 3)), (1, 41), (3, 5, 7, 11)),
        "problem 10.9": (nn.Sequential(conv(1, 4, 5, stride=2), relu(), conv(4, 4, 3), relu(),
                                       conv(4, 4, 3, dilation=wide)), (1, 41), (5, 9, 17)),
        "MNIST-1D network": (book_net().layers, (1, 40), (3, 7, 15)),
    }  # fmt: skip
    if full:
        alex = AlexNet(3, 10, layout="2012", width=1 / 48, hidden=4)  # pictures so large that no border cuts a field
        nets["AlexNet"] = alex, (3, 288, 288), (11, 19, 51, 67, 99, 131, 163, 195)
    told, seen = {}, {}
    with torch.random.fork_rng(devices=[]):
        for name, (net, shape, _) in nets.items():
            chain = receptive_field(net, shape, num=1).chain
            told[name] = [link.size[0] if link.size else math.nan for link in chain]
            seen[name] = [link.measured[0] for link in chain]
    places = {name: tuple(float(k) for k in range(1, len(sizes) + 1)) for name, (*_, sizes) in nets.items()}
    view = Curves(
        "What a middle unit can see", "convolution or pool", "inputs",
        {name: (places[name], tuple(map(float, sizes))) for name, sizes in seen.items()},
        {f"{name}, as printed": (places[name], tuple(map(float, sizes))) for name, (*_, sizes) in nets.items()},
        log="y" if full else "", joined=False,
    )  # fmt: skip
    checks = []
    for name, (*_, sizes) in nets.items():
        for words, found in (("by the formula", told[name]), ("by derivatives", seen[name])):
            off = max((abs(a - b) for a, b in zip(found, sizes, strict=True)), default=math.nan)
            checks.append(Check(f"{name}, {words}: largest distance from {', '.join(map(str, sizes))}", off, 0, 0))
    return Evidence(tuple(checks), view)


@claim(
    "parameter-counts",
    "The parameters of the networks of chapters 10 and 11, counted",
    f"{_UDL}, sections 10 to 10.5 and 11.4 to 11.5, problems 10.8, 10.16, 11.8 and 11.10",
    misprint="150,185 for the fully connected MNIST-1D network (59,065); AlexNet's 60 million need a flattened 6 × 6 × "
    "256, where the text has 13 × 13 × 256, which makes 202 million; VGG has 19 layers in section 10.5 and 18 in 11.1",
)
def parameter_counts(full: bool) -> Evidence:
    bias = nn.Conv1d(1, 4, 3), nn.Conv1d(4, 10, 5)
    with torch.device("meta"):
        unit = lambda c, d, k: (nn.BatchNorm2d(c), nn.ReLU(), nn.Conv2d(c, d, k, padding=k // 2))  # noqa: E731
        nets: dict[str, tuple[int, nn.Module | None]] = {
            "problem 10.8, first layer": (12 + 4, bias[0]),
            "problem 10.8, second layer": (200 + 10, bias[1]),
            "kernel 3, one channel": (3 + 1, nn.Conv1d(1, 1, 3)),
            "3 × 3 × 64 × 128 and offsets": (9 * 64 * 128 + 128, nn.Conv2d(64, 128, 3)),
            "depthwise 5 × 5, 32 channels": (25 * 32, nn.Conv2d(32, 32, 5, groups=32, bias=False)),
            "rank one, 32 to 32 channels, 5 × 5": (32 * (32 + 5 + 5) + 32, RankOne(32, 32, 5)),
            "MNIST-1D, convolutional": (2050, book_net()),
            "MNIST-1D, fully connected": (59_065, dense_twin(book_net())),
            "1, ten layers of 20, 1": (3841, MLP(1, (20,) * 10, 1, activation="relu", p_drop=0.0)),
            "the same with batch norm": (4241, _normed()),
            "3 × 3 unit of 512 channels": (2_360_832, nn.Sequential(*unit(512, 512, 3))),
            "bottleneck 512, 128, 128, 512": (
                280_832,
                ResidualBlock(nn.Sequential(*unit(512, 128, 1), *unit(128, 128, 3), *unit(128, 512, 1)), nn.Identity()),
            ),
            "AlexNet": (62_378_344, AlexNet(3, 1000, layout="2012")),
            "AlexNet, two groups": (60_965_224, AlexNet(3, 1000, layout="2012", num_groups=2)),
            "VGG-19": (143_667_240, VGG(3, 1000, depth=19, norm=False)),
            "dense layer of 224 × 224 × 3": (150_528**2 + 150_528, nn.Linear(150_528, 150_528)),
        }
        grown = DenseNet(3, 10, stages=(3,), growth=32, bottleneck=False)
    counted = {name: sum(p.numel() for p in net.parameters()) for name, (_, net) in nets.items() if net is not None}
    stated = {name: value for name, (value, _) in nets.items()}
    reads = [part.in_channels for part in grown.body.modules() if isinstance(part, nn.Conv2d)]
    wrong = {"MNIST-1D, fully connected": 150_185, "AlexNet": 60_000_000}
    view = Curves(
        "Parameters", "as stated", "as counted",
        {"networks and layers": (tuple(map(float, stated.values())), tuple(map(float, counted.values()))),
         "as printed": (tuple(map(float, wrong.values())), tuple(float(counted[name]) for name in wrong))},
        {"the same": ((1.0, 1e11), (1.0, 1e11))}, log="xy", joined=False,
    )  # fmt: skip
    return Evidence(
        (
            *(Check(name, counted[name], stated[name], stated[name]) for name in nets),
            Check("weights between all pixels of 224 × 224 × 3", float(150_528**2), 22_658_678_784, 22_658_678_784),
            Check("channels that two dense layers of 32 append", float(reads[2] - reads[0]), 64, 64),
        ),
        view,
    )


@claim(
    "conv-is-dense",
    "A convolutional layer is a fully connected one whose weights are tied or zero, so that a fully connected network "
    "of the same sizes can copy a convolutional one",
    f"{_UDL}, sections 10.2.4 and 10.2.7, figure 10.4; slides on convolutions",
)
def conv_is_dense(full: bool) -> Evidence:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        net = book_net().double().eval()
        twin = dense_twin(net)
        kernels = [nn.Conv1d(2, 3, 3, padding=1), nn.Conv1d(2, 2, 3, 2, 1, 2), nn.Conv2d(1, 2, 3, 2, 1)]
        copy = as_dense(nn.Sequential(nn.Unflatten(1, (1, 40)), net.layers, nn.Flatten(), net.head), (40,)).double()
    x = torch.randn(2000 if full else 200, 40, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    with torch.no_grad():
        off = float((copy(x) - net(x)).abs().max())
    maps = [layer for layer in copy if isinstance(layer, nn.Linear)]
    sizes = [layer.out_features for layer in maps]
    alike = sizes == [*twin.hidden, 10]
    zero = sum(int((layer.weight == 0).sum()) for layer in maps[:3]) / sum(layer.weight.numel() for layer in maps[:3])
    apart = 0.0
    for kernel, shape in zip(kernels, ((2, 12), (2, 12), (1, 6, 7)), strict=True):
        matrix, offset = dense_matrix(kernel.double(), shape)
        rows = torch.randn(5, *shape, dtype=torch.float64, generator=torch.Generator().manual_seed(2))
        with torch.no_grad():
            found = kernel(rows).flatten(1)
        apart = max(apart, float((found - rows.flatten(1) @ matrix.mT - offset).abs().max()))
    return Evidence(
        (
            Check("largest difference of the copy's answers", off, high=1e-10),
            Check("whether the copy has the widths 285, 135, 60 and 10", float(alike), 1, 1),
            Check("share of zeros in its three hidden maps", zero, low=0.8),
            Check("largest difference of single layers: strides, padding, dilation, two axes", apart, high=1e-12),
        ),
        tied(nn.Conv1d(2, 3, 3, stride=2, padding=1, bias=False), (2, 12)),
    )


@claim(
    "conv-equivariant",
    "A convolution moves with its input, exactly where positions are a ring; a stride of 2 breaks that for odd shifts, "
    "many maxima of a pool stay, and a blur before the stride mends some of it",
    f"{_UDL}, sections 10.2.1 and 10.4.1, notes on chapter 10; Zhang 2019; slides on pooling",
)
def conv_equivariant(full: bool) -> Evidence:
    g = torch.Generator().manual_seed(0)
    pictures = scenes(num=200 if full else 60, size=32, task="classes", noise=0.0)
    x = pictures.inputs.encode(pictures.train.x).double()[:32]
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        conv = nn.Conv2d(3, 8, 3, 1, 1, padding_mode="circular").double()
        zeros = nn.Conv2d(3, 8, 3, 1, 1).double()
        strided = nn.Conv2d(3, 8, 3, 2, 1, padding_mode="circular").double()
        bodies: dict[str, nn.Module] = {
            "stride 1": conv,
            "stride 2": strided,
            "max-pool 2": nn.Sequential(conv, nn.ReLU(), nn.MaxPool2d(2)),
            "max-blur-pool 2": nn.Sequential(conv, nn.ReLU(), MaxBlurPool(2, 2)),
        }
        deep = {name: _deep(pool).double() for name, pool in (("max", nn.MaxPool2d(2)), ("blur", MaxBlurPool(2, 2)))}
    shifts = range(9 if full else 5)
    words = [f"translate({k}, {k})" for k in shifts]
    errors = {name: equivariance(net, x, words).equivariance for name, net in bodies.items()}
    inner = equivariance(zeros, x, words, margin=len(words)).equivariance
    moved = F.max_pool2d(torch.roll(x, 1, -1), 2) == F.max_pool2d(x, 2)
    noise = torch.randn(40, 1, 64, 64, generator=g, dtype=torch.float64)
    stayed = (F.max_pool2d(torch.roll(noise, 1, -1), 2) == F.max_pool2d(noise, 2)).double().mean()
    kept = {name: shift_consistency(net, x, 2).consistency for name, net in deep.items()}
    view = Curves(
        "Does the output move with the input?", "pixels moved, along both axes", "relative error",
        {name: (tuple(map(float, shifts)), tuple(found.tolist())) for name, found in errors.items()},
    )  # fmt: skip
    return Evidence(
        (
            Check("ring, stride 1: largest error of any shift", float(errors["stride 1"].max()), high=1e-12),
            Check("zeros at the border: the same inside", float(inner.max()), high=1e-12),
            Check("stride 2: error of a shift by 1", float(errors["stride 2"][1]), low=0.1),
            Check("stride 2: error of a shift by 2", float(errors["stride 2"][2]), high=1e-12),
            # of six numbers in two windows of four, the largest is one of the two that they share
            Check("maxima of noise that a shift by 1 leaves", float(stayed), 1 / 3 - 0.01, 1 / 3 + 0.01),
            # "many", without a number: read as a quarter, for pictures that are smooth where they are not flat
            Check("the same of pictures", float(moved.double().mean()), low=0.25),
            Check("error of a shift by 1 after a blur, over that without",
                  float(errors["max-blur-pool 2"][1] / errors["max-pool 2"][1]), high=0.8),
            Check("answers that stay behind blurs, less those without", kept["blur"] - kept["max"], low=0.0),
        ),
        view,
    )  # fmt: skip


@claim(
    "sliding-identities",
    "A strided convolution is a sampled one; a transposed one has the transposed matrix; taps of zero dilate; a pool "
    "of the p-norm tends to the largest; sub-pixels are a stride of 1/s; 1 × 1 kernels are one map at each place",
    f"{_UDL}, sections 10.2.3 to 10.4.3, figures 10.3 and 10.13, notes on chapter 10, problem 10.12; lecture notes on "
    "convolution",
    misprint="problem 10.12 sets kernel size and stride two beside kernel size one and sampling: the kernel is the "
    "same on both sides; the sums of equations 10.3, 10.4 and 10.6 have i + j - 1 for i + j - 2",
)
def sliding_identities(full: bool) -> Evidence:
    g = torch.Generator().manual_seed(0)
    drawn = lambda *shape: torch.randn(*shape, generator=g, dtype=torch.float64)  # noqa: E731
    matrix = lambda layer, *shape: dense_matrix(layer.double(), shape)[0].double()  # noqa: E731
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        once, twice = (nn.Conv1d(2, 3, 3, stride, 1, bias=False) for stride in (1, 2))
        back = nn.ConvTranspose1d(3, 2, 3, 2, 1, 1, bias=False)
        dilated, five = nn.Conv1d(1, 1, 3, dilation=spacing(1), bias=False), nn.Conv1d(1, 1, 5, bias=False)
        point, pixel = nn.Conv2d(4, 5, 1, bias=False).double(), SubPixel(2, 3, factor=3, kernel=5, dims=1).double()
        true = TrueConvolution(1, 1, 3, dims=1).double()
    with torch.no_grad():
        twice.weight.copy_(once.weight)
        back.weight.copy_(once.weight)  # (3, 2, 3): out of three channels into two
        five.weight.zero_()
        five.weight[..., ::2] = dilated.weight
        sampled = matrix(Subsample(2), 3, 8) @ matrix(once, 2, 8) - matrix(twice, 2, 8)
        turned = matrix(back, 3, 4) - matrix(twice, 2, 8).mT
        zeros = matrix(five, 1, 9) - matrix(dilated, 1, 9)
        x = drawn(3, 4, 6, 7)
        points = point(x) - torch.einsum("oc,bcyx->boyx", point.weight[..., 0, 0], x)
        fractional = _as_fractional_stride(pixel, series := drawn(3, 2, 8)) - pixel(series)
        flipped = true(row := drawn(1, 1, 9)) - F.conv1d(row, true.weight.flip(-1), true.bias)
        h = drawn(7, 1, 16).abs()
        largest, gap, bound = F.max_pool1d(h, 4), [], []
        powers = tuple(2.0**k for k in range(9 if full else 8))
        for p in powers:
            gap.append(float(((LpPool(p, 4)(h) - largest) / largest).max()))
            bound.append(4 ** (1 / p) - 1)  # four equal numbers
    f, k = drawn(9).tolist(), drawn(4).tolist()
    each = convolved(f, k), convolved(k, f), by_fourier(f, k), _times(toeplitz(k, 9), f)
    forms = torch.tensor(each, dtype=torch.float64)
    worst = lambda t: float(t.abs().max())  # noqa: E731
    view = Curves(
        "The p-norm of four numbers over the largest", "p", "relative distance",
        {"measured, the worst": (powers, tuple(gap))}, {"four equal numbers": (powers, tuple(bound))}, log="xy",
    )  # fmt: skip
    return Evidence(
        (
            Check("sampling times stride 1, less stride 2", worst(sampled), high=1e-14),
            Check("matrix of the transposed, less the transposed matrix", worst(turned), high=1e-14),
            Check("kernel 5 with taps 2 and 4 zero, less the dilated kernel 3", worst(zeros), 0, 0),
            Check("1 × 1 kernels less one map at each place", worst(points), high=1e-14),
            Check("sub-pixels less a transposed convolution of stride 3", worst(fractional), high=1e-13),
            Check("true convolution less the flipped kernel", worst(flipped), high=1e-14),
            Check("f * h, h * f, by Fourier, by Toeplitz: largest difference", worst(forms - forms[0]), high=1e-12),
            Check("p-norm over its bound 4^{1/p} - 1, the worst",
                  max(a / b for a, b in zip(gap, bound, strict=True)), high=1),
            Check(f"relative distance from the largest at p = {powers[-1]:.0f}", gap[-1], high=0.02),
        ),
        view,
    )  # fmt: skip


@claim(
    "checkerboards",
    "A transposed convolution writes evenly where its stride divides its kernel; kernel 3 with stride 2 leaves a "
    "checkerboard, kernel 4 none",
    f"{_UDL}, notes on chapter 10; Odena et al. 2016",
)
def checkerboards(full: bool) -> Evidence:
    kernels = range(2, 13 if full else 9)
    uneven = {s: [checkerboard(k, s).unevenness for k in kernels if k >= s] for s in (2, 3, 4)}
    places = {s: [float(k) for k in kernels if k >= s] for s in uneven}
    wrong = [
        (k, s) for s in uneven for k, found in zip(places[s], uneven[s], strict=True) if (found == 0) != (k % s == 0)
    ]
    # 4, 2, 2 and 1 inputs write inside: deviation √19 / 4; with borders 25 outputs of mean square 58 / 25 an axis
    strength, marks = math.sqrt(19) / 4 / (58 / 25), []
    for k in (3, 4):
        up = nn.ConvTranspose2d(1, 1, k, stride=2, bias=False)
        nn.init.ones_(up.weight)
        marks.append(artefacts(up, (1, 12, 12), 2).strength)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        random = [
            artefacts(nn.ConvTranspose2d(1, 64, k, stride=2, bias=False), (1, 12, 12), 2).strength for k in (3, 4)
        ]
    view = Curves(
        "How unevenly a transposed convolution writes", "kernel", "(most - fewest) / mean of the inputs to an output",
        {f"stride {s}": (tuple(places[s]), tuple(found)) for s, found in uneven.items()},
    )  # fmt: skip
    return Evidence(
        (
            Check("kernel 3, stride 2: unevenness along an axis", uneven[2][1], 2 / 3 - 1e-12, 2 / 3 + 1e-12),
            Check("kernel 4, stride 2", uneven[2][2], 0, 0),
            Check("pairs where even and 'the stride divides the kernel' differ", float(len(wrong)), 0, 0),
            Check("pattern of equal weights, kernel 3", marks[0], strength - 1e-6, strength + 1e-6),
            Check("pattern of equal weights, kernel 4", marks[1], high=1e-6),
            # equal counts are no promise: weights differ by phase as they are drawn
            Check("pattern of random weights, kernel 4", random[1], low=0.1),
        ),
        view,
    )


def _normed() -> nn.Sequential:
    layers: list[nn.Module] = []
    for width in (1, *(20,) * 9):
        layers += [nn.Linear(width, 20), nn.BatchNorm1d(20), nn.ReLU()]
    return nn.Sequential(*layers, nn.Linear(20, 1))


def _deep(pool: nn.Module) -> nn.Sequential:
    """An untrained classifier of three convolutions on rings, with pools between."""
    conv: Callable[[int, int], nn.Conv2d] = lambda c, d: nn.Conv2d(c, d, 3, padding=1, padding_mode="circular")  # noqa: E731
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(1)
        return nn.Sequential(
            conv(3, 8), nn.ReLU(), pool, conv(8, 16), nn.ReLU(), pool, conv(16, 32), nn.ReLU(), pool, nn.Flatten(),
            nn.Linear(512, 10),
        )  # fmt: skip


def _as_fractional_stride(pixel: SubPixel, x: Tensor) -> Tensor:
    """A transposed convolution of stride s whose kernel holds, tap by tap, the s kernels of each channel."""
    s, w = pixel.factor, pixel.map.weight  # (D s, C, K)
    D, C, K = w.shape[0] // s, *w.shape[1:]  # noqa: N806
    kernel = w.reshape(D, s, C, K).flip(-1).permute(2, 0, 3, 1).reshape(C, D, K * s)
    offsets = dict(pixel.map.named_parameters())["bias"].reshape(D, s).repeat(1, x.shape[-1])
    return F.conv_transpose1d(x, kernel, None, s, s * (K // 2)) + offsets


def _times(matrix: list[list[float]], f: list[float]) -> list[float]:
    return [sum(a * b for a, b in zip(row, f, strict=True)) for row in matrix]
