"""From class probabilities of pixels to regions.

    Q_c       = mean of P_c over a window                                                          (1)   proximity
    c         = argmax_c Σ_free Q_c                                                                (2)   shown most
    region    = connected parts of {free, Q_c >= grow · max_k Q_k} that reach Q_c >= seed          (3)   connectedness
    again     for the next class; a region of too little evidence Σ_region Q_c is passed over      (4)

`grown` takes class after class greedily, as Noh et al. (2015) describe in words only: window, thresholds and evidence
are choices of ours. Where two classes are almost as likely, the one shown more has the pixel. `components` numbers the
connected parts of a mask; `unanimous` is the vote of an ensemble in which a pixel counts only where all members agree:
`Ensemble(runs).several(rows).unanimous()`.

Shapes     probabilities (C, Y, X); masks (Y, X) or (Z, Y, X)
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

from leadline.errors import ShapeError
from leadline.settings import real, whole

#: the code of a pixel that has no label
UNLABELLED = 255


def components(mask: Tensor, corners: bool = False) -> tuple[Tensor, int]:
    """The connected regions of a mask, numbered 1, 2 … as they are met (0 outside), and how many there are.

    Args:
        mask: (Y, X) or (Z, Y, X), true inside.
        corners: pixels that share only an edge or a corner are connected too.

    >>> numbers, count = components(torch.tensor([[1, 1, 0], [0, 0, 1]]))
    >>> numbers.tolist(), count
    ([[1, 1, 0], [0, 0, 2]], 2)
    """
    if mask.dim() not in (2, 3):
        raise ShapeError(
            "a mask must have shape (Y, X) or (Z, Y, X)", got=f"shape {tuple(mask.shape)}", do="Pass one mask at a time"
        )
    from scipy import ndimage

    near = ndimage.generate_binary_structure(mask.dim(), mask.dim() if corners else 1)
    numbers, count = ndimage.label(mask.cpu().numpy() != 0, near)
    return torch.as_tensor(numbers, dtype=torch.int64, device=mask.device), int(count)


def unanimous(codes: Tensor, otherwise: int = 0) -> Tensor:
    """The code that all members give a pixel, and `otherwise` where they differ.

    Args:
        codes: (members, ...), of classes or of inside and outside.

    >>> unanimous(torch.tensor([[1, 1, 0], [1, 0, 0]])).tolist()
    [1, 0, 0]
    """
    return torch.where((codes == codes[0]).all(0), codes[0], otherwise)


def grown(
    probabilities: Tensor,
    seed: float = 0.5,
    grow: float = 0.8,
    evidence: float = 16.0,
    window: int = 3,
    otherwise: int = UNLABELLED,
) -> Tensor:
    """Codes of the pixels of one picture by growing regions greedily, eq. 1 to 4, (Y, X).

    Args:
        probabilities: (C, Y, X).
        seed: probability that a region must reach somewhere, above 0.
        grow: share of the likeliest class's probability that all of a region must have, from above 0 to 1.
        evidence: summed probability of a class's region below which it is not added, in pixels.
        window: pixels a side of the mean, odd.
        otherwise: the code of pixels that no region takes.

    >>> p = torch.tensor([0.8, 0.1, 0.1])[:, None, None].repeat(1, 8, 8)
    >>> p[:, :, 5:] = torch.tensor([0.1, 0.8, 0.1])[:, None, None]
    >>> p[:, 3, 2] = torch.tensor([0.1, 0.1, 0.8])  # a speck
    >>> grown(p)[3].tolist(), p.argmax(0)[3].tolist()
    ([0, 0, 0, 0, 0, 1, 1, 1], [0, 0, 2, 0, 0, 1, 1, 1])
    """
    real("seed", seed, 0, above=True, usual=0.5)
    real("grow", grow, 0, most=1, above=True, usual=0.8)
    window = whole("window", window)
    window += 1 - window % 2
    C, Y, X = probabilities.shape
    near = F.avg_pool2d(probabilities[:, None], window, 1, window // 2, count_include_pad=False)[:, 0]  # eq. 1
    likeliest = near.amax(0)
    codes = torch.full((Y, X), otherwise, dtype=torch.int64, device=near.device)
    free, left = torch.ones_like(codes, dtype=torch.bool), torch.ones(C, dtype=torch.bool, device=near.device)
    for _ in range(C):
        shown = (near * free).sum((1, 2)).masked_fill(~left, -1.0)
        code = int(shown.argmax())  # eq. 2
        region = _connected(free & (near[code] >= grow * likeliest), near[code] >= seed)
        left[code] = False
        if float((near[code] * region).sum()) < evidence:  # eq. 4
            continue
        codes, free = torch.where(region, code, codes), free & ~region
    return codes


def _connected(within: Tensor, seeds: Tensor) -> Tensor:
    """Eq. 3: the connected parts of `within` that hold a seed."""
    numbers, count = components(within)
    reached = torch.zeros(count + 1, dtype=torch.bool, device=within.device)
    reached[numbers[seeds]] = True
    reached[0] = False
    return reached[numbers]
