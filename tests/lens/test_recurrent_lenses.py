"""How far back a recurrent layer is felt, its gates, its spectrum and its units: against differences and loops."""

import json
import math

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn.utils.rnn import pack_padded_sequence

import leadline as ll
from leadline.errors import UserError
from leadline.layers import GRU, LRU, LSTM, Bidirectional, DeepTransition, Elman, MinLSTM
from leadline.layers.recurrent_layers import RECURRENT
from leadline.lens import fading, gates, state_spectrum, unit_responses
from leadline.lens.recurrences import flat, readings
from leadline.lens.tokens import read
from leadline.models import MLP, EncoderDecoder, Recurrent
from leadline.reference import recurrence
from leadline.reference.recurrence import sigmoid

GATED = [name for name in RECURRENT if name not in ("elman", "deep_transition", "lru")]


@pytest.fixture(autouse=True)
def seeded():
    torch.manual_seed(0)


def made(name, dim=2, units=3):
    return RECURRENT[name](dim, units).double()


def drawn(*shape, seed=0):
    return torch.randn(shape, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))


def unchanged(model, look):
    model.train()
    before = {name: value.clone() for name, value in model.state_dict().items()}
    random = torch.get_rng_state()
    found = look(model)
    assert model.training and all(p.grad is None for p in model.parameters())
    assert all(torch.equal(before[name], value) for name, value in model.state_dict().items())
    assert torch.equal(random, torch.get_rng_state())
    assert not any(part._forward_hooks for part in model.modules())
    json.dumps(found.to_dict())
    assert found.plot().axes
    return found


# ── how far back ──


@pytest.mark.parametrize("name", RECURRENT)
def test_what_is_kept_is_what_differences_say(name):
    layer, x, eps = made(name), drawn(1, 7, 2), 1e-6
    view = unchanged(layer, lambda net: fading(net, x))

    def behind(t, state):
        """The last state, with that behind step t given."""
        return flat(layer(x[:, t:], state)[1])[0] if t < 7 else flat(state)[0]

    with torch.no_grad():
        for lag in (1, 3, 6):
            t = 7 - lag
            _, state = layer(x[:, :t])
            sizes = [part.numel() for part in state]
            s = flat(state)[0]
            again = lambda s: tuple(p.view_as(q) for p, q in zip(s.split(sizes), state, strict=True))  # noqa: B023, E731
            rows = [(behind(t, again(s + d)) - behind(t, again(s - d))) / (2 * eps) for d in eps * torch.eye(len(s))]
            norm = float(torch.linalg.matrix_norm(torch.stack(rows, 1), 2))
            assert view.state[0, 0, lag] == pytest.approx(norm, rel=1e-6, abs=1e-9)
            columns = []
            for k in range(2):
                ways = [x.clone(), x.clone()]
                for way, sign in zip(ways, (1, -1), strict=True):
                    way[0, 6 - lag, k] += sign * eps
                up, down = (flat(layer(way)[1])[0] for way in ways)
                columns.append((up - down) / (2 * eps))
            norm = float(torch.linalg.matrix_norm(torch.stack(columns, 1), 2))
            assert view.read[0, 0, lag] == pytest.approx(norm, rel=1e-6, abs=1e-9)
    assert view.state[0, 0, 0] == 1 and view.lags.tolist() == list(range(8))


def test_the_bound_is_that_of_the_weights():
    x = drawn(2, 30, 2)
    elman = Elman(2, 4).double()
    view = fading(elman, x)
    sigma = float(torch.linalg.svdvals(elman.kernel.weight_hh_l0.detach())[0])
    assert view.bound[0] == pytest.approx(sigma ** np.arange(31))
    assert (view.state[0] <= view.bound + 1e-12).all() and view.state[0, 0, 20] < view.bound[0, 20]
    lru = LRU(2, 4).double()
    view = fading(lru, x)
    assert view.state[0, 0] == pytest.approx(view.bound[0], rel=1e-9)  # it is reached
    assert view.bound[0, 1] == pytest.approx(float(lru.eigenvalues.abs().max()))
    for shortcut in (False, True):
        deep = DeepTransition(2, 4, 3, "sigmoid", shortcut).double()
        view = fading(deep, x)
        step = math.prod(0.25 * float(torch.linalg.svdvals(map_.weight.detach())[0]) for map_ in deep.deeper)
        step += float(torch.linalg.svdvals(deep.shortcut.weight.detach())[0]) if shortcut else 0
        assert view.bound[0, 1] == pytest.approx(step) and (view.state[0] <= view.bound * (1 + 1e-9)).all()
    for other in (GRU(2, 3), DeepTransition(2, 3, activation="gelu")):
        assert np.isnan(fading(other, x).bound[0, 1:]).all()


def test_horizon_and_rate():
    layer = LRU(2, 4, radii=(0.5, 0.5)).double()
    view = fading(layer, drawn(3, 20, 2))
    assert view.rate == pytest.approx([0.5])
    assert view.horizon(0.01) == [7] and view.horizon(0.1) == [4]  # 2^-7 < 0.01 <= 2^-6
    assert view.horizon(1e-9) == [None]
    with pytest.raises(UserError, match="share"):
        view.horizon(2)


def test_a_short_row_ends_where_it_ends():
    net = Recurrent(3, channels=2, cell="lstm", dim=4, num_layers=1, bidirectional=True).double()
    x = torch.cat([drawn(2, 8, 2), torch.ones(2, 8, 1, dtype=torch.float64)], -1)
    x[1, 5:] = 0
    alone = fading(net, x[1:, :5])
    view = fading(net, x)
    assert view.state[:, 1, :6] == pytest.approx(alone.state[:, 0]) and np.isnan(view.state[:, 1, 6:]).all()
    assert np.isfinite(view.state[:, 0]).all()
    assert gates(net, x[1:]).gates[0].mean[:5] == pytest.approx(gates(net, x[1:, :5]).gates[0].mean)


def test_rows_of_tokens_end_before_their_padding():
    net = Recurrent(9, num_tokens=9, dim=4, num_layers=1, head="next", pad=0).double()
    short = torch.tensor([[3, 1, 4]])
    padded = torch.tensor([[3, 1, 4, 0, 0]])
    assert fading(net, padded).state[0, 0, :4] == pytest.approx(fading(net, short).state[0, 0])
    view = unit_responses(net, padded, unit=1)
    assert view.values[0, :3] == pytest.approx(unit_responses(net, short, unit=1).values[0])
    assert np.isnan(view.values[0, 3:]).all() and all(one.step < 3 for one in view.highest + view.lowest)


@pytest.mark.parametrize("stack", [nn.RNN, nn.LSTM, nn.GRU])
@pytest.mark.parametrize("both", [False, True])
def test_stacks_of_torch_are_taken_apart(stack, both):
    class Reader(nn.Module):
        def __init__(self):
            super().__init__()
            self.net = stack(2, 3, num_layers=2, bidirectional=both, batch_first=True)

        def forward(self, x):
            return self.net(x)[0]

    class Packed(Reader):
        def forward(self, x):
            return self.net(pack_padded_sequence(x, [5, 3], batch_first=True))[0].data

    x = drawn(2, 5, 2)
    reader = Reader().double()
    heard = readings(read(reader, x))
    assert len(heard) == (4 if both else 2) and heard[0].name == "net, layer 1"
    top = heard[-2:] if both else heard[-1:]
    torch.testing.assert_close(torch.cat([one.y for one in top], -1), reader(x))
    assert np.isfinite(unchanged(reader, lambda net: fading(net, x)).state).all()
    packed = Packed().double()
    packed.load_state_dict(reader.state_dict())
    assert fading(packed, x).state[:, 1, :4] == pytest.approx(fading(reader, x[1:, :3]).state[:, 0])


def test_a_layer_that_streams_is_one_row():
    class Stream(nn.Module):
        def __init__(self):
            super().__init__()
            self.net = GRU(2, 3)

        def forward(self, x):
            state, found = None, []
            for t in range(x.shape[1]):
                y, state = self.net(x[:, t : t + 1], state)
                found.append(y)
            return torch.cat(found, 1)

    x, stream = drawn(2, 6, 2), Stream().double()
    [reading] = readings(read(stream, x))
    assert reading.x.shape == (2, 6, 2)
    assert fading(stream, x).state == pytest.approx(fading(stream.net, x).state)


def test_what_has_no_recurrence_is_told():
    with pytest.raises(UserError, match="recurrent layers"):
        fading(MLP(4, (3,), 2), torch.zeros(2, 4))
    with pytest.raises(UserError, match="with gates"):
        gates(Elman(2, 3), torch.zeros(1, 4, 2))
    with pytest.raises(UserError, match="most"):
        fading(Elman(2, 3), torch.zeros(1, 4, 2), most=0)
    with pytest.raises(UserError, match="layer must be"):
        unit_responses(Elman(2, 3), torch.zeros(1, 4, 2), layer="nowhere")
    with pytest.raises(UserError, match="unit"):
        unit_responses(Elman(2, 3), torch.zeros(1, 4, 2), unit=3)


# ── gates ──


def test_gates_of_an_lstm_and_a_gru_are_those_of_loops():
    x = drawn(1, 4, 2)
    for kind, count in ((LSTM, 4), (GRU, 3)):
        layer = kind(2, 3).double()
        kernel = layer.kernel
        W, U, b, c = (
            getattr(kernel, f"{name}_l0").tolist() for name in ("weight_ih", "weight_hh", "bias_ih", "bias_hh")
        )
        view = unchanged(layer, lambda net: gates(net, x))
        h = [0.0] * 3
        for t in range(4):
            dot = lambda row, v: sum(p * q for p, q in zip(row, v, strict=True))  # noqa: E731
            sums = [dot(W[k], x[0, t].tolist()) + b[k] + dot(U[k], h) + c[k] for k in range(3 * count)]
            blocks = [[sigmoid(s) for s in sums[3 * k : 3 * k + 3]] for k in range(count)]
            order = (("write", 0), ("keep", 1), ("show", 3)) if kind is LSTM else (("reset", 0), ("keep", 1))
            for name, k in order:
                gate = view.of(kind.__name__, name)
                assert gate.mean[t] == pytest.approx(np.mean(blocks[k])), (kind, name)
                assert gate.spread[t] == pytest.approx(np.std(blocks[k]))
            if kind is LSTM:
                zeros = [0.0] * 3
                h = recurrence.lstm(W, U, (np.array(b) + c).tolist(), x[0, : t + 1].tolist(), zeros, zeros)[0][-1]
            else:
                h = recurrence.gru(W, U, b, c, x[0, : t + 1].tolist(), [0.0] * 3)[-1]
    with pytest.raises(UserError, match="one of the model's"):
        view.of("GRU", "show")


@pytest.mark.parametrize("name", GATED)
def test_a_gate_that_is_forced_is_seen_so(name):
    layer, x = made(name), drawn(3, 6, 2)
    maps = {"lstm": "kernel", "gru": "kernel"}
    with torch.no_grad():  # weights of 0: every gate is half open, whatever is read
        for p in layer.parameters():
            p.zero_()
    half = gates(layer, x)
    assert all(gate.mean == pytest.approx(0.5) and gate.saturated == 0 for gate in half.gates)
    if name not in ("lecture_lstm", "lecture_gru"):
        with torch.no_grad():
            places = {"lstm": slice(3, 6), "gru": slice(3, 6), "min_gru": slice(0, 3), "min_lstm": slice(0, 3)}
            bias = layer.kernel.bias_ih_l0 if name in maps else layer.get_parameter(
                "gate_value.bias" if name == "min_gru" else "gates_value.bias")  # fmt: skip
            bias[places[name]] = 9.0
        gate = gates(layer, x).of(type(layer).__name__, "forget" if name == "min_lstm" else "keep")
        assert (gate.unit_open == 1).all() and (gate.unit_shut == 0).all() and (gate.open == 1).all()
        assert gate.mean == pytest.approx(sigmoid(9.0))


def test_gates_give_the_states_back():
    x = drawn(2, 5, 2)
    layer = MinLSTM(2, 3).double().requires_grad_(False)
    keep = gates(layer, x[:1]).of("MinLSTM", "keep")
    f, i, _ = layer.gates_value(x[:1]).chunk(3, -1)
    u = f.sigmoid() / (f.sigmoid() + i.sigmoid())
    assert keep.mean == pytest.approx(u.mean(-1)[0].detach().numpy())
    layer = made("lecture_gru").requires_grad_(False)
    view = gates(layer, x[:1])
    assert all(tick == round(tick) for tick in view.plot().axes[0].get_xticks())  # steps
    _, (z,) = layer(x[:1, :2])
    both = torch.cat([z, x[:1, 2]], -1)
    assert view.of("LectureGRU", "keep").mean[2] == pytest.approx(float(layer.keep(both).sigmoid().mean()))
    assert view.of("LectureGRU", "reset").mean[2] == pytest.approx(float(layer.reset(both).sigmoid().mean()))
    layer = made("lecture_lstm").requires_grad_(False)
    _, (h, _) = layer(x[:1, :2])
    both = torch.cat([h, x[:1, 2]], -1)
    for name, map_ in (("keep", layer.forget), ("write", layer.write), ("show", layer.show)):
        assert gates(layer, x[:1]).of("LectureLSTM", name).mean[2] == pytest.approx(float(map_(both).sigmoid().mean()))


# ── spectrum ──


@pytest.mark.parametrize("name", RECURRENT)
def test_the_spectrum_of_states_is_that_of_numpy(name):
    layer, x = made(name), drawn(3, 20, 2)
    [found] = unchanged(layer, lambda net: state_spectrum(net, x)).layers
    states = [flat(layer(x[:, : t + 1])[1]) for t in range(20)]
    states = torch.cat(states).detach().numpy()
    c = np.sort(np.linalg.eigvalsh(np.cov(states.T, bias=True)))[::-1]
    assert found.variance == pytest.approx(c, abs=1e-12)
    assert found.dimension == pytest.approx(c.sum() ** 2 / (c**2).sum())
    assert found.step.shape == (3, states.shape[1], 2)


def test_eigenvalues_of_a_turn():
    layer = Elman(1, 2, bias=False).double()
    angle, size = 0.7, 0.9
    turn = size * torch.tensor([[math.cos(angle), -math.sin(angle)], [math.sin(angle), math.cos(angle)]])
    with torch.no_grad():
        layer.kernel.weight_hh_l0.copy_(turn)
    [found] = state_spectrum(layer, torch.zeros(1, 3, 1)).layers  # at 0 the slope of tanh is 1: the step is the matrix
    expected = [[size * math.cos(angle), sign * size * math.sin(angle)] for sign in (-1, 1)]
    for pairs in (found.matrices["recurrent"], found.step[0]):
        assert sorted(pairs.tolist(), key=lambda pair: pair[1]) == [pytest.approx(pair) for pair in expected]
    assert found.radius["recurrent"] == pytest.approx(size) and found.dimension == 0
    lru = LRU(2, 3).double()
    [found] = state_spectrum(lru, drawn(2, 9, 2)).layers
    assert found.matrices["λ"] == pytest.approx(torch.view_as_real(lru.eigenvalues).numpy())
    sizes = np.hypot(*found.step[0].T)
    assert np.sort(sizes)[::2] == pytest.approx(np.sort(lru.eigenvalues.abs().numpy()))  # each with its conjugate


def test_each_kind_names_its_matrices():
    x = torch.zeros(1, 4, 2)
    names = {name: set(state_spectrum(made(name), x.double()).layers[0].matrices) for name in RECURRENT}
    four = {"write", "keep", "candidate", "show"}
    assert names["lstm"] == names["lecture_lstm"] == four and names["deep_transition"] == {"step"}
    assert names["gru"] == names["lecture_gru"] == {"reset", "keep", "candidate"}
    assert names["min_gru"] == names["min_lstm"] == set()
    layer = made("lecture_gru")
    [found] = state_spectrum(layer, x.double()).layers
    own = np.linalg.eigvals(layer.candidate.weight[:, :3].detach().numpy())
    assert sorted(found.matrices["candidate"][:, 0]) == pytest.approx(sorted(own.real))


# ── units ──


def test_extremes_are_those_of_a_search():
    net = Bidirectional(GRU(1, 4), GRU(1, 4)).double()
    x = drawn(3, 40, 1)
    for layer, half in (("ahead", slice(0, 4)), ("back", slice(4, 8))):
        view = unchanged(net, lambda model, layer=layer: unit_responses(model, x, 2, layer=layer, top=4, around=6))
        values = net(x)[0][..., half][..., 2].detach().numpy()
        assert view.values == pytest.approx(values)  # of the one that reads back too, in the order of the row
        for found, sign in ((view.highest, 1), (view.lowest, -1)):
            taken = []
            for place in np.argsort(-sign * values, axis=None, kind="stable"):
                row, step = divmod(int(place), 40)
                if all(row != r or abs(step - s) >= 6 for r, s in taken):
                    taken.append((row, step))
            assert [(one.row, one.step) for one in found] == taken[:4]
            assert [one.value for one in found] == [pytest.approx(values[at]) for at in taken[:4]]


def test_the_unit_that_differs_most_is_taken():
    net = GRU(1, 4).double()
    x = drawn(2, 30, 1)
    view = unit_responses(net, x)
    assert view.unit == int(net(x)[0].detach().std((0, 1), correction=0).argmax()) and view.layer == "GRU"


def test_words_are_those_of_the_text(tmp_path):
    (tmp_path / "rhyme.txt").write_text("a sailor went to sea sea sea to see what he could see\n" * 30)
    text = ll.data.text(str(tmp_path / "rhyme.txt"), kind="characters", length=32, cache=False)
    net = ll.models.build("Recurrent", text, text.target.dim, cell="gru", dim=8)
    view = unchanged(net, lambda model: unit_responses(model, text, top=2, around=5))
    for one in view.highest + view.lowest:
        said = view.words[one.row][max(0, one.step - 4) : one.step + 1]
        assert one.words == said and str(one) == "".join(said) and len(one.words) <= 5
    assert view.highest[0].value == np.nanmax(view.values) and view.lowest[0].value == np.nanmin(view.values)


def test_encoder_and_decoder_have_words_of_their_own():
    net = EncoderDecoder.tiny()
    x = torch.randint(1, 11, (2, *net.input_shape))
    for layer, part in (
        ("encoder.0.branch.ahead", x[:, : net.len_source]),
        ("decoder.0.branch", x[:, net.len_source :]),
    ):
        view = unit_responses(net, x, layer=layer)
        assert view.words == tuple(tuple(map(str, row)) for row in part.tolist())
    assert fading(net, x).names == ("encoder.0.branch.ahead", "encoder.0.branch.back", "decoder.0.branch")


def test_a_series_with_channels_first_is_turned():
    net = Recurrent(3, channels=2, channels_first=True, dim=4)
    x = torch.randn(2, 2, 20)
    view = unit_responses(net, x)
    assert view.x.shape == (2, 20, 2) and view.x[0, :, 1] == pytest.approx(x[0, 1].numpy())
