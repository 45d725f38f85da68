"""What skips do for depth."""

from __future__ import annotations

import math

import torch
from torch import nn

from leadline import data as sources
from leadline.claims.claim import Check, Evidence, claim
from leadline.claims.curves import Curves
from leadline.layers.activation import ACTIVATIONS, activation, at_zero, widening
from leadline.layers.residual import AddLayer
from leadline.likelihoods import Bernoulli
from leadline.models import MLP, Residual
from leadline.verbs import fit


@claim(
    "deep-residual",
    "A residual network of thirty layers and more trains where an equally deep plain one does not",
    "He et al. 2016; lecture notes on feed-forward networks",
)
def deep_residual(full: bool) -> Evidence:
    depths, epochs, lr = ((3, 10, 30, 100), 60, 3e-3) if full else ((3, 10, 30), 15, 1e-2)
    rows = sources.load("moons", num=1500)
    explained: dict[str, list[float]] = {"plain": [], "residual": []}
    for depth in depths:
        hidden = (16,) * depth
        for name, found in explained.items():
            with torch.random.fork_rng():
                torch.manual_seed(depth)
                model: nn.Module = (
                    Residual(2, hidden, 1) if name == "residual" else MLP(2, hidden, 1, activation="relu", p_drop=0.0)
                )
            run = fit(model, rows, likelihood=Bernoulli(), epochs=epochs, batch=100, lr=lr, progress=False, threads=1)
            # the classes are equally many, so an answer that knows nothing has a loss of log 2
            found.append(1 - run.evaluate("train")["nll"] / math.log(2))
    xs = tuple(map(float, depths))
    view = Curves(
        "Depth with and without skips", "hidden layers of 16 units", "share of the training loss explained",
        {name: (xs, tuple(found)) for name, found in explained.items()},
    )  # fmt: skip
    return Evidence(
        (
            # "trains" and "does not" as said beforehand: more than half of log 2 is explained, less than a twentieth
            Check(f"share explained by {depths[-1]} residual layers", explained["residual"][-1], low=0.5),
            Check(f"share explained by {depths[-1]} plain layers", explained["plain"][-1], high=0.05),
            Check(f"share explained by {depths[0]} plain layers", explained["plain"][0], low=0.5),
        ),
        view,
    )


@claim(
    "zero-residual",
    "A residual layer x + (φ(Wx + b) - φ(0)) of zero weights is the identity for every activation",
    "Lecture notes on feed-forward networks",
)
def zero_residual(full: bool) -> Evidence:
    names = sorted(ACTIVATIONS)
    rests, with_rest, without = [], [], []
    x = torch.randn(500 if full else 100, 4, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    with torch.random.fork_rng(), torch.no_grad():
        for name in names:
            layer = AddLayer(4, 4 // widening(activation(name)), name).double()
            layer.map.weight.zero_(), layer.map.bias.zero_()
            rests.append(float(at_zero(layer.activation)))
            with_rest.append(float((layer(x) - x).abs().max()))
            without.append(float(layer.activation(layer.map(x)).abs().max()))  # what x + φ(Wx + b) would add
    view = Curves(
        f"A residual layer of zeros, {len(names)} activations", "φ(0)", "largest distance from its input",
        {"with - φ(0)": (tuple(rests), tuple(with_rest)), "without": (tuple(rests), tuple(without))}, joined=False,
    )  # fmt: skip
    return Evidence(
        (
            Check("largest distance from the identity, any activation", max(with_rest), high=1e-15),
            Check("the same of a sigmoid without - φ(0)", without[names.index("sigmoid")], 0.5, 0.5),
        ),
        view,
    )
