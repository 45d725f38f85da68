"""Gradient descent as steps, as a flow, and as the flow that the steps really follow.

    flow       dφ/dt = -∇L                                                                        (1)
    steps      φ <- φ - α ∇L                                                                      (2)   time α a step
    modified   L̃ = L + (α/4) |∇L|²                                                                (3)   for full batches
               L̃ = L + (α/4) |∇L|² + (α/4B) Σ_b |∇L_b - ∇L|²,   L = (1/B) Σ_b L_b                 (4)   for B batches

A step (2) leaves the flow (1) by O(α²) and the flow of (3) by O(α³): discrete descent follows a loss that shuns steep
places. The mean over the orders of an epoch's B batches follows the flow of (4) for a time B α, to the same order. At a
minimum of L the term of (3) is 0, so that it stays where it is; the term of (4) shuns places where batches disagree,
and is 0 where a model fits all of them exactly (Barrett and Dherin, 2021; Smith et al., 2021).

Notation   φ -> a vector, any length;  L, L_b -> functions of it that torch can differentiate;  α -> rate
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import Tensor
from torch.func import grad

from leadline.errors import UserError
from leadline.settings import given, real, whole

Loss = Callable[[Tensor], Tensor]


def flow(loss: Loss, start: Tensor | Sequence[float], time: float, steps: int = 100) -> Tensor:
    """The way that (1) takes, (steps + 1, P), by Runge and Kutta's method of order 4; in float64.

    Args:
        loss: a function of φ that gives one number.
        start: φ at time 0.
        time: how long, above 0.
        steps: of the method, at least 1; its error falls with their fourth power.

    >>> way = flow(lambda phi: phi.square().sum() / 2, [1.0, -2.0], time=1.0)
    >>> [round(value, 9) for value in way[-1].tolist()]  # e^-1 of the start
    [0.367879441, -0.735758882]
    """
    slope, phi = grad(loss), _vector(start)
    h = real("time", time, 0, above=True, usual=1.0) / whole("steps", steps, usual=100)
    way = [phi]
    for _ in range(steps):
        k1 = -slope(phi)
        k2 = -slope(phi + h / 2 * k1)
        k3 = -slope(phi + h / 2 * k2)
        k4 = -slope(phi + h * k3)
        phi = phi + h / 6 * (k1 + 2 * k2 + 2 * k3 + k4)
        way.append(phi)
    return torch.stack(way)


def descend(loss: Loss | Sequence[Loss], start: Tensor | Sequence[float], rate: float, steps: int) -> Tensor:
    """Plain gradient descent (2), (steps + 1, P), in float64; of several losses each step takes the next in turn.

    >>> descend(lambda phi: phi.square().sum() / 2, [1.0], rate=0.5, steps=3).flatten().tolist()
    [1.0, 0.5, 0.25, 0.125]
    """
    slopes = [grad(one) for one in (loss if isinstance(loss, Sequence) else [loss])]
    way = [_vector(start)]
    for k in range(whole("steps", steps, 0)):
        way.append(way[-1] - real("rate", rate, 0, above=True) * slopes[k % len(slopes)](way[-1]))
    return torch.stack(way)


def gradient_term(loss: Loss) -> Loss:
    """|∇L|², the term of (3) without its α/4.

    >>> gradient_term(lambda phi: phi.square().sum() / 2)(torch.tensor([3.0, 4.0])).item()
    25.0
    """
    return lambda phi: grad(loss)(phi).square().sum()


def batch_term(losses: Sequence[Loss]) -> Loss:
    """(1/B) Σ_b |∇L_b - ∇L|², the term of (4) without its α/4: how much the batches disagree.

    >>> a, b = (lambda phi: phi.sum()), (lambda phi: 3 * phi.sum())
    >>> batch_term([a, b])(torch.zeros(1)).item()
    1.0
    """

    def term(phi: Tensor) -> Tensor:
        slopes = torch.stack([grad(one)(phi) for one in losses])
        return (slopes - slopes.mean(0)).square().sum() / len(losses)

    return term


def modified(loss: Loss | Sequence[Loss], rate: float) -> Loss:
    """The loss whose flow passes through the steps of `loss`: (3) of one loss, (4) of a list of batch losses.

    >>> bent = modified(lambda phi: phi.square().sum() / 2, rate=0.4)
    >>> round(bent(torch.tensor([1.0])).item(), 6)  # 1/2 + 0.1
    0.6
    """
    rate = real("rate", rate, 0, usual=0.1)
    if not isinstance(loss, Sequence):
        return lambda phi: loss(phi) + rate / 4 * gradient_term(loss)(phi)  # eq. 3
    losses = loss
    if not losses:
        raise UserError("modified needs at least one loss", got="an empty list", do="Pass a function of the weights")

    def mean(phi: Tensor) -> Tensor:
        return torch.stack([one(phi) for one in losses]).mean()

    apart = batch_term(losses)
    return lambda phi: mean(phi) + rate / 4 * (gradient_term(mean)(phi) + apart(phi))  # eq. 4


def _vector(start: Tensor | Sequence[float]) -> Tensor:
    phi = torch.as_tensor(start, dtype=torch.float64).detach().clone()
    if phi.ndim != 1 or not bool(phi.isfinite().all()):
        raise UserError("start must be a vector of finite numbers", got=given("start", start), do="Pass [0.0, 1.0]")
    return phi
