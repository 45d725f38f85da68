"""The attention of a model, as it computes it: listened to, and silenced head by head.

Any model is heard that calls torch's `scaled_dot_product_attention`, as the attention layers here do, or that holds
`nn.MultiheadAttention`. A fused kernel never shows its weights: they are computed again from its queries and keys, with
the mask and the bias that it was given.

Legend     B rows, H heads, T queries, S keys, K width of a head
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from leadline.errors import UserError
from leadline.layers import flex
from leadline.layers.attend import weights as weights_of
from leadline.layers.masks import Causal


@dataclass(frozen=True, eq=False)
class Heard:
    """One call of attention.

    Args:
        name: path of the module that made it, with the number of the call after it from the second on.
        weights: (B, H, T, S).
        module: that module.
    """

    name: str
    weights: Tensor
    module: nn.Module


@contextmanager
def heard(model: nn.Module) -> Iterator[list[Heard]]:
    """Inside, every attention of the model leaves its weights in the list, in the order of the calls.

    >>> from leadline.models import GPT
    >>> net = GPT.tiny()
    >>> with torch.no_grad(), heard(net) as calls:
    ...     _ = net(torch.tensor([[3, 1, 4]]))
    >>> [call.name for call in calls]
    ['layers.0.look.branch', 'layers.1.look.branch']
    """
    found: list[Heard] = []
    counts: dict[str, int] = {}

    def keep(path: str, module: nn.Module, weights: Tensor) -> None:
        counts[path] = counts.get(path, 0) + 1
        found.append(Heard(path if counts[path] == 1 else f"{path}, call {counts[path]}", weights, module))

    def tell(call: _Call, out: Tensor) -> Tensor:
        path, module = open_[-1]
        keep(path, module, call.weights())
        return out

    with ExitStack() as stack:
        open_ = stack.enter_context(_entered(model))
        for path, module in _torch_own(model):
            stack.enter_context(_asked_for_weights(module, partial(keep, path, module)))
        stack.enter_context(_Between(tell))
        yield found


def attentions(model: nn.Module, x: Tensor) -> list[Heard]:
    """All attention of one pass, or the message that there is none."""
    with heard(model) as calls:
        model(x)
    if not calls:
        raise UserError(
            "the model must have attention whose weights can be computed",
            got=f"{type(model).__name__}, which calls neither scaled_dot_product_attention nor nn.MultiheadAttention",
            do='Take GPT, BERT, Transformer, T5, ViT or Swin; of Hugging Face, one with attn_implementation="sdpa"',
        )
    return calls


@contextmanager
def silenced(model: nn.Module, heads: Mapping[str, Sequence[int]]) -> Iterator[None]:
    """Inside, some heads of some attentions put out 0; no weight is changed.

    Args:
        heads: path of a module -> numbers of its heads.

    >>> from leadline.models import GPT
    >>> net, x = GPT.tiny().eval(), torch.ones(1, 3, dtype=torch.long)
    >>> with silenced(net, {"layers.0.look.branch": (0, 1)}):
    ...     quiet = net(x)
    >>> bool((quiet == net(x)).all())
    False
    """

    def act(call: _Call, out: Tensor) -> Tensor:
        gone = heads.get(open_[-1][0], ())
        if not gone:
            return out
        kept = torch.ones(out.shape[-3], 1, 1, device=out.device, dtype=out.dtype)
        kept[list(gone)] = 0
        return out * kept

    with ExitStack() as stack:
        open_ = stack.enter_context(_entered(model))
        for path, module in _torch_own(model):
            if heads.get(path):
                stack.enter_context(_without(module, heads[path]))
        stack.enter_context(_Between(act))
        yield


@dataclass(frozen=True, eq=False)
class _Call:
    """What attention was computed of."""

    q: Tensor
    k: Tensor
    written: Tensor | None
    causal: bool
    scale: float | None

    def weights(self) -> Tensor:
        q, k = (part.detach() if part.dim() == 4 else part.detach()[:, None] for part in (self.q, self.k))
        bias = self.written
        if bias is not None and bias.dtype == torch.bool:
            bias = torch.zeros_like(bias, dtype=q.dtype).masked_fill(~bias, -math.inf)
        found = weights_of(q, k, Causal() if self.causal else None, None if bias is None else bias.detach(), self.scale)
        return found.nan_to_num(0.0)  # a query that may look at nothing


class _Between(TorchFunctionMode):
    """Stands between a model and torch's attention: act(call, what it put out) is handed on."""

    def __init__(self, act: Callable[[_Call, Tensor], Tensor]):
        super().__init__()
        self.act, self._pairs, self._fast = act, flex.PAIRS, True

    def __enter__(self) -> Any:
        flex.PAIRS = 2**62  # weights are written out here, and FlexAttention would not
        self._fast = torch.backends.mha.get_fastpath_enabled()
        torch.backends.mha.set_fastpath_enabled(False)
        return super().__enter__()

    def __exit__(self, *why: Any) -> None:
        super().__exit__(*why)
        torch.backends.mha.set_fastpath_enabled(self._fast)
        flex.PAIRS = self._pairs

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        out = func(*args, **kwargs)
        if func is not F.scaled_dot_product_attention:
            return out
        names = ("query", "key", "value", "attn_mask", "dropout_p", "is_causal")
        told = {**dict(zip(names, args, strict=False)), **kwargs}
        causal, scale = told.get("is_causal", False), told.get("scale")
        return self.act(_Call(told["query"], told["key"], told.get("attn_mask"), causal, scale), out)


@contextmanager
def _entered(model: nn.Module) -> Iterator[list[tuple[str, nn.Module]]]:
    """Inside, the list holds paths and modules that are being computed, the innermost last."""
    open_: list[tuple[str, nn.Module]] = [("", model)]
    handles = []
    for path, module in model.named_modules():
        if path:
            here = (path, module)
            handles.append(module.register_forward_pre_hook(lambda _, __, here=here: open_.append(here)))
            handles.append(module.register_forward_hook(lambda _, __, ___: open_.pop() and None, always_call=True))
    try:
        yield open_
    finally:
        for handle in handles:
            handle.remove()


def _torch_own(model: nn.Module) -> list[tuple[str, nn.MultiheadAttention]]:
    return [(path, part) for path, part in model.named_modules() if isinstance(part, nn.MultiheadAttention)]


@contextmanager
def _asked_for_weights(module: nn.MultiheadAttention, keep: Callable[[Tensor], None]) -> Iterator[None]:
    """Inside, torch's own module tells the weights of each head; its caller gets what it asked for."""
    asked: list[tuple[bool, bool]] = []

    def ask(_: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
        names = ("query", "key", "value", "key_padding_mask", "need_weights", "attn_mask", "average_attn_weights")
        told = {**dict(zip(names, args, strict=False)), **kwargs}
        asked.append((told.get("need_weights", True), told.get("average_attn_weights", True)))
        return (), {**told, "need_weights": True, "average_attn_weights": False}

    def answer(_: nn.Module, args: tuple[Any, ...], out: tuple[Tensor, Tensor]) -> tuple[Tensor, Tensor | None]:
        wanted, mean = asked.pop()
        each = out[1]
        keep((each if each.dim() == 4 else each[None]).detach())
        return out[0], (each.mean(-3) if mean else each) if wanted else None

    handles = [module.register_forward_pre_hook(ask, with_kwargs=True), module.register_forward_hook(answer)]
    try:
        yield
    finally:
        for handle in handles:
            handle.remove()


@contextmanager
def _without(module: nn.MultiheadAttention, heads: Sequence[int]) -> Iterator[None]:
    """Inside, the map after some heads is 0: the module reads a changed copy of its weight, which stays as it is."""
    own = module.out_proj._parameters["weight"]
    cut = own.detach().clone().unflatten(1, (module.num_heads, -1))  # type: ignore[union-attr]
    cut[:, list(heads)] = 0
    module.out_proj._parameters["weight"] = nn.Parameter(cut.flatten(1), requires_grad=False)
    try:
        yield
    finally:
        module.out_proj._parameters["weight"] = own
