"""A scan against its steps: values, gradients of every order, number types, vmap, traces, and long rows."""

import os
import subprocess
import sys
from importlib.util import find_spec

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.func import grad, hessian, jvp, vmap
from torch.fx.experimental.proxy_tensor import make_fx

from leadline.errors import ShapeError
from leadline.layers import scan_kernel
from leadline.layers.scan import chunked, scan, scan_by_steps, scan_pairs
from leadline.reference import scan as by_hand

LENGTHS = (1, 2, 15, 16, 17, 24, 25, 63, 64, 130)


def drawn(B, T, D, dtype=torch.float64, seed=0, largest=1.0):
    """a with |a| up to `largest`, b, and a first state."""
    generator = torch.Generator().manual_seed(seed)
    a = largest * torch.rand(B, T, D, generator=generator, dtype=torch.float64)
    b, first = (torch.randn(*size, generator=generator, dtype=torch.float64) for size in ((B, T, D), (B, D)))
    if dtype.is_complex:
        turn, b_, first_ = (torch.randn(t.shape, generator=generator, dtype=torch.float64) for t in (a, b, first))
        a, b, first = torch.polar(a, turn), torch.complex(b, b_), torch.complex(first, first_)
    return tuple(t.to(dtype) for t in (a, b, first))


def close(found, expected, tolerance=1e-10):
    torch.testing.assert_close(found, expected, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("dtype", [torch.float64, torch.complex128])
@pytest.mark.parametrize("T", LENGTHS)
def test_a_scan_is_its_steps(T, dtype):
    a, b, first = drawn(2, T, 3, dtype)
    close(scan(a, b, first), scan_by_steps(a, b, first))
    close(scan(a, b), scan_by_steps(a, b))


@pytest.mark.parametrize("dtype", [torch.float64, torch.complex128])
@pytest.mark.parametrize("T", [1, 5, 40])
def test_values_and_gradients_are_those_by_hand(T, dtype):
    a, b, first = (t.requires_grad_() for t in drawn(1, T, 1, dtype))
    h, g = scan(a, b, first), drawn(1, T, 1, dtype, seed=1)[1]
    flat = [t.detach().flatten().tolist() for t in (a, b, first, g)]
    flat[2] = flat[2][0]
    tensor = lambda values: torch.tensor(values, dtype=dtype)  # noqa: E731
    close(h.flatten(), tensor(by_hand.by_steps(*flat[:3])))
    close(h.flatten(), tensor(by_hand.by_levels(*flat[:3])[0]))
    found = torch.autograd.grad(h, (a, b, first), g)
    for one, expected in zip(found, by_hand.backward(*flat), strict=True):
        close(one.flatten(), tensor(expected).flatten())


@pytest.mark.parametrize("T", [1, 2, 3, 8, 9, 64, 65])
def test_levels_are_the_logarithm_of_the_steps(T):
    assert by_hand.by_levels([0.5] * T, [1.0] * T)[1] == (T - 1).bit_length()


@pytest.mark.parametrize("dtype", [torch.float64, torch.complex128])
@pytest.mark.parametrize("T", [1, 3, 18])
def test_gradients(T, dtype):
    inputs = tuple(t.requires_grad_() for t in drawn(2 if T < 9 else 1, T, 2, dtype))
    assert torch.autograd.gradcheck(scan, inputs, check_forward_ad=True)
    assert torch.autograd.gradcheck(lambda a, b: scan(a, b), inputs[:2])


@pytest.mark.parametrize("dtype", [torch.float64, torch.complex128])
def test_second_gradients(dtype):
    inputs = tuple(t.requires_grad_() for t in drawn(1, 17, 1, dtype))
    assert torch.autograd.gradgradcheck(scan, inputs)


def test_curvature_by_forward_over_backward_is_that_of_the_steps():
    a, b, first = drawn(1, 17, 1)
    for at in range(3):
        loss = lambda f, at=at: lambda t: f(*[t if k == at else o for k, o in enumerate((a, b, first))]).pow(3).sum()  # noqa: E731
        close(hessian(loss(scan))((a, b, first)[at]), hessian(loss(scan_by_steps))((a, b, first)[at]))


@pytest.mark.parametrize("shape", [(3,), (1, 1, 3), (2, 1, 3), (1, 20, 3), (2, 20, 1)])
@pytest.mark.parametrize("dtype", [torch.float64, torch.complex128])
def test_a_may_be_the_same_for_rows_steps_or_channels(shape, dtype):
    a, b, first = drawn(2, 20, 3, dtype)
    a = a[tuple(slice(0, size) for size in (1, 1, *shape)[-3:])].reshape(shape).clone()
    leaves = [t.requires_grad_() for t in (a, b, first)]
    found, expected = (f(*leaves) for f in (scan, scan_by_steps))
    close(found, expected)
    g = drawn(2, 20, 3, dtype, seed=1)[1]
    for one, other in zip(*(torch.autograd.grad(h, leaves, g) for h in (found, expected)), strict=True):
        close(one, other)


@settings(max_examples=25, deadline=None)
@given(
    B=st.integers(1, 3), T=st.integers(1, 70), D=st.integers(1, 4), cut=st.integers(0, 70), seed=st.integers(0, 2**20)
)
def test_cutting_a_row_anywhere_changes_nothing(B, T, D, cut, seed):
    a, b, first = drawn(B, T, D, seed=seed)
    cut = min(cut, T)
    early = scan(a[:, :cut], b[:, :cut], first)
    late = scan(a[:, cut:], b[:, cut:], early[:, -1] if cut else first)
    close(torch.cat([early, late], 1), scan(a, b, first))
    close(scan(a[:1], b[:1], first[:1]), scan(a, b, first)[:1])


def test_views_that_do_not_lie_in_order_are_read_rightly():
    a, b, first = drawn(2, 50, 6)
    slices = [t[..., ::2] for t in (a, b, first)]
    close(scan(*slices), scan(*(t.contiguous() for t in slices)))
    turned = [t.transpose(0, 1).contiguous().transpose(0, 1) for t in (a, b)]
    close(scan(*turned, first), scan(a, b, first))
    pairs = torch.randn(2, 50, 2, 3, dtype=torch.float64).mT  # real and imaginary parts are not neighbours
    close(scan_pairs(pairs / 9, pairs), scan_pairs((pairs / 9).contiguous(), pairs.contiguous()))
    conjugate = torch.complex(a, b).conj()
    close(scan(conjugate / 4, conjugate), scan_by_steps(conjugate / 4, conjugate))


def test_real_and_complex_numbers_mix():
    a, b, first = drawn(2, 20, 3, torch.complex128)
    close(scan(a.real, b, first), scan_by_steps(a.real.to(b.dtype), b, first))
    close(scan(a, b.real), scan_by_steps(a, b.real.to(a.dtype)))


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_sums_of_16_bits_are_in_32(dtype):
    T = 3000
    a, b = torch.ones(1, T, 1, dtype=dtype), torch.full((1, T, 1), 1 / 16, dtype=dtype)
    found = scan(a, b)
    assert found.dtype == dtype and abs(float(found[0, -1, 0]) - T / 16) < 1  # in bfloat16 itself it ends at 16
    a, b, first = drawn(2, 60, 3, torch.float32)
    leaves = [t.to(dtype).requires_grad_() for t in (a, b, first)]
    exact = [t.detach().double().requires_grad_() for t in leaves]
    found = torch.autograd.grad(scan(*leaves).double().sum(), leaves)
    for one, other in zip(found, torch.autograd.grad(scan_by_steps(*exact).sum(), exact), strict=True):
        assert one.dtype == dtype
        torch.testing.assert_close(one.double(), other, rtol=0.02, atol=0.02)


def test_a_may_be_finer_than_b():
    a, b, _ = drawn(2, 60, 3, torch.float32)
    a = a.requires_grad_()
    h = scan(a, b.bfloat16())
    assert h.dtype == torch.bfloat16 and torch.autograd.grad(h.sum(), a)[0].dtype == torch.float32


@pytest.mark.parametrize("dtype", [torch.float32, torch.complex64])
def test_a_hundred_thousand_steps_neither_drift_nor_overflow(dtype):
    T = 100_000
    phase = torch.full((1, 1, 3), 0.0 if dtype == torch.float32 else 0.3)
    a = torch.polar(torch.tensor([1.0, 0.9999, 0.0]).expand(1, 1, 3).contiguous(), phase)
    a = (a.real if dtype == torch.float32 else a).to(dtype).requires_grad_()
    b = torch.zeros(1, T, 3, dtype=dtype)
    b[:, 0], b[:, T // 2] = 1.0, -1.0
    h = scan(a, b)
    gradient = torch.autograd.grad(h.abs().mean(), a)[0]
    assert bool(h.isfinite().all()) and bool(gradient.isfinite().all())
    exact = scan_by_steps(a.detach().to(torch.complex128 if dtype.is_complex else torch.float64), b.to(
        torch.complex128 if dtype.is_complex else torch.float64))  # fmt: skip
    torch.testing.assert_close(h.detach().to(exact.dtype), exact, rtol=0, atol=0.02)


def test_vmap_and_its_gradients():
    many = [torch.stack(pair) for pair in zip(drawn(2, 20, 3), drawn(2, 20, 3, seed=1), strict=True)]
    each = lambda f: torch.stack([f(*(t[k] for t in many)) for k in range(2)])  # noqa: E731
    close(vmap(scan)(*many), each(scan))
    close(vmap(scan, in_dims=(None, 1, 0))(many[0][0], many[1].movedim(0, 1), many[2]),
          torch.stack([scan(many[0][0], many[1][k], many[2][k]) for k in range(2)]))  # fmt: skip
    loss = lambda a, b, first: scan(a, b, first).square().sum()  # noqa: E731
    for at in range(3):
        close(vmap(grad(loss, at))(*many), each(grad(loss, at)))
    close(vmap(grad(grad(lambda s: loss(s * many[0][0], many[1][0], many[2][0]))))(torch.tensor([0.5, 1.0]).double()),
          torch.stack([grad(grad(lambda s: loss(s * many[0][0], many[1][0], many[2][0])))(s)
                       for s in torch.tensor([0.5, 1.0]).double()]))  # fmt: skip
    along = drawn(2, 20, 3, seed=5)
    close(*(jvp(lambda *t, f=f: f(*t), drawn(2, 20, 3), along)[1] for f in (scan, scan_by_steps)))


@pytest.mark.parametrize("mode", ["real", "fake", "symbolic"])
def test_a_trace_has_one_node_for_each_scan(mode):
    inputs = drawn(2, 40, 3)
    step = grad(lambda a, b, first: scan(a, b, first).square().sum(), (0, 1, 2))
    graph = make_fx(step, tracing_mode=mode)(*inputs)
    called = [str(node.target) for node in graph.graph.nodes]
    assert called.count("leadline.scan.default") == 1 and called.count("leadline.scan_back.default") == 1
    for one, other in zip(graph(*inputs), step(*inputs), strict=True):
        close(one, other)


def test_the_operators_keep_their_word():
    a, b, first = drawn(2, 20, 3)
    torch.library.opcheck(torch.ops.leadline.scan.default, (a, b, first))
    torch.library.opcheck(torch.ops.leadline.scan_back.default, (a, b, first, b.flip(1)))
    torch.library.opcheck(torch.ops.leadline.scan.default, (a[:1, :1].expand(2, 20, 3), b.float(), first.float()))


def test_no_compiler_is_imported_for_a_scan():
    code = "import sys, torch; from leadline.layers.scan import scan; scan(*torch.ones(2, 1, 9, 1)); "
    code += "sys.exit('torch._dynamo' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0


def test_nothing_to_scan():
    a = torch.ones(2, 0, 3, requires_grad=True)
    h = scan(a, a, torch.ones(2, 3))
    h.sum().backward()
    assert h.shape == (2, 0, 3) and scan_by_steps(a, a).shape == (2, 0, 3)


@pytest.mark.parametrize("shape", [(0, 20, 3, 2), (2, 0, 3, 2), (2, 20, 0, 2)])
def test_nothing_to_scan_has_gradients_in_pairs_too(shape):
    b, first = torch.ones(shape, requires_grad=True), torch.ones(shape[0], *shape[2:], requires_grad=True)
    a = torch.ones(shape[2:], requires_grad=True)
    slopes = torch.autograd.grad(scan_pairs(a, b, first).sum(), (a, b, first))
    assert [slope.shape for slope in slopes] == [a.shape, b.shape, first.shape]
    assert not any(slope.any() for slope in slopes)


def test_shapes_that_do_not_fit_are_named():
    with pytest.raises(ShapeError, match="b of a scan must be"):
        scan(torch.ones(3), torch.ones(2, 3))
    with pytest.raises(ShapeError, match="a of a scan must broadcast"):
        scan(torch.ones(2, 4, 3), torch.ones(2, 5, 3))
    with pytest.raises(ShapeError, match="first of a scan must have"):
        scan(torch.ones(3), torch.ones(2, 5, 3), torch.ones(3))
    with pytest.raises(ShapeError, match="must be \\(B, T, D, 2\\)"):
        scan_pairs(torch.ones(3), torch.ones(2, 5, 3, 3))


@pytest.mark.parametrize("T", [*LENGTHS, 1000])
@pytest.mark.parametrize("back", [False, True])
def test_chunks_go_both_ways(T, back):
    a, b, first = drawn(2, T, 3)
    out = torch.full_like(b, torch.nan)
    chunked(a, b, first, out, back)
    expected = scan_by_steps(a.flip(1), b.flip(1), first).flip(1) if back else scan_by_steps(a, b, first)
    close(out, expected)


@pytest.mark.parametrize("dtype", [torch.float64, torch.complex128])
@pytest.mark.parametrize("enough", [4, 60, 100])  # one chunk, five, eight
@pytest.mark.parametrize("shape", [(3, 170, 4), (1, 1, 4), (3, 170, 1), (3, 1, 1)])
def test_blocks_follow_one_another_both_ways(monkeypatch, shape, enough, dtype):
    module = sys.modules[scan.__module__]
    for name, value in (("_ENOUGH", enough), ("_STEPS", 5), ("_ALONE", 50)):
        monkeypatch.setattr(module, name, value)
    a, b, first = drawn(3, 170, 4, dtype)
    a = a[tuple(slice(0, size) for size in shape)].clone()
    leaves = [t.requires_grad_() for t in (a, b, first)]
    found, expected = (f(*leaves) for f in (scan, scan_by_steps))
    close(found, expected)
    g = drawn(3, 170, 4, dtype, seed=1)[1]
    for one, other in zip(*(torch.autograd.grad(h, leaves, g) for h in (found, expected)), strict=True):
        close(one, other)


@pytest.mark.parametrize("T", [9, 30, 600])
def test_a_gradient_is_the_same_where_torch_looks_at_no_conjugate(T):  # as inside of some operators
    a, b, first = (torch.view_as_real(t) for t in drawn(2, T, 3, torch.complex128))
    h = scan_pairs(a, b, first)
    for some in (a, a[:1, :1]):
        expected = torch.ops.leadline.scan_back(some, h, first, b)
        with torch._C._ExcludeDispatchKeyGuard(torch._C.DispatchKeySet(torch._C.DispatchKey.Conjugate)):
            found = torch.ops.leadline.scan_back(some, h, first, b)
        for one, other in zip(found, expected, strict=True):
            close(one, other)


def test_calls_for_many_steps_take_them_in_order():
    a, b, first = drawn(2, 300, 2000, torch.float32)
    by_steps = scan_by_steps(a, b, first)
    torch.testing.assert_close(scan(a, b, first), by_steps, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("T", [1, 8, 63, 64, 65, 1000, 4096, 100_000])
@pytest.mark.parametrize("rows", [1, 3, 100])
@pytest.mark.parametrize("reals", [1, 3, 32, 100, 256, 5000])
def test_tiles_of_the_kernel_fill_their_warps_and_hold_no_needless_steps(rows, T, reals):
    for size in (2, 4):
        lanes, steps, warps, group = scan_kernel.tiles(rows, T, reals, size)
        assert group & (group - 1) == 0
        assert lanes in (8, 16, 32) and lanes < max(2 * reals, 16) and warps in (1, 2, 4, 8, 16)
        assert lanes * steps <= warps * 32 * scan_kernel._NUMBERS[size] and steps % (2 * size) == 0
        assert steps < 2 * max(T, 16) and steps & (steps - 1) == 0


def test_the_fewer_channels_there_are_the_longer_are_chunks():
    steps = [scan_kernel.tiles(1, 2**18, reals, 4)[1] for reals in (2**k for k in range(16, 3, -1))]
    assert steps == sorted(steps) and steps[0] == 128 and steps[-1] == 2048


def test_a_gradient_of_what_is_shared_is_added_up_and_of_what_is_repeated_is_not():
    _, b, first = drawn(3, 40, 2)
    for shape in ((2,), (1, 40, 2), (3, 1, 2), (1, 1, 1)):
        shared = torch.full(shape, 0.7, dtype=b.dtype, requires_grad=True)
        repeated = shared.detach().expand(b.shape).requires_grad_()
        (one,) = torch.autograd.grad(scan(shared, b, first).square().sum(), shared)
        (each,) = torch.autograd.grad(scan(repeated, b, first).square().sum(), repeated)
        assert one.shape == shape and each.shape == b.shape and each.unique().numel() == b.numel()
        close(each.sum_to_size(shape), one)


def test_a_gpu_without_triton_scans_as_a_cpu_does(monkeypatch):
    module = sys.modules[scan.__module__]
    monkeypatch.setattr(module, "has_triton", lambda: False)
    a, b, first, g = torch.rand(2, 9, 3), torch.randn(2, 9, 3), torch.randn(2, 3), torch.randn(2, 9, 3)
    h = module._on_cuda(a, b, first)
    torch.testing.assert_close(h, scan_by_steps(a, b, first))
    for one, other in zip(module._back_on_cuda(a, h, first, g), module._plain_back(a, h, first, g), strict=True):
        assert torch.equal(one, other)


@pytest.mark.slow
@pytest.mark.skipif(find_spec("triton") is None, reason="needs triton")
def test_the_kernel_in_tritons_interpreter():
    code = """
import torch
from leadline.layers import scan, scan_kernel as kernel

kernel._NUMBERS, kernel._FEWEST, kernel._TILES = {2: 8, 4: 8}, 4, ((8, 1, 2),)
torch.manual_seed(0)
for T, pair in ((1, ()), (13, ()), (70, ()), (1, (2,)), (13, (2,)), (70, (2,))):  # of 70: three chunks, two groups
    whole, b, g = torch.rand(2, T, 9, *pair) / 1.5, torch.randn(2, T, 9, *pair), torch.randn(2, T, 9, *pair)
    first = torch.randn(2, 9, *pair)
    for a in (whole, whole[:1], whole[:, :1], whole[:1, :1], whole[:1, :1].expand(whole.shape)):
        h = kernel.scanned(a, b, first)
        torch.testing.assert_close(h, scan._plain(a, b, first), rtol=1e-4, atol=1e-4)
        for one, other in zip(kernel.scanned_back(a, h, first, g), scan._plain_back(a, h, first, g)):
            torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-4)
    h = kernel.scanned(a, b.bfloat16(), first)
    assert h.dtype == torch.bfloat16
    torch.testing.assert_close(h, scan._plain(a, b.bfloat16(), first), rtol=1e-2, atol=1e-2)
far = torch.empty(2**31 + 8, dtype=torch.uint8).as_strided((1, 5, 9), (2**31 + 8, 1, 2**28))  # never filled
far[:], b, first = torch.randint(2, (1, 5, 9)), torch.randn(1, 5, 9), torch.randn(1, 9)
for a in (far, far[:, :1]):
    torch.testing.assert_close(kernel.scanned(a, b, first), scan._plain(a.float(), b, first), rtol=1e-4, atol=1e-4)
"""
    assert subprocess.run([sys.executable, "-c", code], env={**os.environ, "TRITON_INTERPRET": "1"}).returncode == 0
