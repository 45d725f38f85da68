"""Gated recurrent unit of three matrices, as lectures write it: it resets before the matrix (Cho et al., 2014).

    u_t = s(G [z_{t-1}, x_t])                           keep                                     (1)
    r_t = s(H [z_{t-1}, x_t])                           reset                                    (2)
    n_t = tanh(V [r_t * z_{t-1}, x_t])                  candidate                                (3)
    z_t = u_t * z_{t-1} + (1 - u_t) * n_t,     y_t = z_t                                         (4)

No offsets. `leadline.layers.GRU` resets after the matrix, r_t * (V_z z_{t-1}). An elementwise product changes places
with a matrix only where that is diagonal: only then is one the other (`from_gru`, `to_gru`).

Notation   s the sigmoid;  G -> keep;  H -> reset;  V -> candidate, V_z its columns on the state
Paper      (4) is sometimes printed with the reset gate in place of the candidate, with which nothing would be read
Shapes     x (B, T, D) -> (B, T, D');  state (z,), z (B, D');  there (B, T)
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from leadline.errors import UserError
from leadline.layers.gru import GRU
from leadline.layers.steps_there import State, check_steps, loop
from leadline.settings import whole


class LectureGRU(nn.Module):
    """Args:
        dim: D.
        dim_output: D', units; D by default.

    >>> y, (z,) = LectureGRU(3, 5)(torch.zeros(2, 7, 3))
    >>> y.shape, z.shape
    (torch.Size([2, 7, 5]), torch.Size([2, 5]))
    """

    unrolled = True

    def __init__(self, dim: int, dim_output: int | None = None):
        super().__init__()
        self.dim = whole("dim", dim)
        self.dim_output = self.dim if dim_output is None else whole("dim_output", dim_output)
        both = self.dim_output + self.dim
        self.keep, self.reset, self.candidate = (nn.Linear(both, self.dim_output, bias=False) for _ in range(3))

    def forward(self, x: Tensor, state: State | None = None, there: Tensor | None = None) -> tuple[Tensor, State]:
        """Every step, and the state after the last one that is there."""
        check_steps(self, x, state, there)
        return loop(self._step, x, state or (x.new_zeros(len(x), self.dim_output),), there)

    def _step(self, x: Tensor, state: State) -> State:
        (z,) = state
        both = torch.cat([z, x], -1)
        u, r = self.keep(both).sigmoid(), self.reset(both).sigmoid()  # eqs. 1, 2
        n = self.candidate(torch.cat([r * z, x], -1)).tanh()  # eq. 3
        return (u * z + (1 - u) * n,)  # eq. 4


def from_gru(layer: GRU) -> LectureGRU:
    """The same function in three matrices.

    Args:
        layer: without offsets, its matrix from state to candidate diagonal.

    >>> layer = GRU(2, 3, bias=False)
    >>> _ = layer.kernel.weight_hh_l0.data[6:].copy_(torch.eye(3))
    >>> x = torch.ones(1, 4, 2)
    >>> bool(torch.allclose(from_gru(layer)(x)[0], layer(x)[0], atol=1e-6))
    True
    """
    if layer.kernel.bias:
        raise UserError("a GRU of three matrices has no offsets", got="a layer with them", do="Build GRU(bias=False)")
    _check_diagonal(layer.kernel.weight_hh_l0[2 * layer.dim_output :])
    made = LectureGRU(layer.dim, layer.dim_output).to(layer.kernel.weight_ih_l0)
    blocks = torch.cat([layer.kernel.weight_hh_l0, layer.kernel.weight_ih_l0], 1).chunk(3)  # on [z, x]
    with torch.no_grad():
        for map_, block in zip((made.reset, made.keep, made.candidate), blocks, strict=True):
            map_.weight.copy_(block)
    return made


def to_gru(layer: LectureGRU) -> GRU:
    """The same function on torch's kernel, where the matrix from state to candidate is diagonal.

    >>> layer = LectureGRU(2, 3)
    >>> _ = layer.candidate.weight.data[:, :3].copy_(torch.eye(3))
    >>> x = torch.ones(1, 4, 2)
    >>> bool(torch.allclose(to_gru(layer)(x)[0], layer(x)[0], atol=1e-6))
    True
    """
    _check_diagonal(layer.candidate.weight[:, : layer.dim_output])
    made = GRU(layer.dim, layer.dim_output, bias=False).to(layer.keep.weight)
    maps = (layer.reset, layer.keep, layer.candidate)
    with torch.no_grad():
        recurrent, read = torch.cat([map_.weight for map_ in maps]).split([layer.dim_output, layer.dim], 1)
        made.kernel.weight_hh_l0.copy_(recurrent)
        made.kernel.weight_ih_l0.copy_(read)
    return made


def _check_diagonal(matrix: Tensor) -> None:
    if not torch.equal(matrix, matrix.diag().diag()):
        raise UserError(
            "a reset before the matrix is one after it only where that matrix is diagonal",
            got="a matrix from state to candidate with other entries",
            do="Keep the layer as it is, or train the other from the start",
        )
