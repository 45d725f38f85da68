"""What goes through a model, down and back: the size of signal and gradient at every map, in one pass each way.

    forward     q_k = E z_k²                          z_k the output of the k-th map that is called           (1)
    spread      s_k = E_units Var_rows z_k            what of it tells rows apart                             (2)
    backward    g_k = E (∂loss_row / ∂z_k)²                                                                   (3)
    dead        share of units whose activation is silent for every row                                       (4)
    saturated   share of activations where the slope is below 1 % of the steepest                             (5)

A map is any call of a torch function that takes a weight of at least two axes and something else: linear maps,
convolutions, x @ W, attention as a whole. The calls are followed and not the modules, so functions, skips and modules
that are used twice need no care; an activation counts for the map that was called last before it. Statistics are taken
in double precision.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

_CHANNELS = {f"conv{t}{n}d" for t in ("", "_transpose") for n in (1, 2, 3)}
_CUT = {"relu", "relu6", "threshold"}  # 0 below 0, and the slope with it
_NEAR = {"gelu", "silu"}  # close to that far below 0
_SILENT = 1e-6
#: functions through which theory can follow a second moment, beside "linear": they pass on what they read
_PASSES = {"flatten", "view", "reshape", "dropout", "contiguous", "to", "float", "double", "clone"}
_QUIET = {"dim", "size", "is_floating_point", "get", "numel", "ndim", "shape", "len"}


@dataclass
class Level:
    """One call of a map.

    Args:
        path: of the weight's module, with the number of the call from the second on; `weight` its full name.
        op: name of the function.
        width: units or channels.
        moment, mean, spread: of what came out: eq. 1, the mean, eq. 2.
        gradient: eq. 3; nan where no gradient came back.
        lost: values that were not finite, forward and backward.
        dead: eq. 4, and `saturated` eq. 5; nan where no such activation followed.
        bends: the activation that followed: "relu", "leaky_relu" with its `slope`, "" for none.
        alike: whether all units that it reads, and all its weights for them, are the same: they stay the same for ever.
        ratio: |gradient of the weight| / |weight|; nan where it has none.
        fans: inputs and outputs; `power` the mean square of the weights; `bias` that of the biases.
    """

    path: str
    weight: str
    op: str
    width: int
    moment: float
    mean: float
    spread: float
    gradient: float = math.nan
    lost: int = 0
    dead: float = math.nan
    saturated: float = math.nan
    bends: str = ""
    slope: float = 0.0
    alike: bool = False
    ratio: float = math.nan
    fans: tuple[int, int] = (0, 0)
    power: float = math.nan
    bias: float = 0.0


@dataclass
class Sounding:
    """Args:
    levels: the maps in the order in which they were called.
    input: second moment of x; `told` the part of it that tells rows apart.
    read: the same two of what the last map read.
    plain: whether the model is a chain of linear maps with known activations, so that theory can follow it.
    loss: mean over the rows; `empty` that of outputs of 0.
    blank: whether some weight is 0 throughout.
    """

    levels: list[Level]
    input: float
    told: float
    read: tuple[float, float]
    plain: bool
    loss: float = math.nan
    empty: float = math.nan
    blank: bool = False
    output: Tensor | None = field(default=None, repr=False)


Loss = Callable[[Tensor, Tensor], Tensor]


def sound(
    model: nn.Module, x: Tensor, y: Tensor, loss: Loss, parameters: Mapping[str, Tensor] | None = None
) -> Sounding:
    """Run rows through the model and their loss back. Modes are as they are; parameters' `.grad` is left alone.

    Args:
        x, y: rows, as the network reads them.
        loss: of output and y, one value a row.
        parameters: to compute with in place of the model's own, by name; buffers may be among them.

    >>> net = nn.Sequential(nn.Linear(2, 3), nn.ReLU(), nn.Linear(3, 1))
    >>> seen = sound(net, torch.randn(8, 2), torch.zeros(8), lambda out, y: (out[:, 0] - y).square() / 2)
    >>> [(level.path, level.op, level.bends) for level in seen.levels]
    [('0', 'linear', 'relu'), ('2', 'linear', '')]
    """
    own = dict(model.named_parameters()) if parameters is None else dict(parameters)
    names = {id(p): name for name, p in own.items() if p.dim() > 1 and p.is_floating_point()}
    follow = _Follow(names, own, len(x))
    # cuDNN's recurrent layers have no backward pass in evaluation mode; torch's own have
    with torch.enable_grad(), torch.backends.cudnn.flags(enabled=False):
        with follow:
            out = model(x) if parameters is None else torch.func.functional_call(model, dict(parameters), (x,))
        total = loss(out, y).sum()
        weights = {level.weight: own[level.weight] for level in follow.levels if own[level.weight].requires_grad}
        if total.requires_grad and weights:
            found = torch.autograd.grad(total, list(weights.values()), allow_unused=True)
            _ratios(follow.levels, dict(zip(weights, found, strict=True)), weights, len(x))
    with torch.no_grad():
        empty = float(loss(torch.zeros_like(out), y).double().mean())
    return Sounding(
        follow.levels,
        *_sizes(x)[:2],
        read=_sizes(follow.last)[:2] if follow.last is not None else (math.nan, math.nan),
        plain=follow.plain and all(level.op == "linear" for level in follow.levels),
        loss=float(total.detach()) / len(x),
        empty=empty,
        blank=follow.blank,
        output=out.detach(),
    )


def by_batch(model: nn.Module) -> None:
    """In evaluation mode, let normalisations by batch do what they will do in training."""
    for module in model.modules():
        if isinstance(module, nn.modules.batchnorm._BatchNorm):
            module.train()


def _ratios(
    levels: list[Level], gradients: Mapping[str, Tensor | None], weights: Mapping[str, Tensor], rows: int
) -> None:
    for level in levels:
        gradient = gradients.get(level.weight)
        if gradient is not None:
            size = float(weights[level.weight].detach().double().norm())
            level.ratio = float(gradient.double().norm()) / rows / size if size else math.inf


class _Follow(TorchFunctionMode):
    """Hears every call, and measures at once: an in-place activation may overwrite what it read."""

    def __init__(self, names: dict[int, str], parameters: Mapping[str, Tensor], rows: int):
        super().__init__()
        self.names, self.rows = names, rows
        self.known = {id(p) for p in parameters.values()}
        self.parameters = parameters
        self.keep: list[Any] = []  # an id is only good while its tensor lives
        self.levels: list[Level] = []
        self.calls: dict[str, int] = {}
        self.last: Tensor | None = None
        self.plain, self.blank = True, False

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        name = getattr(func, "__name__", "").strip("_")
        if name in _QUIET:
            return func(*args, **kwargs)
        given = list(_tensors((args, kwargs)))
        weight = next((t for t in given if id(t) in self.names), None)
        data = [t for t in given if id(t) not in self.known]
        out = func(*args, **kwargs)
        if not isinstance(out, (Tensor, tuple)) or not given:
            return out
        if not data:  # made of parameters alone: their transpose, or a weight that is computed
            if isinstance(out, Tensor):
                self._alias(out, weight)
        elif weight is not None and name != "embedding":
            self._map(name, weight, given, data[0], out[0] if isinstance(out, tuple) else out)
        elif isinstance(out, Tensor) and self.levels and out.is_floating_point():
            self._activation(name, args, kwargs, out)
        elif name not in _PASSES:
            self.plain = False
        return out

    def _alias(self, out: Tensor, weight: Tensor | None) -> None:
        self.keep.append(out)
        self.known.add(id(out))
        if weight is not None and out.dim() > 1:
            self.names[id(out)] = self.names[id(weight)]

    def _map(self, op: str, weight: Tensor, given: list[Tensor], read: Tensor, out: Tensor) -> None:
        if not isinstance(out, Tensor) or not out.is_floating_point() or min(out.dim(), read.dim()) < 2:
            return  # not a map of rows: a weight that is scaled by a number, say
        name = self.names[id(weight)]
        turn = self.calls[name] = self.calls.get(name, 0) + 1
        path = name.rpartition(".")[0] or name
        moment, spread, mean, lost = _sizes(out)
        w = weight.detach()
        power = float(w.double().square().mean())
        bias = next((t for t in given if t is not weight and id(t) in self.known and t.dim() == 1), None)
        level = Level(
            path if turn == 1 else f"{path}, call {turn}", name, op, out.shape[1 if op in _CHANNELS else -1],
            moment, mean, spread, lost=lost, power=power,
            fans=(read.shape[-1], out.shape[-1]),
            bias=0.0 if bias is None else float(bias.detach().double().square().mean()),
        )  # fmt: skip
        if op == "linear" and self.levels:
            h = read.detach().flatten(0, -2)
            level.alike = h.shape[-1] > 1 and bool((h == h[:, :1]).all()) and bool((w == w[:, :1]).all())
        self.blank = self.blank or power == 0
        self.levels.append(level)
        self.last = read.detach()
        if out.requires_grad:
            out.register_hook(_gradient_into(level))

    def _activation(self, name: str, args: Any, kwargs: Any, out: Tensor) -> None:
        level = self.levels[-1]
        if name in _CUT or name in _NEAR:
            silent = out.detach() <= 0 if name in _CUT else out.detach().abs() <= _SILENT
            if name in _NEAR and args[0] is not out:
                silent &= args[0].detach() < -1  # close to 0 they are silent and awake
            if out.dim() > 1:
                axis = 1 if out.dim() > 3 or (level.op in _CHANNELS and out.dim() == 3) else out.dim() - 1
                level.dead = float(silent.all(0).double().mean()) if out.dim() == 2 else _all_but(silent, axis)  # eq. 4
            self.plain = self.plain and name == "relu"
        elif name in ("tanh", "sigmoid"):
            a = out.detach()
            flat = (1 - a.square() if name == "tanh" else 4 * a * (1 - a)) < 0.01
            level.saturated = float(flat.double().mean())  # eq. 5
            self.plain = False
        elif name == "leaky_relu":
            level.slope = args[1] if len(args) > 1 else kwargs.get("negative_slope", 0.01)
        elif name not in _PASSES:
            self.plain = False
        if name in ("relu", "leaky_relu"):
            self.plain = self.plain and not level.bends
            level.bends = name


def _all_but(silent: Tensor, axis: int) -> float:
    return float(silent.transpose(0, axis).flatten(1).all(1).double().mean())


def _gradient_into(level: Level) -> Callable[[Tensor], None]:
    def hook(gradient: Tensor) -> None:
        values = gradient.detach().double()
        level.gradient = float(values.square().mean())
        level.lost += 0 if math.isfinite(level.gradient) else int((~gradient.isfinite()).sum())

    return hook


def _sizes(values: Tensor) -> tuple[float, float, float, int]:
    """Second moment, spread over the rows, mean, and how many are not finite."""
    flat = values.detach().double().flatten(1) if values.dim() > 1 else values.detach().double()[:, None]
    mean_of_unit = flat.mean(0)
    moment = float(flat.square().mean())
    spread = float((flat - mean_of_unit).square().mean())
    lost = 0 if math.isfinite(moment) else int((~flat.isfinite()).sum())
    return moment, spread, float(mean_of_unit.mean()), lost


def _tensors(value: Any) -> Iterator[Tensor]:
    if isinstance(value, Tensor):
        yield value
    elif isinstance(value, (tuple, list)):
        for item in value:
            yield from _tensors(item)
    elif isinstance(value, dict):
        for item in value.values():
            yield from _tensors(item)
