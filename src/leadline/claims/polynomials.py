"""Order of a polynomial, or width of its prior: what helps on the rows, and what helps beyond them.

With n fixed places x, H_λ = X (XᵀX + λ)⁻¹ Xᵀ and targets f + σ ε the error to the truth has the expectation

    E |H y - f|² / n = |(H_λ - 1) f|² / n + σ² tr(H_λ²) / n        (1)   bias and variance

which is σ² p / n for a polynomial of p weights that holds the truth and has no prior. Bands are four standard errors
of (1): the measured mean is that of many draws of ε.
"""

from __future__ import annotations

from itertools import pairwise

import torch
from torch import Tensor

from leadline.claims.claim import Check, Evidence, claim
from leadline.claims.curves import Curves
from leadline.data.data import Batch
from leadline.likelihoods import Normal
from leadline.models import Polynomial
from leadline.optim import LeastSquares

_NUM, _SIGMA, _TRUE = 30, 1.0, 3


def _draws(count: int) -> tuple[Tensor, Tensor, Tensor]:
    """Standardized places, the cubic there, and `count` columns of it with noise."""
    g = torch.Generator().manual_seed(0)
    place = torch.rand(_NUM, 1, generator=g, dtype=torch.float64) * 4 - 2
    truth = place**3 - 2 * place
    x = (place - place.mean()) / place.std(unbiased=False)
    return x, truth, truth + _SIGMA * torch.randn(_NUM, count, generator=g, dtype=torch.float64)


def _fitted(x: Tensor, y: Tensor, degree: int, ridge: float = 0.0) -> tuple[Tensor, Tensor]:
    """What the polynomial says at x for each column of y, all solved at once; and what its map reads."""
    model, rule = Polynomial(1, degree, y.shape[1]).double(), LeastSquares(ridge)
    rule.bind(model, Normal("fixed", dim=y.shape[1]).double(), 1)
    rule.step(Batch(x, y), 0)
    with torch.no_grad():
        return model(x), model.features(x)


@claim(
    "polynomial-order",
    "The training error falls with the order of a polynomial; the error beyond the rows turns up past the true order",
    "Slides on deep learning basics, choice of the order; Understanding Deep Learning, section 2.2.4",
)
def polynomial_order(full: bool) -> Evidence:
    orders, draws = tuple(range(1, 13)), 2000 if full else 300
    with torch.random.fork_rng():
        x, truth, y = _draws(draws)
        said = [_fitted(x, y, order)[0] for order in orders]
    training = [float((f - y).square().mean()) for f in said]
    beyond = [(f - truth).square().mean(0) for f in said]  # the error on new rows at the same places, less σ²
    means = [float(e.mean()) for e in beyond]
    expected = [_SIGMA**2 * (order + 1) / _NUM for order in orders]
    xs = tuple(map(float, orders))
    view = Curves(
        "Order of a polynomial", "order", "mean squared error",
        {"on the training rows": (xs, tuple(training)), "to the truth": (xs, tuple(means))},
        {"σ² p / n": (xs, tuple(expected))}, marks={"the true order": _TRUE}, log="y",
    )  # fmt: skip
    # |P ε|² is χ² of p degrees: variance 2 p σ⁴ / n² a draw
    noise = 4 * _SIGMA**2 * (2 * (orders[-1] + 1) / draws) ** 0.5 / _NUM
    return Evidence(
        (
            # a polynomial holds all of lower order
            Check(
                "largest rise of the training error with an order",
                max(b - a for a, b in pairwise(training)),
                high=0,
            ),
            Check("order with the least error to the truth", orders[means.index(min(means))], _TRUE, _TRUE),
            Check("error to the truth at order 12", means[-1], expected[-1] - noise, expected[-1] + noise),
        ),
        view,
    )


@claim(
    "prior-width",
    "A polynomial of too high an order is mended by a normal prior of its weights: ridge = σ²/σ0²",
    "Slides on deep learning basics, bias-variance decomposition",
)
def prior_width(full: bool) -> Evidence:
    degree, draws = 12, 2000 if full else 300
    widths = tuple(float(w) for w in torch.logspace(-2, 2, 33 if full else 17, dtype=torch.float64))
    with torch.random.fork_rng():
        x, truth, y = _draws(draws)
        free, features = _fitted(x, y, degree)
        centred, f = features - features.mean(0), truth - truth.mean()
        measured, expected, noise = [], [], []
        for width in widths:
            ridge = _SIGMA**2 / width**2
            said, _ = _fitted(x, y, degree, ridge)
            errors = (said - truth).square().mean(0)
            hat = centred @ torch.linalg.solve(centred.T @ centred + ridge * torch.eye(degree).double(), centred.T)
            # eq. 1; the offset has no prior, and adds its own σ²/n
            bias, variance = (hat @ f - f).square().sum() / _NUM, _SIGMA**2 * (hat.square().sum() + 1) / _NUM
            measured.append(float(errors.mean()))
            expected.append(float(bias + variance))
            noise.append(float(errors.std()) / draws**0.5)
    without = float((free - truth).square().mean())
    off = max(abs(m - e) / s for m, e, s in zip(measured, expected, noise, strict=True))
    view = Curves(
        "Width of the prior, order 12", "σ0, the prior's deviation", "mean squared error to the truth",
        {"measured": (widths, tuple(measured)), "without a prior": ((widths[0], widths[-1]), (without,) * 2)},
        {"bias² + variance": (widths, tuple(expected))}, log="x",
    )  # fmt: skip
    best = min(expected) / (_SIGMA**2 * (degree + 1) / _NUM)
    slack = 4 * (2 / (draws * (degree + 1))) ** 0.5  # four standard errors of the error without a prior
    return Evidence(
        (
            Check("largest distance from bias² + variance, in standard errors", off, high=4),
            Check("least error with a prior over the error without", min(measured) / without, high=best * (1 + slack)),
        ),
        view,
    )


@claim(
    "polynomials-approximate",
    "Polynomials come as near to a continuous function as one likes, even to one with a corner",
    "Weierstrass 1885; lecture notes on universal approximation",
)
def polynomials_approximate(full: bool) -> Evidence:
    degrees = (2, 4, 6, 8, 10, 12, 14, 16) if full else (2, 4, 8, 12)
    # places that crowd at the ends: least squares there gives the Chebyshev series, cut after the degree
    num = 20_001
    angle = (torch.arange(num, dtype=torch.float64) + 0.5) * torch.pi / num
    x = angle.cos()[:, None]
    with torch.random.fork_rng():
        errors = [float((_fitted(2**0.5 * x, x.abs(), degree)[0] - x.abs()).abs().max()) for degree in degrees]
    # |x| = 2/π - 4/π Σ (-1)^k T_2k / (4k² - 1), so what is cut off adds up to 2/π(degree + 1), at the corner
    expected = tuple(2 / (torch.pi * (degree + 1)) for degree in degrees)
    xs = tuple(map(float, degrees))
    view = Curves(
        "Polynomials near |x|", "degree", "largest error on [-1, 1]", {"measured": (xs, tuple(errors))},
        {"2 / π(degree + 1)": (xs, expected)}, log="xy",
    )  # fmt: skip
    off = max(abs(a / b - 1) for a, b in zip(errors, expected, strict=True))
    # x = 0 is one of the places; what so many of them miss of the series is of the order of 1 / places²
    return Evidence((Check("largest distance from the law, as a part of it", off, high=1e-4),), view)
