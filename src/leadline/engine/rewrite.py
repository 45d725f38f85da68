"""Two rewrites of a traced step that let a GPU's matrix kernels do what they do best. The numbers stay the same.

    sum_b g[m, b, j]          ->   row 0 of  1[8, B] @ g[m]          (1)   the gradients of biases
    a[m, i, k] @ b[m, k, j]   ->   the same with i, k, j filled up with zeros to multiples of 4    (2)

A sum over the middle axis is a poor reduction on its own, but as a product it runs at the speed of memory; eight rows,
because a compiler turns a single one back into the sum. Tensor cores read float32 in lines of 16 bytes: a head of ten
outputs would fall back to plain arithmetic.
"""

from __future__ import annotations

import torch
from torch.fx import GraphModule, Node

aten = torch.ops.aten
_ROWS, _LINE = 8, 4
_WIDE = 32  # sums over fewer columns are small anyway


def for_tensor_cores(graph: GraphModule) -> GraphModule:
    """Rewrite `graph` in place.

    >>> from torch.fx.experimental.proxy_tensor import make_fx
    >>> a, b = torch.ones(2, 3, 5), torch.ones(2, 5, 10)
    >>> graph = for_tensor_cores(make_fx(torch.bmm)(a, b))
    >>> bool(torch.equal(graph(a, b), a @ b))
    True
    """
    for node in list(graph.graph.nodes):
        if node.op != "call_function":
            continue
        if node.target is aten.sum.dim_IntList:
            _sum_as_product(graph, node)
        elif node.target is aten.bmm.default:
            _filled_up(graph, node)
    graph.recompile()
    return graph


def _sum_as_product(graph: GraphModule, node: Node) -> None:
    """Eq. 1."""
    value, dims = node.args[0].meta["val"], list(node.args[1])  # type: ignore[union-attr,arg-type]
    wide = value.dim() == 3 and value.shape[2] >= _WIDE and value.is_floating_point()
    if not wide or dims not in ([1], [-2]) or node.kwargs:
        return
    with graph.graph.inserting_before(node):
        call = graph.graph.call_function
        size = [value.shape[0], _ROWS, value.shape[1]]
        ones = call(aten.full.default, (size, 1.0), {"dtype": value.dtype, "device": value.device})
        whole = call(aten.bmm.default, (ones, node.args[0]))
        keep = len(node.args) > 2 and bool(node.args[2])
        row = call(aten.slice.Tensor, (whole, 1, 0, 1)) if keep else call(aten.select.int, (whole, 1, 0))
    _replace(graph, node, row)


def _filled_up(graph: GraphModule, node: Node) -> None:
    """Eq. 2."""
    a, b = (arg.meta["val"] for arg in node.args)  # type: ignore[union-attr]
    (_, i, k), j = a.shape, b.shape[2]
    more = [-size % _LINE for size in (i, k, j)]
    if not any(more) or not a.is_floating_point():
        return
    with graph.graph.inserting_before(node):
        call = graph.graph.call_function
        left, right = node.args
        if more[0] or more[1]:
            left = call(aten.constant_pad_nd.default, (left, [0, more[1], 0, more[0]]))
        if more[1] or more[2]:
            right = call(aten.constant_pad_nd.default, (right, [0, more[2], 0, more[1]]))
        whole = call(aten.bmm.default, (left, right))
        if more[0]:
            whole = call(aten.slice.Tensor, (whole, 1, 0, i))
        if more[2]:
            whole = call(aten.slice.Tensor, (whole, 2, 0, j))
    _replace(graph, node, whole)


def _replace(graph: GraphModule, node: Node, new: Node) -> None:
    new.meta["val"] = node.meta["val"]
    node.replace_all_uses_with(new)
    graph.graph.erase_node(node)
