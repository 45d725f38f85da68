"""What the doctor notes about graphs beside what the museum shows."""

import dataclasses

import torch

from leadline.data.edges import Edges
from leadline.data.graph_made import communities, karate, molecules
from leadline.doctor import before
from leadline.doctor.graphs import check_graph, check_smoothed
from leadline.layers.held_graph import give_graph
from leadline.likelihoods import likelihood_for
from leadline.models import MODELS, build


def found(data, name="GCN", **sizes):
    return before(build(name, data, 1, **{"dim": 8, **sizes}), data, likelihood_for(data.target))


def test_more_layers_than_steps_are_noted():
    [note] = [f for f in found(karate(), num_layers=9) if f.code == "deeper-than-graph"]
    assert note.severity == "note" and "9 layers" in note.evidence and "5 steps" in note.evidence
    assert not [f for f in found(karate(), num_layers=5) if f.code == "deeper-than-graph"]


def test_a_few_nodes_alone_are_a_note():
    data = communities(num=100)
    edges = data.inputs.graph.edges
    kept = edges.pairs[:, (edges.pairs != 7).all(0)]
    graph = dataclasses.replace(data.inputs.graph, edges=Edges.of(kept, 100).with_(directed=False))
    data = data.with_(inputs=data.inputs.holding(graph, data.inputs.ids))
    [note] = [f for f in found(data) if f.code == "isolated-nodes"]
    assert note.severity == "note" and "7" in note.evidence


def test_unlike_neighbours_are_a_note_where_the_network_keeps_them_apart():
    data = communities(num=400, same=0.1)
    for name, sizes, severity in (
        ("GCN", {}, "warning"),
        ("GraphSAGE", {}, "note"),
        ("GCN", {"residual": "sum"}, "note"),
    ):
        [said] = [f for f in found(data, name, **sizes) if f.code == "unlike-neighbours"]
        assert said.severity == severity and "chance would give 50 %" in said.evidence
    assert not [f for f in found(communities(num=400, same=0.5)) if f.code == "unlike-neighbours"]


def test_a_look_changes_nothing():
    data = communities(num=100)
    model = build("GAT", data, 1, dim=8).train()
    before_, random = [p.clone() for p in model.parameters()], torch.get_rng_state()
    check_graph(model, data)
    assert all(torch.equal(a, b) for a, b in zip(before_, model.parameters(), strict=True))
    assert model.training and torch.equal(random, torch.get_rng_state())
    assert not any(m._forward_hooks or m._forward_pre_hooks for m in model.modules())


def test_answers_that_vary_are_not_smoothed():
    data = communities(num=100)
    rows = len(data.train)
    assert not check_smoothed(data, {"train": torch.randn(rows, 1)})
    [said] = check_smoothed(data, {"train": torch.full((rows, 1), 0.3)})
    assert said.code == "over-smoothed"


def test_many_graphs_are_looked_at_without_a_diameter():
    assert not [f for f in found(molecules(num=60), "GIN", num_layers=30) if f.code == "deeper-than-graph"]


def test_what_edges_carry_and_nobody_reads_is_noted():
    data = communities(num=100)
    edges = data.inputs.graph.edges
    draw = torch.Generator().manual_seed(0)
    weight, features = torch.rand(len(edges), generator=draw), torch.rand(len(edges), 2, generator=draw)

    def unread(name, **carried):
        graph = dataclasses.replace(data.inputs.graph, edges=edges.with_(**carried))
        own = data.with_(inputs=data.inputs.holding(graph, data.inputs.ids))
        sizes = {"dim_edge": 2} if name == "GAT" and "features" in carried else {}
        net = MODELS[name](graph.x.shape[1], 1, dim=8, **sizes)
        give_graph(net, graph)
        return [f.evidence for f in before(net, own, likelihood_for(own.target)) if f.code == "unread-edges"]

    assert unread("GCN", weight=weight) == unread("GAT", features=features) == unread("GCN") == []
    assert unread("GCN", weight=torch.ones(len(edges))) == []  # weights that are all the same say nothing
    assert "without the weights of" in unread("GAT", weight=weight)[0]
    assert "without the features of" in unread("GCN", weight=weight, features=features)[0]
    assert "without the kinds of" in unread("GraphSAGE", relation=torch.arange(len(edges)) % 2)[0]
