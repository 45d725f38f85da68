"""Small graphs, and networks on them that are written here: lenses hear any module that is called with edges."""

from itertools import pairwise

import networkx as nx
import torch
from torch import nn

from leadline.data.edges import Edges
from leadline.data.graph import Graph
from leadline.layers.held_graph import HeldGraph
from leadline.layers.segments import largest, mean, total


def graph_from(g, dim=4, seed=0, x=None):
    g = nx.convert_node_labels_to_integers(g, ordering="sorted")
    pairs = torch.tensor(list(g.edges), dtype=torch.int64).reshape(-1, 2).T
    numbers = torch.randn(len(g), dim, generator=torch.Generator().manual_seed(seed)) if x is None else x
    return Graph(numbers, Edges.of(pairs, len(g), directed=g.is_directed()))


class Layer(nn.Module):
    """One aggregation of a node and its neighbours, then a linear map."""

    def __init__(self, dim, out, how="kipf", skip=False):
        super().__init__()
        self.map, self.how, self.skip = nn.Linear(dim, out), how, skip

    def forward(self, h, edges):
        loops = edges.with_loops()
        sent = h[loops.source]
        if self.how == "kipf":
            root = (edges.degree + 1).to(h.dtype).rsqrt()
            sent = sent * (root[loops.source] * root[loops.target])[:, None]
        mixed = {"kipf": total, "sum": total, "mean": mean, "max": largest}[self.how](sent, loops)
        out = self.map(mixed)
        return h[: edges.num_targets] + out if self.skip else out


class Net(nn.Module):
    def __init__(self, graph, dim=8, out=3, num_layers=3, how="kipf", skip=False, level="node", activation=torch.relu):
        super().__init__()
        self.held = HeldGraph(level)
        self.held.put(graph)
        dims = [graph.x.shape[1], *[dim] * num_layers]
        self.layers = nn.ModuleList(Layer(a, b, how, skip and a == b) for a, b in pairwise(dims))
        self.head, self.activation = nn.Linear(dim, out), activation

    def forward(self, asked):
        read = self.held(asked, len(self.layers))
        h = read.x
        for k, (layer, edges) in enumerate(zip(self.layers, read.blocks, strict=True)):
            h = layer(h, edges)
            if k + 1 < len(self.layers):
                h = self.activation(h)
        if self.held.level == "graph":
            h = torch.segment_reduce(h, "mean", offsets=read.first)
        out = self.head(h)
        return out[read.places] if self.held.level != "edge" else out[read.places].sum(1)
