"""Student's t: y is real, and far misses are not rare: tails like |y|^-(ν + 1).

    p(z) = Γ((ν + 1)/2) / (Γ(ν/2) √(πν)) · (1 + z²/ν)^-(ν + 1)/2,   z = (y - μ)/σ       (1)
    fixed    ν = df                                                                     (2)
    learned  ν = 1 + positive(PACE · η)   above 1, so that there is a mean              (3)
    loss = (ν + 1)/2 · log(1 + z²/ν) + log σ + log normaliser                           (4)

ν = 1 is Cauchy's density, ν → ∞ the normal one; a variance needs ν > 2. μ and σ come from the output as in
location_scale.py. A prediction's `mean` is μ for every ν, the median too.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor
from torch.distributions import StudentT as TorchStudentT

from leadline.likelihoods.continuous import ContinuousPrediction
from leadline.likelihoods.links import PACE, before_positive, learned, positive
from leadline.likelihoods.location_scale import LocationScale
from leadline.likelihoods.special import beta_below, beta_quantile, rest
from leadline.settings import real

_NORMAL = 1e6  # degrees of freedom from which its functions are those of the normal law in float32


class StudentT(LocationScale):
    """Args:
        variance: "fixed", "learned" (one for all rows) or "input" (the network predicts one for each row): of σ.
        sigma: σ of "fixed", and where "learned" begins, in units of the target's deviation; above 0.
        df: degrees of freedom ν, or where learning begins; above 0, and above 1 to be learned.
        learn_df: whether ν is learned.
        dim: number of real outputs, at least 1.
        shift, scale: one per output.
        names: of several outputs, for their metrics; 1, 2 … where they are left out.

    >>> float(StudentT("fixed", df=1.0, learn_df=False).loss(torch.zeros(1, 1), torch.zeros(1)))  # log π
    1.1447298526763916
    """

    def __init__(
        self,
        variance: str = "learned",
        sigma: float = 1.0,
        df: float = 5.0,
        learn_df: bool = True,
        dim: int = 1,
        shift: tuple[float, ...] = (0.0,),
        scale: tuple[float, ...] = (1.0,),
        names: tuple[str, ...] = (),
    ):
        super().__init__(variance, sigma, dim, shift, scale, names)
        self.df, self.learn_df = real("df", df, 1 if learn_df else 0, above=True, usual=5.0), learn_df
        if learn_df:
            self.eta = learned(before_positive(df - 1))

    def freedom(self) -> Tensor:
        """ν, of the parameters' own type."""
        if self.learn_df:
            return 1 + positive(PACE * self.eta[0])  # eq. 3
        return torch.full_like(self._scale[0], self.df)  # eq. 2

    def standard_loss(self, z: Tensor) -> Tensor:
        return surprise(z, self.freedom())

    def distribution(self, output: Tensor) -> StudentTDistribution:
        mu, sigma = self.of_y(output)
        return StudentTDistribution(self.freedom().clamp(max=_NORMAL), mu, sigma, validate_args=False)

    def prediction(self, output: Tensor) -> StudentTPrediction:
        return StudentTPrediction(self.distribution(output)).named(self.names)


def surprise(z: Tensor, nu: Tensor) -> Tensor:
    """Eq. 4 without log σ."""
    a = nu / 2
    # log Γ(a + ½) - log Γ(a) - ½ log a, the large terms taken off by hand (special.py, eq. 1)
    gammas = rest(a + 0.5) - rest(a) + (a + 0.5) * torch.log1p(0.5 / a) - 0.5
    return (a + 0.5) * torch.log1p(z.square() / nu) + 0.5 * math.log(2 * math.pi) - gammas


class StudentTDistribution(TorchStudentT):
    """torch's law, with a density that keeps its digits where ν is large, its distribution function and quantiles.

    With x = ν/(ν + z²):  P(|Z| > |z|) = I_x(ν/2, ½).
    """

    def log_prob(self, value: Tensor) -> Tensor:
        return -surprise((value - self.loc) / self.scale, self.df) - self.scale.log()

    def cdf(self, value: Tensor) -> Tensor:
        nu = self.df.detach().double()
        z = ((value - self.loc) / self.scale).double()
        half = beta_below(nu / 2, torch.full_like(nu, 0.5), torch.log(nu) - 2 * z.abs().log()) / 2
        return torch.where(z < 0, half, 1 - half).to(self.loc.dtype)

    def icdf(self, value: Tensor) -> Tensor:
        q = value.double()
        nu = self.df.detach().double()
        tail = 2 * torch.minimum(q, 1 - q)
        logit = beta_quantile(nu / 2, torch.full_like(nu, 0.5), tail).to(nu.device)
        z = torch.sign(q - 0.5) * (nu.log() / 2 - logit / 2).exp()
        return self.loc + self.scale * z.to(self.loc.dtype)


class StudentTPrediction(ContinuousPrediction):
    """A bell with heavy tails for each row."""

    distribution: StudentTDistribution

    @property
    def mean(self) -> Tensor:
        return self.distribution.loc
