"""How raw rows become what a network reads. Learned on the training split, stored with the model as plain JSON."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

import torch
from torch import Tensor

from leadline.config import Configured
from leadline.data.account import counted
from leadline.data.graph import Graph
from leadline.errors import DataError, ShapeError


class Inputs(ABC, Configured):
    """`encode` takes raw rows to network inputs; `read` takes whatever a user holds to raw rows."""

    names: tuple[str, ...] = ()
    #: whether raw rows are kept as they are, being smaller, and encoded when a batch is gathered
    late: bool = False
    #: whether `drawn` draws, and needs keys
    draws: bool = False
    #: what rows are numbers of nodes, edges or graphs in; a network is given it before it is asked
    graph: Graph | None = None
    #: rows that are computed together where nothing is learned; None is as many as is wise
    together: int | None = None
    #: parts of the config that training never sees, and that follow from the rows
    aside: tuple[str, ...] = ()

    @abstractmethod
    def encode(self, x: Tensor) -> Tensor:
        """Network inputs of raw rows."""

    def read(self, rows: Any) -> Tensor:
        """Raw rows out of a tensor, an array, nested lists, or a data frame of numbers."""
        if isinstance(rows, Tensor):
            return rows if rows.is_floating_point() else rows.float()
        try:
            return torch.as_tensor(rows.to_numpy(copy=True) if hasattr(rows, "to_numpy") else rows, dtype=torch.float32)
        except (TypeError, ValueError, RuntimeError) as error:
            raise DataError(
                "rows must be numbers: a tensor, an array, nested lists or a data frame",
                got=f"{type(rows).__name__} ({error})",
                do="Pass one list of numbers for each row",
            ) from None

    def brought(self, rows: Any) -> Any:
        """What a user passes to predict, for `read`; a graph among it is made ready to be asked of (`NewGraph`)."""
        return rows

    def drawn(self, x: Tensor, y: Tensor, keys: Tensor | None) -> tuple[Tensor, Tensor]:
        """What is asked of encoded rows, where that is drawn anew each time, such as which words are hidden.

        Args:
            keys: (B,), each row's own: the same keys draw the same. None where the inputs do not draw.
        """
        return x, y

    def ordered(self, x: Tensor, order: Tensor) -> Tensor:
        """The order in which an epoch takes the rows, given one that was drawn at random: rows that are cheaper
        together may be moved together.
        """
        return order

    def sizes(self, shape: tuple[int, ...]) -> dict[str, Any]:
        """What a model's constructor is told of rows of this shape beyond it, by the names of its arguments."""
        return {}

    def room(self, shape: tuple[int, ...]) -> int:
        """Bytes that a network needs for its answer to a row, where that is far more than the row itself."""
        return 0

    def attachments(self) -> dict[str, str]:
        """Texts that belong to the inputs and are kept in files of their own beside a run, by the files' names: that
        of tokenizer.json is handed back to the constructor as its argument `tokenizer`.
        """
        return {}

    def dim(self, x: Tensor) -> int:
        """Width of an encoded row, given some raw rows."""
        return self.encode(x[:1])[0].numel()


class Identity(Inputs):
    """Raw rows are network inputs."""

    def __init__(self, names: tuple[str, ...] = ()):
        self.names = tuple(names)

    def encode(self, x: Tensor) -> Tensor:
        return x


class Standardize(Inputs):
    """Each column to mean 0 and deviation 1: `(x - shift) / scale`, with the training split's figures.

    >>> inputs = Standardize.fit(torch.tensor([[1.0], [3.0]]))
    >>> inputs.encode(torch.tensor([[5.0]])).tolist()
    [[3.0]]
    """

    def __init__(self, shift: tuple[float, ...], scale: tuple[float, ...], names: tuple[str, ...] = ()):
        self.shift, self.scale, self.names = tuple(shift), tuple(scale), tuple(names)

    @classmethod
    def fit(cls, x: Tensor, names: tuple[str, ...] = ()) -> Standardize:
        """Statistics of `x`, the training split's rows; a constant column keeps its scale."""
        x = x.double()
        scale = x.std(0, unbiased=False)
        scale = torch.where(scale > 0, scale, torch.ones_like(scale))
        return cls(tuple(x.mean(0).tolist()), tuple(scale.tolist()), names)

    def encode(self, x: Tensor) -> Tensor:
        if x.shape[1:] != (len(self.shift),):
            raise ShapeError(
                f"a row must have {counted(len(self.shift), 'value')}",
                got=f"rows of shape {tuple(x.shape[1:])}",
                do="Pass the columns that the model was trained on, in their order",
            )
        shift = torch.tensor(self.shift, dtype=x.dtype, device=x.device)
        scale = torch.tensor(self.scale, dtype=x.dtype, device=x.device)
        return (x - shift) / scale


class Rescale(Inputs):
    """Every value by one shift and one scale, `(x - shift) / scale`: for images and series, whose values share a unit.

    >>> inputs = Rescale.fit(torch.tensor([[[0.0, 4.0]], [[0.0, 4.0]]]))
    >>> inputs.encode(torch.tensor([[[6.0, 2.0]]])).tolist()
    [[[2.0, 0.0]]]
    """

    def __init__(self, shift: float, scale: float, names: tuple[str, ...] = ()):
        self.shift, self.scale, self.names = shift, scale, tuple(names)

    @classmethod
    def fit(cls, x: Tensor, names: tuple[str, ...] = ()) -> Rescale:
        """Statistics of `x`, the training split's rows; constant values keep their scale."""
        scale = float(x.double().std(unbiased=False))
        return cls(float(x.double().mean()), scale if scale > 0 else 1.0, names)

    def encode(self, x: Tensor) -> Tensor:
        return (x - self.shift) / self.scale
