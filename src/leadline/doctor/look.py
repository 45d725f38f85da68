"""One look into a model at work: units that no longer answer, and how much gradient reaches each layer.

    dead_j      = [a_j(x) = 0 for every x of the probe]                  ReLU, GELU, SiLU        (1)
    saturated   = [slope(z) < 1 % of the steepest slope]                 tanh, sigmoid           (2)
    g_layer     = sqrt(mean of squared gradients that are not 0)         of a weight matrix      (3)

(3) leaves exact zeros out: rows of an embedding that the probe does not use have no gradient, and nothing is wrong.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import torch
from torch import Tensor, nn

from leadline.doctor.through_time import Reach, is_recurrent, listened, reaches
from leadline.doctor.trace import Call, Trace
from leadline.engine.computing import mixed
from leadline.engine.untouched import untouched
from leadline.likelihoods.likelihood import Likelihood

_RELU = {"relu", "relu6", "threshold", "gelu", "silu"}
# GELU and SiLU only come near zero: below a millionth, neither their values nor their slopes reach anybody.
_SILENT = 1e-6
_CHANNELS = {"conv1d", "conv2d", "conv3d", "conv_transpose1d", "conv_transpose2d", "conv_transpose3d"}
_FEATURES = {"linear", "matmul", "mm", "bmm", "addmm", "einsum"}


@dataclass(frozen=True)
class Look:
    """Args:
    dead: layer -> (share of its units that are dead, number of units).
    saturated: layer -> share of its activations that are saturated.
    gradients: weight -> size of its gradient (3), in the order in which the model uses them; inf if not finite.
    disconnected: parameters from which no path leads to the loss.
    through_time: how the gradient of each recurrent layer runs through long rows.
    """

    dead: dict[str, tuple[float, int]] = field(default_factory=dict)
    saturated: dict[str, float] = field(default_factory=dict)
    gradients: dict[str, float] = field(default_factory=dict)
    disconnected: tuple[str, ...] = ()
    through_time: tuple[Reach, ...] = ()


def look(model: nn.Module, likelihood: Likelihood, x: Tensor, y: Tensor, precision: str = "float32") -> Look:
    """Run the probe (x, y) in evaluation mode, forward and back; the model is bit for bit as before afterwards.

    Args:
        precision: as of the run; a look in float32 takes as long as ten steps in bf16.

    >>> from leadline.likelihoods import Normal
    >>> net = nn.Sequential(nn.Linear(1, 2), nn.ReLU(), nn.Linear(2, 1))
    >>> _ = nn.init.constant_(net[0].bias, -100.0)
    >>> look(net, Normal(), torch.randn(8, 1), torch.zeros(8)).dead
    {'1 (ReLU)': (1.0, 2)}
    """
    seen = _Seen()
    # cuDNN's recurrent layers have no backward pass in evaluation mode; torch's own have
    quick = torch.backends.cudnn.flags(enabled=not is_recurrent(model), deterministic=True)
    with untouched(model, training=False), torch.enable_grad(), quick:
        with mixed(precision, x.device):
            with listened(model) as heard, Trace(model, seen):
                output = model(x)
            loss = likelihood.loss(output, y).mean()
        named = [(name, p) for name, p in model.named_parameters() if p.requires_grad]
        if not named or not loss.requires_grad:
            return Look(seen.dead, seen.saturated, {}, tuple(name for name, _ in named))
        asked = [*(p for _, p in named), *(read for *_, read in heard)]
        every = torch.autograd.grad(loss, asked, allow_unused=True)
    gradients, by_step = every[: len(named)], every[len(named) :]
    disconnected = tuple(name for (name, _), g in zip(named, gradients, strict=True) if g is None)
    order = {path: i for i, path in enumerate(dict.fromkeys(seen.order))}
    matrices = {name: g for (name, p), g in zip(named, gradients, strict=True) if g is not None and p.dim() > 1}
    names = sorted(matrices, key=lambda name: order.get(name.rpartition(".")[0], len(order)))
    sizes = dict(zip(names, _sizes([matrices[name] for name in names])))
    return Look(seen.dead, seen.saturated, sizes, disconnected, tuple(reaches(heard, by_step)))


def _sizes(gradients: list[Tensor]) -> list[float]:
    """Eq. 3 of each; a device is asked once for all of them."""
    norms = [torch.linalg.vector_norm(g.float() if g.dtype.itemsize < 4 else g).double() for g in gradients]
    sizes = [n / g.count_nonzero().clamp(min=1).sqrt() for n, g in zip(norms, gradients)]
    found = torch.stack(sizes).tolist() if sizes else []
    return [size if size == size else float("inf") for size in found]


class _Seen:
    """Gathers activations as the model runs."""

    def __init__(self):
        self.dead: dict[str, tuple[float, int]] = {}
        self.saturated: dict[str, float] = {}
        self.order: list[str] = []
        self._channels = False  # whether units lie on axis 1 (after a convolution) or on the last

    def __call__(self, call: Call) -> None:
        if not call.op:
            return
        self.order.append(call.path)
        if call.op in _CHANNELS or call.op in _FEATURES:
            self._channels = call.op in _CHANNELS
        elif call.op in _RELU:
            self._record_dead(call)
        elif (call.op == "tanh" and "RNN" not in call.kind) or (call.op == "sigmoid" and call.kind == "Sigmoid"):
            # a sigmoid that is no module of its own is a gate as a rule, and gates may well be shut
            slope = 1 - call.outputs[0].detach().square() if call.op == "tanh" else _sigmoid_slope(call.outputs[0])
            self.saturated[self._label(call, self.saturated)] = float((slope < 0.01).double().mean())  # (2)

    def _record_dead(self, call: Call) -> None:
        out = call.outputs[0].detach()
        if out.dim() < 2:
            return
        axis = 1 if out.dim() > 3 or (self._channels and out.dim() == 3) else out.dim() - 1
        others = [a for a in range(out.dim()) if a != axis]
        silent = out.abs().amax(others) <= _SILENT
        self.dead[self._label(call, self.dead)] = (float(silent.double().mean()), silent.numel())  # (1)

    @staticmethod
    def _label(call: Call, taken: dict) -> str:
        """A module that is called several times is several layers."""
        label, turn = call.name, 2
        while label in taken:
            label, turn = f"{call.name}, call {turn}", turn + 1
        return label


def _sigmoid_slope(s: Tensor) -> Tensor:
    s = s.detach()
    return 4 * s * (1 - s)  # 4: the steepest slope is a quarter
