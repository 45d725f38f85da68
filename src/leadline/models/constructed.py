"""Networks whose weights are computed, not trained: they show what a few ReLU units can do.

    interpolant   y = y_1 + Σ_d (m_d - m_{d-1}) ReLU[x - x_d],  m_d the slope from point d to d + 1,  m_0 = 0     (1)
    identity      y = low + ReLU[x - low]                                     y = x from `low` on                 (2)
    sawtooth      D >= 3 units, D + 1 pieces that run 0, 1, 0, 1 … over [0, 1]                                    (3)
                  joints 1/2D, 1/D, 2/D … (D-1)/D;  φ = 4, -4D, 3D, -2D, 2D, -2D …;  unit 3 looks left
    folding       a sawtooth for each input: pieces^inputs boxes, all laid over one another                       (4)
    orthants      unit d = ReLU[x_d]: all 2^inputs signs of the inputs are told apart                             (5)
    narrow        a shallow network on its side: layer k holds x - low, unit k and the two halves of the sum      (6)

Why (3) needs three units: a unit changes the slope by the same amount whichever way it looks, and the first slope m is
minus the sum of the changes of those that look left. A full oscillation changes its slope by -(m + n) at its first
joint and by n + k at its second, with m, n, k > 0: with fewer than three joints no choice of changes adds up to -m.

In (6) each layer adds one unit of the shallow network to the sum: D units become D layers of D_i + 2 D_o + 1 units. So
depth does at a fixed width what width does in one layer.

They are in float64, in which the joints lie where they should to 16 digits.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from leadline.errors import ShapeError, UserError
from leadline.models.chain import chain
from leadline.models.mlp import MLP
from leadline.models.shallow import Shallow
from leadline.models.sizes import check_sizes
from leadline.settings import real


@torch.no_grad()
def interpolant(x: Sequence[float] | Tensor, y: Sequence[float] | Tensor) -> Shallow:
    """The 1-D-1 ReLU network through n points, D = n - 1 (1): flat before the first, and straight on after the last.

    >>> net = interpolant([0.0, 1.0, 3.0], [5.0, 2.0, 2.0])
    >>> net(torch.tensor([[-1.0], [0.0], [0.5], [2.0]]).double()).flatten().tolist()
    [5.0, 5.0, 3.5, 2.0]
    """
    at, height = (torch.as_tensor(v, dtype=torch.float64).detach().cpu() for v in (x, y))
    if at.dim() != 1 or at.shape != height.shape or len(at) < 2:
        raise ShapeError(
            "x and y must be two lists of equal length, of at least 2 points",
            got=f"shapes {tuple(at.shape)} and {tuple(height.shape)}",
            do="Pass one y for each x",
        )
    order = at.argsort()
    at, height = at[order], height[order]
    gaps = at.diff()
    if not bool((at.isfinite() & height.isfinite()).all()) or not bool((gaps > 0).all()):
        raise UserError("points must be finite, and no two may share an x", got=f"x={at.tolist()[:8]}", do="Merge them")
    slopes = height.diff() / gaps
    net = _blank(1, len(slopes), 1)
    net.inner.weight.fill_(1.0)
    net.inner.bias.copy_(-at[:-1])
    net.outer.weight.copy_(torch.cat([slopes[:1], slopes.diff()])[None])
    net.outer.bias.copy_(height[:1])
    return net


def identity(low: float, high: float) -> Shallow:
    """The 1-3-1 ReLU network with y = x on [low, high] (2); it goes on beyond `high`, and is flat before `low`.

    >>> identity(-2.0, 5.0)(torch.tensor([[-3.0], [-1.5], [4.0]]).double()).flatten().tolist()
    [-2.0, -1.5, 4.0]
    """
    low, high = real("low", low), real("high", high)
    if not low < high:
        raise UserError("low must lie below high", got=f"low={low}, high={high}", do="Swap them")
    net = _blank(1, 3, 1)
    net.set(theta10=-low, theta11=1.0, phi0=low, phi1=1.0)
    return net


@torch.no_grad()
def sawtooth(num_units: int = 3) -> Shallow:
    """The 1-D-1 ReLU network with D + 1 full teeth on [0, 1] (3). Composed K times with itself it has (D + 1)^K.

    >>> net = sawtooth(3)
    >>> net(torch.tensor([[0.0], [1 / 6], [2 / 6], [4 / 6], [1.0]]).double()).flatten().round().abs().tolist()
    [0.0, 1.0, 0.0, 1.0, 0.0]
    """
    check_sizes("sawtooth", num_units=num_units)
    D = num_units
    if D < 3:
        raise UserError(
            "a full oscillation needs at least 3 units",
            got=f"num_units={D}: no weights give {D + 1} pieces that all run from 0 to 1",
            do="Pass num_units=3",
        )
    joints = torch.tensor([1 / (2 * D), *[k / D for k in range(1, D)]], dtype=torch.float64)
    looks = torch.ones(D, dtype=torch.float64)
    looks[2] = -1.0
    bends = [-4 * D, 3 * D, *[2 * D * (-1) ** k for k in range(1, D - 1)]]
    net = _blank(1, D, 1)
    net.inner.weight.copy_(looks[:, None])
    net.inner.bias.copy_(-looks * joints)
    net.outer.weight.copy_(torch.tensor([bends], dtype=torch.float64))
    net.outer.bias.fill_(4.0)
    return net


@torch.no_grad()
def folding(dim_input: int, units_per_input: int = 3) -> Shallow:
    """The network that folds [0, 1]^D_i onto itself, units_per_input + 1 times along each axis (4).

    >>> net = folding(2, 3)
    >>> net(torch.tensor([[1 / 6, 1 / 3]]).double()).round(decimals=6).abs().tolist()
    [[1.0, 0.0]]
    """
    check_sizes("folding", dim_input=dim_input, units_per_input=units_per_input)
    one = sawtooth(units_per_input)
    net = _blank(dim_input, dim_input * units_per_input, dim_input)
    net.inner.weight.copy_(torch.block_diag(*[one.inner.weight] * dim_input))
    net.inner.bias.copy_(one.inner.bias.repeat(dim_input))
    net.outer.weight.copy_(torch.block_diag(*[one.outer.weight] * dim_input))
    net.outer.bias.fill_(4.0)
    return net


@torch.no_grad()
def orthants(dim_input: int) -> Shallow:
    """D_i units whose hyperplanes lie across the axes (5); the output is the sum of the positive inputs.

    >>> orthants(2)(torch.tensor([[3.0, -1.0]]).double()).tolist()
    [[3.0]]
    """
    check_sizes("orthants", dim_input=dim_input)
    net = _blank(dim_input, dim_input, 1)
    net.inner.weight.copy_(torch.eye(dim_input))
    net.outer.weight.fill_(1.0)
    return net


@torch.no_grad()
def narrow(net: Shallow, low: float) -> MLP:
    """The function of a shallow ReLU network, where no input lies below `low`, as a deep and narrow network (6).

    >>> through = interpolant([0.0, 1.0, 3.0], [5.0, 2.0, 2.0])
    >>> narrow(through, low=0.0).hidden, narrow(through, low=0.0)(torch.tensor([[0.5]]).double()).item()
    ((4, 4), 3.5)
    """
    if not isinstance(net, Shallow) or net.activation != "relu":
        raise UserError(
            "narrow needs a shallow ReLU network",
            got=f"a {type(net).__name__}" + (f" of {net.activation}" if isinstance(net, Shallow) else ""),
            do='Pass Shallow(…, activation="relu")',
        )
    n, D, o, low = net.dim_input, net.num_units, net.dim_output, real("low", low)
    theta, theta_0, phi, phi_0 = (
        p.double() for p in (net.inner.weight, net.inner.bias, net.outer.weight, net.outer.bias)
    )
    with torch.random.fork_rng(devices=[]):
        made = MLP(n, (n + 1 + 2 * o,) * D, o, activation="relu", p_drop=0.0).double()
    for parameter in made.parameters():
        parameter.zero_()
    up, down = slice(n + 1, n + 1 + o), slice(n + 1 + o, None)  # where the halves of the sum stand
    for k, map_ in enumerate(chain(made).maps[:-1]):
        W, b = map_.weight, map_.bias
        W[:n, :n], W[n, :n] = torch.eye(n), theta[k]
        b[:n] = 0.0 if k else -low  # later layers read x - low
        b[n] = theta_0[k] + (theta[k].sum() * low if k else 0.0)
        if k == 0:
            b[up], b[down] = phi_0, -phi_0
            continue
        for rows, sign in ((up, 1.0), (down, -1.0)):
            W[rows, up], W[rows, down] = sign * torch.eye(o), -sign * torch.eye(o)
            W[rows, n] = sign * phi[:, k - 1]
    made.head.weight[:, n] = phi[:, -1]
    made.head.weight[:, up], made.head.weight[:, down] = torch.eye(o), -torch.eye(o)
    return made


@torch.no_grad()
def _blank(dim_input: int, num_units: int, dim_output: int) -> Shallow:
    """A ReLU network in float64 with all parameters 0; torch's random state stays where it was."""
    with torch.random.fork_rng(devices=[]):
        net = Shallow(dim_input, num_units, dim_output, activation="relu").double()
    for parameter in net.parameters():
        parameter.zero_()
    return net
