"""JAX by hand: one `jit` around a whole epoch, whose steps are a `lax.scan`. The fastest way to write it there."""

from itertools import pairwise

import jax
import jax.numpy as jnp
import numpy as np

from benchmarks.task import BATCH, DIM_INPUT, HIDDEN, LR, MOMENTUM, NUM_CLASSES, main

WIDTHS = (DIM_INPUT, *HIDDEN, NUM_CLASSES)


def first_weights(key):
    layers = []
    for dim_input, dim_output in pairwise(WIDTHS):
        key, draw = jax.random.split(key)
        bound = dim_input**-0.5
        layers.append(
            (jax.random.uniform(draw, (dim_input, dim_output), minval=-bound, maxval=bound), jnp.zeros(dim_output))
        )
    return layers


def outputs(layers, x):
    for weight, bias in layers[:-1]:
        x = jax.nn.relu(x @ weight + bias)
    weight, bias = layers[-1]
    return x @ weight + bias


def loss(layers, x, y):
    log_p = jax.nn.log_softmax(outputs(layers, x))
    return -jnp.take_along_axis(log_p, y[:, None], 1).mean()


@jax.jit
def epoch(layers, velocity, x, y, key):
    order = jax.random.permutation(key, len(x)).reshape(-1, BATCH)

    def step(state, index):
        layers, velocity = state
        gradient = jax.grad(loss)(layers, x[index], y[index])
        velocity = jax.tree.map(lambda v, g: MOMENTUM * v + g, velocity, gradient)
        return (jax.tree.map(lambda w, v: w - LR * v, layers, velocity), velocity), None

    (layers, velocity), _ = jax.lax.scan(step, (layers, velocity), order)
    return layers, velocity


def fit(x, y, epochs):
    x, y, key = jnp.asarray(x), jnp.asarray(y), jax.random.key(0)
    layers = first_weights(key)
    velocity = jax.tree.map(jnp.zeros_like, layers)
    for k in range(epochs):
        layers, velocity = epoch(layers, velocity, x, y, jax.random.fold_in(key, k))
    jax.block_until_ready(layers)
    return lambda: np.mean(outputs(layers, x).argmax(1) == y)


if __name__ == "__main__":
    main("JAX, jit of a scan", fit)
