"""Weights on their way: copies of a model's parameters at the ends of epochs.

For early stopping from stored snapshots, for averages of weights, and for the posterior of `swag`.
"""

from __future__ import annotations

from typing import Any

from torch import Tensor, nn

from leadline.settings import whole


class Snapshots:
    """A listener for `fit` that keeps the parameters at the end of every `every`-th epoch from `start` on.

    >>> import leadline as ll
    >>> model = ll.models.Linear(2, 1)
    >>> kept = Snapshots(model, every=2)
    >>> _ = ll.fit(model, ll.data.moons(num=60), epochs=6, listeners=[kept], progress=False)
    >>> kept.epochs, len(kept.weights)
    ([2, 4, 6], 3)
    """

    def __init__(self, model: nn.Module, every: int = 1, start: int = 1):
        self.model, self.every, self.start = model, whole("every", every), whole("start", start)
        self.epochs: list[int] = []
        self.weights: list[dict[str, Tensor]] = []

    def __call__(self, event: Any) -> None:
        epoch = event.epoch if hasattr(event, "metrics") else 0  # only the end of an epoch has metrics
        if epoch >= self.start and epoch % self.every == 0:
            self.epochs.append(epoch)
            self.weights.append({name: p.detach().clone() for name, p in self.model.named_parameters()})
