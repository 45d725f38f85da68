"""Linear regions: counted exactly, beside the numbers that theory gives."""

from __future__ import annotations

import math

import torch

from leadline.claims.claim import Check, Evidence, claim
from leadline.claims.curves import Curves
from leadline.data.account import counted
from leadline.lens.joints import joints
from leadline.lens.regions import regions
from leadline.models import MLP
from leadline.models.constructed import folding, interpolant, orthants, sawtooth
from leadline.models.counting import folded_regions, line_regions, montufar, size, zaslavsky
from leadline.models.fusion import compose
from leadline.models.shallow import Shallow

_WIDE = ((-1e4, 1e4), (-1e4, 1e4))  # wide enough that lines in general position meet inside


def _random_shallow(num_units: int, seed: int) -> Shallow:
    torch.manual_seed(seed)
    return Shallow(2, num_units, 1).double()


@claim(
    "three-lines",
    "Three units cut the plane into at most 7 regions, five into at most 16; random units reach it",
    "Understanding Deep Learning, section 3.3.2 and problem 3.18; Zaslavsky 1975",
)
def three_lines(full: bool) -> Evidence:
    seeds = 200 if full else 40
    widths = (1, 2, 3, 4, 5, 8, 12) if full else (1, 2, 3, 4, 5, 8)
    most = {}
    with torch.random.fork_rng():
        for width in widths:
            most[width] = max(regions(_random_shallow(width, seed), _WIDE).count for seed in range(seeds))
    x = tuple(map(float, widths))
    view = Curves(
        "Regions of a shallow network of two inputs", "hidden units", "regions",
        {"most of the random networks": (x, tuple(map(float, most.values())))},
        {"Zaslavsky": (x, tuple(float(zaslavsky(2, width)) for width in widths))},
    )  # fmt: skip
    over = max(most[width] - zaslavsky(2, width) for width in widths)
    return Evidence(
        (
            Check("most regions of three units", most[3], 7, 7),
            Check("most regions of five units", most[5], 16, 16),
            Check("regions beyond Zaslavsky's number, any width", over, high=0),
        ),
        view,
    )


@claim(
    "orthants",
    "Units across the axes make 2, 4, 8 regions of 1, 2, 3 inputs",
    "Understanding Deep Learning, figure 3.10",
)
def orthants_counted(full: bool) -> Evidence:
    dims = (1, 2, 3, 4, 5) if full else (1, 2, 3)
    counts = []
    generator = torch.Generator().manual_seed(0)
    for dim in dims:
        net = orthants(dim)
        x = torch.randn(200 * 2**dim, dim, generator=generator)
        with torch.no_grad():
            counts.append(len({tuple(row) for row in (net.inner(x.double()) > 0).tolist()}))
    xs = tuple(map(float, dims))
    view = Curves(
        "Orthants", "inputs", "regions", {"counted": (xs, tuple(map(float, counts)))},
        {"2^inputs": (xs, tuple(2.0**dim for dim in dims))}, log="y",
    )  # fmt: skip
    return Evidence(
        tuple(Check(f"regions of {counted(d, 'input')}", n, 2**d, 2**d) for d, n in zip(dims, counts, strict=True)),
        view,
    )


@claim(
    "sawtooth",
    "A sawtooth of three units, composed with itself, has 4, 16, 64 linear regions",
    "Understanding Deep Learning, problem 4.5; Telgarsky 2016",
)
def sawtooth_composed(full: bool) -> Evidence:
    depth = 6 if full else 3
    counts = []
    for k in range(1, depth + 1):
        net = compose(*(sawtooth(3) for _ in range(k))).double() if k > 1 else sawtooth(3).double()
        counts.append(joints(net, 0.0, 1.0).pieces)
    x = tuple(float(k) for k in range(1, depth + 1))
    view = Curves(
        "A sawtooth composed with itself", "copies", "linear regions", {"counted": (x, tuple(map(float, counts)))},
        {"4^copies": (x, tuple(4.0**k for k in x))}, log="y",
    )  # fmt: skip
    checks = (Check(f"regions of {counted(k, 'copy', 'copies')}", n, 4**k, 4**k) for k, n in enumerate(counts, 1))
    return Evidence(tuple(checks), view)


@claim(
    "composition",
    "Composing networks of 3 and 3 regions gives 9; of 7 regions (one of them flat) and 2 gives 13",
    "Understanding Deep Learning, figures 4.1 and 4.2",
)
def composition(full: bool) -> Evidence:
    zigzag = interpolant((0.0, 1 / 3, 2 / 3, 1.0), (0.0, 1.0, 0.0, 1.0))
    line = joints(compose(zigzag, interpolant((0.0, 1 / 3, 2 / 3, 1.0), (0.0, 1.0, 0.0, 1.0))).double(), 0.0, 1.0)
    bumps = Shallow(2, 3, 1)
    bumps.set(theta10=-0.2, theta11=1.0, theta12=0.0, theta20=-0.2, theta21=-0.5, theta22=0.866,
              theta30=-0.2, theta31=-0.5, theta32=-0.866, phi0=-0.3, phi1=1.0, phi2=1.0, phi3=1.0)  # fmt: skip
    first = regions(bumps.double(), ((-4.0, 4.0), (-4.0, 4.0)))
    fold = interpolant((-1.0, 0.0, 1.0), (1.0, -1.0, 1.0))
    plane = regions(compose(bumps, fold).double(), ((-4.0, 4.0), (-4.0, 4.0)))
    return Evidence(
        (
            Check("regions of a zigzag of a zigzag", line.pieces, 9, 9),
            Check("regions of the first network of two inputs", first.count, 7, 7),
            Check("regions of its composition with a fold", plane.count, 13, 13),
        ),
        plane,
    )


@claim(
    "counts-of-figures",
    "Parameters and regions of the networks in figures 3.9 and 4.7, and of problem 4.8",
    "Understanding Deep Learning, figures 3.9 and 4.7, problem 4.8",
    misprint="figure 4.7b prints more than 10^134 regions; its own formula gives 1.8·10^41",
)
def counts_of_figures(full: bool) -> Evidence:
    depths = tuple(range(1, 6))
    view = Curves(
        "Most regions by parameters, one input", "parameters", "regions",
        {
            f"{width} units a layer": (
                tuple(float(size(1, [width] * k, 1).parameters) for k in depths),
                tuple(float(line_regions(width, k)) for k in depths),
            )
            for width in (5, 10, 20)
        },
        log="xy",
    )  # fmt: skip
    parameters = [
        ("100-500-1", size(100, [500], 1).parameters, 51_001),
        ("1-10×5-1", size(1, [10] * 5, 1).parameters, 471),
        ("10-50×5-1", size(10, [50] * 5, 1).parameters, 10_801),
        ("1-286-1", size(1, [286], 1).parameters, 859),
        ("1-5×10-1", size(1, [5] * 10, 1).parameters, 286),
    ]
    checks = [Check(f"parameters of {name}", found, wanted, wanted) for name, found, wanted in parameters]
    checks += [
        Check("log10 of the regions of 100-500-1", math.log10(zaslavsky(100, 500)), 107.42, 107.44),
        Check("regions of 1-10×5-1", line_regions(10, 5), 161_051, 161_051),
        Check("log10 of the regions of 10-50×5-1", math.log10(folded_regions(10, 50, 5)), 41.25, 41.26),
        Check("regions of 1-286-1", line_regions(286), 287, 287),
        Check("regions of 1-5×10-1", line_regions(5, 10), 60_466_176, 60_466_176),
    ]
    return Evidence(tuple(checks), view)


@claim(
    "region-bounds",
    "Regions of random deep networks stay far below 2^units; networks built to fold reach Montúfar's number",
    "Montúfar et al. 2014; Understanding Deep Learning, section 4.5.2",
)
def region_bounds(full: bool) -> Evidence:
    seeds, widths = (20, (2, 4, 6, 8, 12)) if full else (5, (2, 4, 6))
    random = []
    with torch.random.fork_rng():
        for width in widths:
            found = 0
            for seed in range(seeds):
                torch.manual_seed(seed)
                found = max(
                    found, regions(MLP(2, (width, width), 1, activation="relu", p_drop=0.0).double(), _WIDE).count
                )
            random.append(found)
    units = (6, 8, 10) if full else (6, 8)
    built = []
    for width in units:
        fold = folding(2, width // 2)
        torch.manual_seed(0)
        last = Shallow(2, width, 1)
        angles = torch.linspace(0, math.pi, width + 1)[:-1] + 0.1
        with torch.no_grad():  # lines through the image of the folds, in general position
            last.inner.weight.copy_(torch.stack([angles.cos(), angles.sin()], 1))
            centre = torch.tensor([0.5, 0.5])
            last.inner.bias.copy_(-(last.inner.weight @ centre) + 0.05 * torch.linspace(-1, 1, width))
        built.append(regions(compose(fold, last).double(), ((0.0, 1.0), (0.0, 1.0))).count)
    x = tuple(map(float, widths))
    view = Curves(
        "Regions of networks of two inputs and two layers", "units a layer", "regions",
        {"most of random networks": (x, tuple(map(float, random))),
         "built to fold": (tuple(map(float, units)), tuple(map(float, built)))},
        {"2^units": (x, tuple(2.0 ** (2 * width) for width in widths)),
         "Montúfar": (tuple(map(float, units)), tuple(float(montufar(2, width, 2)) for width in units))},
        log="y",
    )  # fmt: skip
    below = max(n / 2 ** (2 * width) for n, width in zip(random, widths, strict=True))
    reached = min(n / montufar(2, width, 2) for n, width in zip(built, units, strict=True))
    return Evidence(
        (
            Check("regions of random networks over 2^units, at most", below, high=1.0),
            Check("regions of folding networks over Montúfar's number, at least", reached, low=1.0),
        ),
        view,
    )
