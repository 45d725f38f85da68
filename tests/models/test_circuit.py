"""Circuits of threshold units compute what their truth tables say."""

import json

import pytest
import torch

from leadline.errors import DataError, ShapeError, UserError
from leadline.models import Circuit, Unit, circuit_of
from leadline.models.circuit import rows
from leadline.reference.first_machines import threshold_unit


def test_every_function_of_three_inputs_has_its_circuit():
    bits = rows(3)
    for number in range(256):
        table = torch.tensor([number >> k & 1 for k in range(8)])
        assert torch.equal(circuit_of(table)(bits).flatten(), table), number


@pytest.mark.parametrize("n", range(1, 9))
def test_random_functions_of_up_to_eight_inputs(n):
    generator = torch.Generator().manual_seed(n)
    for density in (0.2, 0.5, 0.9):
        table = (torch.rand(2**n, generator=generator) < density).long()
        circuit = circuit_of(table)
        assert torch.equal(circuit.truth_table().flatten(), table)
        assert len(circuit.units) <= int(table.sum()) + 1, "no more units than one for each row of ones, and their OR"


def test_units_follow_their_definition_one_by_one():
    torch.manual_seed(0)
    circuit = circuit_of(torch.randint(2, (64,)))
    for row in rows(6):
        signals = row.tolist()
        for unit in circuit.units:
            signals.append(
                threshold_unit(
                    [signals[i] for i in unit.excitatory], [signals[i] for i in unit.inhibitory], unit.threshold
                )
            )
        assert int(circuit(row[None])) == signals[-1]


def test_neighbouring_ones_share_a_unit():
    assert len(circuit_of("00001111").units) == 1  # the first input alone
    assert str(circuit_of("00001111")) == "y1 = [x1 >= 1]"
    assert len(circuit_of("0110").units) == 3  # exclusive or has nothing to share


def test_constants_read_nothing():
    for bit in (0, 1):
        circuit = circuit_of([bit] * 4)
        assert circuit.truth_table().flatten().tolist() == [bit] * 4
    assert str(circuit_of("11")) == "y1 = [0 >= 0]"


def test_circuits_of_several_levels_and_outputs():
    # a half adder out of three units: carry, none or both, sum
    adder = Circuit(2, [Unit((0, 1), (), 2), Unit((0, 1), (), 1), Unit((3,), (2,), 1)], outputs=(4, 2))
    assert adder.truth_table().tolist() == [[0, 0], [1, 0], [1, 0], [0, 1]]
    assert adder.depth == [1, 1, 2]


def test_a_circuit_is_built_again_from_its_config():
    circuit = circuit_of("01101001")
    again = Circuit(**json.loads(json.dumps(circuit.config)))
    assert torch.equal(again.truth_table(), circuit.truth_table()) and str(again) == str(circuit)


def test_a_circuit_can_be_drawn():
    figure = circuit_of("0110").draw()
    words = {text.get_text() for text in figure.axes[0].texts}
    assert {"x1", "x2", "h1", "h2", "y1", "θ = 1"} <= words
    dashed = [line for line in figure.axes[0].lines if line.get_linestyle() == "--"]
    assert len(dashed) == 2  # one inhibition for each of the two conjunctions


def test_types_of_inputs():
    assert circuit_of("01")(torch.tensor([[True], [False]])).tolist() == [[1], [0]]
    assert circuit_of("01")(torch.ones(1, 1)).dtype == torch.float32


@pytest.mark.parametrize(
    ("table", "words"),
    [
        ([], "must hold 2\\^n answers"),
        ("", "must hold 2\\^n answers"),
        ([1], "must hold 2\\^n answers"),
        ([0, 1, 1], "must hold 2\\^n answers"),
        ([0, 2], "must be 0 and 1"),
        ([0] * 2**13, "at most 12 inputs"),
    ],
)
def test_bad_tables_are_refused(table, words):
    with pytest.raises(UserError, match=words):
        circuit_of(table)


def test_a_table_of_other_letters_is_refused():
    with pytest.raises(UserError, match="0 and 1"):
        circuit_of("0a")


def test_bad_circuits_and_rows_are_refused():
    with pytest.raises(UserError, match="must have a unit"):
        Circuit(2, [])
    with pytest.raises(UserError, match="unit 1 must read inputs and units before it"):
        Circuit(2, [Unit((2,), (), 1)])
    with pytest.raises(UserError, match="each once"):
        Circuit(2, [Unit((0,), (0,), 1)])
    with pytest.raises(UserError, match="outputs must be signals"):
        Circuit(2, [Unit((0,), (), 1)], outputs=(7,))
    with pytest.raises(ShapeError, match="rows must hold 2 bits"):
        circuit_of("0110")(torch.zeros(3, 3))
    with pytest.raises(DataError, match="inputs must be 0 and 1"):
        circuit_of("0110")(torch.tensor([[-1.0, 1.0]]))
