"""Pictures as a network reads them: bytes stay bytes until a batch is gathered, and then become numbers around 0.

    z_c = (x_c / 255 - mean_c) / std_c        for each channel c                                  (1)

A picture of the training split has mean 0 and deviation 1 in each channel. What a user holds (a file, a folder, an
array, a picture of Pillow's) is brought to the trained size first.

>>> import leadline as ll
>>> data = ll.data.scenes(num=20, size=32)
>>> z = data.inputs.encode(data.train.x)
>>> z.dtype, abs(float(z.mean())) < 1e-4
(torch.float32, True)
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from leadline.data.account import counted
from leadline.data.decode import FITS, array_of, decode_all, turned
from leadline.data.folder import no_pictures, survey
from leadline.data.inputs import Inputs
from leadline.errors import DataError, ShapeError, UserError
from leadline.names import lookup
from leadline.settings import given, real, whole

_MOST = 8192  # pictures whose pixels make up mean and deviation
_AT_ONCE = 512


class Pictures(Inputs):
    """Raw rows are uint8 (N, C, Y, X); a network reads eq. 1.

    Args:
        mean, std: of each channel over the training split, for values from 0 to 1; std above 0.
        size: rows and columns.
        channels: 1 (grey) or 3 (red, green, blue).
        fit: how a picture of another shape is brought to size: "crop" the middle, "stretch", or "pad" with black.

    >>> inputs = Pictures((0.5,), (0.25,), (1, 2), 1, "crop")
    >>> inputs.encode(torch.tensor([[[[0, 255]]]], dtype=torch.uint8)).round(decimals=3).tolist()
    [[[[-2.0, 2.0]]]]
    """

    late = True

    def __init__(
        self, mean: Sequence[float], std: Sequence[float], size: Sequence[int], channels: int = 3, fit: str = "crop"
    ):
        if channels not in (1, 3):
            raise UserError("channels must be 1 or 3", got=given("channels", channels), do="Pass 3 for colours")
        if len(mean) != channels or len(std) != channels or len(size) != 2:
            raise UserError(
                "mean and std must have a value for each channel, size two",
                got=f"{len(mean)}, {len(std)} and {len(size)} for {counted(channels, 'channel')}",
                do="Let Pictures.of(x) take them from the training split",
            )
        self.mean = tuple(real("mean", value) for value in mean)
        self.std = tuple(real("std", value, 0, above=True) for value in std)
        self.size = (whole("size", size[0]), whole("size", size[1]))
        self.channels, self.fit = channels, lookup(fit, {word: word for word in FITS}, "fit")

    @classmethod
    def of(cls, x: Tensor, fit: str = "crop") -> Pictures:
        """Statistics of `x`, the training split's pictures (N, C, Y, X) uint8; a constant channel keeps its scale.

        >>> Pictures.of(torch.tensor([0, 255], dtype=torch.uint8).view(2, 1, 1, 1)).config
        {'mean': [0.5], 'std': [0.5], 'size': [1, 1], 'channels': 1, 'fit': 'crop'}
        """
        N, C, Y, X = x.shape
        counts = torch.zeros(C, 256, dtype=torch.int64)
        rows = torch.arange(0, N, max(1, -(-N // _MOST)))
        for some in rows.split(_AT_ONCE):
            part = x[some]
            for c in range(C):
                counts[c] += torch.bincount(part[:, c].flatten(), minlength=256)
        share = counts.double() / counts.sum(1, keepdim=True)
        value = torch.arange(256).double() / 255
        mean = share @ value
        std = (share * (value - mean[:, None]).square()).sum(1).sqrt()
        std = torch.where(std > 0, std, torch.ones_like(std))
        return cls(mean.tolist(), std.tolist(), (Y, X), C, fit)

    def encode(self, x: Tensor) -> Tensor:
        if x.dim() != 4 or x.shape[1] != self.channels:
            raise ShapeError(
                f"pictures must have the shape (N, {self.channels}, Y, X)",
                got=f"x of shape {tuple(x.shape)}",
                do="Let read(…) of these inputs bring them to it",
            )
        dtype = x.dtype if x.is_floating_point() else torch.float32
        scale = _filled([1 / (255 * std) for std in self.std], x, dtype)
        shift = _filled([-mean / std for mean, std in zip(self.mean, self.std)], x, dtype)
        return torch.addcmul(shift, x.to(dtype), scale)  # eq. 1

    def decode(self, z: Tensor) -> Tensor:
        """The pictures, uint8, of what a network reads: eq. 1 backwards, rounded.

        >>> inputs = Pictures((0.5,), (0.25,), (1, 2), 1)
        >>> inputs.decode(inputs.encode(torch.tensor([[[[7.0, 300.0]]]]))).tolist()
        [[[[7, 255]]]]
        """
        value = z * _filled(self.std, z, z.dtype) + _filled(self.mean, z, z.dtype)
        return (value * 255).round().clamp(0, 255).to(torch.uint8)

    def read(self, rows: Any) -> Tensor:
        """Raw rows out of what a user holds.

        Args:
            rows: a file, a folder, or a list of files; a picture of Pillow's; an array (Y, X), (Y, X, C) or
                (3, Y, X) of whole numbers from 0 to 255; a list of those; or a tensor (N, C, Y, X), which may hold
                fractions of them.

        >>> inputs = Pictures((0.5,), (0.25,), (2, 2), 1)
        >>> inputs.read(np.zeros((5, 4), np.uint8)).shape, inputs.read([np.zeros((2, 2)), np.ones((9, 9))]).shape
        (torch.Size([1, 1, 2, 2]), torch.Size([2, 1, 2, 2]))
        """
        if isinstance(rows, (str, os.PathLike)):
            path = Path(rows).expanduser()
            files = self.paths(path) if path.is_dir() else [path]
            return torch.from_numpy(decode_all(files, self.size, self.channels, self.fit))
        if isinstance(rows, Tensor):
            return self._of_tensor(rows)
        if isinstance(rows, np.ndarray):
            return torch.cat([self._of_array(row) for row in _pictures_of(rows)])
        if _is_image(rows):
            return torch.from_numpy(array_of(turned(rows), self.size, self.channels, self.fit).copy())[None]
        if isinstance(rows, (list, tuple)) and rows:
            if all(isinstance(row, (str, os.PathLike)) for row in rows):
                return torch.from_numpy(decode_all(list(rows), self.size, self.channels, self.fit))
            if not any(np.isscalar(row) for row in rows):
                return torch.cat([self.read(np.asarray(row) if isinstance(row, list) else row) for row in rows])
        raise DataError(
            "rows must be pictures: files, a folder, arrays or tensors",
            got=given("rows", rows),
            do="Pass a path, or an array (Y, X, C) of bytes",
        )

    @staticmethod
    def paths(folder: str | Path) -> list[Path]:
        """The pictures that a folder and those in it hold, by name; hidden ones are left out."""
        found = survey(folder)
        if not found.pictures:
            raise no_pictures(found)
        return [found.root / name for name in found.pictures]

    def dim(self, x: Tensor) -> int:
        return self.channels * self.size[0] * self.size[1]

    def _of_tensor(self, x: Tensor) -> Tensor:
        x = x[None] if x.dim() == 3 else x
        if x.dim() != 4 or x.shape[1] not in (1, 3):
            raise ShapeError(
                "a tensor of pictures must have the shape (N, C, Y, X) with 1 or 3 channels",
                got=f"shape {tuple(x.shape)}",
                do="Permute its axes",
            )
        _check_range(x)
        if tuple(x.shape[1:]) == (self.channels, *self.size):
            return x if x.dtype == torch.uint8 or x.is_floating_point() else x.to(torch.uint8)
        arrays = x.detach().cpu().round().to(torch.uint8).permute(0, 2, 3, 1).numpy()
        return torch.cat([self._of_array(row) for row in arrays]).to(x.device)

    def _of_array(self, x: np.ndarray) -> Tensor:
        """One picture (Y, X) or (Y, X, C)."""
        import PIL.Image

        _check_range(torch.from_numpy(np.ascontiguousarray(x)))
        values = np.rint(x).astype(np.uint8)
        values = values[..., 0] if values.ndim == 3 and values.shape[2] == 1 else values
        image = PIL.Image.fromarray(np.ascontiguousarray(values))
        return torch.from_numpy(array_of(image, self.size, self.channels, self.fit).copy())[None]


def _filled(values: Sequence[float], like: Tensor, dtype: torch.dtype) -> Tensor:
    """One value a channel, (C, 1, 1), made on the device: nothing is copied to it and nothing waits."""
    return torch.stack([torch.full((1, 1), value, dtype=dtype, device=like.device) for value in values])


def _pictures_of(x: np.ndarray) -> Sequence[np.ndarray]:
    """The pictures in an array: (Y, X), (Y, X, C), (3, Y, X), (N, Y, X), (N, Y, X, C) or (N, C, Y, X)."""
    if x.dtype.kind not in "uifb" or x.ndim not in (2, 3, 4) or 0 in x.shape:
        raise DataError(
            "an array of pictures must hold numbers, in two to four axes",
            got=f"{x.dtype} of shape {x.shape}",
            do="Pass (Y, X), (Y, X, C) or (N, Y, X, C)",
        )
    if x.ndim == 3 and x.shape[0] == 3:
        if min(x.shape[1:]) <= 4:
            raise ShapeError(
                "an array must have one meaning: three channels first, three pictures, or three rows",
                got=f"shape {x.shape}",
                do="Pass an array (N, Y, X, C), or a tensor (N, C, Y, X)",
            )
        return [x.transpose(1, 2, 0)]
    if x.ndim == 2 or (x.ndim == 3 and x.shape[2] in (1, 3, 4)):
        return [x]
    if x.ndim == 4 and x.shape[3] not in (1, 3, 4):
        if x.shape[1] not in (1, 3, 4):
            raise ShapeError(
                "pictures must have 1, 3 or 4 channels", got=f"shape {x.shape}", do="Pass (N, Y, X, C) or (N, C, Y, X)"
            )
        x = x.transpose(0, 2, 3, 1)
    return list(x)


def _check_range(x: Tensor) -> None:
    """Pixels are 0 … 255; numbers up to 1 were divided already, and would be black here."""
    if x.dtype == torch.uint8 or x.numel() == 0:
        return
    low, high = x.amin().item(), x.amax().item()
    if not (low >= 0 and high <= 255):
        raise DataError(
            "pixels must lie from 0 to 255", got=f"values from {low:g} to {high:g}", do="Scale them to that range"
        )
    if x.is_floating_point() and 0 < high <= 1 and bool((x != x.round()).any()):
        raise DataError("pixels must lie from 0 to 255", got=f"fractions up to {high:g}", do="Multiply them by 255")


def _is_image(what: Any) -> bool:
    from PIL.Image import Image

    return isinstance(what, Image)
