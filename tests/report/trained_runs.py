"""Small models trained by a loop of a few lines, and the facts of their runs."""

from __future__ import annotations

import time
from dataclasses import replace
from itertools import pairwise

import torch

from leadline.data.data import Data, Split
from leadline.data.inputs import Identity
from leadline.data.target import Target
from leadline.engine.evaluation import evaluate, outputs
from leadline.likelihoods import likelihood_for
from leadline.models.mlp import MLP
from leadline.report import Facts


def split_up(x, y, sizes):
    """Train, val and test of these sizes, from the first row on; rows are numbered from 1000."""
    rows = torch.arange(1000, 1000 + len(x))
    ends = torch.tensor((0, *sizes)).cumsum(0).tolist()
    return [Split(x[a:b], y[a:b], rows=rows[a:b]) for a, b in pairwise(ends)]


def class_data(num_classes=4, sizes=(200, 50, 60), classes=None, dim=12, names=()):
    draw = torch.Generator().manual_seed(0)
    y = torch.arange(sum(sizes)) % num_classes
    x = torch.randn(num_classes, dim, generator=draw)[y] + 0.9 * torch.randn(len(y), dim, generator=draw)
    classes = tuple(classes or (f"class-{c}" for c in range(num_classes)))
    kind = "binary" if num_classes == 2 else "classes"
    return Data(*split_up(x, y, sizes), Target(kind, "label", classes), Identity(names), name="shapes")


def real_data(dim=1, sizes=(200, 50, 60), names=("speed", "mass", "age")):
    draw = torch.Generator().manual_seed(0)
    x = torch.randn(sum(sizes), 3, generator=draw)
    y = 300 + 50 * (x @ torch.randn(3, dim, generator=draw) + 0.3 * torch.randn(len(x), dim, generator=draw))
    train, val, test = split_up(x, y.squeeze(1) if dim == 1 else y, sizes)
    return Data(train, val, test, Target.real(train.y, "price"), Identity(names), name="cars")


def train(data, likelihood=None, epochs=4, **changes):
    """The facts of a fresh run."""
    torch.manual_seed(0)
    likelihood = likelihood or likelihood_for(data.target)
    model = MLP(data.train.x[0].numel(), (16,), likelihood.dim_output)
    optimizer = torch.optim.Adam([*model.parameters(), *likelihood.parameters()], lr=0.02)
    start, history = time.perf_counter(), []
    for epoch in range(1, epochs + 1):
        loss = likelihood.loss(model(data.train.x), data.train.y).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        line = {"epoch": epoch, "step": epoch, "lr": 0.02 / epoch, "train": {"loss": loss.item()}}
        if len(data.val):
            line["val"] = dict(evaluate(likelihood, outputs(model, data.val.x), data.val.y))
        history.append(line)
    said = {name: outputs(model, split.x) for name, split in data.splits()}
    facts = Facts(
        title=f"MLP on {data.name}",
        config={
            "name": "calm-otter",
            "created": "2026-01-05T10:20:30",
            "versions": {"python": "3.11.9", "torch": torch.__version__, "leadline": "0.1.0"},
            "device": "cpu",
            "data": {"name": data.name, "fingerprint": data.fingerprint},
            "model": {"name": "MLP", "config": model.config, "parameters": sum(p.numel() for p in model.parameters())},
            "settings": {"epochs": epochs, "clip": None},
        },
        history=history,
        best_epoch=epochs if len(data.val) else None,
        evaluations={name: evaluate(likelihood, said[name], split.y, split.weight) for name, split in data.splits()},
        data=data,
        likelihood=likelihood,
        outputs=said,
        command="leadline train shapes --epochs 4",
        python="import leadline as ll\nrun = ll.fit(model, data)",
        seconds=time.perf_counter() - start,
        account="shapes: 310 rows read, 310 used, 0 refused",
    )
    return replace(facts, **changes)
