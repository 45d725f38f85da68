"""Residual blocks of a model, and what goes around their branches.

    h_k = s_k(h_{k-1}) + f_k(h_{k-1})          s_k the skip, f_k all else that the block does                    (1)

A block is a module that says so: by `residual_branch` (as `leadline.init` reads it; empty is none), or else by a module
`branch`; blocks inside blocks are left to the outer one. Other blocks can be named. What the skip hands on is what the
block's module `skip`, `shortcut`, `project` or `downsample` puts out, where it has one, and else what the block reads;
f_k is the rest, the block's output less that, and so holds an activation after the sum too.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from torch import Tensor, nn

from leadline.errors import ShapeError, UserError
from leadline.lens.place import module_of

Blocks = Sequence[str | nn.Module]
_SKIPS = ("skip", "shortcut", "project", "downsample")


def residual_blocks(model: nn.Module) -> tuple[str, ...]:
    """Paths of the modules that are marked as residual blocks, the outermost of nested ones.

    >>> from leadline.models import Residual
    >>> residual_blocks(Residual(4, (4, 4, 4), 1))
    ('layers.0', 'layers.1', 'layers.2')
    """
    found: list[str] = []
    for path, part in model.named_modules():
        marked = bool(getattr(part, "residual_branch", isinstance(getattr(part, "branch", None), nn.Module)))
        if path and marked and not any(path.startswith(f"{outer}.") for outer in found):
            found.append(path)
    return tuple(found)


def blocks_of(model: nn.Module, blocks: Blocks | None) -> list[tuple[str, nn.Module]]:
    """Paths and modules of the blocks: as given, or those that say so."""
    names = residual_blocks(model) if blocks is None else blocks
    if not names:
        raise UserError(
            "the model must have residual blocks",
            got="no module with branch or residual_branch",
            do="Pass blocks=, the paths of the modules that add to what they read",
        )
    return [module_of(model, name) for name in names]


@contextmanager
def watched(parts: Sequence[tuple[str, nn.Module]], act: Callable[[str, Tensor, Tensor], Tensor]) -> Iterator[None]:
    """Inside, each call of a block puts out act(its name, what its skip hands on, what it made)."""
    handles = []

    def watch(name: str, part: nn.Module) -> None:
        handed: list[Any] = []
        owned = next((s for word in _SKIPS if isinstance(s := getattr(part, word, None), nn.Module)), None)
        if owned is not None:
            handles.append(owned.register_forward_hook(lambda _, __, out: handed.append(out)))

        def finish(_: nn.Module, args: tuple[Any, ...], out: Any) -> Tensor:
            skip = handed[-1] if handed else args[0]
            handed.clear()
            _check(name, skip, out)
            return act(name, skip, out)

        handles.append(part.register_forward_hook(finish))

    try:
        for name, part in parts:
            watch(name, part)
        yield
    finally:
        for handle in handles:
            handle.remove()


def _check(name: str, skip: Any, out: Any) -> None:
    shapes = [tuple(t.shape) if isinstance(t, Tensor) else type(t).__name__ for t in (skip, out)]
    if not isinstance(skip, Tensor) or not isinstance(out, Tensor) or shapes[0] != shapes[1]:
        raise ShapeError(
            f"{name} must put out what its skip has the shape of",
            got=f"{shapes[0]} around it and {shapes[1]} out",
            do=f"Leave it out of blocks, or give it a module {_SKIPS[0]}",
        )
