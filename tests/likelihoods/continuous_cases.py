"""A member of each family of real, positive and bounded y, with what scipy and the twins say of the same numbers."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from scipy import stats
from torch.nn.functional import softplus

from leadline.likelihoods import (
    Beta,
    Exponential,
    Gamma,
    Huber,
    Laplace,
    LogNormal,
    MultivariateNormal,
    Normal,
    Quantile,
    Robust,
    StudentT,
)
from leadline.reference import densities as twin
from leadline.reference.likelihoods import normal_loss

UNIT = {"shift": (10.0,), "scale": (3.0,)}
ROWS = 12


@dataclass(frozen=True)
class Case:
    """A likelihood, the kind of its y, and functions of (likelihood, output) in float64.

    Args:
        law: frozen scipy.stats distribution with one parameter a row; None where scipy has none.
        twin: loss of one row by the reference, of (likelihood, one row of output, one y).
    """

    likelihood: Any
    kind: str
    law: Any = None
    twin: Any = None

    def draw(self, rows=ROWS, seed=0):
        """Outputs and values of y, in float64."""
        generator = torch.Generator().manual_seed(seed)
        output = torch.randn(rows, self.likelihood.dim_output, generator=generator, dtype=torch.float64)
        dim = getattr(self.likelihood, "dim", 1)
        y = torch.randn(rows, dim, generator=generator, dtype=torch.float64)
        y = {"real": 10 + 3 * y, "positive": (0.7 * y).exp(), "proportion": torch.sigmoid(y)}[self.kind]
        return output, y if dim > 1 else y.squeeze(1)


def centre(likelihood, output):
    mu, sigma = likelihood.parameters_of(output)
    return mu.squeeze(-1).detach().numpy(), sigma.squeeze(-1).detach().numpy()


def spread(likelihood, output, floor=1e-4):
    """σ by the docstrings' formulas, and not by the code's."""
    if likelihood.variance == "input":
        return (softplus(output[:, 1]) + floor).numpy()
    if likelihood.variance == "learned":
        return float(softplus(10 * likelihood.rho.detach()) + floor) * np.ones(len(output))
    return likelihood.sigma * np.ones(len(output))


def moved(likelihood, output):
    """μ and σ of a location-scale family by its formulas."""
    return 10 + 3 * output[:, 0].numpy(), 3 * spread(likelihood, output)


def mean_of(likelihood, output):
    """m of a positive family."""
    return likelihood.scale[0] * np.exp(output[:, 0].numpy())


def freedom(likelihood):
    return 1 + float(softplus(10 * likelihood.eta.detach()) + 1e-4) if likelihood.learn_df else likelihood.df


def robustness(likelihood):
    return (
        0.01 + 1.98 * float(torch.sigmoid(10 * likelihood.eta.detach())) if likelihood.learn_alpha else likelihood.alpha
    )


def shares(likelihood, output):
    c = spread(likelihood, output, 0.01) ** -2
    m = 1 / (1 + np.exp(-output[:, 0].numpy()))
    return c * m + 1e-4, c * (1 - m) + 1e-4


def knots(output):
    rises = torch.cat([output[:, :1], softplus(output[:, 1:]) + 1e-4], 1)
    return (10 + 3 * rises.cumsum(1)).numpy()


def row(function):
    """A law's parameters for a single row, as floats."""
    return lambda likelihood, output: [float(np.asarray(v).reshape(-1)[0]) for v in function(likelihood, output)]


def each(family, law, twin, kind="real", **options):
    unit = UNIT if kind == "real" else {"scale": (2.0,)} if kind == "positive" else {}
    return {
        f"{family.__name__} {variance} {' '.join(f'{k}={v}' for k, v in options.items())}".strip(): Case(
            family(variance, **options, **unit), kind, law, twin
        )
        for variance in ("fixed", "learned", "input")
    }


def student(**options):
    return each(
        StudentT,
        lambda like, out: stats.t(freedom(like), *moved(like, out)),
        lambda like, out, y: twin.student_t_loss(*row(moved)(like, out), freedom(like), y),
        **options,
    )


def robust(law=None, **options):
    return each(
        Robust,
        law,
        lambda like, out, y: twin.robust_loss(*row(moved)(like, out), robustness(like), y),
        **options,
    )


def covariance_of(likelihood, output):
    """Σ = S P^-1 P^-T S with P filled row by row."""
    raw = (output[0, likelihood.dim :] if likelihood.covariance == "input" else 10 * likelihood.factor.detach()).numpy()
    d = likelihood.dim
    P = np.diag(np.log1p(np.exp(raw[:d])) + 1e-4)
    P[np.tril_indices(d, -1)] = raw[d:]
    L = np.diag(likelihood._scale.numpy()) @ np.linalg.inv(P)
    return L @ L.T


def mean_vector(likelihood, output):
    return (likelihood._shift + likelihood._scale * output[0, : likelihood.dim]).tolist()


CASES: dict[str, Case] = {
    **each(
        Normal,
        lambda like, out: stats.norm(*moved(like, out)),
        lambda like, out, y: normal_loss(*row(moved)(like, out), y),
        sigma=0.7,
    ),
    **each(
        Laplace,
        lambda like, out: stats.laplace(*moved(like, out)),
        lambda like, out, y: twin.laplace_loss(*row(moved)(like, out), y),
        sigma=0.7,
    ),
    **student(sigma=0.7),
    **student(df=1.0, learn_df=False),
    **student(df=200.0, learn_df=False),
    **each(Huber, None, lambda like, out, y: twin.huber_loss(*row(moved)(like, out), like.delta, y), sigma=0.7),
    **robust(sigma=0.7),
    **robust(lambda like, out: stats.norm(*moved(like, out)), alpha=2.0, learn_alpha=False),
    **robust(
        lambda like, out: stats.cauchy(moved(like, out)[0], 2**0.5 * moved(like, out)[1]), alpha=0.0, learn_alpha=False
    ),
    **robust(alpha=0.5, learn_alpha=False),
    **each(
        Gamma,
        lambda like, out: stats.gamma(spread(like, out) ** -2, scale=mean_of(like, out) * spread(like, out) ** 2),
        lambda like, out, y: twin.gamma_loss(*row(lambda a, b: (mean_of(a, b), spread(a, b)))(like, out), y),
        kind="positive",
        sigma=0.7,
    ),
    **each(
        LogNormal,
        lambda like, out: stats.lognorm(spread(like, out), scale=mean_of(like, out)),
        lambda like, out, y: twin.log_normal_loss(*row(lambda a, b: (mean_of(a, b), spread(a, b)))(like, out), y),
        kind="positive",
        sigma=0.7,
    ),
    "Exponential": Case(
        Exponential(scale=(2.0,)),
        "positive",
        lambda like, out: stats.expon(scale=mean_of(like, out)),
        lambda like, out, y: twin.exponential_loss(float(mean_of(like, out)[0]), y),
    ),
    **each(
        Beta,
        lambda like, out: stats.beta(*shares(like, out)),
        lambda like, out, y: twin.beta_loss(*row(shares)(like, out), y),
        kind="proportion",
    ),
    **{
        f"Quantile {levels}": Case(
            Quantile(levels, **UNIT),
            "real",
            None,
            lambda like, out, y: (
                sum(twin.pinball_loss(level, q, y) / 3 for level, q in zip(like.levels, knots(out)[0], strict=True))
                / len(like.levels)
            ),
        )
        for levels in ((0.05, 0.25, 0.5, 0.75, 0.95), (0.1, 0.9), (0.9,))
    },
    **{
        f"MultivariateNormal {covariance}": Case(
            MultivariateNormal(covariance, 3, (10.0, -1.0, 0.0), (3.0, 0.5, 20.0)),
            "real",
            None,
            lambda like, out, y: twin.multivariate_normal_loss(mean_vector(like, out), covariance_of(like, out), y),
        )
        for covariance in ("learned", "input")
    },
}
