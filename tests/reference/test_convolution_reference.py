"""Convolution spelt out, against torch, scipy and each other."""

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from scipy import linalg, signal

from leadline.errors import UserError
from leadline.reference import convolution as c

SUMS = {1: F.conv1d, 2: F.conv2d, 3: F.conv3d}
BACK = {1: F.conv_transpose1d, 2: F.conv_transpose2d, 3: F.conv_transpose3d}
MODES = {"zeros": "constant", "circular": "circular", "reflect": "reflect"}


def drawn(*shape, seed=0):
    return torch.randn(shape, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))


def same(found, expected):
    torch.testing.assert_close(torch.tensor(found, dtype=torch.float64), expected, rtol=1e-12, atol=1e-12)


@settings(max_examples=40, deadline=None)
@given(
    dims=st.integers(1, 3),
    kernel=st.integers(1, 3),
    stride=st.integers(1, 3),
    padding=st.integers(0, 2),
    zeros=st.integers(0, 2),
    groups=st.sampled_from([1, 2]),
    mode=st.sampled_from(sorted(MODES)),
)
def test_a_layer_is_torch_s(dims, kernel, stride, padding, zeros, groups, mode):
    spacing = c.spacing_of(zeros)
    sizes = (5, 4, 3)[:dims]
    assume(spacing * (kernel - 1) + 1 <= min(sizes) + 2 * padding)
    x, w, bias = drawn(4, *sizes), drawn(2, 4 // groups, *[kernel] * dims, seed=1), drawn(2, seed=2)
    wide = F.pad(x[None], [padding] * (2 * dims), MODES[mode])
    expected = SUMS[dims](wide, w, bias, stride, 0, spacing, groups)[0]
    found = c.layer(x.tolist(), w.tolist(), bias.tolist(), stride, padding, spacing, groups, mode)
    same(found, expected)
    assert expected.shape[1:] == tuple(c.out_size(n, kernel, stride, padding, spacing) for n in sizes)


@pytest.mark.parametrize("shape", [((7,), (3,)), ((5, 6), (2, 3)), ((3, 4, 4), (2, 2, 2))])
def test_both_kinds_are_scipy_s(shape):
    x, w = drawn(*shape[0]).numpy(), drawn(*shape[1], seed=1).numpy()
    same(c.sliding(x.tolist(), w.tolist()), torch.tensor(signal.correlate(x, w, "valid")))
    same(c.convolved(x.tolist(), w.tolist()), torch.tensor(signal.convolve(x, w, "valid")))
    same(c.convolved(x.tolist(), c.flipped(w.tolist())), torch.tensor(signal.correlate(x, w, "valid")))


@settings(max_examples=30, deadline=None)
@given(st.integers(1, 9), st.integers(1, 9), st.integers(0, 99))
def test_five_forms_of_one_convolution(n, m, seed):
    f, h = drawn(n, seed=seed).tolist(), drawn(m, seed=seed + 1).tolist()
    expected = torch.tensor(np.convolve(f, h))
    same(c.full(f, h), expected)
    same(c.full(h, f), expected)
    same(c.by_fourier(f, h), expected)
    H = c.toeplitz(h, n)
    assert len(H) == n + m - 1 and len(H[0]) == n
    np.testing.assert_array_equal(H, linalg.toeplitz([*h, *[0] * (n - 1)], [h[0]] + [0] * (n - 1)))
    same(H, torch.tensor(linalg.convolution_matrix(h, n)))
    same((np.array(H) @ f).tolist(), expected)
    same(c.convolved(f, h, padding=m - 1), expected)


def test_fourier_is_numpy_s_and_needs_a_power_of_two():
    v = drawn(16).tolist()
    np.testing.assert_allclose(c.fourier(v), np.fft.fft(v), atol=1e-12)
    with pytest.raises(UserError, match="power of two. Got 3 values"):
        c.fourier([1.0, 2.0, 3.0])


@settings(max_examples=40, deadline=None)
@given(st.integers(1, 3), st.integers(1, 4), st.integers(1, 3), st.integers(0, 2), st.integers(1, 2), st.integers(0, 2))
def test_the_transposed_convolution_is_torch_s_and_has_the_transposed_matrix(n, kernel, stride, padding, spacing, more):
    assume(more < max(stride, spacing))
    size = c.transposed_size(n, kernel, stride, padding, spacing, more)
    assume(size >= 1)
    z, w = drawn(n), drawn(kernel, seed=1)
    expected = F.conv_transpose1d(z[None, None], w[None, None], None, stride, padding, more, 1, spacing)[0, 0]
    found = c.transposed(z.tolist(), w.tolist(), stride, padding, spacing, more)
    same(found, expected)
    if c.out_size(size, kernel, stride, padding, spacing) == n:
        down = torch.tensor(c.matrix(w.tolist(), size, stride, padding, spacing), dtype=torch.float64)
        same(found, down.T @ z)


@pytest.mark.parametrize("dims", [2, 3])
def test_the_transposed_convolution_of_pictures_and_volumes(dims):
    z, w = drawn(*[3] * dims), drawn(*[3] * dims, seed=1)
    expected = BACK[dims](z[None, None], w[None, None], None, 2, 1, 1)[0, 0]
    same(c.transposed(z.tolist(), w.tolist(), stride=2, padding=1, more=1), expected)


@pytest.mark.parametrize("mode", sorted(MODES))
@pytest.mark.parametrize(("kernel", "stride", "spacing"), [(3, 1, 1), (3, 2, 1), (5, 1, 1), (3, 1, 2), (7, 3, 3)])
def test_the_matrix_does_what_the_sum_does(mode, kernel, stride, spacing):
    n, padding = 12, spacing * (kernel - 1) // 2
    x, w = drawn(n).tolist(), drawn(kernel, seed=1).tolist()
    matrix = np.array(c.matrix(w, n, stride, padding, spacing, mode))
    same((matrix @ x).tolist(), torch.tensor(c.sliding(x, w, stride, padding, spacing, mode), dtype=torch.float64))


def test_dilation_is_zeros_between_taps_and_a_stride_is_sampling():
    x, w = drawn(20).tolist(), drawn(3, seed=1).tolist()
    dense = c.with_zeros(w, 1)
    assert dense == [w[0], 0, w[1], 0, w[2]]
    assert c.sliding(x, w, spacing=c.spacing_of(1)) == pytest.approx(c.sliding(x, dense))
    assert c.sliding(x, w, stride=3) == c.sliding(x, w)[::3]
    assert c.spacing_of(2) * (7 - 1) + 1 == 19  # span of seven taps with two zeros between


@settings(max_examples=25, deadline=None)
@given(st.integers(1, 3), st.integers(1, 2), st.integers(0, 2), st.integers(1, 2), st.sampled_from([1, 2]))
def test_gradients_by_hand_are_autograd_s(kernel, stride, padding, spacing, groups):
    assume(spacing * (kernel - 1) + 1 <= 4 + 2 * padding)
    x, w, bias = drawn(4, 5, 4), drawn(2, 4 // groups, kernel, kernel, seed=1), drawn(2, seed=2)
    for leaf in (x, w, bias):
        leaf.requires_grad_()
    z = F.conv2d(x[None], w, bias, stride, padding, spacing, groups)[0]
    delta = drawn(*z.shape, seed=3)
    z.backward(delta)
    found = c.gradients(x.tolist(), w.tolist(), delta.tolist(), stride, padding, spacing, groups)
    for part, leaf in zip(found, (x, w, bias)):
        same(part, leaf.grad)


def test_depthwise_and_rank_one():
    x, w = drawn(3, 5, 5), drawn(3, 3, 3, seed=1)
    same(c.depthwise(x.tolist(), w.tolist(), padding=1), F.conv2d(x[None], w[:, None], padding=1, groups=3)[0])
    u, r, q = (drawn(k, seed=k) for k in (4, 3, 5))
    kernel = torch.tensor(c.rank_one(u.tolist(), r.tolist(), q.tolist()), dtype=torch.float64)
    torch.testing.assert_close(kernel, torch.einsum("c,k,l->ckl", u, r, q))
    assert torch.linalg.matrix_rank(kernel.flatten(1)) == 1


def test_moving_the_input_round_a_ring_moves_the_output():
    x, w = drawn(9).tolist(), drawn(3, seed=1).tolist()
    moved = c.sliding(x[2:] + x[:2], w, padding=1, mode="circular")
    z = c.sliding(x, w, padding=1, mode="circular")
    assert moved == pytest.approx(z[2:] + z[:2])
    zero = c.sliding(x, w, padding=1)
    assert c.sliding(x[2:] + x[:2], w, padding=1) != pytest.approx(zero[2:] + zero[:2])  # the ends are seen


def test_what_cannot_be_padded_is_refused():
    with pytest.raises(UserError, match="longer than its padding. Got padding=3 of 3 values. Pass at most 2"):
        c.padded([1, 2, 3], 3, "reflect")
    with pytest.raises(UserError, match="mode='mirror'"):
        c.padded([1, 2, 3], 1, "mirror")
