"""Pieces of a shallow network on a line."""

from __future__ import annotations

import numpy as np
import torch

from leadline.claims.claim import Check, Evidence, claim
from leadline.claims.curves import Curves
from leadline.lens import joints
from leadline.models import Shallow


@claim(
    "line-pieces",
    "D ReLUs make at most D + 1 pieces on a line; the slope of a piece is the sum over its active units, and of four "
    "slopes three are free",
    "Understanding Deep Learning, sections 3.1.1 and 3.2, problem 3.9",
)
def line_pieces(full: bool) -> Evidence:
    widths, turns = ((1, 2, 3, 5, 10, 20, 50), 100) if full else ((1, 2, 3, 5, 10), 30)
    most, off, reached = [], 0.0, 0
    with torch.random.fork_rng():
        torch.manual_seed(0)
        for width in widths:
            counts = []
            for _ in range(turns):
                net = Shallow(1, width, 1).double()
                seen = joints(net, -50.0, 50.0)
                theta, phi = net.inner.weight.detach().numpy()[:, 0], net.outer.weight.detach().numpy()[0]
                off = max(off, float(np.abs(seen.patterns @ (theta * phi) - seen.slopes[:, 0]).max()))
                counts.append(seen.pieces)
                # all joints -θ_d0/θ_d1 in sight and apart: then no piece is missing
                at = np.sort(-net.inner.bias.detach().numpy() / theta)
                if np.abs(at).max() < 49 and np.diff(at).min(initial=1.0) > 1e-3:
                    reached += seen.pieces != width + 1
            most.append(max(counts))
        rank = _rank(turns)
    xs = tuple(map(float, widths))
    view = Curves(
        "Straight pieces of random networks", "hidden units", "most pieces found",
        {"measured": (xs, tuple(map(float, most)))},
        {"D + 1": (xs, tuple(x + 1 for x in xs))},
    )  # fmt: skip
    return Evidence(
        (
            Check(
                "most pieces, less D + 1, any width", max(m - w - 1 for m, w in zip(most, widths, strict=True)), 0, 0
            ),
            Check("networks with all joints in sight and fewer pieces", reached, 0, 0),
            Check("largest distance of a slope from its sum over active units", off, high=1e-9),
            Check("free slopes of the four", rank, 3, 3),
        ),
        view,
    )


def _rank(turns: int) -> int:
    """Rank of the four slopes over networks whose units look and switch in one order."""
    rows = []
    for _ in range(turns):
        net = Shallow(1, 3, 1).double()
        with torch.no_grad():
            net.inner.weight.abs_().add_(0.1)
            net.inner.weight[1] *= -1  # the unit in the middle looks left
            net.inner.bias.copy_(-net.inner.weight[:, 0] * torch.tensor([-1.0, 0.0, 1.0], dtype=torch.float64))
        rows.append(joints(net, -2.0, 2.0).slopes[:, 0])
    return int(np.linalg.matrix_rank(np.array(rows), tol=1e-9))
