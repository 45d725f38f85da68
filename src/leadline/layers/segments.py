"""What comes together at a node: sums, means, largest values and shares over the edges that end in it.

    total    y_i = Σ_{e → i} m_e                    mean    y_i = total_i / (edges that end in i)               (1)
    largest  y_i = max_{e → i} m_e, 0 of none       shares  p_e = exp(s_e) / Σ_{f → i} exp(s_f)                 (2)
    received y_i = Σ_{e → i} w_e x_{source(e)}      a sparse matrix times x: no message is ever written down    (3)

Edges are sorted by where they end, so each sum runs over one piece of memory in one order: the same bits every time.

Shapes     messages (E, …) -> (N, …);  scores (E, H) -> (E, H);  x (N_s, D) -> (N, D)
"""

from __future__ import annotations

import torch
from torch import Tensor

from leadline.data.edges import Edges


def total(messages: Tensor, edges: Edges) -> Tensor:
    """Eq. 1.

    >>> edges = Edges.of(torch.tensor([[0, 1, 1], [1, 0, 1]]), num_nodes=2)
    >>> total(torch.tensor([[1.0], [2.0], [4.0]]), edges).tolist()
    [[1.0], [6.0]]
    """
    return torch.segment_reduce(messages, "sum", offsets=edges.start, unsafe=True)


def mean(messages: Tensor, edges: Edges) -> Tensor:
    """Eq. 1, 0 where no edge ends."""
    count = edges.start.diff().clamp(min=1).to(messages.dtype)
    return total(messages, edges) / count.view(-1, *(1,) * (messages.dim() - 1))


def largest(messages: Tensor, edges: Edges) -> Tensor:
    """Eq. 2, 0 where no edge ends."""
    return torch.segment_reduce(messages, "max", offsets=edges.start, unsafe=True, initial=None).nan_to_num(neginf=0.0)


def shares(scores: Tensor, edges: Edges) -> Tensor:
    """Eq. 2: a softmax over the edges of each node."""
    most = largest(scores.detach(), edges)
    e = (scores - most[edges.target]).exp()
    return e / total(e, edges)[edges.target]


def received(x: Tensor, edges: Edges, weight: Tensor | None = None) -> Tensor:
    """Eq. 3.

    Args:
        weight: (E,), of each edge; None is 1.
    """
    messages = x[edges.source]
    return total(messages if weight is None else messages * weight[:, None], edges)
