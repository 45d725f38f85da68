"""First weights of transformers for pictures: a normal law without its tails, and no offsets.

W ~ N(0, s²) within ±2 (the ends lie 100 s away where s = 0.02),   b = 0        (1)
"""

from __future__ import annotations

from torch import nn

_MAPS = (nn.Linear, nn.Conv2d)


def draw_truncated(model: nn.Module, std: float = 0.02) -> None:
    """Draw all maps of a model by (1), in place.

    >>> layer = nn.Linear(3, 4)
    >>> draw_truncated(layer)
    >>> bool(layer.bias.any())
    False
    """
    for part in model.modules():
        if isinstance(part, _MAPS):
            nn.init.trunc_normal_(part.weight, std=std)
            if part.bias is not None:
                nn.init.zeros_(part.bias)
