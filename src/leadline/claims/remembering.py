"""What recurrent networks remember when they are trained, and what padding and time do to them."""

from __future__ import annotations

import math
from collections.abc import Callable
from statistics import mean
from typing import Any

import torch
from torch import Tensor, nn

from leadline.claims.claim import Check, Evidence, claim
from leadline.claims.curves import Curves, Points
from leadline.data.mnist1d import mnist1d
from leadline.layers.bidirectional import Bidirectional
from leadline.layers.elman import Elman
from leadline.layers.linear_recurrent_unit import LRU
from leadline.layers.lstm import LSTM
from leadline.layers.recurrent_layers import RECURRENT
from leadline.models.recurrent import Recurrent
from leadline.reference import through_time
from leadline.verbs import fit

_UNITS, _SYMBOLS = 16, 4


@claim(
    "recall-over-lags",
    "What came ten steps ago every recurrent layer learns to recall; over a hundred steps and more Elman's is still at "
    "chance when an LSTM and a linear recurrent unit that begin by keeping have learned it",
    "lecture notes on gated memory and on linear recurrent models; Hochreiter and Schmidhuber 1997; Arjovsky et al. "
    "2016; Tallec and Ollivier 2018",
)
def recall_over_lags(full: bool) -> Evidence:
    lags, seeds = ((10, 100, 1000), 2) if full else ((10, 100), 1)
    updates = {10: 100, 100: 200, 1000: 800}
    found: dict[str, list[float]] = {}
    curves: dict[str, Points] = {}
    with torch.random.fork_rng(devices=[]):
        for name, make in _LAYERS.items():
            runs = [[_recalled(make, lag, updates[lag], seed) for seed in range(seeds)] for lag in lags]
            found[name] = [mean(share for share, _ in own) for own in runs]
            for lag, own in zip(lags[1:], runs[1:], strict=True):
                parts = [own[0][1][k : k + 20] for k in range(0, updates[lag], 20)]
                at = tuple(20.0 * (k + 1) for k in range(len(parts)))
                curves[f"{name}, {lag} steps"] = (at, tuple(map(mean, parts)))
    view = Curves(
        "Learning to name what was shown long ago", "updates", "loss in nats, mean of 20 updates", curves,
        {"chance": ((20.0, float(updates[lags[-1]])), (math.log(_SYMBOLS),) * 2)},
    )  # fmt: skip
    # 500 rows: the standard error of a share at chance is 0.02
    checks = [Check(f"{name}, 10 steps ago", shares[0], low=0.95) for name, shares in found.items()]
    for k, lag in enumerate(lags[1:], 1):
        checks += [
            Check(f"{name}, {lag} steps ago", shares[k], *((0.15, 0.4) if name == "Elman" else (0.9, 1.0)))
            for name, shares in found.items()
        ]
    return Evidence(tuple(checks), view)


@claim(
    "mnist1d-gru",
    "A recurrent network with gates that reads the forty steps of MNIST-1D one after the other has at least 88 % of "
    "new rows right",
    "Greydanus 2020, where a GRU has 91 ± 2 %",
)
def mnist1d_gru(full: bool) -> Evidence:
    data = mnist1d() if full else mnist1d(num=2000)
    seeds, epochs = (3, 20) if full else (1, 8)
    sizes: dict[str, Any] = {} if full else {"dim": 32, "num_layers": 1, "p_drop": 0.0}
    options: dict[str, Any] = {} if full else {"lr": 0.02, "batch": 32}
    shares, losses = [], []
    for seed in range(seeds):
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            model = Recurrent(10, channels=1, cell="gru", **sizes)
        run = fit(model, data, epochs=epochs, seed=seed, progress=False, with_report=False, **options)
        shares.append(run.evaluate("test")["accuracy"])
        losses.append([float(record["val"]["accuracy"]) for record in run.history])
    xs = tuple(map(float, range(1, epochs + 1)))
    curves: dict[str, Points] = {f"seed {seed}": (xs[: len(one)], tuple(one)) for seed, one in enumerate(losses)}
    view = Curves(
        "MNIST-1D, step by step", "epoch", "validation accuracy", curves, {"88 %": ((1.0, xs[-1]), (0.88, 0.88))}
    )
    # 400 test rows and eight short epochs leave much open, chance is 0.1 and a linear model has about 0.3
    low = 0.88 if full else 0.7
    return Evidence(
        (Check(f"test accuracy, mean of {seeds}" if full else "test accuracy", mean(shares), low=low),), view
    )


@claim(
    "padding-changes-nothing",
    "What fills a short row after its end changes neither what a recurrent layer gives, nor the state it leaves, nor "
    "its gradients; a layer that is not told where rows end has another state",
    "notes after Dive into Deep Learning, section 11, on sequences of different lengths; lecture notes on recurrent "
    "networks",
)
def padding_changes_nothing(full: bool) -> Evidence:
    steps, seeds = (200, 5) if full else (24, 1)
    worst: dict[str, list[float]] = {"output": [], "state": [], "gradient": [], "untold": []}
    names = [*RECURRENT, "both ways"]
    with torch.random.fork_rng(devices=[]):
        for name in names:
            found = [_padded(name, steps, seed) for seed in range(seeds)]
            for key, values in zip(worst, zip(*found, strict=True), strict=True):
                worst[key].append(max(values) if key != "untold" else min(values))
    at = tuple(map(float, range(len(names))))
    view = Curves(
        "A row, alone and filled up", "", "largest difference",
        {key: (at, tuple(max(value, 1e-17) for value in values)) for key, values in worst.items()}, log="y",
        names=tuple(name.replace("_", "\n") for name in names),
    )  # fmt: skip
    return Evidence(
        (
            Check("largest difference of outputs", max(worst["output"]), high=1e-12),
            Check("largest difference of states", max(worst["state"]), high=1e-12),
            Check("largest difference of gradients, as a share", max(worst["gradient"]), high=1e-10),
            Check("least difference of states where the end is not told", min(worst["untold"]), low=1e-3),
        ),
        view,
    )


@claim(
    "through-time-by-hand",
    "The gradient of a sum of losses with respect to a state is a sum of products of slopes, one for each later loss; "
    "gathered from the end on, T products of a matrix and a vector give what all T (T + 1) / 2 terms give",
    "lecture notes on recurrent networks, section 5",
)
def through_time_by_hand(full: bool) -> Evidence:
    lengths = (2, 5, 10, 20, 40) if full else (2, 5, 10)
    far, apart = [], []
    generator = torch.Generator().manual_seed(0)
    slope = lambda s: 1 - math.tanh(s) ** 2  # noqa: E731
    for steps in lengths:
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(0)
            layer = Elman(3, 4, bias=False).double()
        draw = lambda width: torch.randn(1, steps, width, generator=generator, dtype=torch.float64)  # noqa: B023, E731
        x, g = draw(3), draw(4)
        weights = (layer.kernel.weight_hh_l0, layer.kernel.weight_ih_l0)
        expected = torch.autograd.grad((layer(x)[0] * g).sum(), weights)
        again, read = (weight.tolist() for weight in weights)
        s, z = through_time.sums(again, read, x[0].tolist(), math.tanh)
        ways = [way(again, s, g[0].tolist(), slope) for way in (through_time.by_products, through_time.from_the_end)]
        found = through_time.of_weights(s, z, x[0].tolist(), ways[1], slope)
        far.append(max(_apart(torch.tensor(one, dtype=torch.float64), other) for one, other in zip(found, expected)))
        apart.append(_apart(*(torch.tensor(way, dtype=torch.float64) for way in ways)))
    xs = tuple(map(float, lengths))
    view = Curves(
        "Products of a matrix and a vector", "steps T", "products",
        {"from the end on": (xs, xs), "term by term": (xs, tuple(t * (t - 1) * (t + 1) / 6 for t in lengths))},
        log="xy",
    )  # fmt: skip
    return Evidence(
        (
            Check("largest difference from autograd", max(far), high=1e-12),
            Check("largest difference of the two ways", max(apart), high=1e-12),
        ),
        view,
    )


# ── recall ──


def _elman(lag: int) -> nn.Module:
    return Elman(_SYMBOLS + 1, _UNITS)


def _lstm(lag: int) -> nn.Module:
    """Its keep gate begins at lag / (lag + 1), its write gate at 1 / (lag + 1)."""
    layer = LSTM(_SYMBOLS + 1, _UNITS)
    with torch.no_grad():
        write, keep, _, _ = layer.kernel.bias_ih_l0.chunk(4)
        keep.fill_(math.log(lag))
        write.fill_(-math.log(lag))
    return layer


def _lru(lag: int) -> nn.Module:
    """|λ|^lag begins between e^-3 and e^-0.1."""
    return LRU(_SYMBOLS + 1, _UNITS, radii=(math.exp(-3 / lag), math.exp(-0.1 / lag)))


_LAYERS: dict[str, Callable[[int], nn.Module]] = {"Elman": _elman, "LSTM": _lstm, "LRU": _lru}


def _recalled(make: Callable[[int], nn.Module], lag: int, updates: int, seed: int) -> tuple[float, list[float]]:
    """The share of new rows whose first symbol is named after the last step, after training; and the losses of it."""
    torch.manual_seed(seed)
    layer = make(lag)
    head, stream, losses = _trained(layer, lag, updates, seed)
    x, y = _rows(500, lag, stream)
    with torch.no_grad():
        return float((head(layer(x)[0][:, -1]).argmax(1) == y).double().mean()), losses


def _trained(layer: nn.Module, lag: int, updates: int, seed: int) -> tuple[nn.Linear, torch.Generator, list[float]]:
    """Updates of Adam at rate 0.01 on sixteen new rows each, clipped: what names the symbols, the stream of rows, and
    the loss of every update."""
    head, stream = nn.Linear(_UNITS, _SYMBOLS), torch.Generator().manual_seed(seed)
    weights = [*layer.parameters(), *head.parameters()]
    # a change of λ counts once for every step that it is kept over: learned as fast as the rest, phases would be lost
    turns = {"log_rate", "phase"}
    slow = [p for name, p in layer.named_parameters() if name in turns]
    rest = [p for name, p in layer.named_parameters() if name not in turns] + list(head.parameters())
    groups: list[dict[str, Any]] = [{"params": rest}, {"params": slow, "lr": 0.1 / lag}]
    rule = torch.optim.Adam(groups, lr=1e-2)
    losses = []
    for _ in range(updates):
        x, y = _rows(16, lag, stream)
        loss = nn.functional.cross_entropy(head(layer(x)[0][:, -1]), y)
        rule.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(weights, 1.0)
        rule.step()
        losses.append(float(loss.detach()))
    return head, stream, losses


def _rows(num: int, lag: int, stream: torch.Generator) -> tuple[Tensor, Tensor]:
    """A symbol at the first step, a little noise in a channel of its own after it."""
    x, y = torch.zeros(num, lag + 1, _SYMBOLS + 1), torch.randint(_SYMBOLS, (num,), generator=stream)
    x[torch.arange(num), 0, y] = 1.0
    x[:, 1:, -1] = 0.1 * torch.randn(num, lag, generator=stream)
    return x, y


# ── padding ──


def _padded(name: str, steps: int, seed: int) -> tuple[float, float, float, float]:
    """Largest differences between a short row and the same row filled up: outputs, states, gradients as a share; and
    of states where the layer is not told."""
    torch.manual_seed(seed)
    model = _filled(name)
    short = steps * 2 // 3
    x = torch.randn(2, steps, 3, dtype=torch.float64)
    there = torch.arange(steps) < torch.tensor([[steps], [short]])
    y, state = model(x, None, there)
    alone, ends = model(x[1:, :short], None, None)
    _, untold = model(x[1:], None, None)
    weights = list(model.parameters())
    own = torch.autograd.grad(alone.square().sum(), weights)
    filled = torch.autograd.grad(y[1:, :short].square().sum(), weights)
    share = max(_apart(p, q) / max(float(q.abs().max()), 1e-12) for p, q in zip(filled, own, strict=True))
    states = max(_apart(p[1:], q) for p, q in zip(state, ends, strict=True))
    lost = max(_apart(p, q) for p, q in zip(untold, ends, strict=True))
    return _apart(y[1:, :short], alone), states, share, lost


def _filled(name: str) -> nn.Module:
    if name == "both ways":
        return Bidirectional(LSTM(3, 4), LSTM(3, 4)).double()
    return RECURRENT[name](3, 4).double()


def _apart(one: Tensor, other: Tensor) -> float:
    return float((one.detach() - other.detach()).abs().max())
