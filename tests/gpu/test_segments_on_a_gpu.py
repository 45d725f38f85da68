"""Sums over edges by their own kernels: what a CPU computes, the same bits each time, recorded, traced and trained."""

import pytest
import torch

from leadline.data.edges import Edges
from leadline.data.graph import Graph
from leadline.layers.segments import (
    agreement,
    largest_received,
    picked,
    received,
    sent,
    shares,
    total,
)
from leadline.models import GAT, GCN, GraphSAGE

pytestmark = [pytest.mark.gpu, pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")]


def drawn(num_nodes=3000, count=40_000, hub=5000):
    """Some nodes have no edge, one has thousands."""
    g = torch.Generator().manual_seed(0)
    pairs = torch.randint(num_nodes - 5, (2, count), generator=g)
    pairs[1, :hub] = 7
    pairs[0, hub : 2 * hub] = 9
    return Edges.of(pairs, num_nodes)


def on(edges, device):
    return edges.map(lambda t: t.to(device))


def found_on(device, f, leaves, edges):
    leaves = [t.to(device).requires_grad_() for t in leaves]
    y = f(*leaves, on(edges, device))
    weight = torch.randn(y.shape, generator=torch.Generator().manual_seed(1)).to(device, y.dtype)
    return [t.float().cpu() for t in (y.detach(), *torch.autograd.grad((y * weight).sum(), leaves))]


FUNCTIONS = {
    "received": (lambda x, e: received(x, e), ["nodes"]),
    "weighted": (lambda x, w, e: received(x, e, w), ["nodes", "edge"]),
    "heads": (lambda x, w, e: received(x, e, w), ["nodes", "heads"]),
    "agreement": (lambda a, b, e: agreement(a, b, e, 4), ["nodes", "nodes"]),
    "total": (lambda m, e: total(m, e), ["messages"]),
    "sent": (lambda x, e: sent(x, e), ["nodes"]),
    "shares": (lambda s, e: shares(s, e), ["heads"]),
    "largest": (lambda x, e: largest_received(x, e), ["nodes"]),
    "picked": (lambda x, e: picked(x, e.source[:500].view(-1, 2)), ["nodes"]),
}


@pytest.mark.parametrize("width", [4, 40, 64, 256, 1200])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float64])
@pytest.mark.parametrize("name", FUNCTIONS)
def test_kernels_are_what_a_cpu_computes(name, dtype, width):
    edges = drawn()
    f, kinds = FUNCTIONS[name]
    g = torch.Generator().manual_seed(2)
    shapes = {"nodes": (3000, width), "edge": (40_000,), "heads": (40_000, 4), "messages": (40_000, width)}
    leaves = [torch.randn(shapes[kind], generator=g).to(dtype) for kind in kinds]
    wide = [t.double() for t in leaves]
    tolerance = {torch.bfloat16: 2e-2, torch.float64: 1e-6}.get(dtype, 1e-4)  # of the largest
    for one, other in zip(found_on("cuda", f, leaves, edges), found_on("cpu", f, wide, edges), strict=True):
        assert float((one - other).abs().max()) <= tolerance * float(other.abs().max()), name


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("name", FUNCTIONS)
def test_the_same_bits_each_time(name, dtype):
    edges = on(drawn(), "cuda")
    f, kinds = FUNCTIONS[name]
    shapes = {"nodes": (3000, 64), "edge": (40_000,), "heads": (40_000, 4), "messages": (40_000, 64)}
    leaves = [torch.randn(shapes[kind], device="cuda").to(dtype).requires_grad_() for kind in kinds]
    runs = []
    for _ in range(10):
        y = f(*leaves, edges)
        runs.append((y.detach(), *torch.autograd.grad(y.float().square().sum(), leaves)))
    assert all(torch.equal(a, b) for run in runs[1:] for a, b in zip(runs[0], run, strict=True))


def test_no_edges_and_no_nodes():
    for n in (0, 5):
        none = Edges.of(torch.zeros(2, 0, dtype=torch.long), n)
        none, x = on(none, "cuda"), torch.ones(n, 8, device="cuda", requires_grad=True)
        for y in (received(x, none), largest_received(x, none), total(torch.ones(0, 8, device="cuda"), none)):
            assert y.shape == (n, 8)
            assert not y.any()


def test_in_a_recorded_graph():
    edges, x = on(drawn(), "cuda"), torch.randn(3000, 64, device="cuda", requires_grad=True)
    w = torch.randn(40_000, 4, device="cuda", requires_grad=True)

    def step():
        return torch.autograd.grad(received(x, edges, shares(w, edges)).square().sum(), (x, w))

    wanted = step()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        recorded = step()
    for _ in range(3):
        graph.replay()
        assert all(torch.equal(a, b) for a, b in zip(recorded, wanted, strict=True))


@pytest.mark.parametrize("kind", [GCN, GraphSAGE, GAT])
def test_networks_are_what_a_cpu_computes(kind):
    torch.manual_seed(0)
    edges = Edges.of(drawn().pairs[:, :20_000], 3000, directed=False)
    net, asked = kind(16, 5, dim=32, num_layers=3), torch.arange(0, 3000, 3)[:, None]
    net.held.put(Graph(torch.randn(3000, 16), edges))
    wanted = net(asked)
    g = torch.randn(wanted.shape)
    slopes = torch.autograd.grad((wanted * g).sum(), list(net.parameters()))
    net.cuda()
    found = net(asked.cuda())
    there = torch.autograd.grad((found * g.cuda()).sum(), list(net.parameters()))
    torch.testing.assert_close(found.cpu(), wanted, rtol=1e-3, atol=1e-3)
    for one, other in zip(there, slopes, strict=True):
        assert float((one.cpu() - other).abs().max()) <= 2e-3 * float(other.abs().max().clamp(min=1e-3))
