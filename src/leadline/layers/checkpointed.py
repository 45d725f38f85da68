"""A chain of layers that keeps every N-th activation and computes the others again (Chen et al., 2016).

    h_{k+1} = layer_k(h_k),     kept for the backward pass: h_0, h_N, h_2N …        (1)
    between h_{jN} and h_{(j+1)N}: forward once more, from h_{jN}, when the backward pass gets there        (2)

The gradients are those of the bare chain, bit for bit; a step costs one more forward pass and keeps 1/N of the
activations, and for a while those of one segment. What a layer draws is drawn again: keyed noise
(`leadline.layers.noise`) from the keys of the first pass, torch's own from its random state. Running statistics are
moved by the first pass alone. Around one layer (N = 1) it keeps what the layer reads and nothing of its inside.

Shapes     those of the chain
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import torch
from torch import Tensor, nn
from torch.func import functional_call
from torch.utils.checkpoint import checkpoint

from leadline.errors import UserError
from leadline.layers import noise
from leadline.settings import given, whole


class Checkpointed(nn.Module):
    """Args:
        layers: an nn.Sequential, or any layers to run one after the other.
        every: N of eq. 1, layers between two activations that are kept, at least 1.

    >>> deep = nn.Sequential(*[nn.Linear(8, 8) for _ in range(50)])
    >>> Checkpointed(deep, every=10)(torch.zeros(2, 8)).shape
    torch.Size([2, 8])
    """

    def __init__(self, layers: nn.Sequential | Iterable[nn.Module], every: int = 1):
        super().__init__()
        self.every = whole("every", every)
        listed = list(layers) if isinstance(layers, Iterable) else []
        if not listed or not all(isinstance(layer, nn.Module) for layer in listed):
            raise UserError(
                "Checkpointed must be given layers that run one after the other",
                got=given("layers", layers),
                do="Pass an nn.Sequential or a list of modules",
            )
        self.layers = nn.Sequential(*listed)

    def forward(self, h: Tensor) -> Tensor:
        for first in range(0, len(self.layers), self.every):
            segment = nn.Sequential(*list(self.layers)[first : first + self.every])
            h = recomputed(segment, h) if torch.is_grad_enabled() else segment(h)  # eq. 1
        return h

    def extra_repr(self) -> str:
        return f"every={self.every}"


def recomputed(module: nn.Module, *args: Any, **more: Any) -> Any:
    """What `module` answers; its inside is computed again for the backward pass (2), whatever it is called with.

    >>> layer, x = nn.Sequential(nn.Linear(8, 8), nn.Tanh()), torch.zeros(2, 8)
    >>> torch.equal(recomputed(layer, x), layer(x))
    True
    """
    if torch.compiler.is_compiling():  # a compiler sees the whole step: keys and weights are its own inputs
        return checkpoint(lambda *args: type(module).forward(module, *args, **more), *args, use_reentrant=False)
    # by the time of (2) the caller may have left its keys, or put other weights in place: those of now are taken along
    bare, keys = _Bare(module), noise.current.keys
    weights = dict(bare.named_parameters(remove_duplicate=False))
    passes = 0

    def run(*args: Any) -> Any:
        nonlocal passes
        passes += 1
        if passes == 1:
            return bare(*args, **more)
        copies = {name: buffer.clone() for name, buffer in bare.named_buffers()}
        with noise.keyed(keys):
            return functional_call(bare, {**weights, **copies}, args, more)

    # a recorded graph has no random state to go back to
    recorded = torch.cuda.is_available() and torch.cuda.is_current_stream_capturing()
    return checkpoint(run, *args, use_reentrant=False, preserve_rng_state=not recorded)


class _Bare(nn.Module):
    """A module without the hooks around it, and without what stands in place of its forward."""

    def __init__(self, module: nn.Module):
        super().__init__()
        self.module = module

    def forward(self, *args: Any, **more: Any) -> Any:
        return type(self.module).forward(self.module, *args, **more)
