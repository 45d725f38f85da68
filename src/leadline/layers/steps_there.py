"""Rows of different lengths in one recurrent layer: which steps are there, without packing and without asking the host.

    order_b = the steps of row b that are there, as they come, then the others            (1)
    y_b     = f(x_b[order_b]), put back at order_b;   0 where a step is not there           (2)
    last_b  = y_b at the last step that is there;     the first state where none is         (3)

A recurrence never looks ahead, so what stands after the last step that is there changes nothing before it: a fast
kernel may run over it. Where rows are padded at their end, as data are, (1) leaves everything in its place; gaps inside
of a row are closed by it.

Shapes     there (B, T) of truth values;  x, y (B, T, D);  order (B, T);  last (B, D)
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn

from leadline.errors import ShapeError

State = tuple[Tensor, ...]


def check_steps(
    layer: nn.Module,
    x: Tensor,
    state: State | None,
    there: Tensor | None,
    parts: int = 1,
    width: tuple[int, ...] | None = None,
) -> None:
    """Refuses what does not fit a recurrent layer. Kernels may read it without a word, past the end of their weights.

    Args:
        layer: with its `dim` and `dim_output`.
        parts: of its state.
        width: of each part; `dim_output` by default.

    >>> from leadline.layers.gru import GRU
    >>> check_steps(GRU(3, 5), torch.zeros(2, 7, 4), None, None)
    Traceback (most recent call last):
    leadline.errors.ShapeError: GRU reads (B, T, 3). Got x of shape (2, 7, 4). Build it with dim=4, or pass 3 channels.
    """
    name, dim = type(layer).__name__, layer.dim
    if x.dim() != 3 or x.shape[2] != dim:
        do = f"Build it with dim={x.shape[2]}, or pass {dim} channels" if x.dim() == 3 else "Pass rows of steps"
        raise ShapeError(f"{name} reads (B, T, {dim})", got=f"x of shape {tuple(x.shape)}", do=do)
    if there is not None and (there.dtype != torch.bool or there.shape != x.shape[:2]):
        raise ShapeError(
            "there must be a truth value for each step of x",
            got=f"there of shape {tuple(there.shape)} and {there.dtype}, x of shape {tuple(x.shape)}",
            do="Pass (B, T) of truth values",
        )
    own = (x.shape[0], *((layer.dim_output,) if width is None else width))
    if state and (len(state) != parts or any(part.shape != own for part in state)):
        shapes = ", ".join(str(tuple(part.shape)) for part in state)
        raise ShapeError(
            f"the state of {name} must be {parts} of shape {own} for x of {x.shape[0]} rows",
            got=f"{len(state)}: {shapes}",
            do="Pass the state that the layer gave, of the same rows",
        )


def order_of(there: Tensor) -> Tensor:
    """Eq. 1.

    >>> order_of(torch.tensor([[True, False, True], [True, True, False]])).tolist()
    [[0, 2, 1], [0, 1, 2]]
    """
    return (~there).to(torch.uint8).argsort(dim=1, stable=True)


def taken(x: Tensor, order: Tensor) -> Tensor:
    """The steps of each row in an order of its own.

    >>> taken(torch.tensor([[[5.0], [6.0], [7.0]]]), torch.tensor([[0, 2, 1]])).flatten().tolist()
    [5.0, 7.0, 6.0]
    """
    return x.gather(1, order[..., None].expand(*order.shape, x.shape[-1]))


def put_back(y: Tensor, order: Tensor, there: Tensor) -> Tensor:
    """Eq. 2, of steps that were taken in this order.

    >>> there = torch.tensor([[True, False, True]])
    >>> put_back(torch.tensor([[[5.0], [7.0], [6.0]]]), order_of(there), there).flatten().tolist()
    [5.0, 0.0, 7.0]
    """
    placed = torch.zeros_like(y).scatter(1, order[..., None].expand_as(y), y)
    return placed.masked_fill(~there[..., None], 0.0)


def closed(x: Tensor, there: Tensor) -> tuple[Tensor, Tensor]:
    """Rows without gaps: x in the order of eq. 1, 0 after what is there; and that order."""
    order = order_of(there)
    return taken(x.masked_fill(~there[..., None], 0.0), order), order


def at_last(y: Tensor, there: Tensor, first: Tensor) -> Tensor:
    """Eq. 3 of rows without gaps.

    >>> y = torch.tensor([[[5.0], [6.0]], [[7.0], [8.0]]])
    >>> at_last(y, torch.tensor([[True, False], [False, False]]), torch.ones(2, 1)).tolist()
    [[5.0], [1.0]]
    """
    count = there.sum(1)
    last = (count - 1).clamp(min=0)[:, None, None].expand(-1, 1, y.shape[-1])
    return torch.where(count[:, None] > 0, y.gather(1, last)[:, 0], first.to(y.dtype))


def loop(step: Callable[[Tensor, State], State], x: Tensor, state: State, there: Tensor | None) -> tuple[Tensor, State]:
    """A recurrence one step at a time: the first part of its state at every step that is there, else 0; and the state.

    Args:
        step: from an input (B, D) and a state to the next state.

    >>> total, (last,) = loop(lambda x, s: (x + s[0],), torch.ones(1, 3, 1), (torch.zeros(1, 1),), None)
    >>> total.flatten().tolist(), last.item()
    ([1.0, 2.0, 3.0], 3.0)
    """
    rows = [None] * x.shape[1] if there is None else there[..., None].unbind(1)
    y = []
    for x_t, has in zip(x.unbind(1), rows, strict=True):
        new = step(x_t, state)
        state = new if has is None else tuple(torch.where(has, a, b) for a, b in zip(new, state, strict=True))
        y.append(state[0][:, None])
    y = y or [state[0][:, None][:, :0]]
    every = y[0] if len(y) == 1 else torch.cat(y, 1)  # one step is not copied
    return every if there is None else every.masked_fill(~there[..., None], 0.0), state
