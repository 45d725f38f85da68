"""How many directions a matrix of attention really has (Wang et al., 2020).

    weight = U diag(σ) Vᵀ,    energy(r) = Σ_{k<=r} σ_k² / Σ σ_k²                                 (1)
    rank   = the least r with energy(r) >= level                                                 (2)

Where (2) is far below the number of keys, keys and values could be mixed into as few before queries look at them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from leadline.lens.attention_map import attention_map
from leadline.lens.style import FULL, HUES, blank, label, styled
from leadline.lens.view import View
from leadline.settings import real

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@dataclass(frozen=True, eq=False)
class AttentionRank(View):
    """Singular values of attention.

    Args:
        names: path of each attention.
        energy: eq. 1 of each, (H, min(T, S)), mean over rows.
        rank: eq. 2 of each, (H,), mean over rows; level: of it.
        most: min(T, S) of each.
    """

    names: tuple[str, ...]
    energy: tuple[np.ndarray, ...]
    rank: tuple[np.ndarray, ...]
    level: float
    most: np.ndarray

    @styled
    def plot(self) -> Figure:
        figure = blank(FULL, 3.4)
        left, right = figure.subplots(1, 2)
        for k, (energy, rank) in enumerate(zip(self.energy, self.rank)):
            colour = HUES[k % len(HUES)]
            for head in energy:
                left.plot(np.arange(1, len(head) + 1), head, color=colour, lw=1.0, alpha=0.7)
            right.plot([k] * len(rank), rank, "o", ms=4, color=colour)
        left.axhline(self.level, color="#5a6675", lw=0.8)
        right.plot(range(len(self.most)), self.most, "_", ms=16, color="#5a6675", label="all directions")
        right.set_xticks(range(len(self.names)))
        label(left, "Energy of the largest singular values", "number of singular values kept", "share")
        label(right, f"Directions that hold {100 * self.level:g} %", "attention", "rank", legend=1)
        return figure


def attention_rank(
    model: Any, rows: Any = None, *, level: float = 0.9, split: str = "val", num: int = 4
) -> AttentionRank:
    """Singular values of every head's matrix of weights. The model is left as it was.

    Args:
        model, rows, split, num: as of `attention_map`.
        level: of eq. 2, above 0 and at most 1.

    >>> import torch
    >>> from leadline.models import GPT
    >>> attention_rank(GPT.tiny(), torch.tensor([[3, 1, 4, 1, 5]]), level=1.0).rank[0].tolist()
    [5.0, 5.0]
    """
    level = real("level", level, 0, most=1, above=True, usual=0.9)
    seen = attention_map(model, rows, split=split, num=num)
    energies, ranks = [], []
    for weights in seen.weights:
        squares = np.linalg.svd(weights, compute_uv=False) ** 2  # (B, H, min(T, S))
        energy = squares.cumsum(-1) / np.maximum(squares.sum(-1, keepdims=True), 1e-300)
        energies.append(energy.mean(0))
        ranks.append((1 + (energy < level - 1e-12).sum(-1)).mean(0))
    most = np.array([min(weights.shape[-2:]) for weights in seen.weights])
    return AttentionRank(seen.names, tuple(energies), tuple(ranks), level, most)
