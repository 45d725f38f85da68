"""How many parameters a network has, and into how many linear regions it can cut its inputs: exact whole numbers.

    parameters       Σ_k D_{k+1} (D_k + 1)                    D_0 = D_i, D_1 … D_K hidden, D_{K+1} = D_o             (1)
                     shallow: D (D_i + 1) + D_o (D + 1);      1 in, 1 out, K layers of D: 3D + 1 + (K-1) D (D+1)
    zaslavsky        Σ_{j=0}^{D_i} C(D, j)                    most of a shallow net; reached in general position     (2)
    patterns         2^D                                      most of any net of D units, whatever its layers        (3)
    line_regions     (D + 1)^K                                most of K layers of D on a line; reached for D >= 3    (4)
    folded_regions   (D/D_i + 1)^{D_i (K-1)} · Σ_j C(D, j)    K layers of D, D a multiple of D_i                     (5)
    montufar         floor(D/D_i)^{D_i (K-1)} · Σ_j C(D, j)   what some net of that size has at least                (6)

(5) has been called the maximum. It is for D_i = 1 and D >= 3, where it is (4). For D_i >= 2 it is a number that folds
can reach when D/D_i >= 3, and no upper bound; for D = D_i = 2 and K = 2 it says 16, and no such network has more than
11 regions.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import comb

from leadline.errors import UserError
from leadline.models.sizes import check_sizes


@dataclass(frozen=True)
class Size:
    """Parameters of a network: `slopes` are the entries of its matrices, `offsets` those of its vectors."""

    slopes: int
    offsets: int

    @property
    def parameters(self) -> int:
        return self.slopes + self.offsets


def size(dim_input: int, hidden: Sequence[int], dim_output: int) -> Size:
    """Eq. 1 for a fully connected network.

    >>> size(3, (4, 2, 3), 2).parameters
    43
    """
    hidden = tuple(hidden)
    check_sizes("size", dim_input=dim_input, dim_output=dim_output)
    check_sizes("size", **{f"hidden[{k}]": width for k, width in enumerate(hidden)})
    widths = [dim_input, *hidden, dim_output]
    slopes = sum(before * after for before, after in pairwise(widths))
    return Size(slopes, sum(widths[1:]))


def zaslavsky(dim_input: int, num_units: int) -> int:
    """Eq. 2: most regions that D hyperplanes make of D_i dimensions (Zaslavsky, 1975).

    >>> zaslavsky(2, 3), zaslavsky(2, 5)
    (7, 16)
    """
    check_sizes("zaslavsky", dim_input=dim_input, num_units=num_units)
    return sum(comb(num_units, j) for j in range(min(dim_input, num_units) + 1))


def patterns(num_units: int) -> int:
    """Eq. 3: ways in which D units can be on and off.

    >>> patterns(10)
    1024
    """
    check_sizes("patterns", num_units=num_units)
    return 2**num_units


def line_regions(num_units: int, depth: int = 1) -> int:
    """Eq. 4: most pieces of a network of one input with K layers of D units.

    >>> line_regions(10, 5)
    161051
    """
    check_sizes("line_regions", num_units=num_units, depth=depth)
    return (num_units + 1) ** depth


def folded_regions(dim_input: int, num_units: int, depth: int) -> int:
    """Eq. 5. See above for what it is and is not.

    >>> folded_regions(1, 10, 5), f"{folded_regions(10, 50, 5):.2e}"
    (161051, '1.80e+41')
    """
    _check_deep("folded_regions", dim_input, num_units, depth)
    if num_units % dim_input:
        raise UserError(
            "folded_regions: num_units must be a multiple of dim_input",
            got=f"num_units={num_units}, dim_input={dim_input}",
            do=f"Take {num_units - num_units % dim_input}, or ask montufar",
        )
    return (num_units // dim_input + 1) ** (dim_input * (depth - 1)) * zaslavsky(dim_input, num_units)


def montufar(dim_input: int, num_units: int, depth: int) -> int:
    """Eq. 6: regions of the best network of K layers of D units, at least (Montúfar et al., 2014).

    >>> montufar(2, 4, 2)
    44
    """
    _check_deep("montufar", dim_input, num_units, depth)
    return (num_units // dim_input) ** (dim_input * (depth - 1)) * zaslavsky(dim_input, num_units)


def _check_deep(owner: str, dim_input: int, num_units: int, depth: int) -> None:
    check_sizes(owner, dim_input=dim_input, num_units=num_units, depth=depth)
    if num_units < dim_input:
        raise UserError(
            f"{owner}: num_units must be at least dim_input",
            got=f"num_units={num_units}, dim_input={dim_input}",
            do="Make the layers wider",
        )


@dataclass(frozen=True)
class Row:
    """One network of a table: D_i inputs, K layers of D units, one output."""

    dim_input: int
    num_units: int
    depth: int
    parameters: int
    regions: int


def shallow_table(
    dim_inputs: Iterable[int] = (1, 5, 10, 50, 100), num_units: Iterable[int] = (1, 2, 5, 10, 20, 50, 100, 200, 500)
) -> list[Row]:
    """Regions of shallow networks against their parameters (2), a curve for each number of inputs.

    >>> shallow_table([100], [500])[0].parameters
    51001
    """
    widths = tuple(num_units)
    return [
        Row(inputs, units, 1, size(inputs, (units,), 1).parameters, zaslavsky(inputs, units))
        for inputs in dim_inputs
        for units in widths
    ]


def deep_table(
    dim_input: int = 1, depths: Iterable[int] = (1, 2, 3, 4, 5), num_units: Iterable[int] | None = None
) -> list[Row]:
    """Regions of deep networks against their parameters (5), a curve for each depth.

    >>> deep_table(1, [5], [10])
    [Row(dim_input=1, num_units=10, depth=5, parameters=471, regions=161051)]
    """
    check_sizes("deep_table", dim_input=dim_input)
    widths = tuple(num_units) if num_units is not None else tuple(dim_input * k for k in range(1, 11))
    return [
        Row(dim_input, D, K, size(dim_input, (D,) * K, 1).parameters, folded_regions(dim_input, D, K))
        for K in depths
        for D in widths
    ]
