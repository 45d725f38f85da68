"""Graphs out of networkx, PyG, GraphML, edge lists, folders and arrays: the same graph each time."""

from __future__ import annotations

import networkx as nx
import numpy as np
import pytest
import torch
from torch_geometric.data import Data as PyGData
from torch_geometric.data import HeteroData

import leadline as ll
from leadline.data.graph_formats import graph_tables, is_graph
from leadline.errors import DataError


def club():
    graph = nx.karate_club_graph()
    for node, own in graph.nodes(data=True):
        own["size"] = float(node % 5)
        own["where"] = [node / 10, 1.0]
    return graph


def named_edges(data):
    ids = data.inputs.ids or tuple(map(str, range(len(data.inputs.graph))))
    return {(ids[a], ids[b]) for a, b in data.inputs.graph.edges.pairs.T.tolist()}


def test_networkx_and_graphml_hold_the_same_graph(tmp_path):
    graph = club()
    data = ll.data.graph(graph, target="club")
    assert named_edges(data) == {(str(a), str(b)) for u, v in graph.edges for a, b in ((u, v), (v, u))}
    assert data.inputs.graph.x.shape == (34, 3) and data.recipe is None
    weights = {(a, b): w for (a, b), w in zip(data.inputs.graph.edges.pairs.T.tolist(), data.inputs.graph.edges.weight)}
    assert all(weights[u, v] == weights[v, u] == w for u, v, w in graph.edges(data="weight"))
    for _, own in graph.nodes(data=True):
        own["where_0"], own["where_1"] = own.pop("where")
    nx.write_graphml(graph, tmp_path / "club.graphml")
    again = ll.data.graph(tmp_path / "club.graphml", target="club")
    order = [again.inputs.input_names.index(name) for name in data.inputs.input_names]
    assert named_edges(again) == named_edges(data)
    assert torch.allclose(again.inputs.graph.x[:, order], data.inputs.graph.x)
    assert torch.allclose(again.inputs.graph.edges.weight, data.inputs.graph.edges.weight)
    assert again.fingerprint == ll.data.load(again.recipe).fingerprint
    assert again.fingerprint == ll.data.load(tmp_path / "club.graphml", target="club").fingerprint
    run = ll.fit(ll.models.build("GCN", data, 1), data, epochs=1, progress=False)
    assert torch.allclose(run.predict(graph_without_club()).mean, run.predict([*map(str, range(34))]).mean, atol=1e-5)


def graph_without_club():
    graph = club()
    for _, own in graph.nodes(data=True):
        del own["club"]
    return graph


def test_a_directed_multigraph_keeps_its_parallel_edges():
    graph = nx.MultiDiGraph()
    graph.add_nodes_from((k, {"x": float(k), "y": "ab"[k % 2]}) for k in range(6))
    graph.add_edges_from([(0, 1, {"kind": "p"}), (0, 1, {"kind": "q"}), (1, 0, {"kind": "p"}), (2, 2, {"kind": "p"})])
    data = ll.data.graph(graph, target="y", relation="kind")
    edges = data.inputs.graph.edges
    assert edges.directed and sorted(edges.pairs.T.tolist()) == [[0, 1], [0, 1], [1, 0], [2, 2]]
    assert sorted(edges.relation.tolist()) == [0, 0, 0, 1]


def test_pyg_data_with_masks():
    torch.manual_seed(0)
    x, y = torch.randn(20, 4), torch.arange(20) % 3
    pairs = torch.randint(20, (2, 30))
    pairs = pairs[:, pairs[0] != pairs[1]]
    both = torch.cat([pairs, pairs.flip(0)], 1).unique(dim=1)
    mask = torch.arange(20)
    theirs = PyGData(
        x=x, edge_index=both, y=y, train_mask=mask < 10, val_mask=(mask >= 10) & (mask < 14), test_mask=mask >= 14
    )
    data = ll.data.graph(theirs)
    assert [len(part) for part in (data.train, data.val, data.test)] == [10, 4, 6] and data.train.x[:, 0].tolist() == [
        *range(10)
    ]
    graph = data.inputs.graph
    assert torch.equal(graph.edges.pairs.unique(dim=1), both.unique(dim=1)) and not graph.edges.directed
    own = (x - x.mean(0)) / x.std(0, unbiased=False)
    assert torch.allclose(graph.x, own, atol=1e-5)
    run = ll.fit(ll.models.build("GCN", data, 3), data, epochs=1, progress=False)
    assert torch.allclose(run.predict(theirs).mean, run.predict([*range(20)]).mean, atol=1e-5)


def test_a_list_of_pyg_graphs_asks_of_each():
    graphs = [
        PyGData(x=torch.ones(n, 1), edge_index=torch.tensor([[*range(n - 1)], [*range(1, n)]]), y=torch.tensor([n % 2]))
        for n in range(3, 15)
    ]
    data = ll.data.graph(graphs)
    assert data.inputs.level == "graph" and data.inputs.graph.num_graphs == 12
    assert data.inputs.graph.bounds.diff().tolist() == [*range(3, 15)]
    answers = {int(row): int(y) for _, s in data.splits() for row, y in zip(s.x[:, 0], s.y)}
    assert answers == {k: (k + 3) % 2 for k in range(12)}


def test_hetero_data():
    theirs = HeteroData()
    theirs["paper"].x, theirs["paper"].y = torch.randn(6, 2), torch.arange(6) % 2
    theirs["author"].x = torch.randn(3, 1)
    theirs["author", "wrote", "paper"].edge_index = torch.tensor([[0, 1, 2, 2], [0, 1, 2, 5]])
    theirs["paper", "cites", "paper"].edge_index = torch.tensor([[0, 1], [1, 2]])
    data = ll.data.graph(theirs, target="y")
    graph = data.inputs.graph
    assert graph.kind.tolist() == [1] * 6 + [0] * 3 and data.inputs.relations == (
        "author wrote paper",
        "paper cites paper",
    )
    assert sorted(zip(graph.edges.pairs.T.tolist(), graph.edges.relation.tolist())) == [
        ([0, 1], 1), ([1, 2], 1), ([6, 0], 0), ([7, 1], 0), ([8, 2], 0), ([8, 5], 0),
    ]  # fmt: skip
    assert sum(len(split) for _, split in data.splits()) == 6


def test_edge_lists_and_folders(tmp_path):
    (tmp_path / "roads.edges").write_text("# from to\n\n" + "\n".join(f"{k} {(k + 1) % 30}" for k in range(30)))
    data = ll.data.graph(tmp_path / "roads.edges", level="links")
    assert data.inputs.level == "edge" and len(data.inputs.graph) == 30 and data.name == "roads"
    assert data.fingerprint == ll.data.load(data.recipe).fingerprint
    (tmp_path / "roads.csv").write_text("from,to\n" + "\n".join(f"{k},{(k + 1) % 30}" for k in range(30)))
    assert len(ll.data.graph(tmp_path / "roads.csv", level="links").inputs.graph) == 30
    (tmp_path / "bad.edges").write_text("1 2\n1 2 3 4\n")
    with pytest.raises(DataError, match="two names, or all two names and a weight. Got 4 words in line 2"):
        ll.data.graph(tmp_path / "bad.edges", level="links")
    (tmp_path / "empty").mkdir()
    with pytest.raises(DataError, match="must hold nodes.csv and edges.csv"):
        ll.data.graph(tmp_path / "empty", target="y")
    with pytest.raises(DataError, match="must exist|file must end|graph's file"):
        ll.data.graph(tmp_path / "gone.graphml", target="y")


def test_arrays_of_any_kind():
    x, y = np.random.default_rng(0).normal(size=(10, 2)), np.arange(10) % 2
    pairs = np.array([[0, 1], [1, 2], [2, 3]])
    one = ll.data.graph(x, pairs, y)
    for other in (
        ll.data.graph(torch.from_numpy(x), torch.from_numpy(pairs.T), torch.from_numpy(y)),
        ll.data.graph(x.tolist(), pairs.tolist(), y.tolist()),
    ):
        assert other.fingerprint == one.fingerprint
    assert ll.data.graph(x, pairs, ["u", "v"] * 5).target.classes == ("u", "v")
    with pytest.raises(DataError, match="both ends of every edge must be nodes: x has 0 … 9. Got 1 of 1 edge"):
        ll.data.graph(x, np.array([[0], [10]]), y)
    with pytest.raises(DataError, match="edges must be pairs of whole numbers"):
        ll.data.graph(x, np.array([0.5, 2.0]), y)
    with pytest.raises(DataError, match="y must have a value for each node"):
        ll.data.graph(x, pairs, y[:5])
    with pytest.raises(DataError, match="a graph of arrays must have edges"):
        ll.data.graph(x, target=y)


def test_graphml_of_several_graphs_and_what_is_none(tmp_path):
    one = (
        '<graph id="{k}" edgedefault="undirected"><data key="g">{y}</data><node id="a"><data key="d">{k}</data></node>'
        '<node id="b"/><edge source="a" target="b"/></graph>'
    )
    body = "".join(one.format(k=k, y="uv"[k % 2]) for k in range(8))
    head = '<key id="d" for="node" attr.name="size"/><key id="g" for="graph" attr.name="sort"/>'
    (tmp_path / "many.graphml").write_text(f"<graphml>{head}{body}</graphml>")
    nodes, edges, more = graph_tables(tmp_path / "many.graphml")
    assert len(nodes) == 16 and len(edges) == 8 and more["graph"] == "graph"
    data = ll.data.graph(tmp_path / "many.graphml", target="sort")
    assert data.inputs.graph.num_graphs == 8 and ll.data.load(data.recipe).fingerprint == data.fingerprint
    for text, message in (
        ("<graphml><graph>", "must be whole GraphML"),
        ("<graphml/>", "must hold a graph"),
        ('<!DOCTYPE x [<!ENTITY a "b">]><graphml/>', "a document type of its own"),
    ):
        (tmp_path / "bad.graphml").write_text(text)
        with pytest.raises(DataError, match=message):
            ll.data.graph(tmp_path / "bad.graphml", target="y")


def test_what_is_no_graph():
    assert not is_graph("nodes.csv") and not is_graph([]) and not is_graph(torch.zeros(2, 2)) and is_graph(club())
    with pytest.raises(DataError, match="as many numbers at every node"):
        graph = nx.Graph()
        graph.add_nodes_from([(0, {"v": [1.0]}), (1, {"v": [1.0, 2.0]})])
        ll.data.graph(graph, target="v")


def test_whole_numbers_of_pyg_are_classes_however_many():
    ring = torch.stack([torch.arange(120), (torch.arange(120) + 1) % 120])
    theirs = PyGData(x=torch.randn(120, 2), edge_index=ring, y=torch.arange(120) % 30)
    assert len(ll.data.graph(theirs).target.classes) == 30
    theirs.y = torch.randn(120)
    assert ll.data.graph(theirs).target.kind == "real"
    assert len(ll.data.communities(num=1200, num_classes=30, dim_input=30).target.classes) == 30


def test_whole_numbers_beyond_a_float_stay_apart():
    names = [2**60 + k for k in range(8)]
    graph = nx.path_graph(names)
    nx.set_node_attributes(graph, {name: "ab"[k % 2] for k, name in enumerate(names)}, "side")
    data = ll.data.graph(graph, target="side")
    assert data.inputs.ids == tuple(map(str, names)) and len(data.inputs.graph.edges) == 14


def test_a_list_of_graphs_keeps_words_and_numbers():
    words, numbers = nx.path_graph(["a", "b", "c"]), nx.path_graph(3)
    nx.set_node_attributes(words, "low", "height")
    nx.set_node_attributes(numbers, 2.5, "height")
    nodes, edges, _ = graph_tables([words, numbers])
    assert [nodes.columns["height"][k] for k in (0, 3)] == ["low", "2.5"]
    assert [edges.columns["source"][k] for k in range(4)] == ["a", "b", "0", "1"]


def test_kinds_of_nodes_keep_their_masks_and_their_edges_numbers():
    theirs, place = HeteroData(), torch.arange(9)
    theirs["paper"].x, theirs["paper"].y = torch.randn(9, 2), place % 3
    theirs["paper"].train_mask, theirs["paper"].val_mask = place < 4, (place >= 4) & (place < 6)
    theirs["paper"].test_mask = place >= 6
    theirs["author"].x = torch.randn(2, 3)
    theirs["author", "writes", "paper"].edge_index = torch.tensor([[0, 1, 1], [0, 1, 8]])
    theirs["author", "writes", "paper"].edge_attr = torch.randn(3, 2)
    data = ll.data.graph(theirs)
    assert [split.x[:, 0].tolist() for _, split in data.splits()] == [[0, 1, 2, 3], [4, 5], [6, 7, 8]]
    assert data.target.kind == "classes" and data.inputs.sizes((1,))["dim_edge"] == 2
    theirs["paper"].train_mask = torch.ones(9, 10, dtype=torch.bool)
    with pytest.raises(DataError, match="train_mask must say of each node"):
        ll.data.graph(theirs)


def test_several_answers_of_a_graph_are_named():
    pairs = torch.tensor([[0, 1], [1, 0]])
    many = [PyGData(x=torch.ones(2, 1), edge_index=pairs, y=torch.tensor([[0.5 * k, 1.5 * k]])) for k in range(6)]
    with pytest.raises(DataError, match="a graph needs a target, .*y_0, y_1"):
        ll.data.graph(many)
    data = ll.data.graph(many, target="y_1")
    assert {float(v) for _, s in data.splits() for v in s.y} == {1.5 * k for k in range(6)}
