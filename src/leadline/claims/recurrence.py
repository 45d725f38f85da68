"""What a recurrent layer passes back through time."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from leadline.claims.claim import Check, Evidence, claim
from leadline.claims.curves import Curves, Points
from leadline.layers.elman import Elman
from leadline.layers.gru import GRU
from leadline.layers.lstm import LSTM

_UNITS, _CHANNELS = 16, 3


@claim(
    "elman-bound",
    "The derivative of a state of Elman's network with respect to one before is at most (α σ₁)^lag, with α the "
    "steepest slope of the activation and σ₁ the largest singular value of the recurrent matrix: with σ₁ below 1/α the "
    "past fades; above, the bound grows, and the derivative need not",
    "lecture notes on recurrent networks; Pascanu et al. 2013",
    misprint="the notes print that gradients vanish where σ₁ is at least 1/α; they do where it is below",
)
def elman_bound(full: bool) -> Evidence:
    lags, rows = ((1, 2, 5, 10, 20, 50, 100) if full else (1, 2, 5, 10, 20, 40)), (20 if full else 4)
    scales = (0.8, 1.0, 1.2)
    found: dict[float, list[float]] = {}
    with torch.random.fork_rng(devices=[]):
        for scale in scales:
            torch.manual_seed(0)
            layer = _scaled(scale)
            found[scale] = [max(_norms(layer, lag, rows)) for lag in lags]
    over = max(norm / scale**lag for scale, norms in found.items() for norm, lag in zip(norms, lags, strict=True))
    far = lags[-1]
    checks = (
        Check("derivative over its bound, the worst of all", over, high=1 + 1e-9),
        Check(f"derivative over {far} steps, σ₁ = 0.8", found[0.8][-1], high=0.8**far),
        Check(f"derivative over {far} steps, σ₁ = 1.2, over the bound", found[1.2][-1] / 1.2**far, high=1e-3),
    )
    xs = tuple(map(float, lags))
    view = Curves(
        "How far back a state is felt", "steps back", "largest ‖∂z_i/∂z_t‖",
        {f"σ₁ = {scale:g}": (xs, tuple(norms)) for scale, norms in found.items()},
        {f"bound, {scale:g}": (xs, tuple(scale**lag for lag in lags)) for scale in scales},
        log="y",
    )  # fmt: skip
    return Evidence(checks, view)


@claim(
    "gates-carry-gradients",
    "Over many steps a gated layer passes gradients back where Elman's does not: a cell that is kept has a derivative "
    "near 1 with respect to itself",
    "Hochreiter and Schmidhuber 1997; lecture notes on gated memory",
)
def gates_carry(full: bool) -> Evidence:
    lags, rows = ((1, 5, 10, 20, 50, 100) if full else (1, 5, 10, 20, 40)), (10 if full else 3)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        layers: dict[str, Elman | GRU | LSTM]
        layers = {"Elman": _scaled(0.9), "GRU, keeping": _keeping_gru(), "LSTM, keeping": _keeping_lstm()}
        found = {name: [min(_norms(layer, lag, rows)) for lag in lags] for name, layer in layers.items()}
    xs, far = tuple(map(float, lags)), lags[-1]
    curves: dict[str, Points] = {name: (xs, tuple(norms)) for name, norms in found.items()}
    checks = (
        Check(f"Elman, derivative over {far} steps", found["Elman"][-1], high=0.9**far),
        *(Check(f"{name}, derivative over {far} steps", found[name][-1], low=0.5) for name in list(found)[1:]),
    )
    view = Curves("What gates keep", "steps back", "least ‖∂state/∂state before‖", curves, log="y")
    return Evidence(checks, view)


def _scaled(sigma: float) -> Elman:
    """Elman's layer whose recurrent matrix has σ₁ as its largest singular value."""
    layer = Elman(_CHANNELS, _UNITS, bias=False).double()
    with torch.no_grad():
        recurrent = layer.kernel.weight_hh_l0
        recurrent.copy_(sigma * nn.init.orthogonal_(torch.empty_like(recurrent)))
    return layer


def _keeping_gru() -> GRU:
    """A GRU whose keep gate begins near 1."""
    layer = GRU(_CHANNELS, _UNITS).double()
    with torch.no_grad():
        layer.kernel.bias_ih_l0[_UNITS : 2 * _UNITS] = 6.0
    return layer


def _keeping_lstm() -> LSTM:
    """An LSTM whose keep gate begins near 1."""
    layer = LSTM(_CHANNELS, _UNITS).double()
    with torch.no_grad():
        layer.kernel.bias_ih_l0[_UNITS : 2 * _UNITS] = 6.0
    return layer


def _norms(layer: Elman | GRU | LSTM, lag: int, rows: int) -> list[float]:
    """‖∂state/∂state before‖ over `lag` steps of drawn rows: of the last part of a state, the cell of an LSTM."""
    stream, norms = torch.Generator().manual_seed(1), []
    for _ in range(rows):
        x = torch.randn(1, lag, _CHANNELS, dtype=torch.float64, generator=stream)
        parts = 2 if isinstance(layer, LSTM) else 1
        before = [torch.randn(1, _UNITS, dtype=torch.float64, generator=stream).tanh() for _ in range(parts)]

        def after(last: Tensor, x: Tensor = x, before: list[Tensor] = before) -> Tensor:
            return layer(x, (*before[:-1], last))[1][-1][0]

        jacobian = torch.autograd.functional.jacobian(after, before[-1])[:, 0]
        norms.append(float(torch.linalg.matrix_norm(jacobian, 2)))
    return norms
