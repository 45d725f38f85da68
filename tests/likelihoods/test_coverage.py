"""Nine of ten: intervals of 90 % hold 90 % of y, family by family, after a quick fit to simulated data.

`pytest -s` shows the table.
"""

import pytest
import torch
from torch.distributions import Beta as BetaLaw
from torch.distributions import Exponential as ExponentialLaw
from torch.distributions import Gamma as GammaLaw
from torch.distributions import Laplace as LaplaceLaw
from torch.distributions import Poisson as PoissonLaw
from torch.distributions import StudentT as StudentTLaw
from torch.distributions import VonMises as VonMisesLaw

from leadline.likelihoods import (
    Beta,
    Exponential,
    Gamma,
    Huber,
    Joint,
    Laplace,
    LogNormal,
    Mixture,
    MultivariateNormal,
    NegativeBinomial,
    Normal,
    Ordinal,
    Poisson,
    Quantile,
    Robust,
    StudentT,
    VonMises,
)
from leadline.likelihoods.huber import HuberDistribution
from leadline.likelihoods.robust import RobustDistribution
from leadline.likelihoods.scores import pit, scores

ROWS = 10_000


def line(x):
    return 1 + 2 * x


def widths(x):
    return torch.exp(0.5 * x - 0.5)


def level(x):
    return torch.exp(1 + 0.7 * x)


def share(x):
    return torch.sigmoid(x)


def pair(x):
    z = torch.randn(len(x), 2)
    return torch.stack([line(x) + z[:, 0], -x + 0.8 * z[:, 0] + 0.3 * z[:, 1]], 1)


def steps(x):
    """A logistic variable around x, in 60 steps."""
    u = torch.rand(len(x)).clamp(1e-6, 1 - 1e-6)
    return ((2 * x + torch.log(u / (1 - u))) * 4 + 30).round().clamp(0, 59).long()


#: likelihood, and y drawn from a conditional law that the family can express, up to what a cubic in x leaves of a curve
CASES = {
    "Normal learned": (Normal("learned"), lambda x: line(x) + 0.7 * torch.randn(len(x))),
    "Normal input": (Normal("input"), lambda x: line(x) + widths(x) * torch.randn(len(x))),
    "Laplace learned": (Laplace("learned"), lambda x: LaplaceLaw(line(x), 0.7).sample()),
    "Laplace input": (Laplace("input"), lambda x: LaplaceLaw(line(x), widths(x)).sample()),
    "StudentT learned": (StudentT("learned"), lambda x: StudentTLaw(3.0, line(x), 0.7).sample()),
    "StudentT input": (StudentT("input"), lambda x: StudentTLaw(6.0, line(x), widths(x)).sample()),
    "Huber learned": (Huber("learned"), lambda x: HuberDistribution(line(x), torch.full_like(x, 0.7), 1.345).sample()),
    "Huber input": (Huber("input"), lambda x: HuberDistribution(line(x), widths(x), 1.345).sample()),
    "Robust learned": (
        Robust("learned"),
        lambda x: RobustDistribution(line(x), torch.full_like(x, 0.7), torch.tensor(0.5)).sample(),
    ),
    "Robust input": (Robust("input"), lambda x: RobustDistribution(line(x), widths(x), torch.tensor(1.5)).sample()),
    "Quantile": (Quantile(), lambda x: line(x) + widths(x) * torch.randn(len(x))),
    "MultivariateNormal learned": (MultivariateNormal("learned"), pair),
    "MultivariateNormal input": (MultivariateNormal("input"), lambda x: pair(x) * widths(x)[:, None]),
    "Gamma learned": (Gamma("learned"), lambda x: GammaLaw(4.0, 4.0 / level(x)).sample()),
    "Gamma input": (Gamma("input"), lambda x: GammaLaw(widths(x) ** -2, widths(x) ** -2 / level(x)).sample()),
    "LogNormal learned": (LogNormal("learned"), lambda x: level(x) * torch.exp(0.7 * torch.randn(len(x)))),
    "LogNormal input": (LogNormal("input"), lambda x: level(x) * torch.exp(widths(x) * torch.randn(len(x)))),
    "Exponential": (Exponential(), lambda x: ExponentialLaw(1 / level(x)).sample()),
    "Beta learned": (Beta("learned"), lambda x: BetaLaw(10 * share(x), 10 * share(-x)).sample()),
    "Beta input": (
        Beta("input"),
        lambda x: BetaLaw(widths(x) ** -2 * share(x) * 4, widths(x) ** -2 * share(-x) * 4).sample(),
    ),
    # whole numbers: the ends hold at least what is asked, and little more where a count is a small step
    "Poisson, counts near 80": (Poisson(), lambda x: PoissonLaw(30 * level(x)).sample()),
    "NegativeBinomial learned": (
        NegativeBinomial("learned"),
        lambda x: PoissonLaw(GammaLaw(4.0, 4.0 / (10 * level(x))).sample()).sample(),
    ),
    "NegativeBinomial input": (
        NegativeBinomial("input"),
        lambda x: PoissonLaw(GammaLaw(widths(x) ** -2, widths(x) ** -2 / (10 * level(x))).sample()).sample(),
    ),
    "VonMises learned": (VonMises("learned"), lambda x: VonMisesLaw(x, torch.tensor(4.0)).sample()),
    "VonMises input": (VonMises("input"), lambda x: VonMisesLaw(x, 1 / widths(x)).sample()),
    "Mixture of Normal": (
        Mixture(2),
        lambda x: torch.where(torch.rand(len(x)) < 0.5, 3 + line(x), -3 - x) + 0.5 * torch.randn(len(x)),
    ),
    "Ordinal, 60 classes": (Ordinal(60), steps),
    "Joint of three": (
        Joint(("Normal", "Gamma", "VonMises")),
        lambda x: torch.stack(
            [
                line(x) + torch.randn(len(x)),
                GammaLaw(4.0, 4.0 / level(x)).sample(),
                VonMisesLaw(x, torch.tensor(4.0)).sample(),
            ],
            1,
        ),
    ),
}
_TABLE: list[str] = []


def features(x):
    return torch.stack([torch.ones_like(x), x, x**2, x**3], 1)


def fitted(likelihood, x, y):
    """A map from a cubic in x to the outputs, by some steps of full-batch L-BFGS."""
    weight = (0.01 * torch.randn(4, likelihood.dim_output)).requires_grad_()  # an arrow of length 0 points nowhere
    leaves = [weight, *likelihood.parameters()]
    optimizer = torch.optim.LBFGS(leaves, max_iter=60, line_search_fn="strong_wolfe")

    def loss():
        optimizer.zero_grad()
        value = likelihood.loss(features(x) @ weight, y).mean()
        value.backward()
        return value

    optimizer.step(loss)
    return weight.detach()


@pytest.mark.parametrize("name", CASES)
def test_intervals_of_ninety_hold_ninety(name):
    likelihood, draw = CASES[name]
    torch.manual_seed(0)
    x, x_test = (torch.rand(rows) * 4 - 2 for rows in (4000, ROWS))
    y, y_test = draw(x), draw(x_test)
    weight = fitted(likelihood, x, y)
    with torch.no_grad():
        prediction = likelihood.prediction(features(x_test) @ weight)
        found = scores(prediction, y_test)
        uniform = pit(prediction, y_test)
    if not _TABLE:
        print(f"\n{'family':<28}{'coverage':>9}{'width':>9}{'crps':>9}")
    _TABLE.append(name)
    print(f"{name:<28}{100 * found['coverage']:8.2f}%{found['sharpness']:9.3f}{found['crps']:9.3f}")
    assert 0.88 <= found["coverage"] <= 0.92
    # the whole distribution, not its ends alone: deciles hold a tenth each
    tenths = torch.histc(uniform.double(), 10, 0, 1) / uniform.numel()
    assert float((tenths - 0.1).abs().max()) < (0.035 if name == "Quantile" else 0.02)
