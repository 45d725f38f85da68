"""What training finds: minima and the ways between them, confidence that goes on growing, labels learned by heart."""

from __future__ import annotations

from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from leadline.claims.claim import Check, Evidence, claim
from leadline.claims.curves import Curves
from leadline.data.mnist1d import mnist1d
from leadline.engine.events import RunStarted, StepsDone
from leadline.lens import averaging, confidence, connect, effective_capacity, sharpness
from leadline.lens.path import Path
from leadline.likelihoods import Categorical
from leadline.models import MLP

_UDL = "Understanding Deep Learning"


def _digits() -> tuple[Tensor, Tensor, Tensor, Tensor]:
    data = mnist1d()
    train, test = (data.inputs.encode(split.x) for split in (data.train, data.test))
    return train, data.train.y.long(), test, data.test.y.long()


def _made(hidden: tuple[int, ...], seed: int, inputs: int = 40, classes: int = 10) -> MLP:
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        return MLP(inputs, hidden, classes, activation="relu", p_drop=0.0)


def _train(
    model: nn.Module,
    x: Tensor,
    y: Tensor,
    steps: int,
    batch: int,
    lr: float,
    seed: int,
    path: Path | None = None,
    adam: bool = False,
) -> nn.Module:
    """SGD without momentum or penalty, or Adam; rows drawn without replacement."""
    rule: torch.optim.Optimizer = (torch.optim.Adam if adam else torch.optim.SGD)(model.parameters(), lr=lr)
    g, order = torch.Generator().manual_seed(seed), torch.zeros(0, dtype=torch.long)
    if path is not None:
        path(RunStarted(1, steps))
    for k in range(steps):
        if len(order) < batch:
            order = torch.randperm(len(x), generator=g)
        rows, order = order[:batch], order[batch:]
        loss = F.cross_entropy(model(x[rows]), y[rows])
        rule.zero_grad(set_to_none=True)
        loss.backward()
        rule.step()
        if path is not None:
            path(StepsDone(0, k + 1, loss.detach()[None]))
    model.zero_grad(set_to_none=True)
    return model


@claim(
    "confidence-grows",
    "Once the training error is 0 the test loss rises while the test error stays: the logits go on growing",
    f"{_UDL} 8.1",
)
def confidence_grows(full: bool) -> Evidence:
    x, y, test, test_y = _digits()
    steps = 20_000 if full else 6000
    model = _made((100, 100), 0)
    path = Path(model, every=steps // 40)
    _train(model, x, y, steps, 100, 0.1, 0, path)
    family = Categorical(10)
    views = [confidence(model, rows, path, likelihood=family, splits=["train"]) for rows in ((x, y), (test, test_y))]
    fit, held = views
    clean = int((fit.error[0] <= 1e-3).argmax())
    least = int(held.loss[0].argmin())
    risen, grown = held.error[0][-1] - held.error[0][least], fit.logits[0][-1] / fit.logits[0][clean]
    at = tuple(map(float, fit.steps))
    picture = Curves(
        "MNIST-1D, 100 rows a batch, step 0.1", "step", "share of rows, or mean loss",
        {
            "train error": (at, tuple(fit.error[0])), "test error": (at, tuple(held.error[0])),
            "train loss": (at, tuple(fit.loss[0])), "test loss": (at, tuple(held.loss[0])),
        },
        marks={"training error 0": at[clean]},
    )  # fmt: skip
    return Evidence(
        (
            Check("training error at the end", fit.error[0][-1], high=0),
            Check("test loss at the end over its least", held.loss[0][-1] / held.loss[0][least], low=1.3),
            # from the least test loss on; two standard errors of 1,000 test rows
            Check("rise of the test error since the least test loss", risen, high=0.03),
            Check("size of the logits at the end over that at training error 0", grown, low=1.05),
            Check("cross-entropy of the training rows, which never is 0", fit.loss[0][-1], 1e-9, 0.1),
            Check("gap of the error, test less train", held.error[0][-1] - fit.error[0][-1], 0.2, 0.5),
        ),
        picture,
    )  # fmt: skip


@claim(
    "minima-are-connected",
    "Between two trained networks the straight line crosses a barrier and a bent path does not; averaged weights fail "
    "where averaged predictions help",
    f"{_UDL}, notes 9 (Garipov et al. 2018; Frankle et al. 2020)",
)
def minima_are_connected(full: bool) -> Evidence:
    x, y, test, test_y = _digits()
    steps, bends = (5000, 3000) if full else (1000, 600)
    models = [_train(_made((100, 100), seed), x, y, steps, 100, 0.003, seed, adam=True) for seed in (0, 1)]
    family = Categorical(10)
    view = connect(models[0], models[1], (x, y), likelihood=family, steps=bends, lr=0.01, batch=128, num=21)
    mean = averaging(models, (test, test_y), likelihood=family)
    right = [float((model(test).argmax(1) == test_y).double().mean()) for model in models]
    both = float((sum(model(test).softmax(1) for model in models).argmax(1) == test_y).double().mean())
    at = tuple(view.at)
    picture = Curves(
        "Between two networks on MNIST-1D", "way from one to the other", "training loss",
        {"straight line": (at, tuple(view.line)), "bent path": (at, tuple(view.bent))},
    )  # fmt: skip
    return Evidence(
        (
            Check("barrier on the straight line", view.barrier, low=1),
            Check("barrier on the bent path over that on the line", view.bent_barrier / view.barrier, high=0.1),
            Check("test loss of averaged weights over a member's", mean.weights / mean.members.mean(), low=1.2),
            Check("test loss of averaged predictions over a member's", mean.predictions / mean.members.mean(), high=1),
            Check("accuracy of averaged predictions less a member's", both - sum(right) / 2, low=0),
        ),
        picture,
    )


@claim(
    "small-batches-flat",
    "Training with small batches ends in a flatter minimum than training with large ones",
    f"{_UDL}, notes 9 (Keskar et al. 2017)",
)
def small_batches_flat(full: bool) -> Evidence:
    x, y, _, _ = _digits()
    x, y = x[:200], y[:200]
    seeds, batches, target = (8 if full else 2), (4, 200), 0.1
    found: dict[str, list[list[float]]] = {"loss": [], "curvature": [], "worst": [], "noise": []}
    for batch in batches:
        rows: list[tuple[float, ...]] = []
        for seed in range(seeds):
            model = _made((40,), seed)
            for k in range(200):
                _train(model, x, y, 20, batch, 0.1, 1000 * seed + k)
                if _loss(model, x, y) < 2 * target:
                    break
            # the last part by all rows, to the same loss: curvature falls with the loss, and noise would count as slope
            for _ in range(200):
                if _loss(model, x, y) < target:
                    break
                _train(model, x, y, 10, 200, 0.1, 0)
            view = sharpness(model, (x, y), likelihood=Categorical(10), radii=[0.1], noise=[0.1], draws=10)
            rows.append((view.loss, view.largest, float(view.worst[0]), float(view.rise[0])))
        for name, values in zip(found, zip(*rows, strict=True), strict=True):
            found[name].append(list(values))
    ratios = {name: sum(small) / sum(large) for name, (small, large) in found.items()}
    each = tuple(map(float, range(seeds)))
    picture = Curves(
        f"MNIST-1D, 200 rows, at a training loss of {target}", "seed", "largest eigenvalue of the Hessian",
        {f"batches of {b}": (each, tuple(v)) for b, v in zip(batches, found["curvature"], strict=True)}, joined=False,
    )  # fmt: skip
    return Evidence(
        (
            Check("training loss, small batches over large", ratios["loss"], 0.95, 1.05),
            Check("largest curvature, small batches over large", ratios["curvature"], high=0.9),
            Check("worst rise in a ball, small batches over large", ratios["worst"], high=0.9),
            Check("rise under noise of the weights, small batches over large", ratios["noise"], high=0.95),
        ),
        picture,
    )


def _loss(model: nn.Module, x: Tensor, y: Tensor) -> float:
    return float(F.cross_entropy(model(x), y).detach())


@claim(
    "effective-capacity",
    "How many rows a network learns by heart depends on its training as well as on its size",
    f"{_UDL}, notes 8 (Nakkiran et al. 2019)",
)
def capacity_of_training(full: bool) -> Evidence:
    g = torch.Generator().manual_seed(0)
    x = torch.randn(400 if full else 120, 10, generator=g)

    def fit(width: int, steps: int) -> Callable[[Tensor, Tensor], Tensor]:
        def train(rows: Tensor, labels: Tensor) -> Tensor:
            model = _made((width,), 0, 10, 2)
            rule = torch.optim.Adam(model.parameters(), lr=0.02)
            for _ in range(steps):
                rule.zero_grad(set_to_none=True)
                F.cross_entropy(model(rows), labels).backward()
                rule.step()
            return model(rows).argmax(1).detach()

        return train

    lengths, widths = (10, 30, 90), (4, 16)
    held = {w: [effective_capacity(fit(w, s), x, draws=1).largest for s in lengths] for w in widths}
    gain = min(f[2] / f[0] for f in held.values())
    xs = tuple(map(float, lengths))
    picture = Curves(
        "Random labels of random rows, 10 inputs", "steps of Adam", "rows fitted without an error",
        {f"{w} hidden units": (xs, tuple(map(float, found))) for w, found in held.items()},
    )  # fmt: skip
    return Evidence(
        (
            Check("rows after 90 steps over rows after 10, the smaller gain", gain, low=1.5),
            Check("rows with 16 units over rows with 4, 90 steps", held[16][2] / held[4][2], low=2),
        ),
        picture,
    )  # fmt: skip
