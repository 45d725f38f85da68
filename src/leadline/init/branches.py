"""Which parts of a model are residual branches: the modules say so themselves.

    y = x + α f(x)          f is the branch, α a scalar that may be learned          (1)

A module that adds what it makes to what it read declares f by one attribute (or property),

    residual_branch = ("conv1", "conv2", "scale")

the names of its children that f passes through, in order, and last the name of α, a parameter of one value, where it
has one. An empty tuple is no branch. Anything that stands on the way around f, such as a projection, is not named.
`leadline.layers.Skip` wraps any module in (1) and declares it.
"""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor, nn

from leadline.errors import UserError
from leadline.init.maps import Map, maps
from leadline.names import suggest


@dataclass(frozen=True, eq=False)
class Branch:
    """Args:
    path: of the module that adds; `maps` those of f, in order; `scale` α, where there is one.
    """

    path: str
    maps: tuple[Map, ...]
    scale: Tensor | None


def branches(model: nn.Module) -> list[Branch]:
    """The residual branches that the parts of a model declare.

    >>> from leadline.models import MLP
    >>> [branch.path for branch in branches(MLP(3, (5, 5, 5), 1, residual=True))]
    ['layers.1', 'layers.2']
    """
    found = []
    for path, module in model.named_modules():
        names = tuple(getattr(module, "residual_branch", ()))
        if not names:
            continue
        parts: list[Map] = []
        scale = None
        known = {**dict(module.named_children()), **dict(module.named_parameters(recurse=False))}
        for name in names:
            part = known.get(name)
            if isinstance(part, nn.Module):
                parts += maps(part)
            elif isinstance(part, Tensor) and part.numel() == 1 and name == names[-1]:
                scale = part
            else:
                raise UserError(
                    "residual_branch must name children of its module, and last its scalar parameter if there is one",
                    got=f"{name!r} in {path or 'the model'} ({type(module).__name__})",
                    do=suggest(name, known),
                )
        found.append(Branch(path, tuple(parts), scale))
    return found


def need_branches(model: nn.Module, why: str, scaled: bool = False) -> list[Branch]:
    """`branches`, or the message that there are none (with a scalar, where `scaled`)."""
    found = branches(model)
    if any(branch.scale is not None for branch in found) if scaled else found:
        return found
    got = f"{type(model).__name__}, of which no module declares one"
    do = "Use MLP(residual=True), Residual or layers.Skip, or set residual_branch on the modules that add"
    if scaled and found:
        got = f"{len(found)} branches of {type(model).__name__}, none with a scalar"
        do = "Wrap what is added in layers.Skip, which has one, or use fixup"
    raise UserError(f"{why} needs residual branches" + (" with a scalar" if scaled else ""), got=got, do=do)
