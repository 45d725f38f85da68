"""Recurrent language models and scans on a GPU, in bf16: tokens a second of training, and bytes a second of a scan.

    PYTHONPATH=src python -m benchmarks.recurrent [--batch 64] [--length 512] [--dim 512] [--only train scan] [--cpu]
    PYTHONPATH=src python -m benchmarks.recurrent --only text --text book.txt.gz [--epochs 8]

Training: two layers over characters, the same tied scores and AdamW. A plain torch loop (an nn.LSTM of two layers, bf16
autocast, fused AdamW) stands beside `fit` with an LSTM and an LRU, with --all also with residuals, with the state
carried and with minGRUs. On a GPU the plain loop runs a second time, recorded by hand as one CUDA graph, for `fit`
records its steps too. After each character one of four may stand, drawn at random: a loss of 4.55 knows nothing of
that, one of 1.39 all. Tokens a second of steady steps, ratios, and the loss at the end; each way is told on stderr as
it comes.

Scans: a and b read and h written once, in bytes, over the time of a forward scan, beside a copy of as many bytes on the
device. On a GPU both are recorded, ten at a time, so that the device is measured and not the host that launches. Shares
are told, and on stderr gigabytes a second.

Text: a character LSTM of two layers of 256 units, about a million weights, learns a file. `fit`, with its validation,
record of metrics and doctor, stands beside a plain loop on the same rows with the same first weights, rates, number of
steps and validation. Seconds of each, their ratio, and bits a character of both on held-out text.

--cpu takes sizes that a CPU manages, to see that everything runs. Prints one JSON object, with `bars` first: what was
measured, what it should be at least, and whether it is. Bars of training are those of plain torch's LSTM, launched as
one writes it by hand.
"""

from __future__ import annotations

import argparse
import functools
import itertools
import json
import math
import statistics
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

import leadline as ll
from benchmarks.clock import Epochs, now, plain_rate, seconds
from leadline.data.data import Data
from leadline.data.tokens import NOTHING
from leadline.layers.scan import scan
from leadline.optim.schedules import schedule

_LAYERS, _LR = 2, 1e-3
_EPOCHS = 5  # the first two are to warm up
_TEXT_BATCH, _TEXT_LENGTH, _TEXT_DIM, _TEXT_LR = 128, 256, 256, 5e-3
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
        scores = F.linear(h, self.embed.weight).flatten(0, 1).float()
        return F.cross_entropy(scores, y.flatten(), ignore_index=NOTHING)

    @torch.no_grad()
    def take(self, model: nn.Module) -> None:
        """The weights of a `Recurrent` of LSTMs without residuals, which is the same function."""
        own: Any = model
        self.embed.weight.copy_(own.embed.weight)
        for number, layer in enumerate(own.layers):
            for name, p in layer.branch.kernel.named_parameters():
                getattr(self.body, f"{name.removesuffix('l0')}l{number}").copy_(p)


def drawn(batch: int, length: int, steps: int) -> Data:
    """Characters in rows of `length`, so many that an epoch has `steps` steps; each is one of four after the last."""
    letters = [chr(code) for code in range(32, 127)]
    which = torch.randint(4, (batch * length * steps + 1,), generator=torch.Generator().manual_seed(0))
    codes = torch.tensor([3, 10, 31, 57])[which].cumsum(0) % len(letters)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "drawn.txt"
        path.write_text("".join(letters[k] for k in codes.tolist()))
        data = ll.data.text(path, kind="characters", length=length, val=0.0, test=0.0, cache=False)
    return data.with_(train=data.train.take(torch.arange(batch * steps)))


def training(batch: int, length: int, dim: int, steps: int, device: str, every: bool) -> dict[str, Any]:
    """Tokens a second and last loss of each way to train; of `every` way, or of those that have a bar."""
    data, rates, compiled, losses = drawn(batch, length, steps), {}, {}, {}
    x, y = (t.to(device).split(batch) for t in data.asked(torch.arange(batch * steps)))
    rows = list(zip(x, y, strict=True))
    for name in ("plain torch", "plain torch, recorded")[: 2 if device == "cuda" else 1]:
        net = Plain(data.target.dim, dim).to(device)
        rate = plain_recorded if "recorded" in name else plain_eager
        rates[name] = rate(net, rows) * length
        with torch.no_grad(), torch.autocast(device, torch.bfloat16):
            losses[name] = statistics.mean(float(net(*row)) for row in rows)
        print(name, round(rates[name]), losses[name], file=sys.stderr, flush=True)
    ways: dict[str, tuple[str, dict[str, Any], dict[str, Any]]] = {
        "fit, LSTM": ("lstm", {"residual": False}, {}),
        "fit, LRU": ("lru", {}, {}),
    }
    if every:
        ways |= {
            "fit, LSTM with residuals": ("lstm", {}, {}),
            "fit, LSTM, state carried": ("lstm", {"residual": False}, {"carry_state": True}),
            "fit, minGRU": ("min_gru", {}, {}),
        }
    if device == "cuda":
        kinds = {"LRU": "lru", "minGRU": "min_gru"} if every else {"LRU": "lru"}
        ways |= {f"fit, {name} compiled": (cell, {}, {"compile": "on"}) for name, cell in kinds.items()}
    for name, (cell, options, settings) in ways.items():
        model = ll.models.build(
            "Recurrent", data, data.target.dim, cell=cell, dim=dim, num_layers=_LAYERS, p_drop=0.0, seed=0, **options
        )
        epochs = Epochs()
        settings = {"epochs": _EPOCHS, "batch": batch, "lr": _LR, "precision": "bf16", "device": device, **settings}
        run = ll.fit(model, data, progress=False, listeners=[epochs], **settings)
        rates[name], compiled[name] = epochs.rate(batch * steps * length), run.settings.compile
        losses[name] = epochs.metrics[-1]["train"]["loss"]
        print(name, round(rates[name]), losses[name], compiled[name], file=sys.stderr, flush=True)
    ratios = {
        f"{name} over {plain}": rates[name] / rates[plain] for plain in rates if "plain" in plain for name in ways
    }
    return {"tokens a second": rates, "loss": losses, "ratios": ratios, "compile": compiled}


def plain_eager(net: Plain, rows: list[tuple[Tensor, Tensor]]) -> float:
    """Rows a second as one writes it by hand."""
    optimizer = torch.optim.AdamW(net.parameters(), lr=_LR, fused=True)
    batches = itertools.cycle(rows)
    return plain_rate(net, optimizer, lambda: net(*next(batches)), len(rows[0][0]), len(rows))


def plain_recorded(net: Plain, rows: list[tuple[Tensor, Tensor]]) -> float:
    """Rows a second of the same steps as one CUDA graph."""
    optimizer = torch.optim.AdamW(net.parameters(), lr=_LR, fused=True, capturable=True)
    x, y = (t.clone() for t in rows[0])

    def step() -> None:
        optimizer.zero_grad(set_to_none=True)
        with torch.autocast("cuda", torch.bfloat16, cache_enabled=False):
            loss = net(x, y)
        loss.backward()
        optimizer.step()

    replay = recorded(step)

    def epoch() -> None:
        for x_, y_ in rows:
            x.copy_(x_)
            y.copy_(y_)
            replay()

    return len(rows) * len(x) / min(seconds(epoch) for _ in range(3))


def recorded(run: Callable[[], object], times: int = 1) -> Callable[[], object]:
    """So many calls as one CUDA graph, after three on a stream of their own."""
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        for _ in range(3):
            run()
    torch.cuda.current_stream().wait_stream(stream)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for _ in range(times):
            run()
    return graph.replay


def bandwidth(sizes: list[tuple[int, int, int]], device: str, times: int) -> dict[str, dict[str, tuple[float, float]]]:
    """By size and type, the share of a copy's bytes a second that a forward scan has, and one of the same a always."""
    found: dict[str, dict[str, tuple[float, float]]] = {}
    for rows, channels, steps in sizes:
        of_size = found[f"{rows} rows, {channels} channels, {steps} steps"] = {}
        for dtype in (torch.float32, torch.complex64, torch.bfloat16):
            a = torch.rand(rows, steps, channels, device=device).to(dtype) * 0.99
            b = torch.randn(rows, steps, channels, device=device).to(dtype)
            size, shared, other = b.numel() * b.element_size(), a[:1, :1].contiguous(), torch.empty_like(b)
            rates = [
                moved * size / _median(run, device, times) / 1e9
                for moved, run in (
                    (3, functools.partial(scan, a, b)),
                    (2, functools.partial(scan, shared, b)),
                    (2, functools.partial(other.copy_, b)),
                )
            ]
            name = str(dtype).removeprefix("torch.")
            of_size[name] = (rates[0] / rates[2], rates[1] / rates[2])
            told = [f"{what} {rate:.0f}" for what, rate in zip(("scan", "one a", "copy"), rates, strict=True)]
            print(rows, channels, steps, name, "GB/s:", *told, file=sys.stderr, flush=True)
            del a, b, shared, other
    return found


def _median(run: Callable[[], object], device: str, times: int) -> float:
    """Seconds of a call, the host left out on a GPU."""
    calls = 10 if device == "cuda" else 1
    again = recorded(run, calls) if device == "cuda" else run
    return statistics.median([seconds(again) for _ in range(times + 2)][2:]) / calls


def text(path: Path, epochs: int, device: str, dim: int) -> dict[str, Any]:
    """Seconds and bits a character of `fit` and of a plain loop."""
    data = ll.data.text(path, kind="characters", length=_TEXT_LENGTH)
    options = {"cell": "lstm", "dim": dim, "num_layers": _LAYERS, "p_drop": 0.0, "residual": False, "seed": 0}
    model = ll.models.build("Recurrent", data, data.target.dim, **options)
    net = Plain(data.target.dim, dim)
    net.take(model)
    net.to(device)
    spent = {"plain torch": seconds(lambda: plainly(net, data, epochs, device))}
    settings = {"epochs": epochs, "batch": _TEXT_BATCH, "lr": _TEXT_LR, "precision": _precision(device)}
    start, listening = now(), Epochs()
    run = ll.fit(model, data, progress=False, device=device, listeners=[listening], **settings)
    spent["fit"] = now() - start
    bits = run.evaluate("test")["bits_per_character"]
    copy = Plain(data.target.dim, dim)
    copy.take(run.model)
    mean = {"fit": nats(copy.to(device), data, "test", device), "plain torch": nats(net, data, "test", device)}
    return {
        "weights": sum(p.numel() for p in model.parameters()),
        "steps": len(listening.ends) * -(-len(data.train) // _TEXT_BATCH),
        "seconds": spent,
        "fit over plain torch, seconds": spent["fit"] / spent["plain torch"],
        "bits a character": {name: bits * value / mean["fit"] for name, value in mean.items()},
        "compile": run.settings.compile,
    }


def plainly(net: Plain, data: Data, epochs: int, device: str) -> None:
    """What one writes by hand: shuffled rows on the device, AdamW with warm-up and cosine, validated every epoch."""
    count = len(data.train)
    x, y = (t.to(device) for t in data.asked(torch.arange(count)))
    optimizer = torch.optim.AdamW(net.parameters(), lr=_TEXT_LR, weight_decay=0.01, fused=True)
    steps = -(-count // _TEXT_BATCH)
    rates = torch.optim.lr_scheduler.LambdaLR(optimizer, schedule("cosine", 0.05, epochs * steps))
    for _ in range(epochs):
        for rows in torch.randperm(count).to(device).split(_TEXT_BATCH):
            optimizer.zero_grad(set_to_none=True)
            with torch.autocast(device, torch.bfloat16, enabled=_precision(device) == "bf16"):
                loss = net(x[rows], y[rows])
            loss.backward()
            optimizer.step()
            rates.step()
        if len(data.val):
            nats(net, data, "val", device)


@torch.no_grad()
def nats(net: Plain, data: Data, split: str, device: str) -> float:
    """Mean negative log-likelihood of a token of a split; each of its rows begins anew."""
    total = count = 0.0
    for rows in torch.arange(len(data[split])).split(4 * _TEXT_BATCH):
        x, y = (t.to(device) for t in data.asked(rows, split))
        there = float((y != NOTHING).sum())
        total, count = total + float(net(x, y)) * there, count + there
    return total / count


def _precision(device: str) -> str:
    return "bf16" if device == "cuda" else "float32"


def bars(told: dict[str, Any]) -> dict[str, Any]:
    """What was measured, the least that it should be, and whether it is."""
    found = {}
    if "training" in told:
        ratios = told["training"]["ratios"]
        linear = max(ratio for name, ratio in ratios.items() if "LRU" in name and name.endswith("over plain torch"))
        found["tokens a second, fit over plain torch, LSTM"] = (ratios["fit, LSTM over plain torch"], 1.0)
        found["tokens a second, LRU over plain torch's LSTM"] = (linear, 3.0)
    if "scan" in told:
        for name in ("float32", "complex64", "bfloat16"):
            shares = [of_size[name][0] for of_size in told["scan"].values()]
            found[f"bytes a second, scan over copy, {name}, the middle of all sizes"] = (statistics.median(shares), 0.5)
            found[f"bytes a second, scan over copy, {name}, the least of all sizes"] = (min(shares), 0.5)
    if "text" in told:
        found["seconds, plain torch over fit, text"] = (1 / told["text"]["fit over plain torch, seconds"], 1.0)
    return {
        name: {"found": value, "least": least, "met": value >= least and not math.isnan(value)}
        for name, (value, least) in found.items()
    }


def rounded(value: Any) -> Any:
    """Numbers in it to four digits."""
    if isinstance(value, dict):
        return {name: rounded(one) for name, one in value.items()}
    if isinstance(value, list | tuple):
        return [rounded(one) for one in value]
    return float(f"{value:.4g}") if isinstance(value, float) else value


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--length", type=int, default=512)
    parser.add_argument("--dim", type=int, default=512)
    parser.add_argument("--steps", type=int, default=45, help="of an epoch, of which there are five")
    parser.add_argument("--only", nargs="+", default=["train", "scan"], choices=["train", "scan", "text"])
    parser.add_argument("--all", action="store_true", help="also the ways to train that have no bar")
    parser.add_argument("--text", type=Path, help="a file of text to learn")
    parser.add_argument("--epochs", type=int, default=8, help="over that text")
    parser.add_argument("--cpu", action="store_true")
    options = parser.parse_args()
    if "text" in options.only and options.text is None:
        parser.error("--only text needs --text FILE")
    device, told = "cpu" if options.cpu else "cuda", {}
    sizes, times, dim = _SIZES, 10, _TEXT_DIM
    if options.cpu:
        options.batch, options.length, options.dim, options.steps = 4, 16, 16, 3
        sizes, times, dim = [(2, 8, 256)], 2, 16
    if "train" in options.only:
        told["training"] = training(options.batch, options.length, options.dim, options.steps, device, options.all)
        told["size"] = {name: getattr(options, name) for name in ("batch", "length", "dim", "steps")}
    if "scan" in options.only:
        with torch.no_grad():
            told["scan"] = bandwidth(sizes, device, times)
    if "text" in options.only:
        told["text"] = text(options.text, options.epochs, device, dim)
    name = "cpu" if options.cpu else torch.cuda.get_device_name()
    told = {"bars": bars(told), **told, "device": name, "torch": torch.__version__}
    print(json.dumps(rounded(told), default=str))


if __name__ == "__main__":
    main()
