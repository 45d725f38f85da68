"""Classes in the plane: small sets whose difficulty is visible. ε is standard normal, U uniform, k a class.

>>> spirals(num=200, num_arms=3)
Data(spirals: train 130, val 30, test 40; x (2,); y y: 3 classes)
"""

from __future__ import annotations

import numpy as np

from leadline.data.generated import Drawn, balanced, generator
from leadline.errors import UserError


@generator
def xor(*, num: int = 400, noise: float = 0.1, seed: int = 0, val: float = 0.15, test: float = 0.2) -> Drawn:
    """x = (a, b) + noise · ε for bits a, b;  y = a ≠ b.  No line parts them: `num=4, noise=0, val=0, test=0` is XOR."""
    rng = np.random.default_rng(seed)
    corner = balanced(rng, num, 4)
    bits = np.stack([corner // 2, corner % 2], axis=1)
    x = bits + noise * rng.standard_normal((num, 2))
    return Drawn(x, bits[:, 0] ^ bits[:, 1], "binary", ("equal", "different"), unit=True)


@generator
def moons(*, num: int = 500, noise: float = 0.1, seed: int = 0, val: float = 0.15, test: float = 0.2) -> Drawn:
    """Upper (cos t, sin t), lower (1 - cos t, ½ - sin t), t ~ U[0, π];  x = that + noise · ε."""
    rng = np.random.default_rng(seed)
    y = balanced(rng, num, 2)
    t = rng.uniform(0, np.pi, num)
    side = 1 - 2 * y
    x = np.stack([y + side * np.cos(t), y / 2 + side * np.sin(t)], axis=1)
    return Drawn(x + noise * rng.standard_normal((num, 2)), y, "binary", ("upper", "lower"), unit=True)


@generator
def circles(
    *,
    num: int = 500,
    noise: float = 0.08,
    inner: float = 0.5,
    seed: int = 0,
    val: float = 0.15,
    test: float = 0.2,
) -> Drawn:
    """x = r (cos t, sin t) + noise · ε, t ~ U[0, 2π], with r = 1 outside and r = inner, in (0, 1), inside."""
    if not 0 < inner < 1:
        raise UserError("inner must be a radius between 0 and 1", got=f"inner={inner}", do="Pass inner=0.5")
    rng = np.random.default_rng(seed)
    y = balanced(rng, num, 2)
    x = np.where(y == 1, inner, 1.0)[:, None] * _on_circle(rng.uniform(0, 1, num))
    return Drawn(x + noise * rng.standard_normal((num, 2)), y, "binary", ("outer", "inner"), unit=True)


@generator
def spirals(
    *,
    num: int = 600,
    noise: float = 0.03,
    num_arms: int = 2,
    turns: float = 1.0,
    seed: int = 0,
    val: float = 0.15,
    test: float = 0.2,
) -> Drawn:
    """x = t (cos a, sin a) + noise · ε, a = 2π (turns · t + k / num_arms), t ~ U[0, 1]: a class an arm."""
    rng = np.random.default_rng(seed)
    y = balanced(rng, num, num_arms)
    t = rng.uniform(0, 1, num)
    x = t[:, None] * _on_circle(turns * t + y / num_arms) + noise * rng.standard_normal((num, 2))
    return Drawn(x, y, "classes", _numbered(num_arms), unit=True)


@generator
def blobs(
    *,
    num: int = 500,
    noise: float = 1.0,
    num_classes: int = 3,
    separation: float = 4.0,
    seed: int = 0,
    val: float = 0.15,
    test: float = 0.2,
) -> Drawn:
    """x = m_k + noise · ε, the centres m_k on a circle, neighbours `separation` apart."""
    rng = np.random.default_rng(seed)
    y = balanced(rng, num, num_classes)
    x = _centres(num_classes, separation)[y] + noise * rng.standard_normal((num, 2))
    return Drawn(x, y, "classes", _numbered(num_classes))


@generator
def imbalanced(
    *,
    num: int = 1000,
    noise: float = 1.0,
    num_classes: int = 3,
    ratio: float = 20.0,
    separation: float = 4.0,
    seed: int = 0,
    val: float = 0.15,
    test: float = 0.2,
) -> Drawn:
    """Blobs with p(k) ∝ ratio^(-k / (num_classes - 1)): the first class is `ratio` times as frequent as the last."""
    rng = np.random.default_rng(seed)
    share = ratio ** -(np.arange(num_classes) / (num_classes - 1))
    counts = np.floor(num * share / share.sum()).astype(np.int64)
    counts[0] += num - counts.sum()
    if counts.min() < 2:
        raise UserError(
            "num must give the rarest class two rows",
            got=f"num={num} for {num_classes} classes with ratio={ratio}",
            do="Pass a larger num or a smaller ratio",
        )
    y = rng.permutation(np.repeat(np.arange(num_classes), counts))
    x = _centres(num_classes, separation)[y] + noise * rng.standard_normal((num, 2))
    return Drawn(x, y, "classes", _numbered(num_classes))


@generator
def separable(
    *,
    num: int = 200,
    margin: float = 0.1,
    radius: float = 1.0,
    seed: int = 0,
    val: float = 0.15,
    test: float = 0.2,
) -> Drawn:
    """|x| <= radius and (2y - 1) wᵀx >= margin for one unit vector w.

    The perceptron then needs at most (radius / margin)² updates.
    """
    if margin >= radius:
        raise UserError(
            "margin must be less than radius", got=f"margin={margin}, radius={radius}", do="Pass margin=0.1, radius=1"
        )
    rng = np.random.default_rng(seed)
    y = balanced(rng, num, 2)
    w = _on_circle(rng.uniform(0, 1))
    # A hair inside both bounds, so that they hold after rounding to float32 too.
    along = rng.uniform(margin + 1e-5 * (radius - margin), radius * (1 - 1e-5), num)
    across = rng.uniform(-1, 1, num) * np.sqrt((radius * (1 - 1e-6)) ** 2 - along**2)
    x = ((2 * y - 1) * along)[:, None] * w + across[:, None] * np.array([-w[1], w[0]])
    return Drawn(x, y, "binary", ("below", "above"), unit=True)


@generator
def checkerboard(
    *,
    num: int = 1000,
    noise: float = 0.0,
    num_cells: int = 4,
    seed: int = 0,
    val: float = 0.15,
    test: float = 0.2,
) -> Drawn:
    """x ~ U[-1, 1]²;  y = parity of its cell on a num_cells × num_cells board;  then x moves by noise · ε."""
    rng = np.random.default_rng(seed)
    x = rng.uniform(-1, 1, (num, 2))
    y = np.floor((x + 1) / 2 * num_cells).astype(np.int64).sum(axis=1) % 2
    return Drawn(x + noise * rng.standard_normal((num, 2)), y, "binary", ("dark", "light"), unit=True)


def _on_circle(turn: np.ndarray | float) -> np.ndarray:
    return np.stack([np.cos(2 * np.pi * turn), np.sin(2 * np.pi * turn)], axis=-1)


def _centres(num_classes: int, separation: float) -> np.ndarray:
    radius = separation / (2 * np.sin(np.pi / num_classes))
    return radius * _on_circle(np.arange(num_classes) / num_classes)


def _numbered(num_classes: int) -> tuple[str, ...]:
    return tuple(str(k) for k in range(num_classes))
