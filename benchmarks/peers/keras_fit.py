"""Keras, `model.fit`. The backend is the one that KERAS_BACKEND names."""

import os

from benchmarks.task import BATCH, DIM_INPUT, HIDDEN, LR, MOMENTUM, NUM_CLASSES, main

BACKEND = os.environ.setdefault("KERAS_BACKEND", "torch")

import keras  # noqa: E402


def fit(x, y, epochs):
    keras.utils.set_random_seed(0)
    model = keras.Sequential(
        [
            keras.Input((DIM_INPUT,)),
            keras.layers.Dense(HIDDEN[0], activation="relu"),
            keras.layers.Dense(HIDDEN[1], activation="relu"),
            keras.layers.Dense(NUM_CLASSES),
        ]
    )
    model.compile(
        keras.optimizers.SGD(LR, momentum=MOMENTUM),
        keras.losses.SparseCategoricalCrossentropy(from_logits=True),
    )
    model.fit(x, y, batch_size=BATCH, epochs=epochs, verbose=0)
    return lambda: (model.predict(x, verbose=0).argmax(1) == y).mean()


if __name__ == "__main__":
    if BACKEND == "torch":
        import torch

        torch.set_num_threads(1)
    main(f"Keras, {BACKEND}", fit)
