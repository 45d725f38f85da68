"""Rewritten traces compute what they computed before."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.fx.experimental.proxy_tensor import make_fx

from leadline.engine.rewrite import for_tensor_cores


def targets(graph):
    return [str(node.target) for node in graph.graph.nodes if node.op == "call_function"]


@settings(max_examples=25, deadline=None)
@given(st.tuples(*[st.integers(1, 13)] * 4))
def test_products_of_any_size(sizes):
    members, i, k, j = sizes
    a, b = torch.randn(members, i, k, dtype=torch.float64), torch.randn(members, k, j, dtype=torch.float64)
    graph = for_tensor_cores(make_fx(lambda a, b: torch.bmm(a, b) + 1)(a, b))
    assert torch.allclose(graph(a, b), a @ b + 1, atol=1e-12)
    assert ("aten.constant_pad_nd.default" in targets(graph)) == any(size % 4 for size in (i, k, j))


@pytest.mark.parametrize("keep", [True, False])
@pytest.mark.parametrize("width", [32, 31, 100])
def test_sums_over_rows(keep, width):
    g = torch.randn(3, 7, width, dtype=torch.float64)
    graph = for_tensor_cores(make_fx(lambda g: g.sum(1, keepdim=keep) * 2)(g))
    assert torch.allclose(graph(g), g.sum(1, keepdim=keep) * 2, atol=1e-12)
    assert ("aten.bmm.default" in targets(graph)) == (width >= 32)


def test_other_sums_stay():
    g = torch.randn(3, 7, 40)
    graph = for_tensor_cores(make_fx(lambda g: (g.sum(2), g.sum((0, 1)), g.long().sum(1)))(g))
    assert targets(graph).count("aten.sum.dim_IntList") == 3
