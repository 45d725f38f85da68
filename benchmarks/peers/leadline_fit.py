"""Leadline's `fit`, at the settings of the task. `compile` is off in the short scenario and on in the long one."""

import sys

import torch

import leadline as ll
from benchmarks.task import BATCH, DIM_INPUT, HIDDEN, LR, MOMENTUM, NUM_CLASSES, main
from leadline.data.data import Data, Split
from leadline.data.target import Target

COMPILE = "on" if sys.argv[1:2] == ["long"] else "off"


def fit(x, y, epochs):
    x, y = torch.from_numpy(x), torch.from_numpy(y)
    train, none = Split(x, y), Split(x[:0], y[:0])
    data = Data(train, none, none, Target("classes", classes=tuple("abcdefghij")), name="bench")
    model = ll.models.MLP(DIM_INPUT, HIDDEN, NUM_CLASSES, activation="relu", p_drop=0.0)
    run = ll.fit(
        model,
        data,
        likelihood=ll.likelihoods.Categorical(NUM_CLASSES),  # plain cross-entropy, as the peers have it
        epochs=epochs,
        batch=BATCH,
        optimizer="sgd",
        lr=LR,
        momentum=MOMENTUM,
        weight_decay=0.0,
        schedule="constant",
        warmup=0.0,
        threads=1,
        device="cpu",
        compile=COMPILE,
        progress=False,
    )
    return lambda: (run.model(x).argmax(1) == y).float().mean()


if __name__ == "__main__":
    main("leadline", fit)
