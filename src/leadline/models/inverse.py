"""A generative line: learn x from y, then turn the line around to predict y.

    x = φ0 + φ1 y                fitted by least squares on x                    (1)
    y = (x - φ0) / φ1            inference                                       (2)
    1 / φ1 = slope of y on x / r²                                                (3)   r the correlation of x and y

By (3) it is steeper than the line that is fitted on y, unless all points lie on one line.

Use it     run = ll.fit(Linear(1, 1), ll.data.arrays(y, x), rule=LeastSquares(), epochs=1);  inverse(run.model)
           reads and gives what the model gives and reads: standardized values, if the data were
"""

from __future__ import annotations

import torch

from leadline.errors import UserError
from leadline.models.linear import Linear


@torch.no_grad()
def inverse(line: Linear) -> Linear:
    """The line of eq. 2 for a line of one input and one output.

    >>> line = Linear(1, 1)
    >>> _ = torch.nn.init.constant_(line.map.weight, 4.0), torch.nn.init.constant_(line.map.bias, 2.0)
    >>> inverse(line)(torch.tensor([[10.0]])).item()
    2.0
    """
    if not isinstance(line, Linear) or (line.dim_input, line.dim_output) != (1, 1):
        sizes = f" with {line.dim_input} inputs and {line.dim_output} outputs" if isinstance(line, Linear) else ""
        raise UserError(
            "inverse needs a line: a Linear of one input and one output",
            got=f"a {type(line).__name__}{sizes}",
            do="Pass Linear(1, 1), fitted on x as a function of y",
        )
    slope, offset = line.map.weight.double(), line.map.bias.double()
    if not bool(slope.isfinite()) or float(slope) == 0:
        raise UserError(
            "a line must rise or fall to be inverted",
            got=f"a slope of {float(slope):g}",
            do="Check that x depends on y: a flat line says the same of every y",
        )
    with torch.random.fork_rng(devices=[]):
        turned = Linear(1, 1).to(line.map.weight)
    turned.map.weight.copy_(1 / slope)
    turned.map.bias.copy_(-offset / slope[0])
    return turned
