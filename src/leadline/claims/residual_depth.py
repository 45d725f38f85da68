"""What skips and batch normalisation do to signal and gradient at the start: how they grow, how soon they forget, and
on which paths they travel."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial

import numpy as np
import torch
from torch import Tensor, nn

from leadline import data as sources
from leadline.claims.claim import FAILS, Check, Evidence, claim
from leadline.claims.curves import Curves
from leadline.layers import BatchNorm, GhostBatchNorm, ImageLayerNorm, exact_statistics
from leadline.layers.highway import HighwayLayer
from leadline.lens import path_gradients, shattered
from leadline.lens.paths import path_counts
from leadline.likelihoods import Categorical
from leadline.models import NeuralODE, NormFree, ResNet
from leadline.verbs import fit

_UDL = "Understanding Deep Learning"
_WIDTH = 100


@claim(
    "residual-variance",
    "Signal and gradient of a residual network double their variance with every block; a factor 1/√2 keeps it, and "
    "batch norm before each branch makes it grow by one a block",
    f"{_UDL}, sections 11.3 and 11.4.1, figure 11.6, problems 11.5 and 11.6",
    misprint="the variance of section 11.3 is the second moment over units, rows and draws of the weights; the "
    "variance of one unit over rows is not kept by 1/√2",
)
def residual_variance(full: bool) -> Evidence:
    blocks, nets, rows = 50, 200 if full else 20, 500 if full else 60
    found = {kind: _residual(kind, blocks, nets, rows) for kind in ("plain", "half", "norm")}
    ks = tuple(float(k) for k in range(blocks + 1))
    forward = {kind: moments for kind, (moments, _, _) in found.items()}
    backward = found["plain"][1]
    growth = lambda m: float((m[-1] / m[0]) ** (1 / blocks))  # noqa: E731
    # the moment of one net of 100 units strays by a factor e after 50 blocks: draws average e - 1 of relative variance
    noise = 4 * math.sqrt((math.e - 1) / nets)
    # and a layer that is large where it is positive makes the next one so: a part 1/D a block, which is no chance
    off = noise + blocks / _WIDTH
    doubled = 2 * math.exp(-off / blocks), 2 * math.exp(off / blocks)
    slope = float(forward["norm"][-1] - forward["norm"][0]) / blocks
    unit = found["half"][2]
    view = Curves(
        f"{blocks} residual blocks of {_WIDTH} units, {nets} draws", "block", "mean square",
        {"plain, forward": (ks, tuple(forward["plain"].tolist())),
         "plain, backward": (ks, tuple(backward.tolist())),
         "over √2": (ks, tuple(forward["half"].tolist())),
         "batch norm first": (ks, tuple(forward["norm"].tolist()))},
        {"2 · 2ᵏ": (ks, tuple(2 * 2**k for k in ks)), "2": (ks, (2.0,) * len(ks)),
         "2 + k": (ks, tuple(2 + k for k in ks))},
        log="y",
    )  # fmt: skip
    return Evidence(
        (
            Check("factor a block, forward", growth(forward["plain"]), *doubled),
            Check("factor a block, backward", 1 / growth(backward), *doubled),
            Check("over √2: last moment over the first", float(forward["half"][-1] / forward["half"][0]),
                  math.exp(-off), math.exp(off)),
            Check("the same for the variance of a unit over rows", float(unit[-1] / unit[0]), high=0.5),
            Check("batch norm first: growth a block", slope, 0.95, 1.05),
            Check("share of the last block, times 51", 51 * float(1 - forward["norm"][-2] / forward["norm"][-1]),
                  0.5, 1.5),
        ),
        view,
    )  # fmt: skip


@claim(
    "bn-gradient",
    "Batch norm after every ReLU of a plain network makes the gradient larger by √(π / (π - 1)) = 1.21 a layer",
    f"{_UDL}, notes on chapter 11 and problem 11.12; Yang et al. 2019",
)
def bn_gradient(full: bool) -> Evidence:
    layers, nets, rows, width = 50, 20 if full else 4, 500 if full else 200, 300 if full else _WIDTH
    sizes = {norm: _plain_gradients(norm, layers, nets, rows, width) for norm in (True, False)}
    expected = math.sqrt(math.pi / (math.pi - 1))
    steps = np.arange(layers)
    factor = {norm: math.exp(-np.polyfit(steps[5:-5], np.log(each[5:-5]), 1)[0]) for norm, each in sizes.items()}
    ks = tuple(float(k) for k in range(1, layers + 1))
    law = tuple(sizes[True][25] * expected ** (26 - k) for k in ks)
    view = Curves(
        f"Plain networks of {layers} layers of {width} ReLUs", "layer", "deviation of the gradient",
        {"with batch norm": (ks, tuple(sizes[True].tolist())), "without": (ks, tuple(sizes[False].tolist()))},
        {"1.21 a layer": (ks, law)}, log="y",
    )  # fmt: skip
    return Evidence(
        (
            # the limit of wide layers and many rows; 100 units add a percent
            Check("factor a layer, with batch norm", factor[True], expected - 0.02, expected + 0.02),
            Check("factor a layer, without", factor[False], 0.96, 1.04),
        ),
        view,
    )


@claim(
    "shattered-gradients",
    "The gradient of a shallow network changes slowly with its input, that of 24 layers like noise; skips make it "
    "remember longer, and a factor 1/√2 does not cure it",
    f"{_UDL}, section 11.1.1, figure 11.3 and notes on chapter 11; Balduzzi et al. 2017",
)
def shattered_gradients(full: bool) -> Evidence:
    draws, width = (50, 200) if full else (12, 100)
    nets: dict[str, Callable[[], nn.Module]] = {
        "1 layer": partial(_scalar_net, 1, width),
        "24 layers": partial(_scalar_net, 24, width),
        "24 blocks with skips": partial(_scalar_net, 24, width, skip=1.0),
        "24 blocks, over √2": partial(_scalar_net, 24, width, skip=math.sqrt(0.5)),
    }
    view = shattered(nets, draws=draws)
    at = {name: float(r[20]) for name, r in view.correlation.items()}
    return Evidence(
        (
            # "stays high" and "near 0": the figure has no numbers
            Check("1 layer: correlation at lag 20 of 256", at["1 layer"], low=0.5),
            Check("24 layers: the same, over that of 1", at["24 layers"] / at["1 layer"], high=0.5),
            Check("24 layers: at lag 40", float(view.correlation["24 layers"][40]), -0.1, 0.1),
            Check("skips less 24 layers, lag 20", at["24 blocks with skips"] - at["24 layers"], low=0.0),
            Check("over √2 less 1 layer, lag 20", at["24 blocks, over √2"] - at["1 layer"], high=-0.05),
        ),
        view,
    )


@claim(
    "bn-less-shattered",
    "Batch norm makes gradients change more smoothly: it reduces shattering",
    f"{_UDL}, section 11.4.1",
    on_record=FAILS,
    misprint="the cited work has batch norm of plain networks shatter most, and skips reduce that, as is found here",
)
def bn_less_shattered(full: bool) -> Evidence:
    draws, width = (50, 200) if full else (12, 100)
    nets: dict[str, Callable[[], nn.Module]] = {
        "24 layers": partial(_scalar_net, 24, width),
        "24 layers, batch norm": partial(_scalar_net, 24, width, norm=True),
        "24 blocks with skips": partial(_scalar_net, 24, width, skip=1.0),
        "24 blocks, skips, batch norm": partial(_scalar_net, 24, width, skip=1.0, norm=True),
    }
    view = shattered(nets, draws=draws, lags=30)
    plain, normed, skips, both = (float(r[5]) for r in view.correlation.values())
    return Evidence(
        (
            Check("plain: correlation at lag 5 of 256 with batch norm, less without", normed - plain, low=0.05),
            Check("with skips: the same", both - skips, low=0.05),
            Check("batch norm: with skips less without", both - normed, low=0.05),
        ),
        view,
    )


@claim(
    "path-lengths",
    "Of the paths through 54 residual blocks those of 5 to 17 blocks are 0.45 %, and carry nearly all of the gradient",
    f"{_UDL}, notes on chapter 11 and problem 11.2; Veit et al. 2016",
)
def path_lengths(full: bool) -> Evidence:
    counts = path_counts(54)
    few = {k: path_counts(k) for k in (3, 4, 5)}
    rows = sources.load("digits", val=0.0)
    x = rows.inputs.encode(rows.train.x).reshape(-1, 1, 8, 8)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        net = ResNet(1, 10, depth=110, width=8 if full else 4, order="pre")
    epochs, lr, draws = (30, 3e-3, 16) if full else (3, 1e-2, 4)
    before = path_gradients(net, x[:4], draws=draws)
    fit(
        nn.Sequential(nn.Unflatten(1, (1, 8, 8)), net), rows, likelihood=Categorical(10), epochs=epochs, batch=100,
        lr=lr, progress=False, threads=1, compile="off", with_report=False,
    )  # fmt: skip
    view = path_gradients(net, x[:4], draws=draws)
    inside = float(view.share[5:18].sum())
    return Evidence(
        (
            Check("paths of 5 to 17 of 54 blocks, %", 100 * sum(counts[5:18]) / 2**54, 0.45365, 0.45375),
            Check("all paths, over 2^54", sum(counts) / 2**54, 1, 1),
            Check("paths through 3, 4 and 5 blocks", float(sum(map(sum, few.values()))), 8 + 16 + 32, 8 + 16 + 32),
            Check("residual blocks", float(len(view.blocks)), 54, 54),
            Check("share of the gradient on paths of 5 to 17", inside, low=0.9),
            Check("half of the gradient is on paths of at most", float(view.median), high=17),
            Check("the share before training", float(before.share[5:18].sum()), high=0.5),
        ),
        view,
    )


@claim(
    "normalising-alike",
    "Batch norm takes out every factor of the weights before it; group norm with a group a channel is instance norm, "
    "with one group layer norm; exact statistics are those of the whole training set",
    f"{_UDL}, sections 11.4 and 11.4.1, figure 11.14, equations 11.7 to 11.10",
    misprint="epsilon stands outside the root in equation 11.8 and inside in 11.10",
)
def normalising_alike(full: bool) -> Evidence:
    g = torch.Generator().manual_seed(0)
    x = 3 * torch.randn(64 if full else 16, 6, 5, 4, generator=g, dtype=torch.float64) + 2
    with torch.random.fork_rng(devices=[]), torch.no_grad():
        torch.manual_seed(0)
        gain, shift = torch.randn(6).double(), torch.randn(6).double()
        layers = [nn.GroupNorm(6, 6), nn.InstanceNorm2d(6, affine=True), nn.GroupNorm(1, 6), ImageLayerNorm(6)]
        for layer in layers:
            layer.double().load_state_dict({"weight": gain, "bias": shift})
        instance, image = (layers[a](x) - layers[b](x) for a, b in ((0, 1), (2, 3)))
        batch = nn.BatchNorm2d(6).double().train()
        batch.weight.copy_(gain)
        batch.bias.copy_(shift)
        out = batch(x)
        ghost = GhostBatchNorm(6, 4).double().train()(x) - torch.cat([_standard(part) for part in x.split(4)])
        conv = nn.Conv2d(6, 6, 3).double()
        factors = tuple(2.0**k for k in (-3, -2, -1, 1, 2, 3, 4, 5, 6))
        after = {name: [] for name in ("outside", "inside")}  # type: dict[str, list[float]]
        for name, found in after.items():
            norm = BatchNorm(6, epsilon=1e-5, inside=name == "inside").double().train()
            whole = norm(conv(x))
            for c in factors:
                found.append(float((norm(c * conv(x)) - whole).abs().max()))
        net = nn.Sequential(nn.Conv2d(6, 3, 3), nn.BatchNorm2d(3), nn.ReLU()).double()
        exact_statistics(net, x.split(5))
        hidden = net[0](x)
        means = float((net[1].running_mean - hidden.mean((0, 2, 3))).abs().max())
        spread = float((net[1].running_var - hidden.var((0, 2, 3), unbiased=False)).abs().max())
    view = Curves(
        "Batch norm after weights times c", "c", "largest change of the output",
        {f"epsilon {name} the root": (factors, tuple(max(v, 1e-17) for v in found)) for name, found in after.items()},
        log="xy",
    )  # fmt: skip
    return Evidence(
        (
            Check("group norm of six groups less instance norm", float(instance.abs().max()), high=1e-12),
            Check("group norm of one group less layer norm", float(image.abs().max()), high=1e-12),
            Check("ghost batches of 4 less batch norm of each", float(ghost.abs().max()), high=1e-9),
            Check("mean after batch norm less its offset", float((out.mean((0, 2, 3)) - shift).abs().max()),
                  high=1e-12),
            Check("deviation after it less its scale",
                  float((out.std((0, 2, 3), unbiased=False) - gain.abs()).abs().max()), high=1e-4),
            Check("change by weights and offsets doubled",
                  max(found[factors.index(2.0)] for found in after.values()), high=1e-3),
            Check("exact statistics: means", means, high=1e-12),
            Check("exact statistics: variances", spread, high=1e-12),
        ),
        view,
    )  # fmt: skip


@claim(
    "skips-at-rest",
    "A residual layer is a highway layer without gates; SkipInit and FixUp start as the identity; a stack of small "
    "residual steps is a flow, which on a line cannot turn x into -x, while one more dimension lets it",
    f"{_UDL}, notes on chapter 11; Srivastava et al. 2015; Dupont et al. 2019",
)
def skips_at_rest(full: bool) -> Evidence:
    g = torch.Generator().manual_seed(0)
    x = torch.randn(50, 6, generator=g)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        layer = HighwayLayer(6, gate="none")
        gated = HighwayLayer(6, gate="separate", carry=40.0)
        starts = {name: NormFree(2, 3, stages=(4,), width=8, scaling=name) for name in ("skipinit", "fixup", "none")}
    with torch.no_grad():
        gated.map.load_state_dict(layer.map.state_dict())
        gated.transform.bias.fill_(40.0)  # type: ignore[union-attr]
        highway = float((layer(x) - (x + layer.map(x).relu())).abs().max())
        opened = float((gated(x) - layer(x)).abs().max())
        moved = {}
        h = torch.randn(3, 8, 9, 9, generator=g)
        for name, net in starts.items():
            moved[name] = max(float((block(h) - h).abs().max()) for block in net.blocks)
    ways = {extra: _turned(extra, 400 if full else 120) for extra in (0, 1)}
    euler = {n: _steps(n) for n in (4, 8, 16, 32, 64)}
    orders = [math.log2(euler[n] / euler[2 * n]) for n in (4, 8, 16, 32)]
    grid, view_of = (
        ways[0][0],
        {("as it is" if extra == 0 else "one dimension more"): way for extra, way in ways.items()},
    )
    view = Curves(
        "A flow that is to turn x into -x", "x", "output",
        {name: (tuple(grid.tolist()), tuple(out.tolist())) for name, (_, out) in view_of.items()},
        {"wanted": (tuple(grid.tolist()), tuple((-grid).tolist()))},
    )  # fmt: skip
    errors = {extra: float((out + grid).square().mean() / grid.square().mean()) for extra, (_, out) in ways.items()}
    return Evidence(
        (
            Check("layer without gates less x + a(Ωx + β)", highway, 0, 0),
            Check("gates held open less the layer without", opened, high=1e-5),
            Check("SkipInit: largest change of a block", moved["skipinit"], 0, 0),
            Check("FixUp: the same", moved["fixup"], 0, 0),
            Check("neither: the same", moved["none"], low=0.1),
            Check("order of Euler's residual steps, the last", orders[-1], 0.9, 1.1),
            Check("flow on a line: least slope of its output", float(ways[0][1].diff().min()), low=-1e-6),
            # an order-keeping map is best constant: all of x² stays
            Check("flow on a line: error over that of 0", errors[0], low=0.99),
            Check("one dimension more: the same", errors[1], high=0.1),
        ),
        view,
    )


# ── networks of chapter 11 ──


def _residual(kind: str, blocks: int, nets: int, rows: int) -> tuple[Tensor, Tensor, Tensor]:
    """Second moments of h_0 … h_K and of their gradients, and the variance of a unit over rows, means over draws."""
    g = torch.Generator().manual_seed(0)
    he = math.sqrt(2 / _WIDTH)
    draw = lambda *shape: torch.randn(*shape, generator=g, dtype=torch.float64)  # noqa: E731
    h = draw(nets, rows, _WIDTH) @ (he * draw(nets, _WIDTH, _WIDTH))
    kept = [h.requires_grad_()]
    for _ in range(blocks):
        read = _over_rows(h) if kind == "norm" else h
        h = h + read.relu() @ (he * draw(nets, _WIDTH, _WIDTH))
        h = h * math.sqrt(0.5) if kind == "half" else h
        kept.append(h)
    out = h @ (he * draw(nets, _WIDTH, 1))
    gradients = torch.autograd.grad(out.sum(), kept)  # that of squares is 2 (f - y) times as large, row by row
    moments = torch.stack([k.detach().square().mean() for k in kept])
    back = torch.stack([k.square().mean() for k in gradients])
    return moments, back, torch.stack([k.detach().var(1).mean() for k in kept])


def _over_rows(h: Tensor) -> Tensor:
    return (h - h.mean(1, keepdim=True)) / h.std(1, keepdim=True, unbiased=False)


def _plain_gradients(norm: bool, layers: int, nets: int, rows: int, width: int) -> np.ndarray:
    """Deviation of the gradient at the pre-activations of each layer."""
    g = torch.Generator().manual_seed(0)
    he = math.sqrt(2 / width)
    draw = lambda *shape: torch.randn(*shape, generator=g, dtype=torch.float64)  # noqa: E731
    h, kept = draw(nets, rows, width).requires_grad_(), []
    for _ in range(layers):
        f = h @ (he * draw(nets, width, width))
        kept.append(f)
        h = _over_rows(f.relu()) if norm else f.relu()
    loss = (h @ (he * draw(nets, width, 1))).square().sum()  # the targets are 0
    return np.array([float(k.square().mean().sqrt()) for k in torch.autograd.grad(loss, kept)])


class _Block(nn.Module):
    """factor (h + Ω ReLU[N h] + β)."""

    def __init__(self, width: int, norm: bool, factor: float):
        super().__init__()
        self.norm, self.map, self.factor = _norm(width, norm), nn.Linear(width, width), factor

    def forward(self, h: Tensor) -> Tensor:
        return self.factor * (h + self.map(self.norm(h).relu()))


def _norm(width: int, norm: bool) -> nn.Module:
    return nn.BatchNorm1d(width, affine=False, momentum=None) if norm else nn.Identity()


def _scalar_net(layers: int, width: int, norm: bool = False, skip: float = 0.0) -> nn.Sequential:
    """One number in, one out; weights and offsets of variance 1/D as in figure 11.3."""
    net = nn.Sequential(nn.Linear(1, width))
    if skip:
        net.extend([_Block(width, norm, skip) for _ in range(layers)])
    else:
        net.extend(part for k in range(layers) for part in
                   ([nn.Linear(width, width)] * (k > 0) + [_norm(width, norm), nn.ReLU()]))  # fmt: skip
    net.append(nn.Linear(width, 1))
    for part in net.modules():
        if isinstance(part, nn.Linear):
            for p in part.parameters():
                nn.init.normal_(p, std=math.sqrt(1 / part.in_features))
    if norm:
        with torch.no_grad():
            net.train()(torch.linspace(-2, 2, 256)[:, None])  # the statistics of the line, held from now on
    return net


def _standard(x: Tensor) -> Tensor:
    """Channels of a batch at mean 0 and variance 1."""
    mean, variance = x.mean((0, 2, 3), keepdim=True), x.var((0, 2, 3), keepdim=True, unbiased=False)
    return (x - mean) / (variance + 1e-5).sqrt()


def _turned(extra: int, steps: int) -> tuple[Tensor, Tensor]:
    """A flow trained to turn x into -x on [-1, 1], and what it puts out."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(1)
        net = NeuralODE(1, 1, hidden=(16,), extra=extra, solver="rk4(8)", head=False)
    x = torch.linspace(-1, 1, 33)[:, None]
    optimizer = torch.optim.Adam(net.parameters(), lr=0.03)
    for _ in range(steps):
        optimizer.zero_grad()
        (net(x) + x).square().mean().backward()
        optimizer.step()
    with torch.no_grad():
        return x[:, 0].double(), net(x)[:, 0].double()


def _steps(num: int) -> float:
    """How far num residual steps of dh/dt = tanh(2 h) are from its flow at time 1, sinh 2h(1) = e² sinh 2h(0)."""
    h = start = torch.linspace(-1, 1, 21, dtype=torch.float64)
    for _ in range(num):
        h = h + (2 * h).tanh() / num
    return float((h - torch.asinh(math.exp(2) * torch.sinh(2 * start)) / 2).abs().max())
