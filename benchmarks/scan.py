"""A linear recurrence by `scan`, beside the same recurrence step by step. Prints JSON.

    PYTHONPATH=src python -m benchmarks.scan [--batch 8] [--length 4096] [--dim 256] [--device cpu] [--threads 2]

Forward and backward of float32, and of complex numbers. Two loops stand beside it: the one that a reader would write,
which autograd differentiates, and one that writes each step where it belongs, with a backward of its own. The ways take
turns; the least and the median of several rounds are told, in milliseconds, and as ratios.
"""

from __future__ import annotations

import argparse
import functools
import json
import statistics
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from benchmarks.clock import seconds
from leadline.layers.scan import scan, scan_by_steps


class InPlace(torch.autograd.Function):
    """One step after another, into one tensor."""

    @staticmethod
    def forward(ctx: Any, a: Tensor, b: Tensor) -> Tensor:
        out, h = torch.empty_like(b), torch.zeros_like(b[:, 0])
        for a_t, b_t, out_t in zip(a.unbind(1), b.unbind(1), out.unbind(1), strict=True):
            h = torch.addcmul(b_t, a_t, h, out=out_t)
        ctx.save_for_backward(a, out)
        return out

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> tuple[Tensor, Tensor]:
        a, h = ctx.saved_tensors
        a = a.conj_physical() if a.is_complex() else a
        s, slope = torch.empty_like(g), torch.zeros_like(a)
        later, a_later = torch.zeros_like(g[:, 0]), torch.zeros_like(g[:, 0])
        for a_t, g_t, s_t in zip(*(t.unbind(1)[::-1] for t in (a, g, s)), strict=True):
            later, a_later = torch.addcmul(g_t, a_later, later, out=s_t), a_t
        torch.mul(s[:, 1:], h[:, :-1].conj_physical() if h.is_complex() else h[:, :-1], out=slope[:, 1:])
        return slope, s


def both(way: Callable[[Tensor, Tensor], Tensor], a: Tensor, b: Tensor, g: Tensor) -> tuple[Tensor, ...]:
    """Forward and backward."""
    return torch.autograd.grad(way(a, b), (a, b), g)


def milliseconds(runs: dict[str, Callable[[], object]], times: int) -> dict[str, list[float]]:
    """Of each, by turns, so that what else a machine does falls on all; the first round is to warm up."""
    found: dict[str, list[float]] = {name: [] for name in runs}
    for _ in range(times + 1):
        for name, run in runs.items():
            found[name].append(1e3 * seconds(run))
    return {name: spent[1:] for name, spent in found.items()}


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--batch", type=int, default=8)
    parser.add_argument("--length", type=int, default=4096)
    parser.add_argument("--dim", type=int, default=256)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--times", type=int, default=15)
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    torch.manual_seed(0)
    size, found = (options.batch, options.length, options.dim), {}
    for dtype in (torch.float32, torch.complex64):
        a = torch.rand(size, device=options.device).to(dtype).requires_grad_()
        b = torch.randn(size, device=options.device, dtype=dtype).requires_grad_()
        g = torch.randn(size, device=options.device, dtype=dtype)
        ways = {"scan": scan, "loop": scan_by_steps, "loop in place": InPlace.apply}
        results = [both(way, a, b, g) for way in ways.values()]
        for other in results[1:]:
            torch.testing.assert_close(other, results[0], rtol=1e-3, atol=1e-3)
        spent = milliseconds({name: functools.partial(both, way, a, b, g) for name, way in ways.items()}, options.times)
        told = {}
        for name, all_ in spent.items():
            told[name] = {"least": round(min(all_), 2), "median": round(statistics.median(all_), 2)}
            told[name] |= {
                f"{what} over scan's": round(told[name][what] / told["scan"][what], 2) for what in ("least", "median")
            }
        found[str(dtype).removeprefix("torch.")] = told
    device = torch.cuda.get_device_name() if options.device.startswith("cuda") else options.device
    print(json.dumps({"size": size, **found, "threads": options.threads, "device": device, "torch": torch.__version__}))


if __name__ == "__main__":
    main()
