"""MNIST-1D (Greydanus, 2020): ten digits as lines drawn by hand, warped and made noisy until they take work to tell.

For an example of class c, with u, v, w uniform on [0, 1), k uniform on 0 … max_translation - 1, ε, ε' standard normal:

    p = min_padding + ⌊u (max_padding - min_padding + 1)⌋                                        (1)
    d = resample([template_c, 0 … 0 (p zeros)], N),      N = template_length + max_padding       (2)   dilate
    d ← roll(d · (1 + scale_range (v - ½)), k)                                                   (3)   scale, translate
    d ← d where d ≠ 0, else smooth(correlated_noise · ε)                                         (4)
    d ← d + iid_noise · ε' - shear (w - ½) · linspace(-½, ½, N)                                  (5)
    x = resample(d, length),      then the whole set to mean 0 and deviation 1                   (6)

The numbers are drawn in the order of the author's package, so equal settings give equal arrays; all arithmetic is done
for the whole set at once, and the caller's random state is left alone.

Notation   resample -> linear interpolation at equal steps;  smooth -> Gaussian filter of deviation 2, mirrored ends
Package    num_samples -> num,  train_split -> 1 - test,  template_len -> template_length,  padding -> min_padding and
           max_padding,  scale_coeff -> scale_range,  corr_noise_scale -> correlated_noise,
           iid_noise_scale -> iid_noise,  shear_scale -> shear,  shuffle_seq -> shuffle_positions,
           final_seq_length -> length
"""

from __future__ import annotations

from inspect import signature
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from leadline.data.account import Account
from leadline.data.arguments import checked
from leadline.data.data import Data, Split
from leadline.data.inputs import Identity
from leadline.data.splits import split_indices
from leadline.data.target import Target
from leadline.errors import UserError

CLASSES = tuple("0123456789")

_DIGITS = np.array(
    [
        [5, 6, 6.5, 6.75, 7, 7, 7, 7, 6.75, 6.5, 6, 5],
        [5, 3, 3, 3.4, 3.8, 4.2, 4.6, 5, 5.4, 5.8, 5, 5],
        [5, 6, 6.5, 6.5, 6, 5.25, 4.75, 4, 3.5, 3.5, 4, 5],
        [5, 6, 6.5, 6.5, 6, 5, 5, 6, 6.5, 6.5, 6, 5],
        [5, 4.4, 3.8, 3.2, 2.6, 2.6, 5, 5, 5, 5, 5, 5],
        [5, 3, 3, 3, 3, 5, 6, 6.5, 6.5, 6, 4.5, 5],
        [5, 4, 3.5, 3.25, 3, 3, 3, 3, 3.25, 3.5, 4, 5],
        [5, 7, 7, 6.6, 6.2, 5.8, 5.4, 5, 4.6, 4.2, 5, 5],
        [5, 4, 3.5, 3.5, 4, 5, 5, 4, 3.5, 3.5, 4, 5],
        [5, 4, 3.5, 3.5, 4, 5, 5, 5, 5, 4.7, 4.3, 5],
    ]
)
_OFFSET = 1e-8  # lifts a template off zero, so that eq. 4 can tell its points from the padding


class Arrays(NamedTuple):
    """The set as drawn: examples, class codes, and the positions at which each example is sampled."""

    x: np.ndarray
    y: np.ndarray
    t: np.ndarray


@checked
def mnist1d(
    *,
    num: int = 5000,
    test: float = 0.2,
    val: float = 0.1,
    label_noise: float = 0.0,
    seed: int = 42,
    split_seed: int = 0,
    label_seed: int = 0,
    template_length: int = 12,
    min_padding: int = 36,
    max_padding: int = 60,
    scale_range: float = 0.4,
    max_translation: int = 48,
    correlated_noise: float = 0.25,
    iid_noise: float = 0.02,
    shear: float = 0.75,
    shuffle_positions: bool = False,
    length: int = 40,
) -> Data:
    """MNIST-1D: 4000 rows to train and validate, 1000 to test, 40 numbers each, ten classes.

    Args:
        num: rows in all, a multiple of ten: every class has as many.
        test: fraction of all rows that test: the last ones, as in the package, whose order is already random.
        val: fraction of the others that validates.
        label_noise: fraction of the training labels that is drawn anew from the ten classes, once. A tenth of those
            keeps its class by chance; validation and test labels stay true.
        seed, split_seed, label_seed: of the examples, of the validation rows, of the label noise.
        template_length: points given to a template beyond its padding before it is resampled, at least 2.
        min_padding, max_padding: range of the zeros appended to a template.
        scale_range: width of the range of factors around 1.
        max_translation: translations are 0 to this, less one; at least 1.
        correlated_noise, iid_noise: deviations of the noise in the padding, before it is smoothed, and everywhere.
        shear: width of the range of slopes.
        shuffle_positions: apply one permutation to the positions of all examples.
        length: numbers an example, at least 2.

    >>> mnist1d(num=100)
    Data(mnist1d: train 72, val 8, test 20; x (40,); y digit: 10 classes)
    """
    options = dict(locals())
    for name, fraction in (("test", test), ("val", val)):
        if not 0 <= fraction < 1:
            raise UserError(
                f"{name} must be a fraction from 0 to below 1", got=f"{name}={fraction}", do="Pass one such as 0.1"
            )
    if not 0 <= label_noise <= 1:
        raise UserError(
            "label_noise must be a fraction from 0 to 1", got=f"label_noise={label_noise}", do="Pass one such as 0.15"
        )
    drawn = generate(**{name: options[name] for name in signature(generate).parameters})
    x, y = torch.from_numpy(drawn.x).float(), torch.from_numpy(drawn.y)
    num_seen = round(num * (1 - test))
    if num_seen == 0:
        raise UserError("a row must be left to train on", got=f"test={test} of {num} rows", do="Pass a smaller test")
    train, held, _ = split_indices(num_seen, val=val, test=0.0, seed=split_seed, stratify=y[:num_seen])
    labels, num_noisy = _randomize(y[train], label_noise, label_seed)
    notes = (f"{num_noisy} training labels drawn anew from the ten classes",) if num_noisy else ()
    tested = torch.arange(num_seen, num)
    return Data(
        train=Split(x[train], labels, rows=train),
        val=Split(x[held], y[held], rows=held),
        test=Split(x[tested], y[tested], rows=tested),
        target=Target("classes", name="digit", classes=CLASSES),
        inputs=Identity(),
        name="mnist1d",
        recipe={"source": "mnist1d", "options": options},
        account=Account("mnist1d generator", read=num, notes=notes),
    )


@checked
def generate(
    *,
    num: int = 5000,
    seed: int = 42,
    template_length: int = 12,
    min_padding: int = 36,
    max_padding: int = 60,
    scale_range: float = 0.4,
    max_translation: int = 48,
    correlated_noise: float = 0.25,
    iid_noise: float = 0.02,
    shear: float = 0.75,
    shuffle_positions: bool = False,
    length: int = 40,
) -> Arrays:
    """The whole set in float64, before it is split; arguments as in `mnist1d`.

    >>> generate(num=20).x.shape
    (20, 40)
    """
    _check(
        num=num,
        seed=seed,
        template_length=template_length,
        min_padding=min_padding,
        max_padding=max_padding,
        max_translation=max_translation,
        correlated_noise=correlated_noise,
        iid_noise=iid_noise,
        length=length,
    )
    num_points = template_length + max_padding  # N
    y = np.repeat(np.arange(len(CLASSES)), num // len(CLASSES))
    stream = np.random.RandomState(seed)
    # The draws of one example follow those of the one before, so this part alone goes row by row.
    u, v, w = np.empty(num), np.empty(num), np.empty(num)
    k, normal = np.empty(num, dtype=np.int64), np.empty((num, 2 * num_points))
    uniform, integer, gauss = stream.random_sample, stream.randint, stream.standard_normal
    for i in range(num):
        u[i], v[i], k[i], normal[i], w[i] = (
            uniform(),
            uniform(),
            integer(max_translation),
            gauss(2 * num_points),
            uniform(),
        )
    order = stream.permutation(num)

    p = min_padding + (u * (max_padding - min_padding + 1)).astype(np.int64)  # eq. 1
    d = _dilated(y, p, num_points) * (1 + scale_range * (v - 0.5))[:, None]  # eq. 2, and the scale of eq. 3
    k = np.where(k < num_points, k, 0)  # a translation longer than the line leaves it where it is
    d = np.take_along_axis(d, (np.arange(num_points) - k[:, None]) % num_points, axis=1)  # eq. 3
    d = np.where(d != 0, d, _smooth(correlated_noise * normal[:, :num_points]))  # eq. 4
    d = d + iid_noise * normal[:, num_points:]
    d = d - (shear * (w - 0.5))[:, None] * np.linspace(-0.5, 0.5, num_points)  # eq. 5
    x, y = _resample(d, length)[order], y[order]
    if shuffle_positions:
        x = x[..., stream.permutation(length)]
    t = _resample(_resample(np.linspace(-5, 5, _DIGITS.shape[1]) / 6.0, num_points), length)
    deviation = x.std()
    return Arrays((x - x.mean()) / deviation, y, t / deviation)  # eq. 6


def templates() -> np.ndarray:
    """The ten clean digits, (10, 12): each of deviation 1/6, beginning at 0."""
    x = _DIGITS - _DIGITS.mean(1, keepdims=True)
    x /= x.std(1, keepdims=True)
    return (x - x[:, :1]) / 6.0


def _dilated(y: np.ndarray, p: np.ndarray, num_points: int) -> np.ndarray:
    """Row i is template y_i with p_i zeros appended, stretched. Few pairs (y, p) exist: each is made once."""
    lifted = templates() + _OFFSET
    paddings, which = np.unique(p, return_inverse=True)
    table = np.stack([_resample(np.pad(lifted, ((0, 0), (0, zeros))), num_points) for zeros in paddings])
    return table[which, y]


def _resample(line: np.ndarray, num: int) -> np.ndarray:
    """Linear interpolation of the last axis, taken as equal steps from 0 to 1, at `num` equal steps."""
    old, new = np.linspace(0, 1, line.shape[-1]), np.linspace(0, 1, num)
    j = np.minimum(np.searchsorted(old, new, side="right") - 1, len(old) - 2)
    left, right = line[..., j], line[..., j + 1]
    value = (right - left) / (old[j + 1] - old[j]) * (new - old[j]) + left
    return np.where(new == old[j + 1], right, value)  # only the last point: all others have their step to the right


def _smooth(noise: np.ndarray, deviation: float = 2.0) -> np.ndarray:
    """Gaussian filter of the last axis, cut at four deviations, with mirrored ends.

    Pairs at equal distance are added before they are weighted, from the farthest to the nearest: the sum then rounds as
    SciPy's does, to the last bit.
    """
    radius = int(4 * deviation + 0.5)
    weight = np.exp(-0.5 / deviation**2 * np.arange(-radius, radius + 1) ** 2)
    weight /= weight.sum()
    n = noise.shape[-1]
    wide = np.pad(noise, ((0, 0), (radius, radius)), mode="symmetric")
    total = noise * weight[radius]
    for j in range(radius):
        total += (wide[:, j : j + n] + wide[:, 2 * radius - j : 2 * radius - j + n]) * weight[j]
    return total


def _randomize(y: Tensor, fraction: float, seed: int) -> tuple[Tensor, int]:
    """`y` with a fraction of its labels drawn anew, and how many that are."""
    num = round(fraction * len(y))
    generator = torch.Generator().manual_seed(seed)
    chosen = torch.randperm(len(y), generator=generator)[:num]
    noisy = y.clone()
    noisy[chosen] = torch.randint(len(CLASSES), (num,), generator=generator)
    return noisy, num


def _check(
    *, num: int, min_padding: int, max_padding: int, correlated_noise: float, iid_noise: float, **least: int
) -> None:
    """Refuse settings that draw nothing sensible; `least` holds whole numbers that have a minimum."""
    if num < 10 or num % 10:
        raise UserError("num must be a multiple of 10, one row a class", got=f"num={num}", do="Pass num=5000")
    if not 0 <= min_padding <= max_padding:
        raise UserError(
            "padding must satisfy 0 <= min_padding <= max_padding",
            got=f"min_padding={min_padding}, max_padding={max_padding}",
            do="Pass min_padding=36 and max_padding=60",
        )
    for name, noise in (("correlated_noise", correlated_noise), ("iid_noise", iid_noise)):
        if not 0 <= noise < float("inf"):
            raise UserError(f"{name} must not be negative", got=f"{name}={noise}", do="Pass a deviation such as 0.02")
    for name, value in least.items():
        minimum = {"seed": 0, "max_translation": 1}.get(name, 2)
        if value < minimum:
            raise UserError(f"{name} must be at least {minimum}", got=f"{name}={value}", do=f"Pass {minimum} or more")
