"""Networks on graphs: trained by fit, the same each time, and able to do what rows alone do not allow."""

import pytest
import torch

import leadline as ll
from leadline.data.data import Data, Split
from leadline.data.edges import Edges
from leadline.data.graph import Graph
from leadline.data.inputs import Inputs
from leadline.data.target import Target
from leadline.errors import UnknownName, UserError
from leadline.layers import noise
from leadline.layers.held_graph import HeldGraph
from leadline.models import MODELS
from leadline.testing import check_model, small_graph

NAMES = ("GCN", "GraphSAGE", "GAT", "GIN", "ChebNet", "MessageNet", "EdgeNetwork", "RelationalGCN",
         "RecursiveGraphNet", "GraphTransformer")  # fmt: skip


class Asked(Inputs):
    def __init__(self, graph=None, level="node"):
        self.graph, self.level = graph, level

    @property
    def config(self):
        return {}

    def encode(self, x):
        return x

    def read(self, rows):
        return torch.as_tensor(rows)

    def sizes(self, shape):
        return {"dim_input": self.graph.x.shape[1], "level": self.level, "dim_edge": 0, "num_relations": 1}


def planted(num=300, seed=0):
    """Two groups, within which most edges are; numbers of nodes say little."""
    g = torch.Generator().manual_seed(seed)
    y = torch.arange(num) % 2
    pairs = torch.randint(num, (2, 12 * num), generator=g)
    kept = (y[pairs[0]] == y[pairs[1]]) | (torch.rand(pairs.shape[1], generator=g) < 0.15)
    x = torch.randn(num, 4, generator=g)
    x[:, 0] += 0.5 * (2 * y - 1)
    rows = torch.randperm(num, generator=g)[:, None]
    splits = [Split(part, y[part[:, 0]]) for part in rows.split(num // 3)]
    graph = Graph(x, Edges.of(pairs[:, kept], num, directed=False))
    return Data(*splits, Target("classes", classes=("a", "b")), Asked(graph))


@pytest.mark.parametrize("name", NAMES)
def test_a_network_learns_what_neighbours_tell(name):
    data = planted()
    net = ll.models.build(name, data, 2, dim=16)
    run = ll.fit(net, data, epochs=30, batch=100, lr=1e-2, progress=False, compile="off")
    assert run.evaluate("test")["accuracy"] > 0.75  # of its own numbers alone no more than 0.69 is possible


@pytest.mark.parametrize("batch", [25, 100])
def test_training_with_dropout_is_a_function_of_the_seed(batch):
    data, found = planted(), []
    for _ in range(2):
        net = ll.models.build("GCN", data, 2, dim=8, p_drop=0.5)
        ll.fit(net, data, epochs=3, batch=batch, progress=False, compile="off", validate_every=3)
        found.append([p.detach().clone() for p in net.parameters()])
    assert all(torch.equal(a, b) for a, b in zip(*found, strict=True))
    other = ll.models.build("GCN", data, 2, dim=8, p_drop=0.5)
    ll.fit(other, data, epochs=3, batch=batch, seed=1, progress=False, compile="off", validate_every=3)
    assert not torch.equal(next(iter(other.parameters())), found[0][0])


def test_noise_of_graphs_is_each_graph_s_own():
    net = MODELS["GCN"](3, 2, dim=4, level="graph", p_drop=0.5)
    check_model(net)


def test_noise_of_nodes_is_the_same_whatever_their_order_in_the_batch():
    net = MODELS["GCN"](3, 2, dim=16, p_drop=0.5)
    net.held.put(small_graph(net))
    asked, keys = torch.arange(6)[:, None], torch.arange(6) + 40
    with noise.keyed(keys):
        one = net(asked)
    with noise.keyed(keys.flip(0)):
        other = net(asked.flip(0))
    torch.testing.assert_close(one, other.flip(0))
    with noise.keyed(keys + 1):
        assert not torch.allclose(net(asked), one)


def test_a_sampler_says_what_is_read_while_training():
    net = MODELS["GraphSAGE"].tiny()
    net.held.put(small_graph(net))
    seen = []

    def sampler(edges, nodes, num_layers, key):
        seen.append(nodes.tolist())
        order = torch.cat([nodes, torch.tensor([n for n in range(edges.num_targets) if n not in nodes])])
        moved = Edges.of(order.argsort()[edges.pairs], edges.num_targets).with_(directed=False)
        return order, (moved,) * num_layers

    asked = torch.tensor([[9], [2], [9]])
    whole = net(asked)
    net.held.sampler = sampler
    torch.testing.assert_close(net(asked), whole)
    assert seen == [[2, 9]]
    torch.testing.assert_close(net.eval()(asked), whole)
    assert len(seen) == 1


def test_a_network_without_a_graph_says_so():
    with pytest.raises(UserError, match="must be given it"):
        MODELS["GCN"].tiny()(torch.tensor([[0]]))


def test_a_graph_is_no_state_and_moves_with_the_network():
    net = MODELS["GCN"].tiny()
    net.held.put(small_graph(net))
    assert not any("held" in name for name in net.state_dict())
    assert net.double().held.graph.x.dtype == torch.float64


@pytest.mark.parametrize("bad", [{"level": "nodes"}, {"readout": "median"}, {"residual": "yes"}, {"jumping": "all"}])
def test_unknown_words(bad):
    with pytest.raises(UnknownName, match=next(iter(bad.values()))):
        MODELS["GCN"](3, 2, **bad)


def test_rows_of_numbers_are_not_for_graphs_nor_graphs_for_an_mlp():
    with pytest.raises(UserError, match="which read graphs"):
        ll.models.build("MLP", planted(), 2)


def test_directed_edges_are_refused_by_gcn():
    net = MODELS["GCN"].tiny()
    net.held.put(Graph(torch.randn(2, 3), Edges.of(torch.tensor([[0], [1]]), num_nodes=2)))
    with pytest.raises(UserError, match="without directions"):
        net(torch.tensor([[0]]))


def test_held_graphs_have_a_level():
    assert HeldGraph("edge").row_shape == (2,)


def test_steps_of_graphs_of_different_sizes_are_neither_recorded_nor_compiled():
    torch.manual_seed(0)
    many = [Graph(torch.randn(n, 4), Edges.of(torch.randint(n, (2, 2 * n)), n, directed=False)) for n in range(2, 42)]
    graph = Graph.union(many)
    rows = torch.arange(40)[:, None]
    y = (rows[:, 0] > 20).long()
    splits = [Split(rows[k::3], y[k::3]) for k in range(3)]
    data, found = Data(*splits, Target("classes", classes=("small", "large")), Asked(graph, "graph")), []
    for wish in ("off", "auto", "on"):
        net = ll.models.build("GIN", data, 2, dim=8)
        ll.fit(net, data, epochs=25, batch=4, progress=False, compile=wish, lr=1e-2)
        found.append([p.detach().clone() for p in net.parameters()])
    assert all(torch.equal(a, b) for other in found[1:] for a, b in zip(found[0], other, strict=True))
    assert all(torch.isfinite(p).all() for p in found[0])


@pytest.mark.slow
@pytest.mark.parametrize("name", ["GCN", "GAT"])
def test_compiled_steps_are_the_same_steps(name):
    data, found = planted(), []
    for wish in ("off", "on"):
        net = ll.models.build(name, data, 2, dim=8)
        ll.fit(net, data, epochs=3, batch=25, progress=False, compile=wish)
        found.append([p.detach().clone() for p in net.parameters()])
    for a, b in zip(*found, strict=True):
        torch.testing.assert_close(a, b, rtol=1e-4, atol=1e-5)
