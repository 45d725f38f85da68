"""States that go on from batch to batch: backpropagation through time, cut at the seam (Williams and Peng, 1990).

    h^k_0 = stop(h^{k-1}_T)        batch k goes on where batch k - 1 stopped, and no gradient goes back          (1)

A text lies in B streams, and row b of a batch is the next stretch of stream b. Inside `Carried.on` a model begins with
the states that are here and leaves those that it ends with; outside, a row begins with a new state.

Notation   h^k_t -> state t of batch k;  stop hands on a value without its gradient
Shapes     a part of a state (B, …); the first rows of it, where a batch has fewer
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn

from leadline.errors import UserError
from leadline.layers.steps_there import State


class Carried(nn.Module):
    """The states of all layers for B rows, as buffers: they are no weights, and are saved beside those.

    Args:
        begins: the state of each layer before the first step.

    >>> from leadline.layers import LSTM
    >>> carried, layer = Carried([(torch.zeros(1, 3), torch.zeros(1, 3))]), LSTM(2, 3)
    >>> x = torch.ones(1, 4, 2)
    >>> for part in x.split(2, 1):
    ...     with carried.on(1):
    ...         y, state = layer(part, begun(0))
    ...         ended(0, state)
    >>> torch.testing.assert_close(y, layer(x)[0][:, 2:])
    """

    def __init__(self, begins: Sequence[State]):
        super().__init__()
        self._parts = [len(state) for state in begins]
        for number, state in enumerate(begins):
            for k, part in enumerate(state):
                self.register_buffer(f"begin_{number}_{k}", part.detach().clone(), persistent=False)
                self.register_buffer(f"state_{number}_{k}", part.detach().clone())

    @torch.no_grad()
    def restart(self) -> None:
        """Every stream begins."""
        for number, count in enumerate(self._parts):
            for k in range(count):
                self._part("state", number, k).copy_(self._part("begin", number, k))

    @contextmanager
    def on(self, rows: int) -> Iterator[None]:
        """Inside, the first `rows` streams go on; afterwards the states are those that they ended with."""
        before, _now.passing = _now.passing, _Passing(self, rows)
        try:
            yield
        finally:
            passing, _now.passing = _now.passing, before
        with torch.no_grad():
            for number, state in passing.ended.items():
                for k, part in enumerate(state):
                    self._part("state", number, k)[:rows].copy_(part.detach())

    def state_of(self, number: int, rows: int) -> State:
        """What layer `number` begins with."""
        return tuple(self._part("state", number, k)[:rows].clone() for k in range(self._parts[number]))

    def _part(self, name: str, number: int, k: int) -> Tensor:
        part: Any = getattr(self, f"{name}_{number}_{k}")
        return part


class _Passing:
    """One batch on its way through the layers."""

    def __init__(self, carried: Carried, rows: int):
        self.carried, self.rows = carried, rows
        self.ended: dict[int, State] = {}


class _Now:
    passing: _Passing | None = None


_now = _Now()


def begun(number: int) -> State | None:
    """The state that layer `number` of a model begins with; None begins anew."""
    passing = _now.passing
    return None if passing is None else passing.carried.state_of(number, passing.rows)


def ended(number: int, state: State) -> None:
    """Leave the state that layer `number` ended with to the next batch, where there is one."""
    if _now.passing is not None:
        _now.passing.ended[number] = state


def carried_by(model: nn.Module, rows: int) -> Carried:
    """First states of so many rows of a model, on its device, ready to be carried.

    >>> from leadline.models import Recurrent
    >>> [tuple(state.shape) for state in carried_by(Recurrent.tiny(), 5).state_dict().values()]
    [(5, 6), (5, 6)]
    """
    make: Any = getattr(model, "first_states", None)
    if make is None or getattr(model, "bidirectional", False):
        what = "one that reads both ways" if make is not None else type(model).__name__
        raise UserError(
            "a state can be carried by a recurrent network that reads ahead",
            got=what,
            do="Take the model Recurrent, or leave carry_state out",
        )
    p = next(model.parameters())
    return Carried(make(rows, p.device, p.dtype))
