"""What a forward pass keeps for the backward pass, layer by layer, in bytes.

    kept       storages that autograd holds at the end of the forward pass, each once, but for weights and buffers   (1)
    again      the largest storages of a segment that `Checkpointed` computes again on the way back                  (2)
    peak       kept + again                                                                                          (3)

Measured as it happens, by torch's own hooks on saved tensors: a storage that two layers keep counts for the first. A
batch of n rows needs n times what a row does, so k micro-batches need 1/k of it; weights, gradients and the optimizer's
state, which do not depend on the batch, are told beside. What the kernels of a layer use while they run is not counted.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn
from torch.autograd.graph import saved_tensors_hooks

from leadline.engine.untouched import untouched
from leadline.errors import UserError
from leadline.layers.checkpointed import Checkpointed
from leadline.lens.style import FULL, HUES, blank, label, styled
from leadline.lens.view import View
from leadline.settings import given, whole

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@dataclass(frozen=True)
class Variant:
    """One way to run the model: its name, (1), (2), and the layer passes forward that a step takes."""

    name: str
    kept: int
    again: int
    passes: int

    @property
    def peak(self) -> int:
        return self.kept + self.again  # eq. 3


@dataclass(frozen=True, eq=False)
class Memory(View):
    """Bytes for the backward pass.

    Args:
        layers: bytes by the name of the innermost module that kept them; "" is the model's own forward.
        variants: the model as it is, then the ways that were asked for.
        parameters, buffers: bytes of the weights, and of what else the model holds.
        rows: of the batch.
    """

    layers: dict[str, int]
    variants: tuple[Variant, ...]
    parameters: int
    buffers: int
    rows: int

    @property
    def kept(self) -> int:
        """Bytes that the model as it is keeps (1)."""
        return self.variants[0].kept

    @property
    def peak(self) -> int:
        """Bytes that the model as it is needs on the way back (3)."""
        return self.variants[0].peak

    @styled
    def plot(self) -> Figure:
        heavy = sorted(self.layers.items(), key=lambda item: -item[1])[:25]
        shown = [(name, size) for name, size in self.layers.items() if (name, size) in heavy]
        figure = blank(FULL, max(3.2, 0.6 + 0.2 * max(len(shown), 2 * len(self.variants))))
        left, right = figure.subplots(1, 2)
        unit, scale = _unit(max([size for _, size in shown] + [v.peak for v in self.variants] + [1]))
        names = [name or "the model itself" for name, _ in shown]
        left.barh(range(len(shown)), [size / scale for _, size in shown], color=HUES[0], height=0.7)
        left.set_yticks(range(len(shown)), names)
        left.invert_yaxis()
        less = f", the {len(shown)} largest of {len(self.layers)}" if len(shown) < len(self.layers) else ""
        label(left, f"Kept by layer, {self.rows} rows{less}", unit, "")
        places = range(len(self.variants))
        right.barh(places, [v.kept / scale for v in self.variants], color=HUES[0], height=0.6, label="kept")
        right.barh(places, [v.again / scale for v in self.variants], left=[v.kept / scale for v in self.variants],
                   color=HUES[4], height=0.6, label="computed again, at most at once")  # fmt: skip
        right.axvline(self.parameters / scale, color=HUES[1], lw=1.2, ls=":", label="weights")
        most = max([v.peak for v in self.variants] + [self.parameters])
        for place, v in enumerate(self.variants):
            times = v.passes / self.variants[0].passes
            right.text(v.peak / scale + 0.01 * most / scale, place, f"{times:.3g} × forward", va="center", fontsize=8)
        right.set(xlim=(0, 1.3 * most / scale))
        right.set_yticks(places, [v.name for v in self.variants])
        right.invert_yaxis()
        label(right, "Bytes for the backward pass", unit, "", legend=3)
        for ax in (left, right):
            ax.grid(False, axis="y")
        return figure


def memory(model: nn.Module, x: Tensor, *, every: int | Sequence[int] = (), parts: int | Sequence[int] = ()) -> Memory:
    """Bytes that `model` keeps for the backward pass of inputs x, in training mode.

    Args:
        x: a batch of the network's inputs, on the model's device.
        every: where the model is an nn.Sequential or a `Checkpointed`, what it would keep with a checkpoint every so
            many layers; each at least 1.
        parts: what it would keep with the batch in so many micro-batches; each at least 1.

    >>> deep = nn.Sequential(*[nn.Sequential(nn.Linear(64, 64), nn.Tanh()) for _ in range(50)])
    >>> view = memory(deep, torch.zeros(32, 64), every=10, parts=4)
    >>> [(v.name, v.kept // 1024) for v in view.variants]  # KiB: 50 activations and the input, 5, a quarter of the 51
    [('as it is', 408), ('checkpoint every 10', 40), ('4 micro-batches', 102)]
    """
    if not isinstance(model, nn.Module) or not isinstance(x, Tensor) or not x.ndim or not len(x):
        raise UserError(
            "memory looks at a torch module and a batch of its inputs",
            got=f"{given('model', model) if not isinstance(model, nn.Module) else given('x', x)}",
            do="Pass memory(run.model, x)",
        )
    layers, now = _measured(model, x, "as it is")
    variants = [now]
    for n in [every] if isinstance(every, int) else every:
        variants.append(_measured(_wrapped(model, whole("every", n)), x, f"checkpoint every {n}")[1])
    for k in [parts] if isinstance(parts, int) else parts:
        piece = x[: -(-len(x) // whole("parts", k, 1, len(x)))].clone()  # a view would hold all of x
        found = _measured(model, piece, f"{k} micro-batches")[1]
        variants.append(Variant(found.name, found.kept, found.again, now.passes))
    own = {p.untyped_storage().data_ptr(): p.untyped_storage().nbytes() for p in model.parameters()}
    held = {b.untyped_storage().data_ptr(): b.untyped_storage().nbytes() for b in model.buffers()}
    return Memory(layers, tuple(variants), sum(own.values()), sum(held.values()), len(x))


def _wrapped(model: nn.Module, every: int) -> nn.Module:
    if isinstance(model, Checkpointed):
        return Checkpointed(model.layers, every)
    if not isinstance(model, nn.Sequential):
        raise UserError(
            "every needs a model that is a chain of layers",
            got=f"a {type(model).__name__}",
            do="Pass an nn.Sequential, or put ll.layers.Checkpointed around the chain inside your model",
        )
    return Checkpointed(model, every)


def _measured(model: nn.Module, x: Tensor, name: str) -> tuple[dict[str, int], Variant]:
    """Bytes by layer (1), and the variant."""
    names = {module: path for path, module in model.named_modules()}
    layers, passes = _saved(model, x, names)
    again = extra = 0
    for module in model.modules():
        if isinstance(module, Checkpointed):
            inner, count = _segments(model, module, x)
            again, extra = max(again, inner), extra + count
    return layers, Variant(name, sum(layers.values()), again, passes + extra)


def _segments(model: nn.Module, chain: Checkpointed, x: Tensor) -> tuple[int, int]:
    """The bytes of the largest segment of a checkpointed chain (2), and the layers that are run once more."""
    heard: list[Tensor] = []
    watch = chain.register_forward_pre_hook(lambda module, args: heard.append(args[0].detach()))
    with watch, untouched(model, training=True), torch.no_grad():
        model(x)
    largest, h = 0, heard[0]
    for first in range(0, len(chain.layers), chain.every):
        segment = copy.deepcopy(chain.layers[first : first + chain.every])
        inner, _ = _saved(segment, h.requires_grad_(), {})
        # its first input is kept anyway
        largest = max(largest, sum(inner.values()) - inner.get("input", 0))
        with untouched(segment, training=True), torch.no_grad():
            h = segment(h)
    return largest, sum(1 for layer in chain.layers.modules() if not list(layer.children())) * len(heard)


def _saved(model: nn.Module, x: Tensor, names: dict[nn.Module, str]) -> tuple[dict[str, int], int]:
    """What autograd keeps in one forward pass, by the innermost module; and the layers that ran."""
    own = {t.untyped_storage().data_ptr() for t in (*model.parameters(), *model.buffers())}
    running: list[nn.Module] = []
    held: dict[int, Tensor] = {}  # the tensors are kept alive, so that no place is used twice
    layers: dict[str, int] = {}
    passes = 0
    inputs = {x.untyped_storage().data_ptr()} if not names else set()

    def pack(tensor: Tensor) -> Tensor:
        place = tensor.untyped_storage().data_ptr()
        if place not in held and place not in own:
            held[place] = tensor
            name = "input" if place in inputs else names.get(running[-1], "") if running else ""
            layers[name] = layers.get(name, 0) + tensor.untyped_storage().nbytes()
        return tensor

    def enter(module: nn.Module, args: Any) -> None:
        nonlocal passes
        running.append(module)
        passes += not list(module.children())

    with ExitStack() as hooks:
        for module in model.modules():
            hooks.enter_context(module.register_forward_pre_hook(enter))
            hooks.enter_context(
                module.register_forward_hook(lambda m, a, out: running.pop() and None, always_call=True)
            )
        hooks.enter_context(untouched(model, training=True))
        hooks.enter_context(torch.enable_grad())
        hooks.enter_context(saved_tensors_hooks(pack, lambda tensor: tensor))
        output = model(x)
        del output
    return layers, passes


def _unit(size: float) -> tuple[str, float]:
    for unit, scale in (("GiB", 2**30), ("MiB", 2**20), ("KiB", 2**10)):
        if size >= scale:
            return unit, scale
    return "bytes", 1
