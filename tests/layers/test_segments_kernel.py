"""The text of the kernels, run in numpy: addresses, masks and sums are those of the operators on a CPU."""

import pytest
import torch
from triton_by_hand import by_hand

from leadline.data.edges import Edges
from leadline.layers import segment_operators as ops
from leadline.layers import segments_kernel


@pytest.fixture(autouse=True)
def kernels(monkeypatch):
    with by_hand(segments_kernel._KERNEL) as made:
        monkeypatch.setattr(segments_kernel, "kernels", lambda text: made)
        yield


def drawn(num_nodes=7, count=40, seed=0):
    generator = torch.Generator().manual_seed(seed)
    pairs = torch.randint(num_nodes, (2, count), generator=generator)
    pairs[1, : count // 2] = 2  # a node of many edges, and node 0 of none
    pairs[1][pairs[1] == 0] = 1
    return Edges.of(pairs, num_nodes), generator


@pytest.mark.parametrize("heads, width", [(1, 1), (1, 5), (1, 40), (2, 3), (3, 4), (1, 700)])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("cut", [3, 100])
def test_gather_sum(heads, width, weighted, cut, monkeypatch):
    monkeypatch.setattr(segments_kernel, "LONG", cut)
    edges, generator = drawn()
    x = torch.randn(7, heads * width, generator=generator)
    shape = (40,) if heads == 1 else (40, heads)
    weight = torch.rand(shape, generator=generator) if weighted or heads > 1 else None
    plan = ops.pieces(edges.start, cut)
    assert (plan[0] is None) == (cut == 100)
    found = segments_kernel.gather_sum(x, edges.source, edges.start, weight, *plan)
    torch.testing.assert_close(found, ops.gather_sum(x, edges.source, edges.start, weight))
    messages = torch.randn(40, heads * width, generator=generator)
    found = segments_kernel.gather_sum(messages, None, edges.start, None, *plan)
    torch.testing.assert_close(found, ops.gather_sum(messages, None, edges.start))


def test_gather_max_and_its_gradient():
    edges, generator = drawn()
    x = torch.randn(7, 5, generator=generator)
    y, which = segments_kernel.gather_max(x, edges.source, edges.start)
    wanted, rows = ops.gather_max(x, edges.source, edges.start)
    torch.testing.assert_close(y, wanted)
    g, (order, start) = torch.randn(7, 5, generator=generator), edges.leaving
    found = segments_kernel.gather_max_back(g, which, edges.target, order, start)
    torch.testing.assert_close(found, ops.gather_max_back(g, rows, edges.target, order, start))


@pytest.mark.parametrize("heads, width", [(1, 1), (1, 40), (2, 3), (4, 16), (1, 3000)])
def test_edge_dot(heads, width):
    edges, generator = drawn()
    a, b = (torch.randn(7, heads * width, generator=generator) for _ in range(2))
    found = segments_kernel.edge_dot(a, b, edges.target, edges.source, heads)
    wanted = ops.edge_dot(a, b, edges.start, edges.target, edges.source, heads)
    torch.testing.assert_close(found, wanted, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("heads", [1, 3, 8])
@pytest.mark.parametrize("cut", [3, 100])
def test_edge_shares(heads, cut, monkeypatch):
    monkeypatch.setattr(segments_kernel, "LONG", cut)
    edges, generator = drawn()
    scores = 50 * torch.randn(40, heads, generator=generator)
    found = segments_kernel.edge_shares(scores, edges.start, ops.pieces(edges.start, cut)[0])
    torch.testing.assert_close(found, ops.edge_shares(scores, edges.start, edges.target))


@pytest.mark.parametrize("width", [1, 4, 5])
def test_pick(width):
    edges, generator = drawn(count=600)  # more numbers than one program picks
    x = torch.randn(7, width, generator=generator)
    assert torch.equal(segments_kernel.pick(x, edges.source), x[edges.source])
