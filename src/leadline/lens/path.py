"""The way that a run takes through the space of its weights, kept while it goes on."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from leadline.engine.events import Event, RunStarted, StepsDone
from leadline.settings import whole


class Path:
    """The weights that a run passes through: a listener for `fit`.

    Args:
        model: whose weights to keep.
        every: steps between two of them, at least 1.

    >>> import leadline as ll
    >>> model, data = ll.models.Linear(2, 1), ll.data.moons(num=60)
    >>> path = Path(model)
    >>> _ = ll.fit(model, data, epochs=3, progress=False, listeners=[path])
    >>> path.weights.shape[1]  # two slopes and an offset
    3
    """

    def __init__(self, model: nn.Module, every: int = 1):
        self.model, self.every = model, whole("every", every)
        self.steps, self._weights = list[int](), list[Tensor]()
        self._buffers = list[dict[str, Tensor]]()

    def __call__(self, event: Event) -> None:
        if isinstance(event, RunStarted) or (
            isinstance(event, StepsDone) and event.step >= (self.steps[-1] if self.steps else 0) + self.every
        ):
            self.steps.append(event.step)
            self._weights.append(flat(self.model).cpu())
            self._buffers.append({name: buffer.detach().cpu().clone() for name, buffer in self.model.named_buffers()})

    def __len__(self) -> int:
        return len(self.steps)

    def state(self, k: int) -> dict[str, Tensor]:
        """Parameters and buffers by name, as they were at the k-th step that was kept."""
        return {**unflat(self.model, self._weights[k]), **self._buffers[k]}

    @property
    def weights(self) -> Tensor:
        """One row of all parameters for each kept step, (steps, P)."""
        return torch.stack(self._weights) if self._weights else torch.zeros(0, len(flat(self.model)))


def flat(model: nn.Module) -> Tensor:
    """All parameters in one row, in the module's order; a copy."""
    return torch.cat([p.detach().flatten() for p in model.parameters()]).clone()


def unflat(model: nn.Module, weights: Tensor) -> dict[str, Tensor]:
    """The parameters by name that `flat` laid in one row; views of it."""
    own = dict(model.named_parameters())
    parts = weights.split([p.numel() for p in own.values()])
    return {name: part.view(p.shape) for (name, p), part in zip(own.items(), parts, strict=True)}
