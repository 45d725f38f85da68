"""What follows from a graph alone, such as degrees and norms, is computed once and kept beside its edges.

It may be asked for first while a step is differentiated, traced or recorded. It is no part of any of these, and is
computed as if they were not there.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TypeVar

import torch
from torch import Tensor
from torch._functorch.pyfunctorch import temporarily_clear_interpreter_stack
from torch._subclasses.fake_tensor import FakeTensor
from torch.utils._python_dispatch import _disable_current_modes

from leadline.data.edges import Edges

T = TypeVar("T")


def once(edges: Edges, name: str, make: Callable[[], T]) -> T:
    """What `make` makes of these edges, the first time that this name is asked for, and the same ever after.

    >>> edges = Edges.of(torch.tensor([[0], [1]]), num_nodes=2)
    >>> once(edges, "half", lambda: edges.degree / 2) is once(edges, "half", lambda: edges.degree / 3)
    True
    """
    kept = edges.__dict__
    if name not in kept:
        with apart(edges.source):
            kept[name] = make()
    return kept[name]


def of_own(x: Tensor, edges: Edges, name: str, make: Callable[[], Tensor]) -> Tensor:
    """`make()`, which is computed once where x are the numbers that the graph's nodes always have: they never change,
    and need no gradient.

    >>> x, edges = torch.ones(2, 1), Edges.of(torch.tensor([[0], [1]]), num_nodes=2)
    >>> owned(edges, x)
    >>> of_own(x, edges, "twice", lambda: 2 * x) is of_own(x, edges, "twice", lambda: 2 * x)
    True
    """
    if edges.__dict__.get("own numbers") is not x or x.requires_grad:
        return make()
    precise = torch.get_autocast_dtype(x.device.type) if torch.is_autocast_enabled(x.device.type) else x.dtype
    return once(edges, f"{name} of own numbers in {precise}", lambda: make().to(precise))


def owned(edges: Edges, x: Tensor) -> None:
    """From now on x are the numbers that the nodes of these edges always have; what others left is forgotten.

    >>> edges = Edges.of(torch.tensor([[0], [1]]), num_nodes=2)
    >>> for x in (torch.ones(2, 1), torch.zeros(2, 1)):
    ...     owned(edges, x)
    ...     float(of_own(x, edges, "sum", lambda: x.sum()))
    2.0
    0.0
    """
    kept = edges.__dict__
    if kept.get("own numbers") is not x:
        for name in [name for name in kept if "of own numbers" in name]:
            del kept[name]
        kept["own numbers"] = x


@contextmanager
def apart(like: Tensor) -> Iterator[None]:
    """As if nothing were traced, differentiated or recorded; where `like` itself is of a trace, within it."""
    if isinstance(like, FakeTensor) or torch._C._functorch.is_functorch_wrapped_tensor(like):
        yield
        return
    with (
        temporarily_clear_interpreter_stack(),
        _disable_current_modes(),
        torch.inference_mode(False),
        torch.no_grad(),
    ):
        yield
