"""Recurrent layers that are linear in their state: by hand, streaming, with gaps, in a trace, and at the start."""

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn
from torch.func import functional_call, grad
from torch.fx.experimental.proxy_tensor import make_fx

from leadline.errors import UserError
from leadline.layers.linear_recurrent_unit import LRU
from leadline.layers.min_gru import MinGRU
from leadline.layers.min_lstm import MinLSTM
from leadline.reference import linear_recurrence as by_hand

LAYERS = {"min_gru": MinGRU, "min_lstm": MinLSTM, "lru": LRU}
B, T, D, OUT = 3, 20, 4, 5


def made(name, *sizes, dtype=torch.float64):
    torch.manual_seed(0)
    return LAYERS[name](*(sizes or (D, OUT))).to(dtype)


def drawn(*shape, seed=0, dtype=torch.float64):
    return torch.randn(shape, dtype=dtype, generator=torch.Generator().manual_seed(seed))


def close(found, expected, tolerance=1e-10):
    torch.testing.assert_close(found, expected, rtol=tolerance, atol=tolerance)


def expected_by_hand(name, layer, x):
    lists = lambda t: t.detach().tolist()  # noqa: E731
    if name == "lru":
        eigenvalues = [
            by_hand.eigenvalue(*pair) for pair in zip(lists(layer.log_rate), lists(layer.phase), strict=True)
        ]
        into, out = (layer.read.weight.unflatten(0, (-1, 2)), layer.write.weight.unflatten(1, (-1, 2)))
        B_ = [[complex(p, q) for p, q in zip(*rows, strict=True)] for rows in lists(into)]
        C_ = [[complex(p, -q) for p, q in row] for row in lists(out)]
        through = lists(layer.through.weight), lists(layer.through.bias)
        return by_hand.lru(lists(x), eigenvalues, lists(layer.log_scale.exp()), B_, C_, *through)
    linear = layer.gate_value if name == "min_gru" else layer.gates_value
    parts = 2 if name == "min_gru" else 3
    weights, biases = lists(linear.weight), lists(linear.bias)
    cut = lambda rows: [rows[OUT * k : OUT * k + OUT] for k in range(parts)]  # noqa: E731
    loop = by_hand.min_gru if name == "min_gru" else by_hand.min_lstm
    return loop(lists(x), *cut(weights), [0.0] * OUT, *cut(biases))


@pytest.mark.parametrize("name", LAYERS)
def test_a_layer_is_what_is_written_by_hand(name):
    layer, x = made(name), drawn(B, T, D)
    y, _ = layer(x)
    assert (layer.dim, layer.dim_output) == (D, OUT) and y.shape == (B, T, OUT)
    for b in range(B):
        close(y[b], torch.tensor(expected_by_hand(name, layer, x[b]), dtype=torch.float64))


@pytest.mark.parametrize("name", LAYERS)
def test_gradients(name):
    layer, x = made(name, 2, 2), drawn(2, 5, 2).requires_grad_()
    parameters = [p.detach().clone().requires_grad_() for p in layer.parameters()]
    state = tuple(torch.randn_like(part).requires_grad_() for part in layer(x)[1])
    there = torch.tensor([[True] * 5, [True, True, False, True, False]])

    def run(x, *flat):
        own = dict(zip(dict(layer.named_parameters()), flat, strict=False))
        y, last = functional_call(layer, own, (x, flat[len(own) :], there))
        return y, *last

    assert torch.autograd.gradcheck(run, (x, *parameters, *state))


@pytest.mark.parametrize("T", [1000, pytest.param(10_000, marks=pytest.mark.slow)])
@pytest.mark.parametrize("name", LAYERS)
@torch.no_grad()
def test_thousands_of_single_steps_are_one_scan(name, T):
    layer, x = made(name, 4, 6, dtype=torch.float32), drawn(2, T, 4, dtype=torch.float32)
    y, last = layer(x)
    state, streamed = None, []
    for x_t in x.split(1, 1):
        y_t, state = layer(x_t, state)
        streamed.append(y_t)
    close(torch.cat(streamed, 1), y, 1e-5)
    for one, other in zip(state, last, strict=True):
        close(one, other, 1e-5)
        assert one.dtype == torch.float32 and len(one) == 2


@settings(max_examples=20, deadline=None)
@given(
    name=st.sampled_from(sorted(LAYERS)),
    lengths=st.lists(st.integers(0, 30), min_size=1, max_size=4),
    seed=st.integers(0, 2**20),
)
def test_padding_and_batch_mates_change_nothing(name, lengths, seed):
    layer, longest = made(name), max(lengths)
    x = 100 * drawn(len(lengths), longest, D, seed=seed)  # what stands behind a row's end is not 0 here
    there = torch.arange(longest) < torch.tensor(lengths)[:, None]
    y, (last,) = layer(x, None, there)
    for b, length in enumerate(lengths):
        alone, (state,) = layer(x[b : b + 1, :length])
        close(y[b, :length], alone[0])
        close(last[b], state[0])
        assert not y[b, length:].any()


@pytest.mark.parametrize("name", LAYERS)
def test_steps_that_are_not_there_leave_the_state(name):
    layer, x = made(name), drawn(1, 9, D)
    there = torch.tensor([[True, False, True, True, False, False, True, True, False]])
    state = tuple(torch.randn_like(part) for part in layer(x)[1])
    y, last = layer(x, state, there)
    alone, expected = layer(x[there][None], state)
    close(y[there], alone[0])
    close(last[0], expected[0])
    kept = layer(x, state, torch.zeros_like(there))[1]
    close(kept[0], state[0])
    close(layer(x[:, :0], state)[1][0], state[0])


@pytest.mark.parametrize("name", LAYERS)
def test_the_future_is_not_seen(name):
    layer, x = made(name), drawn(B, T, D)
    other = torch.cat([x[:, :7], drawn(B, T - 7, D, seed=1)], 1)
    close(layer(x)[0][:, :7], layer(other)[0][:, :7])
    assert not torch.allclose(layer(x)[0][:, 7:], layer(other)[0][:, 7:])


@pytest.mark.parametrize("name", LAYERS)
@pytest.mark.parametrize("padded", [False, True])
def test_a_step_of_training_can_be_traced(name, padded):
    layer, x = made(name), drawn(B, T, D)
    there = torch.arange(T) < torch.tensor([[T], [4], [9]]) if padded else None
    weights = {name: p.detach() for name, p in layer.named_parameters()}
    step = grad(lambda w, x: functional_call(layer, w, (x, None, there))[0].square().mean())
    found = make_fx(step, tracing_mode="fake", _allow_non_fake_inputs=True)(weights, x)(weights, x)
    for key, expected in step(weights, x).items():
        close(found[key], expected)


@pytest.mark.parametrize("name", LAYERS)
def test_states_are_kept_in_32_bits_under_autocast(name):
    layer, x = made(name, dtype=torch.float32), drawn(B, T, D, dtype=torch.float32)
    with torch.autocast("cpu", torch.bfloat16):
        y, (last,) = layer(x)
    assert last.dtype == torch.float32
    torch.testing.assert_close(y.float(), layer(x)[0], rtol=0.05, atol=0.05)


@pytest.mark.parametrize("name", ["min_gru", "min_lstm"])
def test_a_state_is_a_mean_of_values(name):
    layer, x = made(name), 5 * drawn(B, 200, D)
    linear = layer.gate_value if name == "min_gru" else layer.gates_value
    values = linear(x)[..., -OUT:]
    y, _ = layer(x)
    low, high = values.amin(1, keepdim=True).clamp(max=0), values.amax(1, keepdim=True).clamp(min=0)
    assert bool((y >= low - 1e-12).all()) and bool((y <= high + 1e-12).all())


def test_gates_of_the_minimal_lstm_far_from_balance_are_finite():
    layer = made("min_lstm", 1, 1, dtype=torch.float32)
    with torch.no_grad():
        layer.gates_value.weight.copy_(torch.tensor([[-500.0], [-400.0], [1.0]]))  # f and i are both 0 in 32 bits
        layer.gates_value.bias.zero_()
    x = torch.ones(1, 3, 1, requires_grad=True)
    y, _ = layer(x)
    y.sum().backward()
    close(y.detach(), torch.ones(1, 3, 1), 1e-6)  # i / f = e^100: all is new
    assert bool(x.grad.isfinite().all())


def test_first_eigenvalues_lie_in_the_ring_and_stay_in_the_disc():
    torch.manual_seed(0)
    layer = LRU(2, 2, dim_state=4000, radii=(0.6, 0.9))
    r, phase = layer.eigenvalues.abs(), layer.phase.detach()
    assert float(r.min()) >= 0.6 and float(r.max()) <= 0.9
    assert abs(float(r.mean()) - 0.75) < 0.01 and abs(float(phase.mean()) - math.pi) < 0.1
    close(layer.log_rate.detach(), (-r.log()).log(), 1e-3)  # ν = log(-log r)
    with torch.no_grad():
        layer.log_rate.copy_(torch.linspace(-8.0, 4.0, 4000))
    r = layer.eigenvalues.abs()
    assert float(r.min()) >= 0 and float(r.max()) < 1


@torch.no_grad()
def test_the_scale_makes_states_of_one_size():
    torch.manual_seed(0)
    layer, x = LRU(16, 16, 64, radii=(0.3, 0.995)), torch.randn(8, 3000, 16)
    h = torch.stack([layer(x[:, :1500])[1][0], layer(x)[1][0]]).square().sum(-1)  # |h|², on average 1 for this B
    slow, fast = layer.eigenvalues.abs() > 0.8, layer.eigenvalues.abs() < 0.6
    assert 0.6 < float(h[..., slow].mean() / h[..., fast].mean()) < 1.7
    assert 0.7 < float(h.mean()) < 1.4


def test_a_dense_recurrence_is_a_diagonal_one_in_another_basis():
    torch.manual_seed(0)
    A = torch.randn(6, 6, dtype=torch.float64)
    A, E, W = 0.9 * A / torch.linalg.eigvals(A).abs().max(), drawn(6, 2, seed=1), drawn(3, 6, seed=2)
    eigenvalues, P = torch.linalg.eig(A)
    layer, x = LRU(2, 3, 6).double(), drawn(1, 30, 2)
    C, into = W.to(P.dtype) @ P, torch.linalg.solve(P, E.to(P.dtype))
    with torch.no_grad():
        layer.log_rate.copy_((-eigenvalues.abs().log()).log()), layer.phase.copy_(eigenvalues.angle())
        layer.log_scale.zero_(), layer.through.weight.zero_(), layer.through.bias.zero_()
        layer.read.weight.copy_(torch.view_as_real(into).transpose(1, 2).flatten(0, 1))
        layer.write.weight.copy_(torch.view_as_real(C.conj().resolve_conj()).flatten(1))
    expected = by_hand.dense(*(t.tolist() for t in (x[0], A, E, W)))
    close(layer(x)[0][0], torch.tensor(expected, dtype=torch.float64), 1e-9)


@pytest.mark.parametrize("radii", [(0.0, 0.5), (0.5, 1.0), (0.9, 0.5)])
def test_a_ring_outside_of_the_disc_is_refused(radii):
    with pytest.raises(UserError, match="radii must be above 0, below 1"):
        LRU(2, radii=radii)


@pytest.mark.parametrize("name", LAYERS)
def test_a_layer_learns_to_remember(name):
    """A gate learns to keep what is marked; a filter, which has no gate, learns what came five steps ago."""
    torch.manual_seed(0)
    layer, head = LAYERS[name](2, 16), nn.Linear(16, 1)
    optimizer = torch.optim.Adam([*layer.parameters(), *head.parameters()], lr=0.05)
    for _ in range(200):
        x = torch.randn(64, 10, 2)
        if name != "lru":
            x[..., 1] = 0.0
            x[:, 0, 1] = 1.0
        wanted = x[:, -6 if name == "lru" else 0, 0]
        loss = (head(layer(x)[0][:, -1])[:, 0] - wanted).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    assert loss.item() < 0.1
