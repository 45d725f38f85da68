"""Scaled dot-product attention, one call for every mask, on torch's fused kernels (Vaswani et al., 2017).

    score_{ij} = q_i · k_j / √K + bias_{ij}                                          (1)
    weight_i   = softmax_j(score_{ij}), over the keys that query i may look at       (2)
    out_i      = Σ_j weight_{ij} v_j                                                 (3)

A query that may look at nothing gets 0. Groups: with fewer heads of keys than of queries, H / G consecutive query heads
share one (Shazeer, 2019; Ainslie et al., 2023). The kernel never holds the matrix of weights, unless weights are
dropped: then they are written out, and each belongs to its example (`leadline.layers.noise`).

On a GPU a mask that is not causal alone goes, for long rows, to FlexAttention, which skips blocks where nothing is
allowed (`leadline.layers.flex`).

Notation   K -> width of a head
Shapes     q (B, H, T, K);  k (B, G, S, K);  v (B, G, S, K');  bias (…, T, S);  out (B, H, T, K')
"""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F
from torch import Tensor

from leadline.errors import ShapeError
from leadline.layers import noise
from leadline.layers.flex import flex_attend, worth_it
from leadline.layers.masked_softmax import masked_softmax
from leadline.layers.masks import Causal, Graph, Mask, check_rule


def attend(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    mask: Mask | None = None,
    bias: Tensor | None = None,
    scale: float | None = None,
    p_drop: float = 0.0,
    site: int = 0,
) -> Tensor:
    """Eqs. 1 to 3.

    Args:
        mask: None looks at everything.
        bias: added to the scores, such as that of relative positions.
        scale: in place of 1 / √K.
        p_drop: of a weight, while training.
        site: tells this noise from that of other layers.

    >>> q = torch.zeros(1, 1, 2, 4)
    >>> attend(q, q, torch.tensor([[[[0.0], [1.0]]]]), Causal()).flatten().tolist()
    [0.0, 0.5]
    """
    _check(q, k, v, bias)
    grouped = k.shape[1] != q.shape[1]
    if mask is not None:
        check_rule(mask)
        mask.check(q.shape[0], q.shape[2], k.shape[2])
    if p_drop > 0:
        return _dropped(q, k, v, mask, bias, scale, p_drop, site)
    if bias is None and (mask is None or (isinstance(mask, Causal) and q.shape[2] == k.shape[2])):
        return F.scaled_dot_product_attention(q, k, v, is_causal=mask is not None, scale=scale, enable_gqa=grouped)
    if mask is not None and bias is None and worth_it(q, k, v):
        return flex_attend(q, k, v, mask, scale)
    if bias is None and isinstance(mask, Graph):
        return F.scaled_dot_product_attention(q, k, v, attn_mask=mask.added(q.dtype), scale=scale, enable_gqa=grouped)
    allowed = None if mask is None else mask.dense(q.shape[0], q.shape[2], k.shape[2], q.device)
    if bias is None:
        written: Tensor | None = allowed
    elif allowed is None:
        written = bias.to(q.dtype)
    else:
        written = torch.where(allowed, bias.to(q.dtype), -math.inf)
    return F.scaled_dot_product_attention(q, k, v, attn_mask=written, scale=scale, enable_gqa=grouped)


def weights(
    q: Tensor, k: Tensor, mask: Mask | None = None, bias: Tensor | None = None, scale: float | None = None
) -> Tensor:
    """The matrix of eq. 2 written out, (B, H, T, S): what a fused kernel uses and does not show.

    >>> weights(torch.zeros(1, 1, 2, 4), torch.zeros(1, 1, 2, 4), Causal())[0, 0].tolist()
    [[1.0, 0.0], [0.5, 0.5]]
    """
    _check(q, k, k, bias)
    k = k.repeat_interleave(q.shape[1] // k.shape[1], 1)
    scores = q @ k.transpose(-1, -2) * (1 / math.sqrt(q.shape[-1]) if scale is None else scale)
    if bias is not None:
        scores = scores + bias.to(scores.dtype)
    if mask is None:
        return scores.softmax(-1)
    return masked_softmax(scores, mask.dense(q.shape[0], q.shape[2], k.shape[2], q.device))


def _check(q: Tensor, k: Tensor, v: Tensor, bias: Tensor | None) -> None:
    """Refuse what does not fit: heads that do not share keys evenly, widths, places of keys and values, bias."""
    if _odd(q, k, v):
        shapes = ", ".join(f"{name} {tuple(t.shape)}" for name, t in (("q", q), ("k", k), ("v", v)))
        raise ShapeError(
            "queries must be (B, H, T, K), keys (B, G, S, K) and values (B, G, S, K'), H a multiple of G",
            got=shapes,
            do="Split the width into heads: x.unflatten(-1, (H, K)).transpose(1, 2)",
        )
    if bias is None:
        return
    whole = (q.shape[0], q.shape[1], q.shape[2], k.shape[2])
    fits = bias.dim() <= 4 and all(b in (1, w) for b, w in zip(reversed(bias.shape), reversed(whole)))
    if not fits:
        raise ShapeError(
            f"a bias must fit the scores, {whole}",
            got=f"shape {tuple(bias.shape)}",
            do="Pass a number for each query and key, (T, S), or for each head too, (H, T, S)",
        )


def _odd(q: Tensor, k: Tensor, v: Tensor) -> bool:
    if not q.dim() == k.dim() == v.dim() == 4:
        return True
    same = q.shape[0] == k.shape[0] == v.shape[0] and q.shape[3] == k.shape[3] and k.shape[1:3] == v.shape[1:3]
    return not same or k.shape[1] == 0 or q.shape[1] % k.shape[1] != 0


def _dropped(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    mask: Mask | None,
    bias: Tensor | None,
    scale: float | None,
    p_drop: float,
    site: int,
) -> Tensor:
    found, keys = weights(q, k, mask, bias, scale), noise.current.keys
    if keys is None:
        found = F.dropout(found, p_drop)
    else:
        found = found * noise.kept(keys, tuple(found.shape[1:]), p_drop, site, found.dtype)
    return found @ v.repeat_interleave(q.shape[1] // v.shape[1], 1)
