"""Derivatives, four ways; and with checkpoints and micro-batches."""

from __future__ import annotations

import itertools

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from leadline.claims.claim import Check, Evidence, claim
from leadline.claims.curves import Curves
from leadline.layers import Checkpointed, Dropout, noise
from leadline.lens.memory import memory
from leadline.optim.differences import differences
from leadline.reference import backprop
from leadline.reference import gradients as written


@claim(
    "backprop-agrees",
    "Backpropagation, the derivative written out, automatic differentiation and finite differences are one number",
    "Understanding Deep Learning, section 7.2, problems 7.1, 7.9 and 7.10; lecture notes on backpropagation",
    misprint="problem 7.1 counts 15 parameters of its network, which has 13; problem 7.10 calls leaky ReLU ReLU",
)
def backprop_agrees(full: bool) -> Evidence:
    depths, count = ((1, 2, 4, 8), 100) if full else ((1, 2, 4), 30)
    to_autograd, to_differences, direct = [], [], []
    g = torch.Generator().manual_seed(0)
    for depth, leak in itertools.product(depths, (0.0, 0.1)):
        maps = backprop.drawn([1, *[6] * depth, 1], seed=depth)
        x, y = torch.randn(2, count, 1, generator=g, dtype=torch.float64)
        leaves = [torch.tensor(part, dtype=torch.float64).requires_grad_() for pair in maps for part in pair]

        def loss(leaves: list[Tensor] = leaves, x: Tensor = x, y: Tensor = y, leak: float = leak) -> Tensor:
            h = x
            for k in range(0, len(leaves), 2):
                h = F.linear(h, leaves[k + 1], leaves[k])
                h = F.leaky_relu(h, leak) if k < len(leaves) - 2 else h
            return (h - y).square().sum()

        auto = torch.autograd.grad(loss(), leaves)
        scale = max(float(part.abs().max()) for part in auto)
        by_hand = [part for pair in backprop.gradients(maps, x.tolist(), y.tolist(), leak) for part in pair]
        pairs = zip(by_hand, auto, strict=True)
        to_autograd.append(max(float((torch.tensor(a, dtype=torch.float64) - b).abs().max()) for a, b in pairs) / scale)
        # a step of 1e-7 crosses a kink of some row at times: at a place where none is near, the two agree
        found = differences(loss, {str(k): leaf for k, leaf in enumerate(leaves)}, step=1e-7, most=6)
        to_differences.append(sorted(one.error for one in found)[len(found) // 2])
    theta, psi, phi = [[0.3, -0.8], [-0.1, 1.2]], [[0.2, 0.7, -0.5], [-0.3, 0.4, 0.9]], [0.1, -1.1, 0.6]
    x1, y1 = [0.4, -1.3, 0.9, 2.0], [0.2, 0.5, -0.7, 1.0]
    deep = written.deep(theta, psi, phi, x1, y1)
    maps = [([row[0] for row in layer], [row[1:] for row in layer]) for layer in (theta, psi, [phi])]
    chained = backprop.gradients(maps, [[v] for v in x1], [[v] for v in y1])
    for formula, (offsets, slopes) in zip((*deep[:2], [deep[2]]), chained, strict=True):
        direct += [abs(row[0] - offset) for row, offset in zip(formula, offsets, strict=True)]
        direct += [abs(a - b) for row, other in zip(formula, slopes, strict=True) for a, b in zip(row[1:], other)]
    xs = tuple(map(float, range(1, len(to_autograd) + 1)))
    view = Curves(
        "Derivatives of deep networks, by other ways", "network", "relative difference from automatic differentiation",
        {"backpropagation by hand": (xs, tuple(max(v, 1e-17) for v in to_autograd)),
         "finite differences, median": (xs, tuple(max(v, 1e-17) for v in to_differences))}, log="y",
    )  # fmt: skip
    return Evidence(
        (
            Check("backpropagation by hand, largest relative difference", max(to_autograd), high=1e-12),
            Check("finite differences, the same, median tensor", max(to_differences), high=1e-5),
            Check("formulas of the 13 parameters of 1-2-2-1, largest difference", max(direct), high=1e-12),
            Check("parameters of 1-2-2-1", sum(len(row) for row in (*theta, *psi, phi)), 13, 13),
        ),
        view,
    )


@claim(
    "checkpoints-exact",
    "Checkpoints every N layers leave the gradients as they are, dropout included, for one more forward pass; "
    "micro-batches leave them too",
    "Understanding Deep Learning, notes 7 and problem 7.11; Chen et al. 2016",
)
def checkpoints_exact(full: bool) -> Evidence:
    depth, width = (50, 128) if full else (50, 32)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        layers = [nn.Sequential(nn.Linear(width, width), nn.Tanh(), Dropout(0.2, k)) for k in range(depth)]
        x = torch.randn(64, width, dtype=torch.float64)
    plain = nn.Sequential(*layers).double()
    keys = noise.example_keys(0, 0, torch.arange(64))

    def gradients(model: nn.Module, parts: int = 1) -> list[Tensor]:
        total = [torch.zeros_like(p) for p in model.parameters()]
        for rows in torch.arange(64).chunk(parts):
            with noise.keyed(keys[rows]):
                loss = model(x[rows]).square().sum()
            for sum_, part in zip(total, torch.autograd.grad(loss, list(model.parameters())), strict=True):
                sum_ += part
        return total

    wanted = gradients(plain)
    apart = [_apart(gradients(Checkpointed(layers, every)), wanted) for every in (1, 7, 10, 50)]
    micro = max(_apart(gradients(plain, parts), wanted) for parts in (2, 5))
    view = memory(plain, x, every=(1, 5, 7, 10, 25), parts=(2, 4))
    now, ten = view.variants[0], next(v for v in view.variants if v.name == "checkpoint every 10")
    return Evidence(
        (
            Check("largest difference of a gradient, any N", max(apart), 0, 0),
            Check("the same of micro-batches, as a part of the largest", micro, high=1e-12),
            Check("layers run forward, over those without", ten.passes / now.passes, 2, 2),
            # of 50 layers that keep three arrays each, 5 inputs are kept
            Check("bytes kept with N = 10, over those without", ten.kept / now.kept, high=0.1),
            Check("the same at the peak", ten.peak / now.peak, high=0.35),
        ),
        view,
    )


def _apart(found: list[Tensor], wanted: list[Tensor]) -> float:
    scale = max(float(part.abs().max()) for part in wanted)
    return max(float((a - b).abs().max()) for a, b in zip(found, wanted, strict=True)) / scale
