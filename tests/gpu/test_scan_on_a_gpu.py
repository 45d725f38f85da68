"""Scans by their own kernel: what a CPU computes, for rows, channels and steps of any number."""

import pytest
import torch

from leadline.layers import scan_kernel
from leadline.layers.linear_recurrent_unit import LRU
from leadline.layers.min_gru import MinGRU
from leadline.layers.scan import scan, scan_by_steps

pytestmark = [pytest.mark.gpu, pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")]

SIZES = [(1, 1, 1), (2, 7, 3), (2, 8, 128), (3, 65, 129), (2, 300, 40), (1, 5000, 5), (8, 4096, 256), (300, 40, 257)]


def drawn(size, dtype):
    """|a| <= 1, b, a first state, and what comes from above."""
    torch.manual_seed(0)
    a, b, g, first = torch.rand(size), torch.randn(size), torch.randn(size), torch.randn(size[0], size[2])
    if dtype.is_complex:
        a = torch.polar(a, 6 * torch.rand(size))
        b, g, first = (torch.complex(t, torch.randn(t.shape)) for t in (b, g, first))
    return [t.to(dtype) for t in (a, b, first, g)]


def found_on(device, a, b, first, g, f=scan):
    leaves = [t.to(device).requires_grad_() for t in (a, b, first)]
    h = f(*leaves)
    return [t.cpu() for t in (h.detach(), *torch.autograd.grad(h, leaves, g.to(device)))]


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("dtype", [torch.float32, torch.complex64, torch.bfloat16, torch.float64])
def test_the_kernel_is_what_a_cpu_computes(size, dtype):
    inputs = drawn(size, dtype)
    tolerance = {torch.bfloat16: 0.05, torch.float64: 1e-9}.get(dtype, 1e-3)
    for one, other in zip(found_on("cuda", *inputs), found_on("cpu", *inputs), strict=True):
        assert one.dtype == other.dtype
        torch.testing.assert_close(one, other, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("dtype", [torch.float32, torch.complex64])
@pytest.mark.parametrize("shape", [(64,), (1, 700, 64), (2, 1, 64), (2, 700, 1)])
def test_a_that_is_the_same_for_many(shape, dtype):
    a, b, first, g = drawn((2, 700, 64), dtype)
    a = a[tuple(slice(0, size) for size in (1, 1, *shape)[-3:])].reshape(shape).clone()
    for one, other in zip(found_on("cuda", a, b, first, g), found_on("cpu", a, b, first, g), strict=True):
        torch.testing.assert_close(one, other, rtol=2e-3, atol=2e-3)


@pytest.mark.parametrize("dtype", [torch.float32, torch.complex64, torch.bfloat16])
def test_few_chunks_and_many_are_the_same(monkeypatch, dtype):
    inputs = drawn((2, 3000, 80), dtype)
    tolerance = 0.05 if dtype == torch.bfloat16 else 5e-4
    few = found_on("cuda", *inputs)
    for tile in ((8, 1, 2), (8, 4, 8), (32, 1, 8), (32, 8, 32), (16, 16, 4)):
        monkeypatch.setattr(scan_kernel, "_TILES", (tile,))
        for one, other in zip(found_on("cuda", *inputs), few, strict=True):
            torch.testing.assert_close(one, other, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("size", [(1, 100_000, 64), (8, 4096, 256), (3, 5000, 1025)])
def test_results_are_the_same_each_time(size):
    a, b, first, g = (t.cuda() for t in drawn(size, torch.float32))
    h = scan(a, b, first)
    slope = torch.ops.leadline.scan_back(a, h, first, g)[0]
    for _ in range(50):
        assert torch.equal(scan(a, b, first), h)
        assert torch.equal(torch.ops.leadline.scan_back(a, h, first, g)[0], slope)


def test_scans_on_two_streams_and_in_graphs_do_not_meet():
    a, b, first, _ = (t.cuda() for t in drawn((1, 50_000, 64), torch.float32))
    h, streams, found = scan(a, b, first), [torch.cuda.Stream() for _ in range(2)], []
    torch.cuda.synchronize()
    for _ in range(10):
        for stream in streams:
            with torch.cuda.stream(stream):
                found.append(scan(a, b, first))
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        recorded = scan(a, b, first)
    for _ in range(3):
        recorded.zero_()
        graph.replay()
        assert torch.equal(recorded, h)
    assert all(torch.equal(one, h) for one in found)


@pytest.mark.parametrize("dtype", [torch.float32, torch.complex64])
def test_a_hundred_thousand_steps(dtype):
    a = torch.tensor([1.0, 0.9999, 0.5]).to(dtype)
    b = torch.randn(1, 100_000, 3).to(dtype)
    exact = scan_by_steps(a.to(torch.complex128), b.to(torch.complex128))
    h = scan(a.cuda(), b.cuda()).cpu().to(torch.complex128)
    assert float((h - exact).abs().max() / exact.abs().max()) < 1e-4


def test_second_gradients_and_vmap():
    a, b, first, _ = (t.cuda() for t in drawn((2, 90, 3), torch.float32))
    loss = lambda f: lambda s: f(s * a, b, first).square().sum()  # noqa: E731
    twice = [torch.func.vmap(torch.func.grad(torch.func.grad(loss(f))))(torch.tensor([0.5, 0.9], device="cuda"))
             for f in (scan, scan_by_steps)]  # fmt: skip
    torch.testing.assert_close(*twice, rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize("layer", [MinGRU, LRU])
def test_layers_are_what_a_cpu_computes_and_can_be_recorded(layer):
    torch.manual_seed(0)
    here, x = layer(8, 12), torch.randn(4, 50, 8)
    there = torch.arange(50) < torch.tensor([[50], [3], [20], [0]])
    expected = here(x, None, there)
    net, x_, there_ = here.cuda(), x.cuda(), there.cuda()
    y, (last,) = net(x_, None, there_)
    torch.testing.assert_close(y.cpu(), expected[0], rtol=1e-3, atol=1e-3)
    torch.testing.assert_close(last.cpu(), expected[1][0], rtol=1e-3, atol=1e-3)
    graph = torch.cuda.CUDAGraph()
    with torch.no_grad(), torch.cuda.graph(graph):
        recorded, _ = net(x_, None, there_)
    graph.replay()
    torch.testing.assert_close(recorded, y, rtol=1e-5, atol=1e-5)
