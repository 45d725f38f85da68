"""Layers on graphs: dense formulas, PyG with the same weights, and what holds for every one of them."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from leadline.data.edges import Edges
from leadline.data.graph import Graph
from leadline.errors import UserError
from leadline.layers.edge_updates import EdgeUpdate
from leadline.layers.edge_weights import kipf, kipf_after, mean_weights
from leadline.layers.fixed_point import FixedPoint
from leadline.layers.graph_attention import GraphAttention
from leadline.layers.graph_convolution import GraphConvolution
from leadline.layers.graph_filters import PolynomialFilter, SpectralFilter, spectrum
from leadline.layers.graph_isomorphism import IsomorphismLayer
from leadline.layers.graph_norm import GraphNorm, PairNorm
from leadline.layers.graph_sage import SageLayer
from leadline.layers.graph_transformer import GraphTransformerBlock, distances
from leadline.layers.message_passing import AGGREGATIONS, MessagePassing
from leadline.layers.relational import RelationalConvolution
from leadline.testing import check_gradients

F, D = 4, 6
LAYERS = {
    "kipf": lambda: GraphConvolution(F, D),
    "kipf narrow": lambda: GraphConvolution(F, 2),
    "kipf after": lambda: GraphConvolution(F, D, "kipf_after"),
    "sage": lambda: SageLayer(F, D),
    "sage narrow": lambda: SageLayer(F, 2),
    "sage max": lambda: SageLayer(F, D, "max"),
    "sage with self": lambda: SageLayer(F, D, "with_self"),
    "gat": lambda: GraphAttention(F, D, 2, dim_edge=3),
    "gat averaged": lambda: GraphAttention(F, 5, 2, dim_edge=3, average=True),
    "gat v2": lambda: GraphAttention(F, D, 2, version=2, dim_edge=3),
    "gin": lambda: IsomorphismLayer(F, D),
    "gine": lambda: IsomorphismLayer(F, D, dim_edge=3),
    "chebyshev": lambda: PolynomialFilter(F, D),
    "polynomial": lambda: PolynomialFilter(F, D, kind="polynomial"),
    "spectral": lambda: SpectralFilter(F, D),
    "relational": lambda: RelationalConvolution(F, D, num_relations=3, num_bases=2),
    "fixed point": lambda: FixedPoint(F, D),
    "transformer": lambda: nn.Sequential(Both(), GraphTransformerBlock(F, 2, num_hops=2)),
    **{f"{name}": lambda name=name: MessagePassing(F, D, name, "diagonal") for name in (*AGGREGATIONS, "attention")},
    "several": lambda: MessagePassing(F, D, ("mean", "std", "max"), "separate"),
    "edges": lambda: Updates(EdgeUpdate(F, 3, D, 5)),
}
WHOLE = {"chebyshev", "polynomial", "spectral", "fixed point", "transformer", "edges"}


class Both(nn.Module):
    """So that a transformer's block, whose zero biases say nothing, is one with some."""

    def forward(self, x):
        return x


class Updates(nn.Module):
    def __init__(self, layer):
        super().__init__()
        self.layer = layer

    def forward(self, h, edges):
        return self.layer(h, edges.features, edges)[0]


def made(name, seed=0):
    torch.manual_seed(seed)
    layer = LAYERS[name]()
    if isinstance(layer, nn.Sequential):
        layer = layer[1]
        nn.init.normal_(layer.hops)
    return layer.double()


def drawn(seed, num_nodes=9, count=14, features=True, **kinds):
    """Without directions; with parallel edges, loops, and a node that has none."""
    g = torch.Generator().manual_seed(seed)
    pairs = torch.randint(num_nodes - 1, (2, count), generator=g) if num_nodes > 1 else torch.zeros(2, 0).long()
    pairs = torch.cat([pairs, pairs[:, :2]], 1)
    E = pairs.shape[1]
    edges = Edges.of(
        pairs,
        num_nodes,
        directed=False,
        features=torch.randn(E, 3, generator=g, dtype=torch.float64) if features else None,
        relation=torch.randint(3, (E,), generator=g),
        **kinds,
    )
    return torch.randn(num_nodes, F, generator=g, dtype=torch.float64), edges


def moved(edges, place):
    """The same graph, node i called place[i]."""
    columns = {name: getattr(edges, name) for name in ("weight", "features", "relation", "number")}
    return Edges.of(place[edges.pairs], edges.num_targets, **columns).with_(directed=False)


def dense(edges, weight=None):
    A = torch.zeros(edges.num_targets, edges.num_sources, dtype=torch.float64)
    weight = torch.ones(len(edges), dtype=torch.float64) if weight is None else weight.double()
    return A.index_put_((edges.target, edges.source), weight, accumulate=True)


# ── what holds for every layer ──


@pytest.mark.parametrize("name", LAYERS)
@settings(max_examples=8, deadline=None)
@given(seed=st.integers(0, 10**6))
def test_nodes_in_another_order_are_the_same_nodes(name, seed):
    layer, (x, edges) = made(name), drawn(seed)
    order = torch.randperm(len(x), generator=torch.Generator().manual_seed(seed))
    place = order.argsort()
    torch.testing.assert_close(layer(x[order], moved(edges, place)), layer(x, edges)[order], rtol=1e-8, atol=1e-8)


@pytest.mark.parametrize("name", LAYERS)
@settings(max_examples=5, deadline=None)
@given(sizes=st.lists(st.integers(1, 6), min_size=2, max_size=4))
def test_a_union_is_its_graphs_one_by_one(name, sizes):
    layer, graphs = made(name), [Graph(*drawn(k, n, 5 if n > 1 else 0)) for k, n in enumerate(sizes)]
    both = Graph.union(graphs)
    alone = torch.cat([layer(g.x, g.edges) for g in graphs])
    torch.testing.assert_close(layer(both.x, both.edges), alone, rtol=1e-8, atol=1e-8)


@pytest.mark.parametrize("name", LAYERS)
def test_no_edges_and_one_node(name):
    layer = made(name)
    none = torch.zeros(2, 0, dtype=torch.long)
    for n in (1, 3):
        edges = Edges.of(none, n, directed=False, features=torch.zeros(0, 3).double(), relation=none[0])
        assert layer(torch.randn(n, F).double(), edges).isfinite().all()


def some(edges, asked):
    """The edges that end in `asked`, those nodes first."""
    nodes = torch.cat([asked, torch.tensor([n for n in range(edges.num_targets) if n not in asked])])
    kept = torch.cat([torch.arange(edges.start[n], edges.start[n + 1]) for n in asked])
    place = nodes.argsort()
    columns = {name: None if (c := getattr(edges, name)) is None else c[kept] for name in ("weight", "features")}
    counts = edges.start.diff()[asked]
    start = torch.cat([counts.new_zeros(1), counts.cumsum(0)])
    strong = None if edges.weight is None else edges.strength[nodes]
    return nodes, Edges(place[edges.source[kept]], start, len(nodes), relation=edges.relation[kept],
                        full_degree=edges.degree[nodes], full_strength=strong, directed=False, **columns)  # fmt: skip


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("name", [name for name in LAYERS if name not in WHOLE])
def test_some_nodes_have_what_they_have_in_the_whole_graph(name, weighted):
    weight = torch.rand(16, generator=torch.Generator().manual_seed(1), dtype=torch.float64) if weighted else None
    layer, (x, edges) = made(name), drawn(3, weight=weight)
    asked = torch.tensor([5, 8, 0])
    nodes, block = some(edges, asked)
    torch.testing.assert_close(layer(x[nodes], block), layer(x, edges)[asked])


@pytest.mark.parametrize("name", sorted(WHOLE))
def test_layers_of_whole_graphs_say_so(name):
    x, edges = drawn(3)
    nodes, block = some(edges, torch.tensor([5, 8, 0]))
    with pytest.raises(UserError, match="whole graph"):
        made(name)(x[nodes], block)


@pytest.mark.parametrize("name", LAYERS)
def test_gradients_are_those_of_differences(name):
    layer, (x, edges) = made(name), drawn(1)
    if isinstance(layer, FixedPoint):
        layer.num_steps = 4
    check_gradients(Asked(layer, edges), x, tolerance=1e-5, most=20)


class Asked(nn.Module):
    def __init__(self, layer, edges):
        super().__init__()
        self.layer, self.edges = layer, edges

    def forward(self, x):
        return self.layer(x, self.edges)


@pytest.mark.parametrize("name", ["kipf", "kipf after", "chebyshev", "polynomial", "spectral"])
def test_directed_edges_are_refused_where_there_must_be_none(name):
    x, edges = drawn(0)
    with pytest.raises(UserError, match="without directions"):
        made(name)(x, edges.with_(directed=True))


@pytest.mark.parametrize("name", ["gat", "gat v2", "gine"])
def test_edges_without_the_features_that_are_read(name):
    x, edges = drawn(0, features=False)
    with pytest.raises(UserError, match="3 numbers each"):
        made(name)(x, edges)


# ── dense formulas ──


def test_weights_of_edges_are_the_matrices_of_the_text():
    _, edges = drawn(2, weight=torch.rand(16, dtype=torch.float64))
    A, eye = dense(edges, edges.weight), torch.eye(9, dtype=torch.float64)
    d = A.sum(1)
    root = torch.diag(torch.where(d > 0, d, torch.inf) ** -0.5)
    torch.testing.assert_close(dense(edges, kipf_after(edges, torch.float64)), root @ A @ root)
    torch.testing.assert_close(dense(edges, mean_weights(edges, torch.float64)), A / d.where(d > 0, 1.0)[:, None])
    looped, w = kipf(edges, torch.float64)
    first = torch.diag((d + 1) ** -0.5)
    torch.testing.assert_close(dense(looped, w), first @ (A + eye) @ first)
    assert float(torch.linalg.matrix_norm(dense(looped, w), 2)) <= 1 + 1e-12


@pytest.mark.parametrize("combine", ["together", "diagonal", "separate"])
@pytest.mark.parametrize("name", ["sum", "mean", "kipf", "max", "min", "std"])
def test_message_passing_is_its_dense_formula(name, combine):
    x, edges = drawn(4)
    torch.manual_seed(0)
    layer = MessagePassing(F, D, name, combine).double()
    if combine == "diagonal":
        nn.init.constant_(layer.epsilon, 0.3)
    lists = [x[edges.source[edges.start[i] : edges.start[i + 1]]] for i in range(len(x))]
    d = edges.degree.double()
    agg = torch.zeros_like(x)
    for i, m in enumerate(lists):
        if len(m):
            own = {"sum": m.sum(0), "mean": m.mean(0), "max": m.amax(0), "min": m.amin(0)}
            own["std"] = m.std(0, unbiased=False)
            own["kipf"] = (m / (d[i] * d[edges.source[edges.start[i] : edges.start[i + 1]]]).sqrt()[:, None]).sum(0)
            agg[i] = own[name]
    wanted = {
        "together": lambda: layer.map(agg + x),
        "diagonal": lambda: layer.map(agg + 1.3 * x),
        "separate": lambda: layer.map(agg) + layer.own(x),
    }[combine]()
    torch.testing.assert_close(layer(x, edges), wanted)


def test_a_polynomial_filter_is_a_function_of_the_spectrum():
    x, edges = drawn(5)
    eigenvalues, U = spectrum(edges)
    for kind in ("chebyshev", "polynomial"):
        layer = PolynomialFilter(F, D, 4, kind).double()
        y = layer.bias + torch.zeros(9, D, dtype=torch.float64)
        for k, omega in enumerate(layer.maps):
            at = torch.cos(k * torch.arccos((eigenvalues - 1).clamp(-1, 1))) if kind == "chebyshev" else (
                (1 - eigenvalues) ** k
            )  # fmt: skip
            y = y + U @ torch.diag(at) @ U.T @ omega(x)
        torch.testing.assert_close(layer(x, edges), y, rtol=1e-6, atol=1e-6)


def test_a_spectral_filter_that_is_linear_in_the_spectrum_is_the_laplacian():
    x, edges = drawn(5)
    layer = SpectralFilter(F, F, 3).double()
    with torch.no_grad():
        layer.points.copy_(torch.stack([k * torch.eye(F) for k in range(3)]))
    L = torch.eye(9, dtype=torch.float64) - dense(edges, kipf_after(edges, torch.float64))
    torch.testing.assert_close(layer(x, edges), L @ x)


def test_relations_are_a_map_each():
    x, edges = drawn(6)
    layer = RelationalConvolution(F, D, 3, num_bases=2).double()
    V = layer.bases.weight.unflatten(1, (2, F)).transpose(0, 1)  # (B, D, F)
    y = layer.own(x)
    for r in range(3):
        A = dense(edges, (edges.relation == r).double())
        count = A.sum(1).clamp(min=1)
        y = y + (A @ x / count[:, None]) @ torch.einsum("b,bdf->df", layer.shares[r], V).T
    torch.testing.assert_close(layer(x, edges), y)


def test_a_contraction_has_one_fixed_point():
    x, edges = drawn(7)
    torch.manual_seed(0)
    layer = FixedPoint(F, D, 0.8, 120).double()
    nn.init.normal_(layer.recurrent, std=5.0)
    ends = [layer(x, edges, first) for first in (None, torch.ones(9, D).double(), torch.randn(9, D).double())]
    for end in ends[1:]:
        torch.testing.assert_close(end, ends[0], rtol=0, atol=1e-9)
    assert float(layer.change(ends[0], x, edges)) < 1e-9
    layer.num_steps = 1
    a, b = (torch.rand(9, D).double() for _ in range(2))
    moved_by = (layer(x, edges, a) - layer(x, edges, b)).detach().abs().max()
    assert float(moved_by) <= 0.8 * float((a - b).abs().max())


def test_distances_are_steps():
    path = Edges.of(torch.tensor([[0, 1, 2], [1, 2, 3]]), 5, directed=False)
    far = distances(path, 2)
    assert far[0].tolist() == [0, 1, 2, 3, 3]
    assert far[4].tolist() == [3, 3, 3, 3, 0]


def test_a_transformer_of_one_hop_is_attention_along_edges():
    x, edges = drawn(8)
    block = made("transformer")
    block.num_hops, block.hops = 1, nn.Parameter(torch.zeros(2, 2).double())
    q, k, v = block.attention.queries_keys_values(block.before_attention(x)[None])
    scores = (q @ k.transpose(-1, -2) / (F // 2) ** 0.5)[0]
    seen = (dense(edges) + torch.eye(9)) > 0
    out = scores.masked_fill(~seen, -torch.inf).softmax(-1) @ v[0]
    h = x + block.attention.out(out.transpose(0, 1).flatten(1))
    torch.testing.assert_close(block(x, edges), h + block.feed(block.before_feed(h)))


def test_norms_over_graphs():
    h, first = torch.randn(7, 3).double(), torch.tensor([0, 4, 7])
    for part in (slice(0, 4), slice(4, 7)):
        y = GraphNorm(3).double()(h, first)[part]
        torch.testing.assert_close(y.mean(0), torch.zeros(3).double(), atol=1e-9, rtol=0)
        z = PairNorm()(h, first)[part]
        torch.testing.assert_close(z.square().sum(1).mean(), torch.ones(()).double())


# ── PyG, with the same weights ──

nn_pyg = pytest.importorskip("torch_geometric.nn")


def put(ours, theirs):
    with torch.no_grad():
        theirs.copy_(ours.reshape(theirs.shape))


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("wide", [2, 8])
def test_gcn_is_that_of_pyg(seed, wide):
    x, edges = drawn(seed, weight=torch.rand(16, dtype=torch.float64))
    ours = GraphConvolution(F, wide).double()
    theirs = nn_pyg.GCNConv(F, wide, add_self_loops=False).double()  # it has an old loop in place of the new one
    put(ours.map.weight, theirs.lin.weight), put(ours.map.bias, theirs.bias)
    looped = edges.with_loops()
    torch.testing.assert_close(ours(x, edges), theirs(x, looped.pairs, looped.weight), rtol=1e-5, atol=1e-8)


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("kind", ["mean", "max"])
def test_sage_is_that_of_pyg(seed, kind):
    x, edges = drawn(seed)
    ours = SageLayer(F, D, kind).double()
    theirs = nn_pyg.SAGEConv(F, D, aggr=kind, project=kind == "max").double()
    put(ours.map.weight, theirs.lin_l.weight), put(ours.map.bias, theirs.lin_l.bias)
    put(ours.own.weight, theirs.lin_r.weight)
    if kind == "max":
        put(ours.pool.weight, theirs.lin.weight), put(ours.pool.bias, theirs.lin.bias)
    torch.testing.assert_close(ours(x, edges), theirs(x, edges.pairs), rtol=1e-5, atol=1e-8)


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("average", [False, True])
@pytest.mark.parametrize("featured", [False, True])
@pytest.mark.parametrize("version", [1, 2])
def test_attention_is_that_of_pyg(seed, average, featured, version):
    x, edges = drawn(seed)
    ours = GraphAttention(F, D, 3, version, 3 if featured else 0, average).double()
    nn.init.normal_(ours.bias)
    kind = nn_pyg.GATConv if version == 1 else nn_pyg.GATv2Conv
    theirs = kind(F, ours.dim_head, 3, concat=not average, edge_dim=3 if featured else None, add_self_loops=False)
    theirs = theirs.double()
    put(ours.bias, theirs.bias)
    if version == 1:
        put(ours.value.weight, theirs.lin.weight)
        put(ours.from_source, theirs.att_src), put(ours.from_target, theirs.att_dst)
        if featured:
            put(ours.from_edge, theirs.att_edge)
    else:
        put(ours.value.weight, theirs.lin_l.weight), put(ours.query.weight, theirs.lin_r.weight)
        nn.init.zeros_(theirs.lin_l.bias), nn.init.zeros_(theirs.lin_r.bias)
        put(ours.from_source, theirs.att)
    if featured:
        put(ours.edge.weight, theirs.lin_edge.weight)
    looped = edges.with_loops()
    wanted = theirs(x, looped.pairs, looped.features if featured else None)
    torch.testing.assert_close(ours(x, edges), wanted, rtol=1e-5, atol=1e-8)


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("featured", [False, True])
def test_gin_is_that_of_pyg(seed, featured):
    x, edges = drawn(seed)
    ours = IsomorphismLayer(F, D, 3 if featured else 0).double()
    nn.init.constant_(ours.epsilon, 0.2)
    if featured:
        theirs = nn_pyg.GINEConv(ours.network, eps=0.2, edge_dim=3).double()
        put(ours.edge.weight, theirs.lin.weight), put(ours.edge.bias, theirs.lin.bias)
        wanted = theirs(x, edges.pairs, edges.features)
    else:
        wanted = nn_pyg.GINConv(ours.network, eps=0.2).double()(x, edges.pairs)
    torch.testing.assert_close(ours(x, edges), wanted, rtol=1e-5, atol=1e-8)


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("terms", [1, 2, 4])
def test_chebyshev_is_that_of_pyg(seed, terms):
    x, edges = drawn(seed)
    pairs = edges.pairs[:, edges.source != edges.target]  # PyG's Laplacian has no loops
    edges = Edges.of(pairs, 9).with_(directed=False)
    ours = PolynomialFilter(F, D, terms).double()
    theirs = nn_pyg.ChebConv(F, D, terms).double()
    put(ours.bias, theirs.bias)
    for omega, lin in zip(ours.maps, theirs.lins, strict=True):
        put(omega.weight, lin.weight)
    # an isolated node has a Laplacian of 1 there and here, hence L - I of 0
    torch.testing.assert_close(ours(x, edges), theirs(x, edges.pairs), rtol=1e-5, atol=1e-8)


def test_weights_below_zero_are_no_degrees():
    pairs = torch.tensor([[0, 1], [1, 2]])
    edges = Edges.of(pairs, num_nodes=3, directed=False, weight=torch.tensor([1.0, -0.5]))
    for layer in (GraphConvolution(2, 2), SageLayer(2, 2)):
        with pytest.raises(UserError, match="weights of edges must be at least 0 .* Got -0.5"):
            layer(torch.ones(3, 2), edges)
    assert IsomorphismLayer(2, 2)(torch.ones(3, 2), edges).isfinite().all()  # a sum divides by nothing
