"""Claims on graphs can say no: layers that know the order, look too far, count what they should not, or leak."""

import numpy as np
import pytest
import torch
from torch import nn

from leadline.claims import CLAIMS, graph_colours, graph_depth, graph_filters, graph_order, graph_walks, graphs_made


def missed(name):
    return [check.what for check in CLAIMS[name].run().evidence.checks if not check.holds]


def test_a_network_that_knows_the_order_is_noticed(monkeypatch):
    plain = graphs_made.Passing.forward

    def forward(self, h, edges):
        return plain(self, h, edges) * torch.arange(1, edges.num_targets + 1)[:, None]

    monkeypatch.setattr(graphs_made.Passing, "forward", forward)
    assert missed("graphs-have-no-order") == ["largest error of a layer or an answer, over networks and levels"]
    assert "largest difference of answers" in missed("union-is-separate")
    assert "largest difference of two answers" in missed("colours-bound-networks")


def test_a_layer_that_looks_too_far_is_noticed(monkeypatch):
    plain = graphs_made.Passing.forward
    monkeypatch.setattr(graphs_made.Passing, "forward", lambda self, h, edges: plain(self, h + 0.1 * h.mean(0), edges))
    assert "largest derivative by a node farther than k steps" in missed("layers-see-hops")


def test_edges_that_are_left_out_are_noticed(monkeypatch):
    monkeypatch.setattr(graphs_made, "total", lambda m, e: 0 * m.sum() + torch.zeros(e.num_targets, m.shape[1]).to(m))
    assert "derivatives within k steps that are 0, all weights positive" in missed("layers-see-hops")


def test_walks_on_another_graph_are_noticed(monkeypatch):
    monkeypatch.setattr(graph_walks, "SIX", (*graph_walks.SIX, (6, 1)))
    assert len(missed("walks-are-powers")) == 2


def test_a_matrix_that_is_not_normalised_is_noticed(monkeypatch):
    monkeypatch.setattr(graph_depth, "kipf", lambda A, loops: (np.array(A) + np.eye(len(A))).tolist())
    assert len(missed("adjacency-norm")) == 4


def test_sums_that_are_means_do_not_count(monkeypatch):
    monkeypatch.setattr(graphs_made, "total", graphs_made.mean)
    assert "least difference by sums" in missed("sums-count")


def test_a_filter_with_long_arms_is_noticed(monkeypatch):
    plain = graph_filters.np.linalg.matrix_power
    monkeypatch.setattr(graph_filters.np.linalg, "matrix_power", lambda L, k: plain(L, k + 1))
    found = missed("polynomials-are-spectral")
    assert "largest difference of the two forms" in found and "largest entry beyond K hops" in found


def test_a_mask_that_is_none_is_noticed(monkeypatch):
    def wrong(S, B):
        e = np.exp(np.array(S) * (np.array(B) > 0))
        return (e / e.sum(1, keepdims=True)).tolist()

    monkeypatch.setattr(graph_filters.message_passing, "softmask", wrong)
    assert missed("softmask-is-a-mask") == ["largest weight outside"]


def test_what_is_no_contraction_need_not_converge(monkeypatch):
    monkeypatch.setattr(graph_depth.torch.linalg, "qr", lambda W: (5 * torch.eye(8, dtype=W.dtype), None))
    assert "factor of the distance a step over the constant, the worst" in missed("contraction-converges")


def test_residuals_that_are_none_do_not_help(monkeypatch):
    plain = graph_depth.GCN

    def without(*args, residual="none", **options):
        return plain(*args, residual="none", **options)

    monkeypatch.setattr(graph_depth, "GCN", without)
    assert len(missed("over-smoothing")) == 2


def test_other_pairs_are_told_apart(monkeypatch):
    star = tuple((0, k) for k in range(1, 6))
    path = tuple((k, k + 1) for k in range(5))
    monkeypatch.setattr(graph_colours, "_PAIRS", {"star, path": (star, path)})
    assert "pairs of equal colours" in missed("colours-bound-networks")


@pytest.mark.parametrize("how", graphs_made.AGGREGATIONS)
def test_stacks_train(how):
    net = graphs_made.Stack(graphs_made.random_graph(12, 2), how)
    loss = net(torch.arange(12)[:, None]).square().sum()
    loss.backward()
    assert all(p.grad is not None and p.grad.isfinite().all() for p in net.parameters())


def test_every_network_on_graphs_is_looked_at():
    from leadline.models import MODELS

    names = {name for name, _ in graphs_made.networks(graphs_made.random_graph(6, 2))}
    assert {"GCN", "GAT", "GIN", "GraphSAGE", "ChebNet"} <= names
    holding = {n for n, kind in MODELS.items() if any("HeldGraph" in type(m).__name__ for m in _tiny(kind).modules())}
    assert names == holding


def _tiny(kind):
    return kind.tiny() if hasattr(kind, "tiny") else nn.Identity()


def test_a_wrong_way_back_is_noticed(monkeypatch):
    whole = graph_walks.graph_of_edge_graph
    monkeypatch.setattr(graph_walks, "graph_of_edge_graph", lambda pairs, num: whole(pairs, num).flip(1))
    assert missed("edge-graphs-invert") == ["graphs of 25 nodes found again by the fast way, share"]
    monkeypatch.undo()
    monkeypatch.setattr(graph_walks.reference, "from_edge_graph", lambda num, joined: [[(0, 1), (1, 2)]])
    assert "of them not found again" in missed("edge-graphs-invert")


def test_a_laplacian_with_the_misprinted_degree_is_noticed(monkeypatch):
    plain = graph_order.reference.laplacian
    wrong = lambda A: (np.array(plain(A)) + np.eye(len(A))).tolist()  # noqa: E731
    monkeypatch.setattr(graph_order.reference, "laplacian", wrong)
    assert len(missed("laplacian-is-local")) == 2


def test_sums_have_not_the_influence_of_a_walk(monkeypatch):
    monkeypatch.setattr(graph_depth, "mean", lambda m, edges: graphs_made.total(m, edges) ** 3)
    assert "the same of single networks, mean" in missed("influence-is-a-walk")


def test_where_all_are_neighbours_nothing_is_squashed(monkeypatch):
    everyone = lambda pairs, num, *a, **k: graphs_made.made(  # noqa: E731
        [(i, j) for i in range(num) for j in range(i)] if num < 30 else pairs, num
    )
    monkeypatch.setattr(graph_depth, "made", everyone)
    assert missed("bottlenecks-squash")


def test_a_polynomial_that_does_not_carry_over_is_noticed(monkeypatch):
    plain = np.linalg.lstsq
    wrong = lambda a, b, rcond: (plain(a, b, rcond=rcond)[0] * np.linspace(1, 1.5, 7), None)  # noqa: E731
    monkeypatch.setattr(graph_filters.np.linalg, "lstsq", wrong)
    assert "polynomial of degree 6, the worst" in missed("spectral-filters-stay")
