"""One real number from another: curves with known truth. ε is standard normal, U uniform.

"Stratified" x: [0, 1] is cut into `num` equal segments and each gives one uniform draw, so that no region is empty.

>>> sine(num=100)
Data(sine: train 65, val 15, test 20; x (1,); y y: real)
"""

from __future__ import annotations

import numpy as np

from leadline.data.generated import Drawn, generator
from leadline.errors import UserError


@generator
def line(
    *,
    num: int = 100,
    noise: float = 0.2,
    slope: float = 0.5,
    intercept: float = 0.8,
    seed: int = 0,
    val: float = 0.15,
    test: float = 0.2,
) -> Drawn:
    """y = intercept + slope · x + noise · ε, x ~ U[0, 2]."""
    rng = np.random.default_rng(seed)
    x = rng.uniform(0, 2, num)
    return Drawn(x, intercept + slope * x + noise * rng.standard_normal(num))


@generator
def linear(
    *,
    num: int = 1000,
    noise: float = 0.01,
    weights: tuple[float, ...] = (2.0, -3.4),
    intercept: float = 4.2,
    seed: int = 0,
    val: float = 0.15,
    test: float = 0.2,
) -> Drawn:
    """y = weightsᵀx + intercept + noise · ε, x ~ N(0, I): as many columns as weights."""
    if len(weights) == 0:
        raise UserError("weights must hold at least one number", got="none", do="Pass weights=(2.0, -3.4)")
    rng = np.random.default_rng(seed)
    x = rng.standard_normal((num, len(weights)))
    return Drawn(x, x @ np.asarray(weights) + intercept + noise * rng.standard_normal(num), unit=True)


@generator
def twelve_points(*, loss: float = 0.19, seed: int = 0, val: float = 0.0, test: float = 0.0) -> Drawn:
    """y = 0.8 + 0.5 x + e at twelve points, e such that this line is the best one and Σ e² = loss. All points train."""
    rng = np.random.default_rng(seed)
    x = rng.uniform(0, 2, 12)
    basis = np.stack([np.ones(12), x], axis=1)
    residual = rng.standard_normal(12)
    residual -= basis @ np.linalg.lstsq(basis, residual, rcond=None)[0]  # so that the line stays the best one
    return Drawn(x, 0.8 + 0.5 * x + residual * np.sqrt(loss / (residual**2).sum()))


@generator
def gabor(
    *,
    num: int = 28,
    noise: float = 0.16,
    shift: float = 0.0,
    frequency: float = 16.6,
    seed: int = 0,
    val: float = 0.15,
    test: float = 0.2,
) -> Drawn:
    """y = sin(u) exp(-u²/8) + noise · ε, u = shift + 0.06 · frequency · x, x ~ U[-15, 15].

    Pass val=0, test=0 to train on all 28 points.
    """
    rng = np.random.default_rng(seed)
    x = rng.uniform(-15, 15, num)
    u = shift + 0.06 * frequency * x
    return Drawn(x, np.sin(u) * np.exp(-(u**2) / 8) + noise * rng.standard_normal(num))


@generator
def sine(*, num: int = 300, noise: float = 0.2, seed: int = 0, val: float = 0.15, test: float = 0.2) -> Drawn:
    """y = sin 2πx + noise · ε, x stratified on [0, 1]."""
    rng = np.random.default_rng(seed)
    x = _stratified(rng, num)
    return Drawn(x, np.sin(2 * np.pi * x) + noise * rng.standard_normal(num))


@generator
def quasi_sine(*, num: int = 300, noise: float = 0.3, seed: int = 0, val: float = 0.15, test: float = 0.2) -> Drawn:
    """y = exp(sin 2πx) + noise · ε, x stratified on [0, 1]: a sine with a narrow crest and a flat trough."""
    rng = np.random.default_rng(seed)
    x = _stratified(rng, num)
    return Drawn(x, np.exp(np.sin(2 * np.pi * x)) + noise * rng.standard_normal(num))


@generator
def uneven_noise(*, num: int = 500, noise: float = 0.3, seed: int = 0, val: float = 0.15, test: float = 0.2) -> Drawn:
    """y = sin 2πx + s(x) · ε, s(x) = noise · (1 + 4x) / 3, x stratified on [0, 1]: five times as noisy at the right."""
    rng = np.random.default_rng(seed)
    x = _stratified(rng, num)
    return Drawn(x, np.sin(2 * np.pi * x) + noise * (1 + 4 * x) / 3 * rng.standard_normal(num))


@generator
def step(*, num: int = 200, noise: float = 0.05, seed: int = 0, val: float = 0.15, test: float = 0.2) -> Drawn:
    """y = [x > 0] + noise · ε, x ~ U[-1, 1]."""
    rng = np.random.default_rng(seed)
    x = rng.uniform(-1, 1, num)
    return Drawn(x, (x > 0) + noise * rng.standard_normal(num))


@generator
def smooth(*, num: int = 300, noise: float = 0.0, seed: int = 0, val: float = 0.15, test: float = 0.2) -> Drawn:
    """y = sin 2πx + ½ cos 5πx + noise · ε, x stratified on [0, 1]: a curve for ever more linear pieces."""
    rng = np.random.default_rng(seed)
    x = _stratified(rng, num)
    return Drawn(x, np.sin(2 * np.pi * x) + 0.5 * np.cos(5 * np.pi * x) + noise * rng.standard_normal(num))


@generator
def cubic(*, num: int = 100, noise: float = 1.0, seed: int = 0, val: float = 0.15, test: float = 0.2) -> Drawn:
    """y = x³ - 2x + noise · ε, x ~ U[-2, 2]: for polynomials of too low and too high an order."""
    rng = np.random.default_rng(seed)
    x = rng.uniform(-2, 2, num)
    return Drawn(x, x**3 - 2 * x + noise * rng.standard_normal(num))


@generator
def gap(
    *,
    num: int = 20,
    noise: float = 0.05,
    width: float = 0.4,
    seed: int = 0,
    val: float = 0.15,
    test: float = 0.2,
) -> Drawn:
    """y = sin 2πx + noise · ε, x ~ U on [0, 1] without its middle `width`: what happens where there are no data?"""
    if not 0 <= width < 1:
        raise UserError("width must be a fraction from 0 to below 1", got=f"width={width}", do="Pass width=0.4")
    rng = np.random.default_rng(seed)
    x = rng.uniform(0, 1 - width, num)
    x = np.where(x < (1 - width) / 2, x, x + width)
    return Drawn(x, np.sin(2 * np.pi * x) + noise * rng.standard_normal(num))


@generator
def inverse(*, num: int = 500, noise: float = 0.1, seed: int = 0, val: float = 0.15, test: float = 0.2) -> Drawn:
    """x = y + 0.3 sin 2πy + noise · U[-1, 1], y ~ U[0, 1]: up to three y for one x (Bishop, 1994)."""
    rng = np.random.default_rng(seed)
    y = rng.uniform(0, 1, num)
    return Drawn(y + 0.3 * np.sin(2 * np.pi * y) + noise * rng.uniform(-1, 1, num), y)


@generator
def branches(*, num: int = 500, noise: float = 0.3, seed: int = 0, val: float = 0.15, test: float = 0.2) -> Drawn:
    """y = ½ ± 2.5 exp(-x²/2) + noise · ε, x ~ U[-3, 3], the sign a fair coin: at x = 0, y is near -2 or +3."""
    rng = np.random.default_rng(seed)
    x = rng.uniform(-3, 3, num)
    sign = 2 * rng.integers(2, size=num) - 1
    return Drawn(x, 0.5 + sign * 2.5 * np.exp(-(x**2) / 2) + noise * rng.standard_normal(num))


def _stratified(rng: np.random.Generator, num: int) -> np.ndarray:
    return (np.arange(num) + rng.uniform(0, 1, num)) / num
