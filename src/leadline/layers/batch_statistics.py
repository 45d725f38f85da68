"""Batch normalisation's relatives, and its exact statistics for test time.

    batch norm   z = γ (x - mean_B) / √(var_B + ε) + β        over the batch B while training  (1)
    ghost        (1) over parts of the batch, each by itself: the noise of small batches (Hoffer et al.) (2)
    renorm       z = γ ((x - mean_B) / σ_B · r + d) + β,  r = σ_B / σ,  d = (mean_B - mean) / σ, both clipped and held
                 constant: as at test time, with a gradient through the batch (Ioffe, 2017)  (3)
    exact        mean and variance over the whole training split, in place of running averages  (4)

Statistics are of each unit, or of each channel over all positions. Running averages follow weights that are gone; after
training, (4) is what (1) would have with one batch of all rows.

Shapes     (B, dim, …) -> the same
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager

import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm

from leadline.errors import UserError
from leadline.settings import real, whole

_EPSILON = 1e-5


class GhostBatchNorm(nn.Module):
    """Args:
        dim: number of units or channels, at least 1.
        rows: of a part, at least 2; a batch is cut into parts of at least that many, nearly alike.

    >>> layer = GhostBatchNorm(3, rows=4)
    >>> bool(layer(torch.randn(8, 3))[:4].mean(0).abs().max() < 1e-6)
    True
    """

    def __init__(self, dim: int, rows: int = 16):
        super().__init__()
        self.rows = whole("rows", rows, 2)
        self.norm = nn.BatchNorm1d(dim)

    def forward(self, x: Tensor) -> Tensor:
        h = x.flatten(2) if x.dim() > 2 else x  # (B, dim, positions)
        if not self.training:
            return self.norm(h).view(x.shape)
        parts = h.tensor_split(max(1, len(h) // self.rows))
        return torch.cat([self.norm(part) for part in parts]).view(x.shape)  # eq. 2


class BatchRenorm(nn.Module):
    """Args:
        dim: number of units or channels, at least 1.
        most_scale, most_shift: r lies in [1/most_scale, most_scale], d in [-most_shift, most_shift].
        momentum: of the running mean and deviation, above 0 and below 1.

    >>> layer = BatchRenorm(3)
    >>> layer(torch.randn(8, 3)).shape, layer(torch.randn(8, 3, 5, 5)).shape
    (torch.Size([8, 3]), torch.Size([8, 3, 5, 5]))
    """

    mean: Tensor
    deviation: Tensor

    def __init__(self, dim: int, most_scale: float = 3.0, most_shift: float = 5.0, momentum: float = 0.1):
        super().__init__()
        self.most_scale, self.most_shift = real("most_scale", most_scale, 1), real("most_shift", most_shift, 0)
        self.momentum = real("momentum", momentum, 0, 1, above=True, usual=0.1)
        self.gain, self.shift = nn.Parameter(torch.ones(dim)), nn.Parameter(torch.zeros(dim))
        self.register_buffer("mean", torch.zeros(dim))
        self.register_buffer("deviation", torch.ones(dim))

    def forward(self, x: Tensor) -> Tensor:
        h = x.to(torch.promote_types(x.dtype, self.mean.dtype))
        shape = (-1, *[1] * (x.dim() - 2))
        if not self.training:
            scale = self.gain / self.deviation
            return ((h - self.mean.view(shape)) * scale.view(shape) + self.shift.view(shape)).to(x.dtype)
        variance, mean = torch.var_mean(h, [0, *range(2, x.dim())], correction=0)
        deviation = (variance + _EPSILON).sqrt()
        r = (deviation.detach() / self.deviation).clamp(1 / self.most_scale, self.most_scale)
        d = ((mean.detach() - self.mean) / self.deviation).clamp(-self.most_shift, self.most_shift)
        scale, offset = self.gain * r / deviation, self.gain * d + self.shift
        with torch.no_grad():
            self.mean.lerp_(mean.detach(), self.momentum)
            self.deviation.lerp_(deviation.detach(), self.momentum)
        return ((h - mean.view(shape)) * scale.view(shape) + offset.view(shape)).to(x.dtype)  # eq. 3


@torch.no_grad()
def exact_statistics(model: nn.Module, x: Tensor | Iterable[Tensor]) -> None:
    """Give every batch normalisation of the model the statistics of all rows (4), in place.

    Of several batches, one layer after another is measured over all of them, with the layers before it already exact:
    as many passes as there are normalisations, and the result of one batch of all rows.

    Args:
        x: the training rows as the network reads them, all at once, or batches of them that can be gone through again
            and again, such as a list; at least 2 rows in all.

    >>> model = nn.Sequential(nn.BatchNorm1d(1))
    >>> exact_statistics(model, torch.tensor([[1.0], [5.0]]))
    >>> model[0].running_mean.tolist(), model[0].running_var.tolist()
    ([3.0], [4.0])
    >>> exact_statistics(model, [torch.tensor([[1.0]]), torch.tensor([[5.0], [9.0]])])
    >>> model[0].running_mean.tolist()
    [5.0]
    """
    if isinstance(x, Iterator):
        raise UserError(
            "batches are gone through once for every normalisation",
            got=f"a {type(x).__name__}, which ends after the first time",
            do="Pass a list of batches",
        )
    with _evaluating(model):
        batches = [x] if isinstance(x, Tensor) else x
        norms = _in_order(model, batches)
        if isinstance(x, Tensor):
            _measure(model, norms, batches)  # each normalises by what was measured a moment ago, and hands it on exact
            return
        for norm in norms:
            _measure(model, [norm], batches)


def _in_order(model: nn.Module, batches: Iterable[Tensor]) -> list[nn.Module]:
    """The normalisations that keep statistics, in the order in which the model calls them."""
    called: list[nn.Module] = []

    def note(module: nn.Module, arguments: tuple[Tensor, ...]) -> None:
        if any(module is other for other in called):
            raise UserError(
                "a normalisation must be called once in a pass to have exact statistics",
                got=f"two calls of a {type(module).__name__}",
                do="Give each place a layer of its own",
            )
        called.append(module)

    first = next(iter(batches), None)
    if first is None:
        raise UserError("statistics need rows", got="no batch", do="Pass the training rows")
    with _hooked([module for module in model.modules() if _keeps(module)], note):
        model(first)
    return called


def _keeps(module: nn.Module) -> bool:
    return isinstance(module, BatchRenorm) or (isinstance(module, _BatchNorm) and module.track_running_stats)


def _measure(model: nn.Module, norms: Sequence[nn.Module], batches: Iterable[Tensor]) -> None:
    """Statistics over all batches of what enters `norms`, written into them after each batch."""
    count = dict.fromkeys(norms, 0)
    moments: dict[nn.Module, tuple[Tensor, Tensor]] = {}

    def add(module: nn.Module, arguments: tuple[Tensor, ...]) -> None:
        [h] = arguments
        rows = h.numel() // h.shape[1]
        h = h.to(torch.promote_types(h.dtype, torch.float32))
        variance, mean = (m.cpu().double() for m in torch.var_mean(h, [0, *range(2, h.dim())], correction=0))
        old_mean, old_variance = moments.get(module, (mean, variance))
        share = rows / (count[module] + rows)  # of the new rows among all
        off = mean - old_mean
        within = old_variance + share * (variance - old_variance)
        moments[module] = old_mean + share * off, within + share * (1 - share) * off.square()
        count[module] += rows
        _set(module, *moments[module])

    with _hooked(norms, add):
        for batch in batches:
            model(batch)


def _set(module: nn.Module, mean: Tensor, variance: Tensor) -> None:
    if isinstance(module, BatchRenorm):
        module.mean.copy_(mean)
        module.deviation.copy_((variance + _EPSILON).sqrt())
    elif isinstance(module, _BatchNorm):
        module.running_mean.copy_(mean)  # type: ignore[union-attr]
        module.running_var.copy_(variance)  # type: ignore[union-attr]


@contextmanager
def _hooked(modules: Sequence[nn.Module], hook: Callable[[nn.Module, tuple[Tensor, ...]], None]) -> Iterator[None]:
    hooks = [module.register_forward_pre_hook(hook) for module in modules]
    try:
        yield
    finally:
        for handle in hooks:
            handle.remove()


@contextmanager
def _evaluating(model: nn.Module) -> Iterator[None]:
    """The model in evaluation mode; every module's own mode comes back."""
    modes = [(module, module.training) for module in model.modules()]
    model.eval()
    try:
        yield
    finally:
        for module, mode in modes:
            module.training = mode
