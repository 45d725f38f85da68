"""What transformers for pictures are not told: that a picture that moves is the same picture; what that costs where
rows are few; and how many of their heads they need."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from leadline.claims.claim import Check, Evidence, claim
from leadline.claims.curves import Curves
from leadline.data.bundled import digits
from leadline.lens.head_ablation import head_ablation
from leadline.lens.heads import silenced
from leadline.likelihoods import Categorical
from leadline.models import ViT

_UDL = "Understanding Deep Learning"
_CONV, _VIT = "convolutional", "transformer"
_TEST = 350  # rows


@claim(
    "shifts-not-built-in",
    "Features of a convolution move with the picture; those of a Vision Transformer do not, and it would have to learn "
    "it: not within a patch, and not even by whole patches, unless its positions are taken away",
    f"{_UDL}, section 12.10",
)
def shifts_not_built_in(full: bool) -> Evidence:
    size, rows = (32, 50) if full else (16, 8)
    with torch.random.fork_rng(devices=[]), torch.no_grad():
        torch.manual_seed(0)
        x = torch.randn(rows, 3, size, size, dtype=torch.float64)
        nets = {
            _CONV: nn.Sequential(_ring(3, 16), _ring(16, 16), nn.AdaptiveAvgPool2d(1), nn.Flatten()),
            _VIT: ViT(3, (size, size), 10, patch=4, dim=32, num_layers=2, pool="mean"),
            f"{_VIT}, no positions": ViT(3, (size, size), 10, patch=4, dim=32, num_layers=2, pool="mean"),
        }
        for name in (_VIT, f"{_VIT}, no positions"):
            _loud(nets[name])
        nets[f"{_VIT}, no positions"].position.zero_()  # type: ignore[operator]
        moved = {name: [_moved(net.double().eval(), x, by) for by in range(size)] for name, net in nets.items()}
    xs = tuple(map(float, range(size)))
    view = Curves(
        "Untrained networks on a picture that moves round a ring", "columns moved",
        "change of the output, of its spread",
        {name: (xs, tuple(max(m, 1e-17) for m in found)) for name, found in moved.items()}, log="y",
    )  # fmt: skip
    bare = moved[f"{_VIT}, no positions"]
    return Evidence(
        (
            Check("change by any shift, convolutional", max(moved[_CONV]), high=1e-9),
            Check("least change by a shift, transformer", min(moved[_VIT][1:]), low=0.01),
            Check("largest change by whole patches, no positions", max(bare[::4]), high=1e-9),
            Check("least change by parts of a patch, no positions", min(bare[1:4]), low=0.01),
        ),
        view,
    )


@claim(
    "vit-needs-data",
    "Where rows are few a Vision Transformer errs more than a convolutional network; with more of them it catches up",
    f"{_UDL}, section 12.10.2 and notes on chapter 12; Dosovitskiy et al. 2021",
)
def vit_needs_data(full: bool) -> Evidence:
    counts, seeds, steps = ((50, 100, 200, 400, 800, 1400), 3, 1500) if full else ((100, 1000), 1, 500)
    x, y = _pictures()
    errors: dict[str, list[float]] = {_CONV: [], _VIT: []}
    for count in counts:
        for kind, found in errors.items():
            nets = [_trained(_made(kind, seed), x[:count], y[:count], steps, seed) for seed in range(seeds)]
            runs = [_error(net, x[-_TEST:], y[-_TEST:]) for net in nets]
            found.append(sum(runs) / seeds)
    xs = tuple(map(float, counts))
    view = Curves(
        "Handwritten digits of 8 x 8", "rows that train", "test error",
        {kind: (xs, tuple(found)) for kind, found in errors.items()}, log="x",
    )  # fmt: skip
    gaps = [vit - conv for vit, conv in zip(errors[_VIT], errors[_CONV], strict=True)]
    return Evidence(
        (
            # the error of two runs on 350 rows strays by 2 points
            Check(f"test error with {counts[0]} rows, transformer less convolutional", gaps[0], low=0.04),
            Check("fall of that lead from the fewest to the most rows", gaps[0] - gaps[-1], low=0.04),
        ),
        view,
    )


@claim(
    "heads-pruned",
    "Most heads can be taken away after training, and the network is nearly as good",
    f"{_UDL}, section 12.3.3 and notes on chapter 12; Voita et al. 2019; Michel et al. 2019",
)
def heads_pruned(full: bool) -> Evidence:
    layers, heads, steps = 4, 8, 3000 if full else 1200
    x, y = _pictures()
    net = _trained(_made(_VIT, 0, layers, heads), x[:-_TEST], y[:-_TEST], steps, 0)
    test = x[-_TEST:], y[-_TEST:]
    view = head_ablation(net, (x[:256], y[:256]), Categorical(10), steps=1 + layers * heads)
    most = layers * heads // 2 + 1
    gone: dict[str, list[int]] = {}
    for head in view.order[:most]:
        gone.setdefault(view.names[head], []).append(int(view.heads[head]))
    whole = 1 - _error(net, *test)
    with silenced(net, gone):
        at_once = 1 - _error(net, *test)
        left = 1 - _error(_trained(net, x[:-_TEST], y[:-_TEST], steps // 2, 1, lr=2e-3), *test)
    return Evidence(
        (
            Check("accuracy of the whole", whole, low=0.8),
            # "nearly as good" as said beforehand: nine tenths of the accuracy. Those who prune train on meanwhile
            Check(
                f"accuracy without {most} of {layers * heads} heads, trained on, over the whole", left / whole, low=0.9
            ),
            Check("the same, not trained on", at_once / whole, low=0.9),
        ),
        view,
    )


def _ring(channels: int, width: int) -> nn.Sequential:
    return nn.Sequential(nn.Conv2d(channels, width, 3, padding=1, padding_mode="circular"), nn.ReLU())


def _loud(model: nn.Module) -> None:
    """Weights so large that untrained attention has an opinion; its head begins at 0."""
    for name, p in model.named_parameters():
        if p.dim() > 1:
            nn.init.normal_(p, std=0.2 if "position" not in name else 1.0)


def _moved(net: nn.Module, x: Tensor, by: int) -> float:
    out = net(x)
    return float((net(x.roll(by, 3)) - out).square().mean().sqrt() / out.std())


def _pictures() -> tuple[Tensor, Tensor]:
    data = digits(val=0.0)
    return torch.cat([data.train.x, data.test.x]).view(-1, 1, 8, 8), torch.cat([data.train.y, data.test.y])


def _made(kind: str, seed: int, layers: int = 2, heads: int = 4) -> nn.Module:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        if kind == _VIT:
            return ViT(1, (8, 8), 10, patch=2, dim=32, num_layers=layers, num_heads=heads, pool="mean")
        near = [nn.Conv2d(1, 24, 3, padding=1), nn.ReLU(), nn.Conv2d(24, 48, 3, padding=1, stride=2), nn.ReLU()]
        far = [nn.Conv2d(48, 48, 3, padding=1), nn.ReLU(), nn.AdaptiveAvgPool2d(2), nn.Flatten(), nn.Linear(192, 10)]
        return nn.Sequential(*near, *far)


def _trained(net: nn.Module, x: Tensor, y: Tensor, steps: int, seed: int, lr: float = 5e-3) -> nn.Module:
    """Steps of AdamW on 32 rows each, warmed up and cooled down."""
    g = torch.Generator().manual_seed(seed)
    optimizer = torch.optim.AdamW(net.parameters(), lr=lr)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, lr, steps)
    for _ in range(steps):
        rows = torch.randint(len(x), (32,), generator=g)
        optimizer.zero_grad()
        F.cross_entropy(net(x[rows]), y[rows]).backward()
        optimizer.step()
        schedule.step()
    return net


@torch.no_grad()
def _error(net: nn.Module, x: Tensor, y: Tensor) -> float:
    return float((net(x).argmax(1) != y).double().mean())
