"""Attention on a GPU: every mask on its fused kernels is what a CPU computes, and FlexAttention for long rows."""

import pytest
import torch

from leadline.layers import flex
from leadline.layers import masks as m
from leadline.layers.attend import attend

pytestmark = [pytest.mark.gpu, pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")]


def drawn(*shape, seed=0):
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed))


def rules(T, device):
    tokens = (torch.arange(2 * T, device=device).view(2, T) * 7) % 301
    return {
        "band": m.Window(100) & m.Causal(),
        "documents": m.Documents.of(tokens, end=0) & m.Causal(),
        "padding": m.Padding(torch.arange(T, device=device) < torch.tensor([[T], [T // 3]], device=device)),
        "no keys": m.Padding(torch.arange(T, device=device) < torch.tensor([[T], [0]], device=device)),
        "random": m.Random(0.2) | m.Global((0,)),
        "strided": m.Strided(16) | m.Blocks(64),
    }


@pytest.mark.parametrize("T", [48, 1100])
@pytest.mark.parametrize("G", [4, 2])
@pytest.mark.parametrize("name", rules(2, "cpu"))
def test_every_mask_is_what_a_cpu_computes(name, G, T):
    parts = drawn(2, 4, T, 32), drawn(2, G, T, 32, seed=1), drawn(2, G, T, 32, seed=2)
    found = {}
    for device in ("cpu", "cuda"):
        q, k, v = (part.clone().to(device).requires_grad_() for part in parts)
        assert flex.worth_it(q, k, v) == (device == "cuda" and T > 1024)
        out = attend(q, k, v, rules(T, device)[name])
        out.square().sum().backward()
        found[device] = [t.detach().cpu() for t in (out, q.grad, k.grad, v.grad)]
    for one, other in zip(found["cuda"], found["cpu"], strict=True):
        assert bool(one.isfinite().all())
        torch.testing.assert_close(one, other, rtol=2e-2, atol=2e-2)


@pytest.mark.parametrize("name", ["band", "documents", "padding"])
def test_in_half_precision(name):
    T = 1100
    q, k, v = (drawn(2, 4, T, 64, seed=s) for s in range(3))
    found = attend(*(part.cuda().bfloat16() for part in (q, k, v)), rules(T, "cuda")[name]).float().cpu()
    torch.testing.assert_close(found, attend(q, k, v, rules(T, "cpu")[name]), rtol=5e-2, atol=5e-2)


def test_a_query_with_a_bias_and_no_keys_gets_0():
    q = drawn(2, 4, 32, 16).cuda().requires_grad_()
    mask = m.Padding(torch.arange(32, device="cuda") < torch.tensor([[32], [0]], device="cuda"))
    out = attend(q, q, q, mask, drawn(1, 4, 32, 32).cuda())
    out.square().sum().backward()
    assert not out[1].any() and bool(q.grad.isfinite().all())


def test_where_a_step_is_transformed_the_rule_is_written_out():
    q, k, v = (drawn(2, 2, 1100, 16, seed=s).cuda() for s in range(3))
    assert flex.worth_it(q, k, v)
    mask = rules(1100, "cuda")["documents"]
    loss = lambda q: attend(q, k, v, mask).square().sum()  # noqa: E731
    found, q = torch.func.grad(loss)(q), q.requires_grad_()
    (expected,) = torch.autograd.grad(loss(q), q)
    torch.testing.assert_close(found, expected, rtol=2e-2, atol=2e-2)
