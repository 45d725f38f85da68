"""Relational convolution: edges of several kinds, each with its own map, made of a few (Schlichtkrull et al., 2018).

    h'_i = β + Ψ h_i + Σ_r Σ_{e → i of kind r} (1 / c_ir) Ω_r h_source(e)      c_ir edges of kind r that end in i  (1)
    Ω_r  = Σ_b a_rb V_b                                                        B bases, shared by all kinds        (2)

So y = Σ_b V_b Σ_e (a_{r(e) b} / c) h_source(e): B sums, each with weights of its own, however many kinds.

Notation   Ψ, β -> own;  V_b -> bases, side by side;  a_rb -> shares
Shapes     h (N_s, dim_input), edges of N targets -> (N, dim_output)
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from leadline.data.edges import Edges
from leadline.errors import UserError
from leadline.layers.once import once
from leadline.layers.segments import received
from leadline.settings import whole


class RelationalConvolution(nn.Module):
    """Args:
        dim_input, dim_output: widths, at least 1.
        num_relations: kinds of edges.
        num_bases: B; None is one for each kind, up to four.

    >>> two = Edges.of(torch.tensor([[0, 1], [1, 0]]), num_nodes=2, relation=torch.tensor([0, 1]))
    >>> RelationalConvolution(3, 8, num_relations=2)(torch.ones(2, 3), two).shape
    torch.Size([2, 8])
    """

    def __init__(self, dim_input: int, dim_output: int, num_relations: int = 1, num_bases: int | None = None):
        super().__init__()
        self.num_relations = whole("num_relations", num_relations)
        B = min(4, num_relations) if num_bases is None else whole("num_bases", num_bases)
        self.shares = nn.Parameter(torch.randn(num_relations, B) / B**0.5)
        self.bases = nn.Linear(B * dim_input, dim_output, bias=False)
        self.own = nn.Linear(dim_input, dim_output)

    def forward(self, h: Tensor, edges: Edges) -> Tensor:
        relation, per = self._kinds(edges)
        w = self.shares[relation] * per[:, None].to(self.shares.dtype)  # (E, B)
        sums = [received(h, edges, w_b) for w_b in w.unbind(1)]
        return self.own(h[: edges.num_targets]) + self.bases(torch.cat(sums, -1))  # eqs. 1, 2

    def _kinds(self, edges: Edges) -> tuple[Tensor, Tensor]:
        """The kind of each edge, and 1 / c, times the edge's weight."""

        def made() -> tuple[Tensor, Tensor]:
            relation = torch.zeros_like(edges.source) if edges.relation is None else edges.relation
            R = self.num_relations
            if len(relation) and int(relation.max()) >= R:
                raise UserError(
                    f"edges must be of {R} kinds", got=f"a kind {int(relation.max())}", do="Pass num_relations"
                )
            counts = torch.zeros(edges.num_targets * R, dtype=torch.float64, device=relation.device)
            spot = edges.target * R + relation
            a = torch.ones_like(counts[:1]).expand(len(spot)) if edges.times is None else edges.times.double()
            per = a / counts.index_add_(0, spot, a)[spot]
            return relation, per if edges.weight is None else per * edges.weight

        return once(edges, f"{self.num_relations} kinds", made)
