"""A place inside a model: what one of its modules puts out, at one of its calls.

A module may be called several times in one pass, and what it put out may be changed in place afterwards; here its calls
are counted, and each output is kept as it was, with its gradient.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn

from leadline.data.account import counted
from leadline.data.data import Data, Split
from leadline.errors import ShapeError, UnknownName, UserError
from leadline.lens.rows import Fitted, fit_to, rows_of
from leadline.names import suggest
from leadline.settings import given


def seen(model: Any, x: Any, *, split: str = "train", num: int | None = None) -> tuple[nn.Module, Tensor]:
    """The module and the rows that it reads: of Data (a run has its own), or x as the network reads it.

    >>> seen(nn.Conv2d(1, 2, 3), torch.zeros(5, 1, 8, 8), num=2)[1].shape
    torch.Size([2, 1, 8, 8])
    """
    if isinstance(model, Fitted):
        x = model.need_data() if x is None else x
        model = model.model
    if not isinstance(model, nn.Module):
        raise UserError("a lens looks at a run or a torch module", got=given("model", model), do="Pass run")
    if isinstance(x, (Data, Split)):
        rows = rows_of(x, split)
        raw = rows.raw if num is None else rows.raw[:num]
        return model, fit_to(model, rows.inputs.encode(raw))
    if isinstance(x, Tensor) and x.dim() >= 2 and len(x):
        if not x.is_floating_point():
            raise UserError(
                "rows must be numbers as the network reads them",
                got=f"x of {str(x.dtype).removeprefix('torch.')}",
                do="Pass the Data, which scales them, or x.float() / 255",
            )
        return model, fit_to(model, x.detach() if num is None else x.detach()[:num])
    raise UserError(
        "rows must be Data, or a tensor whose first axis is the row",
        got=f"x of shape {tuple(x.shape)}" if isinstance(x, Tensor) else given("x", x),
        do="Pass data, or x[None] for a single picture",
    )


def module_of(model: nn.Module, module: str | nn.Module | None) -> tuple[str, nn.Module]:
    """Path and module of a part of the model, given by either; None is the model itself.

    >>> module_of(nn.Sequential(nn.Conv2d(1, 2, 3), nn.ReLU()), "0")
    ('0', Conv2d(1, 2, kernel_size=(3, 3), stride=(1, 1)))
    """
    if module is None or module is model:
        return "output", model
    known = {path: part for path, part in model.named_modules(remove_duplicate=False) if path}
    if isinstance(module, str):
        if module in known:
            return module, known[module]
        raise UnknownName("module must be a part of the model", got=repr(module), do=suggest(module, known))
    for path, part in known.items():
        if part is module:
            return path, part
    raise UserError("module must be a part of the model", got=given("module", module), do="Pass its path")


@contextmanager
def tapped(module: nn.Module) -> Iterator[list[Tensor]]:
    """Inside, each call of the module leaves its output in the list, out of reach of later in-place changes.

    >>> net = nn.Sequential(nn.Linear(2, 2), nn.ReLU(inplace=True))
    >>> with tapped(net[0]) as kept:
    ...     out = net(torch.ones(1, 2))
    >>> len(kept), bool((kept[0].relu() == out).all())
    (1, True)
    """
    kept: list[Tensor] = []

    def keep(_: nn.Module, __: Any, out: Any) -> Tensor:
        if not isinstance(out, Tensor):
            raise UserError(
                "module must put out one tensor",
                got=f"{type(module).__name__} that puts out {given('it', out).removeprefix('it as ')}",
                do="Name a module inside it",
            )
        kept.append(out)
        return out.clone()

    handle = module.register_forward_hook(keep)
    try:
        yield kept
    finally:
        handle.remove()


def reached(run: Callable[[Tensor], Any], x: Tensor, module: nn.Module, call: int = -1) -> Tensor:
    """What the module puts out at its `call`-th call while `run(x)` computes; -1 is the last.

    >>> net = nn.Sequential(nn.Linear(2, 3), nn.ReLU())
    >>> reached(net, torch.ones(4, 2), net[0]).shape
    torch.Size([4, 3])
    """
    with tapped(module) as kept:
        run(x)
    return picked(kept, call)


def picked(kept: Sequence[Tensor], call: int) -> Tensor:
    """The output of one call, or the message that there is no such call.

    >>> picked([torch.zeros(1), torch.ones(1)], -1).tolist()
    [1.0]
    """
    if not kept:
        raise UserError("module must be called by the model", got="a module that is not", do="Name another part")
    if not -len(kept) <= call < len(kept):
        raise UserError(
            "call must be one of the module's calls",
            got=f"call={call}, {counted(len(kept), 'call')}",
            do=f"Pass a number from 0 to {len(kept) - 1}",
        )
    return kept[call]


def aimed(out: Tensor, target: int | Sequence[int] | Tensor | None) -> Tensor:
    """The output that each row is asked about, (B,): as given, or its largest.

    >>> aimed(torch.tensor([[0.0, 2.0], [3.0, 1.0]]), None).tolist()
    [1, 0]
    """
    B = len(out)  # noqa: N806
    columns = out.shape[1] if out.dim() > 1 else 1
    if target is None:
        return scored_all(out).argmax(1)
    codes = torch.as_tensor(target, device=out.device).long().reshape(-1)
    codes = codes.expand(B) if len(codes) == 1 else codes
    if len(codes) != B or bool(((codes < 0) | (codes >= columns)).any()):
        raise ShapeError(
            "target must be an output of the model, one for all rows or one for each",
            got=f"target={codes.tolist()[:6]} for {counted(B, 'row')} and {counted(columns, 'output')}",
            do=f"Pass numbers from 0 to {columns - 1}",
        )
    return codes


def scored_all(out: Tensor) -> Tensor:
    """The score of every output, (B, D): of an output with positions its mean over them."""
    return out[:, None] if out.dim() == 1 else out.flatten(2).mean(2) if out.dim() > 2 else out


def scored(out: Tensor, codes: Tensor) -> Tensor:
    """The score of one output of each row, (B,).

    >>> scored(torch.tensor([[0.0, 2.0], [3.0, 1.0]]), torch.tensor([1, 0])).tolist()
    [2.0, 3.0]
    """
    return scored_all(out).gather(1, codes[:, None])[:, 0]
