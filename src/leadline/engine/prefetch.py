"""Rows that are too many for the device, on their way to it: gathered by a thread while the device computes.

    host memory or a mapped file --gather--> pinned memory --copy--> device

The gather of the next windows and the copy run beside the steps of the last one, so that a step waits only where the
host cannot gather as fast as the device computes.
"""

from __future__ import annotations

import queue
import threading
from collections.abc import Iterator, Sequence

import torch
from torch import Tensor

#: of the memory of a device that is free, the part that rows may take
_SHARE = 0.5
_AHEAD = 3  # windows that are gathered ahead


def fits(columns: Sequence[Tensor], device: torch.device) -> bool:
    """Whether columns may lie on the device as a whole; on a CPU they lie where they are."""
    if device.type != "cuda":
        return True
    free, _ = torch.cuda.mem_get_info(device)
    return sum(column.numel() * column.element_size() for column in columns) <= _SHARE * free


def prefetched(columns: Sequence[Tensor], parts: list[Tensor], device: torch.device) -> Iterator[tuple[Tensor, ...]]:
    """The numbers of the rows of each part, and these rows of every column, on the device, in order.

    >>> rows, parts = torch.arange(5) * 10, [torch.tensor([4, 0]), torch.tensor([2])]
    >>> [picked.tolist() for _, picked in prefetched([rows], parts, torch.device("cpu"))]
    [[40, 0], [20]]
    """
    ready: queue.Queue[tuple[Tensor, ...] | BaseException] = queue.Queue(_AHEAD)
    stopped = threading.Event()

    def put(found: tuple[Tensor, ...] | BaseException) -> bool:
        while not stopped.is_set():
            try:
                ready.put(found, timeout=0.1)
                return True
            except queue.Full:
                continue
        return False

    def gather() -> None:
        pinned = device.type == "cuda"
        try:
            for part in parts:
                rooms = [torch.empty((len(part), *c.shape[1:]), dtype=c.dtype, pin_memory=pinned) for c in columns]
                for column, room in zip(columns, rooms, strict=True):
                    torch.index_select(column, 0, part, out=room)
                if not put((part.pin_memory() if pinned else part, *rooms)):
                    return
        except BaseException as error:  # whatever it was, the reader must hear of it
            put(error)

    thread = threading.Thread(target=gather, daemon=True, name="leadline-prefetch")
    thread.start()
    try:
        for _ in parts:
            found = ready.get()
            if isinstance(found, BaseException):
                raise found
            yield tuple(column.to(device, non_blocking=True) for column in found)
    finally:
        stopped.set()
        thread.join()
