"""Tables of nodes and edges to data: what is found out, what is told, what is refused."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import leadline as ll
from leadline.data import INPUTS, inputs_from
from leadline.data.cells import table_of
from leadline.data.graph_tables import Roles, find
from leadline.errors import DataError, UserError

NODES = {
    "id": [f"n{k}" for k in range(12)],
    "age": [float(k) for k in range(12)],
    "colour": ["red", "blue", "blue"] * 4,
    "label": ["a", "b"] * 6,
}
EDGES = {"from": [f"n{k}" for k in range(11)], "to": [f"n{k + 1}" for k in range(11)]}


def made(nodes=None, edges=None, **options):
    return ll.data.graph({**NODES, **(nodes or {})}, {**EDGES, **(edges or {})}, **{"target": "label", **options})


def test_columns_become_what_a_table_makes_of_them():
    data = made()
    graph = data.inputs.graph
    assert graph.x.shape == (12, 3)  # age, and a number for each colour
    assert torch.allclose(graph.x[:, 0].mean(), torch.zeros(()), atol=1e-6)
    assert graph.x[:, 1:].tolist() == [[float(c == "blue"), float(c == "red")] for c in NODES["colour"]]
    assert len(graph.edges) == 22 and not graph.edges.directed
    assert data.inputs.sizes((1,)) == {
        "level": "node", "dim_input": 3, "dim_edge": 0, "num_relations": 1, "num_kinds": 1,
    }  # fmt: skip
    assert data.train.x.dtype == torch.int64 and sorted(
        torch.cat([s.x for _, s in data.splits()]).flatten().tolist()
    ) == [*range(12)]
    for name, split in data.splits():
        for row, y in zip(split.x[:, 0].tolist(), split.y.tolist()):
            assert data.target.classes[y] == NODES["label"][row], name


def test_the_inputs_are_rebuilt_without_their_graph():
    data = made()
    again = inputs_from("GraphInputs", data.inputs.config)
    assert "GraphInputs" in INPUTS and again.config == data.inputs.config and again.graph is None
    assert again.sizes((1,)) == data.inputs.sizes((1,))
    with pytest.raises(DataError, match="its files must still be there"):
        again.read(["n1"])


def test_the_fingerprint_sees_the_graph():
    assert made().fingerprint == made().fingerprint
    assert made().fingerprint != made(edges={"to": ["n0", *EDGES["to"][1:]]}).fingerprint
    assert made().fingerprint != made(nodes={"age": [9.0, *NODES["age"][1:]]}).fingerprint
    assert made().fingerprint != made(directed=True).fingerprint


def test_a_run_is_read_back_with_its_graph_and_answers_by_name(tmp_path):
    for name, table in (("nodes", NODES), ("edges", EDGES)):
        rows = zip(*table.values())
        lines = [",".join(table), *(",".join(map(str, row)) for row in rows)]
        (tmp_path / f"{name}.csv").write_text("\n".join(lines) + "\n")
    data = ll.data.graph(tmp_path / "nodes.csv", tmp_path / "edges.csv", target="label")
    assert (
        data.fingerprint == ll.data.load(data.recipe).fingerprint == ll.data.load(tmp_path, target="label").fingerprint
    )
    run = ll.fit(
        ll.models.build("GCN", data, 1), data, epochs=3, folder=tmp_path / "run", progress=False, with_report=False
    )
    again = ll.load(tmp_path / "run")
    asked = ["n3", "n0", "n11"]
    assert torch.equal(run.predict(asked).mean, again.predict(asked).mean)
    assert torch.equal(run.predict(asked[:1]).mean, run.predict(torch.tensor([[3]])).mean)
    whole = run.predict({"nodes": NODES, "edges": EDGES}).mean  # the same graph as a new one
    assert torch.allclose(whole[[3, 0, 11]], run.predict(asked).mean, atol=1e-6)
    (tmp_path / "nodes.csv").unlink()
    lost = ll.load(tmp_path / "run")
    with pytest.raises(DataError, match="must still be there, unchanged"):
        lost.predict(asked)
    assert torch.allclose(lost.predict({"nodes": NODES, "edges": EDGES}).mean, whole, atol=1e-6)
    with pytest.raises(UserError, match="before it is asked|must still be there"):
        lost.predict(torch.tensor([[3]]))


def test_a_new_graph_leaves_the_own_one_in_place():
    data = made()
    run = ll.fit(ll.models.build("GCN", data, 1), data, epochs=2, progress=False)
    before = run.predict(["n1"]).mean
    new = {"nodes": {"id": [1, 2], "age": [3.0, None], "colour": ["red", "green"]}, "edges": {"from": [1], "to": [2]}}
    assert len(run.predict(new).mean) == 2
    assert torch.equal(before, run.predict(["n1"]).mean)
    with pytest.raises(DataError, match="must have the columns that the model was trained on. Got no column age"):
        run.predict({"nodes": {"id": [1, 2]}, "edges": {"from": [1], "to": [2]}})


def test_unlabelled_nodes_are_neighbours_and_are_not_asked():
    label = [value if k % 3 else None for k, value in enumerate(NODES["label"])]
    data = made({"label": label})
    assert sum(len(split) for _, split in data.splits()) == 8 and len(data.inputs.graph) == 12
    assert "4 nodes without a value of label: neighbours of others, not asked about" in str(data.account)


def test_unlabelled_edges_are_part_of_the_graph_and_are_not_asked():
    edges = {"from": [*range(11)], "to": [*range(1, 12)], "kind": [("a", "b", None)[k % 3] for k in range(11)]}
    data = ll.data.graph({"id": [*range(12)]}, edges, target="kind")
    assert sum(len(split) for _, split in data.splits()) == 8 and len(data.inputs.graph.edges) == 22
    assert "3 edges without a value of kind: part of the graph, not asked about" in str(data.account)


def test_while_it_learns_an_inductive_network_sees_no_edge_of_a_test_node():
    data = made(inductive=True)
    graph = data.inputs.graph
    hidden = {int(row) for split in (data.val, data.test) for row in split.x[:, 0]}
    assert hidden and not hidden & set(graph.while_learning.edges.pairs.flatten().tolist())
    assert len(graph.edges) == 22 > len(graph.while_learning.edges)
    model = ll.models.build("GCN", data, 1)
    run = ll.fit(model, data, epochs=3, progress=False)
    x = torch.tensor([[int(min(hidden))]])
    model.train()
    learning = model(x)
    model.eval()
    assert not torch.allclose(learning, model(x)), "the whole graph is there once it has learned"
    assert run.evaluate("test")["accuracy"] >= 0
    seen = [k for k in range(12) if k not in hidden]
    age = np.array(NODES["age"])
    assert data.inputs.of_nodes.columns[0].shift == pytest.approx(age[seen].mean())


def test_a_column_may_say_who_trains():
    split = ["train"] * 6 + ["val"] * 2 + ["test"] * 3 + [None]
    data = made({"who": split}, split="who")
    assert [len(part) for part in (data.train, data.val, data.test)] == [6, 2, 3]
    with pytest.raises(DataError, match="who must hold train, val or test, or nothing. Got dev"):
        made({"who": ["dev"] * 12}, split="who")


def test_numbers_in_one_table_are_words_in_the_other():
    nodes, edges = {"id": [*range(12)]}, {"from": [f"{k}" for k in range(11)], "to": [f"{k + 1}.0" for k in range(11)]}
    data = made(nodes, edges)
    assert len(data.inputs.graph.edges) == 22
    assert "id and the ends of edges are written differently, and taken as numbers" in str(data.account)
    assert made(nodes, {"from": [*range(11)], "to": [*range(1, 12)]}).fingerprint == data.fingerprint


def test_weights_relations_kinds_and_features_of_edges():
    edges = {"w": [0.5] * 11, "how": ["likes", "hates", "likes"] * 3 + ["hates", "likes"], "since": [*range(11)]}
    data = made({"sort": ["x", "y"] * 6}, edges, weight="w", relation="how", node_kind="sort")
    graph = data.inputs.graph
    assert graph.edges.weight.unique().tolist() == [0.5] and set(graph.edges.relation.tolist()) == {0, 1}
    assert graph.edges.features.shape == (22, 1) and graph.kind.tolist() == [0, 1] * 6
    assert data.inputs.relations == ("hates", "likes")
    sizes = data.inputs.sizes((1,))
    assert (sizes["dim_edge"], sizes["num_relations"], sizes["num_kinds"]) == (1, 2, 2)
    of = {tuple(p): r for p, r in zip(graph.edges.pairs.T.tolist(), graph.edges.relation.tolist())}
    assert of[0, 1] == of[1, 0] == 1 and of[1, 2] == 0


def test_targets_of_edges():
    data = made(edges={"fee": [float(k % 4) * 1.5 + 0.1 * k for k in range(11)]}, target="fee")
    assert data.inputs.level == "edge" and data.train.x.shape[1] == 2 and data.target.kind == "real"
    run = ll.fit(ll.models.build("GCN", data, 1, edge_head="mlp"), data, epochs=2, progress=False)
    assert run.predict([("n0", "n1"), ("n3", "n9")]).mean.shape == (2,)
    with pytest.raises(DataError, match="rows must be pairs of names of nodes"):
        run.predict(["n0"])


def test_many_graphs_with_a_table_of_their_own():
    nodes = {"id": [0, 1, 2] * 8, "mol": [k // 3 for k in range(24)], "z": [1.0, 2.0, 3.0] * 8}
    edges = {"mol": [k for k in range(8) for _ in range(2)], "a": [0, 1] * 8, "b": [1, 2] * 8}
    graphs = {"mol": [*range(7, -1, -1)], "toxic": ["no", "yes"] * 4}
    data = ll.data.graph(nodes, edges, graph="mol", graphs=graphs, target="toxic")
    held = data.inputs.graph
    assert held.num_graphs == 8 and len(held) == 24 and len(held.edges) == 32
    assert all((held.of_node[a] == held.of_node[b]) for a, b in held.edges.pairs.T)
    for row, y in zip(data.train.x[:, 0].tolist(), data.train.y.tolist()):
        assert data.target.classes[y] == graphs["toxic"][graphs["mol"].index(row)]
    run = ll.fit(ll.models.build("GCN", data, 1), data, epochs=2, progress=False)
    new = {"nodes": {k: v[:6] for k, v in nodes.items()}, "edges": {k: v[:4] for k, v in edges.items()}}
    assert torch.allclose(run.predict(new).mean, run.predict(["0", "1"]).mean, atol=1e-6)
    across = {**edges, "b": [1, 2] * 7 + [1, 5]}
    with pytest.raises(DataError, match="to unknown nodes such as 5"):
        ll.data.graph(nodes, across, graph="mol", graphs=graphs, target="toxic")
    unique = {**nodes, "id": [*range(24)]}
    with pytest.raises(DataError, match="both ends of an edge must be in the same graph. Got 1 edge between two"):
        ll.data.graph(unique, {"a": [0, 0], "b": [1, 23]}, graph="mol", graphs=graphs, target="toxic")
    with pytest.raises(DataError, match="must have a row for each graph. Got none for 0"):
        ll.data.graph(nodes, edges, graph="mol", graphs={k: v[:-1] for k, v in graphs.items()}, target="toxic")


def test_graphs_may_carry_their_target_on_their_nodes():
    nodes = {
        "id": [*range(24)],
        "g": [k // 3 for k in range(24)],
        "z": [1.0, 2.0, 3.0] * 8,
        "y": [k // 3 % 2 for k in range(24)],
    }
    edges = {"a": [3 * k for k in range(8)], "b": [3 * k + 1 for k in range(8)]}
    data = ll.data.graph(nodes, edges, "y", graph="g")
    assert data.inputs.level == "graph" and sum(len(s) for _, s in data.splits()) == 8
    with pytest.raises(DataError, match="y must be the same at all nodes of a graph"):
        ll.data.graph({**nodes, "y": [k % 2 for k in range(24)]}, edges, "y", graph="g")


def test_links_are_held_out_and_pairs_without_one_are_drawn_anew():
    data = ll.data.communities(num=120)
    pairs = data.inputs.graph.edges.pairs
    pairs = pairs[:, pairs[0] < pairs[1]]
    links = ll.data.graph(data.inputs.graph.x, pairs, level="links")
    codes = {tuple(sorted(pair)) for pair in pairs.T.tolist()}
    seen = {tuple(sorted(pair)) for pair in links.inputs.graph.edges.pairs.T.tolist()}
    held = [tuple(sorted(p)) for s in (links.val, links.test) for p, y in zip(s.x.tolist(), s.y.tolist()) if y]
    none = [tuple(sorted(p)) for s in (links.val, links.test) for p, y in zip(s.x.tolist(), s.y.tolist()) if not y]
    assert set(held) <= codes and not set(held) & seen and not set(none) & codes and len(held) == len(none)
    assert seen | set(held) == codes and all(a != b for a, b in none) and len(set(none)) == len(none)
    x, y, keys = links.train.x, links.train.y, torch.arange(len(links.train))
    one, two = links.inputs.drawn(x, y, keys)[0], links.inputs.drawn(x, y, keys + 1000)[0]
    assert torch.equal(one, links.inputs.drawn(x, y, keys)[0])
    assert torch.equal(one[y == 1], x[y == 1]) and not torch.equal(one[y == 0], two[y == 0])
    assert not {tuple(sorted(p)) for p in one[y == 0].tolist()} & codes
    run = ll.fit(ll.models.build("GCN", links, 1), links, epochs=3, progress=False)
    assert 0 <= run.evaluate("test")["accuracy"] <= 1
    with pytest.raises(DataError, match="folds need a graph of which training sees every edge. Got links"):
        ll.data.folds(links, 3)


def test_a_complete_graph_has_no_pairs_to_tell_links_from():
    pairs = torch.triu_indices(6, 6, 1)
    with pytest.raises(DataError, match="pairs of nodes that are not joined.*Got 0 for 15 links"):
        ll.data.graph(torch.zeros(6, 1), pairs, level="links")


def test_folds_of_nodes_keep_the_graph_and_folds_of_graphs_learn_anew():
    data = made(val=0.2, test=0.2)
    for fold in ll.data.folds(data, 2):
        assert fold.inputs.graph is data.inputs.graph
    many = ll.data.random_graphs(num=30)
    first, second = (fold.inputs for fold in ll.data.folds(many, 2))
    assert first.of_nodes.columns[0].shift != second.of_nodes.columns[0].shift
    assert not torch.equal(first.graph.x, second.graph.x) and torch.equal(first.graph.x[:, 1], second.graph.x[:, 1])
    with pytest.raises(DataError, match="Got inductive=True"):
        ll.data.folds(made(inductive=True), 2)


def test_what_is_odd_is_told():
    edges = {
        "from": ["n0", "n1", "n0", "n4", "n2", "n2"],
        "to": ["n1", "n0", "n1", "n4", "n3", "n3"],
        "w": [1, 1, 1, 1, 1, 2],
    }
    told = str(ll.data.graph(NODES, edges, target="label").account)
    assert "1 edge given both ways counted once" in told and "1 edge that repeats another is left out" in told
    assert "1 edge parallel to another is kept" in told and "1 edge from a node to itself kept" in told
    assert (
        "7 nodes without an edge kept" in told and "edges run from from to to" in told and "id names the nodes" in told
    )
    told = str(ll.data.graph(NODES, edges, target="label", directed=True).account)
    assert "both ways" not in told and "with a direction" in told
    dropped = ll.data.graph(NODES, {"from": ["n0", "n1"], "to": ["n1", "zz"]}, target="label", bad_edges="drop")
    assert "1 edge to nodes that are not there left out, as asked" in str(dropped.account)


def test_nodes_without_columns_are_known_otherwise():
    bare = {"id": NODES["id"], "label": NODES["label"]}
    data = ll.data.graph(bare, EDGES, target="label")
    assert torch.equal(data.inputs.graph.x, torch.eye(12)) and "nodes get one-hot" in str(data.account)
    data = ll.data.graph(bare, EDGES, target="label", features=["degree", "constant"])
    assert data.inputs.graph.x.shape == (12, 2) and data.inputs.graph.x[:, 1].unique().tolist() == [1.0]
    known = ll.data.graph(bare, EDGES, target="label")
    run = ll.fit(ll.models.build("GCN", known, 1), known, epochs=1, progress=False)
    with pytest.raises(DataError, match="can only predict nodes that it was trained with"):
        run.predict({"nodes": bare, "edges": EDGES})
    with pytest.raises(UserError, match="features must be of columns, degree, constant, one-hot. Got 'colour'"):
        ll.data.graph(bare, EDGES, target="label", features=["colour"])


BAD = [
    (
        {"edges": {"to": ["n1"] * 10 + ["n99"]}},
        "1 of 11 edges to unknown nodes such as n99, first in row 10.*bad_edges",
    ),
    ({"edges": {"to": ["x"] * 11}}, "Name the columns of their names: key="),
    (
        {"nodes": {"id": ["n0", *NODES["id"][:-1]]}},
        "id must name each node of nodes once. Got n0 more than once, first in row 0",
    ),
    ({"nodes": {"id": [None, *NODES["id"][1:]]}}, "id must name every node of nodes. Got nothing in row 0"),
    ({"edges": {"to": [None, *EDGES["to"][1:]]}}, "to must name a node in every row of edges. Got nothing in row 0"),
    (
        {"nodes": {"age": [float("inf"), *NODES["age"][1:]]}},
        "column age of nodes must hold finite numbers.*Got inf in row 0",
    ),
    (
        {"nodes": {"age": ["old", *map(str, range(11))]}},
        "column age of nodes must hold finite numbers.*Got 'old' in row 0",
    ),
    (
        {"target": "lable"},
        "target must name a column of the nodes or of the edges. Got target 'lable'. Did you mean label",
    ),
    ({"target": None}, "a graph needs a target"),
    ({"key": "name"}, "key must name a column of nodes. Got key 'name'"),
    ({"ends": ["from", "too"]}, "too must be a column of edges"),
    ({"ends": ["from"]}, "ends must name two columns"),
    ({"weight": "w"}, "w must be a column of edges"),
    (
        {"edges": {"w": [1.0, None] * 5 + [1.0]}, "weight": "w"},
        "w must be a finite number in every row of edges. Got (nothing|nan) in row 1",
    ),
    ({"level": "nodes"}, "level must be node, edge, links, graph"),
    ({"level": "graph"}, "a column must say which graph"),
    ({"bad_edges": "skip"}, "bad_edges must be error or drop"),
    ({"nodes": {"label": ["a"] * 12}}, "label, the target, must have at least two values"),
    ({"nodes": {"label": ["a", "b"] + [None] * 10}}, "at least 3 nodes must have a value of label"),
    ({"val": 0.5, "test": 0.6}, "val and test must be fractions"),
    ({"inductive": True, "level": "links", "target": None}, "inductive needs level node"),
    ({"nodes": {"age": [1.0, 2.0]}}, "columns must be of equal length"),
    ({"drop": ["aeg"]}, "drop must name columns of the nodes or of the edges. Got drop 'aeg'. Did you mean age"),
    ({"split": "who"}, "split must name a column of nodes"),
]


@pytest.mark.parametrize(("wrong", "message"), BAD, ids=[message[:30] for _, message in BAD])
def test_what_cannot_be_is_refused_in_words(wrong, message):
    with pytest.raises(UserError, match=message):
        made(**wrong)


def test_empty_graphs_and_one_node():
    with pytest.raises(DataError, match="nodes must have nodes. Got none"):
        ll.data.graph({"id": [], "label": []}, EDGES, target="label")
    with pytest.raises(DataError, match="must have edges"):
        ll.data.graph({"from": [], "to": []}, level="links")
    with pytest.raises(DataError, match="at least 3 nodes"):
        ll.data.graph({"id": ["a"], "x": [1.0], "label": ["u"]}, {"from": ["a"], "to": ["a"]}, target="label")
    lonely = ll.data.graph(NODES, {"from": [], "to": []}, target="label")
    assert len(lonely.inputs.graph.edges) == 0 and "12 nodes without an edge kept" in str(lonely.account)
    ll.fit(ll.models.build("GCN", lonely, 1), lonely, epochs=1, progress=False)
    run = ll.fit(ll.models.build("GCN", made(), 1), made(), epochs=1, progress=False)
    one = {"nodes": {"id": ["z"], "age": [2.0], "colour": ["red"]}, "edges": {"from": [], "to": []}}
    assert run.predict(one).mean.shape == (1,)


def test_missing_values_are_filled_and_told():
    data = made({"age": [None, *NODES["age"][1:]]})
    assert "age: number, 1 missing filled with the median 6" in str(data.account)
    assert bool(data.inputs.graph.x.isfinite().all()) and data.inputs.graph.x.shape[1] == 4


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 2**31 - 1))
def test_the_order_of_rows_changes_nothing_but_the_order(seed):
    rng = np.random.default_rng(seed)
    rows, links = rng.permutation(12), rng.permutation(11)
    shuffled = {name: [column[k] for k in rows] for name, column in NODES.items()}
    turned = rng.random(11) < 0.5
    ends = [(a, b) if keep else (b, a) for a, b, keep in zip(EDGES["from"], EDGES["to"], turned)]
    edges = {"from": [ends[k][0] for k in links], "to": [ends[k][1] for k in links]}
    one, two = made(), ll.data.graph(shuffled, edges, target="label")
    assert torch.allclose(two.inputs.graph.x, one.inputs.graph.x[rows], atol=1e-6)
    named = lambda data: {  # noqa: E731
        (data.inputs.ids[a], data.inputs.ids[b]) for a, b in data.inputs.graph.edges.pairs.T.tolist()
    }
    assert named(one) == named(two)
    model = ll.models.build("GCN", one, 1)
    answers = {}
    for data in (one, two):
        model.held.put(data.inputs.graph)
        model.eval()
        answers[data] = model(data.inputs.read(NODES["id"]))
    assert torch.allclose(answers[one], answers[two], atol=1e-5)


def test_names_are_found_or_the_columns_told():
    found = find(table_of({"who": ["x", "y"], "size": [1.0, 2.0]}), table_of({"p": ["x"], "q": ["y"]}), Roles())
    assert found.roles.key == "who" and found.roles.ends == ("p", "q")
    with pytest.raises(DataError, match="must have two columns where edges begin and end. Got the columns p, q, r"):
        find(table_of({"id": [1]}), table_of({"p": [1], "q": [1], "r": [1]}), Roles())
    with pytest.raises(DataError, match="must have a column that names each node. Got the columns size"):
        find(table_of({"size": [1.5, 2.5]}), table_of({"p": ["x"], "q": ["y"]}), Roles())


def test_what_is_asked_is_not_read_besides():
    fee = {"fee": [1.0 + k for k in range(11)], "kind": ["x", "y", "z"] * 3 + ["x", "y"]}
    for options in ({"target": "fee", "weight": "fee"}, {"target": "kind", "relation": "kind"}, {"target": "to"}):
        with pytest.raises(DataError, match="target must not be a column that the network reads too"):
            made(edges=fee, **options)
    with pytest.raises(DataError, match="Got target 'id', which is key"):
        made(target="id")
    named = ll.data.graph({**NODES, "to": NODES["label"]}, EDGES, target="to")  # a column of nodes of that name is free
    assert named.target.classes == ("a", "b")


def test_names_within_many_graphs_are_found_out():
    nodes = {"mol": [m for m in range(8) for _ in "abc"], "atom": [*"abc"] * 8, "x": [float(k % 5) for k in range(24)]}
    edges = {"mol": [m for m in range(8) for _ in "ab"], "one": [*"ab"] * 8, "two": [*"bc"] * 8}
    graphs = {"mol": [*range(8)], "toxic": ["no", "yes"] * 4}
    data = ll.data.graph(nodes, edges, graph="mol", graphs=graphs, ends=["one", "two"])  # nor is the target named
    assert data.inputs.roles.key == "atom" and data.target.name == "toxic"


def test_a_name_that_comes_twice_is_told():
    nodes = {"user": ["u1", "u1", "u2", "u3"], "x": [1.0, 2.0, 3.0, 4.0], "label": [*"abab"]}
    with pytest.raises(DataError, match="user must name each node of nodes once. Got u1 more than once"):
        ll.data.graph(nodes, {"from": ["u1", "u2"], "to": ["u2", "u3"]}, target="label")


def test_graphs_without_a_node_are_told():
    nodes = {"mol": [m for m in range(6) for _ in "ab"], "id": [*"ab"] * 6, "x": [float(k) for k in range(12)]}
    edges = {"mol": [*range(6)], "from": ["a"] * 6, "to": ["b"] * 6}
    data = ll.data.graph(nodes, edges, graph="mol", graphs={"mol": [*range(8)], "toxic": ["no", "yes"] * 4})
    assert "2 graphs of graphs without a node left out" in str(data.account)


def test_batches_are_of_one_graph():
    nodes = {"mol": [m for m in range(6) for _ in "ab"], "id": [*"ab"] * 6, "x": [float(k) for k in range(12)]}
    edges = {"mol": [*range(6)], "from": ["a"] * 6, "to": ["b"] * 6}
    graphs = {"mol": [*range(6)], "toxic": ["no", "yes"] * 3}
    with pytest.raises(UserError, match="batches needs one large graph"):
        ll.data.graph(nodes, edges, graph="mol", graphs=graphs, target="toxic", batches="neighbours(3)")


def test_batches_that_do_not_suit_a_network_are_refused_before_it_runs():
    three = made(batches="neighbours(2, 2, 2)")
    with pytest.raises(UserError, match="one number for all layers, or one for each. Got .* for 2 layers"):
        ll.models.build("GCN", three, 1)
    assert ll.models.build("GCN", three, 1, num_layers=3).held.full
    with pytest.raises(UserError, match="batches of this network must be whole graphs"):
        ll.models.build("ChebNet", made(batches="neighbours(2)"), 1)


def test_degrees_do_not_tell_of_edges_that_are_kept_from_training():
    data = made(inductive=True, features=["degree"])
    graph, train = data.inputs.graph, data.train.x[:, 0]
    learned = graph.while_learning
    column = data.inputs.of_nodes.columns[-1]
    degree = lambda of: of.x[:, 0] * column.scale + column.shift  # noqa: E731
    assert torch.allclose(degree(learned)[train], learned.edges.degree[train].to(graph.x))
    assert torch.allclose(degree(graph), graph.edges.degree.to(graph.x))
    assert not torch.equal(learned.x, graph.x) and abs(float(learned.x[train].mean())) < 1e-6
    twin = graph.to(dtype=torch.float64).while_learning
    assert twin.x.dtype == torch.float64 and torch.equal(twin.x.float(), learned.x)


def test_kinds_of_nodes_are_read():
    plain = made(nodes={"sort": [1, 2, 3] * 4}, drop=["colour", "age"], node_kind="sort")
    assert plain.inputs.kinds == ("1", "2", "3") and plain.inputs.graph.kind.tolist() == [0, 1, 2] * 4
    assert plain.inputs.graph.x.tolist() == torch.eye(3).repeat(4, 1).tolist()


def test_of_directed_edges_the_two_ways_are_told_apart():
    for options in (
        {"level": "links", "target": None},
        {"target": "fee", "edges": {"fee": [0.5 * k for k in range(11)]}},
    ):
        one, other = torch.tensor([[0, 3]]), torch.tensor([[3, 0]])
        net = ll.models.build("GraphSAGE", made(directed=True, **options), 1)
        assert net.edge_head == "mlp" and not torch.equal(net(one), net(other))
        net = ll.models.build("GraphSAGE", made(**options), 1)
        assert net.edge_head == "dot" and torch.equal(net(one), net(other))
    assert ll.models.build("GAT", made(directed=True, **options), 1, edge_head="dot").edge_head == "dot"


def test_parallel_edges_are_asked_in_one_split():
    ends = {"from": EDGES["from"] * 2, "to": EDGES["to"] * 2}
    data = ll.data.graph(NODES, {**ends, "fee": [0.25 * k for k in range(22)]}, target="fee")
    asked = [{tuple(sorted(pair)) for pair in split.x.tolist()} for _, split in data.splits()]
    assert [len(split) for _, split in data.splits()] == [2 * len(pairs) for pairs in asked]
    assert not asked[0] & asked[1] and not asked[0] & asked[2] and not asked[1] & asked[2]
    assert "edges between the same two nodes are in the same split" in str(data.account)


def test_the_order_of_two_ends_tells_nothing_of_links_without_a_direction():
    turned = {"from": EDGES["to"], "to": EDGES["from"]}  # every one from the higher to the lower
    data = ll.data.graph(NODES, turned, level="links", drop=["label"])
    for name, split in data.splits():
        x, _ = data.asked(torch.arange(len(split)), name)
        assert bool((x[:, 0] < x[:, 1]).all()), name
    run = ll.fit(ll.models.build("GraphSAGE", data, 1, edge_head="mlp"), data, epochs=1, progress=False)
    one, other = run.predict([("n3", "n7"), ("n7", "n3")]).mean.tolist()
    assert one == other


def test_pairs_without_a_link_are_found_in_a_dense_graph():
    from leadline.data.graph_links import strangers

    a, b = torch.triu_indices(30, 30, 1)
    free = (a + b) % 17 == 0  # one pair in seventeen is not joined
    codes = (a * 30 + b)[~free].sort().values
    drawn = strangers(torch.arange(4000), codes, 30, directed=False)
    assert {tuple(pair) for pair in drawn.tolist()} == set(zip(a[free].tolist(), b[free].tolist()))
