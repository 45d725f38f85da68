"""What keeps a fit from following its points: penalties, an early stop, noise, dropout, and averages of many fits."""

from __future__ import annotations

import math
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from leadline.claims.claim import Check, Evidence, claim
from leadline.claims.curves import Curves
from leadline.data.data import Batch
from leadline.layers import Dropout, noise
from leadline.likelihoods import Categorical, Normal
from leadline.models import MLP, FixedJoints
from leadline.optim.objective import Objective
from leadline.regularize import (
    L1,
    L2,
    Ensemble,
    InputNoise,
    LabelNoise,
    LabelSmoothing,
    Member,
    Regularizer,
    every_mask,
    monte_carlo,
)

jvp: Any = torch.func.jvp  # its annotation forgets how many it returns

_UDL = "Understanding Deep Learning"
_NOTES = "Lecture notes on tricks of the trade"
_GRID = torch.linspace(0, 1, 401, dtype=torch.float64)[:, None]


def _truth(x: Tensor) -> Tensor:
    return (2 * math.pi * x).sin().exp() - 1.2


def _points(num: int, seed: int, spread: float = 0.3) -> tuple[Tensor, Tensor]:
    """One point in each of `num` equal parts of [0, 1], with noise."""
    g = torch.Generator().manual_seed(seed)
    x = (torch.arange(num) + torch.rand(num, generator=g)).double()[:, None] / num
    return x, _truth(x) + spread * torch.randn(num, 1, generator=g).double()


def _line(values: Tensor) -> tuple[tuple[float, ...], tuple[float, ...]]:
    return tuple(_GRID.flatten().tolist()), tuple(values.detach().flatten().tolist())


def _ridge(features: Tensor, y: Tensor, strength: float) -> Tensor:
    """Weights of least mean squares with λ Σ φ² on all but the first, which is the offset; closed form."""
    size = features.shape[1]
    penalty = strength * torch.eye(size, dtype=torch.float64)
    penalty[0, 0] = 0
    return torch.linalg.solve(features.mT @ features / len(y) + penalty, features.mT @ y / len(y))


def _with_ones(model: FixedJoints, x: Tensor) -> Tensor:
    return torch.cat([torch.ones(len(x), 1, dtype=torch.float64), model.features(x)], 1)


@claim(
    "l2-middle",
    "A small L2 penalty passes near all points, a large one is too smooth, and one in between comes nearest the truth",
    f"{_UDL} 9.1.2, figure 9.2",
)
def l2_middle(full: bool) -> Evidence:
    strengths = (1e-9, 1e-5, 1e-4, 1e-3, 1e-2, 1.0)
    net = FixedJoints(1, 14).double()
    fit, off = torch.zeros(2, len(strengths)).double()
    bends, curves = [], {}
    sets = 50 if full else 10
    for seed in range(sets):
        x, y = _points(16, seed)
        for k, strength in enumerate(strengths):
            phi = _ridge(_with_ones(net, x), y, strength)
            answer = _with_ones(net, _GRID) @ phi
            fit[k] += (_with_ones(net, x) @ phi - y).square().mean().sqrt() / sets
            off[k] += (answer - _truth(_GRID)).square().mean().sqrt() / sets
            if seed == 0:
                bends.append(float(phi[2:].square().sum()))
                if k in (0, 3, 5):
                    curves[f"λ = {strength:g}"] = _line(answer)
    view = Curves("14 pieces through 16 points", "x", "y", curves, {"truth": _line(_truth(_GRID))})
    best = int(off.argmin())
    return Evidence(
        (
            Check("place of the best λ among six, from 0", best, 1, 4),
            Check("distance from the truth at the best λ over that at the smallest",
                  float(off[best] / off[0]), high=0.9),
            Check("the same over that at the largest", float(off[best] / off[-1]), high=0.5),
            Check("distance from the points at the smallest λ over that at the largest",
                  float(fit[0] / fit[-1]), high=0.3),
            Check("ratio of squared bends, each λ over the one before, largest",
                  max(b / a for a, b in pairwise(bends)), high=1),
        ),
        view,
    )  # fmt: skip


@claim(
    "early-snapshots",
    "In one run of descent from small weights the training loss falls to the end, and a snapshot on the way is nearest "
    "the truth",
    f"{_UDL} 9.3.1, figure 9.6",
)
def early_snapshots(full: bool) -> Evidence:
    steps = (0, 30, 200, 1000, 5000, 40_000 if full else 20_000)
    x, y = _points(15, 3, 0.5)
    net = FixedJoints(1, 14).double()
    rows, grid = _with_ones(net, x), _with_ones(net, _GRID)
    g = torch.Generator().manual_seed(0)
    phi = 0.1 * torch.randn(15, 1, generator=g).double()
    orders = torch.stack([torch.randperm(15, generator=g) for _ in range(steps[-1] // 3 + 1)]).view(-1, 5)
    seen, fits, offs = {}, [], []
    for step in range(steps[-1] + 1):
        if step in steps:
            fits.append(float((rows @ phi - y).square().mean()))
            offs.append(float((grid @ phi - _truth(_GRID)).square().mean().sqrt()))
            if step in (200, 5000, steps[-1]):
                seen[f"after {step:,} steps"] = _line(grid @ phi)
        a, b = rows[orders[step]], y[orders[step]]
        phi = phi - 0.05 * 2 * a.mT @ (a @ phi - b) / 5
    best = min(range(len(steps)), key=offs.__getitem__)
    view = Curves("One run of SGD, batches of 5, learning rate 0.05", "x", "y", seen, {"truth": _line(_truth(_GRID))})
    return Evidence(
        (
            Check("training loss, each snapshot over the one before, largest",
                  max(b / a for a, b in pairwise(fits)), high=1),
            Check("place of the snapshot nearest the truth among six, from 0", best, 1, 4),
            Check("its distance from the truth over that of the last", offs[best] / offs[-1], high=0.95),
        ),
        view,
    )  # fmt: skip


@claim(
    "l1-sparser",
    "At about the same error on the rows, an L1 penalty leaves more weights near 0 than an L2 penalty",
    f"{_UDL}, notes 9",
)
def l1_sparser(full: bool) -> Evidence:
    g = torch.Generator().manual_seed(0)
    x = torch.randn(400, 20, generator=g, dtype=torch.float64)
    y = (x[:, 0] - x[:, 1] * x[:, 2]).tanh()[:, None] + 0.1 * torch.randn(400, 1, generator=g).double()
    rows, found = Batch(x, y[:, 0]), {}
    for name, penalty in (("L1", L1(0.001)), ("L2", L2(0.004))):
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(0)
            net = MLP(20, (20,), 1, activation="tanh", p_drop=0.0).double()
        fit = Normal("fixed", sigma=1.0).double()
        objective = Objective(net, fit, [penalty.double()])
        step = torch.optim.Adam(net.parameters(), 0.01)
        for index in range(3000 if full else 700):
            step.param_groups[0]["lr"] = 0.01 * (1 - index / (3000 if full else 700))
            step.zero_grad()
            objective(rows).backward()
            step.step()
        sizes = torch.cat([p.detach().abs().flatten() for p in net.parameters() if p.dim() > 1])
        found[name] = sizes, float((net(x) - y).detach().square().mean())
    levels = torch.logspace(-4, 0, 41)
    view = Curves(
        "Weights of 20-20-1 networks after training", "size", "part of the weights below it",
        {name: (tuple(levels.tolist()), tuple(float((sizes < level).double().mean()) for level in levels))
         for name, (sizes, _) in found.items()}, log="x",
    )  # fmt: skip
    near = {name: float((sizes < 1e-2).double().mean()) for name, (sizes, _) in found.items()}
    return Evidence(
        (
            Check("part of the weights below 0.01, L1", near["L1"], low=0.5),
            Check("the same, less that of L2", near["L1"] - near["L2"], low=0.3),
            Check("mean squared error of L1 over that of L2", found["L1"][1] / found["L2"][1], 0.5, 1.5),
        ),
        view,
    )


@claim(
    "input-noise-flattens",
    "Noise on the inputs of a regression is, for small noise, a penalty on the squared slope of the output; more noise "
    "makes a smoother fit",
    f"{_UDL} 9.3.4, figure 9.10; Bishop 1995",
)
def input_noise_flattens(full: bool) -> Evidence:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        net = MLP(1, (30,), 1, activation="tanh", p_drop=0.0).double()
    nn.init.normal_(net.layers[0].map.weight, 0, 4.0, generator=torch.Generator().manual_seed(0))  # type: ignore[union-attr, arg-type]
    x, y = _points(15, 1)
    fit, copies = Normal("fixed", sigma=0.5**0.5).double(), 400_000 if full else 100_000
    value, slope = jvp(net, (x,), (torch.ones_like(x),))
    bend = jvp(lambda at: jvp(net, (at,), (torch.ones_like(at),))[1], (x,), (torch.ones_like(x),))[1]
    # loss = (f - y)²: E(f(x + sε) - y)² = (f - y)² + s² (f'² + (f - y) f'') + O(s⁴); the last is about 0 at a fit
    law = float((slope.square() + (value - y) * bend).detach().mean())
    sizes, ratios = (0.01, 0.02, 0.04), []
    clean = float(fit.loss(net(x), y[:, 0]).detach().mean())
    many = Batch(x.repeat(copies // 15, 1), y[:, 0].repeat(copies // 15), None, None,
                 noise.example_keys(0, 0, torch.arange(copies // 15 * 15)))  # fmt: skip
    plain = InputNoise(0.0).double()
    for s in sizes:
        off = s * (InputNoise(1.0).double().inputs(many.x, many) - plain.inputs(many.x, many))
        # both signs of each draw: odd powers of s drop out, and with them most of the scatter
        noisy = sum(float(fit.loss(net(many.x + sign * off), many.y).detach().mean()) / 2 for sign in (1, -1))
        ratios.append((noisy - clean) / (s**2 * law))
    rough, curves = [], {}
    for s in (0.02, 0.06, 0.15):
        phi = _noisy_fit(x, y, s)
        answer = _with_ones(FixedJoints(1, 30).double(), _GRID) @ phi
        rough.append(_bends(answer))
        curves[f"s = {s:g}"] = _line(answer)
    view = Curves("Fits to points with noise on x", "x", "y", curves, {"truth": _line(_truth(_GRID))})
    return Evidence(
        (
            Check("added loss over s² (f'² + (f - y) f''), s = 0.01", ratios[0], 0.95, 1.05),
            Check("the same, s = 0.02", ratios[1], 0.9, 1.1),
            Check("roughness, each noise over the one before, largest",
                  max(b / a for a, b in pairwise(rough)), high=1),
        ),
        view,
    )  # fmt: skip


def _noisy_fit(x: Tensor, y: Tensor, s: float) -> Tensor:
    """Least squares on 300 noisy copies of every point: what many steps of SGD with input noise come to."""
    keys = noise.example_keys(0, 1, torch.arange(300 * len(x)))
    moved = InputNoise(s).double().inputs(x.repeat(300, 1), Batch(x.repeat(300, 1), y.repeat(300, 1), None, None, keys))
    return _ridge(_with_ones(FixedJoints(1, 30).double(), moved), y.repeat(300, 1), 1e-6)


@claim(
    "dropout-kink",
    "Descent that drops one of three units that conspire takes the kink out that no point asks for, and the loss stays",
    f"{_UDL} 9.3.3, figure 9.9",
)
def dropout_kink(full: bool) -> Evidence:
    # a line through the points, and three ramps that go up, down and level off between two points: not seen by any
    at = torch.tensor([0.0, 0.1, 0.2, 0.3, 0.75, 0.8, 0.9, 1.0], dtype=torch.float64)[:, None]
    y = 0.5 + 0.5 * at
    joints = torch.tensor([0.4, 0.5, 0.6], dtype=torch.float64)
    ramps = lambda x: F.relu(x - joints)  # noqa: E731
    size = torch.tensor([[4.0], [-8.0], [4.0]], dtype=torch.float64)
    base = torch.tensor([[0.5], [0.5]], dtype=torch.float64)
    line = lambda x: torch.cat([torch.ones_like(x), x], 1)  # noqa: E731
    answer = lambda x: line(x) @ base + ramps(x) @ size  # noqa: E731
    bump = lambda: float((answer(_GRID) - 0.5 - 0.5 * _GRID).abs().max())  # noqa: E731
    loss = lambda: float((answer(at) - y).square().mean())  # noqa: E731
    before, curves, start = (bump(), loss()), {"before": _line(answer(_GRID))}, size.clone()
    dropped = size * torch.tensor([[1.0], [1.0], [0.0]]).double()
    curves["one unit removed"] = _line(line(_GRID) @ base + ramps(_GRID) @ dropped)
    g, plain = torch.Generator().manual_seed(0), start
    for step in range(2000):
        mask = torch.ones(3, 1, dtype=torch.float64)
        mask[int(torch.randint(3, (), generator=g))] = step % 2  # every other step drops one of the three
        rows = torch.cat([line(at), ramps(at) * mask.T], 1)
        off = rows @ torch.cat([base, size]) - y
        slope = 2 * rows.mT @ off / len(at)
        base, size = base - 0.5 * slope[:2], size - 0.5 * slope[2:]
        plain_off = torch.cat([line(at), ramps(at)], 1) @ torch.cat([base.new_tensor([[0.5], [0.5]]), plain]) - y
        plain = plain - 0.5 * 2 * ramps(at).mT @ plain_off / len(at)
    curves["after 2,000 steps"] = _line(answer(_GRID))
    view = Curves("Three units that no point sees", "x", "y", curves,
                  {"line of the points": (tuple(at.flatten().tolist()), tuple(y.flatten().tolist()))})  # fmt: skip
    return Evidence(
        (
            Check("height of the kink, after over before", bump() / before[0], high=0.1),
            Check("loss after, less before", loss() - before[1], -1e-3, 1e-3),
            Check("largest change of the three without dropping", float((plain - start).abs().max()), high=1e-9),
        ),
        view,
    )


@claim(
    "dropout-ensemble",
    "Dropout trains 2^n networks at once: scaling by the keep probability is their mean exactly for a linear unit, and "
    "about so beyond",
    f"{_NOTES}, dropout; {_UDL} 9.3.3",
    misprint="the book multiplies by the dropout probability, and the notes call the keep probability so; they "
    "agree at one half only",
)
def dropout_ensemble(full: bool) -> Evidence:
    rows = torch.randn(50, 6, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        one: Any = nn.Sequential(Dropout(0.2), nn.Linear(6, 1)).double()
        deep = nn.Sequential(nn.Linear(6, 6), nn.ReLU(), Dropout(0.2), nn.Linear(6, 4), nn.ReLU(), Dropout(0.2, 1),
                             nn.Linear(4, 1)).double()  # fmt: skip
    fit = Normal("fixed").double()
    exact, beyond = every_mask(Member(one, fit), rows), every_mask(Member(deep, fit), rows)
    scaled = {
        keep: (rows @ (keep * one[1].weight.detach() / 0.8).T + one[1].bias.detach())[:, 0] for keep in (0.8, 0.2)
    }
    mean = exact.prediction.mean
    wide = beyond.prediction.mean.detach()
    with torch.no_grad():
        rule = deep.eval()(rows)[:, 0]
    drawn = [float((monte_carlo(Member(deep, fit), rows, n).prediction.mean.detach() - wide).square().mean().sqrt())
             for n in (10, 100, 1000)]  # fmt: skip
    view = Curves(
        "Networks 6-6-4-1 with 10 units that may be dropped", "masks drawn", "distance from the mean over all 1,024",
        {"Monte Carlo": ((10.0, 100.0, 1000.0), tuple(drawn))},
        {"1/√masks": ((10.0, 1000.0), (drawn[0], drawn[0] / 10))}, log="xy",
    )  # fmt: skip
    return Evidence(
        (
            # masks here are divided by keep, so that weights times keep are those of evaluation mode
            Check("linear unit, weights times keep: largest distance",
                  float((mean - (scaled[0.8] - one[1].bias.detach()) - one[1].bias.detach()).abs().max()), high=1e-12),
            Check("linear unit, weights times the dropout probability",
                  float((mean - scaled[0.2]).abs().max()), low=0.1),
            Check("two layers: distance of the scaling rule, in deviations of the answers",
                  float((rule - wide).abs().mean() / wide.std()), 1e-6, 0.2),
            Check("power of the number of masks with which Monte Carlo comes near",
                  math.log(drawn[2] / drawn[0]) / math.log(100), -0.7, -0.3),
        ),
        view,
    )  # fmt: skip


@claim(
    "dropout-spread",
    "Answers under several dropout masks spread more the farther a row is from those learned",
    f"{_UDL} 9.3.3; Gal and Ghahramani 2016",
)
def dropout_spread(full: bool) -> Evidence:
    g = torch.Generator().manual_seed(0)
    x = torch.rand(200, 1, generator=g) * 2 - 1
    y = (3 * x[:, 0]).sin() + 0.1 * torch.randn(200, generator=g)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        net = MLP(1, (64, 64), 1, activation="relu", p_drop=0.1)
        fit = Normal("fixed", sigma=0.3)
        step = torch.optim.Adam(net.parameters(), 3e-3)
        for epoch in range(1500 if full else 400):
            step.zero_grad()
            with noise.keyed(noise.example_keys(0, epoch, torch.arange(200))):
                fit.loss(net(x), y).mean().backward()
            step.step()
    grid = torch.linspace(-4, 4, 81)[:, None]
    said = monte_carlo(Member(net, fit), grid, 200)
    spread = said.epistemic.detach()
    place = grid.flatten().abs()
    inside, near, far = (float(spread[(place >= a) & (place <= b)].mean()) for a, b in ((0, 1), (1.5, 2.5), (3, 4)))
    view = Curves("Trained between -1 and 1", "x", "deviation of the answers over 200 masks",
                  {"Monte Carlo dropout": (tuple(grid.flatten().tolist()), tuple(spread.tolist()))},
                  marks={"first row": -1.0, "last row": 1.0})  # fmt: skip
    return Evidence(
        (
            Check("spread between 1.5 and 2.5 over that among the rows", near / inside, low=2),
            Check("spread beyond 3 over that between 1.5 and 2.5", far / near, low=1.2),
        ),
        view,
    )


@claim(
    "bagging-smooths",
    "The mean of fits to resampled points is smoother than one fit and nearer the truth; a median or a vote also "
    "stands members that fail, which a mean does not",
    f"{_UDL} 9.3.2, figure 9.7",
)
def bagging_smooths(full: bool) -> Evidence:
    net, sets = FixedJoints(1, 10).double(), 40 if full else 12
    gain: list[float] = []
    smoother: list[float] = []
    for seed in range(sets):
        x, y = _points(18, seed, 0.4)
        g = torch.Generator().manual_seed(seed)
        fits = []
        for index in [torch.arange(18)] + [torch.randint(18, (18,), generator=g) for _ in range(25)]:
            fits.append(_with_ones(net, _GRID) @ _ridge(_with_ones(net, x[index]), y[index], 1e-5))
        single, mean = fits[0], torch.stack(fits[1:]).mean(0)
        off = [float((f - _truth(_GRID)).square().mean()) for f in (single, mean)]
        gain.append(off[1] / off[0])
        smoother.append(_bends(mean) / _bends(single))
        if seed == 0:
            curves = {"one fit": _line(single), "mean of 25 resamples": _line(mean)}
    healthy = [_says(1.0 + 0.1 * k) for k in (-2, -1, 0, 1, 2)]
    broken = [*healthy, _says(400.0)]
    rows = torch.zeros(1, 1)
    shift = {way: abs(float(Ensemble(broken, way).predict(rows).mean.detach()) - 1) for way in ("outputs", "median")}
    sure = [_says(2.0, 0.0, 0.0) for _ in range(3)] + [_says(0.0, 500.0, 0.0)]
    votes = [int(Ensemble(sure, way).predict(rows).mode) for way in ("vote", "outputs")]
    view = Curves("10 pieces through 18 points", "x", "y", curves, {"truth": _line(_truth(_GRID))})
    return Evidence(
        (
            Check("squared distance from the truth, mean over one fit, median of the sets",
                  sorted(gain)[sets // 2], high=1),
            Check("squared bends, likewise", sorted(smoother)[sets // 2], high=0.8),
            Check("distance of the mean of six from 1, one of them wild", shift["outputs"], low=10),
            Check("distance of the median", shift["median"], high=0.3),
            Check("class of the vote of four, one of them wild", votes[0], 0, 0),
            Check("class of the mean before the softmax", votes[1], 1, 1),
        ),
        view,
    )  # fmt: skip


def _bends(values: Tensor) -> float:
    return float(values.diff(dim=0).diff(dim=0).square().sum())


class _Constant(nn.Module):
    def __init__(self, output: tuple[float, ...]):
        super().__init__()
        self.output = nn.Parameter(torch.tensor(output))

    def forward(self, x: Tensor) -> Tensor:
        return self.output.expand(len(x), -1)


def _says(*output: float) -> Member:
    """A member that answers the same to all rows."""
    return Member(_Constant(output), Normal("fixed") if len(output) == 1 else Categorical(len(output)))


@claim(
    "switched-labels-smooth",
    "Switching a share ρ of the labels at random in every step ends where smoothing them by ρ does",
    f"{_UDL} 9.3.4; Xie et al. 2016",
    misprint="torch spreads smoothing over all C classes, the book over the others: ε = ρ C/(C - 1)",
)
def switched_labels_smooth(full: bool) -> Evidence:
    g = torch.Generator().manual_seed(0)
    num, classes, rho = 300, 3, 0.3
    x = torch.randn(num, 2, generator=g, dtype=torch.float64)
    y = (x @ torch.randn(2, classes, generator=g, dtype=torch.float64)).argmax(-1)
    ends: dict[str, Tensor] = {}
    steps = 12_000 if full else 1600
    kinds: dict[str, tuple[Regularizer | None, Callable[[], Categorical]]] = {
        "switched": (LabelNoise(rho), lambda: Categorical(classes)),
        "smoothed": (LabelSmoothing(rho), lambda: Categorical(classes)),
        "torch's smoothing, ε = ρ C/(C - 1)": (None, lambda: Categorical(classes, label_smoothing=rho * 3 / 2)),
        "labels as they are": (None, lambda: Categorical(classes)),
    }
    paths = {}
    for name, (kind, family) in kinds.items():
        net = nn.Linear(2, classes).double()
        nn.init.zeros_(net.weight), nn.init.zeros_(net.bias)
        objective = Objective(net, family(), [] if kind is None else [kind.double()])
        mean, path = torch.zeros(classes, 2).double(), []
        for step in range(steps if name == "switched" else 800):
            keys = noise.example_keys(0, step, torch.arange(num))
            slopes = torch.autograd.grad(objective(Batch(x, y, None, None, keys)), list(net.parameters()))
            with torch.no_grad():
                for p, slope in zip(net.parameters(), slopes, strict=True):
                    p.sub_(0.5 * slope)
            mean += net.weight.detach() / (steps // 2) if name == "switched" and step >= steps - steps // 2 else 0
            if step % 25 == 0 and step < 800:
                path.append(float(net.weight.detach().norm()))
        ends[name] = mean if name == "switched" else net.weight.detach()
        paths[name] = (tuple(float(25 * k) for k in range(len(path))), tuple(path))
    size = float(ends["smoothed"].norm())
    apart = {name: float((end - ends["smoothed"]).norm()) / size for name, end in ends.items()}
    view = Curves("Three classes, a linear model, ρ = 0.3", "steps", "length of the weights", paths)
    return Evidence(
        (
            Check("distance of the mean end by switching from that of smoothing, over its length",
                  apart["switched"], high=0.05),
            Check("the same for torch's smoothing at ε = ρ C/(C - 1)",
                  apart["torch's smoothing, ε = ρ C/(C - 1)"], high=1e-6),
            Check("the same without either", apart["labels as they are"], low=0.5),
        ),
        view,
    )  # fmt: skip
