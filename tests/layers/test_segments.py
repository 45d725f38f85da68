"""Sums over edges: what loops give, derivatives of every order that is used, and the same bits each time."""

import pytest
import torch
from torch.func import grad, vmap

from leadline.data.edges import Edges
from leadline.layers import segment_operators as ops
from leadline.layers.once import of_own, once, owned
from leadline.layers.segments import (
    agreement,
    arrived,
    largest,
    largest_received,
    mean,
    over,
    picked,
    received,
    sent,
    shares,
    spread,
    total,
)

PAIRS = torch.tensor([[0, 1, 1, 2, 2, 3, 3, 0], [1, 0, 1, 3, 3, 3, 2, 3]])  # parallel ones, loops; 4 and 5 are alone
EDGES = Edges.of(PAIRS, num_nodes=6)
SHARED = 2  # weights of an edge


def drawn(*shape, seed=0, dtype=torch.float64):
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=dtype).requires_grad_()


def by_loops(messages, kind):
    out = torch.zeros(EDGES.num_targets, *messages.shape[1:], dtype=messages.dtype)
    for i in range(EDGES.num_targets):
        own = messages[EDGES.start[i] : EDGES.start[i + 1]]
        if len(own):
            out[i] = {"sum": own.sum(0), "mean": own.mean(0), "max": own.amax(0), "std": own.std(0, unbiased=False)}[
                kind
            ]
    return out


@pytest.mark.parametrize("shape", [(8,), (8, 3), (8, 2, 3)])
@pytest.mark.parametrize("name, f", [("sum", total), ("mean", mean), ("max", largest), ("std", spread)])
def test_reductions_are_loops(name, f, shape):
    m = drawn(*shape).detach()
    torch.testing.assert_close(f(m, EDGES), by_loops(m, name))


@pytest.mark.parametrize("weight", [None, (8,), (8, SHARED)])
def test_received_is_a_sum_of_messages_and_agreement_a_product(weight):
    x, w = drawn(6, 4).detach(), None if weight is None else drawn(*weight, seed=1).detach()
    each = torch.ones(8, 1, dtype=torch.float64) if w is None else w.view(8, -1)
    m = (x[EDGES.source].unflatten(1, (each.shape[1], -1)) * each[..., None]).flatten(1)
    torch.testing.assert_close(received(x, EDGES, w), by_loops(m, "sum"))
    y = drawn(6, 4, seed=2).detach()
    products = (x[EDGES.target] * y[EDGES.source]).unflatten(1, (SHARED, -1)).sum(-1)
    torch.testing.assert_close(agreement(x, y, EDGES, SHARED), products)


def test_shares_are_a_softmax_and_far_scores_do_not_overflow():
    s = 1e4 * drawn(8, 3).detach()
    p = shares(s, EDGES)
    for i in range(4):
        torch.testing.assert_close(
            p[EDGES.start[i] : EDGES.start[i + 1]], s[EDGES.start[i] : EDGES.start[i + 1]].softmax(0)
        )
    assert p.isfinite().all()


LINEAR = {
    "received": (lambda x, w: received(x, EDGES, w), [(6, 4), (8, SHARED)]),
    "received alike": (lambda x, w: received(x, EDGES, w), [(6, 4), (8,)]),
    "received plain": (lambda x: received(x, EDGES), [(6, 4)]),
    "agreement": (lambda a, b: agreement(a, b, EDGES, SHARED), [(6, 4), (6, 4)]),
    "total": (lambda m: total(m, EDGES), [(8, 3)]),
    "shares": (lambda m: shares(m, EDGES), [(8, 3)]),
    "sent": (lambda x: sent(x, EDGES), [(6, 4)]),
    "arrived": (lambda x: arrived(x, EDGES), [(6, 4)]),
    "picked": (lambda x: picked(x, torch.tensor([[0, 5], [5, 5]])), [(6, 4)]),
}


@pytest.mark.parametrize("name", LINEAR)
def test_first_and_second_derivatives(name):
    f, shapes = LINEAR[name]
    leaves = tuple(drawn(*shape, seed=k) for k, shape in enumerate(shapes))
    assert torch.autograd.gradcheck(f, leaves)
    assert torch.autograd.gradgradcheck(f, leaves)


@pytest.mark.parametrize("f", [largest, spread])
def test_derivatives_of_the_largest_and_of_the_spread(f):
    assert torch.autograd.gradcheck(lambda m: f(m, EDGES), (drawn(8, 3),))
    assert torch.autograd.gradcheck(lambda x: largest_received(x, EDGES), (drawn(6, 3),))


def test_forward_mode():
    x, w, dx, dw = (drawn(*shape, seed=k).detach() for k, shape in enumerate([(6, 4), (8,), (6, 4), (8,)]))
    _, found = torch.func.jvp(lambda x, w: received(x, EDGES, w), (x, w), (dx, dw))
    torch.testing.assert_close(found, received(dx, EDGES, w) + received(x, EDGES, dw))
    _, found = torch.func.jvp(lambda x: total(sent(x, EDGES), EDGES), (x,), (dx,))
    torch.testing.assert_close(found, received(dx, EDGES))


@pytest.mark.parametrize("name", LINEAR)
def test_many_at_once(name):
    f, shapes = LINEAR[name]
    many = [drawn(3, *shape, seed=k).detach() for k, shape in enumerate(shapes)]
    loss = lambda *leaves: f(*leaves).square().sum()  # noqa: E731
    torch.testing.assert_close(vmap(f)(*many), torch.stack([f(*row) for row in zip(*many, strict=True)]))
    one = torch.stack([grad(loss)(*row) for row in zip(*many, strict=True)])
    torch.testing.assert_close(vmap(grad(loss))(*many), one)
    if len(many) == 1:
        return
    only = vmap(f, in_dims=(0, None))(many[0], many[1][0])
    torch.testing.assert_close(only, torch.stack([f(row, many[1][0]) for row in many[0]]))


@pytest.mark.parametrize("num_nodes", [0, 3])
def test_no_edges_at_all(num_nodes):
    none = Edges.of(torch.zeros(2, 0, dtype=torch.long), num_nodes)
    x, m = drawn(num_nodes, 2), drawn(0, 2)
    for y in (received(x, none), largest_received(x, none), total(m, none), largest(m, none), mean(m, none)):
        assert y.shape == (num_nodes, 2)
        assert not y.any()
        y.sum().backward()
    assert shares(m, none).shape == (0, 2)
    assert agreement(x, x, none).shape == (0, 1)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32])
def test_sums_of_sixteen_bits_are_rounded_once(dtype):
    edges = Edges.of(torch.stack([torch.arange(4096) % 50, torch.zeros(4096, dtype=torch.long)]), 50)
    x = drawn(50, 16, dtype=torch.float32).detach().to(dtype)
    exact = received(x.double(), edges)
    assert received(x, edges).dtype == dtype
    off = (received(x, edges).double() - exact).abs() / exact.abs().clamp(min=1)
    assert float(off[0].max()) < (2**-8 if dtype == torch.bfloat16 else 1e-3)


def test_under_autocast_sums_are_in_sixteen_bits_and_gradients_come_back():
    x = drawn(6, 4, dtype=torch.float32)
    with torch.autocast("cpu", torch.bfloat16):
        y = received(x, EDGES, torch.ones(8))
    assert y.dtype == torch.bfloat16
    y.sum().backward()
    assert x.grad.dtype == torch.float32


@pytest.mark.parametrize("threads", [1, 2])
def test_the_same_bits_each_time_whatever_the_threads(threads):
    g = torch.Generator().manual_seed(0)
    edges = Edges.of(torch.randint(500, (2, 20_000), generator=g), 500)
    x = drawn(500, 64, dtype=torch.float32)
    w = drawn(20_000, 4, seed=1, dtype=torch.float32)
    before = torch.get_num_threads()
    found = []
    for count in (threads, 1, threads):
        torch.set_num_threads(count)
        y = received(x, edges, shares(w, edges))
        found.append((y.detach(), *torch.autograd.grad(y.square().sum(), (x, w))))
    torch.set_num_threads(before)
    assert all(torch.equal(a, b) for other in found[1:] for a, b in zip(found[0], other, strict=True))


def test_rows_in_pieces():
    start = torch.tensor([0, 0, 1300, 1301, 1901])
    rows, cuts, joins = ops.pieces(start, 512)
    assert rows.tolist() == [1, 3]
    assert cuts.tolist() == [[0, 512], [512, 1024], [1024, 1300], [1301, 1813], [1813, 1901]]
    assert joins.tolist() == [0, 3, 5]
    assert ops.pieces(start, 2000) == (None, None, None)


def test_over_graphs():
    x = drawn(5, 2).detach()
    first = torch.tensor([0, 2, 2, 5])
    torch.testing.assert_close(over(x, first, "mean"), torch.stack([x[:2].mean(0), x[0] * 0, x[2:].mean(0)]))
    torch.testing.assert_close(over(x, first, "max")[2], x[2:].amax(0))


def test_what_is_kept_is_no_part_of_what_is_differentiated():
    edges, x = EDGES.with_(), drawn(6, 2).detach()
    owned(edges, x)

    def loss(w):
        return (of_own(x, edges, "twice", lambda: received(2 * x, edges)) * w).sum()

    slope = grad(loss)(torch.ones(6, 2, dtype=torch.float64))
    kept = edges.__dict__["twice of own numbers in torch.float64"]
    assert not torch._C._functorch.is_functorch_wrapped_tensor(kept)
    torch.testing.assert_close(slope, kept)
    torch.testing.assert_close(kept, received(2 * x, EDGES))
    with torch.inference_mode():
        made = once(edges, "three", lambda: torch.ones(3))
    assert not made.is_inference()


def test_a_trace_has_one_node_for_a_sum_and_keeps_real_tensors():
    from torch.fx.experimental.proxy_tensor import make_fx

    edges = EDGES.with_()
    step = grad(lambda x: received(x, edges, torch.ones(8, dtype=torch.float64)).square().sum())
    x = drawn(6, 2).detach()
    graph = make_fx(step, tracing_mode="fake", _allow_non_fake_inputs=True)(x)
    sums = [node for node in graph.graph.nodes if node.target is torch.ops.leadline.gather_sum.default]
    assert len(sums) == 2
    torch.testing.assert_close(graph(x), step(x))
    assert type(edges.__dict__["leaving"][0]) is torch.Tensor
