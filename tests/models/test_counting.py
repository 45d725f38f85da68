"""Parameters and regions: closed forms beside real networks, and the textbook's numbers, put right where they err."""

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from leadline.errors import UserError
from leadline.models import MLP, Shallow, folding
from leadline.models.counting import (
    deep_table,
    folded_regions,
    line_regions,
    montufar,
    patterns,
    shallow_table,
    size,
    zaslavsky,
)

widths = st.integers(1, 12)


@settings(max_examples=40, deadline=None)
@given(widths, st.lists(widths, max_size=4), widths)
def test_the_count_is_that_of_the_module(dim_input, hidden, dim_output):
    model = MLP(dim_input, hidden, dim_output, p_drop=0.0)
    counted = size(dim_input, hidden, dim_output)
    assert counted.parameters == sum(p.numel() for p in model.parameters())
    assert counted.slopes == sum(p.numel() for name, p in model.named_parameters() if name.endswith("weight"))


@pytest.mark.parametrize(
    ("network", "parameters"),
    [
        ((1, (3, 3), 1), 22),
        ((3, (4, 2, 3), 2), 43),
        ((5, (20, 10, 7), 4), 439),
        ((1, (10,) * 5, 1), 471),
        ((10, (50,) * 5, 1), 10_801),
        ((1, (5,) * 10, 1), 286),
        ((1, (95,), 1), 286),
        ((1, (286,), 1), 859),
    ],
)
def test_networks_of_the_textbook(network, parameters):
    assert size(*network).parameters == parameters


@pytest.mark.parametrize("units", [1, 2, 5, 9])
@pytest.mark.parametrize("depth", [1, 2, 6])
def test_one_input_and_one_output(units, depth):
    assert size(1, (units,) * depth, 1).parameters == 3 * units + 1 + (depth - 1) * units * (units + 1)


def test_slopes_and_offsets_of_3_3_2():
    assert (size(3, (3,), 2).slopes, size(3, (3,), 2).offsets) == (15, 5)


def test_zaslavskys_numbers():
    assert [zaslavsky(2, units) for units in (1, 2, 3, 5)] == [2, 4, 7, 16]
    assert [zaslavsky(1, units) for units in (1, 3, 10)] == [2, 4, 11]
    assert [zaslavsky(dim, dim) for dim in (1, 2, 3)] == [2, 4, 8]
    assert zaslavsky(7, 4) == patterns(4) == 16
    assert math.log10(zaslavsky(100, 500)) == pytest.approx(107.43, abs=0.01)


@pytest.mark.parametrize(("dim_input", "units"), [(1, 4), (2, 3), (2, 5), (3, 4)])
def test_random_networks_reach_zaslavskys_number_and_never_pass_it(dim_input, units):
    torch.manual_seed(0)
    most = 0
    for _ in range(4):
        net = Shallow(dim_input, units, 1)
        x = 30 * torch.randn(200_000, dim_input) * torch.rand(200_000, 1) ** 3
        on = (net.inner(x) > 0).long() @ (2 ** torch.arange(units))
        most = max(most, len(on.unique()))
        assert len(on.unique()) <= zaslavsky(dim_input, units)
    assert most == zaslavsky(dim_input, units)


def test_regions_of_deep_networks():
    assert folded_regions(1, 10, 5) == line_regions(10, 5) == 11**5 == 161_051
    assert folded_regions(10, 50, 5) == 6**40 * 13_432_735_556  # printed as more than 10^134 elsewhere
    assert folded_regions(10, 50, 5) < patterns(250)
    assert line_regions(5, 10) == 60_466_176
    assert line_regions(286) == 287
    assert folded_regions(2, 2, 2) == 16  # and yet two layers of two units make 11 at most
    assert folded_regions(2, 6, 1) == zaslavsky(2, 6)
    assert montufar(2, 4, 2) == 44
    assert montufar(3, 7, 2) == 2**3 * zaslavsky(3, 7)


def test_a_folding_layer_makes_the_boxes_that_the_formula_counts():
    """The first layer of folded_regions(2, 6, ·): (6/2 + 1)² boxes, each mapped onto the whole square."""
    net = folding(2, 3)
    x = torch.rand(20_000, 2, generator=torch.Generator().manual_seed(0)).double()
    on = (net.inner(x) > 0).long() @ (2 ** torch.arange(6))
    boxes = on.unique()
    assert len(boxes) == folded_regions(2, 6, 2) // zaslavsky(2, 6) == 16
    for box in boxes:
        image = net(x[on == box]).detach()
        assert float(image.min()) < 0.1
        assert float(image.max()) > 0.9


def test_tables_hold_the_highlighted_networks():
    shallow = {(row.dim_input, row.num_units): row for row in shallow_table()}
    assert len(shallow) == 45
    dot = shallow[100, 500]
    assert dot.parameters == 51_001
    assert dot.regions > 10**107
    assert {row.dim_input for row in shallow.values()} == {1, 5, 10, 50, 100}
    assert deep_table(10, [5], [50])[0].parameters == 10_801
    rows = deep_table(1)
    assert len(rows) == 50
    assert all(row.regions == (row.num_units + 1) ** row.depth for row in rows)


def test_deeper_networks_have_more_regions_for_the_same_parameters():
    deep, shallow = size(1, (5,) * 10, 1), size(1, (95,), 1)
    assert deep.parameters == shallow.parameters
    assert line_regions(5, 10) > 600_000 * line_regions(95)


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda: size(0, (), 1), "dim_input must be a whole number of at least 1"),
        (lambda: size(1, (3, 0), 1), r"hidden\[1\]"),
        (lambda: zaslavsky(2, 0), "num_units"),
        (lambda: patterns(-1), "num_units"),
        (lambda: line_regions(3, 0), "depth"),
        (
            lambda: folded_regions(3, 10, 2),
            "multiple of dim_input. Got num_units=10, dim_input=3. Take 9, or ask montufar",
        ),
        (lambda: montufar(5, 4, 2), "num_units must be at least dim_input"),
    ],
)
def test_sizes_that_make_no_sense_are_refused(make, said):
    with pytest.raises(UserError, match=said):
        make()
