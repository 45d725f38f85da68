"""What each head does: how widely it looks, how far back, and how much at the first token.

    entropy  = -Σ_j weight_{ij} log weight_{ij},  mean over queries i        0 at one key, log S at all alike     (1)
    distance = Σ_j weight_{ij} |i - j|,           mean over queries i                                            (2)
    first    = weight_{i1},                       mean over queries i                                            (3)

Many heads of a trained model look at the token before, at the first token when they have nothing to say, or at all
alike. Queries that may look at one key only have no choice, and are left out.

Shapes     one number for each attention and head
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from leadline.lens.attention_map import attention_map
from leadline.lens.style import FULL, HUES, SOFT, blank, label, styled
from leadline.lens.view import View

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@dataclass(frozen=True, eq=False)
class HeadEntropy(View):
    """What heads look at.

    Args:
        names: path of the module of each head's attention; heads: its number there.
        entropy: eq. 1; most: of a head that looks at all keys alike.
        distance: eq. 2, nan where queries and keys are of different rows.
        first: eq. 3.
    """

    names: tuple[str, ...]
    heads: np.ndarray
    entropy: np.ndarray
    most: np.ndarray
    distance: np.ndarray
    first: np.ndarray

    @styled
    def plot(self) -> Figure:
        panels = {
            "How widely": (self.entropy, "entropy (nats)"),
            "How far": (self.distance, "tokens between query and key"),
            "At the first token": (self.first, "weight"),
        }
        shown = {title: panel for title, panel in panels.items() if np.isfinite(panel[0]).any()}
        figure = blank(FULL, 3.4)
        axes = figure.subplots(1, len(shown))
        order = list(dict.fromkeys(self.names))
        at = np.array([order.index(name) for name in self.names])
        spread = (self.heads - self.heads.mean()) / max(int(self.heads.max()) + 1, 2) * 0.5
        for ax, (title, (values, unit)) in zip(axes, shown.items()):
            ax.scatter(at + spread, values, s=16, color=[HUES[h % len(HUES)] for h in self.heads], linewidths=0)
            ax.set_xticks(range(len(order)))
            if ax is axes[0]:
                ax.scatter(at, self.most, marker="_", s=180, color=SOFT, linewidths=1, label="all keys alike")
            label(ax, title, "attention", unit, legend=int(ax is axes[0]))
        return figure


def head_entropy(model: Any, rows: Any = None, *, split: str = "val", num: int = 16) -> HeadEntropy:
    """How heads share out their weight, as the mean over rows. The model is left as it was.

    Args:
        model, rows, split, num: as of `attention_map`.

    >>> import torch
    >>> from leadline.models import GPT
    >>> view = head_entropy(GPT.tiny(), torch.tensor([[3, 1, 4, 1, 5]]))
    >>> view.entropy.shape, bool((view.entropy <= view.most + 1e-6).all())
    ((4,), True)
    """
    seen = attention_map(model, rows, split=split, num=num)
    names, heads, found = [], [], []
    for name, weights, own in zip(seen.names, seen.weights, seen.own):
        for head, numbers in enumerate(zip(*_numbers(weights, own))):
            names.append(name)
            heads.append(head)
            found.append(numbers)
    entropy, most, distance, first = np.array(found).T
    return HeadEntropy(tuple(names), np.array(heads), entropy, most, distance, first)


def _numbers(weights: np.ndarray, own: bool) -> tuple[np.ndarray, ...]:
    """Eqs. 1 to 3 and the largest entropy, (H,) each, of weights (B, H, T, S)."""
    down, across = weights.shape[-2:]
    allowed = (weights > 0).any(1, keepdims=True).sum(-1)  # (B, 1, T): keys that some head looks at
    free = np.broadcast_to(allowed > 1, weights.shape[:3])
    safe = np.where(weights > 0, weights, 1.0)
    entropy = -(weights * np.log(safe)).sum(-1)
    most = np.broadcast_to(np.log(np.maximum(allowed, 1)), entropy.shape)
    apart = np.abs(np.arange(down)[:, None] - np.arange(across))
    distance = (weights * apart).sum(-1) if own else np.full(entropy.shape, np.nan)
    count = np.maximum(free.sum((0, 2)), 1)
    return tuple(np.where(free, each, 0).sum((0, 2)) / count for each in (entropy, most, distance, weights[..., 0]))
