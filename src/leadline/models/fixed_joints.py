"""Shallow ReLU network with fixed joints: piecewise linear on equal pieces, and linear in its weights.

    output = β + Σ_i Σ_d ω_id ReLU[x_i - low - (d-1)/D (high-low)]        d = 1 … D        (1)

The inner weights are 1 and the joints stand at equal distances, so only β and ω learn: every continuous function of D
equal linear pieces on [low, high] is one of these, and `LeastSquares` finds the best in one pass. Where D exceeds the
number of points there are many exact fits; the smoothest bends least:

    roughness = Σ_{d>=2} ω_d²         ω_d is the change of slope at joint d                        (2)
    smoothest: least (2) among all that pass through the points                                    (3)
    others:    smoothest + anything in the null space of the points                                (4)

Notation   ω -> map.weight, column (i, d) at i · D + d - 1;  β -> map.bias;  D -> num_pieces
Textbook   inputs in [0, 1] there; "smoothest" is not defined there, (2) is ours. Several inputs are added up
Shapes     x (B, dim_input) -> (B, dim_output); further axes of x are flattened
Train it   leadline train quasi_sine --model FixedJoints --low -1.8 --high 1.8 --rule LeastSquares
           (the source standardizes x)
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from leadline.config import Configured
from leadline.errors import UserError
from leadline.models.sizes import check_sizes
from leadline.settings import real, whole


class FixedJoints(nn.Module, Configured):
    """Args:
        dim_input, dim_output: widths, at least 1.
        num_pieces: D, at least 1.
        low, high: ends of the pieces, low below high; beyond `high` the last piece goes on, below `low` all is flat.

    >>> model = FixedJoints.through_values([0.0, 1.0, 0.5])  # at 0, 1/2 and 1
    >>> model(torch.tensor([[0.25], [0.75]]).double()).flatten().tolist()
    [0.5, 0.75]
    """

    def __init__(
        self, dim_input: int = 1, num_pieces: int = 10, dim_output: int = 1, low: float = 0.0, high: float = 1.0
    ):
        super().__init__()
        check_sizes("FixedJoints", dim_input=dim_input, num_pieces=num_pieces, dim_output=dim_output)
        self.dim_input, self.num_pieces, self.dim_output = dim_input, num_pieces, dim_output
        self.low, self.high = real("low", low), real("high", high)
        if not self.low < self.high:
            raise UserError("low must be below high", got=f"low={low}, high={high}", do="Pass low=0.0, high=1.0")
        self.map = nn.Linear(dim_input * num_pieces, dim_output)

    @classmethod
    def tiny(cls) -> FixedJoints:
        return cls(3, 4, 2, -1.0, 1.0)

    @classmethod
    def through_values(cls, values: Sequence[float] | Tensor, low: float = 0.0, high: float = 1.0) -> FixedJoints:
        """The function of equal linear pieces that has these values at low, …, high; in float64."""
        v = torch.as_tensor(values, dtype=torch.float64)
        if v.ndim != 1 or len(v) < 2:
            raise UserError("values must be at least two numbers", got=f"shape {tuple(v.shape)}", do="Pass [0.0, 1.0]")
        model = cls(1, len(v) - 1, 1, low, high).double()
        slopes = v.diff() * (model.num_pieces / (model.high - model.low))
        return model._put(v[0], torch.cat([slopes[:1], slopes.diff()]))

    def features(self, x: Tensor) -> Tensor:
        """What the map reads: a ramp from each joint of each input, (B, dim_input · D)."""
        steps = torch.arange(self.num_pieces, dtype=x.dtype, device=x.device)
        joints = self.low + steps * ((self.high - self.low) / self.num_pieces)
        return (x.flatten(1)[:, :, None] - joints).relu().flatten(1)

    def forward(self, x: Tensor) -> Tensor:
        return self.map(self.features(x))  # eq. 1

    @property
    def roughness(self) -> float:
        """Eq. 2, over all inputs and outputs."""
        bends = self.map.weight.detach().view(self.dim_output, self.dim_input, self.num_pieces)[:, :, 1:]
        return float(bends.double().square().sum())

    @torch.no_grad()
    def _put(self, offset: Tensor, slopes: Tensor) -> FixedJoints:
        self.map.bias.fill_(float(offset))
        self.map.weight.copy_(slopes[None])
        return self


@torch.no_grad()
def smoothest(
    x: Tensor | Sequence[float],
    y: Tensor | Sequence[float],
    num_pieces: int = 50,
    *,
    low: float = 0.0,
    high: float = 1.0,
    wiggle: float = 0.0,
    seed: int = 0,
) -> FixedJoints:
    """The smoothest network through all points (3), or one of the others (4); in float64.

    Args:
        x, y: the points, no two x alike; all x in [low, high].
        num_pieces: D; enough of them that an exact fit exists, which D + 1 of at least the number of points makes
            likely.
        wiggle: size of what is added from the null space, as the root mean square of its change of the curve at the
            joints; 0 adds nothing.
        seed: of its direction.

    >>> model = smoothest([0.1, 0.5, 0.9], [0.0, 1.0, 0.0], 50)
    >>> other = smoothest([0.1, 0.5, 0.9], [0.0, 1.0, 0.0], 50, wiggle=1.0)
    >>> x = torch.tensor([[0.1], [0.5], [0.9]], dtype=torch.float64)
    >>> [abs(round(value, 6)) for value in other(x).flatten().tolist()]
    [0.0, 1.0, 0.0]
    >>> other.roughness > model.roughness
    True
    """
    u, v = (torch.as_tensor(part, dtype=torch.float64).flatten() for part in (x, y))
    model = FixedJoints(1, whole("num_pieces", num_pieces), 1, low, high).double()
    if len(u) != len(v) or not len(u) or not bool(((u >= model.low) & (u <= model.high)).all()):
        raise UserError(
            "x and y must be as many numbers, every x between low and high",
            got=f"{len(u)} x and {len(v)} y" + (f", x from {float(u.min()):g} to {float(u.max()):g}" if len(u) else ""),
            do=f"Leave out points beyond {model.low:g} and {model.high:g}, or pass low= and high=",
        )
    rows = torch.cat([torch.ones(len(u), 1).double(), model.features(u[:, None])], dim=1)  # (points, D + 1)
    some = torch.linalg.lstsq(rows, v[:, None], driver="gelsd").solution[:, 0]
    missed = float((rows @ some - v).abs().max())
    if missed > 1e-8 * max(1.0, float(v.abs().max())):
        raise UserError(
            "the pieces must be enough to pass through all points",
            got=f"num_pieces={num_pieces} for {len(u)} points, which miss by {missed:.3g} at best",
            do=f"Pass num_pieces={2 * max(num_pieces, len(u))}",
        )
    _, size, turned = torch.linalg.svd(rows, full_matrices=True)
    rank = int((size > 1e-10 * size[0]).sum())
    free = turned[rank:].T  # (D + 1, free)
    if free.shape[1]:
        bends = free[2:]  # neither β nor the first slope is a bend
        some = some - free @ torch.linalg.lstsq(bends, some[2:, None], driver="gelsd").solution[:, 0]  # eq. 3
        if real("wiggle", wiggle, 0):
            ends = torch.linspace(model.low, model.high, model.num_pieces + 1, dtype=torch.float64)
            at = torch.cat([torch.ones(len(ends), 1).double(), model.features(ends[:, None])], dim=1)
            basis, sizes, _ = torch.linalg.svd(at @ free, full_matrices=False)
            draw = torch.randn(len(sizes), generator=torch.Generator().manual_seed(whole("seed", seed, 0))).double()
            change = basis @ draw * (wiggle * len(ends) ** 0.5 / draw.norm())
            some = some + free @ torch.linalg.lstsq(at @ free, change[:, None], driver="gelsd").solution[:, 0]  # eq. 4
    return model._put(some[0], some[1:])
