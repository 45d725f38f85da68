"""Stacked hourglasses: sizes, links that are added, outputs that are averaged, and a point that is found."""

import pytest
import torch
import torch.nn.functional as F

from leadline.errors import UnknownName, UserError
from leadline.models import Hourglass
from leadline.testing import check_model


@pytest.mark.parametrize(
    "options", [{"output": "last"}, {"norm": "group", "stride": 1}, {"num_stacks": 3, "stride": 2}]
)
def test_it_keeps_the_contract(options):
    check_model(Hourglass(2, 3, **{"width": 4, "depth": 1, "num_stacks": 2, **options}), torch.randn(3, 2, 12, 10))


@pytest.mark.parametrize("stride", [1, 2, 4])
@pytest.mark.parametrize("size", [(32, 32), (30, 21)])
def test_a_heat_map_for_each_point_of_a_part_of_the_size(stride, size):
    net = Hourglass(1, 5, width=4, depth=2, stride=stride)
    assert net(torch.zeros(2, 1, *size)).shape == (2, 5, *(-(-side // stride) for side in size))


def test_a_glass_written_out():
    torch.manual_seed(0)
    glass = Hourglass(1, 1, width=4, depth=1, norm="none").stacks[0].glass
    h = torch.randn(2, 4, 6, 8)
    low = glass.back(glass.inner(glass.down(F.max_pool2d(h, 2))))
    wanted = glass.link(h) + low.repeat_interleave(2, 2).repeat_interleave(2, 3)
    assert torch.allclose(glass(h), wanted, atol=1e-6)


def test_the_mean_of_all_stacks_or_the_last_one():
    torch.manual_seed(0)
    net, x = Hourglass(1, 2, width=4, num_stacks=3, depth=1, norm="none"), torch.randn(2, 1, 16, 16)
    maps = []
    for stack in net.stacks:
        stack.register_forward_hook(lambda module, given, found: maps.append(found[1]))
    assert torch.allclose(net(x), sum(maps[:3]) / 3, atol=1e-6)
    net.output = "last"
    assert torch.equal(net(x), maps[-1])


def test_a_later_stack_reads_what_an_earlier_one_believed():
    torch.manual_seed(0)
    net, x = Hourglass(1, 2, width=4, num_stacks=2, depth=1, output="last", norm="none"), torch.randn(1, 1, 16, 16)
    before = net(x)
    with torch.no_grad():
        net.stacks[0].head.bias.add_(1.0)
    assert not torch.allclose(net(x), before)


def test_it_finds_a_point():
    generator = torch.Generator().manual_seed(0)
    at = torch.randint(0, 8, (96, 2), generator=generator)
    x = 0.1 * torch.randn(96, 1, 16, 16, generator=generator)
    y = torch.zeros(96, 1, 8, 8)
    for row, (r, c) in enumerate(at.tolist()):
        x[row, 0, 2 * r : 2 * r + 2, 2 * c : 2 * c + 2] += torch.tensor([[1.0, -1.0], [-1.0, 1.0]])
        y[row, 0, r, c] = 10
    torch.manual_seed(0)
    net = Hourglass(1, 1, width=8, num_stacks=2, depth=2, stride=2)
    rule = torch.optim.Adam(net.parameters(), 1e-2)
    for _ in range(40):
        rule.zero_grad()
        (net(x[:80]) - y[:80]).square().mean().backward()
        rule.step()
    with torch.no_grad():
        found = net.eval()(x[80:]).flatten(1).argmax(1)
    assert float((found == at[80:, 0] * 8 + at[80:, 1]).float().mean()) > 0.8


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        ({"stride": 3}, UserError, "stride must be 1, 2 or 4"),
        ({"output": "men"}, UnknownName, "Did you mean mean"),
        ({"num_stacks": 0}, UserError, "Hourglass: num_stacks must be a whole number"),
    ],
)
def test_options_that_make_no_sense_are_refused_by_name(change, error, message):
    with pytest.raises(error, match=message):
        Hourglass(**{"channels": 3, "dim_output": 2, **change})
