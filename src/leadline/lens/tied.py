"""Tied weights: a convolution as the matrix of a fully connected layer (figures 10.4 and 10.13 of Prince's book).

    z = Ω x + β,    Ω_oi one of the module's weights, or 0                                                      (1)

Equal colours are one weight, used again; white is no connection. A fully connected layer has as many weights as it has
entries, a kernel of K taps has K for all of them. Sums of weights, where a circular kernel is longer than its input,
count as weights of their own.

Notation   o, i -> positions of output and input, channel by channel, row by row
"""

from __future__ import annotations

import copy
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import nn

from leadline.data.account import counted
from leadline.errors import ShapeError
from leadline.lens.at_rest import at_rest
from leadline.lens.rows import fit_to
from leadline.lens.style import HUES, LINE, blank, percent, styled
from leadline.lens.view import View
from leadline.models.as_dense import dense_matrix
from leadline.models.as_dense import tied as numbered
from leadline.settings import whole

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@dataclass(frozen=True, eq=False)
class Tied(View):
    """The matrix of a linear module.

    Args:
        name: of the module's class.
        codes: which weight stands in each entry, from 1; 0 is none, (outputs, inputs).
        matrix: Ω of eq. 1 with the module's own weights, (outputs, inputs).
        inputs, outputs: shapes of one row.
        weights: different weights in the matrix.
        filled: share of entries that are connections.
    """

    name: str
    codes: np.ndarray
    matrix: np.ndarray
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    weights: int
    filled: float

    @styled
    def plot(self) -> Figure:
        from matplotlib import colormaps
        from matplotlib.colors import to_rgb

        rows, columns = self.codes.shape
        side = min(0.32, 6.0 / max(rows, columns))
        figure = blank(max(4.0, side * columns + 1.2), max(2.0, side * rows + 1.1))
        ax = figure.subplots()
        wheel = [to_rgb(hue) for hue in HUES]
        if self.weights > len(wheel):
            wheel = [colormaps["turbo"](t)[:3] for t in np.linspace(0.02, 0.98, self.weights)]
        table = np.array([(1.0, 1.0, 1.0), *(wheel[k % len(wheel)] for k in range(self.weights))])
        ax.imshow(table[self.codes], interpolation="nearest")
        ax.grid(False)
        if side > 0.12:
            ax.set_xticks(np.arange(columns + 1) - 0.5, minor=True)
            ax.set_yticks(np.arange(rows + 1) - 0.5, minor=True)
            ax.grid(True, which="minor", color=LINE, linewidth=0.5)
        step = max(1, -(-max(rows, columns) // 12))
        ax.set_xticks(np.arange(0, columns, step), np.arange(1, columns + 1, step))
        ax.set_yticks(np.arange(0, rows, step), np.arange(1, rows + 1, step))
        for spine in ax.spines.values():
            spine.set(visible=True)
        told = f"{self.name}: {counted(self.weights, 'weight')}\n{percent(self.filled)} of {rows} × {columns} filled"
        ax.set_title(told)
        ax.set(xlabel=f"input, of {_shape(self.inputs)}", ylabel=f"output, of {_shape(self.outputs)}")
        return figure


def _shape(shape: tuple[int, ...]) -> str:
    return " × ".join(map(str, shape))


def tied(module: nn.Module, shape: int | tuple[int, ...], *, most: int = 4096) -> Tied:
    """The matrix of a linear module and which of its entries are the same weight. The module is left as it was.

    Args:
        module: a convolution, a transposed one, a linear layer, a pool of means, an upsampler, or a chain of them.
        shape: of one row, such as (1, 6).
        most: inputs and outputs at most.

    >>> view = tied(nn.Conv1d(1, 1, 3, padding=1, bias=False), (1, 6))
    >>> view.weights, view.codes[:3].tolist()
    (3, [[2, 3, 0, 0, 0, 0], [1, 2, 3, 0, 0, 0], [0, 1, 2, 3, 0, 0]])
    """
    shape = (shape,) if isinstance(shape, int) else tuple(shape)
    for n in shape:
        whole("shape", n, 1, usual=6)
    if max(int(np.prod(shape)), int(np.prod(_made(module, shape)))) > most:
        raise ShapeError(
            "the matrix must be small enough to draw", got=f"inputs of shape {shape}", do="Pass a smaller shape"
        )
    numbers = numbered(module, shape).numpy()
    matrix, _ = dense_matrix(copy.deepcopy(module).double(), shape)
    used = np.unique(numbers[numbers > 0])
    codes = np.searchsorted(used, numbers) + 1  # no gaps, in the order in which the module holds its weights
    codes[numbers == 0] = 0
    return Tied(
        type(module).__name__,
        codes,
        matrix.cpu().numpy(),
        shape,
        _made(module, shape),
        len(used),
        float((codes > 0).mean()),
    )


def _made(module: nn.Module, shape: tuple[int, ...]) -> tuple[int, ...]:
    """Shape of one row of the output."""
    with at_rest(module):
        return tuple(module(fit_to(module, torch.zeros(1, *shape))).shape[1:])
