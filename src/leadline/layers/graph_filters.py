"""Filters on a graph: polynomials of its matrix, which need no eigenvectors, and any function of its spectrum.

    polynomial   h' = β + Σ_{k=0}^{K-1} Ω_k Ā^k h,            Ā = D^{-1/2} A D^{-1/2}                             (1)
    chebyshev    h' = β + Σ_{k=0}^{K-1} Ω_k T_k(-Ā) h,        T_k = 2 x T_{k-1} - T_{k-2}  (Defferrard, 2016)     (2)
    spectral     h' = β + U Θ(λ) Uᵀ h,                        U, λ of L = I - Ā            (Bruna et al., 2014)   (3)

-Ā is L - I, the Laplacian with its spectrum in [-1, 1]. (1) and (2) with K terms look K - 1 steps far. Θ(λ) of (3) is a
matrix for each λ, read off between points at equal distances on [0, 2]: as a function of λ it means the same on every
graph, however its eigenvectors are turned.

Notation   Ω_k -> maps[k];  β -> bias;  Θ at point k -> points[k]
Paper      λ_max is taken as 2, which it never exceeds
Shapes     h (N, dim_input), edges of a whole graph -> (N, dim_output)
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable

import torch
from torch import Tensor, nn

from leadline.data.edges import Edges
from leadline.errors import UserError
from leadline.layers.edge_weights import kipf_after, undirected
from leadline.layers.once import of_own, once
from leadline.layers.segments import received
from leadline.names import lookup
from leadline.settings import whole

KINDS = ("chebyshev", "polynomial")
MOST_NODES = 5000  # of which all eigenvectors are computed


class PolynomialFilter(nn.Module):
    """Args:
        dim_input, dim_output: widths, at least 1.
        num_terms: K.
        kind: "chebyshev" or "polynomial".

    >>> pair = Edges.of(torch.tensor([[0], [1]]), num_nodes=2, directed=False)
    >>> PolynomialFilter(3, 8)(torch.ones(2, 3), pair).shape
    torch.Size([2, 8])
    """

    #: nodes further than one edge count
    looks_far = True

    def __init__(self, dim_input: int, dim_output: int, num_terms: int = 3, kind: str = "chebyshev"):
        super().__init__()
        self.kind = lookup(kind, {name: name for name in KINDS}, "kind")
        terms = range(whole("num_terms", num_terms))
        self.maps = nn.ModuleList(nn.Linear(dim_input, dim_output, bias=False) for _ in terms)
        self.bias = nn.Parameter(torch.zeros(dim_output))

    def forward(self, h: Tensor, edges: Edges) -> Tensor:
        whole_graph(edges, "a polynomial filter")
        w = kipf_after(edges, h.dtype)
        step = functools.partial(received, edges=edges, weight=w)
        terms = [h]
        for k in range(1, len(self.maps)):
            terms.append(of_own(h, edges, f"{self.kind} {k}", functools.partial(self._next, step, terms)))
        y = self.maps[0](terms[0])
        for k in range(1, len(self.maps)):
            y = y + self.maps[k](terms[k])
        return y + self.bias.to(y.dtype)

    def _next(self, step: Callable[[Tensor], Tensor], terms: list[Tensor]) -> Tensor:
        moved = step(terms[-1])
        if self.kind == "polynomial":
            return moved  # eq. 1
        return -moved if len(terms) == 1 else -2 * moved - terms[-2]  # eq. 2


class SpectralFilter(nn.Module):
    """Args:
        dim_input, dim_output: widths, at least 1.
        num_points: at which Θ is given, at least 2.

    >>> pair = Edges.of(torch.tensor([[0], [1]]), num_nodes=2, directed=False)
    >>> SpectralFilter(3, 8)(torch.ones(2, 3), pair).shape
    torch.Size([2, 8])
    """

    #: nodes further than one edge count
    looks_far = True

    def __init__(self, dim_input: int, dim_output: int, num_points: int = 5):
        super().__init__()
        self.points = nn.Parameter(torch.empty(whole("num_points", num_points, 2), dim_input, dim_output))
        self.bias = nn.Parameter(torch.zeros(dim_output))
        nn.init.uniform_(self.points, -1 / math.sqrt(dim_input), 1 / math.sqrt(dim_input))

    def forward(self, h: Tensor, edges: Edges) -> Tensor:
        eigenvalues, U = spectrum(edges)
        at = eigenvalues.clamp(0, 2) * (len(self.points) - 1) / 2
        near = (1 - (at[:, None] - torch.arange(len(self.points), device=at.device)).abs()).clamp(min=0)
        waves = torch.einsum("nk,ni,kio->no", near.to(h.dtype), U.T.to(h.dtype) @ h, self.points)
        return U.to(h.dtype) @ waves + self.bias  # eq. 3


def spectrum(edges: Edges) -> tuple[Tensor, Tensor]:
    """λ (N,) and U (N, N) of L = I - D^{-1/2} A D^{-1/2}, in float64; of a node without edges, L is 1.

    >>> spectrum(Edges.of(torch.tensor([[0], [1]]), num_nodes=2, directed=False))[0].round().tolist()
    [0.0, 2.0]
    """
    whole_graph(edges, "a spectral filter")
    undirected(edges, "a spectral filter")
    if edges.num_targets > MOST_NODES:
        raise UserError(
            f"a graph must have at most {MOST_NODES:,} nodes for all its eigenvectors",
            got=f"{edges.num_targets:,}",
            do="Use a polynomial filter, which needs none: ChebNet",
        )

    def made() -> tuple[Tensor, Tensor]:
        N = edges.num_targets
        A = torch.zeros(N, N, dtype=torch.float64, device=edges.source.device)
        A.index_put_((edges.target, edges.source), kipf_after(edges, torch.float64), accumulate=True)
        eigenvalues, U = torch.linalg.eigh(torch.eye(N, dtype=A.dtype, device=A.device) - A)
        return eigenvalues, U

    return once(edges, "spectrum", made)


def whole_graph(edges: Edges, who: str) -> None:
    """Refuses edges of some nodes."""
    if edges.num_sources != edges.num_targets:
        raise UserError(
            f"{who} must be given a whole graph",
            got=f"{edges.num_targets} of its {edges.num_sources} nodes",
            do="Train without a sampler, or by parts of the graph; or use GCN, GraphSAGE or GAT",
        )
