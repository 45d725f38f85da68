"""Tasks that rows set themselves, without labels: what is learned on them is handed on to the task that counts.

    reconstruction      y = x: with the regulariser "mask" the network fills in what was hidden                      (1)
    which_is_original   y says whether a row is as it was, or has values swapped in from other rows                  (2)

Each column alone looks the same in both classes of (2): only how columns go together tells them apart.
`leadline.models.transfer` then puts a new head on what was learned.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from leadline.data.data import Data, Split
from leadline.data.inputs import Identity
from leadline.data.target import Target
from leadline.settings import real, whole


def reconstruction(data: Data) -> Data:
    """The rows as their own target (1): what the network reads, flat, in its own unit.

    >>> import leadline as ll
    >>> task = reconstruction(ll.data.iris())
    >>> task.target.dim, task.target.kind, task.inputs.config["names"] == list(ll.data.iris().inputs.names)
    (4, 'real', True)
    """

    def own(split: Split) -> Split:
        return Split(split.x, data.inputs.encode(split.x).flatten(1).float(), split.weight, split.rows)

    train, val, test = own(data.train), own(data.val), own(data.test)
    return data.with_(
        train=train,
        val=val,
        test=test,
        target=Target.real(train.y, "x"),
        name=f"{data.name}, reconstruction",
        recipe=None,
    )


def which_is_original(data: Data, fraction: float = 0.3, seed: int = 0) -> Data:
    """Every row twice: as it was, and with a fraction of its values swapped in from other rows of its split (2).

    Args:
        fraction: chance of each value to be swapped, above 0 and below 1.

    >>> import leadline as ll
    >>> which_is_original(ll.data.iris())
    Data(iris, which is original: train 194, val 46, test 60; x (4,); y original: swapped or as it was)
    """
    real("fraction", fraction, 0, 1, above=True, usual=0.3)
    g = torch.Generator().manual_seed(whole("seed", seed, 0))
    swap: Callable[[Tensor], Tensor] = lambda x: torch.where(  # noqa: E731
        torch.rand(x.shape, generator=g) < fraction, _shuffled(x, g), x
    )

    def both(split: Split) -> Split:
        x = data.inputs.encode(split.x).flatten(1)
        y = torch.cat([torch.ones(len(x)), torch.zeros(len(x))]).long()
        return Split(torch.cat([x, swap(x)]), y, None, None if split.rows is None else split.rows.repeat(2))

    train, val, test = both(data.train), both(data.val), both(data.test)
    return data.with_(
        train=train,
        val=val,
        test=test,
        target=Target("binary", "original", ("swapped", "as it was")),
        inputs=Identity(),
        name=f"{data.name}, which is original",
        recipe=None,
    )


def _shuffled(x: Tensor, g: torch.Generator) -> Tensor:
    """Each column in an order of its own."""
    order = torch.rand(x.shape, generator=g).argsort(0)
    return x.gather(0, order)
