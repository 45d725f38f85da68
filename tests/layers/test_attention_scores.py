"""Attention pooling by other scores and kernels, and what they are equal to."""

import math

import pytest
import torch

from leadline.errors import UserError
from leadline.layers.additive_attention import AdditiveAttention, BilinearAttention, DotAttention, pooled
from leadline.layers.attend import attend
from leadline.layers.kernel_smoother import KERNELS, KernelSmoother
from leadline.layers.masked_softmax import masked_softmax, within
from leadline.layers.masks import Padding

LENGTHS = torch.tensor([2, 5])


def drawn(*shape, seed=0):
    return torch.randn(shape, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))


def close(found, expected, tolerance=1e-10):
    torch.testing.assert_close(found, expected, rtol=tolerance, atol=tolerance)


def test_masked_softmax_is_softmax_of_the_first_entries():
    scores = drawn(2, 3, 5)
    found = masked_softmax(scores, within(LENGTHS, 5)[:, None])
    for b, length in enumerate(LENGTHS.tolist()):
        close(found[b, :, :length], scores[b, :, :length].softmax(-1))
        assert not found[b, :, length:].any()
    written = scores.masked_fill(~within(LENGTHS, 5)[:, None], -1e6).softmax(-1)  # as it is often written
    close(found, written)


@pytest.mark.filterwarnings("ignore:Anomaly Detection")
def test_masked_softmax_of_nothing_is_0_with_finite_gradients():
    scores = drawn(2, 4).requires_grad_()
    allowed = torch.tensor([[False] * 4, [True, False, True, False]])
    assert torch.autograd.gradcheck(lambda s: masked_softmax(s, allowed), (scores,))
    with torch.autograd.detect_anomaly(check_nan=True):  # nothing on the way is undefined either
        masked_softmax(scores, allowed).square().sum().backward()
    assert not scores.grad[0].any() and bool((scores.grad[1] != 0).tolist() == [True, False, True, False])


def test_special_weights_are_known_operations():
    v = drawn(1, 4, 3)
    close(pooled(torch.zeros(1, 1, 4).double(), v)[0, 0], v[0].mean(0))  # equal weights: average pooling
    lookup = torch.full((1, 1, 4), -1e9).double()
    lookup[..., 2] = 0
    assert torch.equal(pooled(lookup, v)[0, 0], v[0, 2])  # one weight: a database
    inside = pooled(drawn(1, 50, 4, seed=1), v)[0]  # convex weights: never outside the box of the values
    assert bool(((inside <= v[0].amax(0)) & (inside >= v[0].amin(0))).all())


def test_additive_scores_are_a_network_on_the_pair():
    layer = AdditiveAttention(3, 4, 6).double()
    q, k, v = drawn(2, 3, 3), drawn(2, 5, 4, seed=1), drawn(2, 5, 2, seed=2)
    network = torch.nn.Sequential(torch.nn.Linear(7, 6, False), torch.nn.Tanh(), torch.nn.Linear(6, 1, False)).double()
    with torch.no_grad():
        network[0].weight.copy_(torch.cat([layer.query.weight, layer.key.weight], 1))
        network[2].weight.copy_(layer.score.weight)
    pair = torch.cat([q[:, :, None].expand(2, 3, 5, 3), k[:, None].expand(2, 3, 5, 4)], -1)
    close(layer(q, k, v), network(pair).squeeze(-1).softmax(-1) @ v)


def test_a_bilinear_score_of_the_identity_is_dot_product_attention():
    layer = BilinearAttention(4, 4).double()
    with torch.no_grad():
        layer.form.copy_(torch.eye(4) / 2)
    q, k, v = drawn(2, 3, 4), drawn(2, 5, 4, seed=1), drawn(2, 5, 2, seed=2)
    close(layer(q, k, v), attend(q[:, None], k[:, None], v[:, None])[:, 0])
    close(layer(q, k, v), DotAttention()(q, k, v))


@pytest.mark.parametrize("layer", [AdditiveAttention(3, 4, 6), BilinearAttention(3, 4)])
def test_keys_beyond_a_row_s_length_do_not_count(layer):
    layer = layer.double()
    q, k, v = drawn(2, 3, 3), drawn(2, 5, 4, seed=1), drawn(2, 5, 2, seed=2)
    found = layer(q, k, v, Padding(within(LENGTHS, 5)))
    for b, length in enumerate(LENGTHS.tolist()):
        close(found[b], layer(q[b : b + 1], k[b : b + 1, :length], v[b : b + 1, :length])[0])
    assert torch.autograd.gradcheck(
        lambda *a: layer(*a, Padding(within(LENGTHS, 5))), [t.requires_grad_() for t in (q, k, v)]
    )


def test_dot_products_have_the_variance_of_their_width():
    for d in (4, 64):
        products = (drawn(20000, d) * drawn(20000, d, seed=1)).sum(1)
        assert float(products.var()) == pytest.approx(d, rel=0.05)
        assert float((products / math.sqrt(d)).var()) == pytest.approx(1, rel=0.05)


def test_the_gaussian_kernel_is_dot_product_attention_of_equally_long_keys():
    q, v = drawn(6, 4), drawn(9, 2, seed=2)
    k = torch.nn.functional.layer_norm(drawn(9, 4, seed=1), (4,), eps=0.0)
    found = KernelSmoother("gaussian", 4**0.25).double()(q, k, v)
    close(found, attend(q[None, None], k[None, None], v[None, None])[0, 0], 1e-6)
    k = drawn(9, 4, seed=1)  # in general the squared lengths of the keys stay in the score
    scores = q @ k.T - k.square().sum(1) / 2
    close(KernelSmoother().double()(q, k, v), scores.softmax(-1) @ v)


@pytest.mark.parametrize("kernel", KERNELS)
def test_smoothing_is_the_weighted_mean_it_says(kernel):
    alpha = {
        "gaussian": lambda r: math.exp(-(r**2) / 2),
        "boxcar": lambda r: float(r <= 1),
        "triangular": lambda r: max(0.0, 1 - r),
        "epanechnikov": lambda r: max(0.0, 1 - r**2),
    }[kernel]
    q, k, v = drawn(7, 2), drawn(12, 2, seed=1), drawn(12, 1, seed=2)
    found = KernelSmoother(kernel, (0.8, 1.5)).double()(q, k, v)
    for row, out in zip(q.tolist(), found.flatten().tolist(), strict=True):
        shares = [alpha(math.hypot((row[0] - a) / 0.8, (row[1] - b) / 1.5)) for a, b in k.tolist()]
        total = sum(shares)
        expected = sum(s * y for s, y in zip(shares, v.flatten().tolist(), strict=True)) / total if total else 0.0
        assert out == pytest.approx(expected, rel=1e-5, abs=1e-6)  # the width is stored in single precision


def test_a_narrow_kernel_looks_up_and_a_query_out_of_reach_gets_0():
    x = torch.linspace(0, 1, 11).double()[:, None]
    close(KernelSmoother("gaussian", 1e-3).double()(x, x, x), x)
    assert KernelSmoother("boxcar", 0.05).double()(x + 9, x, x).abs().max() == 0
    assert bool(KernelSmoother("gaussian", 0.01).double()(x + 9, x, x).isfinite().all())
    with pytest.raises(UserError, match="width"):
        KernelSmoother("boxcar", 0.0)


@pytest.mark.parametrize("kernel", ["gaussian", "epanechnikov", "triangular"])
def test_gradients_of_smoothing(kernel):
    q, k, v = drawn(3, 2) / 3, drawn(4, 2, seed=1) / 3, drawn(4, 1, seed=2)
    layer = KernelSmoother(kernel, 2.0).double()
    assert torch.autograd.gradcheck(layer, [t.requires_grad_() for t in (q, k, v)])
    at_a_key = k.detach().clone().requires_grad_()
    layer(at_a_key, k, v).sum().backward()
    assert bool(at_a_key.grad.isfinite().all())


def test_more_examples_and_a_narrower_kernel_come_closer():
    truth, errors = lambda x: (3 * x).sin(), []
    grid = torch.linspace(-1, 1, 50).double()[:, None]
    for n in (20, 200, 2000):
        x = drawn(n, 1, seed=n).clamp(-1.5, 1.5)
        y = truth(x) + 0.3 * drawn(n, 1, seed=n + 1)
        width = 0.6 * n ** (-1 / 5)
        errors.append(float((KernelSmoother("gaussian", width).double()(grid, x, y) - truth(grid)).square().mean()))
    assert errors[0] > 2 * errors[1] > 4 * errors[2]
