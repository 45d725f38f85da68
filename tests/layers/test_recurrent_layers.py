"""Recurrent layers: torch's own, rows of different lengths, streams, and what one definition has of another."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn
from torch.func import functional_call
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from leadline.errors import ShapeError, UserError
from leadline.layers import GRU, LSTM, Bidirectional, DeepTransition, Elman, LectureGRU, LectureLSTM
from leadline.layers.lecture_gru import from_gru, to_gru
from leadline.layers.lecture_lstm import from_lstm, to_lstm
from leadline.layers.recurrent_layers import RECURRENT, from_torch
from leadline.layers.steps_there import order_of

LENGTHS = torch.tensor([7, 4, 1, 6])
B, T, D, UNITS = 4, 7, 3, 5
THERE = torch.arange(T) < LENGTHS[:, None]
KINDS = {
    **{name: lambda kind=kind: kind(D, UNITS) for name, kind in RECURRENT.items()},
    "both ways": lambda: Bidirectional(LSTM(D, UNITS), LSTM(D, UNITS)),
    "shortcut": lambda: DeepTransition(D, UNITS, 3, shortcut=True),
}


def drawn(*shape, seed=0, dtype=torch.float64):
    return torch.randn(shape, dtype=dtype, generator=torch.Generator().manual_seed(seed))


def close(found, expected, tolerance=1e-10):
    torch.testing.assert_close(found, expected, rtol=tolerance, atol=tolerance)


def made(name):
    torch.manual_seed(0)
    return KINDS[name]().double()


@pytest.mark.parametrize("stack", [nn.LSTM, nn.GRU, nn.RNN])
@pytest.mark.parametrize("both", [False, True])
@pytest.mark.parametrize("bias", [False, True])
def test_torchs_layers_on_packed_rows(stack, both, bias):
    torch.manual_seed(0)
    theirs = stack(D, UNITS, num_layers=2, bidirectional=both, bias=bias, batch_first=True)
    x = drawn(B, T, D, dtype=torch.float32)
    packed, state = theirs(pack_padded_sequence(x, LENGTHS, batch_first=True, enforce_sorted=False))
    expected, _ = pad_packed_sequence(packed, batch_first=True, total_length=T)
    h, states = x, []
    for layer in from_torch(theirs):
        h, state_of_layer = layer(h, None, THERE)
        states.append(state_of_layer)
    close(h, expected, 1e-6)
    for part, theirs_part in enumerate(state if isinstance(state, tuple) else (state,)):  # h, and z of an LSTM
        ours = [one[part::2] if stack is nn.LSTM else one for one in states]
        close(torch.stack([state for one in ours for state in one]), theirs_part, 1e-6)


def test_gradients_of_the_held_cell_are_those_of_packed_rows():
    torch.manual_seed(0)
    theirs = nn.LSTM(D, UNITS, batch_first=True).double()
    [layer] = from_torch(theirs)
    x, w = drawn(B, T, D), drawn(B, UNITS, seed=1)
    _, (_, cells) = theirs(pack_padded_sequence(x, LENGTHS, batch_first=True, enforce_sorted=False))
    _, (_, cell) = layer(x, None, THERE)
    for subject, last in ((theirs, cells[0]), (layer, cell)):
        (last * w).sum().backward()
        assert all(bool(p.grad.isfinite().all()) for p in subject.parameters())
    for name, p in layer.kernel.named_parameters():
        close(p.grad, getattr(theirs, name).grad, 1e-12)


@pytest.mark.parametrize("name", KINDS)
def test_a_stream_of_single_steps_is_one_call(name):
    if name == "both ways":
        pytest.skip("the way back begins at the end")
    layer, x = made(name), drawn(B, T, D)
    y, last = layer(x, None, THERE)
    state, found = None, []
    for t in range(T):
        step, state = layer(x[:, t : t + 1], state, THERE[:, t : t + 1])
        found.append(step)
    close(torch.cat(found, 1), y)
    for part, expected in zip(state, last, strict=True):
        close(part, expected)
    head, middle = layer(x[:, :3], None, THERE[:, :3])
    close(torch.cat([head, layer(x[:, 3:], middle, THERE[:, 3:])[0]], 1), y)


@pytest.mark.parametrize("name", KINDS)
@settings(max_examples=8, deadline=None)
@given(data=st.data())
def test_padding_gaps_and_batch_mates_change_nothing(name, data):
    rows = data.draw(st.lists(st.lists(st.booleans(), min_size=T, max_size=T), min_size=1, max_size=3))
    there = torch.tensor(rows)
    layer, x = made(name), drawn(len(rows), T, D, seed=data.draw(st.integers(0, 9)))
    y, state = layer(x.masked_fill(~there[..., None], float("inf")), None, there)
    for b, row in enumerate(there):
        if not row.any():
            _, alone = layer(x[b : b + 1, :1], None, torch.zeros(1, 1, dtype=torch.bool))
            assert all(not part.any() for part in alone)
        else:
            steps, alone = layer(x[b, row][None])
            close(y[b, row], steps[0])
        assert not y[b, ~row].any()
        for part, expected in zip(state, alone, strict=True):
            close(part[b], expected[0])


@pytest.mark.parametrize("name", KINDS)
def test_derivatives_are_those_of_differences(name):
    layer, x = made(name), drawn(2, 3, D).requires_grad_()
    there = torch.tensor([[True, True, True], [True, False, False]])

    def value(x, *weights):
        y, state = layer(x, None, there)
        return (y, *state)

    assert torch.autograd.gradcheck(value, (x, *layer.parameters()), fast_mode=True)


@pytest.mark.parametrize("name", KINDS)
def test_the_layer_says_what_it_reads_and_gives(name):
    layer = KINDS[name]()
    y, state = layer(torch.zeros(2, 4, layer.dim))
    assert y.shape == (2, 4, layer.dim_output) and all(len(part) == 2 for part in state)
    assert layer.dim == D
    again, _ = layer(torch.zeros(2, 4, layer.dim), state)
    assert again.shape == y.shape


@pytest.mark.parametrize("name", ["gru", "lstm", "elman"])
def test_mixed_precision_is_near_the_full_one(name):
    torch.manual_seed(0)
    net = nn.ModuleList([nn.Linear(D, D), KINDS[name]()])
    x = drawn(B, T, D, dtype=torch.float32)
    full, _ = net[1](net[0](x), None, THERE)
    with torch.autocast("cpu", torch.bfloat16):
        mixed, _ = net[1](net[0](x), None, THERE)
    close(mixed.float(), full, 0.03)


def test_five_matrices_and_torchs_lstm():
    theirs, x = LSTM(D, UNITS, bias=False).double(), drawn(B, T, D)
    lecture = from_lstm(theirs)
    for found, expected in ((lecture, theirs), (to_lstm(lecture), theirs)):
        y, state = found(x, None, THERE)
        wanted, theirs_state = expected(x, None, THERE)
        close(y, wanted)
        for part, other in zip(state, theirs_state, strict=True):
            close(part, other)
    lecture.mix.weight.data[0, 1] = 0.5
    with pytest.raises(UserError, match="no matrix inside its last tanh"):
        to_lstm(lecture)
    with pytest.raises(UserError, match="no offsets"):
        from_lstm(LSTM(D, UNITS))


def test_a_reset_before_the_matrix_is_another_function_unless_it_is_diagonal():
    theirs, x = GRU(D, UNITS, bias=False).double(), drawn(B, T, D)
    with pytest.raises(UserError, match="only where that matrix is diagonal"):
        from_gru(theirs)
    with torch.no_grad():
        into = theirs.kernel.weight_hh_l0[2 * UNITS :]
        lecture = LectureGRU(D, UNITS).double()  # the same numbers, the other order
        for map_, rows in zip((lecture.reset, lecture.keep, lecture.candidate), range(3)):
            block = slice(rows * UNITS, (rows + 1) * UNITS)
            map_.weight.copy_(torch.cat([theirs.kernel.weight_hh_l0[block], theirs.kernel.weight_ih_l0[block]], 1))
        assert float((lecture(x)[0] - theirs(x)[0]).abs().max()) > 1e-3
        into.copy_(into.diag().diag())
    lecture = from_gru(theirs)
    close(lecture(x)[0], theirs(x)[0])
    close(to_gru(lecture)(x)[0], theirs(x)[0])
    with pytest.raises(UserError, match="no offsets"):
        from_gru(GRU(D, UNITS))


def test_one_map_of_a_deep_transition_is_elmans_layer():
    layer, elman, x = DeepTransition(D, UNITS, 1).double(), Elman(D, UNITS).double(), drawn(B, T, D)
    with torch.no_grad():
        elman.kernel.weight_ih_l0.copy_(layer.read.weight)
        elman.kernel.weight_hh_l0.copy_(layer.deeper[0].weight)
        elman.kernel.bias_ih_l0.copy_(layer.deeper[0].bias)
        elman.kernel.bias_hh_l0.zero_()
    close(layer(x, None, THERE)[0], elman(x, None, THERE)[0])


@pytest.mark.parametrize("scale", [0.5, 0.9, 1.5])
def test_the_gradient_of_elmans_state_stays_under_its_bound(scale):
    torch.manual_seed(0)
    layer, x = Elman(D, 8, bias=False).double(), drawn(1, 12, D)
    with torch.no_grad():
        U = layer.kernel.weight_hh_l0
        U.mul_(scale / torch.linalg.matrix_norm(U, 2))
    z = drawn(1, 8, seed=2)
    for lag in (1, 4, 12):
        jacobian = torch.autograd.functional.jacobian(lambda z, lag=lag: layer(x[:, :lag], (z,))[1][0][0], z)[:, 0]
        assert float(torch.linalg.matrix_norm(jacobian, 2)) <= scale**lag * (1 + 1e-12)


@pytest.mark.parametrize("kind", [LSTM, GRU, Elman])
@pytest.mark.parametrize("bias", [False, True])
def test_a_single_step_has_the_gradients_of_the_kernel(kind, bias):
    torch.manual_seed(0)
    layer = kind(D, UNITS, bias=bias).double()
    x, above = drawn(B, T, D), drawn(B, T, UNITS, seed=1)
    whole = torch.autograd.grad(layer(x)[0], list(layer.parameters()), above)
    state, steps = None, []
    for x_t in x.split(1, 1):
        y, state = layer(x_t, state)
        steps.append(y)
    single = torch.autograd.grad(torch.cat(steps, 1), list(layer.parameters()), above)
    for one, other in zip(single, whole, strict=True):
        close(one, other)


@pytest.mark.parametrize("kind", [LSTM, GRU, Elman])
def test_weights_that_are_put_in_place_of_others_are_those_that_count(kind):
    """As populations and noise on weights do it."""
    torch.manual_seed(0)
    layer, other, x = kind(D, UNITS).double(), kind(D, UNITS).double(), drawn(B, T, D)
    for steps in (T, 1):
        swapped = functional_call(layer, dict(other.named_parameters()), (x[:, :steps],))
        close(swapped[0], other(x[:, :steps])[0])


def test_order_of_rows_without_gaps_is_their_own():
    assert torch.equal(order_of(THERE), torch.arange(T).expand(B, T))


def test_what_does_not_fit_is_said():
    with pytest.raises(UserError, match="tanh or relu"):
        Elman(D, UNITS, "gelu")
    with pytest.raises(UserError, match="of one kind"):
        Bidirectional(GRU(D, UNITS), LSTM(D, UNITS))
    with pytest.raises(UserError, match="dim must be"):
        GRU(0)
    with pytest.raises(UserError, match="proj_size=2"):
        from_torch(nn.LSTM(D, UNITS, proj_size=2))


def test_a_lecture_lstm_keeps_what_its_forget_gate_keeps():
    layer = LectureLSTM(1, 1).double()
    with torch.no_grad():
        for map_, weights in ((layer.forget, [0, 99]), (layer.write, [0, -99]), (layer.candidate, [0, 0])):
            map_.weight.copy_(torch.tensor([weights]))
    _, (_, z) = layer(torch.ones(1, 50, 1).double(), (torch.zeros(1, 1).double(), torch.full((1, 1), 3.0).double()))
    assert z.item() == 3.0


@pytest.mark.parametrize("name", KINDS)
def test_what_does_not_fit_is_refused(name):
    layer, x = made(name), drawn(B, T, D)
    _, state = layer(x)
    for wrong in (drawn(B, T, D + 2), drawn(B, 1, D + 2), drawn(T, D)):
        with pytest.raises(ShapeError, match=r"reads \(B, T, 3\)"):
            layer(wrong)
    for there in (THERE[:1], THERE[:, 1:], THERE.double()):
        with pytest.raises(ShapeError, match="there must be a truth value for each step"):
            layer(x, None, there)
    for wider in (tuple(part[:2] for part in state), tuple(part.repeat_interleave(2, 1) for part in state)):
        with pytest.raises(ShapeError, match=r"the state of \w+ must be . of shape"):
            layer(x, wider)


@pytest.mark.parametrize("name", KINDS)
def test_no_step_leaves_the_state_as_it_is(name):
    layer = made(name)
    _, state = layer(drawn(B, T, D))
    for there in (None, THERE[:, :0]):
        y, after = layer(drawn(B, 0, D), state, there)
        assert y.shape == (B, 0, layer.dim_output)
        close(after, state)


@pytest.mark.parametrize("stack", [nn.LSTMCell(3, 5), nn.Linear(3, 5)])
def test_what_is_no_stack_is_refused(stack):
    with pytest.raises(UserError, match=r"a stack must be an nn.RNN, nn.LSTM or nn.GRU. Got \w+. Pass one of"):
        from_torch(stack)
