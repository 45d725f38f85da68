"""Learning rates, batch sizes, update rules and penalties, and what they do to the test error."""

from __future__ import annotations

import math

import numpy as np

from leadline.claims.claim import FAILS, Check, Evidence, claim
from leadline.claims.curves import Curves
from leadline.claims.measuring import PLAIN, digits, net
from leadline.models import MLP
from leadline.selection.rates import equal_steps, equal_travel
from leadline.selection.sweep import Sweep, sweep


@claim(
    "large-rates",
    "At equal travel, full-batch descent with large learning rates ends at lower test errors",
    "Understanding Deep Learning, section 9.2.1 and figure 9.5a",
    on_record=FAILS,
    misprint="figure 9.5a prints iterations = 6000 × rate; equal travel needs iterations ∝ 1 / rate",
)
def large_rates(full: bool) -> Evidence:
    data, epochs = digits(2000 if full else 400, 4000 if full else 2000), 400 if full else 200
    rates = (0.5, 0.25, 0.1) if full else (0.5, 0.1)
    found = sweep(
        _net, data, {options["lr"]: options for options in equal_travel(rates, epochs)},
        {f"{w} units a layer": {"model": {"width": w}} for w in ((20, 40, 80) if full else (40,))},
        axis="learning rate", seeds=8 if full else 4, batch=10**6, optimizer="sgd", log=True, **PLAIN,
    )  # fmt: skip
    gain = _first_less_last(found)
    return Evidence(
        (
            Check("training error, the worst", float(found.mean("train").max()), high=0.05),
            Check("error at the largest rate less that at the smallest, in standard errors", gain, high=-2),
        ),
        found,
    )


@claim(
    "small-batches",
    "Trained until every row is fitted, at one learning rate, small batches end at lower test errors than all rows at "
    "once",
    "Understanding Deep Learning, section 9.2.2 and figure 9.5b; Smith et al. 2020",
)
def small_batches(full: bool) -> Evidence:
    rows = 2000 if full else 400
    data = digits(rows, 4000 if full else 2000)
    # steps that take each to the end: gradients of few rows are larger, so that their steps go further
    sizes = ((10, 4000), (50, 4000), (200, 6000), (rows, 10_000)) if full else ((10, 1200), (rows, 1200))
    found = sweep(
        _net, data, {float(size): equal_steps([size], rows, steps)[0] for size, steps in sizes},
        {f"{w} units a layer": {"model": {"width": w}} for w in ((40, 80) if full else (40,))},
        axis="batch size", seeds=5, lr=0.1 if full else 0.2, optimizer="sgd", log=True, **PLAIN,
    )  # fmt: skip
    gain = _first_less_last(found)
    return Evidence(
        (
            Check("training error, the worst", float(found.mean("train").max()), high=0.05),
            Check("error at the smallest batch less that at the full one, in standard errors", gain, high=-2),
        ),
        found,
    )


@claim(
    "adam-less-sensitive",
    "Adam trains well over a wider range of learning rates than gradient descent, at several depths",
    "Understanding Deep Learning, section 6.4",
)
def adam_less_sensitive(full: bool) -> Evidence:
    data = digits(2000 if full else 500)
    rates = tuple(10 ** (k / (4 if full else 2)) for k in range(*((-16, 3) if full else (-8, 2))))
    wide, views = {}, {}
    for depth in (2, 5):
        found = sweep(
            net(*[40] * depth), data, {rate: {"lr": rate} for rate in rates},
            {name: {"optimizer": name} for name in ("sgd", "adam")},
            axis="learning rate", seeds=5 if full else 2, epochs=40, batch=50, log=True, **PLAIN,
        )  # fmt: skip
        train = np.nan_to_num(found.mean("train"), nan=0.9)
        for name, errors in zip(found.lines, train, strict=True):
            # how many decades of rates bring the error half of the way from chance to the best that the rule reaches
            good = errors <= (0.9 + errors.min()) / 2
            wide[name, depth] = float(good.sum()) * math.log10(rates[1] / rates[0])
        views[depth] = found
    return Evidence(
        (
            Check("decades of good rates, Adam less descent, 2 layers", wide["adam", 2] - wide["sgd", 2], low=0.25),
            Check("decades of good rates, Adam less descent, 5 layers", wide["adam", 5] - wide["sgd", 5], low=0.25),
        ),
        views[5],
    )


@claim(
    "bn-batch-size",
    "Batch normalisation works best with minibatches of 50 to 100: tiny ones drown the signal, large ones regularise "
    "less",
    "Notes after Dive into Deep Learning, section 8",
    on_record=FAILS,
)
def bn_batch_size(full: bool) -> Evidence:
    rows, sizes = (4000, (5, 20, 50, 75, 100, 250, 1000)) if full else (400, (5, 20, 75, 400))
    data = digits(rows, 2000)
    found = sweep(
        net(100, 100, norm="batch"), data, {float(size): {"batch": size} for size in sizes},
        axis="batch size", seeds=5 if full else 3, epochs=60 if full else 20, lr=0.003, optimizer="adam", log=True,
        **PLAIN,
    )  # fmt: skip
    mean, error, place = found.mean()[0], found.error()[0], {size: k for k, size in enumerate(sizes)}
    worse = lambda size: float(  # noqa: E731
        (mean[place[size]] - mean[place[75]]) / math.hypot(error[place[size]], error[place[75]])
    )
    return Evidence(
        (
            Check("error with batches of 5 less that with 75, in standard errors", worse(5), low=2),
            Check("error with batches of 20 less that with 75, in standard errors", worse(20), low=2),
            Check("error with the largest batch less that with 75, in standard errors", worse(sizes[-1]), low=2),
        ),
        found,
    )


@claim(
    "l2-little-effect",
    "An L2 penalty contributes little to generalisation",
    "Understanding Deep Learning, notes on regularisation; Zhang et al. 2017",
)
def l2_little_effect(full: bool) -> Evidence:
    data = digits(2000 if full else 500, 2000)
    decays = (1e-4, 3e-4, 1e-3, 3e-3, 1e-2) if full else (1e-4, 1e-3, 1e-2)
    settings = {name: value for name, value in PLAIN.items() if name != "weight_decay"}
    found = sweep(
        net(100, 100), data, {decay: {"weight_decay": decay} for decay in (0.0, *decays)},
        axis="L2 penalty", seeds=5 if full else 3, epochs=100 if full else 60, batch=25, lr=0.1, optimizer="sgd",
        **settings,
    )  # fmt: skip
    none, *test = found.mean()[0].tolist()
    view = Curves(
        "With a penalty and without", "L2 penalty", "test error", {"with a penalty": (decays, tuple(test))},
        {"without": (decays, (none,) * len(decays))}, log="x",
    )  # fmt: skip
    gain = 1 - min(none, *test) / none
    check = Check("part of the test error that the best penalty takes away", gain, high=0.05)
    return Evidence((check,), view)


def _net(width: int) -> MLP:
    return net(width, width)


def _first_less_last(found: Sweep) -> float:
    """Test error at the first point less that at the last, means over lines, in standard errors over seeds."""
    means = found.test.mean(0)[[0, -1]]  # (2, seeds)
    return float((means[0] - means[1]).mean() / math.sqrt((means.var(1, ddof=1) / means.shape[1]).sum()))
