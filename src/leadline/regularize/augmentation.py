"""What augmentations share: other pictures of the same things, and answers that follow (UDL 10.1.1).

    f[t[x]] = f[x]         invariance: a class stays what it is                                        (1)
    f[t[x]] = t[f[x]]      equivariance: what is said about places moves as the picture does           (2)

An augmentation shows t[x] in place of x, and in place of y what holds for t[x]: for a class y itself (1); for masks,
boxes and points t[y] (2). t is drawn for each row from its key, so a row is shown alike whatever rows are beside it,
in whatever order, and whether or not the run was interrupted.

Rows arrive as the network reads them. `meet` tells what they were: colours change on the scale from 0 to 1, and what
has been moved in from outside is 0, the mean colour.
"""

from __future__ import annotations

import dataclasses
from abc import abstractmethod

import torch
from torch import Tensor

from leadline.data.data import Batch
from leadline.data.inputs import Identity, Inputs, Rescale
from leadline.data.pictures import Pictures
from leadline.data.target import Target
from leadline.errors import ShapeError, UserError
from leadline.layers import noise
from leadline.regularize import geometry
from leadline.regularize.regularizer import Regularizer


class Augmentation(Regularizer):
    """A concrete one overrides `rows`.

    Without `meet` a row's y must be a single number, which stays, and values are taken to be on the scale from 0 to 1.
    """

    mechanism = "more effective data"
    draws_noise = True
    #: kinds of target that it cannot follow
    refused: tuple[str, ...] = ()
    #: whether it changes colours, so that it must know the scale of x
    colours: bool = False
    #: whether it also has a meaning for series, (B, T) and (B, C, T): pictures of one row
    series: bool = False
    _mean: Tensor
    _std: Tensor
    _partners: Tensor | None

    def __init__(self) -> None:
        super().__init__()
        self.kind = ""
        self.register_buffer("_partners", None, persistent=False)
        for name, value in (("_mean", 0.0), ("_std", 1.0)):
            self.register_buffer(name, torch.full((1, 1, 1), value, dtype=torch.float64), persistent=False)

    def meet(self, inputs: Inputs, target: Target) -> None:
        if target.kind in self.refused:
            raise UserError(
                f"{self.name} must have one answer for a whole picture",
                got=f"a target of {target.kind}",
                do=f"Leave {self.name} out",
            )
        known = (Pictures, Identity) if self.colours else (Pictures, Identity, Rescale)
        if not isinstance(inputs, known):
            raise UserError(
                f"{self.name} needs pictures" + (" whose colours are known" if self.colours else " or series"),
                got=f"rows that are read by {type(inputs).__name__}",
                do=f"Load pictures with ll.data.images(…), or leave {self.name} out",
            )
        self.kind = target.kind
        order = partners(target.classes) if target.kind == "points" else ()
        self._partners = torch.tensor(order, device=self._mean.device) if order else None
        if isinstance(inputs, Pictures):
            self._mean = self._mean.new_tensor(inputs.mean).view(-1, 1, 1)
            self._std = self._std.new_tensor(inputs.std).view(-1, 1, 1)

    @abstractmethod
    def rows(self, batch: Batch) -> Batch:
        """The rows as they are shown."""

    def drawn(self, batch: Batch, count: int, site: int) -> tuple[Tensor, ...]:
        """`count` uniform numbers in [0, 1) for each row, (B,) each."""
        if batch.keys is None:
            return torch.rand(len(batch), count, device=batch.x.device).unbind(1)
        return noise.uniform(batch.keys, (count,), site).unbind(1)

    def pictures(self, x: Tensor) -> Tensor:
        """x as (B, C, Y, X)."""
        if x.dim() == 4:
            return x
        if self.series and x.dim() in (2, 3):
            return x[:, None, None] if x.dim() == 2 else x[:, :, None]
        raise ShapeError(
            f"{self.name} must have pictures: rows of channels, rows and columns" + " or series" * self.series,
            got=f"rows of shape {tuple(x.shape[1:])}",
            do=f"Load pictures with ll.data.images(…), or leave {self.name} out",
        )

    def values(self, x: Tensor) -> Tensor:
        """Pictures on the scale from 0 to 1."""
        return self.pictures(x) * self._std.to(x.dtype) + self._mean.to(x.dtype)

    def encoded(self, values: Tensor) -> Tensor:
        """The inverse of `values`."""
        return (values - self._mean.to(values.dtype)) / self._std.to(values.dtype)

    def followed(self, y: Tensor, ahead: Tensor, size: tuple[int, int]) -> Tensor:
        """y for pictures of `size` (rows, columns) that were moved by `ahead`."""
        if self.kind == "pixels":
            return geometry.nearest(y, geometry.inverse(ahead))
        if self.kind == "boxes":
            return geometry.moved_boxes(y, ahead, size)
        if self.kind == "points":
            return geometry.moved_points(y, ahead, size, self._partners)
        if not self.kind and y.dim() > 2:
            raise UserError(
                f"{self.name} must know what y is before it moves pictures",
                got=f"y of shape {tuple(y.shape)} and no target",
                do="Call meet(inputs, target) first",
            )
        return y


class Moving(Augmentation):
    """Pictures are moved by an affine map each. A concrete one overrides `ahead`, and `moved` where it is exact."""

    @abstractmethod
    def ahead(self, batch: Batch, size: tuple[int, int]) -> Tensor:
        """The map of each row, as in `leadline.regularize.geometry`."""

    def moved(self, x: Tensor, ahead: Tensor) -> Tensor:
        """Pictures (B, C, Y, X), moved."""
        return geometry.bilinear(x, geometry.inverse(ahead))

    def rows(self, batch: Batch) -> Batch:
        pictures = self.pictures(batch.x)
        size = pictures.shape[-2], pictures.shape[-1]
        ahead = self.ahead(batch, size)
        x, y = self.moved(pictures, ahead), self.followed(batch.y, ahead, size)
        return dataclasses.replace(batch, x=x.reshape(batch.x.shape), y=y)


def partners(names: tuple[str, ...]) -> tuple[int, ...]:
    """For each point the one that it becomes in a mirror, by name: left and right change places; () where none does.

    >>> partners(("nose", "left eye", "right eye")), partners(("nose", "chin"))
    ((0, 2, 1), ())
    """
    places = {name: k for k, name in enumerate(names)}
    order = tuple(places.get(_other_side(name), k) for k, name in enumerate(names))
    return order if order != tuple(range(len(names))) else ()


def _other_side(name: str) -> str:
    for one, other in (("left", "right"), ("Left", "Right"), ("LEFT", "RIGHT")):
        if one in name:
            return name.replace(one, other)
        if other in name:
            return name.replace(other, one)
    return name
