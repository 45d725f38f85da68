"""What losses do: where they are largest, which numbers they survive, and whom they neglect."""

from __future__ import annotations

import math

import numpy as np
import torch

from leadline import data as sources
from leadline.claims.claim import FAILS, Check, Evidence, claim
from leadline.claims.curves import Curves
from leadline.lens import joints
from leadline.likelihoods import Categorical, Focal, Likelihood, Mixture, Normal
from leadline.likelihoods.links import FLOOR
from leadline.models import MLP, Shallow
from leadline.verbs import fit


@claim(
    "log-keeps-maximum",
    "The logarithm leaves the maximum of a likelihood where it was; a product of many densities is 0 to the machine, a "
    "sum of logarithms is not",
    "Understanding Deep Learning, section 5.1.3 and figure 5.1",
)
def log_keeps_maximum(full: bool) -> Evidence:
    counts = (5, 10, 20, 40, 80, 160, 320, 640) if full else (5, 10, 20, 40, 80, 160)
    g = torch.Generator().manual_seed(0)
    y = torch.randn(counts[-1], generator=g)
    mu = torch.linspace(-1, 1, 401)
    log_p = Normal("fixed").distribution(mu[:, None]).log_prob(y[:, None]).T  # (places, rows)
    apart, turned, largest = 0, 0, []
    for count in counts:
        product, total = log_p[:, :count].exp().prod(1), log_p[:, :count].sum(1)
        largest.append(float(product.max()))
        if float(product.min()) > 0:
            apart = max(apart, abs(int(product.argmax()) - int(total.argmax())))
            # slopes that rounding cannot turn around
            rises, clear = product.diff().sign(), total.diff().abs() > 1e-4
            turned += int((rises != total.diff().sign())[clear].sum())
    # a density is at most 1/√2π, and the least number of float32 is 2^-149
    surely = 149 * math.log(2) / (0.5 * math.log(2 * math.pi))
    xs, alive = tuple(map(float, counts)), [value for value in largest if value > 0]
    view = Curves(
        "The largest likelihood of a mean", "rows", "product of densities, float32",
        {"measured, as long as it is not 0": (xs[: len(alive)], tuple(alive))},
        {"(2π)^(-n/2), the most it can be": (xs[:5], tuple((2 * math.pi) ** (-n / 2) for n in xs[:5]))},
        marks={"surely 0 from here": surely}, log="y",
    )  # fmt: skip
    first = counts[len(alive)]
    return Evidence(
        (
            Check("cells between the two maxima", apart, high=1),  # neighbours may round to one product
            Check("slopes that the logarithm turns around", turned, 0, 0),
            Check("rows from which on every product is 0", first, high=2 * surely),  # rows are doubled each time
            Check("sum of logarithms at the most rows, finite", float(log_p.sum(1).isfinite().all()), 1, 1),
        ),
        view,
    )


@claim(
    "mixture-modes",
    "Two equal normal densities make one peak or two: two from the moment their means are 2σ apart",
    "Understanding Deep Learning, figure 5.13",
)
def mixture_modes(full: bool) -> Evidence:
    distances = torch.linspace(1, 4, 301 if full else 61, dtype=torch.float64)
    family = Mixture(2).double()
    width = math.log(math.expm1(1 - 1e-3))  # softplus of it, and the floor, are σ = 1
    ones = torch.ones_like(distances)
    # components begin at -1 and +1
    output = torch.stack([0 * ones, 0 * ones, 1 - distances / 2, distances / 2 - 1, width * ones, width * ones], dim=1)
    found = family.prediction(output)
    sigma = float(family.parameters_of(output)[2][0, 0])
    number = (~found.modes.isnan()).sum(1)
    gap = found.modes.diff()[:, 0].abs().nan_to_num(0)
    # p'(y) = 0 at y = m tanh(m y / σ²), m half the distance: solved by iteration from above
    expected = []
    for m in (distances / 2).tolist():
        at = m
        for _ in range(2000):
            at = m * math.tanh(m * at)
        expected.append(2 * at if at > 1e-3 else 0.0)
    xs = tuple(distances.tolist())
    view = Curves(
        "Peaks of two equal bells", "distance of the means, σ", "distance of the peaks, σ",
        {"found": (xs, tuple(gap.tolist()))}, {"y = m tanh(m y)": (xs, tuple(expected))}, marks={"2σ": 2.0},
    )  # fmt: skip
    step = float(distances[1] - distances[0])
    far = distances >= 2 + step
    off = (gap - torch.tensor(expected, dtype=torch.float64))[far].abs().max()
    return Evidence(
        (
            Check("σ of the two", sigma, 1 - 1e-9, 1 + 1e-9),
            Check("largest distance with one peak", float(distances[number == 1].max()), 2 - step, 2 + 1e-9),
            Check("least distance with two", float(distances[number == 2].min()), 2, 2 + step + 1e-9),
            # what 2000 iterations leave just beyond 2σ, where they creep
            Check("distance of the peaks from the law, the worst", float(off), high=1e-6),
        ),
        view,
    )


@claim(
    "deviation-bends",
    "A deviation |f| of a ReLU network is piecewise linear in x; the softplus that is taken here bends between the "
    "joints, and stays within log 2 of max(f, 0)",
    "Understanding Deep Learning, figure 5.4",
)
def deviation_bends(full: bool) -> Evidence:
    cells = 200_001 if full else 40_001
    with torch.random.fork_rng():
        torch.manual_seed(2)
        net = Shallow(1, 6, 1).double()
    with torch.no_grad():
        net.inner.weight.mul_(2), net.outer.weight.mul_(6)
        x = torch.linspace(-3, 3, cells, dtype=torch.float64)
        f = net(x[:, None])[:, 0]
        f = f - f.median()  # so that it changes its sign
        family = Normal("input").double()
        taken = family.distribution(torch.stack([torch.zeros_like(f), f], dim=1)).stddev
    step = float(x[1] - x[0])
    bend = {"|f|": f.abs().diff().diff() / step**2, "softplus f": taken.diff().diff() / step**2}
    # away from joints of the network and from zeros of f, where |f| turns
    corners = np.concatenate([joints(net, -3.0, 3.0).x, x[:-1][(f[:-1] * f[1:] <= 0).numpy()].numpy()])
    inside = torch.tensor(np.abs(x[1:-1].numpy()[:, None] - corners).min(1) > 2 * step)
    slopes = (f.diff() / step)[1:][inside]
    p = torch.sigmoid(f[1:-1])[inside]
    law = slopes.square() * p * (1 - p)
    few = slice(None, None, cells // 300)
    view = Curves(
        "Deviation as |f| and as softplus f", "x", "deviation",
        {"|f|": (tuple(x[few].tolist()), tuple(f.abs()[few].tolist())),
         "softplus f": (tuple(x[few].tolist()), tuple(taken[few].tolist()))},
    )  # fmt: skip
    rounding = 1e-15 * float(f.abs().max()) / step**2
    return Evidence(
        (
            Check(
                "largest second derivative of |f| between corners",
                float(bend["|f|"][inside].abs().max()),
                high=8 * rounding,
            ),
            # softplus'' = s (1 - s), and f is straight there
            Check(
                "largest second derivative of softplus f over f'² s (1 - s)",
                float(bend["softplus f"][inside].abs().max() / law.max()),
                0.99,
                1.01,
            ),
            # where f = 0, to within a step of the grid
            Check(
                "largest distance of softplus f from max(f, 0)",
                float((taken - FLOOR - f.relu()).max()),
                math.log(2) - float(slopes.abs().max()) * step,
                math.log(2) + 1e-9,
            ),
        ),
        view,
    )


@claim(
    "rare-classes",
    "Focal loss finds more of a rare class than cross-entropy does",
    "Lin et al. 2017; Understanding Deep Learning, notes on class imbalance",
    on_record=FAILS,
)
def rare_classes(full: bool) -> Evidence:
    seeds, epochs = (20, 60) if full else (4, 30)
    recall: dict[str, list[float]] = {"cross-entropy": [], "focal loss, γ = 2": []}
    for seed in range(seeds):
        rows = sources.load("imbalanced", num=3000, num_classes=2, ratio=20.0, separation=2.5, test=0.5, seed=seed)
        rare = rows.test.y == 1
        families: tuple[Likelihood, ...] = (Categorical(2), Focal(2))
        for found, likelihood in zip(recall.values(), families, strict=True):
            with torch.random.fork_rng():
                torch.manual_seed(seed)
                model = MLP(2, (32,), 2, p_drop=0.0)
            run = fit(model, rows, likelihood=likelihood, epochs=epochs, batch=100, lr=1e-2, progress=False, threads=1)
            found.append(float((run.predict(rows.test.x).mode[rare] == 1).double().mean()))
    gain = torch.tensor(recall["focal loss, γ = 2"]) - torch.tensor(recall["cross-entropy"])
    xs = tuple(map(float, range(1, seeds + 1)))
    view = Curves(
        "Rare rows that are found",
        "data set",
        "recall of the rare class",
        {n: (xs, tuple(r)) for n, r in recall.items()},
    )
    # the two losses ask for the same decision wherever there are rows enough (Charoenphakdee et al. 2021), so a gain of
    # 0 is to be expected; "finds more" is taken to be a twentieth of the rare rows, beyond what chance makes of few
    least = max(0.05, 2 * float(gain.std()) / seeds**0.5)
    return Evidence((Check("gain of recall", float(gain.mean()), low=least),), view)
