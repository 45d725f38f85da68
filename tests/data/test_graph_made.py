"""Graphs that are made up, and graphs of points, pixels, sets and edges."""

from __future__ import annotations

import networkx as nx
import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from networkx.generators.atlas import graph_atlas_g

import leadline as ll
from leadline.data import (
    complete_graph,
    edge_graph,
    graph_of_edge_graph,
    incidence,
    nearest,
    picture_graph,
    point_graph,
)
from leadline.data.graph_made import chances
from leadline.errors import DataError, ShapeError, UserError


def test_the_club_is_the_one_that_is_known():
    theirs, data = nx.karate_club_graph(), ll.data.karate()
    graph = data.inputs.graph
    ours = {tuple(sorted(pair)) for pair in graph.edges.pairs.T.tolist()}
    assert ours == {tuple(sorted(pair)) for pair in theirs.edges} and len(ours) == 78
    side = {int(row): data.target.classes[y] for _, s in data.splits() for row, y in zip(s.x[:, 0], s.y)}
    clubs = {"instructor": "Mr. Hi", "officer": "Officer"}
    assert all(clubs[side[node]] == own["club"] for node, own in theirs.nodes(data=True))
    assert data.train.x[:, 0].tolist() == [0, 33] and data.inputs.ids[0] == "1" and len(data.test) == 32


def test_communities_are_as_they_are_asked_for():
    data = ll.data.communities(num=2000, num_classes=4, degree=12.0, same=0.7, signal=1.5, seed=3)
    graph = data.inputs.graph
    y = torch.empty(2000, dtype=torch.int64)
    for _, split in data.splits():
        y[split.x[:, 0]] = split.y
    assert torch.bincount(y).tolist() == [500] * 4 and len(graph.edges) == 2000 * 12
    same = (y[graph.edges.source] == y[graph.edges.target]).float().mean()
    assert abs(float(same) - 0.7) < 4 * (0.7 * 0.3 / 12_000) ** 0.5
    assert len(graph.edges.pairs.unique(dim=1).T) == 2000 * 12 and bool(
        (graph.edges.source != graph.edges.target).all()
    )
    with pytest.raises(UserError, match="degree must"):
        ll.data.communities(num=100, degree=90.0)
    with pytest.raises(UserError, match="dim_input must"):
        ll.data.communities(num_classes=5, dim_input=3)


def test_what_theory_says_of_two_communities_is_what_happens():
    """A straight line in a node's own features, and in their mean over its neighbours, each by its known direction."""
    signal, degree, same = 0.5, 10.0, 0.8
    rng = np.random.default_rng(0)
    y = np.arange(20_000) % 2
    side = 2.0 * y - 1
    x = signal * side + rng.standard_normal(len(y))
    own = np.mean((x > 0) == (y == 1))
    which = np.where(rng.random((len(y), 10)) < same, side[:, None], -side[:, None])
    near = signal * which + rng.standard_normal(which.shape)
    company = np.mean(((x + near.sum(1)) > 0) == (y == 1))
    alone, together = chances(signal, degree, same)
    assert abs(own - alone) < 0.01 and abs(company - together) < 0.01


@pytest.mark.parametrize("name", ["molecules", "random_graphs"])
def test_many_graphs_are_within_themselves(name):
    graph = ll.data.load(name, num=60).inputs.graph
    assert graph.num_graphs == 60
    assert torch.equal(graph.of_node[graph.edges.source], graph.of_node[graph.edges.target])


def test_no_atom_has_more_bonds_than_it_can():
    data = ll.data.molecules(num=60)
    most = torch.tensor([4, 1, 3, 2])  # C, H, N, O
    element = data.inputs.graph.x.argmax(1)
    assert torch.equal(data.inputs.graph.edges.degree, most[element])


def test_nodes_alone_have_the_same_rows():
    data = ll.data.communities(num=100)
    alone = ll.data.nodes_alone(data)
    assert torch.equal(alone.test.x, data.inputs.graph.x[data.test.x[:, 0]]) and torch.equal(alone.test.y, data.test.y)
    with pytest.raises(UserError, match="nodes_alone must be given a graph whose nodes are asked"):
        ll.data.nodes_alone(ll.data.moons(num=40))


def test_models_of_rows_and_of_graphs_are_told_apart():
    with pytest.raises(UserError, match="MLP must be given rows of numbers. Got questions about a graph"):
        ll.models.build("MLP", ll.data.karate(), 1)
    with pytest.raises(UserError, match="GCN must be given a graph. Got rows of shape"):
        ll.models.build("GCN", ll.data.moons(num=40), 1)


@settings(max_examples=60, deadline=None)
@given(st.integers(2, 9), st.floats(0, 1), st.integers(0, 10_000))
def test_the_edge_graph_is_the_product_of_incidences_and_is_undone(count, chance, seed):
    graph = nx.gnp_random_graph(count, chance, seed=seed)
    if not graph.number_of_edges():
        return
    pairs = torch.tensor(list(graph.edges)).T
    joined, B = edge_graph(pairs, count), incidence(pairs, count)
    A_edge = torch.zeros(pairs.shape[1], pairs.shape[1])
    A_edge[joined[0], joined[1]] = A_edge[joined[1], joined[0]] = 1
    assert torch.equal(B.T @ B - 2 * torch.eye(pairs.shape[1]), A_edge)
    A = torch.from_numpy(nx.to_numpy_array(graph)).float()
    assert torch.equal(B @ B.T - A.sum(1).diag(), A)
    order = {frozenset(edge): k for k, edge in enumerate(graph.edges)}
    theirs = {frozenset((order[frozenset(a)], order[frozenset(b)])) for a, b in nx.line_graph(graph).edges}
    assert {frozenset(pair) for pair in joined.T.tolist()} == theirs
    back = graph_of_edge_graph(joined, pairs.shape[1])
    assert torch.equal(edge_graph(back, int(back.max()) + 1), joined)
    found, own = nx.Graph(back.T.tolist()), nx.Graph(list(graph.edges))
    triangles = [c for c in nx.connected_components(own) if len(c) == 3 and own.subgraph(c).number_of_edges() == 3]
    assert nx.is_isomorphic(found, own) or triangles, (
        "Whitney: a triangle and a star of three alone share an edge graph"
    )


def test_what_is_no_edge_graph_is_refused():
    claw = torch.tensor([[0, 0, 0], [1, 2, 3]])
    with pytest.raises(DataError, match="pairs must be the edge graph of a graph"):
        graph_of_edge_graph(claw, 4)
    with pytest.raises(DataError, match="Got a loop"):
        edge_graph(torch.tensor([[0], [0]]), 1)
    with pytest.raises(DataError, match="an edge that comes twice"):
        edge_graph(torch.tensor([[0, 1], [1, 0]]), 2)
    assert edge_graph(torch.zeros(2, 0, dtype=torch.int64), 3).shape == (2, 0)
    assert graph_of_edge_graph(torch.zeros(2, 0, dtype=torch.int64), 2).tolist() == [[0, 2], [1, 3]]


def test_the_nearest_points():
    points = torch.rand(40, 3, generator=torch.Generator().manual_seed(0))
    pairs = nearest(points, 5)
    far = torch.cdist(points, points).fill_diagonal_(torch.inf)
    for node in range(40):
        own = pairs[0][pairs[1] == node]
        assert set(own.tolist()) == set(far[node].topk(5, largest=False).indices.tolist())
    graph = point_graph(points, 5)
    assert torch.equal(graph.x, points) and int(graph.edges.degree.min()) >= 5
    assert len(point_graph(points, 5, directed=True).edges) == 200
    with pytest.raises(UserError, match="k must be"):
        nearest(points, 40)
    with pytest.raises(ShapeError, match="points must be finite"):
        nearest(torch.tensor([[float("nan")], [0.0]]), 1)


def test_pixels_and_sets():
    picture = torch.rand(2, 4, 5)
    graph = picture_graph(picture)
    assert graph.edges.degree.view(4, 5)[1, 1] == 8 and graph.edges.degree.view(4, 5)[0, 0] == 3
    assert torch.equal(graph.x[7], picture[:, 1, 2])
    theirs = nx.Graph([(a, b) for a, b in graph.edges.pairs.T.tolist()])
    assert theirs.number_of_edges() == 4 * 4 + 3 * 5 + 2 * 3 * 4
    assert len(complete_graph(torch.zeros(5, 1)).edges) == 20


def test_an_edge_graph_is_known_as_one_exactly_where_it_is():
    """All 995 connected graphs of two to seven nodes: those that are edge graphs are undone, the others refused."""
    undone = 0
    for part in graph_atlas_g():
        if part.number_of_nodes() < 2 or not nx.is_connected(part):
            continue
        pairs, count = torch.tensor(list(part.edges)).T, part.number_of_nodes()
        try:
            nx.inverse_line_graph(part)
        except nx.NetworkXError:
            with pytest.raises(DataError, match="pairs must be the edge graph of a graph"):
                graph_of_edge_graph(pairs, count)
            continue
        back = graph_of_edge_graph(pairs, count)
        found = {frozenset(pair) for pair in edge_graph(back, int(back.max()) + 1).T.tolist()}
        assert found == {frozenset(pair) for pair in part.edges}
        undone += 1
    assert undone == 129
