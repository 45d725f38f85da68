"""What changes the weights and not the function."""

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from leadline.errors import UserError
from leadline.models import MLP, Composed, Linear, Shallow, flip, fold, permute, rescale
from leadline.models.chain import chain

hidden = st.lists(st.integers(1, 6), min_size=1, max_size=3)
seeds = st.integers(0, 999)


def network(widths, name, seed):
    torch.manual_seed(seed)
    return MLP(3, widths, 2, activation=name, p_drop=0.0).double()


def same(first, second, x=None):
    x = torch.randn(20, 3).double() if x is None else x
    torch.testing.assert_close(first(x), second(x), rtol=1e-9, atol=1e-9)


@settings(max_examples=40, deadline=None)
@given(hidden, st.sampled_from(["relu", "tanh", "prelu", "swish", "rect", "gelu"]), seeds)
def test_units_may_stand_in_any_order(widths, name, seed):
    net = network(widths, name, seed)
    moved = net
    for layer, width in enumerate(widths):
        moved = permute(moved, layer, torch.randperm(width))
    same(moved, net)


@settings(max_examples=40, deadline=None)
@given(hidden, st.sampled_from(["relu", "leaky_relu(0.2)", "prelu", "identity"]), seeds)
def test_units_may_have_any_scale(widths, name, seed):
    net = network(widths, name, seed)
    moved = net
    for layer, width in enumerate(widths):
        moved = rescale(moved, layer, torch.exp(3 * torch.randn(width)))
    same(moved, net)
    assert not torch.allclose(moved.head.weight, net.head.weight)


@settings(max_examples=30, deadline=None)
@given(hidden, st.sampled_from(["tanh", "sin", "identity"]), seeds)
def test_units_of_an_odd_activation_may_have_either_sign(widths, name, seed):
    net = network(widths, name, seed)
    units = torch.arange(widths[0])[torch.rand(widths[0]) < 0.5].tolist()
    moved = flip(net, 0, units)
    same(moved, net)
    for unit in range(widths[0]):
        assert torch.equal(moved.layers[0].map.weight[unit] == net.layers[0].map.weight[unit],
                           torch.full((3,), unit not in units))  # fmt: skip


@settings(max_examples=30, deadline=None)
@given(hidden, st.booleans(), st.sampled_from(["gelu", "prelu", "crelu"]), seeds)
def test_batch_normalisation_folds_into_the_maps(widths, residual, name, seed):
    torch.manual_seed(seed)
    net = MLP(3, widths, 2, activation=name, norm="batch", residual=residual, p_drop=0.3).double()
    with torch.no_grad():
        for layer in net.layers:
            for p in (*layer.norm.parameters(), layer.norm.running_mean, *layer.activation.parameters()):
                p.add_(torch.randn_like(p))
            layer.norm.running_var.uniform_(0.1, 3.0)
    before = {key: value.clone() for key, value in net.state_dict().items()}
    folded = fold(net.eval())
    same(folded, net)
    assert (folded.norm, folded.p_drop, folded.training) == ("none", 0.3, False)
    assert all(torch.equal(value, before[key]) for key, value in net.state_dict().items())


def test_fold_keeps_float32():
    net = MLP(3, (4,), 2, norm="batch").eval()
    assert fold(net).head.weight.dtype == net.layers[0].map.weight.dtype == torch.float32
    torch.testing.assert_close(fold(net)(torch.ones(2, 3)), net(torch.ones(2, 3)))


def test_the_given_network_stays_as_it_is():
    net = Shallow(3, 4, 1)
    before = net.values
    permute(net, 0, [3, 2, 1, 0]), rescale(net, 0, 2.0)
    assert net.values == before


def test_they_work_on_anything_that_is_a_chain():
    x = torch.randn(9, 3)
    for net in (nn.Sequential(nn.Linear(3, 4, bias=False), nn.ReLU(), nn.Linear(4, 2)), Composed(3, (4, 4), 1)):
        torch.testing.assert_close(rescale(permute(net, 0, [1, 0, 3, 2]), 0, 0.5)(x), net(x))


def test_slopes_alone_move_the_joints():
    """Scaling slopes in and out, without the offsets, keeps the slopes of the pieces and moves their joints."""
    net = Shallow(1, 3, 1).double()
    slopes_only = rescale(net, 0, 4.0)
    slopes_only.set({f"theta{d}0": net[f"theta{d}0"] for d in (1, 2, 3)})
    for d in (1, 2, 3):
        joint, moved = (-n[f"theta{d}0"] / n[f"theta{d}1"] for n in (net, slopes_only))
        assert moved == pytest.approx(joint / 4)
        assert slopes_only[f"theta{d}1"] * slopes_only[f"phi{d}"] == pytest.approx(net[f"theta{d}1"] * net[f"phi{d}"])


def test_the_rescaling_law_of_two_layers():
    """ReLU[b1 + l1 W1 ReLU[b0 + l0 W0 x]] = l0 l1 ReLU[b1 / (l0 l1) + W1 ReLU[b0 / l0 + W0 x]], both l above 0."""
    net, (l0, l1) = network((4, 5), "relu", 0), (0.3, 7.0)
    moved = rescale(rescale(net, 0, 1 / l0), 1, 1 / (l0 * l1))
    first, second, _ = chain(moved).maps
    old_first, old_second, old_head = chain(net).maps
    torch.testing.assert_close(first.weight, old_first.weight / l0)
    torch.testing.assert_close(second.weight, old_second.weight / l1)
    torch.testing.assert_close(second.bias, old_second.bias / (l0 * l1))
    torch.testing.assert_close(moved.head.weight, old_head.weight * l0 * l1)
    same(moved, net)


def test_a_minimum_is_never_alone():
    """The gradient at a rescaled minimum is 0 again, and there are D! orders of D units."""
    net, x = network((3,), "relu", 1), torch.randn(30, 3).double()
    y = net(x).detach()
    seen = set()
    for order in torch.cartesian_prod(*[torch.arange(3)] * 3).tolist():
        if len(set(order)) == 3:
            moved = rescale(permute(net, 0, order), 0, 2.5)
            loss = (moved(x) - y).square().mean()
            loss.backward()
            assert all(p.grad.abs().max() < 1e-12 for p in moved.parameters())
            seen.add(tuple(moved.layers[0].map.bias.tolist()))
    assert len(seen) == math.factorial(3)


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda: permute(Shallow(1, 3, 1), 0, [0, 1, 1]), "each of the units 0 … 2 once. Got order=\\[0, 1, 1\\]"),
        (lambda: permute(Shallow(1, 3, 1), 1, [0, 1, 2]), "layer must be a whole number from 0 to 0"),
        (lambda: permute(Linear(3, 2), 0, [0]), "must have a hidden layer"),
        (lambda: permute(MLP(3, (4,), 2, activation="crelu"), 0, [3, 2, 1, 0]), "same activation, one output each"),
        (lambda: permute(nn.Sequential(nn.Linear(1, 2), nn.PReLU(2), nn.Linear(2, 1)), 0, [1, 0]), "same activation"),
        (lambda: permute(MLP(3, (3,), 2, residual=True), 0, [2, 1, 0]), "Got a skip in MLP"),
        (lambda: rescale(Shallow(1, 3, 1, "tanh"), 0, 2.0), r"obey a\[c z\] = c a\[z\]. Got Tanh. It holds for ReLU"),
        (lambda: rescale(Shallow(1, 3, 1), 0, -1.0), "factors must be above 0.* Got -1.0"),
        (lambda: rescale(Shallow(1, 3, 1), 0, [1.0, 2.0]), "one for each of 3 units"),
        (lambda: rescale(Shallow(1, 3, 1), 0, float("inf")), "factors must be above 0"),
        (lambda: flip(Shallow(1, 3, 1), 0, [0]), r"must obey a\[-z\] = -a\[z\]. Got ReLU"),
        (lambda: flip(Shallow(1, 3, 1, "tanh"), 0, [3]), "unit must be a whole number from 0 to 2"),
        (lambda: fold(MLP(3, (3,), 2)), "MLP with batch normalisation. Got norm='none'"),
        (lambda: fold(Shallow(1, 3, 1)), "Got a Shallow"),
    ],
)  # fmt: skip
def test_what_would_change_the_function_is_refused(make, said):
    with pytest.raises(UserError, match=said):
        make()
