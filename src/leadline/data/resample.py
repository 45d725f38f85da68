"""Other training rows out of the same ones: drawn again with replacement, or with some labels changed.

    bootstrap     n rows drawn from n with replacement: about 63 % of them come, 1 - 1/e, some several times        (1)
    label_noise   a fraction of the training labels is switched to another class, once and for all                  (2)

Validation and test rows stay as they are. Fitting to many of (1) and averaging is bagging.
"""

from __future__ import annotations

import torch

from leadline.data.data import Data
from leadline.errors import DataError
from leadline.settings import real, whole


def bootstrap(data: Data, seed: int = 0) -> Data:
    """The data with training rows drawn again (1); `data.train.rows` tells which, and how often.

    >>> import leadline as ll
    >>> data = ll.data.moons(num=100)
    >>> again = bootstrap(data, seed=1)
    >>> len(again.train) == len(data.train), len(again.train.rows.unique()) < len(data.train)
    (True, True)
    """
    g = torch.Generator().manual_seed(whole("seed", seed, 0))
    index = torch.randint(len(data.train), (len(data.train),), generator=g)
    train = data.train.take(index)
    if train.rows is None:
        train = type(train)(train.x, train.y, train.weight, index)
    return data.with_(train=train, name=f"{data.name}, bootstrap {seed}", recipe=None)


def label_noise(data: Data, fraction: float = 0.15, seed: int = 0, *, uniform: bool = False) -> Data:
    """The data with a fraction of the training labels switched (2).

    Args:
        fraction: of the rows, 0 <= fraction <= 1, to the nearest row.
        uniform: draw the new label from all classes, so that some are the true one, and not from the others alone.

    >>> import leadline as ll
    >>> data = ll.data.moons(num=100)
    >>> int((label_noise(data, 0.2).train.y != data.train.y).sum()), len(data.train)
    (13, 65)
    """
    classes = 2 if data.target.kind == "binary" else len(data.target.classes)
    if data.train.y.is_floating_point() or data.train.y.dim() != 1 or classes < 2:
        raise DataError("label noise must be of classes", got=f"{data.target}", do="Use data whose target is classes")
    count = round(real("fraction", fraction, 0, 1 + 1e-9) * len(data.train))
    g = torch.Generator().manual_seed(whole("seed", seed, 0))
    index = torch.randperm(len(data.train), generator=g)[:count]
    further = torch.randint(0 if uniform else 1, classes, (count,), generator=g)
    y = data.train.y.clone()
    y[index] = (y[index] + further.to(y.dtype)) % classes
    train = type(data.train)(data.train.x, y, data.train.weight, data.train.rows)
    return data.with_(train=train, name=f"{data.name}, {count} labels switched", recipe=None)
