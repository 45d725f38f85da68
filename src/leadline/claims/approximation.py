"""What networks can represent: width, depth, and the same function twice."""

from __future__ import annotations

import math

import torch

from leadline.claims.claim import Check, Evidence, claim
from leadline.claims.curves import Curves
from leadline.models import MLP
from leadline.models.constructed import interpolant
from leadline.models.fusion import compose, fuse
from leadline.models.shallow import Shallow
from leadline.models.symmetry import permute, rescale


@claim(
    "width-approximates",
    "A shallow network comes as near to a smooth function as one likes: the error falls with the square of its width",
    "Understanding Deep Learning, section 3.2; Cybenko 1989, Hornik 1991",
)
def width_approximates(full: bool) -> Evidence:
    widths = (4, 8, 16, 32, 64, 128, 256) if full else (4, 8, 16, 32, 64)
    dense = torch.linspace(0, 1, 20_001, dtype=torch.float64)[:, None]
    functions = {
        "sin 2πx": lambda x: (2 * math.pi * x).sin(),
        "exp(-8x) cos 9x": lambda x: (-8 * x).exp() * (9 * x).cos(),
    }
    measured, slopes = {}, []
    for name, function in functions.items():
        errors = []
        for width in widths:
            knots = torch.linspace(0, 1, width + 1, dtype=torch.float64)
            net = interpolant(knots, function(knots)).double()
            with torch.no_grad():
                errors.append(float((net(dense)[:, 0] - function(dense)[:, 0]).abs().max()))
        measured[name] = (tuple(map(float, widths)), tuple(errors))
        slopes.append(math.log(errors[-1] / errors[1]) / math.log(widths[-1] / widths[1]))
    view = Curves("Best fit of a shallow network", "hidden units", "largest error on [0, 1]", measured, log="xy")
    return Evidence(
        (
            Check("power of the width with which the error falls, flattest", max(slopes), high=-1.8),
            Check("power of the width with which the error falls, steepest", min(slopes), low=-2.2),
            Check(f"largest error with {widths[-1]} units", max(y[-1] for _, y in measured.values()), high=0.01),
        ),
        view,
    )


@claim(
    "composition-is-deep",
    "The composition of two networks is one deep network whose hidden matrix has rank one",
    "Understanding Deep Learning, section 4.2, equations 4.5 and 4.6",
)
def composition_is_deep(full: bool) -> Evidence:
    seeds = 50 if full else 10
    errors, ranks = [], []
    x = torch.linspace(-2, 2, 401, dtype=torch.float64)[:, None]
    with torch.random.fork_rng(), torch.no_grad():
        for seed in range(seeds):
            torch.manual_seed(seed)
            pair = compose(Shallow(1, 3, 1), Shallow(1, 3, 1)).double()
            deep = fuse(pair).double()
            errors.append(float((pair(x) - deep(x)).abs().max()))
            ranks.append(int(torch.linalg.matrix_rank(deep.get_parameter("layers.1.map.weight"))))
    view = Curves(
        "A composition and its fusion", "random pair", "largest difference",
        {"float64": (tuple(map(float, range(seeds))), tuple(max(e, 1e-18) for e in errors))}, log="y",
    )  # fmt: skip
    return Evidence(
        (
            Check("largest difference of the two forms", max(errors), high=1e-12),
            Check("largest rank of the hidden matrix", max(ranks), 1, 1),
        ),
        view,
    )


@claim(
    "symmetries",
    "Permuting hidden units, or scaling one in by a and out by 1/a, leaves a ReLU network the function it was",
    "Understanding Deep Learning, problems 3.5 to 3.7 and 4.2",
    misprint="equation 3.13 asks that z be not negative; it is the factor that must not be",
)
def symmetries(full: bool) -> Evidence:
    widths = (3, 10, 100) if full else (3, 10)
    moved, changed = [], []
    with torch.random.fork_rng(), torch.no_grad():
        torch.manual_seed(0)
        x = torch.randn(500, 4, dtype=torch.float64)
        for width in widths:
            net = MLP(4, (width, width), 2, activation="relu", p_drop=0.0).double()
            other = rescale(permute(net, 0, torch.randperm(width)), 1, torch.rand(width) * 4 + 0.1)
            changed.append(float((net(x) - other(x)).abs().max()))
            moved.append(
                max(float((a - b).abs().max()) for a, b in zip(net.parameters(), other.parameters(), strict=True))
            )
    xs = tuple(map(float, widths))
    view = Curves(
        "Other weights, the same function", "units a layer", "largest change",
        {"of a weight": (xs, tuple(moved)), "of the output": (xs, tuple(max(c, 1e-18) for c in changed))}, log="y",
    )  # fmt: skip
    return Evidence(
        (
            Check("largest change of the output", max(changed), high=1e-10),
            Check("largest change of a weight, smallest network", min(moved), low=0.1),
        ),
        view,
    )


@claim(
    "linear-collapses",
    "Without an activation a network of any depth is one affine map",
    "Understanding Deep Learning, problem 3.1",
)
def linear_collapses(full: bool) -> Evidence:
    depths = (1, 2, 4, 8) if full else (1, 2, 4)
    bends: dict[str, list[float]] = {"identity": [], "relu": []}
    x = torch.linspace(-3, 3, 301, dtype=torch.float64)[:, None]
    with torch.random.fork_rng(), torch.no_grad():
        for depth in depths:
            for activation, found in bends.items():
                torch.manual_seed(depth)
                y = MLP(1, (16,) * depth, 1, activation=activation, p_drop=0.0).double()(x)[:, 0]
                found.append(float((y.diff().diff()).abs().max() / y.diff().abs().max()))
    xs = tuple(map(float, depths))
    view = Curves(
        "Bends of random networks", "hidden layers", "largest second difference over largest first",
        {name: (xs, tuple(max(v, 1e-18) for v in found)) for name, found in bends.items()}, log="y",
    )  # fmt: skip
    return Evidence(
        (
            Check("bend of a network without activation", max(bends["identity"]), high=1e-9),
            Check("bend of a ReLU network", min(bends["relu"]), low=1e-3),
        ),
        view,
    )
