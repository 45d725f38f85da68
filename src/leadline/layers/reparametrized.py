"""Weights written in another way, so that learning is another: acting on a model from outside, in a copy of it.

    weight norm     w = g v / ‖v‖                  length and direction of weights apart (Salimans, Kingma) (1)
                    ∂/∂g = ∂/∂w · v/‖v‖,   ∂/∂v = (g/‖v‖) (I - w wᵀ/‖w‖²) ∂/∂w: at right angles to w  (2)
    spectral norm   Ω / σ(Ω)                       every map stretches by 1 at most (Miyato et al., 2018)  (3)
    Lipschitz       Ω · c^{1/K} / σ(Ω), K maps     the output changes at most c times as fast as the input  (4)

(4) holds where activations have slopes of at most 1, such as relu and tanh. σ comes from torch's power iteration, which
goes on while training. A run with such a model is read back with `model=` built the same way.
"""

from __future__ import annotations

import copy
from typing import TypeVar

from torch import Tensor, nn
from torch.nn.utils import parametrizations, parametrize

from leadline.errors import UserError
from leadline.settings import real

Network = TypeVar("Network", bound=nn.Module)


def weight_normed(model: Network) -> Network:
    """A copy whose linear maps and convolutions are of the form (1); the same function to begin with.

    >>> import torch
    >>> model = weight_normed(nn.Sequential(nn.Linear(3, 2)))
    >>> model[0].parametrizations.weight.original0.shape  # g
    torch.Size([2, 1])
    """
    made = copy.deepcopy(model)
    for layer in _maps(made):
        parametrizations.weight_norm(layer)
    return made


def spectral_normed(model: Network) -> Network:
    """A copy whose linear maps and convolutions are of the form (3).

    >>> import torch
    >>> model = spectral_normed(nn.Sequential(nn.Linear(3, 2)))
    >>> round(float(torch.linalg.matrix_norm(model[0].weight.detach(), 2)), 2)
    1.0
    """
    return lipschitz(model, 1.0)


def lipschitz(model: Network, bound: float) -> Network:
    """A copy whose output changes at most `bound` times as fast as its input (4).

    Args:
        bound: c, above 0.

    >>> import torch
    >>> model = lipschitz(nn.Sequential(nn.Linear(3, 5), nn.ReLU(), nn.Linear(5, 1)), 9.0)
    >>> round(float(torch.linalg.matrix_norm(model[0].weight.detach(), 2)), 2)
    3.0
    """
    real("bound", bound, 0, above=True, usual=1.0)
    made = copy.deepcopy(model)
    layers = _maps(made)
    for layer in layers:
        parametrizations.spectral_norm(layer, n_power_iterations=3)
        if bound != 1:
            parametrize.register_parametrization(layer, "weight", _Times(bound ** (1 / len(layers))))
    return made


class _Times(nn.Module):
    def __init__(self, factor: float):
        super().__init__()
        self.factor = factor

    def forward(self, weight: Tensor) -> Tensor:
        return self.factor * weight


def _maps(model: nn.Module) -> list[nn.Module]:
    found: list[nn.Module] = [m for m in model.modules() if isinstance(m, (nn.Linear, nn.modules.conv._ConvNd))]
    if not found:
        raise UserError("the model must have linear maps or convolutions", got="none", do="Pass an MLP")
    return found
