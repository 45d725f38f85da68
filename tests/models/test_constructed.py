"""Networks that are computed: exact where they promise to be, with as many pieces as they promise."""

import itertools

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from leadline.errors import UserError
from leadline.models import Shallow, compose, folding, fuse, identity, interpolant, narrow, orthants, sawtooth


def pieces(network, low=0.0, high=1.0, count=40_001):
    """Linear pieces on [low, high], by slopes between points of a grid that no joint lies on."""
    step = (high - low) / count
    x = low + step * (torch.arange(count).double() + 0.37)
    slope = network(x[:, None]).flatten().detach().diff() / step
    # a cell with a joint inside has a slope of its own: what counts is runs of at least two equal slopes
    same = (slope.diff().abs() < 1e-6 * slope.abs().max()).tolist()
    return sum(1 for equal, _ in itertools.groupby(same) if equal)


points = st.lists(
    st.tuples(st.integers(-1000, 1000).map(lambda v: v / 16), st.floats(-100, 100)),
    min_size=2, max_size=30, unique_by=lambda p: p[0],
)  # fmt: skip


@settings(max_examples=60, deadline=None)
@given(points)
def test_an_interpolant_meets_its_points(drawn):
    x, y = zip(*drawn, strict=True)
    net = interpolant(x, y)
    assert net.num_units == len(x) - 1
    got = net(torch.tensor(x, dtype=torch.float64)[:, None]).flatten().detach()
    slope = max(abs(a) for a in net.outer.weight.flatten().tolist())
    assert float((got - torch.tensor(y, dtype=torch.float64)).abs().max()) <= 1e-12 * len(x) * (100 + slope * 150)


def test_an_interpolant_is_straight_between_flat_before_and_straight_on_after():
    net = interpolant(torch.tensor([3.0, 0.0, 1.0]), torch.tensor([2.0, 1.0, 4.0]))  # any order
    x = torch.tensor([[-5.0], [0.5], [2.0], [4.0]]).double()
    assert net(x).flatten().tolist() == [1.0, 2.5, 3.0, 1.0]
    assert pieces(interpolant([0, 1 / 3, 2 / 3, 1], [0, 1, 0, 1])) == 3


def test_the_error_of_an_interpolant_falls_with_the_square_of_the_pieces():
    x = torch.linspace(0, 1, 5001).double()
    errors = []
    for count in (4, 8, 16, 32):
        knots = torch.linspace(0, 1, count + 1).double()
        net = interpolant(knots, (6 * knots).sin())
        errors.append(float((net(x[:, None]).flatten() - (6 * x).sin()).abs().max().detach()))
    for coarse, fine in itertools.pairwise(errors):
        assert coarse / fine == pytest.approx(4, rel=0.3)


@pytest.mark.parametrize(("low", "high"), [(0.0, 1.0), (-3.0, -1.0), (-1e4, 1e4)])
def test_the_identity_is_exact_on_its_interval(low, high):
    net = identity(low, high)
    assert net.num_units == 3
    x = torch.linspace(low, high, 101).double()[:, None]
    torch.testing.assert_close(net(x), x, rtol=1e-15, atol=1e-12 * max(1, abs(low)))
    assert float(net(torch.tensor([[low - 5]]).double()).detach()) == low


def test_the_sawtooth_of_three_units_has_the_textbooks_weights():
    net = sawtooth(3)
    assert [net[f"phi{d}"] for d in range(4)] == [4, -12, 9, -6]
    assert [net[f"theta{d}1"] for d in (1, 2, 3)] == [1, 1, -1]
    joints = [-net[f"theta{d}0"] / net[f"theta{d}1"] for d in (1, 2, 3)]
    assert joints == pytest.approx([1 / 6, 2 / 6, 4 / 6])
    assert [sawtooth(4)[f"phi{d}"] for d in range(5)] == [4, -16, 12, -8, 8]


@pytest.mark.parametrize("units", [3, 4, 5, 6, 9])
def test_a_sawtooth_runs_between_0_and_1_in_every_piece(units):
    net = sawtooth(units)
    joints = sorted(-net[f"theta{d}0"] / net[f"theta{d}1"] for d in range(1, units + 1))
    x = torch.tensor([0.0, *joints, 1.0], dtype=torch.float64)
    wanted = torch.arange(units + 2).double() % 2
    torch.testing.assert_close(net(x[:, None]).flatten(), wanted, rtol=0, atol=1e-12)
    assert pieces(net) == units + 1


@pytest.mark.parametrize(("units", "copies", "regions"), [(3, 1, 4), (3, 2, 16), (3, 3, 64), (3, 4, 256), (4, 3, 125)])
def test_copies_of_a_sawtooth_multiply_its_pieces(units, copies, regions):
    net = compose(*[sawtooth(units)] * copies)
    assert pieces(net) == regions
    assert pieces(fuse(net).eval()) == regions


def test_two_zigzags_of_three_make_nine():
    zigzag = interpolant([0, 1 / 3, 2 / 3, 1], [0, 1, 0, 1])
    assert [zigzag[f"phi{d}"] for d in range(4)] == pytest.approx([0, 3, -6, 6])
    assert pieces(compose(zigzag, zigzag)) == 9


@pytest.mark.parametrize("dim", [1, 2, 3])
def test_folding_lays_every_box_over_the_others(dim):
    net = folding(dim, 3)
    assert net.num_units == 3 * dim
    one = sawtooth(3)
    x = torch.rand(50, dim, generator=torch.Generator().manual_seed(0)).double()
    torch.testing.assert_close(net(x), torch.cat([one(x[:, i : i + 1]) for i in range(dim)], 1))
    shared = torch.tensor(list(itertools.product([1 / 12, 3 / 12, 6 / 12, 10 / 12], repeat=dim))).double()
    torch.testing.assert_close(net(shared), torch.full_like(shared, 0.5), rtol=0, atol=1e-6)  # 4^dim points, one image


@pytest.mark.parametrize("dim", [1, 2, 3, 5])
def test_orthants_tells_all_signs_apart(dim):
    net = orthants(dim)
    x = torch.tensor(list(itertools.product([-1.0, 1.0], repeat=dim))).double()
    assert len({tuple(p) for p in (net.inner(x) > 0).int().tolist()}) == 2**dim


def test_they_leave_torchs_random_state_alone():
    torch.manual_seed(0)
    sawtooth(3), orthants(2), identity(0, 1), folding(2), interpolant([0, 1], [0, 1]), fuse(compose(sawtooth(3)))
    drawn = torch.rand(1)
    torch.manual_seed(0)
    assert torch.equal(drawn, torch.rand(1))


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda: sawtooth(2), "at least 3 units. Got num_units=2: no weights give 3 pieces"),
        (lambda: sawtooth(0), "num_units must be a whole number of at least 1"),
        (lambda: identity(1.0, 1.0), "low must lie below high"),
        (lambda: interpolant([0.0, 0.0], [1.0, 2.0]), "no two may share an x"),
        (lambda: interpolant([0.0, float("nan")], [1.0, 2.0]), "must be finite"),
        (lambda: interpolant([0.0], [1.0]), "at least 2 points"),
        (lambda: interpolant([0.0, 1.0], [1.0]), "two lists of equal length"),
        (lambda: orthants(0), "dim_input must be a whole number"),
    ],
)
def test_what_cannot_be_built_is_said(make, said):
    with pytest.raises(UserError, match=said):
        make()


@pytest.mark.parametrize(("inputs", "units", "outputs", "low"), [(1, 1, 1, 0.0), (1, 7, 1, -2.0), (3, 12, 2, -1.5)])
def test_a_narrow_network_is_the_shallow_one_on_its_side(inputs, units, outputs, low):
    torch.manual_seed(0)
    net, x = Shallow(inputs, units, outputs).double(), low + 4 * torch.rand(200, inputs).double()
    deep = narrow(net, low)
    assert deep.hidden == (inputs + 2 * outputs + 1,) * units
    torch.testing.assert_close(deep(x), net(x), rtol=0, atol=1e-12)
    assert units == 1 or not torch.allclose(deep(x - 10), net(x - 10))  # only the first layer sees below `low`


def test_narrow_takes_shallow_relu_networks():
    with pytest.raises(UserError, match="needs a shallow ReLU network. Got a Shallow of tanh"):
        narrow(Shallow(1, 3, 1, activation="tanh"), 0.0)
    with pytest.raises(UserError, match="Got a Sequential"):
        narrow(torch.nn.Sequential(), 0.0)
