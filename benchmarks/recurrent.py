"""Recurrent language models and scans on a GPU, in bf16: tokens a second of training, and bytes a second of a scan.

    PYTHONPATH=src python -m benchmarks.recurrent [--batch 64] [--length 512] [--dim 512] [--only train scan] [--cpu]

Training: two layers over characters, the same tied scores and AdamW. A plain torch loop (an nn.LSTM of two layers, bf16
autocast, fused AdamW) stands beside `fit` with an LSTM, an LRU and a minGRU, and with the LSTM whose state is carried.
Text is drawn at random: speed does not depend on it. Tokens a second of steady steps, and ratios to the plain loop's;
each is told on stderr as it comes.

Scans: a and b read and h written once, in bytes, over the time of a forward scan, beside a copy of as many bytes on the
device. --cpu takes sizes that a CPU manages, to see that everything runs. Prints one JSON object.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import tempfile
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

import leadline as ll
from benchmarks.clock import Epochs, plain_rate, seconds
from leadline.data.data import Data
from leadline.layers.scan import scan

_LAYERS, _LR = 2, 1e-3
_EPOCHS = 5  # the first two are to warm up
#: rows, channels and steps of scans: many channels, as networks have them, and few
_SIZES = [(16, 1024, 1024), (16, 1024, 4096), (16, 1024, 16384), (4, 1024, 65536), (1, 256, 262144), (8, 256, 4096)]


class Plain(nn.Module):
    """Embedding, nn.LSTM, and tied scores."""

    def __init__(self, num_tokens: int, dim: int):
        super().__init__()
        self.embed = nn.Embedding(num_tokens, dim)
        self.body = nn.LSTM(dim, dim, num_layers=_LAYERS, batch_first=True)
        nn.init.normal_(self.embed.weight, 0, dim**-0.5)

    def forward(self, x: Tensor, y: Tensor) -> Tensor:
        h, _ = self.body(self.embed(x))
        return F.cross_entropy(F.linear(h, self.embed.weight).flatten(0, 1).float(), y.flatten())


def drawn(batch: int, length: int, steps: int) -> Data:
    """Random characters in rows of `length`, so many that an epoch has `steps` steps; a little is held out."""
    letters = [chr(code) for code in range(32, 127)]
    count = batch * length * steps + 1
    drawn_ = torch.randint(len(letters), (count,), generator=torch.Generator().manual_seed(0)).tolist()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "drawn.txt"
        path.write_text("".join(letters[k] for k in drawn_))
        data = ll.data.text(path, kind="characters", length=length, val=0.0, test=0.0, cache=False)
    return data.with_(train=data.train.take(torch.arange(batch * steps)))


def training(batch: int, length: int, dim: int, steps: int, device: str) -> dict[str, Any]:
    """Tokens a second of each way to train."""
    data, found = drawn(batch, length, steps), {}
    x, y = (t.to(device) for t in data.asked(torch.arange(batch)))
    net = Plain(data.target.dim, dim).to(device)
    optimizer = torch.optim.AdamW(net.parameters(), lr=_LR, fused=True)
    found["plain torch, LSTM"] = plain_rate(net, optimizer, lambda: net(x, y), batch, steps * (_EPOCHS - 2)) * length
    ways = {
        "fit, LSTM": ("lstm", {"residual": False}, {}),
        "fit, LSTM with residuals": ("lstm", {}, {}),
        "fit, LSTM, state carried": ("lstm", {"residual": False}, {"carry_state": True}),
        "fit, LRU": ("lru", {}, {}),
        "fit, minGRU": ("min_gru", {}, {}),
    }
    if device == "cuda":
        ways |= {"fit, LRU compiled": ("lru", {}, {"compile": "on"})}
        ways |= {"fit, minGRU compiled": ("min_gru", {}, {"compile": "on"})}
    for name, (cell, options, settings) in ways.items():
        model = ll.models.build(
            "Recurrent", data, data.target.dim, cell=cell, dim=dim, num_layers=_LAYERS, p_drop=0.0, seed=0, **options
        )
        epochs = Epochs()
        settings = {"epochs": _EPOCHS, "batch": batch, "lr": _LR, "precision": "bf16", "device": device, **settings}
        run = ll.fit(model, data, progress=False, listeners=[epochs], **settings)
        found[name] = epochs.rate(batch * steps * length)
        found[f"{name}: compile"] = run.settings.compile
        print(name, found[name], run.settings.compile, file=sys.stderr, flush=True)
    plain, lstm = found["plain torch, LSTM"], found["fit, LSTM"]
    ratios = {f"{name} over plain torch": found[name] / plain for name in ways}
    ratios |= {f"{name} over fit, LSTM": found[name] / lstm for name in ways if "LSTM" not in name}
    return {"tokens a second": found, "ratios": ratios}


def bandwidth(sizes: list[tuple[int, int, int]], device: str, times: int) -> list[dict[str, Any]]:
    """Gigabytes a second of forward scans, and the share of a copy's."""
    found = []
    for rows, channels, steps in sizes:
        for dtype in (torch.float32, torch.complex64, torch.bfloat16):
            a = torch.rand(rows, steps, channels, device=device).to(dtype) * 0.99
            b = torch.randn(rows, steps, channels, device=device).to(dtype)
            shared = a[:1, :1].contiguous()
            size = b.numel() * b.element_size()
            moved = {"scan": 3 * size, "scan of one a": 2 * size, "copy": 2 * size}
            other = torch.empty_like(b)
            runs = {
                "scan": lambda a=a, b=b: scan(a, b),
                "scan of one a": lambda a=shared, b=b: scan(a, b),
                "copy": lambda b=b, to=other: to.copy_(b),
            }
            spent = {name: [seconds(run) for _ in range(times + 2)][2:] for name, run in runs.items()}
            rate = {name: moved[name] / statistics.median(all_) / 1e9 for name, all_ in spent.items()}
            shares = {f"{name}, share of copy": rate[name] / rate["copy"] for name in ("scan", "scan of one a")}
            found.append(
                {"rows": rows, "channels": channels, "steps": steps, "type": str(dtype), "GB/s": rate, **shares}
            )
            del a, b, shared, other, runs
    return found


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--length", type=int, default=512)
    parser.add_argument("--dim", type=int, default=512)
    parser.add_argument("--steps", type=int, default=60, help="of an epoch, of which there are five")
    parser.add_argument("--only", nargs="+", default=["train", "scan"], choices=["train", "scan"])
    parser.add_argument("--cpu", action="store_true")
    options = parser.parse_args()
    device, told = "cpu" if options.cpu else "cuda", {}
    sizes, times = _SIZES, 20
    if options.cpu:
        options.batch, options.length, options.dim, options.steps = 4, 16, 16, 3
        sizes, times = [(2, 8, 256)], 2
    if "train" in options.only:
        told["training"] = training(options.batch, options.length, options.dim, options.steps, device)
        told["size"] = {name: getattr(options, name) for name in ("batch", "length", "dim", "steps")}
    if "scan" in options.only:
        with torch.no_grad():
            told["scan"] = bandwidth(sizes, device, times)
    name = "cpu" if options.cpu else torch.cuda.get_device_name()
    print(json.dumps({**told, "device": name, "torch": torch.__version__}, default=str))


if __name__ == "__main__":
    main()
