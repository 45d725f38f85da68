"""Attention by hashing: a token looks at those that fall into its bucket (Kitaev et al., 2020: Reformer).

    k_j    = q_j / ‖q_j‖                                      queries and keys share one map                   (1)
    h(q)   = argmax [R q; -R q]                               R random: near vectors often share a bucket      (2)
    P_i    = {j: h(q_j) = h(q_i)}, sorted by bucket and place, in i's piece of the order or the one before     (3)
           causal: in that order, itself and as many before it as a piece holds                                (4)
    out_i  = Σ_{j in P_i} softmax_j(q_i · k_j / √K) v_j       itself only where nothing else is in P_i         (5)

With several rounds, each with its own R, P_i is the union of theirs: a score is lowered by the log of the number of
rounds that hold its pair, so none counts twice. Cost: T times twice the piece, not T². R is drawn once, from a seed.

Notation   R -> rotations;  h -> buckets;  a token's place in its round's order -> rank
Paper      it has (3) in its causal form too, in which later tokens decide where a piece begins, and so which of the
           earlier ones are looked at. In (4) they have no say
Shapes     x (B, T, D) -> (B, T, D);  in rounds and pieces (B, H, rounds, pieces, piece, …)
"""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from leadline.layers.attention import in_heads, joined, shares
from leadline.layers.mask_parts import parts
from leadline.layers.masks import Mask
from leadline.layers.positions import check_rows, even
from leadline.settings import whole

ITSELF = -5e4  # the score of a token with itself: weight 0 beside any other, weight 1 alone


class HashedAttention(nn.Module):
    """Args:
        dim: D.
        num_heads: H.
        num_buckets: even.
        piece: places of the sorted order that are looked at together.
        num_rounds: hashes, each with a rotation of its own.
        seed: of the rotations.

    >>> HashedAttention(16, 4, num_buckets=4, piece=4)(torch.zeros(2, 10, 16)).shape
    torch.Size([2, 10, 16])
    """

    rotations: Tensor

    def __init__(
        self,
        dim: int,
        num_heads: int,
        num_buckets: int = 16,
        piece: int = 64,
        num_rounds: int = 2,
        seed: int = 0,
    ):
        super().__init__()
        self.dim = dim
        self.heads, _, self.dim_head = shares(dim, num_heads, None, None)
        self.piece, self.rounds = whole("piece", piece), whole("num_rounds", num_rounds)
        self.num_buckets = even("num_buckets", num_buckets)
        self.query_value, self.out = nn.Linear(dim, 2 * dim), nn.Linear(dim, dim)
        generator = torch.Generator().manual_seed(whole("seed", seed, 0))
        drawn = torch.randn(num_rounds, self.dim_head, num_buckets // 2, generator=generator)
        self.register_buffer("rotations", drawn)

    def forward(self, x: Tensor, mask: Mask | None = None) -> Tensor:
        """Args:
        mask: Causal, Padding, both, or None.
        """
        check_rows(x, self.dim, "HashedAttention")
        B, T, _ = x.shape
        causal, there = parts(mask, "HashedAttention", x)
        if not x.shape[1]:
            return x
        there = x.new_ones(B, T, dtype=torch.bool) if there is None else there
        q, v = (in_heads(part, self.dim_head) for part in self.query_value(x).chunk(2, -1))
        more = -T % self.piece  # places that fill the last piece
        q, v, there = F.pad(q, (0, 0, 0, more)), F.pad(v, (0, 0, 0, more)), F.pad(there, (0, more))
        bucket = self.buckets(q).masked_fill(~there[:, None, None], self.num_buckets)
        order = bucket.argsort(dim=-1, stable=True)  # (B, H, rounds, T), by bucket and place
        rank = order.argsort(-1)
        out, total = self.looked(q, v, self.facts(bucket, rank if causal else rank // self.piece, there), order, causal)
        out, total = _in_place(out, rank), _in_place(total, rank)  # (B, H, rounds, T, K or 1)
        return self.out(joined((total.softmax(2) * out).sum(2)[:, :, :T]))

    def buckets(self, q: Tensor) -> Tensor:
        """Eq. 2, (B, H, T, K) -> (B, H, rounds, T)."""
        turned = q[:, :, None] @ self.rotations.to(q.dtype)
        return torch.cat([turned, -turned], -1).argmax(-1)

    def facts(self, bucket: Tensor, rank: Tensor, there: Tensor) -> Tensor:
        """Of each token: bucket and rank, or piece, of each round, its place, whether it is there; (B, H, T, facts)."""
        B, H, _, T = bucket.shape
        place = torch.arange(T, device=bucket.device).expand(B, H, T)
        rounds = torch.cat([bucket, rank], 2).transpose(-1, -2)
        return torch.cat([rounds, place[..., None], there[:, None, :, None].expand(B, H, T, 1).long()], -1)

    def looked(self, q: Tensor, v: Tensor, facts: Tensor, order: Tensor, causal: bool) -> tuple[Tensor, Tensor]:
        """Eqs. 3 to 5 of each round: outputs, and the log of each query's sum of weights."""
        k = F.normalize(q, dim=-1)  # eq. 1
        q, k, v, mine = (_in_pieces(part, order, self.piece) for part in (q, k, v, facts))
        k, v, theirs = _two_pieces(k), _two_pieces(v), _two_pieces(mine, -1)
        apart = mine[..., :, None, :] - theirs[..., None, :, :]  # (…, piece, 2 piece, facts)
        bucket, near, place = apart.split([self.rounds, self.rounds, 2], -1)
        held = (bucket == 0) & (near >= 0) & (near <= (self.piece if causal else 1))  # in each of the rounds, eqs. 3, 4
        itself, before = place[..., 0] == 0, place[..., 0] >= 0
        seen = theirs[..., None, :, -1] == 1
        now = held.diagonal(dim1=2, dim2=-1).movedim(-1, 2)  # in this round
        allowed = now & (itself | (seen & before if causal else seen))
        scores = (q @ k.transpose(-1, -2) / math.sqrt(q.shape[-1])).masked_fill(itself, ITSELF)
        scores = (scores - held.sum(-1).clamp(min=1).to(scores.dtype).log()).masked_fill(~allowed, -math.inf)
        return scores.softmax(-1) @ v, scores.logsumexp(-1, keepdim=True)  # eq. 5


def _in_pieces(x: Tensor, order: Tensor, piece: int) -> Tensor:
    """(B, H, T, K) -> (B, H, rounds, pieces, piece, K), in the order of each round."""
    index = order[..., None].expand(*order.shape, x.shape[-1])
    return x[:, :, None].expand(index.shape).gather(3, index).unflatten(3, (-1, piece))


def _in_place(x: Tensor, rank: Tensor) -> Tensor:
    """(B, H, rounds, pieces, piece, K) -> (B, H, rounds, T, K), each token back where it stands."""
    return x.flatten(3, 4).gather(3, rank[..., None].expand(*rank.shape, x.shape[-1]))


def _two_pieces(x: Tensor, blank: float = 0.0) -> Tensor:
    """Each piece after the one before it, the first after `blank`; (…, piece, K) -> (…, 2 piece, K)."""
    return torch.cat([F.pad(x, (0, 0, 0, 0, 1, -1), value=blank), x], -2)
