"""Class activation maps: where in the picture a class is found.

    features     A, (C, Y, X), the output of a module
    CAM          m_c = Σ_k w_ck A_k             f_c = b_c + mean over positions of m_c   (Zhou et al., 2016)      (1)
    Grad-CAM     m_c = max[0, Σ_k α_k A_k],     α_k = Σ_positions ∂f_c / ∂A_k            (Selvaraju et al., 2017) (2)

(1) needs a model that ends in the mean over positions and one linear map; (2) any model. On a model of the first kind
the sum in (2) is that of (1), and so are the maps where they are above 0.

Notation   w, b -> weight and bias of the linear map;  α -> weights
Paper      Selvaraju et al. divide α by the number of positions, which changes no drawing
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from leadline.errors import ShapeError, UserError
from leadline.lens.at_rest import at_rest
from leadline.lens.place import aimed, module_of, picked, scored, seen, tapped
from leadline.lens.style import styled
from leadline.lens.tiles import explained, over
from leadline.lens.view import View
from leadline.names import lookup
from leadline.settings import whole

if TYPE_CHECKING:
    from matplotlib.figure import Figure

KINDS = {"grad": "Grad-CAM", "weights": "CAM"}


@dataclass(frozen=True, eq=False)
class ClassActivation(View):
    """Where an output is found.

    Args:
        kind: grad or weights; name: path of the module.
        x: the rows as the network reads them.
        target: the output asked about, (B,); score: f_c, (B,).
        weights: w_c or α, (B, C).
        sums: Σ_k weight_k A_k, (B, *positions of the features), below 0 too.
        maps: (1) or (2), interpolated to the positions of x.
    """

    kind: str
    name: str
    x: np.ndarray
    target: np.ndarray
    score: np.ndarray
    weights: np.ndarray
    sums: np.ndarray
    maps: np.ndarray

    @styled
    def plot(self) -> Figure:
        title = f"{KINDS[self.kind]} at {self.name}, {' × '.join(map(str, self.sums.shape[1:]))} positions"
        return explained(self, np.maximum(self.maps, 0), over, "activation", title)


def class_activation(
    model: nn.Module,
    x: Any,
    target: int | Sequence[int] | Tensor | None = None,
    module: str | nn.Module | None = None,
    *,
    kind: str = "grad",
    call: int = -1,
    split: str = "train",
    num: int = 8,
) -> ClassActivation:
    """Where in each row an output is found. The model is left as it was.

    Args:
        x: Data, or rows as the network reads them.
        target: an output, one for all rows or one for each; None is each row's largest.
        module: whose output A is, or its path; None is the last one with channels and positions.
        kind: grad (2) or weights (1).
        call: which of the module's calls, where it has several; -1 is the last.
        num: rows at most.

    >>> net = nn.Sequential(nn.Conv2d(1, 3, 3), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(3, 2))
    >>> view = class_activation(net, torch.randn(2, 1, 8, 8))
    >>> view.name, view.sums.shape, view.maps.shape
    ('1', (2, 6, 6), (2, 8, 8))
    """
    lookup(kind, KINDS, "kind")
    model, rows = seen(model, x, split=split, num=whole("num", num, 1, usual=8))
    with at_rest(model):
        if module is None:
            module, call = _last(model, rows[:1])
        name, part = module_of(model, module)
        with torch.enable_grad(), tapped(part) as kept:
            out = model(rows.clone().requires_grad_())
        features = picked(kept, call)
        if features.dim() < 3:
            raise ShapeError(
                "the module must put out channels and positions",
                got=f"{name} with {tuple(features.shape)}",
                do="Name a convolution, or an activation after one",
            )
        codes = aimed(out.detach(), target)
        if kind == "weights":
            weights = _weights(model, features)[codes]
        else:
            with torch.enable_grad():
                (slopes,) = torch.autograd.grad(scored(out, codes).sum(), features, allow_unused=True)
            slopes = torch.zeros_like(features) if slopes is None else slopes
            weights = slopes.flatten(2).sum(2)
        A = features.detach()  # noqa: N806
        sums = torch.einsum("bk,bk...->b...", weights.detach().to(A), A)  # eq. 1, 2
        maps = sums.clamp(min=0) if kind == "grad" else sums
        modes = {1: "linear", 2: "bilinear", 3: "trilinear"}
        sized = len(rows.shape[2:]) == sums.dim() - 1
        if sized:
            shape = tuple(rows.shape[2:])
            maps = F.interpolate(maps[:, None], shape, mode=modes[len(shape)], align_corners=False)[:, 0]
    numbers = [t.detach().double().cpu().numpy() for t in (rows, scored(out, codes), weights, sums, maps)]
    return ClassActivation(kind, name, numbers[0], codes.cpu().numpy(), *numbers[1:])


def _last(model: nn.Module, row: Tensor) -> tuple[str, int]:
    """Path and call of the last module to finish whose output has channels and more than one position."""
    found: list[tuple[str, int]] = []
    calls: Counter[str] = Counter()
    handles = []

    def note(path: str) -> Any:
        def hook(_: nn.Module, __: Any, out: Any) -> None:
            if isinstance(out, Tensor) and out.dim() > 2 and out[0, 0].numel() > 1:
                found.append((path, calls[path]))
            calls[path] += 1

        return hook

    try:
        for path, part in model.named_modules():
            if path and not list(part.children()):
                handles.append(part.register_forward_hook(note(path)))
        model(row)
    finally:
        for handle in handles:
            handle.remove()
    if not found:
        raise UserError("a module must put out channels and positions", got="none that does", do="Pass module=")
    return found[-1]


def _weights(model: nn.Module, features: Tensor) -> Tensor:
    """Rows of the linear map that ends the model, (D, C)."""
    maps = [part for part in model.modules() if isinstance(part, (nn.Linear, nn.Conv1d, nn.Conv2d))]
    last = maps[-1].weight.flatten(1) if maps else None
    if last is None or last.shape[1] != features.shape[1]:
        raise UserError(
            "CAM needs a model that ends in the mean over positions and one linear map",
            got=f"{features.shape[1]} channels and a last map of {0 if last is None else last.shape[1]} inputs",
            do="Use kind='grad', which reads any model",
        )
    return last
