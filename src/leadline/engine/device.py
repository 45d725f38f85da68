"""Where and how a run computes: device, number type, threads. Measured or derived, then recorded."""

from __future__ import annotations

import math
import os
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import cast

import torch
from torch import Tensor, nn

from leadline.errors import UserError

#: operations a step below which one thread is taken without measuring: waking a second costs more than it brings
_SMALL_STEP = 1e8
_SHORT_PROBE = 0.2  # seconds: shorter ones are timed three times
_LIMITS = Path("/sys/fs/cgroup")


def pick_device(name: str) -> torch.device:
    """The device called `name`; "auto" is the GPU where there is one.

    >>> pick_device("cpu")
    device(type='cpu')
    """
    if name == "auto":
        if torch.cuda.is_available():
            return torch.device("cuda")
        return torch.device("mps" if torch.backends.mps.is_available() else "cpu")
    try:
        device = torch.device(name)
    except RuntimeError:
        raise UserError("device must be cpu, cuda or mps", got=f"device={name!r}", do="Try --device cpu") from None
    there = {"cpu": True, "cuda": torch.cuda.is_available(), "mps": torch.backends.mps.is_available()}
    if not there.get(device.type, False):
        raise UserError(
            "device must be one that this machine has", got=f"device={name!r}", do="Try --device cpu or --device auto"
        )
    return device


def pick_precision(name: str, device: torch.device, model: nn.Module) -> str:
    """How numbers are kept; "auto" is float32 on a CPU, and on a GPU bf16 or tf32 by the size of the model."""
    if name == "tf32" and device.type != "cuda":
        raise UserError("precision tf32 needs a CUDA device", got=f"device {device.type}", do="Use float32")
    if name != "auto":
        return name
    if device.type != "cuda":
        return "float32"
    return "bf16" if convolves(model) or sum(p.numel() for p in model.parameters()) > 1_000_000 else "tf32"


def convolves(model: nn.Module) -> bool:
    """Whether a kernel slides over pictures or volumes somewhere in the model."""
    return any(isinstance(module, nn.modules.conv._ConvNd) and module.weight.dim() > 3 for module in model.modules())


def place(model: nn.Module, device: torch.device, dtype: torch.dtype) -> nn.Module:
    """The model on its device, in place; on a GPU, kernels for pictures have their channels last, as it wants them."""
    model.to(device, dtype)
    if device.type == "cuda":
        for p in model.parameters():
            if p.dim() == 4:
                p.data = channels_last(p.data)
    return model


def channels_last(t: Tensor) -> Tensor:
    """A tensor (B, C, Y, X) whose channels lie side by side, said so by its strides even where it has but one.

    With one channel torch takes both orders for the same and writes (C Y X, Y X, X, 1), which the convolution after it
    reads as channels first, with all that follows.

    >>> channels_last(torch.zeros(8, 1, 3, 3)).stride(), channels_last(torch.zeros(8, 2, 3, 3)).stride()
    ((9, 1, 3, 1), (18, 1, 6, 2))
    """
    _, C, Y, X = t.shape  # noqa: N806
    return torch.empty_strided(t.shape, (C * Y * X, 1, X * C, C), dtype=t.dtype, device=t.device).copy_(t)


def pick_threads(wanted: int | None, device: torch.device, model: nn.Module, x: Tensor, probe: Callable) -> int:
    """The number of CPU threads: `wanted`, or one for small steps, or whichever of one and all runs `probe` faster.

    Small steps are decided by counting alone, so that two runs of the same settings decide alike. All are those that
    torch has been given, by OMP_NUM_THREADS or torch.set_num_threads, and no more than there are cores.

    Args:
        x: a batch as the network reads it.
        probe: a forward and backward pass on it.
    """
    if wanted is not None:
        return wanted
    before = torch.get_num_threads()
    if device.type != "cpu":
        return before
    most = min(cores(), before)
    if most == 1 or 6.0 * len(x) * uses(model, x[:1]) < _SMALL_STEP:
        return 1
    best = {}
    for threads in (1, most):
        torch.set_num_threads(threads)
        probe()
        best[threads] = _seconds(probe)
        if best[threads] < _SHORT_PROBE:  # long ones say enough at once
            best[threads] = min(best[threads], _seconds(probe), _seconds(probe))
    torch.set_num_threads(before)
    return min(best, key=lambda threads: best[threads])


@torch.no_grad()
def uses(model: nn.Module, row: Tensor) -> float:
    """How often a forward pass of one row uses a weight: once each, those of a kernel at every place of its map, and in
    a row of tokens those of a linear map at every token.

    >>> uses(nn.Linear(3, 2, bias=False), torch.zeros(1, 3)), uses(nn.Conv1d(1, 2, 3), torch.zeros(1, 1, 10))
    (6.0, 50.0)
    """
    total = float(sum(p.numel() for p in model.parameters()))
    worded = not row.is_floating_point()

    def count(module: nn.Module, inputs: object, output: Tensor) -> None:
        nonlocal total
        places = output[0].numel() // module.weight.shape[0] if isinstance(module, nn.Linear) else output[0, 0].numel()
        total += (places - 1) * cast(Tensor, module.weight).numel()

    kinds = (nn.modules.conv._ConvNd, nn.Linear) if worded else nn.modules.conv._ConvNd
    hooks = [m.register_forward_hook(count) for m in model.modules() if isinstance(m, kinds)]
    if not hooks:
        return total
    modes = [(module, module.training) for module in model.modules()]
    try:
        model.eval()(row)
    finally:
        for module, mode in modes:
            module.training = mode
        for hook in hooks:
            hook.remove()
    return total


def cores() -> int:
    """Cores that this process may use; a container may have less time than the cores that it sees."""
    seen = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return min(seen, max(1, _share()))


def _share() -> int:
    """Cores whose time a container is given, by either version of cgroups; very many where nothing is said."""
    for names in (["cpu.max"], ["cpu/cpu.cfs_quota_us", "cpu/cpu.cfs_period_us"]):
        with suppress(OSError, ValueError):
            quota, period = " ".join((_LIMITS / name).read_text() for name in names).split()
            if int(quota) > 0:  # the word max, or -1, is no limit
                return math.ceil(int(quota) / int(period))
    return 2**31


def _seconds(work: Callable) -> float:
    start = time.perf_counter()
    work()
    return time.perf_counter() - start
