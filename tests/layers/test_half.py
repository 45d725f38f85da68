"""Gradients of kernels in float16 are scaled on their way through, and come out as those of float32."""

import pytest
import torch

from leadline.layers.half import in_half


def mixed(x, w, b):
    """A product in float16, as a kernel of a GPU has it."""
    h = (x.half() @ w.half()).tanh()
    return h + b.half(), h.sum(0)


@pytest.mark.parametrize("size", [1e-10, 1e-7, 1.0, 1e6])
def test_gradients_of_any_size_survive(size):
    torch.manual_seed(0)
    inputs = [torch.randn(shape, requires_grad=True) for shape in ((5, 4), (4, 3), (3,))]
    above = [torch.randn(5, 3) * size, torch.randn(3) * size / 10]
    outputs = in_half(mixed, *inputs)
    assert all(output.dtype == torch.float32 for output in outputs)
    found = torch.autograd.grad(outputs, inputs, above)
    x, w, b = inputs
    h = (x @ w).tanh()
    expected = torch.autograd.grad((h + b, h.sum(0)), inputs, above)
    for one, other in zip(found, expected, strict=True):
        torch.testing.assert_close(one, other, rtol=0.02, atol=0.005 * float(other.abs().max()))


def test_an_output_that_nobody_uses_and_an_input_that_does_not_learn():
    x, w = torch.ones(2, 3), torch.ones(3, 3, requires_grad=True)
    y, _ = in_half(mixed, x, w, torch.zeros(3))
    (found,) = torch.autograd.grad(y, w, torch.zeros(2, 3))
    assert not found.any()
