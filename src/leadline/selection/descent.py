"""Double descent: ever wider networks, past the width that can just fit every row (Belkin et al., 2019).

    test error falls with the width, rises towards parameters ≈ rows, and falls again beyond        (1)

With some labels random, fitting every row costs a network that just can its good sense; wider ones have many ways to
fit and gradient descent finds a smooth one. `Sweep.bump` measures the rise and the second descent.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from torch import nn

from leadline.data.data import Data
from leadline.selection.curves import named, noisy
from leadline.selection.sweep import Sweep, sweep


def by_width(
    model: Callable[[int], nn.Module],
    data: Data,
    widths: Sequence[int],
    *,
    noise: Sequence[float] = (0.0,),
    seeds: int = 5,
    **settings: Any,
) -> Sweep:
    """Train and test score against the width (1); members of one width are one computation.

    Args:
        model: a function from the width to a network.
        widths: at least 1 each.
        noise: shares of the training labels that are drawn anew from all classes, once, one line each.
        seeds: of labels, first weights and order, at least 1.
        settings: of `fit_many` and `sweep`. Data without validation rows are fitted to the last epoch.

    >>> import leadline as ll
    >>> data = ll.data.moons(num=60)
    >>> net = lambda width: ll.models.MLP(2, (width,), 1, activation="relu", p_drop=0.0)
    >>> found = by_width(net, data, [2, 4, 8, 16], seeds=2, epochs=2, progress=False)
    >>> found.parameters.tolist(), len(data.train), round(found.crossing, 1)
    ([9, 17, 33, 65], 39, 9.5)
    """
    return sweep(
        lambda width: model(width),
        data,
        {width: {"model": {"width": width}} for width in widths},
        {named(share): {"data": partial(noisy, data, share)} for share in noise},
        axis="hidden units a layer",
        seeds=seeds,
        log=True,
        **settings,
    )
