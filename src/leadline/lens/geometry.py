"""High-dimensional geometry, drawn from samples beside its laws.

    lengths     |x|, x ~ N(0, I_D)                        a thin shell at about √D                        (1)
    angles      between two such x                        about 90°, the spread like 1/√D                 (2)
    shell       part of a ball within 1 % of its radius   1 - 0.99^D                                      (3)
    ball        volume of the ball in the unit cube       to 0, faster than any power                     (4)
    distances   nearest over farthest of points in a cube to 1                                            (5)
    bins        cells of 10 an axis for each of n rows    10^D / n                                        (6)

The laws are those of `leadline.reference.geometry`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from leadline.errors import UserError
from leadline.lens.style import DASHED, FULL, HUES, INK, blank, label, styled
from leadline.lens.view import View
from leadline.reference import geometry as law
from leadline.settings import given, whole

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_POINTS = 1000  # of the cube


@dataclass(frozen=True, eq=False)
class Geometry(View):
    """Args:
    dims: the numbers of dimensions.
    lengths, angles: samples for each of them, (dims, num), angles in degrees.
    shell, ball: eq. 3 and 4, (dims,).
    ratio: nearest over farthest distance from a point of the cube to 999 others, (dims,): the mean over them all.
    cells: logarithm to base 10 of the cells for each of 10,000 rows, (dims,).
    """

    dims: tuple[int, ...]
    lengths: np.ndarray
    angles: np.ndarray
    shell: np.ndarray
    ball: np.ndarray
    ratio: np.ndarray
    cells: np.ndarray

    @styled
    def plot(self) -> Figure:
        figure = blank(FULL, 5.8)
        axes = figure.subplots(2, 3).flatten()
        top = 1.15 * float(self.lengths.max())
        r = np.linspace(1e-6, top, 400)
        for hue, dim, sample in zip(HUES * 3, self.dims, self.lengths):
            axes[0].hist(sample, 40, density=True, color=hue, alpha=0.5, lw=0, label=f"D = {dim}")
            axes[0].plot(r, [law.chi_density(float(v), dim) for v in r], color=hue, lw=1.1)
        label(axes[0], "Lengths: a thin shell", "distance from the origin", "density", 2)
        degrees = np.linspace(0, 180, 721)
        for hue, dim, sample in zip(HUES * 3, self.dims, self.angles):
            if dim > 1:
                axes[1].hist(sample, 40, density=True, color=hue, alpha=0.5, lw=0)
                axes[1].plot(degrees, [law.angle_density(float(v), dim) for v in degrees], color=hue, lw=1.1)
        axes[1].set_xticks([0, 45, 90, 135, 180])
        label(axes[1], "Angles: nearly right", "degrees", "density")
        smooth = np.unique(np.geomspace(1, max(self.dims), 200).round().astype(int))
        axes[2].plot(smooth, [law.shell_share(int(d)) for d in smooth], color=INK, lw=1.2, ls=DASHED)
        axes[2].plot(self.dims, self.shell, "o", color=HUES[0], ms=4.5)
        label(axes[2], "Volume in the outer 1 % of a ball", "D", "part")
        axes[3].plot(smooth, [law.ball_volume(int(d)) for d in smooth], color=INK, lw=1.2, ls=DASHED)
        axes[3].plot(self.dims, self.ball, "o", color=HUES[0], ms=4.5)
        axes[3].set(yscale="log", ylim=(1e-60, 10), xlim=(0.9, 110))
        label(axes[3], "Ball in the unit cube", "D", "volume")
        axes[4].plot(self.dims, self.ratio, "o-", color=HUES[0], ms=4.5)
        axes[4].set_ylim(0, 1)
        label(axes[4], "Nearest over farthest of 1,000 points", "D", "ratio of distances")
        axes[5].plot(self.dims, self.cells, "o-", color=HUES[0], ms=4.5)
        label(axes[5], "Cells for each of 10,000 rows", "D", "log10 of the cells")
        for ax in (axes[2], *axes[4:]):
            ax.set_xscale("log")
        return figure


def geometry(dims: Sequence[int] = (2, 10, 25, 100, 500, 1000), *, num: int = 2000, seed: int = 0) -> Geometry:
    """Samples in each number of dimensions, with the laws that they follow.

    Args:
        dims: numbers of dimensions, at least 1 each.
        num: samples of lengths and of angles, at least 2.
        seed: of the samples.

    >>> view = geometry((25, 100, 500), num=4000)
    >>> view.lengths.mean(1).round(1).tolist()  # 4.95, 9.975, 22.35 of the chi law
    [5.0, 10.0, 22.3]
    """
    if isinstance(dims, int) or not len(dims):
        raise UserError("dims must be a list of dimensions", got=given("dims", dims), do="Write dims=(25, 100, 500)")
    chosen = tuple(sorted({whole("dims", dim) for dim in dims}))
    num = whole("num", num, 2, usual=2000)
    rng = np.random.default_rng(whole("seed", seed, 0))
    lengths, angles, ratio = [], [], []
    for dim in chosen:
        a, b = rng.standard_normal((2, num, dim))
        size = np.linalg.norm(a, axis=1)
        cosine = (a * b).sum(1) / size / np.linalg.norm(b, axis=1)
        lengths.append(size)
        angles.append(np.degrees(np.arccos(np.clip(cosine, -1, 1))))
        ratio.append(_ratio(rng.uniform(size=(_POINTS, dim))))
    return Geometry(
        chosen, np.array(lengths), np.array(angles),
        np.array([law.shell_share(dim) for dim in chosen]), np.array([law.ball_volume(dim) for dim in chosen]),
        np.array(ratio), np.array([law.cells_per_point(dim, 10_000) for dim in chosen]),
    )  # fmt: skip


def _ratio(points: np.ndarray) -> float:
    """Nearest over farthest distance from each point to the others, the mean."""
    square = (points**2).sum(1)
    distance = np.maximum(square[:, None] + square - 2 * points @ points.T, 0)
    farthest = distance.max(1)
    np.fill_diagonal(distance, np.inf)
    return float(np.sqrt(distance.min(1) / farthest).mean())
