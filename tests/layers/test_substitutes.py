"""Operations written otherwise are the operations themselves."""

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from leadline.engine.step import traced
from leadline.layers.substitutes import MaxPool, Substituted, in_blocks


@settings(max_examples=40, deadline=None)
@given(
    channels=st.integers(1, 4),
    kernel=st.integers(1, 11),
    stride=st.integers(1, 5),
    padding=st.integers(0, 5),
    rows=st.integers(11, 26),
    columns=st.integers(11, 26),
)
def test_blocks_are_the_convolution(channels, kernel, stride, padding, rows, columns):
    torch.manual_seed(0)
    x = torch.randn(2, channels, rows, columns, dtype=torch.float64)
    w, b = torch.randn(3, channels, kernel, kernel, dtype=torch.float64), torch.randn(3, dtype=torch.float64)
    torch.testing.assert_close(in_blocks(x, w, b, stride, padding), F.conv2d(x, w, b, stride, padding))


def test_gradients_of_blocks_are_those_of_the_convolution():
    torch.manual_seed(0)
    x = torch.randn(2, 3, 17, 20, dtype=torch.float64, requires_grad=True)
    w = torch.randn(4, 3, 7, 7, dtype=torch.float64, requires_grad=True)
    upstream = torch.randn(2, 4, 9, 10, dtype=torch.float64)
    own = torch.autograd.grad((in_blocks(x, w, None, 2, 3) * upstream).sum(), (x, w))
    true = torch.autograd.grad((F.conv2d(x, w, stride=2, padding=3) * upstream).sum(), (x, w))
    for a, b in zip(own, true, strict=True):
        torch.testing.assert_close(a, b)


@settings(max_examples=20, deadline=None)
@given(rows=st.integers(1, 6), columns=st.integers(1, 6), seed=st.integers(0, 99), ties=st.booleans())
def test_pooling_and_its_gradient_are_those_of_torch(rows, columns, seed, ties):
    torch.manual_seed(seed)
    x = torch.randn(2, 3, 2 * rows, 2 * columns, dtype=torch.float64)
    x = (x.round() if ties else x).requires_grad_()  # of equal pixels torch takes the first, and so does this
    upstream = torch.randn(2, 3, rows, columns, dtype=torch.float64)
    own, true = MaxPool.pooled(x), F.max_pool2d(x, 3, 2, 1)
    assert torch.equal(own, true)
    (a,), (b,) = (torch.autograd.grad((out * upstream).sum(), x) for out in (own, true))
    torch.testing.assert_close(a, b)


@pytest.mark.parametrize(
    "module",
    [
        nn.Conv2d(3, 4, 7, 2, 3, bias=False),
        nn.Conv2d(3, 4, 11, 4, 2),
        nn.Conv2d(3, 4, 3, 1, 1),
        nn.Conv2d(8, 4, 3, 2, 1),
        nn.Conv2d(3, 3, 3, 2, 1, groups=3),
        nn.Conv2d(3, 4, 3, 2, 1, padding_mode="reflect"),
        nn.Conv2d(3, 4, 3, padding="same"),
        nn.MaxPool2d(3, 2, 1),
        nn.MaxPool2d(2),
        nn.MaxPool2d(3, 2, 1, ceil_mode=True),
        nn.MaxPool2d(3, 2),
    ],
    ids=str,
)
@pytest.mark.parametrize("side", [20, 21])
def test_modules_answer_alike_inside_and_outside(module, side):
    torch.manual_seed(0)
    x = torch.randn(2, getattr(module, "in_channels", 3), side, side)
    with Substituted():
        own = module(x)
    torch.testing.assert_close(own, module(x))


def test_a_trace_holds_the_substitutes():
    net = nn.Sequential(nn.Conv2d(3, 8, 7, 2, 3), nn.ReLU(), nn.MaxPool2d(3, 2, 1))
    x = torch.randn(2, 3, 32, 32)

    def gradient(x):
        return torch.func.grad(lambda x: net(x).square().sum())(x)

    with Substituted():
        graph = traced(lambda x: (gradient(x),), (x,))
    names = {str(node.target) for node in graph.graph.nodes}
    assert not any("max_pool2d" in name for name in names)
    kernels = [
        node.args[1].meta["val"].shape for node in graph.graph.nodes if str(node.target) == "aten.convolution.default"
    ]
    assert kernels[0] == (8, 16, 4, 4)
    torch.testing.assert_close(graph(x)[0], gradient(x), atol=1e-4, rtol=1e-4)
