"""Layers on graphs, against their twins that are spelt out; isolated nodes, loops and weights among the graphs."""

import networkx as nx
import pytest
import torch
from torch import nn

from leadline.data.edges import Edges
from leadline.data.graph import Graph
from leadline.layers.fixed_point import FixedPoint
from leadline.layers.graph_attention import GraphAttention
from leadline.layers.graph_convolution import GraphConvolution
from leadline.layers.graph_filters import PolynomialFilter, SpectralFilter, spectrum
from leadline.layers.graph_isomorphism import IsomorphismLayer
from leadline.layers.graph_sage import SageLayer
from leadline.layers.graph_stack import GraphStack
from leadline.layers.message_passing import MessagePassing
from leadline.layers.segments import over
from leadline.lens.on_graphs import dense
from leadline.reference import adjacency, message_passing

N, D, O = 11, 3, 5  # noqa: E741


def drawn(seed=0, weighted=False):
    g = nx.gnp_random_graph(N, 0.25, seed=seed)
    g.remove_edges_from(list(g.edges(10)))  # node 10 is alone
    pairs = torch.tensor(list(g.edges)).T
    weight = torch.rand(pairs.shape[1], dtype=torch.float64) + 0.5 if weighted else None
    edges = Edges.of(pairs, N, directed=False, weight=weight)
    x = torch.randn(N, D, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    A = dense(Graph(x, edges)).tolist()
    return x, edges, A


def same(found, expected):
    expected = torch.tensor(expected, dtype=torch.float64)
    torch.testing.assert_close(found.detach(), expected, rtol=1e-10, atol=1e-10)


def plain(z):
    return z


def weights(linear):
    return linear.bias.tolist(), linear.weight.tolist()


GRAPHS = [(seed, weighted) for seed in range(3) for weighted in (False, True)]


@pytest.mark.parametrize("norm, loops", [("kipf", "first"), ("kipf_after", "last")])
@pytest.mark.parametrize("graph", GRAPHS)
@pytest.mark.parametrize("wide", [O, 2])
def test_a_convolution_is_its_matrix(graph, norm, loops, wide):
    x, edges, A = drawn(*graph)
    layer = GraphConvolution(D, wide, norm).double()
    same(layer(x, edges), message_passing.gcn(A, x.tolist(), *weights(layer.map), loops, a=plain))


@pytest.mark.parametrize("how", ["sum", "mean", "max", "kipf"])
@pytest.mark.parametrize("graph", GRAPHS)
def test_message_passing_is_its_sums(graph, how):
    x, edges, A = drawn(*graph)
    layer = MessagePassing(D, O, how).double()
    same(layer(x, edges), message_passing.plain(A, x.tolist(), *weights(layer.map), how, a=plain))
    layer = MessagePassing(D, O, how, "diagonal").double()
    nn.init.constant_(layer.epsilon, 0.3)
    same(layer(x, edges), message_passing.plain(A, x.tolist(), *weights(layer.map), how, a=plain, epsilon=0.3))
    layer = MessagePassing(D, O, how, "separate").double()
    twin = message_passing.separate(A, x.tolist(), *weights(layer.map), layer.own.weight.tolist(), how, a=plain)
    same(layer(x, edges), twin)


@pytest.mark.parametrize("graph", GRAPHS)
def test_graph_sage_is_its_means(graph):
    x, edges, A = drawn(*graph)
    layer = SageLayer(D, O).double()
    own = layer.own.weight.tolist()
    same(layer(x, edges), message_passing.separate(A, x.tolist(), *weights(layer.map), own, "mean", a=plain))
    layer = SageLayer(D, O, "max").double()
    pooled = layer.pool(x).relu().tolist()
    most = message_passing.aggregate(A, pooled, "max")
    same(layer(x, edges), (layer.map(torch.tensor(most, dtype=x.dtype)) + layer.own(x)).tolist())
    layer = SageLayer(D, O, "with_self").double()
    means = message_passing.aggregate(A, x.tolist(), "mean with self")
    same(layer(x, edges), layer.map(torch.tensor(means, dtype=x.dtype)).tolist())


@pytest.mark.parametrize("seed", range(3))
def test_attention_is_softmask(seed):
    x, edges, A = drawn(seed)
    layer = GraphAttention(D, O).double()
    nn.init.normal_(layer.from_source), nn.init.normal_(layer.from_target)
    phi = [*layer.from_target[0].tolist(), *layer.from_source[0].tolist()]
    zero, W = [0.0] * O, layer.value.weight.tolist()
    same(layer(x, edges), message_passing.attention(A, x.tolist(), zero, W, phi, a=plain))


@pytest.mark.parametrize("graph", GRAPHS)
def test_gin_is_its_network_of_sums(graph):
    x, edges, A = drawn(*graph)
    layer = IsomorphismLayer(D, O).double()
    nn.init.constant_(layer.epsilon, -0.4)
    network = lambda z: layer.network(torch.tensor(z, dtype=torch.float64)).tolist()  # noqa: E731
    same(layer(x, edges), message_passing.gin(A, x.tolist(), network, -0.4))


@pytest.mark.parametrize("graph", GRAPHS)
def test_filters_are_their_polynomials_and_their_spectra(graph):
    x, edges, A = drawn(*graph)
    layer = PolynomialFilter(D, O, 4).double()
    omegas = [omega.weight.tolist() for omega in layer.maps]
    same(layer(x, edges), message_passing.chebyshev(A, x.tolist(), layer.bias.tolist(), omegas))
    values, vectors = adjacency.eigen(adjacency.laplacian(A, normalised=True))
    assert torch.allclose(spectrum(edges)[0], torch.tensor(values, dtype=torch.float64), atol=1e-10)
    layer = SpectralFilter(D, 1, num_points=3).double()
    out = layer(x, edges)
    expected = torch.zeros(N, 1, dtype=torch.float64)
    for d in range(D):
        theta = layer.points[:, d, 0].tolist()

        def g(v, theta=theta):
            v = min(max(v, 0.0), 2.0)
            return theta[0] * max(0.0, 1 - v) + theta[1] * (1 - abs(v - 1)) + theta[2] * max(0.0, v - 1)

        column = [[row[d]] for row in x.tolist()]
        expected += torch.tensor(message_passing.spectral(values, vectors, column, g), dtype=torch.float64)
    same(out, expected.tolist())


@pytest.mark.parametrize("residual", ["sum", "concat"])
def test_residuals_are_those_of_the_text(residual):
    x, edges, A = drawn(1)
    stack = GraphStack(lambda a, b: MessagePassing(a, b, "sum", "separate"), D, D, 1, residual=residual).double()
    layer = stack.layers[0]
    nn.init.zeros_(layer.own.weight)
    joined = residual == "concat"
    same(stack(x, (edges,), None), message_passing.residual(A, x.tolist(), *weights(layer.map), joined=joined))


@pytest.mark.parametrize("how", ["mean", "sum", "max"])
def test_read_outs_are_of_each_graph_alone(how):
    x, first = drawn()[0], torch.tensor([0, 4, 5, N])
    same(over(x, first, how), message_passing.read_out(x.tolist(), first.tolist(), how))


def test_a_fixed_point_is_one_of_its_equation():
    x, edges, A = drawn(2)
    layer = FixedPoint(D, 4, 0.8, 200).double()
    h = layer(x, edges)
    mean = torch.tensor(message_passing.aggregate(A, h.tolist(), "mean"), dtype=torch.float64)
    torch.testing.assert_close(h, torch.tanh(layer.map(x) + mean @ layer.matrix().T))
    other = layer(x, edges, first=torch.randn(N, 4, dtype=torch.float64))
    torch.testing.assert_close(h, other)
