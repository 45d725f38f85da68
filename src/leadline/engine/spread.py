"""How far y strays from the output, settled when training is over.

    ρ* = argmin_ρ  Σ_val -log p(y | output, ρ) + m · mean_train -log p(y | output, ρ)        (1)   m = 30, 10 for each ρ

A number ρ that is the same for all rows, such as the σ of a Normal, learns step by step like a weight, and the weights
that are kept are often those of an early epoch, when ρ was still on its way. (1) is solved at the kept weights, in
float64, and from where the family begins, so that it depends on these weights and on the rows alone. Validation rows
allow for what the network only knows by heart; where they are few, the training rows keep ρ from following them.
"""

from __future__ import annotations

import torch
from torch import Tensor

from leadline.likelihoods.likelihood import Likelihood

LEAST, EACH = 30, 10  # m: the larger of the two


@torch.enable_grad()
def settle_spread(
    likelihood: Likelihood, rows: tuple[Tensor, Tensor, Tensor], train: tuple[Tensor, Tensor, Tensor]
) -> None:
    """Put the numbers of `likelihood.spread` to eq. 1; they stay as they are if that is not finite.

    Args:
        rows: output, y and weight of the validation rows.
        train: the same of training rows.
    """
    own = [likelihood.get_parameter(name) for name in likelihood.spread]
    twin = type(likelihood)(**likelihood.config).to(rows[0].device, torch.float64)
    moved = [twin.get_parameter(name) for name in likelihood.spread]
    given = max(LEAST, EACH * sum(parameter.numel() for parameter in own))
    output, y, weight = (torch.cat([a, b]).detach() for a, b in zip(rows, train, strict=True))
    output, y, weight = output.double(), y.double() if y.is_floating_point() else y, weight.double()
    count = len(rows[2])
    share = torch.cat([weight[:count] * count / weight[:count].sum(), weight[count:] * given / weight[count:].sum()])

    def loss() -> Tensor:
        optimizer.zero_grad()
        value = (share * twin.measures(output, y)["nll"]).sum() / share.sum()
        value.backward()
        return value

    optimizer = torch.optim.LBFGS(moved, max_iter=100, line_search_fn="strong_wolfe")
    optimizer.step(loss)
    if all(bool(parameter.isfinite().all()) for parameter in moved):
        with torch.no_grad():
            for parameter, value in zip(own, moved, strict=True):
                parameter.copy_(value)
