"""Convolution, one product at a time: as a sliding sum, flipped, as a matrix, by Fourier, backwards.

    sliding     z[i] = Σ_k w[k] x[s i + d k - p]                          what networks call convolution          (1)
    true        z[i] = Σ_k w[k] x[s i + d (K-1-k) - p]                    the kernel flipped: (1) of w reversed   (2)
    size        n' = ⌊(n + 2p - d (K-1) - 1) / s⌋ + 1                                                             (3)
    full        (f * h)[u] = Σ_t h[t] f[u-t],   u = 0 … n+m-2             f and h are 0 outside                   (4)
    Toeplitz    f * h = H f,   H[u][t] = h[u-t]                           (n+m-1) × n                             (5)
    Fourier     f * h = F⁻¹(F f · F h)                                    both filled with 0 to n+m-1 or more     (6)
    layer       z[o] = β[o] + Σ_c w[o][c] ⋆ x[c]                          c over the channels of o's group        (7)
    transposed  y[s i + d k - p] += w[k] z[i]                             its matrix is that of (1), transposed   (8)
    its size    n = s (n' - 1) - 2p + d (K-1) + 1 + more                                                          (9)
    gradients   ∂w[k] = Σ_i δ[i] x[s i + d k - p],   ∂x = (8) of δ,   ∂β[o] = Σ_i δ[o][i]                         (10)

Indices are of one axis; with two or three, each index is a tuple, and every axis has the same s, d and p.

Notation   s -> stride;  d -> spacing, the step between taps: 1 + the zeros inserted between them (a dilation of 0
           zeros is spacing 1);  p -> padding, values appended at each end of each axis;  K -> taps of an axis;
           δ = ∂loss/∂z
Padding    "zeros", "circular" (the axis is a ring) or "reflect" (mirrored, the end value not repeated); p = 0 is valid:
           only places where the whole kernel fits
Shapes     x (*sizes), w (*K) for one channel; x (C, *sizes), w (C', C / groups, *K), β (C',) for a layer
"""

from __future__ import annotations

import cmath
from collections.abc import Sequence
from typing import Any

from leadline.errors import UserError
from leadline.reference.grids import Grid, Place, at, grid, places, put, shape

Vector = Sequence[float]


def out_size(n: int, kernel: int, stride: int = 1, padding: int = 0, spacing: int = 1) -> int:
    """Eq. 3; 0 where the kernel does not fit.

    >>> out_size(40, 3, stride=2), out_size(19, 3, stride=2), out_size(9, 3, stride=2)
    (19, 9, 4)
    """
    return max(0, (n + 2 * padding - spacing * (kernel - 1) - 1) // stride + 1)


def transposed_size(n: int, kernel: int, stride: int = 1, padding: int = 0, spacing: int = 1, more: int = 0) -> int:
    """Eq. 9: of n values, how many a transposed convolution makes.

    >>> transposed_size(3, 3, stride=2, padding=1, more=1)
    6
    """
    return stride * (n - 1) - 2 * padding + spacing * (kernel - 1) + 1 + more


def spacing_of(zeros: int) -> int:
    """Step between taps, of the number of zeros inserted between them.

    >>> spacing_of(0), spacing_of(1)
    (1, 2)
    """
    return zeros + 1


def with_zeros(kernel: Vector, zeros: int) -> list[float]:
    """The dense kernel that a dilated one is, one axis.

    >>> with_zeros([1.0, 2.0, 3.0], 1)
    [1.0, 0.0, 2.0, 0.0, 3.0]
    """
    out = [kernel[0]]
    for tap in kernel[1:]:
        out += [0.0] * zeros + [tap]
    return out


def flipped(kernel: Grid) -> Any:
    """The kernel reversed along every axis.

    >>> flipped([[1, 2], [3, 4]])
    [[4, 3], [2, 1]]
    """
    sizes = shape(kernel)
    return grid(sizes, lambda place: at(kernel, tuple(n - 1 - i for n, i in zip(sizes, place))))


def padded(x: Grid, padding: int, mode: str = "zeros") -> Any:
    """The grid with `padding` further values at both ends of every axis.

    >>> padded([1, 2, 3], 2), padded([1, 2, 3], 2, "circular"), padded([1, 2, 3], 2, "reflect")
    ([0.0, 0.0, 1, 2, 3, 0.0, 0.0], [2, 3, 1, 2, 3, 1, 2], [3, 2, 1, 2, 3, 2, 1])
    """
    sizes = shape(x)
    if mode not in ("zeros", "circular", "reflect"):
        raise UserError("mode must be a padding", got=f"mode={mode!r}", do="Write zeros, circular or reflect")
    if mode == "reflect" and padding >= min(sizes):
        raise UserError(
            "a mirrored axis must be longer than its padding",
            got=f"padding={padding} of {min(sizes)} values",
            do=f"Pass at most {min(sizes) - 1}",
        )

    def value(place: Place) -> float:
        source = [_source(i - padding, n, mode) for i, n in zip(place, sizes)]
        return 0.0 if None in source else at(x, tuple(i for i in source if i is not None))

    return grid(tuple(n + 2 * padding for n in sizes), value)


def sliding(x: Grid, w: Grid, stride: int = 1, padding: int = 0, spacing: int = 1, mode: str = "zeros") -> Any:
    """Eq. 1: one channel, one kernel, any number of axes.

    >>> sliding([1, 2, 3, 4], [1, 0, -1])
    [-2, -2]
    >>> sliding([[1, 2], [3, 4]], [[1, 0], [0, 1]], padding=1)
    [[1.0, 2.0, 0.0], [3.0, 5, 2.0], [0.0, 3.0, 4.0]]
    """
    x, taps = padded(x, padding, mode), shape(w)

    def value(i: Place) -> float:
        total: float = 0
        for k in places(taps):
            total += at(w, k) * at(x, tuple(stride * i_ + spacing * k_ for i_, k_ in zip(i, k)))
        return total

    return grid(tuple(out_size(n, K, stride, 0, spacing) for n, K in zip(shape(x), taps)), value)


def convolved(x: Grid, w: Grid, stride: int = 1, padding: int = 0, spacing: int = 1, mode: str = "zeros") -> Any:
    """Eq. 2.

    >>> convolved([1, 2, 3, 4], [1, 0, -1])
    [2, 2]
    """
    return sliding(x, flipped(w), stride, padding, spacing, mode)


def full(f: Vector, h: Vector) -> list[float]:
    """Eq. 4, by its definition; the same with f and h exchanged.

    >>> full([1, 2, 3], [1, 10])
    [1, 12, 23, 30]
    """
    out = []
    for u in range(len(f) + len(h) - 1):
        total: float = 0
        for t in range(len(h)):
            if 0 <= u - t < len(f):
                total += h[t] * f[u - t]
        out.append(total)
    return out


def toeplitz(h: Vector, n: int) -> list[list[float]]:
    """H of eq. 5, for a series of n values: h[i] stands on the i-th diagonal below the main one.

    >>> toeplitz([1, 10], 3)
    [[1, 0, 0], [10, 1, 0], [0, 10, 1], [0, 0, 10]]
    """
    return grid((n + len(h) - 1, n), lambda place: h[place[0] - place[1]] if 0 <= place[0] - place[1] < len(h) else 0)


def by_fourier(f: Vector, h: Vector) -> list[float]:
    """Eq. 6: a product of spectra in place of sums of products.

    >>> [round(value, 9) for value in by_fourier([1, 2, 3], [1, 10])]
    [1.0, 12.0, 23.0, 30.0]
    """
    length = len(f) + len(h) - 1
    size = 1
    while size < length:
        size *= 2
    spectrum_f = fourier([*f, *[0.0] * (size - len(f))])
    spectrum_h = fourier([*h, *[0.0] * (size - len(h))])
    product = [a * b for a, b in zip(spectrum_f, spectrum_h, strict=True)]
    # the inverse transform is the transform of the conjugate, conjugated, over its length
    back = fourier([value.conjugate() for value in product])
    return [value.conjugate().real / size for value in back[:length]]


def fourier(values: Sequence[complex]) -> list[complex]:
    """The spectrum Σ_t v[t] e^{-2πi ut/n}, of a length that is a power of two, by halves (Cooley and Tukey, 1965).

    >>> fourier([1.0, 1.0])
    [(2+0j), 0j]
    """
    n = len(values)
    if n == 1:
        return [complex(values[0])]
    if n % 2:
        raise UserError("the length must be a power of two", got=f"{n} values", do="Append zeros")
    even, odd = fourier(values[::2]), fourier(values[1::2])
    turned = [cmath.exp(-2j * cmath.pi * u / n) * odd[u] for u in range(n // 2)]
    return [even[u] + turned[u] for u in range(n // 2)] + [even[u] - turned[u] for u in range(n // 2)]


def matrix(w: Vector, n: int, stride: int = 1, padding: int = 0, spacing: int = 1, mode: str = "zeros") -> Any:
    """The matrix of (1) on a series of n values, n' × n: column j is what a 1 at place j makes.

    >>> matrix([1, 2, 3], 6, stride=2, padding=1)
    [[2, 3, 0, 0, 0, 0], [0, 1, 2, 3, 0, 0], [0, 0, 0, 1, 2, 3]]
    """
    out = grid((out_size(n, len(w), stride, padding, spacing), n), lambda _: 0)
    for i in range(len(out)):
        for k in range(len(w)):
            j = _source(stride * i + spacing * k - padding, n, mode)
            if j is not None:
                out[i][j] += w[k]
    return out


def layer(
    x: Grid,
    w: Grid,
    bias: Vector | None = None,
    stride: int = 1,
    padding: int = 0,
    spacing: int = 1,
    groups: int = 1,
    mode: str = "zeros",
) -> Any:
    """Eq. 7: channels in, channels out; every output channel reads those of its group.

    >>> layer([[1, 2, 3], [10, 20, 30]], [[[1, 1], [1, 1]]], [100])
    [[133, 155]]
    """
    fan = len(w[0])

    def channel(o: int) -> Any:
        first = o // (len(w) // groups) * fan  # the first channel of its group
        parts = [sliding(x[first + c], w[o][c], stride, padding, spacing, mode) for c in range(fan)]
        offset = bias[o] if bias is not None else 0
        return grid(shape(parts[0]), lambda i: offset + sum(at(part, i) for part in parts))

    return [channel(o) for o in range(len(w))]


def depthwise(x: Grid, w: Grid, bias: Vector | None = None, stride: int = 1, padding: int = 0) -> Any:
    """Eq. 7 with a group for each channel: kernel c reads channel c alone. `w` is (C, *K).

    >>> depthwise([[1, 2, 3], [10, 20, 30]], [[1, 1], [1, -1]])
    [[3, 5], [-10, -10]]
    """
    return layer(x, [[kernel] for kernel in w], bias, stride, padding, groups=len(w))


def rank_one(channel: Vector, *axes: Vector) -> Any:
    """The kernel w[c][k][l] = u[c] r[k] q[l]: C + K + K numbers in place of C K K.

    >>> rank_one([1, 2], [1, 10], [3, 4])
    [[[3, 4], [30, 40]], [[6, 8], [60, 80]]]
    """
    factors = (channel, *axes)

    def value(place: Place) -> float:
        total = factors[0][place[0]]
        for factor, index in zip(factors[1:], place[1:]):
            total *= factor[index]
        return total

    return grid(tuple(len(factor) for factor in factors), value)


def transposed(
    z: Grid, w: Grid, stride: int = 1, padding: int = 0, spacing: int = 1, more: int = 0, sizes: Place | None = None
) -> Any:
    """Eq. 8: each value lays down a scaled copy of the kernel, and copies that overlap are added.

    Args:
        more: further values at the end of each axis, where several sizes would do in (3).
        sizes: of the result, in place of (9).

    >>> transposed([1, 10], [1, 2, 3], stride=2)
    [1, 2, 13, 20, 30]
    """
    taps = shape(w)
    if sizes is None:
        sizes = tuple(transposed_size(n, K, stride, padding, spacing, more) for n, K in zip(shape(z), taps))
    y = grid(sizes, lambda _: 0)
    for i in places(shape(z)):
        for k in places(taps):
            j = tuple(stride * i_ + spacing * k_ - padding for i_, k_ in zip(i, k))
            if all(0 <= j_ < n for j_, n in zip(j, sizes)):
                put(y, j, at(y, j) + at(w, k) * at(z, i))
    return y


def gradients(
    x: Grid, w: Grid, delta: Grid, stride: int = 1, padding: int = 0, spacing: int = 1, groups: int = 1
) -> tuple[Any, Any, list[float]]:
    """∂loss/∂x, ∂loss/∂w and ∂loss/∂β of a layer padded with zeros, of ∂loss/∂z (10).

    >>> gradients([[1, 2, 3]], [[[10, 20]]], [[1, 1]])
    ([[10, 30, 20]], [[[3, 5]]], [2])
    """
    fan, sizes, taps = len(w[0]), shape(x[0]), shape(w[0][0])
    dx, dw = grid(shape(x), lambda _: 0), grid(shape(w), lambda _: 0)
    for o in range(len(w)):
        first = o // (len(w) // groups) * fan
        for c in range(fan):
            back = transposed(delta[o], w[o][c], stride, padding, spacing, sizes=sizes)
            for j in places(sizes):
                put(dx, (first + c, *j), at(dx, (first + c, *j)) + at(back, j))
            for k in places(taps):
                dw_k: float = 0
                for i in places(shape(delta[o])):
                    j = tuple(stride * i_ + spacing * k_ - padding for i_, k_ in zip(i, k))
                    if all(0 <= j_ < n for j_, n in zip(j, sizes)):
                        dw_k += at(delta[o], i) * at(x[first + c], j)
                put(dw, (o, c, *k), dw_k)
    return dx, dw, [sum(at(channel, i) for i in places(shape(channel))) for channel in delta]


def _source(i: int, n: int, mode: str) -> int | None:
    """Which of n values stands at place i, below 0 and from n on too; None where it is a zero."""
    if 0 <= i < n:
        return i
    if mode == "zeros":
        return None
    return i % n if mode == "circular" else (-i if i < 0 else 2 * (n - 1) - i)
