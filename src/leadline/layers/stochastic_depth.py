"""Stochastic depth: whole residual branches are left out while training (Huang et al., 2016).

    y    = x + b f(x),   b ~ Bernoulli(p)                   while training        (1)
    y    = x + p f(x)                                       otherwise             (2)
    p_l  = 1 - (l / L) (1 - p_L)                            block l of L          (3)

Early blocks are nearly always there, the last one with probability p_L: a step trains a network of L - Σ (1 - p_l)
blocks, three quarters of L where p_L = ½. An example's b is a pure function of (seed, epoch, example, block), so
batch mates may go through other depths.

Notation   p_l -> p_keep,  p_L -> p_last,  L -> the number of units
Paper      one b for a whole mini-batch there, whose branches are then not computed; one for each example here
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from leadline.errors import UserError
from leadline.layers import noise
from leadline.settings import real


class DropBranch(nn.Module):
    """The last part of a branch f: hands on b f, or p f in evaluation (1, 2).

    Args:
        p_keep: probability p that an example takes the branch, 0 < p_keep <= 1.
        site: tells this layer's noise from that of other layers.

    Shapes     (B, ...) -> (B, ...)

    >>> DropBranch(0.75).eval()(torch.ones(1, 2)).tolist()
    [[0.75, 0.75]]
    """

    draws_noise = True

    def __init__(self, p_keep: float, site: int = 0):
        super().__init__()
        self.p_keep, self.site = probability("p_keep", p_keep), site

    def forward(self, h: Tensor) -> Tensor:
        if self.p_keep == 1:
            return h
        if not self.training:
            return self.p_keep * h  # eq. 2
        keys, shape = noise.current.keys, (1,) * (h.dim() - 1)
        u = torch.rand(len(h), *shape, device=h.device) if keys is None else noise.uniform(keys, shape, self.site)
        return h * (u < self.p_keep).to(h.dtype)  # eq. 1

    def extra_repr(self) -> str:
        return f"p_keep={self.p_keep}"


def linear_decay(num_blocks: int, p_last: float) -> list[float]:
    """p_1 … p_L of (3).

    >>> linear_decay(4, 0.5)
    [0.875, 0.75, 0.625, 0.5]
    """
    p_last = probability("p_last", p_last)
    return [1 - (block / num_blocks) * (1 - p_last) for block in range(1, num_blocks + 1)]


def drop_branches(units: Sequence[nn.Module], p_last: float = 0.5) -> None:
    """Let each of `units`, in the order of depth, drop its branch with the probability of (3).

    A unit computes skip(x) + branch(x), and its `branch` is an nn.Sequential, to which a `DropBranch` is appended; the
    names of its weights stay.

    >>> from leadline.layers.residual_units import PlainUnit
    >>> units = [PlainUnit(4, 4), PlainUnit(4, 4)]
    >>> drop_branches(units)
    >>> [unit.branch[-1] for unit in units]
    [DropBranch(p_keep=0.75), DropBranch(p_keep=0.5)]
    """
    for place, (unit, p_keep) in enumerate(zip(units, linear_decay(len(units), p_last), strict=True), 1):
        branch = dict(unit.named_children()).get("branch")
        if not isinstance(branch, nn.Sequential):
            raise UserError(
                "drop_branches needs units with a branch that is an nn.Sequential",
                got=f"{type(unit).__name__} at place {place}",
                do="End its branch in a DropBranch yourself",
            )
        branch.append(DropBranch(p_keep, site=place))


def probability(name: str, p: float) -> float:
    """`p` as a probability above 0, or the message that it is none.

    >>> probability("p_keep", 1)
    1.0
    """
    p = float(real(name, p, 0, above=True, usual=0.5))
    if p > 1:
        raise UserError(f"{name} must be a probability above 0", got=f"{name}={p:g}", do="Pass 1 to keep every branch")
    return p
