"""Room for large results on a CPU, in pages that a system hands out quickly.

A tensor of 32 MB is 8,192 pages of 4 KB, and the first touch of each costs half a microsecond: longer than a pass over
what it holds. Linux gives pages of 2 MB to whoever asks for them. Deleting this file loses speed only.
"""

from __future__ import annotations

import ctypes
import functools
import sys
from typing import Any

import torch
from torch import Tensor

_LARGE, _SMALL = 2**21, 2**12  # bytes of a page
_WISH = 14  # Linux's MADV_HUGEPAGE


def room(shape: tuple[int, ...] | torch.Size, dtype: torch.dtype, device: torch.device | str = "cpu") -> Tensor:
    """`torch.empty`, faster to fill.

    >>> room((2, 3), torch.float32).shape
    torch.Size([2, 3])
    """
    made = torch.empty(shape, dtype=dtype, device=device)
    size = made.numel() * made.element_size()
    advise = _advise() if made.device.type == "cpu" and size >= 2 * _LARGE else None
    if advise is not None:
        begin, end = made.data_ptr(), made.data_ptr() + size
        begin, end = -(-begin // _SMALL) * _SMALL, end // _SMALL * _SMALL
        advise(begin, end - begin, _WISH)  # a wish: what it answers changes nothing
    return made


@functools.cache
def _advise() -> Any:
    """The system's call, or None where there is none."""
    if not sys.platform.startswith("linux"):
        return None
    try:
        call = ctypes.CDLL(None).madvise
    except (OSError, AttributeError):
        return None
    call.argtypes, call.restype = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int), ctypes.c_int
    return call
