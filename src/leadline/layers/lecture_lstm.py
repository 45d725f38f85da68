"""Long short-term memory of five matrices, as lectures write it: no offsets, and a matrix inside the last tanh.

    x̃_t = [h_{t-1}, x_t]                                                                     (1)
    z_t = s(F x̃_t) * z_{t-1} + s(G x̃_t) * tanh(V x̃_t)        the cell                        (2)
    h_t = s(H x̃_t) * tanh(U z_t),     y_t = h_t                                              (3)

With U the unit matrix this is `leadline.layers.LSTM` without offsets (`from_lstm`, `to_lstm`); with another, cells are
mixed before they are shown.

Notation   s the sigmoid;  F -> forget;  G -> write;  V -> candidate;  H -> show;  U -> mix
Shapes     x (B, T, D) -> (B, T, D');  state (h, z), (B, D') each;  there (B, T)
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from leadline.errors import UserError
from leadline.layers.lstm import LSTM
from leadline.layers.steps_there import State, check_steps, loop
from leadline.settings import whole


class LectureLSTM(nn.Module):
    """Args:
        dim: D.
        dim_output: D', units; D by default.

    >>> y, (h, z) = LectureLSTM(3, 5)(torch.zeros(2, 7, 3))
    >>> y.shape, h.shape, z.shape
    (torch.Size([2, 7, 5]), torch.Size([2, 5]), torch.Size([2, 5]))
    """

    unrolled = True

    def __init__(self, dim: int, dim_output: int | None = None):
        super().__init__()
        self.dim = whole("dim", dim)
        self.dim_output = self.dim if dim_output is None else whole("dim_output", dim_output)
        both = self.dim_output + self.dim
        self.forget, self.write, self.candidate, self.show = (
            nn.Linear(both, self.dim_output, bias=False) for _ in range(4)
        )
        self.mix = nn.Linear(self.dim_output, self.dim_output, bias=False)

    def forward(self, x: Tensor, state: State | None = None, there: Tensor | None = None) -> tuple[Tensor, State]:
        """Every step, and hidden units and cell after the last one that is there."""
        check_steps(self, x, state, there, parts=2)
        nothing = x.new_zeros(len(x), self.dim_output)
        return loop(self._step, x, state or (nothing, nothing), there)

    def _step(self, x: Tensor, state: State) -> State:
        h, z = state
        both = torch.cat([h, x], -1)  # eq. 1
        z = self.forget(both).sigmoid() * z + self.write(both).sigmoid() * self.candidate(both).tanh()  # eq. 2
        return self.show(both).sigmoid() * self.mix(z).tanh(), z  # eq. 3


def from_lstm(layer: LSTM) -> LectureLSTM:
    """The same function in five matrices: U is the unit matrix.

    Args:
        layer: without offsets.

    >>> x, layer = torch.ones(1, 4, 2), LSTM(2, 3, bias=False)
    >>> bool(torch.allclose(from_lstm(layer)(x)[0], layer(x)[0], atol=1e-6))
    True
    """
    if layer.kernel.bias:
        raise UserError("an LSTM of five matrices has no offsets", got="a layer with them", do="Build LSTM(bias=False)")
    made = LectureLSTM(layer.dim, layer.dim_output).to(layer.kernel.weight_ih_l0)
    blocks = torch.cat([layer.kernel.weight_hh_l0, layer.kernel.weight_ih_l0], 1).chunk(4)  # on [h, x]
    with torch.no_grad():
        for map_, block in zip((made.write, made.forget, made.candidate, made.show), blocks, strict=True):
            map_.weight.copy_(block)
        nn.init.eye_(made.mix.weight)
    return made


def to_lstm(layer: LectureLSTM) -> LSTM:
    """The same function on torch's kernel, where U is the unit matrix.

    >>> x, layer = torch.ones(1, 4, 2), from_lstm(LSTM(2, 3, bias=False))
    >>> bool(torch.allclose(to_lstm(layer)(x)[0], layer(x)[0], atol=1e-6))
    True
    """
    U = layer.mix.weight
    if not torch.equal(U, torch.eye(len(U)).to(U)):
        raise UserError(
            "an LSTM of torch has no matrix inside its last tanh",
            got="a layer whose matrix `mix` is not the unit matrix",
            do="Keep it as a LectureLSTM",
        )
    made = LSTM(layer.dim, layer.dim_output, bias=False).to(U)
    maps = (layer.write, layer.forget, layer.candidate, layer.show)
    with torch.no_grad():
        recurrent, read = torch.cat([map_.weight for map_ in maps]).split([layer.dim_output, layer.dim], 1)
        made.kernel.weight_hh_l0.copy_(recurrent)
        made.kernel.weight_ih_l0.copy_(read)
    return made
