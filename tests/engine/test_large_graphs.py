"""Training on some of a graph at a time: exact to resume, on average the whole; answers in pieces are the whole's."""

import inspect
from dataclasses import replace

import numpy as np
import pytest
import torch
from engine_runs import StopAt, hashes, same, state_of
from torch import nn

import leadline as ll
from leadline.data.edges import Edges
from leadline.data.graph import Graph
from leadline.data.sampling import sampling
from leadline.engine.feed import Feed
from leadline.errors import DataError
from leadline.layers import held_graph, noise, piecewise
from leadline.layers.held_graph import HeldGraph
from leadline.layers.segments import received
from leadline.optim.tape import replayable
from leadline.testing import small_graph


class Sage(nn.Module):
    """Own layers that know of times and degrees, so that samplers are tested by themselves."""

    def __init__(self, dim_input=8, dim=12, dim_output=1, level="node", num_layers=2):
        super().__init__()
        self.held = HeldGraph(level)
        sizes = [dim_input, *[dim] * num_layers]
        self.own = nn.ModuleList(nn.Linear(a, dim) for a in sizes[:-1])
        self.others = nn.ModuleList(nn.Linear(a, dim, bias=False) for a in sizes[:-1])
        self.head = nn.Linear(dim, dim_output)

    def forward(self, asked):
        read = self.held(asked, len(self.own))
        h = read.x
        for k, edges in enumerate(read.blocks):
            h = piecewise.piecewise(lambda h, e, k=k: self.layer(k, h, e), h, edges)
        return self.head(h[read.places] if read.places.dim() == 1 else h[read.places].prod(1))

    def layer(self, k, h, edges):
        mean = received(h, edges, edges.times) / edges.degree[: edges.num_targets].clamp(min=1)[:, None]
        return torch.relu(self.own[k](h[: edges.num_targets]) + self.others[k](mean))


def arrays(num=300, num_edges=2000):
    g = np.random.default_rng(0)
    y = np.arange(num) % 2
    a = g.integers(num, size=num_edges)
    b = np.where(g.random(num_edges) < 0.85, 2 * g.integers(num // 2, size=num_edges) + a % 2, a[::-1])
    x = g.normal(size=(num, 8)).astype(np.float32)
    x[:, 0] += 1.5 * y
    return x, np.stack([a, b]), y


def data(batches="neighbours(4)", **sizes):
    return ll.data.large_graph(*arrays(**sizes), batches=batches)


def made(seed=0, **options):
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        return Sage(**options)


def fit(model, rows, folder=None, **settings):
    own = {"epochs": 3, "batch": 32, "lr": 1e-2, "threads": 1, "seed": 7, **settings}
    return ll.fit(model, rows, folder=folder, progress=False, with_report=False, **own)


WAYS = ["neighbours(4)", "heavy(3, 4)", "layers(40)", "walks(3, 2)", "parts(6)", "hops"]


@pytest.mark.parametrize("way", WAYS)
def test_stopped_and_resumed_equals_uninterrupted(way, tmp_path):
    whole = fit(made(), data(way), tmp_path / "whole")
    for stop in (2, 9):
        folder = tmp_path / f"parts-{stop}"
        stopped = fit(made(), data(way), folder, listeners=[StopAt(stop)])
        assert stopped.reason == "interrupted"
        torch.manual_seed(4321)
        ended = ll.resume(folder, model=made(5), data=data(way), progress=False, with_report=False)
        assert ended.history == whole.history and same(state_of(ended.model), state_of(whole.model))
        assert hashes(folder) == hashes(tmp_path / "whole")


def test_runs_out_of_files_are_found_again(tmp_path):
    for name, array in zip(("x", "edges", "y"), arrays()):
        np.save(tmp_path / f"{name}.npy", array)
    files = [tmp_path / f"{name}.npy" for name in ("x", "edges", "y")]
    rows = ll.data.large_graph(*files, batches="neighbours(3)")
    again = ll.data.load(rows.recipe)
    assert again.fingerprint == rows.fingerprint and str(again.inputs.graph.batches) == "neighbours(3)"
    assert rows.fingerprint == data("neighbours(3)").fingerprint
    run, other = fit(made(), rows), fit(made(), data("neighbours(3)"))
    assert same(state_of(run.model), state_of(other.model))


@pytest.mark.parametrize("way", WAYS)
def test_every_way_learns_what_the_whole_graph_teaches(way):
    rows = data(way)
    run = fit(made(), rows, epochs=12)
    assert run.evaluate("test")["accuracy"] > 0.93  # a node alone tells 77 %


def loss_of(model, asked, y, keys):
    with noise.keyed(keys):
        return nn.functional.binary_cross_entropy_with_logits(model(asked)[:, 0], y)


def test_a_batch_of_neighbourhoods_has_the_gradient_of_the_whole_graph():
    rows, model = data("hops"), made().double()
    asked, y = rows.train.x[:20], rows.train.y[:20].double()
    found = []
    for way in (rows.inputs.graph, data("").inputs.graph):
        model.held.put(way.to(dtype=torch.float64))
        model.zero_grad()
        loss_of(model, asked, y, torch.arange(20)).backward()
        found.append([p.grad.clone() for p in model.parameters()])
    for a, b in zip(*found):
        torch.testing.assert_close(a, b, atol=1e-14, rtol=1e-12)


def test_sums_of_a_linear_network_are_met_on_average():
    """One layer without a bend: the output of many draws is that of the whole graph, within its own error."""
    rows = data("neighbours(2)")
    held = HeldGraph("node")
    held.put(rows.inputs.graph)
    asked = torch.arange(30)[:, None]
    found = []
    for k in range(800):
        with noise.keyed(noise.example_keys(0, k, asked[:, 0])):
            read = held(asked, 1)
        found.append(received(read.x, read.blocks[0], read.blocks[0].times)[read.places])
    found, whole = torch.stack(found), received(rows.inputs.graph.x, rows.inputs.graph.edges)[:30]
    error = found.std(0) / 800**0.5
    assert ((found.mean(0) - whole).abs() <= 4.7 * error + 1e-5).all()  # of 240 numbers: wrong once in 1,600


def test_nodes_that_are_asked_twice_and_pairs_of_nodes_are_answered():
    pair = made(level="edge")
    pair.held.put(data("hops").inputs.graph)
    asked = torch.tensor([[3, 3], [5, 3], [3, 5]])
    pair.train()
    sampled = pair(asked)
    pair.held.sampler = None
    torch.testing.assert_close(sampled, pair(asked))
    torch.testing.assert_close(sampled[1], sampled[2])


def test_evaluation_reads_all_and_draws_nothing(monkeypatch):
    model = made()
    model.held.put(data("neighbours(1)").inputs.graph)
    asked = torch.arange(50)[:, None]
    with torch.no_grad():
        whole = model.eval()(asked)
        assert model.held(asked, 2).nodes is None
        drawn = model.train()(asked)
        assert not torch.allclose(drawn, whole)
        monkeypatch.setattr(held_graph, "_LARGE", 1)
        assert model.eval().held(asked, 1).nodes is None
        read = model.eval().held(asked[:1], 1)
        assert read.nodes is not None and len(read.nodes) < 100  # few are asked: their neighbourhoods
        torch.testing.assert_close(model(asked[:1]), whole[:1])


@pytest.mark.parametrize("most", [1, 7, 100, 5000])
def test_layers_in_pieces_are_the_whole(most, monkeypatch):
    model = made(num_layers=3).double().eval()
    isolated = Edges.of(torch.from_numpy(arrays()[1]), 310)  # of the last ten nodes none has an edge
    model.held.put(Graph(torch.randn(310, 8, dtype=torch.float64), isolated))
    asked, own = torch.arange(310)[:, None], piecewise.piecewise
    whole = model(asked).detach()
    sizes = []

    def in_pieces(layer, h, edges):
        def told(h, e):
            sizes.append(len(e))
            return layer(h, e)

        return own(told, h, edges, most=most)

    monkeypatch.setattr(piecewise, "piecewise", in_pieces)
    with torch.no_grad():
        torch.testing.assert_close(model(asked), whole, atol=1e-13, rtol=0)
    assert sum(sizes) == 3 * len(isolated)
    if most < 2000:
        assert max(sizes) <= max(most, int(isolated.degree.max()))


def test_rows_follow_the_parts_and_a_batch_reads_few_of_them():
    rows = data("parts(6)")
    feed = Feed(rows.train, rows.inputs, 16, 3, torch.device("cpu"), torch.float32)
    parts = rows.inputs.graph.batches.of(rows.inputs.graph.edges)
    seen = parts[feed.raw[feed.order(0)][:, 0]]
    assert int((seen.diff() != 0).sum()) == 5
    assert not torch.equal(feed.order(0), feed.order(1))
    assert torch.equal(feed.order(0).sort().values, torch.arange(len(feed)))
    held = HeldGraph("node")
    held.put(rows.inputs.graph)
    for [batch] in feed.calls(0, 0, 1):
        assert len(held(batch.x, 2).nodes) <= 2 * 50 + 2


def test_what_varies_is_neither_compiled_nor_replayed():
    rows = data("neighbours(2)")
    run = fit(made(), rows, compile="on", epochs=1)
    assert run.settings.compile == "off"
    model = ll.models.GCN(8, 1)
    for way, steady in (("", True), ("neighbours(2)", False), ("parts(3)", False)):
        model.held.put(data(way).inputs.graph)
        assert replayable([model]) is steady


@pytest.mark.parametrize("way", ["hops", "neighbours(2)", "layers(60)", "parts(5)"])
def test_networks_of_the_library_learn_by_every_way_and_resume(way, tmp_path):
    make = lambda: ll.models.build("GCN", data(way), 1, seed=0, dim=12, p_drop=0.1)  # noqa: E731
    fit(make(), data(way), tmp_path / "whole", epochs=20)
    stopped = fit(make(), data(way), tmp_path / "parts", epochs=20, listeners=[StopAt(11)])
    assert stopped.reason == "interrupted"
    ended = ll.resume(tmp_path / "parts", data=data(way), progress=False, with_report=False)
    assert hashes(tmp_path / "parts") == hashes(tmp_path / "whole")
    assert ended.evaluate("test")["accuracy"] > 0.9


def test_keys_are_asked_for_where_something_is_drawn():
    model = made()
    for way, drawn in (("neighbours(2)", True), ("hops", False), ("parts(3)", False), ("", False)):
        model.held.put(data(way).inputs.graph)
        assert noise.draws_noise(model) is drawn


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"x": np.ones((5, 2), np.float32)}, "one value a node"),
        ({"x": np.ones((300, 2), int)}, "real numbers"),
        ({"edges": np.array([[0], [300]])}, "nodes 0 … 299"),
        ({"x": "nowhere.npy"}, "numpy.save"),
    ],
)
def test_bad_arrays_are_told(wrong, message):
    x, edges, y = arrays()
    given = {"x": x, "edges": edges, "y": y, **wrong}
    with pytest.raises(ll.errors.UserError, match=message):
        ll.data.large_graph(given["x"], given["edges"], given["y"])


GRAPH_MODELS = sorted(n for n, kind in ll.models.MODELS.items() if "level" in inspect.signature(kind).parameters)


def tiny(name):
    with torch.random.fork_rng():
        torch.manual_seed(0)
        model = ll.models.MODELS[name].tiny().double()
        return model, small_graph(model).to(dtype=torch.float64)


@pytest.mark.parametrize("name", GRAPH_MODELS)
def test_every_network_has_the_gradient_of_the_whole_graph_or_says_that_it_needs_it(name):
    model, graph = tiny(name)
    asked, found = torch.tensor([[0], [7], [7], [29]]), []
    for way in ("", "hops", "neighbours(1000)"):
        model.held.put(replace(graph, batches=sampling(way) if way else None))
        model.zero_grad()
        if way and model.held.whole:
            with pytest.raises(ll.errors.UserError, match="must be whole graphs"):
                model(asked)
            continue
        model(asked).square().sum().backward()
        found.append([p.grad.clone() for p in model.parameters() if p.grad is not None])
    for other in found[1:]:
        for a, b in zip(found[0], other, strict=True):
            torch.testing.assert_close(a, b, atol=1e-12, rtol=1e-9)
    model.held.put(replace(graph, batches=sampling("parts(3)")))
    assert model(asked).isfinite().all()


@pytest.mark.parametrize("name", GRAPH_MODELS)
def test_every_network_answers_of_a_large_graph_as_of_a_small_one(name, monkeypatch):
    model, graph = tiny(name)
    model.eval().held.put(graph)
    asked = torch.arange(30)[:, None]
    with torch.no_grad():
        whole = model(asked)
        monkeypatch.setattr(held_graph, "_LARGE", 1)
        monkeypatch.setattr(held_graph, "_FEW", 10)
        monkeypatch.setitem(piecewise._ROOM, "cpu", 1)
        monkeypatch.setattr(piecewise, "_LEAST", 5)
        torch.testing.assert_close(model(asked), whole, atol=1e-12, rtol=1e-9)  # in pieces
        torch.testing.assert_close(model(asked[3:5]), whole[3:5], atol=1e-12, rtol=1e-9)  # of a neighbourhood


@pytest.mark.parametrize("name", ["GCN", "GraphSAGE", "MessageNet"])
@pytest.mark.parametrize("way", ["neighbours(1)", "layers(3)"])
def test_a_layer_that_is_linear_meets_the_whole_graph_on_average(name, way):
    kind = ll.models.MODELS[name]
    with torch.random.fork_rng():
        torch.manual_seed(0)
        model = kind(3, 2, num_layers=1).double()
        model.held.put(small_graph(model).to(dtype=torch.float64))
    asked = torch.tensor([[0], [7], [13], [29]])
    whole = model(asked).detach()
    model.held.sampler = sampling(way)
    with torch.no_grad():
        found = []
        for k in range(600):
            with noise.keyed(noise.example_keys(0, k, asked[:, 0])):
                found.append(model(asked))
    found = torch.stack(found)
    error = found.std(0) / 600**0.5
    assert ((found.mean(0) - whole).abs() <= 4.5 * error + 1e-9).all() and (error > 0).any()


def test_arrays_that_do_not_fit_are_told():
    x, pairs, y = np.random.default_rng(0).normal(size=(9, 2)), np.array([[0, 1, 1, 4], [1, 0, 2, 4]]), np.arange(9) % 2
    data = ll.data.large_graph(x, pairs, y)  # float64, as numpy makes it
    assert data.inputs.graph.x.dtype == torch.float32
    assert "1 edge from a node to itself kept" in str(data.account)
    assert "2 edges parallel to another kept, both ways counted" in str(data.account)
    with pytest.raises(DataError, match="edges must be whole numbers"):
        ll.data.large_graph(x, pairs + 0.5, y)
    with pytest.raises(DataError, match="y must hold numbers"):
        ll.data.large_graph(x, pairs, np.array([*"ababababa"]))
