"""Linear regions of a network on a plane: every polygon, exactly.

The window is one polygon at first. Each unit's level line cuts those polygons that have corners on both of its sides:

    corner of the cut = u + (v - u) · z_u / (z_u - z_v)        on the edge from u to v, z_u z_v < 0        (1)

Corners are shared between neighbours, and a cut corner is found once for the edge and not once a polygon: neighbours
always agree, there are no gaps and no slivers out of rounding. A corner on a line up to rounding counts as on it.
All polygons are cut at once, unit by unit, activation by activation; limits: see `leadline.lens.piecewise`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor, nn

from leadline.errors import ShapeError, UserError
from leadline.lens.at_rest import exactly
from leadline.lens.piecewise import Piecewise, merge, piecewise, snap
from leadline.lens.style import LAYERS, SEQUENTIAL, blank, colour_bar, label, styled
from leadline.lens.view import View
from leadline.settings import given

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Window = Sequence[Sequence[float]]
_BLOCK = 32  # units whose sides are kept at all corners at a time


@dataclass(frozen=True, eq=False)
class Regions(View):
    """The activation regions of a network in a window, each a convex polygon on which the network is affine.

    Args:
        window: ((least, largest) of the first coordinate, the same of the second).
        corners: of all polygons, each once, (V, 2).
        loops: the corners of each polygon by number, counter-clockwise, one polygon after another.
        sizes: how many corners each polygon has.
        patterns: state of every unit in each, (regions, units): 0 or 1 for ReLU, 0 to 2 for Hardtanh.
        centres: a point inside each; `values` (regions, K) of the output there, `slopes` (regions, 2, K).
        edges: joints between regions, as corner numbers, (edges, 2); `layers` says which activation made each.
        count: number of regions: of activation patterns that occur.
        pieces: number of pieces after joining neighbours on which the output is one affine function.
        plane: whether the coordinates are along a plane's directions, and not the two inputs.
    """

    window: tuple[tuple[float, float], tuple[float, float]]
    corners: np.ndarray
    loops: np.ndarray
    sizes: np.ndarray
    patterns: np.ndarray
    centres: np.ndarray
    values: np.ndarray
    slopes: np.ndarray
    edges: np.ndarray
    layers: np.ndarray
    count: int
    pieces: int
    plane: bool

    @property
    def polygons(self) -> list[np.ndarray]:
        """The corners of each region, (n, 2), counter-clockwise."""
        return np.split(self.corners[self.loops], np.cumsum(self.sizes)[:-1])

    @property
    def areas(self) -> np.ndarray:
        """Of each region; they add up to the window's."""
        owner = np.repeat(np.arange(self.count), self.sizes)
        p, q = self.corners[self.loops], self.corners[_following(self.loops, self.sizes)]
        return np.bincount(owner, (p[:, 0] * q[:, 1] - q[:, 0] * p[:, 1]) / 2, self.count)

    @styled
    def plot(self, output: int = 0) -> Figure:
        """Regions coloured by the output at their middle, joints by the layer whose unit switches there."""
        from matplotlib.collections import LineCollection, PolyCollection

        figure = blank(6.0, 5.0)
        ax = figure.subplots()
        faces = PolyCollection(self.polygons, cmap=SEQUENTIAL, lw=0, alpha=0.45, antialiaseds=False, rasterized=True)
        faces.set_array(self.values[:, output])
        ax.add_collection(faces)
        width = float(np.clip(18 / np.sqrt(self.count), 0.35, 1.4))
        for layer in sorted(set(self.layers.tolist())):
            lines = self.corners[self.edges[self.layers == layer]]
            colour = LAYERS[layer % len(LAYERS)]
            ax.add_collection(
                LineCollection(list(lines), colors=colour, linewidths=width, label=f"joints of layer {layer + 1}")
            )
        colour_bar(ax, faces, "output at the middle of the region")
        ax.grid(False)
        title = f"{self.count:,} linear regions" + (
            f", {self.pieces:,} different pieces" if self.pieces != self.count else ""
        )
        names = ("first direction", "second direction") if self.plane else ("x₁", "x₂")
        label(ax, title, *names, legend=3)
        ax.set(xlim=self.window[0], ylim=self.window[1])
        return figure


def regions(
    model: nn.Module, window: Window = ((-1, 1), (-1, 1)), plane: tuple[Any, Any, Any] | None = None
) -> Regions:
    """The linear regions of `model` in a window of its two inputs, or of a plane in an input space of any dimension.

    Args:
        window: ((least, largest) of the first coordinate, (least, largest) of the second).
        plane: (origin, first direction, second direction); coordinates count along the directions from the origin.

    >>> net = nn.Sequential(nn.Linear(2, 2), nn.ReLU(), nn.Linear(2, 1))
    >>> _ = nn.init.eye_(net[0].weight), nn.init.zeros_(net[0].bias)
    >>> regions(net).count  # the four quadrants
    4
    """
    ((left, right), (bottom, top)) = bounds = check_window(window)
    origin, axes = (np.zeros(2), np.eye(2)) if plane is None else _plane(plane)
    with piecewise(model, origin, axes) as seen:
        mesh = _Mesh(np.array([(left, bottom), (right, bottom), (right, top), (left, top)]))
        for stage in range(seen.num_stages):
            width = seen.sides(mesh.corners[:1], stage).shape[1]
            for first in range(0, width, _BLOCK):
                mesh.cut_all(seen.sides(mesh.corners, stage, slice(first, first + _BLOCK)))
        return _regions(seen, mesh, bounds, plane is not None)


def patterns(model: nn.Module, x: Any) -> np.ndarray:
    """The state of every unit at the points x (n, …), in the order of the computation: 0 off, 1 on for ReLU.

    >>> net = nn.Sequential(nn.Linear(1, 2), nn.ReLU())
    >>> with torch.no_grad():
    ...     _ = net[0].weight.copy_(torch.tensor([[1.0], [-1.0]])), net[0].bias.zero_()
    >>> patterns(net, [[2.0], [-2.0]]).tolist()
    [[1, 0], [0, 1]]
    """
    points = torch.as_tensor(x, dtype=torch.float64, device="cpu") if not isinstance(x, Tensor) else x.double().cpu()
    with exactly(model) as f:
        rows = Piecewise(model, lambda t: f(t.unflatten(1, points.shape[1:])), *_whole(points))
        return rows.patterns(points.flatten(1).numpy())


def _whole(points: Tensor) -> tuple[Tensor, Tensor]:
    """The whole input space as its own coordinates."""
    size = points[0].numel()
    return torch.zeros(size, dtype=torch.float64), torch.eye(size, dtype=torch.float64)


class _Mesh:
    """Convex polygons that share corners: one flat list of corner numbers, polygon after polygon."""

    def __init__(self, corners: np.ndarray):
        self.corners, self.loops, self.sizes = corners, np.arange(len(corners)), np.array([len(corners)])

    def cut_all(self, z: np.ndarray) -> None:
        """Cut along the zero line of each column of z, which holds a row a corner."""
        room = np.empty((2 * len(z) + 1024, z.shape[1]))
        room[: len(z)] = z
        for unit in range(z.shape[1]):
            new = self._cut(room[: len(self.corners)], unit)
            count = len(self.corners)
            if count > len(room):  # twice as much each time, so that a row is moved once on average
                room = np.concatenate([room[: count - len(new)], np.empty((count, z.shape[1]))])
            room[count - len(new) : count] = snap(new, z)

    def _cut(self, z: np.ndarray, unit: int) -> np.ndarray:
        """Cut along the zero line of one column; the rows of z of the new corners."""
        side = np.sign(z[:, unit]).astype(np.int8)
        begin = np.concatenate([[0], np.cumsum(self.sizes)[:-1]])
        high, low = np.maximum.reduceat(side[self.loops], begin), np.minimum.reduceat(side[self.loops], begin)
        through = (high > 0) & (low < 0)
        if not through.any():
            return z[:0]
        inside = np.repeat(through, self.sizes)
        u = self.loops[inside]
        v = _following(self.loops, self.sizes)[inside]
        crossing = side[u] * side[v] < 0
        # an edge is seen from both of its polygons: its new corner is made once, from its ends in one order
        ends = np.sort(np.stack([u[crossing], v[crossing]], 1), 1)
        key, which = np.unique(ends[:, 0] * len(self.corners) + ends[:, 1], return_inverse=True)
        a, b = np.divmod(key, len(self.corners))
        part = (z[a, unit] / (z[a, unit] - z[b, unit]))[:, None]  # eq. 1
        new = self.corners[a] + part * (self.corners[b] - self.corners[a])
        values = z[a] + part * (z[b] - z[a])
        values[:, unit] = 0
        # the loops of the cut polygons with the new corners in their places
        place = np.cumsum(1 + crossing) - 1 - crossing
        owner = np.repeat(np.flatnonzero(through), self.sizes[through])
        loop, of = np.empty(len(u) + int(crossing.sum()), int), np.empty(len(u) + int(crossing.sum()), int)
        loop[place], of[place] = u, owner
        loop[place[crossing] + 1], of[place[crossing] + 1] = len(self.corners) + which, owner[crossing]
        self.corners = np.concatenate([self.corners, new])
        sides = np.concatenate([side, np.zeros(len(new), np.int8)])[loop]
        count = len(self.sizes)
        halves = [(loop[keep], np.bincount(of[keep], minlength=count)[through]) for keep in (sides >= 0, sides <= 0)]
        self.loops = np.concatenate([self.loops[~inside], *(loop for loop, _ in halves)])
        self.sizes = np.concatenate([self.sizes[~through], *(sizes for _, sizes in halves)])
        return values


def _following(loops: np.ndarray, sizes: np.ndarray) -> np.ndarray:
    """The corner after each corner, round its polygon."""
    after = np.roll(loops, -1)
    end = np.cumsum(sizes)
    after[end - 1] = loops[end - sizes]
    return after


def _regions(seen: Piecewise, mesh: _Mesh, window: Any, plane: bool) -> Regions:
    owner = np.repeat(np.arange(len(mesh.sizes)), mesh.sizes)
    flat = mesh.corners[mesh.loops]
    centres = np.stack([np.bincount(owner, flat[:, k]) for k in (0, 1)], 1) / mesh.sizes[:, None]
    values, slopes, states = seen.output(centres), seen.slopes(centres), seen.patterns(centres)
    seen.check(flat, slopes[owner], centres[owner], values[owner])
    # an inner edge is met twice, once from each side
    ends = np.sort(np.stack([mesh.loops, _following(mesh.loops, mesh.sizes)], 1), 1)
    key = ends[:, 0] * len(mesh.corners) + ends[:, 1]
    order = np.argsort(key, kind="stable")
    twice = np.flatnonzero(key[order][1:] == key[order][:-1])
    one, other = order[twice], order[twice + 1]
    differ = states[owner[one]] != states[owner[other]]
    stage = np.repeat(np.arange(seen.num_stages), seen.widths)
    layers = stage[differ.argmax(1)] if len(one) else np.zeros(0, int)
    gap = np.abs(slopes[owner[one]] - slopes[owner[other]]).reshape(len(one), -1).max(1, initial=0)
    same = gap <= 1e-9 * np.abs(slopes).max(initial=0)
    pieces = merge(len(mesh.sizes), owner[one][same], owner[other][same])
    return Regions(
        window, mesh.corners, mesh.loops, mesh.sizes, states, centres, values, slopes, ends[one], layers,
        len(mesh.sizes), pieces, plane,
    )  # fmt: skip


def check_window(window: Any, name: str = "window") -> tuple[tuple[float, float], tuple[float, float]]:
    """((left, right), (bottom, top)) as numbers, or the message that it is not a window."""
    try:
        ((left, right), (bottom, top)) = window
        ends = tuple(float(end) for end in (left, right, bottom, top))
        fits = all(np.isfinite(ends)) and ends[0] < ends[1] and ends[2] < ends[3]
    except (TypeError, ValueError):
        fits = False
    if not fits:
        raise UserError(
            f"{name} must be ((left, right), (bottom, top)), each pair ascending",
            got=given(name, window),
            do=f"Write {name}=((-1, 1), (-1, 1))",
        )
    return (ends[0], ends[1]), (ends[2], ends[3])


def _plane(plane: Any) -> tuple[np.ndarray, np.ndarray]:
    try:
        origin, first, second = (np.array(torch.as_tensor(p).detach().cpu(), dtype=np.float64) for p in plane)
    except (TypeError, ValueError):
        raise UserError(
            "plane must be three points: origin, first direction, second direction",
            got=given("plane", plane),
            do="Write plane=(origin, first, second)",
        ) from None
    axes = np.stack([first, second]) if first.shape == second.shape == origin.shape else np.zeros((2, 0))
    if np.linalg.matrix_rank(axes.reshape(2, -1)) < 2:
        raise ShapeError(
            "the plane's origin and directions must have one shape, and the directions must differ",
            got=f"shapes {origin.shape}, {first.shape} and {second.shape}",
            do="Pass an input and two directions that are not along one line",
        )
    return origin, axes
