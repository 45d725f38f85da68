"""Linear regions against enumeration of every pattern, against known counts, and against the module itself."""

import itertools
import json
import time

import numpy as np
import pytest
import torch
from scipy.optimize import linprog
from torch import nn

from leadline.errors import ShapeError, UserError
from leadline.lens.cells import cells
from leadline.lens.joints import describe, joints
from leadline.lens.regions import patterns, regions
from leadline.models import MLP

WINDOW = 2.0


def random_net(seed, dim, activation=nn.ReLU):
    """1 to 3 layers of 2 to 6 units, of 2 to 4 where there are 3 layers."""
    rng = np.random.default_rng(seed)
    depth = int(rng.integers(1, 4))
    widths = [dim, *rng.integers(2, 7 if depth < 3 else 5, depth).tolist()]
    torch.manual_seed(seed)
    parts = []
    for a, b in itertools.pairwise(widths):
        parts += [nn.Linear(a, b), activation()]
    net = nn.Sequential(*parts, nn.Linear(widths[-1], 2))
    for p in net.parameters():
        nn.init.normal_(p)
    return net


def affine_maps(net):
    return [(m.weight.detach().double().numpy(), m.bias.detach().double().numpy()) for m in net if hasattr(m, "weight")]


def enumerated(net, dim):
    """Every on/off pattern of all units that holds in some ball of the box, by one linear program a pattern.

    What no ball has with fewer units, none has with more; and a ball's centre shows one side of the next unit to be
    there without a program.
    """
    begin = (), np.concatenate([np.eye(dim), -np.eye(dim)]), np.full(2 * dim, WINDOW), np.zeros(dim)
    found = [(*begin, np.eye(dim), np.zeros(dim))]
    for W, b in affine_maps(net)[:-1]:
        longer = []
        for pattern, sides, ends, centre, A, c in found:
            Z, z = W @ A, W @ c + b
            cells = [(pattern, sides, ends, centre)]
            for j in range(len(z)):
                cells = [half for cell in cells for half in halves(*cell, Z[j], z[j])]
            for states, *cell in cells:
                on = np.array(states[len(pattern) :])
                longer.append((states, *cell, Z * on[:, None], z * on))
        found = longer
    return {pattern for pattern, *_ in found}


def halves(states, sides, ends, centre, normal, offset):
    """The halves of a cell on which normal · x + offset is below 0 and above, where they hold a ball."""
    for state in (0, 1):
        sign = 1 - 2 * state
        more, last = np.vstack([sides, sign * normal]), np.append(ends, -sign * offset)
        if sign * (normal @ centre + offset) < -1e-6 * np.linalg.norm(normal):
            yield (*states, state), more, last, centre
        else:
            if sign * offset - np.abs(normal).sum() * WINDOW > 0:
                continue  # nowhere in the box
            radius, new = ball(more, last)
            if radius > 1e-9:
                yield (*states, state), more, last, new


def ball(sides, ends):
    size = np.linalg.norm(sides, axis=1, keepdims=True)
    flat = size[:, 0] < 1e-12
    if (ends[flat] <= 0).any():
        return 0.0, None
    goal = np.append(np.zeros(sides.shape[1]), -1)
    free = [(None, None)] * sides.shape[1] + [(0, None)]
    answer = linprog(goal, np.hstack([sides, size])[~flat], ends[~flat], bounds=free)
    return (answer.x[-1], answer.x[:-1]) if answer.status == 0 else (0.0, None)


@pytest.mark.parametrize("seed", range(100))
def test_one_input_equals_enumeration(seed):
    net = random_net(seed, 1)
    found = joints(net, -WINDOW, WINDOW)
    expected = enumerated(net, 1)
    assert found.count == len(found.x) + 1 == len(expected)
    assert {tuple(row) for row in found.patterns.tolist()} == expected


@pytest.mark.parametrize("seed", range(100, 200))
def test_two_inputs_equal_enumeration(seed):
    net = random_net(seed, 2)
    found = regions(net, ((-2, 2), (-2, 2)))
    expected = enumerated(net, 2)
    assert found.count == len(expected)
    assert {tuple(row) for row in found.patterns.tolist()} == expected
    assert found.areas.sum() == pytest.approx(16) and (found.areas > 0).all()


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("dim", [1, 2, 3])
def test_a_box_of_any_dimension_gives_the_same_regions(seed, dim):
    net = random_net(seed, dim)
    found = cells(net, [-2.0] * dim, [2.0] * dim)
    rows = {tuple(row) for row in found.patterns.tolist()}
    assert len(rows) == found.count
    if dim == 1:
        assert found.count == joints(net, -2.0, 2.0).count
    elif dim == 2:
        assert rows == {tuple(row) for row in regions(net, ((-2, 2), (-2, 2))).patterns.tolist()}
    else:
        few = nn.Sequential(*list(net)[:2], nn.Linear(net[0].out_features, 1))
        assert cells(few, [-2.0] * 3, [2.0] * 3).count == len(enumerated(few, 3))


@pytest.mark.parametrize("activation", [nn.LeakyReLU, nn.PReLU, nn.ReLU6, nn.Hardtanh, nn.Hardsigmoid, nn.Softshrink])
def test_every_activation_of_straight_pieces_is_cut_where_it_bends(activation):
    net = random_net(7, 2, activation)
    found = regions(net, ((-3, 3), (-3, 3)))
    rows = {tuple(row) for row in found.patterns.tolist()}
    assert len(rows) == found.count
    # points drawn at random know no region that the polygons miss
    x = np.random.default_rng(0).uniform(-3, 3, (20_000, 2))
    assert {tuple(row) for row in patterns(net, x).tolist()} <= rows
    middle = torch.tensor(found.centres)
    out = torch.func.functional_call(net, {k: v.double() for k, v in net.state_dict().items()}, (middle,))
    assert np.allclose(out.detach().numpy(), found.values)


def net_of(*layers):
    """A ReLU network of given (weight, bias) pairs."""
    parts = []
    for weight, bias in layers:
        linear = nn.Linear(len(weight[0]), len(weight)).double()
        with torch.no_grad():
            linear.weight.copy_(torch.tensor(weight, dtype=torch.float64))
            linear.bias.copy_(torch.tensor(bias, dtype=torch.float64))
        parts += [linear, nn.ReLU()]
    return nn.Sequential(*parts[:-1])


def test_three_lines_in_general_position_make_seven():
    net = net_of(([[1, 0], [0, 1], [1, 1]], [0, 0, -1]), ([[1, 1, 1]], [0]))
    found = regions(net, ((-3, 3), (-3, 3)))
    assert found.count == 7 and found.pieces == 7


def test_three_lines_through_one_point_make_six_and_two_equal_ones_count_once():
    assert regions(net_of(([[1, 0], [0, 1], [1, 1]], [0, 0, 0]), ([[1, 1, 1]], [0]))).count == 6
    assert regions(net_of(([[1, 2], [2, 4]], [0.3, 0.6]), ([[1, 1]], [0]))).count == 2


@pytest.mark.parametrize("seed", [15, 19, 24, 26, 47])
def test_lines_that_meet_in_one_point_leave_no_slivers(seed):
    """Whole weights: many joints run through the same points, and units are exactly 0 on whole cells."""
    generator = torch.Generator().manual_seed(seed)
    net = nn.Sequential(
        *(m for a, b in ((2, 4), (4, 4), (4, 3)) for m in (nn.Linear(a, b), nn.ReLU())), nn.Linear(3, 1)
    )
    for p in net.parameters():
        p.data = torch.randint(-2, 3, p.shape, generator=generator).float()
    found = regions(net, ((-2, 2), (-2, 2)))
    rows = {tuple(row) for row in found.patterns.tolist()}
    assert found.count == len(rows) and found.areas.min() > 1e-4
    x = np.random.default_rng(0).uniform(-2, 2, (40_000, 2))
    assert {tuple(row) for row in patterns(net, x).tolist()} <= rows


@pytest.mark.parametrize(("dim", "count"), [(1, 2), (2, 4), (3, 8)])
def test_axis_aligned_joints_make_orthants(dim, count):
    net = net_of((np.eye(dim).tolist(), [0.0] * dim), ([[1.0] * dim], [0]))
    assert cells(net, [-1] * dim, [1] * dim).count == count
    if dim == 1:
        assert joints(net).count == count
    if dim == 2:
        assert regions(net).count == count


@pytest.mark.parametrize("copies", [1, 2, 3])
def test_a_sawtooth_composed_with_itself_has_four_to_the_power(copies):
    """Problem 4.5: units of slope +1, +1, -1 with joints 1/6, 2/6, 4/6 and head (4, -12, 9, -6)."""
    one = net_of(([[1], [1], [-1]], [-1 / 6, -2 / 6, 4 / 6]), ([[-12, 9, -6]], [4]))
    assert [round(v, 9) for v in joints(one, 0.0, 1.0).values[:, 0].tolist()] == [0, 1, 0, 1, 0]
    found = joints(nn.Sequential(*[one] * copies), 0.0, 1.0)
    assert found.pieces == found.count == 4**copies


def test_a_switch_that_the_output_does_not_hear_is_a_joint_without_a_bend():
    found = joints(net_of(([[1], [1]], [0, -0.5]), ([[1, 0]], [0])))
    assert found.x.tolist() == [0.0, 0.5] and found.bends.tolist() == [True, False]
    assert (found.count, found.pieces) == (3, 2)
    assert found.units == (((0, 0),), ((0, 1),))
    assert found.slopes[:, 0].tolist() == [0, 1, 1]


def test_one_piece_where_a_layer_is_silent():
    """The last layer is off everywhere, so six cells hold one constant."""
    net = net_of(([[1, 0], [0, 1], [1, 1]], [0, 0, 0]), ([[-1, -1, -1]], [-1]), ([[1]], [2]))
    found = regions(net)
    assert (found.count, found.pieces) == (6, 1)


def test_residual_batch_norm_and_a_module_used_twice():
    torch.manual_seed(3)
    net = MLP(2, (6, 6, 6), 1, activation="relu", residual=True, norm="batch", p_drop=0.3)
    net(torch.randn(200, 2))  # running statistics of its own
    found = regions(net, ((-2, 2), (-2, 2)))
    x = np.random.default_rng(1).uniform(-2, 2, (20_000, 2))
    seen = {tuple(row) for row in patterns(net, x).tolist()}
    assert seen <= {tuple(row) for row in found.patterns.tolist()} and len(seen) > 10
    relu, square = nn.ReLU(), nn.Linear(2, 2)
    assert regions(nn.Sequential(square, relu, square, relu, square)).patterns.shape[1] == 4


def test_functions_and_methods_are_heard_as_modules_are():
    class Written(nn.Module):
        def __init__(self):
            super().__init__()
            self.a, self.b = nn.Linear(2, 3), nn.Linear(3, 3)

        def forward(self, x):
            h = torch.relu(self.a(x))
            return torch.maximum(self.b(h).clamp(min=0), h).abs_().relu_().sum(1, keepdim=True)

    torch.manual_seed(0)
    net = Written()
    found = regions(net, ((-3, 3), (-3, 3)))
    x = np.random.default_rng(1).uniform(-3, 3, (20_000, 2))
    assert {tuple(row) for row in patterns(net, x).tolist()} <= {tuple(row) for row in found.patterns.tolist()}


def test_a_convolution_on_a_plane_of_images():
    torch.manual_seed(0)
    net = nn.Sequential(nn.Conv2d(1, 3, 3), nn.ReLU(), nn.AvgPool2d(2), nn.Flatten(), nn.Linear(12, 2))
    torch.manual_seed(1)
    plane = (torch.randn(1, 6, 6), torch.randn(1, 6, 6), torch.randn(1, 6, 6))
    found = regions(net, ((-2, 2), (-2, 2)), plane=plane)
    assert found.count > 100 and found.areas.sum() == pytest.approx(16)
    t = torch.tensor(np.random.default_rng(1).uniform(-2, 2, (3000, 2)))
    x = plane[0] + torch.einsum("nd,dcyx->ncyx", t, torch.stack(plane[1:]).double())
    assert {tuple(row) for row in patterns(net, x).tolist()} <= {tuple(row) for row in found.patterns.tolist()}


def test_a_line_through_many_dimensions_crosses_what_its_plane_shows():
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(5, 8), nn.ReLU(), nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, 1))
    a, b = torch.randn(5), torch.randn(5)
    line = joints(net, a, b)
    dense = patterns(net, a + torch.linspace(0, 1, 40_001)[:, None].double() * (b - a))
    assert line.count == len({tuple(row) for row in dense.tolist()})


def test_the_pieces_are_the_function():
    net = random_net(3, 1)
    found = joints(net, -2.0, 2.0)
    t = np.random.default_rng(0).uniform(-2, 2, 500)
    expected = net(torch.tensor(t[:, None], dtype=torch.float32)).detach().numpy()
    at = np.concatenate([[-2], found.x, [2]])
    for k in range(2):
        assert np.allclose(np.interp(t, at, found.values[:, k]), expected[:, k], atol=1e-4)
    assert len(describe(found)) == found.count


def test_three_layers_of_fifty_in_seconds():
    torch.manual_seed(0)
    net = nn.Sequential(*(m for k in range(3) for m in (nn.Linear(50 if k else 2, 50), nn.ReLU())), nn.Linear(50, 1))
    begin = time.perf_counter()
    found = regions(net, ((-3, 3), (-3, 3)))
    assert time.perf_counter() - begin < 10
    assert found.count == len({row.tobytes() for row in found.patterns}) > 5000
    assert found.areas.sum() == pytest.approx(36)


@pytest.mark.parametrize("odd", [nn.GELU(), nn.Tanh(), nn.LayerNorm(4), nn.MaxPool1d(2)])
def test_what_is_not_straight_is_refused_by_name(odd):
    with pytest.raises(UserError, match=type(odd).__name__):
        regions(nn.Sequential(nn.Linear(2, 4), odd, nn.Linear(2 if isinstance(odd, nn.MaxPool1d) else 4, 1)))


class Bent(nn.Module):
    def __init__(self, how):
        super().__init__()
        self.how, self.map = how, nn.Linear(2, 4)

    def forward(self, x):
        return self.how(self.map(x))


@pytest.mark.parametrize(
    "how",
    [torch.tanh, lambda z: z * z, lambda z: z.amax(1, keepdim=True), lambda z: (z > 0).to(z.dtype), lambda z: z.sign()],
)
def test_what_is_not_straight_is_refused_though_it_has_no_name(how):
    torch.manual_seed(0)
    net = Bent(how)
    with pytest.raises(UserError, match="piecewise linear"):
        regions(net)
    with pytest.raises(UserError, match="piecewise linear"):
        joints(net, torch.tensor([-2.0, -2.0]), torch.tensor([2.0, 2.1]))


def test_bad_windows_and_planes_say_what_to_write():
    net = nn.Sequential(nn.Linear(2, 3), nn.ReLU())
    with pytest.raises(UserError, match="window must be"):
        regions(net, ((1, -1), (0, 1)))
    with pytest.raises(UserError, match="low first"):
        joints(net, 1.0, -1.0)
    with pytest.raises(UserError, match="low below high"):
        cells(net, [0, 0], [1, 0])
    with pytest.raises(ShapeError, match="must take points"):
        joints(net, 0.0, 1.0)
    with pytest.raises(ShapeError, match="not along one line"):
        regions(net, plane=(torch.zeros(2), torch.ones(2), 2 * torch.ones(2)))
    with pytest.raises(UserError, match="at most 2"):
        cells(net, [-9, -9], [9, 9], most=2)
    with pytest.raises(UserError, match="torch module"):
        regions(lambda x: x)


def test_the_views_are_json_and_frozen():
    net = random_net(5, 2)
    for view in (regions(net), joints(random_net(5, 1)), cells(net, [-1, -1], [1, 1])):
        again = json.loads(json.dumps(view.to_dict(), allow_nan=False))
        assert again["count"] == view.count and again["view"] == type(view).__name__
        with pytest.raises(ValueError):
            view.patterns[0] = 1
        assert view.plot().axes
