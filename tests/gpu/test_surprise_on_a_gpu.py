"""The loss of tokens by its own kernel: what a CPU computes, in every number type and for vocabularies of any size."""

import pytest
import torch
import torch.nn.functional as F

from leadline.layers.unembedding import Deferred
from leadline.likelihoods.surprise import surprise_and_slope, surprise_of

pytestmark = [pytest.mark.gpu, pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")]


@pytest.mark.parametrize("V", [2, 63, 64, 8191, 8193, 50257])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float64])
def test_the_kernel_is_what_a_cpu_computes(V, dtype):
    torch.manual_seed(0)
    scores, y = (5 * torch.randn(9, V + 3)).to(dtype), torch.randint(V, (9,))
    scores[:, V:] = 1000.0
    scores[0], y[0] = -1e4, V - 1
    loss, slope = surprise_and_slope(scores.cuda(), y.cuda(), V)
    expected = F.cross_entropy(scores[:, :V].double(), y, reduction="none")
    torch.testing.assert_close(loss.cpu().double(), expected, rtol=1e-5, atol=1e-5)
    known = scores[:, :V].double().softmax(1) - F.one_hot(y, V)
    atol = {torch.bfloat16: 4e-3}.get(dtype, 1e-6)
    torch.testing.assert_close(slope[:, :V].cpu().double(), known, rtol=0, atol=atol)
    assert not slope[:, V:].any()


@pytest.mark.parametrize("bias", [True, False])
def test_gradients_are_those_of_a_cpu(bias):
    torch.manual_seed(0)
    h, weight, b, y = torch.randn(300, 32), torch.randn(1001, 32), torch.randn(1001), torch.randint(1001, (300,))
    g, found = torch.rand(300), {}
    for device in ("cpu", "cuda"):
        leaves = [t.clone().to(device).requires_grad_() for t in ((h, weight, b) if bias else (h, weight))]
        loss = surprise_of(Deferred(*leaves[:2], leaves[2] if bias else None), y.to(device))
        found[device] = [loss, *torch.autograd.grad((loss * g.to(device)).sum(), leaves)]
    for one, other in zip(found["cuda"], found["cpu"], strict=True):
        torch.testing.assert_close(one.cpu(), other, rtol=1e-3, atol=1e-3)
