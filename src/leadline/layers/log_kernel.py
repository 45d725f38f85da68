"""Attention by products of features that are given as logarithms, so that none is too large or too small.

    out_i = Σ_j Σ_r exp(a_{ir} + b_{jr}) v_j / Σ_j Σ_r exp(a_{ir} + b_{jr})            causal: over j <= i only     (1)
    m_r   = max_j b_{jr},   M_i = max_r (a_{ir} + m_r)                                                              (2)
    Σ_j Σ_r exp(a_{ir} + b_{jr}) v_j = e^{M_i} Σ_r exp(a_{ir} + m_r - M_i) Σ_j exp(b_{jr} - m_r) v_j                (3)

No exponential of (3) is above 1, and of a query's feature that reaches M_i and the key that reaches m_r both are 1: the
denominator is never 0, whatever the norms. One maximum for all keys, as is usual, makes it 0 where the features that a
query asks for are not those of that key.

Causal, the keys of a query come in parts, so that no later one enters m: itself; where a piece is halved again and
again, the earlier half for those in the later one; and all pieces before its own. Each part has its own M_i, and they
are added on the scale of the largest.

Notation   a -> log_q;  b -> log_k;  R features
Shapes     log_q (B, H, T, R);  log_k (B, H, S, R), S = T where causal;  v (B, H, S, K') -> (B, H, T, K')
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

_Part = tuple[Tensor, Tensor]  # M_i (…, T, 1), and what stands after e^{M_i} in eq. 3 (…, T, K')


def log_kernel_attend(
    log_q: Tensor, log_k: Tensor, v: Tensor, there: Tensor | None = None, causal: bool = False, piece: int = 64
) -> Tensor:
    """Eq. 1; 0 where a query may look at nothing.

    Args:
        there: keys that are, (B, S).
        piece: places that are halved again and again, a power of 2.

    >>> far = torch.tensor([[[[0.0], [-500.0]]]])
    >>> log_kernel_attend(far, far, torch.tensor([[[[2.0], [4.0]]]]), torch.tensor([[False, True]])).flatten().tolist()
    [4.0, 4.0]
    """
    low = torch.finfo(log_k.dtype).min / 4  # in place of -∞, which has no differences
    v = torch.cat([v, torch.ones_like(v[..., :1])], -1)  # the last value, 1, makes the denominator
    if there is not None:
        log_k, v = (part.masked_fill(~there[:, None, :, None], by) for part, by in ((log_k, low), (v, 0.0)))
    if not v.shape[2]:
        return v.new_zeros(*log_q.shape[:3], v.shape[-1] - 1)
    parts = _before(log_q, log_k, v, piece, low) if causal else [_summed(log_q, log_k, v)]
    top = torch.stack([scale for scale, _ in parts]).amax(0)
    both = torch.stack([(scale - top).exp() * out for scale, out in parts]).sum(0)
    above, below = both[..., :-1], both[..., -1:]
    return torch.where(below > 0, above / torch.where(below > 0, below, 1.0), 0.0)


def _summed(log_q: Tensor, log_k: Tensor, v: Tensor, square: bool = False) -> _Part:
    """Eqs. 2 and 3. Maxima cancel, and have no gradient.

    Args:
        square: weights of pairs first: for few keys, of which there are many groups.
    """
    most = log_k.amax(-2, keepdim=True).detach()
    a, b = log_q + most, (log_k - most).exp()
    scale = a.amax(-1, keepdim=True).detach()
    a = (a - scale).exp()
    return scale, (a @ b.mT) @ v if square else a @ (b.mT @ v)


def _before(log_q: Tensor, log_k: Tensor, v: Tensor, piece: int, low: float) -> list[_Part]:
    """Of all keys that are not after a query, in parts."""
    T = v.shape[2]
    while piece >= 2 * T:
        piece //= 2
    more = (0, 0, 0, -T % piece)
    log_q, log_k, v = F.pad(log_q, more), F.pad(log_k, more, value=low), F.pad(v, more)
    a = log_q + log_k
    scale = a.amax(-1, keepdim=True).detach()
    parts = [(scale, (a - scale).exp().sum(-1, keepdim=True) * v)]  # itself
    half = piece // 2
    while half:
        early, late = 0, 1
        q_, k_, v_ = (x.unflatten(2, (-1, 2, half)) for x in (log_q, log_k, v))  # (B, H, groups, 2, half, …)
        scale, out = _summed(q_[:, :, :, late], k_[:, :, :, early], v_[:, :, :, early], square=True)
        nothing = torch.full_like(scale, low), torch.zeros_like(out)
        parts.append(
            tuple(torch.stack(pair, 3).flatten(2, 4) for pair in zip(nothing, (scale, out), strict=True))  # type: ignore[arg-type]
        )
        half //= 2
    parts.append(_pieces(log_q, log_k, v, piece, low))
    return [(scale[:, :, :T], out[:, :, :T]) for scale, out in parts]


def _pieces(log_q: Tensor, log_k: Tensor, v: Tensor, piece: int, low: float) -> _Part:
    """Of the pieces before that of each query: the sums over keys grow by one piece at a time."""
    most = torch.full_like(log_k[:, :, :1], low)
    total = v.new_zeros(*v.shape[:2], log_k.shape[-1], v.shape[-1])
    found: list[_Part] = []
    for q_, k_, v_ in zip(log_q.split(piece, 2), log_k.split(piece, 2), v.split(piece, 2), strict=True):
        a = q_ + most
        scale = a.amax(-1, keepdim=True).detach()
        found.append((scale, (a - scale).exp() @ total))
        more = torch.maximum(most, k_.amax(-2, keepdim=True).detach())
        total = (most - more).exp().mT * total + (k_ - more).exp().mT @ v_
        most = more
    scales, outs = zip(*found, strict=True)
    return torch.cat(scales, 2), torch.cat(outs, 2)
