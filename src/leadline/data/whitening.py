"""Whitening: inputs turned and stretched until their columns are uncorrelated and each has variance 1.

    z = W (x - mean),   W Σ Wᵀ = I,   Σ = covariance of the training rows                        (1)
    pca        W = Λ^{-1/2} Uᵀ         Σ = U Λ Uᵀ: along the principal axes                      (2)
    zca        W = U Λ^{-1/2} Uᵀ       symmetric: the whitening that changes x least             (3)
    cholesky   W = L^{-1}              Σ = L Lᵀ: column by column, each freed of those before it (4)
    diagonal   W = diag(Σ)^{-1/2}      variances alone, as batch normalisation does; (1) only where columns are
                                       uncorrelated                                              (5)

(A source prints Σ^{1/2} for (4), which does not whiten.) An axis whose variance is below ε times the largest is
stretched as if it had that much.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from leadline.data.data import Data
from leadline.data.inputs import Identity, Inputs, Rescale, Standardize
from leadline.errors import DataError, ShapeError
from leadline.names import lookup

KINDS = ("pca", "zca", "cholesky", "diagonal")
_LEAST = 1e-10


def whitening(covariance: Tensor, kind: str = "zca") -> Tensor:
    """W of eq. 2 to 5, (D, D).

    Args:
        covariance: Σ, (D, D), symmetric.
        kind: "pca", "zca", "cholesky" or "diagonal".

    >>> sigma = torch.tensor([[4.0, 1.0], [1.0, 1.0]]).double()
    >>> W = whitening(sigma, "cholesky")
    >>> (W @ sigma @ W.T).round(decimals=6).abs().tolist()
    [[1.0, 0.0], [0.0, 1.0]]
    """
    kind = lookup(kind, {word: word for word in KINDS}, "kind")
    values, U = torch.linalg.eigh(covariance)
    least = _LEAST * values.amax().clamp(min=1e-300)
    if kind == "diagonal":
        return covariance.diagonal().clamp(min=least).rsqrt().diag()  # eq. 5
    scale = values.clamp(min=least).rsqrt()
    if kind == "cholesky":
        lower = torch.linalg.cholesky(U @ values.clamp(min=least).diag() @ U.mT)
        return torch.linalg.solve_triangular(lower, torch.eye(len(lower)).to(lower), upper=False)  # eq. 4
    turned = scale[:, None] * U.mT
    return turned if kind == "pca" else U @ turned  # eq. 2, 3


class Whiten(Inputs):
    """Raw rows by eq. 1, with the training split's figures.

    >>> inputs = Whiten.fit(torch.tensor([[0.0, 0.0], [2.0, 2.0], [0.0, 2.0], [2.0, 0.0]]), "pca")
    >>> inputs.encode(torch.tensor([[1.0, 1.0]])).tolist()
    [[0.0, 0.0]]
    """

    def __init__(self, shift: Sequence[float], matrix: Sequence[Sequence[float]], names: tuple[str, ...] = ()):
        self.shift, self.matrix, self.names = tuple(shift), tuple(map(tuple, matrix)), tuple(names)

    @classmethod
    def fit(cls, x: Tensor, kind: str = "zca", names: tuple[str, ...] = ()) -> Whiten:
        """Statistics of `x`, the training split's rows, (n, D)."""
        if x.dim() != 2:
            raise ShapeError("whitening needs rows of numbers", got=f"x of shape {tuple(x.shape)}", do="Flatten rows")
        x = x.double()
        off = x - x.mean(0)
        matrix = whitening(off.mT @ off / len(x), kind)
        return cls(x.mean(0).tolist(), matrix.tolist(), names)

    def encode(self, x: Tensor) -> Tensor:
        if x.shape[1:] != (len(self.shift),):
            raise ShapeError(
                f"a row must have {len(self.shift)} values",
                got=f"rows of shape {tuple(x.shape[1:])}",
                do="Pass the columns that the model was trained on, in their order",
            )
        shift, matrix = (torch.tensor(part, dtype=torch.float64, device=x.device) for part in (self.shift, self.matrix))
        return ((x.double() - shift) @ matrix.mT).to(x.dtype)  # eq. 1


def whitened(data: Data, kind: str = "zca") -> Data:
    """The same rows, of which a network reads whitened columns.

    >>> import leadline as ll
    >>> z = (data := whitened(ll.data.iris())).inputs.encode(data.train.x).double()
    >>> (z.mT @ z / len(z)).round(decimals=3).abs().tolist()[0]
    [1.0, 0.0, 0.0, 0.0]
    """
    if not isinstance(data.inputs, (Identity, Standardize, Rescale)):
        raise DataError(
            "columns must be numbers to be whitened",
            got=f"{type(data.inputs).__name__}, which has columns of other kinds or gaps",
            do="Leave out columns of words and rows with gaps, and use ll.data.arrays",
        )
    return data.with_(inputs=Whiten.fit(data.train.x, kind, data.inputs.names), recipe=None)
