"""Many small networks as one computation: model-steps a second of steady training, beside a loop and beside JAX's vmap.

    python -m benchmarks.population [--members 100] [--device auto|cpu|cuda] [--only wide|small]

The work: M MLPs 40-100-100-10 (and 1-20-1), batches of 100 of 4,000 rows in each member's own order, SGD with
momentum, a learning rate for each. A fit of many epochs less one of few is free of all that happens once. The loop is
one such network, eager, on one thread, as people write it; JAX is jit of a scan of vmap, where it is installed. Rounds
are interleaved. Prints ratios, and JSON.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

import leadline as ll
from leadline.data.data import Data, Split
from leadline.data.target import Target

ROWS, BATCH, MOMENTUM = 4000, 100, 0.9
STEPS = ROWS // BATCH
WORK = {"wide": (40, 100, 100, 10), "small": (1, 20, 1)}


def rows(widths: tuple[int, ...]) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(ROWS, widths[0], generator=generator)
    if widths[-1] == 1:
        return x, (3 * x[:, 0]).sin()
    return x, (x @ torch.randn(widths[0], widths[-1], generator=generator)).argmax(1)


def rates(members: int) -> list[float]:
    return [0.002 * 1.02 ** (m % 100) for m in range(members)]


def leadline_rate(widths: tuple[int, ...], members: int, device: str, epochs: tuple[int, int]) -> float:
    x, y = rows(widths)
    none = Split(x[:0], y[:0])
    classes = widths[-1] > 1
    target = Target("classes", classes=tuple("abcdefghij")) if classes else Target("real")
    head = ll.likelihoods.Categorical(10) if classes else ll.likelihoods.Normal("fixed")
    data = Data(Split(x, y), none, none, target, name="bench")
    model = ll.models.MLP(widths[0], widths[1:-1], widths[-1], activation="relu", p_drop=0.0)
    taken = []
    for count in (*epochs[:1], *epochs):  # the first compiles; all are long enough for a worker on each core
        start = time.perf_counter()
        runs = ll.fit_many(
            model,
            data,
            [{"seed": m, "lr": lr} for m, lr in enumerate(rates(members))],
            likelihood=head,
            epochs=count,
            batch=BATCH,
            optimizer="sgd",
            momentum=MOMENTUM,
            weight_decay=0.0,
            schedule="constant",
            warmup=0.0,
            device=device,
            compile="on",
            progress=False,
        )
        taken.append(time.perf_counter() - start)
    losses = [run.history[-1]["train"]["loss"] / run.history[0]["train"]["loss"] for run in runs]
    if statistics.median(losses) > 0.98:
        raise SystemExit("the networks learned nothing: the figure would mean nothing")
    return members * STEPS * (epochs[1] - epochs[0]) / (taken[2] - taken[1])


def eager_rate(widths: tuple[int, ...], device: str, steps: int) -> float:
    x, y = (column.to(device) for column in rows(widths))
    y = y if widths[-1] > 1 else y[:, None]
    loss = F.cross_entropy if widths[-1] > 1 else F.mse_loss
    layers = [part for a, b in pairwise(widths) for part in (nn.Linear(a, b), nn.ReLU())][:-1]
    model = nn.Sequential(*layers).to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.005, momentum=MOMENTUM)
    threads = torch.get_num_threads()
    torch.set_num_threads(1)

    def run(count: int) -> float:
        order = torch.randperm(ROWS, device=device)
        start = time.perf_counter()
        for k in range(count):
            index = order[k % STEPS * BATCH :][:BATCH]
            optimizer.zero_grad()
            loss(model(x[index]), y[index]).backward()
            optimizer.step()
        if device == "cuda":
            torch.cuda.synchronize()
        return count / (time.perf_counter() - start)

    run(50)
    rate = run(steps)
    torch.set_num_threads(threads)
    return rate


def jax_rate(widths: tuple[int, ...], members: int, epochs: int) -> float | None:
    try:
        import jax
        import jax.numpy as jnp
    except ImportError:
        return None
    columns = [jnp.asarray(column.numpy()) for column in rows(widths)]
    lrs = jnp.asarray(rates(members))

    def outputs(layers: Any, x: Any) -> Any:
        for weight, bias in layers[:-1]:
            x = jax.nn.relu(x @ weight + bias)
        return x @ layers[-1][0] + layers[-1][1]

    def loss(layers: Any, x: Any, y: Any) -> Any:
        if widths[-1] == 1:
            return ((outputs(layers, x)[:, 0] - y) ** 2).mean()
        return -jnp.take_along_axis(jax.nn.log_softmax(outputs(layers, x)), y[:, None], 1).mean()

    def first(key: Any) -> Any:
        keys = jax.random.split(key, len(widths))
        return [
            (jax.random.uniform(k, (a, b), minval=-(a**-0.5), maxval=a**-0.5), jnp.zeros(b))
            for k, (a, b) in zip(keys, pairwise(widths), strict=False)
        ]

    def member_epoch(layers: Any, velocity: Any, lr: Any, key: Any, x: Any, y: Any) -> Any:
        order = jax.random.permutation(key, ROWS).reshape(-1, BATCH)

        def step(state: Any, index: Any) -> Any:
            layers, velocity = state
            gradient = jax.grad(loss)(layers, x[index], y[index])
            velocity = jax.tree.map(lambda v, g: MOMENTUM * v + g, velocity, gradient)
            return (jax.tree.map(lambda w, v: w - lr * v, layers, velocity), velocity), None

        return jax.lax.scan(step, (layers, velocity), order)[0]

    epoch = jax.jit(jax.vmap(member_epoch, in_axes=(0, 0, 0, 0, None, None)), donate_argnums=(0, 1))
    layers = jax.vmap(first)(jax.random.split(jax.random.key(0), members))
    velocity = jax.tree.map(jnp.zeros_like, layers)
    key = jax.random.key(1)

    def run(count: int, layers: Any, velocity: Any) -> Any:
        for k in range(count):
            layers, velocity = epoch(
                layers, velocity, lrs, jax.random.split(jax.random.fold_in(key, k), members), *columns
            )
        jax.block_until_ready(layers)
        return layers, velocity

    layers, velocity = run(2, layers, velocity)
    start = time.perf_counter()
    run(epochs, layers, velocity)
    return members * STEPS * epochs / (time.perf_counter() - start)


def main() -> None:
    parser = argparse.ArgumentParser(description="Many small networks as one computation.")
    parser.add_argument("--members", type=int, help="networks; 100 on a CPU, 1,024 on a GPU")
    parser.add_argument("--device", choices=("auto", "cpu", "cuda"), default="auto")
    parser.add_argument("--only", choices=tuple(WORK))
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    device = options.device if options.device != "auto" else "cuda" if torch.cuda.is_available() else "cpu"
    members = options.members or (100 if device == "cpu" else 1024)
    result: dict[str, Any] = {"device": device, "torch": torch.__version__, "members": members}
    for name in (options.only,) if options.only else WORK:
        widths = WORK[name]
        epochs = {("cpu", "wide"): (2, 12), ("cpu", "small"): (50, 250)}.get((device, name), (20, 620))
        measures: dict[str, Callable[[], float | None]] = {
            "leadline": lambda w=widths, e=epochs: leadline_rate(w, members, device, e),
            "loop": lambda w=widths: eager_rate(w, device, 1000),
            "jax": lambda w=widths, e=epochs: jax_rate(w, members, max(2, (e[1] - e[0]) // 4)),
        }
        found: dict[str, list[float]] = {}
        for _ in range(options.rounds):
            for who, measure in measures.items():
                rate = measure()
                if rate is not None:
                    found.setdefault(who, []).append(rate)
        median = {who: statistics.median(values) for who, values in found.items()}
        result[name] = {**{f"{who}_model_steps_per_second": value for who, value in median.items()}}
        for who in ("loop", "jax"):
            if who in median:
                result[name][f"over_{who}"] = median["leadline"] / median[who]
        words = [f"{who} {value:,.0f}" for who, value in median.items()]
        ratios = [f"{result[name][key]:.2f} x {key[5:]}" for key in result[name] if key.startswith("over_")]
        shape = "-".join(map(str, widths))
        print(f"{members} networks {shape} on {device}, model-steps/s: {', '.join(words)}; {', '.join(ratios)}")
    print(json.dumps(result))


if __name__ == "__main__":
    main()
