"""Learning curves: the score against the rows that were learned from, and against the epochs that were trained.

    by_rows      for n in rows, seed s: fit to n training rows drawn by s, score on all test rows             (1)
    by_epochs    one run a seed, scored after every few epochs                                                 (2)

More rows nearly always mean a better score (1). An exception is n near what the network can just fit: there more rows
can hurt (Nakkiran et al., 2019), as more units (see `by_width`) and more epochs (2) can.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import nn

from leadline.data.data import Data
from leadline.data.resample import label_noise
from leadline.errors import UserError
from leadline.population import fit_many
from leadline.selection.sweep import Sweep, score, sweep
from leadline.settings import whole


def by_rows(
    model: nn.Module | Callable[[], nn.Module],
    data: Data,
    rows: Sequence[int],
    *,
    noise: Sequence[float] = (0.0,),
    seeds: int = 5,
    **settings: Any,
) -> Sweep:
    """Train and test score against the number of training rows (1).

    Args:
        rows: numbers of training rows, each at least 1 and at most those there are.
        noise: shares of the labels that are drawn anew from all classes before the rows are drawn, one line each.
        seeds: of rows, labels, first weights and order, at least 1.
        settings: of `fit_many` and `sweep`. Pass `batch` and `epochs` as they are meant: an epoch of fewer rows has
            fewer steps.

    >>> import leadline as ll
    >>> found = by_rows(ll.models.Linear(2, 1), ll.data.moons(num=200), [10, 100], seeds=2, epochs=2, progress=False)
    >>> found.axis, found.rows.tolist()
    ('training rows', [10, 100])
    """
    most = len(data.train)
    for count in rows:
        if not 1 <= whole("rows", count) <= most:
            raise UserError(f"rows must be from 1 to {most}", got=f"{count}", do=f"Pass rows=[{most // 10}, {most}]")
    several = len(noise) > 1
    found = [
        sweep(
            model,
            data,
            {count: {"data": partial(_fewer, data, count, share)} for count in rows},
            axis="training rows",
            seeds=seeds,
            log=bool(max(rows) >= 8 * min(rows)),
            **settings,
        )
        for share in noise
    ]
    return _stacked(found, [named(share) if several else "" for share in noise])


def by_epochs(
    model: nn.Module | Callable[[], nn.Module],
    data: Data,
    *,
    noise: Sequence[float] = (0.0,),
    epochs: int = 100,
    every: int = 1,
    seeds: int = 5,
    metric: str = "",
    **settings: Any,
) -> Sweep:
    """Train and test score while training goes on (2).

    Args:
        noise: as in `by_rows`.
        epochs: of training.  every: how many lie between two points.
        metric: as in `sweep`; the score of training rows is of the weights after the epoch, not a mean over it.

    >>> import leadline as ll
    >>> found = by_epochs(ll.models.Linear(2, 1), ll.data.moons(num=90), epochs=6, every=2, seeds=2, progress=False)
    >>> found.at.tolist(), found.test.shape
    ([2.0, 4.0, 6.0], (1, 3, 2))
    """
    every, epochs = whole("every", every, 1), whole("epochs", epochs, 1)
    members = []
    for share in noise:
        for seed in range(whole("seeds", seeds, 1)):
            own = noisy(data, share, seed)
            # rows that validate are scored on the way, and nothing else is made of them: there is no patience
            members += [{"seed": seed, "data": own.with_(val=own[split])} for split in ("train", "test")]
    population = fit_many(model, data, members, epochs=epochs, validate_every=every, **settings)
    chosen = metric or (
        "error" if population[0].likelihood.headline == "accuracy" else population[0].likelihood.headline
    )
    records = [[record for record in run.history if "val" in record] for run in population]
    ended = min(map(len, records))  # a run that diverged ends all
    scores = np.array([[score(record["val"], chosen) for record in own[:ended]] for own in records])
    scores = scores.reshape(len(noise), seeds, 2, ended).transpose(2, 0, 3, 1)
    parameters = sum(p.numel() for p in population[0].model.parameters() if p.requires_grad)
    return Sweep(
        "epochs",
        np.array([record["epoch"] for record in records[0][:ended]], float),
        tuple(named(share) if len(noise) > 1 else "" for share in noise),
        chosen,
        scores[0],
        scores[1],
        np.full(ended, parameters),
        np.full(ended, len(data.train)),
        log=epochs >= 50 * every,
    )


def noisy(data: Data, share: float, seed: int) -> Data:
    """The data with a share of the training labels drawn anew from all classes, so that some stay as they were."""
    return label_noise(data, share, seed, uniform=True) if share else data


def named(share: float) -> str:
    """
    >>> named(0.15), named(0.0)
    ('15 % random labels', 'clean labels')
    """
    return f"{100 * share:g} % random labels" if share else "clean labels"


def _fewer(data: Data, count: int, share: float, seed: int) -> Data:
    """A drawn part of the training rows; a smaller count of the same seed is part of a larger one."""
    order = torch.randperm(len(data.train), generator=torch.Generator().manual_seed(seed))
    whole_set = noisy(data, share, seed)
    return whole_set.with_(train=whole_set.train.take(order[:count]), name=f"{data.name}, {count} rows", recipe=None)


def _stacked(found: Sequence[Sweep], names: Sequence[str]) -> Sweep:
    first = found[0]
    train, test = (np.concatenate([part._of(split) for part in found]) for split in ("train", "test"))
    return Sweep(first.axis, first.at, tuple(names), first.metric, train, test, first.parameters, first.rows, first.log)
