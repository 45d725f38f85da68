"""Shallow network: one hidden layer, with every parameter under the name that the textbook gives it.

    h_d = a[θ_d0 + Σ_i θ_di x_i]        d = 1 … D        (1)
    y_j = φ_j0 + Σ_d φ_jd h_d           j = 1 … D_o      (2)

With ReLU each unit bends the output along one hyperplane: with one input the output is piecewise linear, with at most
D + 1 pieces.

Notation   θ_d0, θ_di -> inner.bias[d-1], inner.weight[d-1, i-1];  φ_j0, φ_jd -> outer.bias[j-1], outer.weight[j-1, d-1]
           by name: net["theta10"], net["phi2"] where there is one output, net["phi12"] where there are more;
           net["theta12_3"] where an index has two digits
Shapes     x (B, dim_input) -> (B, dim_output); further axes of x are flattened
Train it   leadline train moons --model Shallow --num-units 20
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import torch
from torch import Tensor, nn

from leadline.config import Configured
from leadline.errors import UserError
from leadline.layers.activation import activation as make_activation
from leadline.layers.activation import widening
from leadline.models.sizes import check_sizes
from leadline.names import lookup
from leadline.settings import real


class Shallow(nn.Module, Configured):
    """Args:
        dim_input, num_units, dim_output: D_i, D and D_o, at least 1 each.
        activation: a name in `leadline.layers.activation.ACTIVATIONS`, but for crelu.

    >>> net = Shallow(1, 3, 1)
    >>> net.set(theta10=-0.2, theta11=0.4, phi0=-0.23)
    >>> round(net["theta11"], 4), len(net.names)
    (0.4, 10)
    """

    def __init__(self, dim_input: int, num_units: int = 100, dim_output: int = 1, activation: str = "relu"):
        super().__init__()
        check_sizes("Shallow", dim_input=dim_input, num_units=num_units, dim_output=dim_output)
        self.dim_input, self.num_units, self.dim_output = dim_input, num_units, dim_output
        self.activation = activation
        self.inner = nn.Linear(dim_input, num_units)
        self.nonlinearity = make_activation(activation)
        if widening(self.nonlinearity) != 1:
            raise UserError(
                "Shallow: activation must give one output for each unit",
                got=f"activation={activation!r}, which gives two",
                do="Use an MLP with one hidden layer for it",
            )
        self.outer = nn.Linear(num_units, dim_output)

    @classmethod
    def tiny(cls) -> Shallow:
        return cls(3, 4, 2, activation="tanh")

    def forward(self, x: Tensor) -> Tensor:
        return self.outer(self.nonlinearity(self.inner(x.flatten(1))))  # eq. 1, 2

    # ── parameters by name ──

    @property
    def names(self) -> list[str]:
        """All parameters, in the order of eqs. 1 and 2.

        >>> Shallow(1, 2, 1).names
        ['theta10', 'theta11', 'theta20', 'theta21', 'phi0', 'phi1', 'phi2']
        """
        return list(self._places())

    @property
    def values(self) -> dict[str, float]:
        """Every parameter's value, by name."""
        return {name: float(tensor[at].detach()) for name, (tensor, at) in self._places().items()}

    def __getitem__(self, name: str) -> float:
        tensor, at = lookup(name, self._places(), "parameter")
        return float(tensor[at].detach())

    def __setitem__(self, name: str, value: float) -> None:
        self.set({name: value})

    @torch.no_grad()
    def set(self, values: Mapping[str, float] | None = None, **named: float) -> None:
        """Set parameters by name; the others stay as they are."""
        places = self._places()
        wanted = {**(values or {}), **named}
        found = [(lookup(name, places, "parameter"), real(name, value)) for name, value in wanted.items()]
        for (tensor, at), value in found:
            tensor[at] = value

    def _places(self) -> dict[str, tuple[Tensor, tuple[int, ...]]]:
        """Where each name's number lies."""
        wide = max(self.num_units, self.dim_input, self.dim_output if self.dim_output > 1 else 0) > 9
        between = "_" if wide else ""
        places: dict[str, tuple[Tensor, tuple[int, ...]]] = {}
        for d in range(self.num_units):
            places[f"theta{d + 1}{between}0"] = self.inner.bias, (d,)
            for i in range(self.dim_input):
                places[f"theta{d + 1}{between}{i + 1}"] = self.inner.weight, (d, i)
        for j in range(self.dim_output):
            front = "phi" if self.dim_output == 1 else f"phi{j + 1}{between}"
            places[f"{front}0"] = self.outer.bias, (j,)
            for d in range(self.num_units):
                places[f"{front}{d + 1}"] = self.outer.weight, (j, d)
        return places

    # ── the network in words ──

    def equations(self, values: bool = False) -> str:
        """Eqs. 1 and 2 written out, a line for each unit and output, with names or with numbers.

        >>> print(Shallow(1, 2, 1).equations())
        h1 = relu[theta10 + theta11 x]
        h2 = relu[theta20 + theta21 x]
        y = phi0 + phi1 h1 + phi2 h2
        """
        terms = iter([f"{value:.4g}" for value in self.values.values()] if values else self.names)
        inputs = ["x"] if self.dim_input == 1 else [f"x{i + 1}" for i in range(self.dim_input)]
        units = [f"h{d + 1}" for d in range(self.num_units)]
        outputs = ["y"] if self.dim_output == 1 else [f"y{j + 1}" for j in range(self.dim_output)]
        lines = [f"{unit} = {self.activation}[{_sum(terms, inputs)}]" for unit in units]
        return "\n".join(lines + [f"{output} = {_sum(terms, units)}" for output in outputs])


def _sum(terms: Iterator[str], factors: list[str]) -> str:
    """The next terms as a sum: the first alone, the others times their factors; minus signs stand between them."""
    text = next(terms)
    for factor in factors:
        term = next(terms)
        text += f" - {term[1:]} {factor}" if term.startswith("-") else f" + {term} {factor}"
    return text
