"""Lenses on graphs, against what is known: counted walks, finite differences, dense matrices and networkx."""

import json

import networkx as nx
import numpy as np
import pytest
import torch
from graph_nets import Net, graph_from
from torch import nn

import leadline as ll
from leadline.data.edges import Edges
from leadline.data.graph import Graph
from leadline.errors import ShapeError, UserError
from leadline.lens.graph_layout import layout, pieces
from leadline.lens.node_influence import walked
from leadline.lens.node_order import layer_error, permuted
from leadline.lens.on_graphs import dense, hops, network_of, passings, states
from leadline.lens.over_smoothing import energy_of
from leadline.lens.over_squashing import resistance
from leadline.reference import adjacency as a
from leadline.reference import colours as c

KARATE = nx.karate_club_graph()


def seeded(graph, **options):
    torch.manual_seed(0)
    return Net(graph, **options)


# ── drawings ──


def test_a_layout_is_the_same_every_time_and_keeps_pieces_apart():
    g = nx.disjoint_union_all([nx.cycle_graph(5), nx.path_graph(4), nx.empty_graph(3)])
    pairs = np.array(g.edges)
    first, second = layout(12, pairs), layout(12, pairs)
    assert np.array_equal(first, second) and first.min() >= 0 and first.max() <= 1
    apart = np.linalg.norm(first[:, None] - first[None], axis=2)[np.triu_indices(12, 1)]
    assert apart.min() > 0.02
    of = pieces(12, pairs)
    assert of.tolist() == [0] * 5 + [1] * 4 + [2, 3, 4]
    for k in range(2):  # no piece lies inside the box of another
        box = first[of == k]
        others = first[of != k]
        assert not ((others > box.min(0)) & (others < box.max(0))).all(1).any()


def test_a_layout_shows_communities():
    g = nx.stochastic_block_model([40] * 3, (np.eye(3) * 0.25 + 0.01).tolist(), seed=0)
    places = layout(120, np.array(g.edges))
    centres = np.stack([places[40 * k : 40 * k + 40].mean(0) for k in range(3)])
    near = np.linalg.norm(places[:, None] - centres, axis=2).argmin(1)
    assert (near == np.arange(120) // 40).mean() > 0.95


def test_neighbours_lie_nearer_than_others():
    for g in (KARATE, nx.grid_2d_graph(8, 8), nx.balanced_tree(2, 5)):
        g = nx.convert_node_labels_to_integers(g)
        places = layout(len(g), np.array(g.edges))
        apart = np.linalg.norm(places[:, None] - places[None], axis=2)
        joined = nx.to_numpy_array(g) > 0
        assert apart[joined].mean() < 0.6 * apart[~joined].mean()


def test_a_large_graph_is_drawn_in_part():
    graph = graph_from(nx.barabasi_albert_graph(600, 2, seed=0))
    view = ll.lens.graph_drawing(graph, graph.x[:, 0], most=100, node=5)
    assert len(view.nodes) == 100 and 5 in view.nodes and view.num_nodes == 600
    assert np.allclose(view.values, graph.x.numpy()[view.nodes, 0])
    there = nx.barabasi_albert_graph(600, 2, seed=0).subgraph(view.nodes.tolist())
    assert len(view.pairs) == there.number_of_edges() and nx.is_connected(there)
    part = ll.lens.graph_part(graph, 5, 100)
    assert len(part) == 100 and len(part.edges) == 2 * there.number_of_edges()
    assert "100 of 600 nodes" in view.plot().axes[0].get_title(loc="left")


def test_a_drawing_has_its_classes_and_rings():
    graph = graph_from(KARATE)
    view = ll.lens.graph_drawing(graph, [k % 2 for k in range(34)], classes=("a", "b"), wrong=np.arange(34) == 3)
    [axes] = view.plot().axes
    assert [t.get_text() for t in axes.get_legend().get_texts()] == ["a", "b", "wrong"]
    assert {t.get_text() for t in axes.texts} == {str(k) for k in range(34)}


def test_a_drawing_of_data_has_the_classes_that_they_tell():
    view = ll.lens.graph_drawing(ll.data.karate())
    assert view.classes == ("instructor", "officer") and view.what == "side"
    assert view.values[[0, 33]].tolist() == [0, 1] and set(view.values.tolist()) == {0, 1}


@pytest.mark.parametrize("nodes", [0, 1, 2])
def test_tiny_graphs_are_drawn(nodes):
    graph = Graph(torch.zeros(nodes, 1), Edges.of(torch.zeros(2, 0, dtype=torch.int64), nodes))
    if nodes:
        ll.lens.graph_drawing(graph).plot()
        ll.lens.graph_matrices(graph).plot()
    else:
        assert layout(0, np.zeros((0, 2), dtype=int)).shape == (0, 2)


def test_bad_arguments_are_told():
    graph = graph_from(KARATE)
    with pytest.raises(ShapeError, match="one a node"):
        ll.lens.graph_drawing(graph, [1, 2])
    with pytest.raises(UserError, match="nodes"):
        ll.lens.hop_reach(graph, 34)
    with pytest.raises(UserError, match="a graph"):
        ll.lens.graph_drawing(3)
    with pytest.raises(UserError, match="holds a graph"):
        ll.lens.over_smoothing(nn.Linear(2, 2))
    with pytest.raises(ShapeError, match="every node once"):
        ll.lens.graph_matrices(graph, [0, 1])
    with pytest.raises(ShapeError, match="for each node"):
        ll.lens.graph_parts(graph, [0.5] * 34)
    big = Graph(torch.zeros(4000, 1), Edges.of(torch.zeros(2, 0, dtype=torch.int64), 4000))
    with pytest.raises(UserError, match="at most"):
        ll.lens.graph_spectrum(big)


# ── walks and reach ──


def test_walks_are_those_of_the_reference():
    view = ll.lens.graph_walks(graph_from(KARATE), 3, 4)
    A = nx.to_numpy_array(KARATE, weight=None).tolist()
    for k in range(5):
        power = np.array(a.walks(A, k))
        assert np.array_equal(view.ways[k], power[:, 3])
        assert k == 0 or np.array_equal(view.matrices[k - 1], power)


def test_walks_follow_arrows():
    view = ll.lens.graph_walks(graph_from(nx.DiGraph([(0, 1), (1, 2)])), 0, 2)
    assert view.ways.tolist() == [[1, 0, 0], [0, 1, 0], [0, 0, 1]]


def test_reach_is_networkx_s():
    g = nx.connected_watts_strogatz_graph(60, 4, 0.1, seed=2)
    view = ll.lens.hop_reach(graph_from(g), 7, num=60)
    far = dict(nx.all_pairs_shortest_path_length(g))
    assert view.steps.tolist() == [far[j][7] for j in range(60)]
    assert view.diameter == nx.diameter(g)
    assert view.mean[2] == pytest.approx(np.mean([[far[i][j] <= 2 for j in range(60)] for i in range(60)]))


def test_a_neighbourhood_is_a_part_of_the_whole_one():
    g = nx.barabasi_albert_graph(200, 3, seed=1)
    view = ll.lens.neighbourhoods(graph_from(g), 0, (3, 2))
    assert view.read_full == len(nx.single_source_shortest_path_length(g, 0, cutoff=2))
    assert view.read_drawn <= 4 * 3 and (view.drawn[view.full < 0] < 0).all()
    assert 3 <= np.bincount(view.edges[:, 1])[0] <= 5 and all(g.has_edge(i, j) for i, j in view.edges)


# ── inside networks ──


@pytest.mark.parametrize("level", ["node", "edge", "graph"])
def test_layers_are_heard_with_what_they_read(level):
    net = seeded(graph_from(KARATE), level=level)
    calls = passings(net)
    assert [call.name for call in calls] == ["layers.0", "layers.1", "layers.2"]
    assert torch.equal(calls[1].h, torch.relu(calls[0].out))
    names, kept = states(network_of(net))
    assert names[0] == "input" and len(kept) == 4 and kept[0].dtype == torch.float64


def test_influence_is_what_a_small_change_does():
    net = seeded(graph_from(KARATE), num_layers=2, activation=torch.tanh)
    view = ll.lens.node_influence(net, 8)
    twin = network_of(net)
    size = np.zeros(34)
    for j in range(34):
        for f in range(4):
            x = twin.held.graph.x.clone()
            x[j, f] += 1e-6
            change = states(twin, x)[1][-1][8] - states(twin)[1][-1][8]
            size[j] += float(change.abs().sum()) / 1e-6
    assert np.allclose(view.influence, size / size.sum(), atol=1e-5)
    far = nx.single_source_shortest_path_length(KARATE, 8)
    assert all((view.influence[j] > 0) == (far[j] <= 2) for j in range(34))


def test_the_walk_is_a_power_of_its_matrix():
    A = nx.to_numpy_array(KARATE, weight=None) + np.eye(34)
    P = A / A.sum(1, keepdims=True)
    assert np.allclose(walked(graph_from(KARATE), 4, 3), np.linalg.matrix_power(P, 3)[4])


def test_a_linear_network_of_means_has_the_influence_of_a_walk():
    net = seeded(graph_from(KARATE), how="mean", activation=lambda h: h)
    view = ll.lens.node_influence(net, 2)
    assert view.overlap == pytest.approx(1) and view.correlation == pytest.approx(1)


def test_energy_is_that_of_the_matrix():
    graph = graph_from(KARATE)
    A = np.array(a.kipf(nx.to_numpy_array(KARATE, weight=None).tolist()))
    h = np.random.default_rng(0).standard_normal((34, 5))
    expected = np.trace(h.T @ (np.eye(34) - A) @ h) / (h**2).sum()
    assert energy_of(torch.from_numpy(h), graph) == pytest.approx(expected)
    weighted = Graph(graph.x, graph.edges.with_(weight=torch.full((len(graph.edges),), 2.0)))
    A2 = np.array(a.kipf((2 * nx.to_numpy_array(KARATE, weight=None)).tolist()))
    assert energy_of(torch.from_numpy(h), weighted) == pytest.approx(
        np.trace(h.T @ (np.eye(34) - A2) @ h) / (h**2).sum()
    )


def test_means_smooth_and_skips_do_not():
    graph = graph_from(KARATE, dim=8)
    plain = ll.lens.over_smoothing(seeded(graph, how="mean", num_layers=16, activation=lambda h: h))
    skips = ll.lens.over_smoothing(seeded(graph, how="mean", num_layers=16, skip=True, activation=lambda h: h))
    assert plain.spread[-1] < 1e-2 * skips.spread[-1] and plain.rate < skips.rate
    assert len(plain.names) == 17


def test_resistance_is_networkx_s():
    g = nx.barbell_graph(4, 2)
    found = resistance(nx.to_numpy_array(g))
    assert found[0, 9] == pytest.approx(nx.resistance_distance(g, 0, 9))
    assert found[1, 5] == pytest.approx(nx.resistance_distance(g, 1, 5))


def test_little_is_felt_through_a_bottleneck():
    view = ll.lens.over_squashing(seeded(graph_from(nx.barbell_graph(8, 3)), how="mean", num_layers=6), num=19)
    assert view.rank < -0.7
    felt = view.by_distance[1:][view.by_distance[1:] > 0]
    assert (np.diff(felt) < 0).all()
    assert (view.distance <= 6).all() and view.crowd[0] == 1


# ── colours ──


def test_colours_are_those_of_the_reference():
    for seed in range(6):
        g = nx.gnp_random_graph(12, 0.25, seed=seed)
        view = ll.lens.node_colours(graph_from(g), features=False)
        expected = c.colours(nx.to_numpy_array(g).tolist())
        assert view.colours.tolist() == expected
        assert view.counts[-1] == len(set(expected))


def test_what_has_one_colour_has_one_answer():
    two = nx.disjoint_union(nx.cycle_graph(3), nx.cycle_graph(3))
    graphs = [graph_from(g, x=torch.ones(6, 2)) for g in (two, nx.cycle_graph(6), nx.path_graph(6))]
    both = Graph.union(graphs)
    view = ll.lens.node_colours(seeded(both, how="sum"))
    assert view.graphs_alike == ((0, 1),) and view.within < 1e-14 and view.between > 1e-3
    net = seeded(both, level="graph", how="sum")
    answers = net(torch.arange(3)[:, None])
    assert torch.allclose(answers[0], answers[1], atol=1e-6) and not torch.allclose(answers[0], answers[2], atol=1e-3)


def test_colours_see_features_and_edges():
    path = nx.path_graph(4)
    plain = graph_from(path, x=torch.ones(4, 1))
    assert ll.lens.node_colours(plain).counts[-1] == 2
    assert ll.lens.node_colours(graph_from(path, x=torch.tensor([[1.0], [1], [1], [2]]))).counts[-1] == 4
    weighted = Graph(plain.x, plain.edges.with_(weight=torch.tensor([1.0, 1, 2, 2, 3, 3])))
    assert ll.lens.node_colours(weighted).counts[-1] == 4
    assert ll.lens.node_colours(plain, rounds=0).counts == (1,)


# ── spectrum, parts, matrices ──


@pytest.mark.parametrize("normalised", [True, False])
def test_a_spectrum_is_networkx_s(normalised):
    g = nx.disjoint_union(nx.karate_club_graph(), nx.cycle_graph(5))
    graph = graph_from(g)
    view = ll.lens.graph_spectrum(graph, normalised=normalised)
    matrix = (nx.normalized_laplacian_matrix if normalised else nx.laplacian_matrix)(g, weight=None).toarray()
    assert np.allclose(view.values, np.linalg.eigvalsh(matrix), atol=1e-9) and view.pieces == 2
    assert view.power.sum() == pytest.approx(1)


def test_smooth_numbers_have_their_power_at_slow_waves():
    graph = graph_from(nx.path_graph(20), x=torch.linspace(0, 1, 20)[:, None])
    view = ll.lens.graph_spectrum(graph, normalised=False)
    assert view.power[1] > 0.95


def test_parts_count_what_they_cut():
    g = nx.stochastic_block_model([10] * 4, (np.eye(4) * 0.5 + 0.03).tolist(), seed=0)
    part = np.arange(40) // 10
    view = ll.lens.graph_parts(graph_from(g), part)
    cut = sum(part[i] != part[j] for i, j in g.edges)
    assert (view.between, view.inside) == (cut, g.number_of_edges() - cut)
    assert (view.singles, view.pairs_of_parts, view.sizes) == (4, 6, (10,) * 4)
    i, j = view.pair
    assert view.restored == sum({part[m], part[n]} == {i, j} for m, n in g.edges)


def test_another_order_is_the_same_graph():
    graph, order = graph_from(KARATE), np.random.default_rng(0).permutation(34).tolist()
    view = ll.lens.graph_matrices(graph, order)
    assert np.array_equal(view.moved, a.permuted(view.adjacency.tolist(), order))
    moved = permuted(graph, torch.tensor(order))
    assert np.array_equal(dense(moved), view.moved) and np.allclose(moved.x, view.moved_nodes)


def test_an_edge_graph_is_networkx_s():
    g = nx.gnp_random_graph(9, 0.4, seed=1)
    view = ll.lens.edge_graph(graph_from(g))
    line = nx.line_graph(g)
    assert len(view.pairs) == len(line) and len(view.joined) == line.number_of_edges()


# ── the order of nodes ──


@pytest.mark.parametrize("level", ["node", "edge", "graph"])
def test_message_passing_does_not_know_the_order(level):
    both = Graph.union([graph_from(KARATE), graph_from(nx.cycle_graph(7), seed=1)])
    view = ll.lens.node_order(seeded(both, level=level))
    assert view.holds and view.names[-1] == "output"
    assert np.isnan(view.printed) if level != "node" else view.printed > 0.1


class Peeks(nn.Module):
    """Knows which node is which."""

    def forward(self, h, edges):
        return h[: edges.num_targets] * torch.arange(1, edges.num_targets + 1)[:, None]


def test_a_layer_that_knows_the_order_is_noticed():
    graph = graph_from(KARATE)
    assert layer_error(Peeks(), (graph.x, graph.edges), graph.edges, torch.randperm(34)) > 0.1
    net = seeded(graph, num_layers=2)
    net.layers[1] = Peeks()
    view = ll.lens.node_order(net)
    assert not view.holds and view.errors[0] < 1e-9 < view.errors[1]


# ── attention ──


def held(net, graph):
    net.held.put(graph)
    return net


@pytest.mark.parametrize("version", [1, 2])
def test_attention_is_what_mixes_the_values(version):
    torch.manual_seed(0)
    graph = graph_from(KARATE)
    net = held(ll.models.GAT(4, 3, dim=8, num_heads=2, num_layers=2, version=version), graph)
    view = ll.lens.edge_attention(net)
    assert len(view.names) == 2 and view.weights[0].shape == (2 * 78 + 34, 2)
    twin = network_of(net)
    call = passings(twin)[0]
    P = np.zeros((2, 34, 34))
    P[:, view.pairs[0][:, 1], view.pairs[0][:, 0]] = view.weights[0].T
    assert np.allclose(P.sum(2), 1)
    v = call.module.value(call.h).unflatten(1, (2, 4)).detach().numpy()
    mixed = np.einsum("hij,jhk->ihk", P, v).reshape(34, 8)
    assert np.allclose(mixed + call.module.bias.detach().numpy(), call.out.detach().numpy())


def test_a_transformer_on_a_graph_looks_at_neighbours_alone():
    torch.manual_seed(0)
    net = held(ll.models.GraphTransformer(4, 3, dim=8, num_heads=2, num_layers=1, num_hops=1), graph_from(KARATE))
    view = ll.lens.edge_attention(net)
    assert {tuple(sorted(p)) for p in view.pairs[0].tolist() if p[0] != p[1]} == {
        tuple(sorted(e)) for e in KARATE.edges
    }
    sums = np.zeros((34, 2))
    np.add.at(sums, view.pairs[0][:, 1], view.weights[0])
    assert np.allclose(sums, 1)


def test_focus_is_0_of_even_shares():
    net = held(ll.models.GAT(4, 3, dim=8, num_layers=1), graph_from(KARATE))
    for layer in net.modules():
        for name in ("from_source", "from_target"):
            if getattr(layer, name, None) is not None:
                nn.init.zeros_(getattr(layer, name))
    assert np.nanmax(np.abs(ll.lens.edge_attention(net).focus[0])) < 1e-9
    with pytest.raises(UserError, match="attention along edges"):
        ll.lens.edge_attention(held(ll.models.GCN(4, 3), graph_from(KARATE)))


def test_every_network_on_graphs_is_heard():
    import inspect

    both = Graph.union([graph_from(KARATE), graph_from(nx.cycle_graph(7), seed=1)])
    for kind in ll.models.MODELS.values():
        if "level" not in inspect.signature(kind).parameters:
            continue
        for level in ("node", "graph"):
            torch.manual_seed(0)
            net = held(kind(dim_input=4, dim_output=2, level=level), both)
            assert ll.lens.over_smoothing(net).energy.min() >= 0, kind
            assert ll.lens.node_order(net).holds, kind
            assert ll.lens.node_influence(net, 0).influence.sum() == pytest.approx(1), kind


# ── they leave no trace, and all can be drawn ──


class Awkward(Net):
    """Draws random numbers, and counts its calls."""

    def __init__(self, graph):
        super().__init__(graph)
        self.register_buffer("calls", torch.zeros((), dtype=torch.long))

    def forward(self, asked):
        self.calls += 1
        torch.rand(3)
        return super().forward(asked)


LENSES = {
    "graph_drawing": ll.lens.graph_drawing,
    "graph_walks": ll.lens.graph_walks,
    "hop_reach": ll.lens.hop_reach,
    "node_influence": ll.lens.node_influence,
    "over_smoothing": ll.lens.over_smoothing,
    "over_squashing": ll.lens.over_squashing,
    "node_colours": ll.lens.node_colours,
    "graph_spectrum": ll.lens.graph_spectrum,
    "neighbourhoods": ll.lens.neighbourhoods,
    "graph_parts": lambda m: ll.lens.graph_parts(m, [k % 3 for k in range(34)]),
    "graph_matrices": lambda m: ll.lens.graph_matrices(m, list(range(34))[::-1]),
    "edge_graph": ll.lens.edge_graph,
    "node_order": ll.lens.node_order,
}


@pytest.mark.parametrize("name", LENSES)
def test_a_lens_leaves_no_trace_and_draws(name):
    torch.manual_seed(0)
    net = Awkward(graph_from(KARATE)).train()
    net(torch.zeros(1, 1, dtype=torch.int64)).sum().backward()
    held, random = net.held.graph, torch.get_rng_state()
    before = [t.clone() for t in (*net.parameters(), *net.buffers(), *(p.grad for p in net.parameters()))]
    view = LENSES[name](net)
    after = [*net.parameters(), *net.buffers(), *(p.grad for p in net.parameters())]
    assert all(torch.equal(x, y) for x, y in zip(before, after, strict=True))
    assert net.held.graph is held and net.training and torch.equal(random, torch.get_rng_state())
    assert not any(len(m._forward_hooks) + len(m._forward_pre_hooks) for m in net.modules())
    json.dumps(view.to_dict())
    figure = view.plot()
    figure.draw_without_rendering()
    assert figure.axes


def test_steps_of_hops_stop_where_asked():
    assert hops(graph_from(nx.path_graph(5)), 0, most=2).tolist() == [0, 1, 2, -1, -1]


def test_colours_span_the_values_that_there_are():
    from leadline.lens.graph_drawing import _scale

    assert _scale(np.array([5.3, 5.6, np.nan]), False, None) == (5.3, 5.6)
    assert _scale(np.array([-5.6, -5.3]), False, None) == (-5.6, -5.3)
    assert _scale(np.array([0.1, 0.6]), False, None) == (0.0, 0.6)
    assert _scale(np.array([-1.0, 3.0]), True, None) == (-3.0, 3.0)
    low, high = _scale(np.array([2.0, 2.0]), False, None)
    assert low < 2.0 < high
