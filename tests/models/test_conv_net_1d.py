"""The network for series: the textbook's sizes and counts, its dense twin, and series of several channels."""

import pytest
import torch
from torch import nn

from leadline.errors import UnknownName, UserError
from leadline.models import ConvNet1D, dense_twin
from leadline.testing import check_gradients, check_model

BOOK = {"widths": (15, 15, 15), "strides": (2, 2, 2), "kernel": 3, "padding": "valid", "norm": "none", "p_drop": 0.0}


def count(model):
    return sum(p.numel() for p in model.parameters())


def test_the_textbook_network_has_its_sizes_and_2050_parameters():
    net = ConvNet1D(40, 10, **BOOK)
    assert net.sizes == [(15, 19), (15, 9), (15, 4)] and count(net) == 2050 == 60 + 690 + 690 + 610
    assert [tuple(net.layers[:k](torch.zeros(2, 1, 40)).shape[1:]) for k in (1, 2, 3)] == net.sizes


def test_its_dense_twin_has_59065():
    twin = dense_twin(ConvNet1D(40, 10, **BOOK))
    assert twin.hidden == (285, 135, 60) and count(twin) == 59065 and twin.activation == "relu" and twin.p_drop == 0
    full = dense_twin(ConvNet1D(10, 2, channels=3, widths=(4,), strides=(2,), norm="batch", p_drop=0.3))
    assert full(torch.zeros(2, 3, 10)).shape == (2, 2) and full.norm == "batch" and full.p_drop == 0.3
    with pytest.raises(UserError, match="a norm that MLP has"):
        dense_twin(ConvNet1D(10, 2, norm="instance"))


def test_it_is_the_sum_over_the_kernel_that_the_equation_writes():
    """Eq. 2 by loops, with zeros outside, for a stride and a padding."""
    torch.manual_seed(0)
    net = ConvNet1D(7, 2, channels=2, widths=(3,), strides=(2,), kernel=3, norm="none", p_drop=0.0).double()
    x = torch.randn(1, 2, 7, dtype=torch.float64)
    conv = net.layers[0].conv
    z = torch.zeros(3, 4, dtype=torch.float64)
    for c in range(3):
        for i in range(4):
            z[c, i] = conv.bias[c]
            for other in range(2):
                for j in range(3):
                    at = 2 * i + j - 1
                    if 0 <= at < 7:
                        z[c, i] += conv.weight[c, other, j] * x[0, other, at]
    wanted = net.head.weight @ z.relu().flatten() + net.head.bias
    torch.testing.assert_close(net(x)[0], wanted)


@pytest.mark.parametrize("norm", ["none", "batch", "group", "instance"])
def test_it_keeps_the_contract_with_any_options(norm):
    check_model(ConvNet1D(9, 2, channels=2, widths=(4, 4), strides=(1, 2), norm=norm), torch.randn(4, 2, 9))


def test_a_flat_row_and_one_channel_are_the_same():
    net, x = ConvNet1D(40, 10).eval(), torch.randn(3, 40)
    assert torch.equal(net(x), net(x[:, None]))


def test_its_derivatives_are_right():
    net = ConvNet1D(8, 2, widths=(3, 4), strides=(1, 2), kernel=3)
    check_gradients(net, torch.randn(3, 8, generator=torch.Generator().manual_seed(4)), most=20)


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        ({"strides": (2, 2)}, UserError, "every layer must have a width and a stride"),
        ({"widths": (3, 0, 3)}, UserError, r"widths\[1\] must be a whole number"),
        ({"padding": "vlaid"}, UnknownName, "Did you mean valid"),
        ({"norm": "bach"}, UnknownName, "Did you mean batch"),
        ({"dim_input": 6}, UserError, "long enough for layer 2"),
        ({"p_drop": 1.0}, UserError, "p_drop must be a number"),
    ],
)
def test_options_that_make_no_sense_are_refused_by_name(change, error, message):
    with pytest.raises(error, match=message):
        ConvNet1D(**{"dim_input": 40, "dim_output": 10, **BOOK, **change})


def test_layers_are_plain_modules_in_order():
    net = ConvNet1D(40, 10, **BOOK)
    chain = nn.Sequential(*net.layers, nn.Flatten(), net.head)
    x = torch.randn(2, 1, 40)
    assert torch.equal(chain(x), net(x))
