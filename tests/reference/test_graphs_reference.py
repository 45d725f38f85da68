"""Graphs spelt out, against numpy, networkx and PyG's layers on random graphs."""

import math
from itertools import combinations

import networkx as nx
import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from leadline.reference import adjacency as a
from leadline.reference import colours as c
from leadline.reference import edge_graph as e
from leadline.reference import message_passing as m
from leadline.reference import sets

SEEDS = st.integers(0, 10_000)


def drawn(*shape, seed=0):
    return np.random.default_rng(seed).standard_normal(shape)


def some_graph(seed, nodes=7, p=0.4):
    g = nx.gnp_random_graph(nodes, p, seed=seed)
    return list(g.edges), a.adjacency(nodes, g.edges)


@given(SEEDS)
@settings(deadline=None, max_examples=20)
def test_matrices_are_networkx_s(seed):
    pairs, A = some_graph(seed)
    g = nx.Graph()
    g.add_nodes_from(range(7))
    g.add_edges_from(pairs)
    assert np.array_equal(A, nx.to_numpy_array(g))
    assert a.degrees(A) == [d for _, d in sorted(g.degree)]
    assert np.allclose(a.laplacian(A), nx.laplacian_matrix(g).toarray())
    far = dict(nx.all_pairs_shortest_path_length(g))
    assert a.distances(A) == [[far[i].get(j, math.inf) for j in range(7)] for i in range(7)]
    assert np.allclose(a.walks(A, 5), np.linalg.matrix_power(np.array(A), 5))
    x = drawn(7, seed=seed)
    assert a.energy(A, x) == pytest.approx(x @ np.array(a.laplacian(A)) @ x)


@given(SEEDS)
@settings(deadline=None, max_examples=10)
def test_eigenvectors_are_those_of_numpy(seed):
    _, A = some_graph(seed)
    for L in (a.laplacian(A), a.kipf(A), a.kipf(A, loops="last")):
        values, U = a.eigen(L)
        assert np.allclose(values, np.linalg.eigvalsh(L), atol=1e-10)
        U = np.array(U)
        assert np.allclose(U @ U.T, np.eye(7), atol=1e-10) and np.allclose(U.T * values @ U, L, atol=1e-10)


def test_a_walk_by_hand_is_counted():
    pairs = [(0, 1), (1, 2), (2, 0), (2, 3)]
    A = a.adjacency(4, pairs)
    near = {i: [j for j in range(4) if A[i][j]] for i in range(4)}

    def count(i, j, left):
        return int(i == j) if left == 0 else sum(count(k, j, left - 1) for k in near[i])

    for length in range(6):
        assert a.walks(A, length) == [[count(i, j, length) for j in range(4)] for i in range(4)]


@given(SEEDS, st.sampled_from(["sum", "mean", "kipf", "max", "mean with self"]))
@settings(deadline=None, max_examples=30)
def test_node_by_node_is_the_matrix_form(seed, how):
    _, A = some_graph(seed)
    H, A_ = drawn(7, 3, seed=seed), np.array(A)
    d = A_.sum(1)
    inverse = np.divide(1.0, d, out=np.zeros(7), where=d > 0)
    found = np.array(m.aggregate(A, H.tolist(), how))
    if how == "max":
        expected = np.array([H[A_[i] > 0].max(0) if d[i] else np.zeros(3) for i in range(7)])
    else:
        expected = {
            "sum": A_ @ H,
            "mean": inverse[:, None] * (A_ @ H),
            "kipf": np.sqrt(inverse)[:, None] * (A_ @ (np.sqrt(inverse)[:, None] * H)),
            "mean with self": (A_ + np.eye(7)) @ H / (1 + d)[:, None],
        }[how]
    assert np.allclose(found, expected)


@given(SEEDS)
@settings(deadline=None, max_examples=10)
def test_forms_of_a_layer_agree(seed):
    _, A = some_graph(seed)
    H, b, W, V = (drawn(*s, seed=seed + k).tolist() for k, s in enumerate([(7, 3), (2,), (2, 3), (2, 3)]))
    assert np.allclose(m.plain(A, H, b, W, epsilon=0.3), m.plain_matrix(A, H, b, W, epsilon=0.3))
    assert np.allclose(m.separate(A, H, b, W, W), m.plain(A, H, b, W))
    two = np.maximum(np.array(b) + np.array(A) @ H @ np.array(W).T + np.array(H) @ np.array(V).T, 0)
    assert np.allclose(m.separate(A, H, b, W, V), two)
    own = m.residual(A, H, [0.0] * 3, drawn(3, 3, seed=seed).tolist())
    wide = m.residual(A, H, [0.0] * 3, drawn(3, 3, seed=seed).tolist(), joined=True)
    assert np.allclose(np.array(wide)[:, :3] + np.array(wide)[:, 3:], own)


def test_layers_are_pyg_s():
    from torch_geometric import nn as pyg

    pairs, A = some_graph(3, 9)
    both = torch.tensor([*pairs, *((j, i) for i, j in pairs)]).T
    H = torch.from_numpy(drawn(9, 4))
    same = lambda found, expected: torch.testing.assert_close(torch.tensor(found, dtype=H.dtype), expected)  # noqa: E731
    linear = lambda z: z  # noqa: E731
    with torch.no_grad():
        layer = pyg.GCNConv(4, 3).double()
        same(m.gcn(A, H.tolist(), layer.bias.tolist(), layer.lin.weight.tolist(), a=linear), layer(H, both))
        layer = pyg.SAGEConv(4, 3).double()
        parts = (layer.lin_l.bias.tolist(), layer.lin_l.weight.tolist(), layer.lin_r.weight.tolist())
        same(m.separate(A, H.tolist(), *parts, how="mean", a=linear), layer(H, both))
        layer = pyg.ChebConv(4, 3, 3).double()
        omegas = [lin.weight.tolist() for lin in layer.lins]
        same(m.chebyshev(A, H.tolist(), layer.bias.tolist(), omegas), layer(H, both, lambda_max=torch.tensor(2.0)))
        layer = pyg.GATConv(4, 3, bias=False).double()
        phi = [*layer.att_dst.flatten().tolist(), *layer.att_src.flatten().tolist()]
        same(m.attention(A, H.tolist(), [0.0] * 3, layer.lin.weight.tolist(), phi, a=linear), layer(H, both))
        map_ = torch.nn.Linear(4, 3).double()
        layer = pyg.GINConv(map_, eps=0.5)
        same(m.gin(A, H.tolist(), lambda z: map_(torch.tensor(z, dtype=H.dtype)).tolist(), 0.5), layer(H, both))


@given(SEEDS)
@settings(deadline=None, max_examples=10)
def test_a_polynomial_is_its_spectral_form(seed):
    _, A = some_graph(seed)
    L, H, alphas = a.laplacian(A), drawn(7, 2, seed=seed).tolist(), drawn(4, seed=seed).tolist()
    there = m.spectral(*a.eigen(L), H, lambda v: sum(alpha * v**k for k, alpha in enumerate(alphas)))
    assert np.allclose(m.polynomial(L, H, alphas), there, atol=1e-8)


def test_attention_looks_at_neighbours_alone_and_at_all_of_them():
    _, A = some_graph(5)
    W = np.array(m.attention_weights(A, drawn(7, 3).tolist(), [0.0] * 2, drawn(2, 3).tolist(), drawn(4).tolist()))
    may = np.array(A) + np.eye(7) > 0
    assert np.allclose(W.sum(1), 1) and (W[~may] == 0).all() and (W[may] > 0).all()
    one = m.dot_attention(A, [[0.0]] * 7, [[0.0]] * 7, np.eye(7).tolist())
    assert np.allclose(one, may / may.sum(1, keepdims=True))


# ── edge graphs ──


@given(SEEDS)
@settings(deadline=None, max_examples=15)
def test_an_edge_graph_leads_back(seed):
    g = nx.gnp_random_graph(6, 0.45, seed=seed)
    pairs = list(g.edges)
    if not pairs:
        return
    B = e.incidence(6, pairs)
    assert np.array_equal(e.edge_matrix(B), a.adjacency(len(pairs), e.edge_graph(pairs)))
    assert np.array_equal(
        np.array(B) @ np.array(B).T - np.diag(a.degrees(a.adjacency(6, pairs))), a.adjacency(6, pairs)
    )
    line = nx.line_graph(g)
    assert len(e.edge_graph(pairs)) == line.number_of_edges()
    found = e.from_edge_graph(len(pairs), e.edge_graph(pairs))
    assert any(e.same_graph(pairs, other) for other in found)
    parts = [g.subgraph(part) for part in nx.connected_components(g)]
    if not any(e.same_graph(list(part.edges), shape) for part in parts for shape in (TRIANGLE, STAR)):
        assert len(found) == 1


TRIANGLE, STAR = [(0, 1), (1, 2), (2, 0)], [(0, 1), (0, 2), (0, 3)]


def test_the_triangle_and_the_star_are_the_one_exception_and_claws_have_no_graph():
    found = e.from_edge_graph(3, e.edge_graph(TRIANGLE))
    assert len(found) == 2 and e.same_graph(found[0], STAR) and e.same_graph(found[1], TRIANGLE)
    assert e.from_edge_graph(4, STAR) == []


@given(SEEDS)
@settings(deadline=None, max_examples=20)
def test_graphs_are_the_same_where_networkx_says_so(seed):
    first, second = nx.gnm_random_graph(5, 5, seed=seed), nx.gnm_random_graph(5, 5, seed=seed + 1)
    for g in (first, second):
        g.remove_nodes_from(list(nx.isolates(g)))
    assert e.same_graph(list(first.edges), list(second.edges)) == nx.is_isomorphic(first, second)


# ── colours and sets ──


@given(SEEDS)
@settings(deadline=None, max_examples=15)
def test_colours_of_orders_and_of_other_graphs(seed):
    _, A = some_graph(seed)
    order = np.random.default_rng(seed).permutation(7).tolist()
    assert not c.told_apart(A, a.permuted(A, order))
    other = nx.gnp_random_graph(7, 0.4, seed=seed + 1)
    B = a.adjacency(7, other.edges)
    if c.told_apart(A, B):
        assert not nx.is_isomorphic(nx.from_numpy_array(np.array(A)), other)


def test_two_triangles_have_the_colours_of_a_hexagon():
    two, ring = (
        a.adjacency(6, [*TRIANGLE, *((i + 3, j + 3) for i, j in TRIANGLE)]),
        a.adjacency(6, nx.cycle_graph(6).edges),
    )
    assert not c.told_apart(two, ring)
    assert c.told_apart(two, ring, [0, 0, 0, 1, 1, 1], [0, 1, 0, 1, 0, 1])
    assert len(set(c.colours(a.adjacency(5, nx.path_graph(5).edges)))) == 3


def test_sets_know_no_order():
    x, W = drawn(4, 2).tolist(), drawn(3, 2)
    phi, rho = (lambda v: np.tanh(W @ v).tolist()), (lambda s: [sum(s) ** 2])
    for how in ("sum", "mean", "max"):
        here = sets.deep_set(x, phi, rho, how)
        assert here == pytest.approx(sets.deep_set(x[::-1], phi, rho, how))
        each = sets.deep_set_each(x, phi, rho, how)
        assert np.allclose(each[::-1], sets.deep_set_each(x[::-1], phi, rho, how))
    first = lambda rows: [rows[0][0] * rows[1][1]]  # noqa: E731
    expected = np.mean([p[0] * q[1] for p, q in [*combinations(x, 2), *((q, p) for p, q in combinations(x, 2))]])
    assert sets.janossy(x, first) == pytest.approx([expected])
