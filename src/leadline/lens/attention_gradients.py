"""How a transformer learns, layer by layer: gradients of queries, keys and values, and what branches add to the stream.

    g_q = |∂L / ∂W_q|,   likewise of k, v and of the map after them                                (1)
    share = rms(branch(h)) / rms(h)                                                                 (2)

At the first weights attention is nearly even, and what even attention says hardly depends on its scores: gradients of
queries and keys are then far below those of values. Where norms stand after the sum, gradients of (1) shrink towards
the first layers. (2) says how much of the stream a branch writes anew.

Notation   W_q, W_k, W_v -> rows of `query_key_value`, or `query` and `key_value`, or torch's `in_proj_weight`;
           h the stream
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor, nn

from leadline.data.data import Split
from leadline.errors import UserError
from leadline.layers.attention import CrossAttention, SelfAttention
from leadline.layers.low_rank_update import LowRankUpdate
from leadline.lens.at_rest import at_rest
from leadline.lens.rows import Fitted, asked
from leadline.lens.skips import residual_blocks
from leadline.lens.style import FULL, HUES, blank, label, styled
from leadline.lens.tokens import asked as drawn
from leadline.lens.view import View
from leadline.likelihoods import Likelihood
from leadline.models.lora import merged
from leadline.settings import whole

if TYPE_CHECKING:
    from matplotlib.figure import Figure

PARTS = ("query", "key", "value", "out")


@dataclass(frozen=True, eq=False)
class AttentionGradients(View):
    """Gradients of attention and sizes of branches.

    Args:
        names: path of each attention; norms: eq. 1 of query, key, value and out, (attentions, 4).
        weights: norms of those weights, (attentions, 4).
        branches: path of each branch; share: eq. 2; stream: rms(h) before it.
        loss: mean loss of the rows.
    """

    names: tuple[str, ...]
    norms: np.ndarray
    weights: np.ndarray
    branches: tuple[str, ...]
    share: np.ndarray
    stream: np.ndarray
    loss: float

    @styled
    def plot(self) -> Figure:
        figure = blank(FULL, 3.4)
        left, right = figure.subplots(1, 2)
        for k, name in enumerate(PARTS):
            left.semilogy(np.maximum(self.norms[:, k], 1e-12), "o-", ms=4, color=HUES[k], label=name)
        left.set_xticks(range(len(self.names)))
        label(left, "Gradient of attention", "attention, from the input on", "norm", legend=4)
        right.semilogy(np.maximum(self.share, 1e-12), "o-", ms=4, color=HUES[4], label="branch over stream")
        right.semilogy(np.maximum(self.stream, 1e-12), "o-", ms=3, color=HUES[9], label="stream")
        right.axhline(1, color="#dce1e8")
        label(right, "What branches add", "branch, from the input on", "root mean square, or ratio of two", legend=2)
        return figure


def attention_gradients(
    model: nn.Module | Fitted,
    data: Any = None,
    likelihood: Likelihood | str | Callable[[Tensor, Tensor], Tensor] | None = None,
    *,
    split: str = "train",
    num: int = 32,
) -> AttentionGradients:
    """Gradient norms of each attention's parts, and each branch's share of the stream. The model is left as it was.

    Weights that are held still have gradients too; updates of low rank count as folded in, as they compute.

    Args:
        data: Data, a Split or a pair (x, y); a run has its own.
        likelihood: of y; the target picks it where none is given.
        num: rows at most.

    >>> from leadline.models import GPT
    >>> from leadline.likelihoods import Tokens
    >>> x = torch.randint(11, (4, 6))
    >>> view = attention_gradients(GPT.tiny(), (x, x), Tokens(11))
    >>> view.norms.shape, bool(view.norms[0, 0] < view.norms[0, 2])  # queries below values
    ((2, 4), True)
    """
    model, rows, family = asked(model, data, split, likelihood)  # type: ignore[arg-type]
    x, y = drawn(model, Split(rows.raw, rows.y), rows.inputs, whole("num", num, 1, usual=32))
    if any(isinstance(part, LowRankUpdate) for part in model.modules()):
        model = merged(model)
    found = [(path, part) for path, part in model.named_modules() if isinstance(part, _KNOWN)]
    if not found:
        raise UserError(
            "the model must have attention whose parts are known",
            got=type(model).__name__,
            do="Take one with SelfAttention, CrossAttention or nn.MultiheadAttention",
        )
    own = [p for _, part in found for p in part.parameters(recurse=True) if p.dim() == 2]
    with at_rest(model), torch.enable_grad(), _moving(own):
        branches, sizes, handles = _watched(model)
        try:
            loss = family.loss(model(x), y).mean()
        finally:
            for handle in handles:
                handle.remove()
        slopes = dict(zip(map(id, own), torch.autograd.grad(loss, own, allow_unused=True)))
    norms = [_norms(part, lambda p: slopes.get(id(p))) for _, part in found]
    weights = [_norms(part, lambda p: p.detach()) for _, part in found]
    measured = np.array([sizes.get(path, (np.nan, np.nan)) for path in branches]).reshape(-1, 2)
    return AttentionGradients(
        tuple(path for path, _ in found),
        np.array(norms),
        np.array(weights),
        tuple(branches),
        measured[:, 1] / np.maximum(measured[:, 0], 1e-30),
        measured[:, 0],
        float(loss.detach()),
    )


@contextmanager
def _moving(weights: list[nn.Parameter]) -> Iterator[None]:
    """Inside, all of these have a gradient."""
    still = [p for p in weights if not p.requires_grad]
    try:
        for p in still:
            p.requires_grad_(True)
        yield
    finally:
        for p in still:
            p.requires_grad_(False)


_KNOWN = (SelfAttention, CrossAttention, nn.MultiheadAttention)


def _norms(part: nn.Module, of: Callable[[Tensor], Tensor | None]) -> list[float]:
    """Eq. 1 of query, key, value and out, of what `of` says of each weight; nan where it says nothing."""
    if isinstance(part, SelfAttention):
        sizes = [count * part.dim_head for count in (part.heads, part.groups, part.groups)]
        parts = _split(of(part.query_key_value.weight), sizes)
        out = of(part.out.weight)
    elif isinstance(part, CrossAttention):
        width = part.heads * part.dim_head
        parts = [of(part.query.weight), *_split(of(part.key_value.weight), [width, width])]
        out = of(part.out.weight)
    else:
        own: Any = part
        if own.in_proj_weight is not None:
            parts = _split(of(own.in_proj_weight), [own.embed_dim] * 3)
        else:
            parts = [of(p) for p in (own.q_proj_weight, own.k_proj_weight, own.v_proj_weight)]
        out = of(own.out_proj.weight)
    return [float("nan") if found is None else float(found.norm()) for found in (*parts, out)]


def _split(found: Tensor | None, sizes: list[int]) -> list[Tensor | None]:
    return [None] * len(sizes) if found is None else list(found.split(sizes))


def _watched(model: nn.Module) -> tuple[list[str], dict[str, tuple[float, float]], list[Any]]:
    """Paths of the branches, a table that fills with the sizes of stream and branch, and what stops it."""
    sizes: dict[str, tuple[float, float]] = {}
    streams: dict[str, float] = {}
    handles = []
    paths = [path for path in residual_blocks(model) if isinstance(_branch(model, path), nn.Module)]
    for path in paths:
        block, branch = model.get_submodule(path), _branch(model, path)

        def before(_: nn.Module, args: tuple[Any, ...], path: str = path) -> None:
            streams[path] = _rms(args[0])

        def after(_: nn.Module, __: Any, out: Any, path: str = path) -> None:
            sizes[path] = (streams[path], _rms(out))

        handles += [block.register_forward_pre_hook(before), branch.register_forward_hook(after)]
    return paths, sizes, handles


def _branch(model: nn.Module, path: str) -> Any:
    return getattr(model.get_submodule(path), "branch", None)


def _rms(h: Any) -> float:
    h = h[0] if isinstance(h, tuple) else h
    return float(h.detach().double().square().mean().sqrt())
