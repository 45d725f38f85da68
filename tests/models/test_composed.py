"""Composition, and its fusion into one deep network."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

import leadline as ll
from leadline.errors import UserError
from leadline.models import MLP, Composed, Linear, Shallow, compose, fuse, kind
from leadline.models.chain import chain
from leadline.reference import networks as twin
from leadline.reference.activations import ACTIVATIONS

widths = st.integers(1, 5)
names = st.sampled_from(["relu", "tanh", "leaky_relu(0.3)", "prelu", "swish", "elu(0.5)"])


@settings(max_examples=40, deadline=None)
@given(widths, st.lists(widths, min_size=1, max_size=4), widths, widths, names, st.integers(0, 99))
def test_fusion_keeps_the_function(dim_input, hidden, dim_output, between, name, seed):
    torch.manual_seed(seed)
    net = Composed(dim_input, hidden, dim_output, dim_between=between, activation=name).double()
    with torch.no_grad():
        for a in chain(net).activations:
            for p in a.parameters():
                p.add_(0.1 * torch.randn(()))
    x = torch.randn(20, dim_input).double()
    one = fuse(net)
    assert isinstance(one, MLP)
    assert one.hidden == tuple(hidden)
    torch.testing.assert_close(one(x), net(x), rtol=1e-9, atol=1e-9)
    for layer in one.layers[1:]:
        assert int(torch.linalg.matrix_rank(layer.map.weight)) <= between


def test_the_merged_block_is_the_twins_outer_product():
    torch.manual_seed(0)
    first, second = Shallow(1, 3, 1).double(), Shallow(1, 4, 1).double()
    one = fuse(compose(first, second))
    phi = [first[f"phi{d}"] for d in range(4)]
    theta = [[second[f"theta{d}0"], second[f"theta{d}1"]] for d in range(1, 5)]
    offsets, slopes = twin.merged(phi, theta)
    torch.testing.assert_close(one.layers[1].map.bias.tolist(), offsets)
    torch.testing.assert_close(one.layers[1].map.weight.tolist(), slopes)
    assert int(torch.linalg.matrix_rank(one.layers[1].map.weight)) == 1


def test_it_is_one_network_after_the_other_and_the_twins_deep_net():
    torch.manual_seed(0)
    nets = [Shallow(2, 3, 1), Shallow(1, 4, 1), Shallow(1, 2, 3)]
    x = torch.randn(9, 2)
    net = compose(*nets)
    torch.testing.assert_close(net(x), nets[2](nets[1](nets[0](x))))
    maps = [(m.bias.tolist(), m.weight.tolist()) for m in chain(fuse(net)).maps]
    for row, out in zip(x.tolist(), net(x).tolist(), strict=True):
        assert out == pytest.approx(twin.deep(maps, row, ACTIVATIONS["relu"]), rel=1e-4, abs=1e-5)


def test_a_whole_family_of_deep_networks_is_wider():
    """The hidden matrix of a composition has rank one; a free one has not: 9 slopes against 6."""
    free = MLP(1, (3, 3), 1, activation="relu", p_drop=0.0)
    assert int(torch.linalg.matrix_rank(free.layers[1].map.weight)) == 3


def test_deep_chains_are_fused_too():
    torch.manual_seed(0)
    first = [nn.Flatten(), nn.Linear(4, 3, bias=False), nn.Linear(3, 5), nn.ReLU(inplace=True), nn.Dropout(0.5)]
    second = [nn.Linear(5, 2), nn.Identity(), nn.Linear(2, 6, bias=False), nn.Linear(6, 4, bias=False), nn.ReLU()]
    net = nn.Sequential(*first, nn.Sequential(*second), Linear(4, 1)).double().eval()
    one, x = fuse(net), torch.randn(7, 2, 2).double()
    assert one.hidden == (5, 4)
    assert not one.training
    torch.testing.assert_close(one(x), net(x))
    assert fuse(nn.Sequential(nn.Linear(3, 4), nn.Linear(4, 2))).hidden == ()
    tanh = nn.Sequential(Shallow(2, 3, 2, activation="tanh"), MLP(2, (4, 5), 1, activation="tanh", p_drop=0.0))
    torch.testing.assert_close(fuse(tanh)(x.float()[:, 0]), tanh(x.float()[:, 0]))


def test_the_networks_are_copied():
    net = Shallow(1, 3, 1)
    both = compose(net, net)
    net["phi0"] = 99.0
    assert both.networks[0].outer.bias.item() != 99.0


def test_a_composition_trains_and_is_read_back(tmp_path):
    torch.manual_seed(0)
    data = ll.data.moons(num=200)
    model = Composed(2, (8, 8), 1, dim_between=2)
    run = ll.fit(model, data, epochs=60, lr=0.02, folder=tmp_path / "run", progress=False, with_report=False)
    assert run.evaluate("test")["accuracy"] > 0.85
    back = ll.load(tmp_path / "run")
    assert torch.equal(back.predict(data.test.x).mode, run.predict(data.test.x).mode)
    x = data.inputs.encode(data.test.x)
    torch.testing.assert_close(fuse(run.model)(x), run.model(x), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda: compose(), "compose needs networks"),
        (lambda: compose(Shallow(1, 2, 2), Shallow(1, 2, 1)), "2 outputs of network 1 and 1 inputs of network 2"),
        (lambda: compose(Shallow(1, 2, 1), Shallow(1, 2, 1, "tanh")), "one activation. Got relu and tanh"),
        (lambda: compose(MLP(1, (2, 2), 1)), "one hidden layer. Got 2 in network 1"),
        (lambda: compose(Shallow(1, 2, 2), Shallow(2, 2, 3), Shallow(3, 2, 1)), r"equally many values. Got \[2, 3\]"),
        (lambda: fuse(MLP(2, (3, 3), 1, residual=True)), "Got a skip in MLP"),
        (lambda: fuse(MLP(2, (3, 3), 1, norm="batch")), "Got a normalisation in MLP"),
        (lambda: fuse(nn.Sequential(nn.Linear(2, 2), nn.ReLU())), "no affine map at its end"),
        (lambda: fuse(nn.Sequential(nn.Tanh(), nn.Linear(2, 2))), "before the first map"),
        (lambda: fuse(nn.Conv1d(2, 2, 1)), "Got a Conv1d"),
        (lambda: fuse(MLP(2, (3,), 1, activation="crelu")), "keep the number of units. Got crelu"),
        (lambda: fuse(nn.Sequential(nn.Linear(2, 2), nn.GELU("tanh"), nn.Linear(2, 2))), "Got None"),
        (lambda: Composed(2, ()), "Composed: hidden must be a list of widths"),
        (lambda: Composed(2, 3), "Composed: hidden must be a list of widths"),
        (lambda: Composed(2, (3, 0)), r"hidden\[1\] must be a whole number"),
    ],
)
def test_what_cannot_be_joined_is_said(make, said):
    with pytest.raises(UserError, match=said):
        make()


def test_kinds_of_networks():
    shallow, deep = kind(Shallow(1, 3, 1)), kind(MLP(3, (4, 2, 3), 2, norm="batch", residual=True))
    assert (shallow.shallow, shallow.deep, shallow.mlp, shallow.depth) == (True, False, True, 1)
    assert (deep.shallow, deep.deep, deep.mlp, deep.depth, deep.width, deep.capacity) == (False, True, True, 3, 4, 9)
    assert deep.feed_forward
    assert deep.fully_connected
    assert kind(Composed(1, (3, 4), 1)).hidden == kind(fuse(Composed(1, (3, 4), 1))).hidden == (3, 4)
    line = kind(Linear(3, 2))
    assert not (line.shallow or line.deep or line.mlp)
    assert line.width == 0
    loop = kind(nn.Sequential(nn.GRU(3, 4)))
    assert not (loop.feed_forward or loop.mlp)
    with pytest.raises(UserError, match="kind knows fully connected and recurrent networks"):
        kind(nn.Conv2d(1, 2, 3))
