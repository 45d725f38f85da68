"""The loss of tokens with its gradient in one pass: against torch's cross-entropy, traced, mapped and in half."""

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st

from leadline.layers.unembedding import Deferred
from leadline.likelihoods.surprise import surprise_and_slope, surprise_of

N, D, V = 5, 4, 7


def parts(seed=0, bias=True, dtype=torch.float64):
    generator = torch.Generator().manual_seed(seed)
    h, weight, b = (torch.randn(*s, generator=generator, dtype=dtype) for s in ((N, D), (V, D), (V,)))
    return h, weight, b if bias else None, torch.randint(V, (N,), generator=generator)


@settings(max_examples=20, deadline=None)
@given(st.integers(0, 999), st.booleans())
def test_it_is_cross_entropy_and_so_is_its_gradient(seed, bias):
    h, weight, b, y = parts(seed, bias)
    leaves = [t.requires_grad_() for t in (h, weight, b) if t is not None]
    upstream = torch.linspace(-2, 3, N, dtype=torch.float64)  # each place has a weight of its own, one of them 0
    found = surprise_of(Deferred(h, weight, b), y)
    expected = F.cross_entropy(F.linear(h, weight, b), y, reduction="none")
    torch.testing.assert_close(found, expected)
    for got, known in zip(*(torch.autograd.grad((t * upstream).sum(), leaves) for t in (found, expected)), strict=True):
        torch.testing.assert_close(got, known)


def test_words_that_are_none_have_no_part():
    scores, y = torch.randn(3, 6), torch.tensor([0, 1, 3])
    scores[:, 4:] = 100.0
    loss, slope = surprise_and_slope(scores, y, 4)
    torch.testing.assert_close(loss, F.cross_entropy(scores[:, :4], y, reduction="none"))
    assert not slope[:, 4:].any() and float(slope.sum(1).abs().max()) < 1e-6


def test_in_half_precision_the_sum_is_not():
    h, weight, _, y = parts(bias=False, dtype=torch.float32)
    with torch.autocast("cpu", torch.bfloat16):
        found = surprise_of(Deferred(h, weight, None), y)
    assert found.dtype == torch.float32
    expected = F.cross_entropy(F.linear(h.bfloat16(), weight.bfloat16()).float(), y, reduction="none")
    torch.testing.assert_close(found, expected)


def test_under_transforms_and_traces():
    from torch.fx.experimental.proxy_tensor import make_fx

    h, weight, b, y = parts()
    loss = lambda w, y: surprise_of(Deferred(h, w, b), y).sum()  # noqa: E731
    known = torch.func.grad(lambda w: F.cross_entropy(F.linear(h, w, b), y, reduction="sum"))(weight)
    torch.testing.assert_close(torch.func.grad(loss)(weight, y), known)
    traced = make_fx(torch.func.grad(loss), tracing_mode="fake", _allow_non_fake_inputs=True)(weight, y)
    torch.testing.assert_close(traced(weight, y), known)
    several = torch.func.vmap(torch.func.grad(loss), in_dims=(0, None))(torch.stack([weight, 2 * weight]), y)
    torch.testing.assert_close(several[0], known)
    torch.testing.assert_close(several[1], torch.func.grad(loss)(2 * weight, y))


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_torch_accepts_the_operation(dtype):
    scores = torch.randn(3, 6, dtype=dtype)
    torch.library.opcheck(surprise_and_slope, (scores, torch.tensor([0, 1, 3]), 4))
