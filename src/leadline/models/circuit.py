"""Circuits of threshold units (McCulloch & Pitts, 1943): every Boolean function, set by hand, and nothing learned.

    f(x)  = 1 where Σ_excitatory x_i - Σ_inhibitory x_i >= θ, else 0          (1)
    AND of literals: the plain ones excite, the negated ones inhibit, θ = number of the plain ones        (2)
    OR: all excite, θ = 1                                                                                 (3)

A truth table is an OR of ANDs: (2) for each of a few prime implicants that together cover its ones (Quine, 1952), and
(3) over them.

Notation   x_i -> inputs, then units, by number: inputs come first;  θ -> threshold
Paper      there one active inhibitory input silences a unit; here it counts against the others, as in (1)
Shapes     x (B, num_inputs) of 0 and 1 -> (B, num_outputs) of 0 and 1, in the type of x
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from leadline.data.account import counted
from leadline.errors import DataError, ShapeError, UserError
from leadline.models.sizes import check_sizes
from leadline.settings import given

MOST_INPUTS = 12


@dataclass(frozen=True)
class Unit:
    """A threshold unit (1).

    Args:
        excitatory, inhibitory: numbers of the signals that it reads: inputs first, then units in order.
        threshold: θ.
    """

    excitatory: tuple[int, ...]
    inhibitory: tuple[int, ...]
    threshold: float


class Circuit(nn.Module):
    """Args:
        num_inputs: at least 1.
        units: each reads inputs and units before it: `Unit`s, or lists (excitatory, inhibitory, threshold).
        outputs: numbers of the signals that are the answer; None is the last unit.

    >>> nand = Circuit(2, [Unit((), (0, 1), -1)])
    >>> nand(torch.tensor([[0, 0], [0, 1], [1, 0], [1, 1]])).flatten().tolist()
    [1, 1, 1, 0]
    >>> print(nand)
    y1 = [-x1 - x2 >= -1]
    """

    def __init__(self, num_inputs: int, units: Sequence[Any], outputs: Sequence[int] | None = None):
        super().__init__()
        check_sizes("Circuit", num_inputs=num_inputs)
        self.num_inputs = num_inputs
        self.units = tuple(u if isinstance(u, Unit) else Unit(tuple(u[0]), tuple(u[1]), u[2]) for u in units)
        if not self.units:
            raise UserError("a circuit must have a unit", got="none", do="Pass Unit(excitatory, inhibitory, threshold)")
        for k, unit in enumerate(self.units):
            own, read = num_inputs + k, (*unit.excitatory, *unit.inhibitory)
            wrong = [signal for signal in read if not isinstance(signal, int) or not 0 <= signal < own]
            if wrong or len(set(read)) < len(read):
                raise UserError(
                    f"unit {k + 1} must read inputs and units before it, each once",
                    got=f"signals {', '.join(map(str, read))}, where {own} come before it",
                    do="Number inputs from 0, then units in order",
                )
        self.outputs = (num_inputs + len(self.units) - 1,) if outputs is None else tuple(outputs)
        if not self.outputs or any(not 0 <= signal < num_inputs + len(self.units) for signal in self.outputs):
            raise UserError("outputs must be signals of the circuit", got=given("outputs", outputs), do="Leave it out")
        self.depth = self._depths()
        for level in range(1, max(self.depth) + 1):
            members = self._level(level)
            weight = torch.zeros(len(members), num_inputs + len(self.units))
            for row, k in enumerate(members):
                weight[row, list(self.units[k].excitatory)] = 1.0
                weight[row, list(self.units[k].inhibitory)] = -1.0
            self.register_buffer(f"weight{level}", weight, persistent=False)
            thresholds = torch.tensor([float(self.units[k].threshold) for k in members])
            self.register_buffer(f"threshold{level}", thresholds, persistent=False)

    @property
    def config(self) -> dict[str, Any]:
        units = [[list(unit.excitatory), list(unit.inhibitory), unit.threshold] for unit in self.units]
        return {"num_inputs": self.num_inputs, "units": units, "outputs": list(self.outputs)}

    def forward(self, x: Tensor) -> Tensor:
        if x.dim() != 2 or x.shape[1] != self.num_inputs:
            raise ShapeError(
                f"Circuit: rows must hold {counted(self.num_inputs, 'bit')}",
                got=f"shape {tuple(x.shape)}",
                do=f"Pass shape (B, {self.num_inputs})",
            )
        if not bool(((x == 0) | (x == 1)).all()):
            raise DataError("Circuit: inputs must be 0 and 1", got="other values", do="Pass (x > 0).long()")
        first = self.get_buffer("weight1")
        signals = torch.zeros(len(x), first.shape[1], dtype=first.dtype, device=x.device)
        signals[:, : self.num_inputs] = x
        for level in range(1, max(self.depth) + 1):  # units of one level do not read each other
            total = signals @ self.get_buffer(f"weight{level}").T
            columns = torch.tensor([self.num_inputs + k for k in self._level(level)], device=x.device)
            fires = total >= self.get_buffer(f"threshold{level}")  # eq. 1
            signals.index_copy_(1, columns, fires.to(signals.dtype))
        return signals[:, list(self.outputs)].to(torch.int64 if x.dtype == torch.bool else x.dtype)

    def truth_table(self) -> Tensor:
        """The answer for every row of inputs, in the order of `rows`, shape (2^num_inputs, num_outputs)."""
        return self(rows(self.num_inputs))

    def name(self, signal: int) -> str:
        """x1 … for inputs, h1 … for units, y1 … for outputs."""
        if signal < self.num_inputs:
            return f"x{signal + 1}"
        if signal in self.outputs:
            return f"y{self.outputs.index(signal) + 1}"
        return f"h{signal - self.num_inputs + 1}"

    def __str__(self) -> str:
        lines = []
        for k, unit in enumerate(self.units):
            terms = [(" + ", self.name(i)) for i in unit.excitatory] + [(" - ", self.name(i)) for i in unit.inhibitory]
            left = "".join(sign + name for sign, name in terms).removeprefix(" + ") or "0"
            left = "-" + left[3:] if left.startswith(" - ") else left
            lines.append(f"{self.name(self.num_inputs + k)} = [{left} >= {unit.threshold:g}]")
        return "\n".join(lines)

    def draw(self) -> Any:
        """A matplotlib figure: signals from left to right, excitation as an arrow, inhibition dashed with a ring."""
        from matplotlib.figure import Figure

        place = {}
        depth = [0] * self.num_inputs + list(self.depth)
        for level in range(max(depth) + 1):
            members = [signal for signal, own in enumerate(depth) if own == level]
            for row, signal in enumerate(members):
                place[signal] = (2.5 * level, (len(members) - 1) / 2 - row)
        most = max(depth.count(level) for level in range(max(depth) + 1))
        figure = Figure(figsize=(2.2 + 2.2 * max(depth), max(2.0, 0.75 * most)), layout="constrained")
        axes = figure.subplots()
        for k, unit in enumerate(self.units):
            x, y = place[self.num_inputs + k]
            for signal in (*unit.excitatory, *unit.inhibitory):
                excites = signal in unit.excitatory
                x0, y0 = place[signal]
                axes.plot([x0 + 0.3, x - 0.38], [y0, y], "-" if excites else "--", color="0.35", lw=1, zorder=1)
                mark = ">" if excites else "o"
                axes.plot(x - 0.38, y, mark, color="0.35", mfc="0.35" if excites else "white", ms=5, zorder=2)
            axes.text(x, y - 0.42, f"θ = {unit.threshold:g}", ha="center", va="top", fontsize=8)
        for signal, (x, y) in place.items():
            shape = {"boxstyle": "circle" if signal >= self.num_inputs else "square", "fc": "white", "ec": "0.2"}
            axes.text(x, y, self.name(signal), ha="center", va="center", fontsize=9, bbox=shape, zorder=3)
        axes.set_xlim(-0.7, 2.5 * max(depth) + 0.7)
        axes.set_ylim(-most / 2 - 0.4, most / 2 + 0.1)
        axes.set_axis_off()
        return figure

    def _depths(self) -> list[int]:
        depth = [0] * self.num_inputs
        for unit in self.units:
            depth.append(1 + max((depth[i] for i in (*unit.excitatory, *unit.inhibitory)), default=0))
        return depth[self.num_inputs :]

    def _level(self, level: int) -> list[int]:
        return [k for k, own in enumerate(self.depth) if own == level]


def rows(num_inputs: int) -> Tensor:
    """All rows of bits in the order of a truth table: the first input is the highest digit, (2^num_inputs, num_inputs).

    >>> rows(2).tolist()
    [[0, 0], [0, 1], [1, 0], [1, 1]]
    """
    return torch.arange(2**num_inputs)[:, None] >> torch.arange(num_inputs - 1, -1, -1) & 1


def circuit_of(truth_table: Sequence[int] | Tensor | str) -> Circuit:
    """A circuit for a truth table: 2^n answers of 0 and 1, in the order of `rows(n)`.

    >>> print(circuit_of("0110"))  # exclusive or
    h1 = [x2 - x1 >= 1]
    h2 = [x1 - x2 >= 1]
    y1 = [h1 + h2 >= 1]
    """
    if isinstance(truth_table, str):
        truth_table = ["01".find(letter) for letter in truth_table]
    values = torch.as_tensor(truth_table)
    if values.dim() != 1 or len(values) < 2 or len(values) & (len(values) - 1):
        raise ShapeError(
            "a truth table must hold 2^n answers, n at least 1",
            got=f"shape {tuple(values.shape)}",
            do="Give one answer for each row of inputs, 00 … 0 first",
        )
    if not bool(((values == 0) | (values == 1)).all()):
        raise DataError("answers of a truth table must be 0 and 1", got="other values", do="Pass (values > 0).long()")
    n = len(values).bit_length() - 1
    if n > MOST_INPUTS:
        raise UserError(
            f"circuit_of takes at most {MOST_INPUTS} inputs", got=f"{n}", do="Build a Circuit out of smaller parts"
        )
    ones = set(values.nonzero().flatten().tolist())
    if len(ones) in (0, len(values)):
        return Circuit(n, [Unit((), (), 0 if ones else 1)])
    units = [_conjunction(n, value, free) for value, free in _cover(ones, n)]
    if len(units) > 1:
        units.append(Unit(tuple(range(n, n + len(units))), (), 1))  # eq. 3
    return Circuit(n, units)


def _conjunction(n: int, value: int, free: int) -> Unit:
    """Eq. 2 for a cube: the bits of `value`, but for those in `free`."""
    bit = [1 << (n - 1 - i) for i in range(n)]
    plain = tuple(i for i in range(n) if not free & bit[i] and value & bit[i])
    negated = tuple(i for i in range(n) if not free & bit[i] and not value & bit[i])
    return Unit(plain, negated, len(plain))


def _cover(ones: set[int], n: int) -> list[tuple[int, int]]:
    """Prime implicants (value, free bits) that cover all ones: those with most yet uncovered ones first."""
    cubes, primes = {(one, 0) for one in ones}, []
    while cubes:
        merged, used = set(), set()
        for value, free in cubes:
            for i in range(n):
                bit = 1 << i
                other = (value ^ bit, free)
                if not free & bit and other in cubes:
                    used.add((value, free))
                    merged.add((value & ~bit, free | bit))
        primes += sorted(cubes - used)
        cubes = merged
    covered = {prime: _members(*prime) for prime in primes}
    left, chosen = set(ones), []
    while left:
        best = max(primes, key=lambda prime: len(covered[prime] & left))
        chosen.append(best)
        left -= covered[best]
    return sorted(chosen)


def _members(value: int, free: int) -> set[int]:
    found, part = set(), free
    while True:  # every subset of the free bits
        found.add(value | part)
        if not part:
            return found
        part = (part - 1) & free
