"""Scenes: pictures made up of shapes that lie over each other, with all that can be asked of a picture known exactly.

A scene is a ground and K shapes, painted from the back to the front. With p = R(-θ) (pixel - centre) / radius the
place of a pixel as shape k sees it, and d_k(p) how far p lies outside it (below 0 inside):

    covered_k  = clip(1/2 - radius · d_k(p), 0, 1)                                               (1)
    x          <- (1 - covered_k) x + covered_k · (colour_k - contrast_k · texture_k(p))         (2)
    mask       <- class_k where d_k(p) < 0                                                       (3)
    seen_k     = pixels that are still k's in the end / pixels of k within the picture           (4)

    classes   y = class of the one shape
    pixels    y = mask, with 0 for the ground and class + 1 for shapes
    boxes     y = hulls of what is seen, of shapes with (4) of at least a quarter
    points    y = the corners and centre of a dart, in front of other shapes or behind one

The first ten classes are shapes, in any texture; with more than ten a class is a texture and a shape. All is a pure
function of the seed.

Notation   x -> (N, 3, Y, X) uint8;  θ, radius, centre, colour, contrast -> columns of `_Things`
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import reduce
from inspect import signature
from typing import NamedTuple

import numpy as np
import torch

from leadline.data.account import Account
from leadline.data.arguments import checked
from leadline.data.data import Data, Split
from leadline.data.pictures import Pictures
from leadline.data.splits import split_indices
from leadline.data.target import Target
from leadline.errors import UserError
from leadline.names import lookup
from leadline.settings import whole

TASKS = ("pixels", "boxes", "points", "classes")
SHAPES = ("disc", "square", "triangle", "ring", "star", "cross", "diamond", "hexagon", "crescent", "bar")
TEXTURES = ("striped", "checked", "dotted", "noisy")
#: of the dart, in its own frame: tip, right wing, tail, left wing, and the centre
POINTS = {"tip": (1.0, 0.0), "right": (-0.65, 0.7), "tail": (-0.3, 0.0), "left": (-0.65, -0.7), "centre": (0.1, 0.0)}
LEAST_SEEN = 0.25
_AT_ONCE = 250  # scenes for which all grain is drawn before all noise
_PIXELS = 2**20  # of scenes that are painted together
_DART = len(SHAPES)
_SIDES = (0.13, 0.26)  # least and largest radius, in sides of the picture


class Scenes(NamedTuple):
    """Pictures with everything that is known of them; `boxes` and `points` as `Target` kinds of that name have them."""

    x: np.ndarray
    mask: np.ndarray
    boxes: np.ndarray
    points: np.ndarray
    label: np.ndarray


@dataclass(frozen=True, eq=False)
class _Things:
    """What is painted: arrays of shape (N, K, …), from the back to the front; `there` is False for none."""

    there: np.ndarray
    shape: np.ndarray
    texture: np.ndarray
    code: np.ndarray
    centre: np.ndarray
    radius: np.ndarray
    angle: np.ndarray
    colour: np.ndarray
    contrast: np.ndarray
    pitch: np.ndarray

    def take(self, rows: slice) -> _Things:
        return _Things(*(getattr(self, name)[rows] for name in self.__dataclass_fields__))


@checked
def scenes(
    *,
    num: int = 2000,
    size: int = 64,
    task: str = "pixels",
    num_classes: int = 10,
    num_shapes: int = 4,
    noise: float = 0.03,
    seed: int = 0,
    val: float = 0.15,
    test: float = 0.15,
) -> Data:
    """Made-up pictures of shapes that hide each other, for classes, pixels, boxes or points.

    Args:
        num: pictures in all, at least 4.
        size: rows and columns, at least 16.
        task: what is to be predicted: pixels (a class for each), boxes, points (of one figure) or classes (one shape
            a picture).
        num_classes: kinds of shapes, from 2 to 40.
        num_shapes: the most shapes a picture, at least 1; each has one or more.
        noise: deviation of each pixel's noise, from 0 for none to 1.
        seed: of the pictures and of their split.
        val, test: parts of the pictures, each from 0 and together below 1.

    >>> scenes(num=20, size=32)
    Data(scenes: train 14, val 3, test 3; x (3, 32, 32); y mask: 11 classes a pixel)
    """
    options = dict(locals())
    if num < 4:
        raise UserError("num must be at least 4", got=f"num={num}", do="Pass num=2000")
    task = lookup(task, {word: word for word in TASKS}, "task")
    made = generate(**{name: options[name] for name in signature(generate).parameters})
    x = torch.from_numpy(made.x)
    names = class_names(num_classes)
    known, target = {
        "pixels": (made.mask, Target("pixels", "mask", classes=("ground", *names))),
        "boxes": (made.boxes, Target("boxes", "boxes", classes=names)),
        "points": (made.points, Target("points", "points", classes=tuple(POINTS))),
        "classes": (made.label, Target("binary" if num_classes == 2 else "classes", "shape", classes=names)),
    }[task]
    y = torch.from_numpy(known)
    part = split_indices(num, val=val, test=test, seed=seed, stratify=y if task == "classes" else None)
    train, held, tested = (Split(x[rows], y[rows], rows=rows) for rows in part)
    return Data(
        train,
        held,
        tested,
        target,
        Pictures.of(train.x, "crop" if task == "classes" else "stretch"),
        name="scenes",
        recipe={"source": "scenes", "options": {**options, "task": task}},
        account=Account("scenes generator", read=num),
    )


def class_names(num_classes: int) -> tuple[str, ...]:
    """The classes of shapes by name.

    >>> class_names(3), class_names(12)[-2:]
    (('disc', 'square', 'triangle'), ('checked disc', 'checked square'))
    """
    if num_classes <= len(SHAPES):
        return SHAPES[:num_classes]
    return tuple(f"{texture} {shape}" for texture in TEXTURES for shape in SHAPES)[:num_classes]


@checked
def generate(
    *,
    num: int = 2000,
    size: int = 64,
    task: str = "pixels",
    num_classes: int = 10,
    num_shapes: int = 4,
    noise: float = 0.03,
    seed: int = 0,
) -> Scenes:
    """The scenes before they are split; arguments as in `scenes`.

    >>> made = generate(num=3, size=32)
    >>> made.x.shape, made.mask.shape, made.boxes.shape[2], made.points.shape[1:]
    ((3, 3, 32, 32), (3, 32, 32), 5, (5, 3))
    """
    num, size = whole("num", num, usual=2000), whole("size", size, 16, 4096, usual=64)
    num_classes = whole("num_classes", num_classes, 2, len(SHAPES) * len(TEXTURES), usual=10)
    num_shapes = whole("num_shapes", num_shapes, 1, 64, usual=4)
    seed = whole("seed", seed, 0, 2**63 - 1, usual=0)
    if not 0 <= noise <= 1:
        raise UserError("noise must lie from 0 to 1", got=f"noise={noise}", do="Leave it out for 0.03")
    task = lookup(task, {word: word for word in TASKS}, "task")
    rng = np.random.default_rng(seed)
    things = _drawn(rng, num, task, num_classes, 1 if task == "classes" else num_shapes)
    ground = _grounds(rng, num)
    x, owner = np.empty((num, 3, size, size), np.uint8), np.empty((num, size, size), np.uint8)
    area = np.empty((num, things.there.shape[1]), np.int64)
    for first in range(0, num, _AT_ONCE):
        for rows, grain, drawn in _randomness(rng, range(first, min(first + _AT_ONCE, num)), size, bool(noise)):
            some = tuple(part[rows] for part in ground)
            x[rows], owner[rows], area[rows] = _painted(things.take(rows), some, size, noise, grain, drawn)
    code = np.concatenate([np.zeros((num, 1), np.uint8), (things.code + 1).astype(np.uint8)], 1)
    mask = np.take_along_axis(code, owner.reshape(num, -1), 1).reshape(owner.shape)  # eq. 3
    return Scenes(x, mask, _boxes(owner, area, things), _points(owner, things), things.code[:, 0].copy())


def _randomness(
    rng: np.random.Generator, rows: range, size: int, noise: bool
) -> Iterator[tuple[slice, np.ndarray, np.ndarray | None]]:
    """Grain and noise of scenes, few at a time; as if all grain of `rows` were drawn first, and then all noise.

    Noise begins where grain ends. That place is found by drawing the grain once more, ahead of it.
    """
    few = max(1, _PIXELS // size**2)
    parts = [slice(first, min(first + few, rows.stop)) for first in range(rows.start, rows.stop, few)]
    ahead = rng
    if len(parts) > 1:
        rng = np.random.Generator(np.random.PCG64())
        rng.bit_generator.state = ahead.bit_generator.state
        for part in parts:
            ahead.standard_normal((part.stop - part.start, size, size), dtype=np.float32)
    for part in parts:
        n = part.stop - part.start
        grain = rng.standard_normal((n, size, size), dtype=np.float32)
        yield part, grain, ahead.standard_normal((n, 3, size, size), dtype=np.float32) if noise else None


def _drawn(rng: np.random.Generator, num: int, task: str, num_classes: int, most: int) -> _Things:
    """What to paint; of key points the dart has the last place but one, so that one shape may hide parts of it."""
    K = most
    there = np.arange(K) < rng.integers(1, K + 1, (num, 1))
    code = rng.integers(0, num_classes, (num, K))
    if task == "classes":
        code = rng.permutation(np.arange(num) % num_classes)[:, None]
    shape, texture = code % len(SHAPES), rng.integers(0, len(TEXTURES), (num, K))
    if num_classes > len(SHAPES):
        texture = code // len(SHAPES)
    radius = rng.uniform(*_SIDES, (num, K))
    if task == "points":
        dart = max(K - 2, 0)
        there[:, dart], shape[:, dart], code[:, dart] = True, _DART, 0
        radius[:, dart] = rng.uniform(0.22, 0.32, num)
        if K > 1:
            there[:, -1] = rng.random(num) < 0.5
            radius[:, -1] = rng.uniform(0.08, 0.14, num)
    edge = radius if task == "points" else 0.8 * radius
    centre = edge[..., None] + rng.random((num, K, 2)) * (1 - 2 * edge[..., None])
    bright = rng.uniform(0.5, 1.0, (num, K, 1))
    colour = bright * np.eye(3)[rng.permuted(np.tile(np.arange(3), (num, K, 1)), axis=-1)[..., 0]]
    colour = np.clip(0.55 * colour + rng.uniform(0.15, 0.65, (num, K, 3)), 0, 1)
    return _Things(
        there,
        shape,
        texture,
        code,
        centre,
        radius,
        rng.uniform(0, 2 * np.pi, (num, K)),
        colour,
        rng.uniform(0.2, 0.4, (num, K)),
        rng.uniform(2.2, 3.6, (num, K)),
    )


def _grounds(rng: np.random.Generator, num: int) -> tuple[np.ndarray, ...]:
    """Colour, slope of the light, and pitch, direction and strength of a faint texture."""
    return (
        rng.uniform(0.05, 0.35, (num, 3)),
        rng.uniform(-0.15, 0.15, (num, 2)),
        rng.uniform(4.0, 12.0, num),
        rng.uniform(0, np.pi, num),
        rng.uniform(0.0, 0.06, num),
    )


def _painted(
    things: _Things,
    ground: tuple[np.ndarray, ...],
    size: int,
    noise: float,
    grain: np.ndarray,
    drawn: np.ndarray | None,
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Pictures (n, 3, Y, X), whose pixel each is (0 the ground, k + 1 thing k), and each thing's area (n, K)."""
    n, K = things.there.shape
    at = ((np.arange(size) + 0.5) / size).astype(np.float32)
    Y, X = np.meshgrid(at, at, indexing="ij")
    colour, light, pitch, way, strength = (part.astype(np.float32) for part in ground)
    wave = np.sin(_cells(2 * np.pi * pitch) * (_cells(np.cos(way)) * X + _cells(np.sin(way)) * Y))
    shade = _cells(light[:, 0]) * (X - 0.5) + _cells(light[:, 1]) * (Y - 0.5) + _cells(strength) * wave
    x = colour[:, :, None, None] + shade[:, None]  # (n, 3, Y, X)
    owner = np.zeros((n, size, size), np.uint8)
    area = np.zeros((n, K), np.int64)
    for k in range(K):
        for kind in np.unique(things.shape[:, k]):
            rows = np.flatnonzero((things.shape[:, k] == kind) & things.there[:, k])
            if not len(rows):
                continue
            radius, turn = (column[rows, k].astype(np.float32) for column in (things.radius, things.angle))
            off_x, off_y = (X - _cells(things.centre[rows, k, 0])), (Y - _cells(things.centre[rows, k, 1]))
            cos, sin = _cells(np.cos(turn) / radius), _cells(np.sin(turn) / radius)
            u = (cos * off_x + sin * off_y).astype(np.float32)
            v = (cos * off_y - sin * off_x).astype(np.float32)
            d = _OUTSIDE[kind](u, v)
            covered = np.clip(0.5 - _cells(radius * size) * d, 0, 1)[:, None]  # eq. 1
            pattern = _pattern(u, v, grain[rows], things.texture[rows, k], things.pitch[rows, k].astype(np.float32))
            paint = things.colour[rows, k].astype(np.float32)[:, :, None, None]
            paint = paint - _cells(things.contrast[rows, k].astype(np.float32))[:, None] * pattern[:, None]
            x[rows] += covered * (paint - x[rows])  # eq. 2
            inside = d < 0
            owner[rows] = np.where(inside, np.uint8(k + 1), owner[rows])
            area[rows, k] = inside.sum((1, 2))
    if drawn is not None:
        x += np.float32(noise) * drawn
    return np.rint(np.clip(x, 0, 1) * 255).astype(np.uint8), owner, area


def _cells(column: np.ndarray) -> np.ndarray:
    """One value a picture, for all its pixels."""
    return column.astype(np.float32)[:, None, None]


def _pattern(u: np.ndarray, v: np.ndarray, grain: np.ndarray, texture: np.ndarray, pitch: np.ndarray) -> np.ndarray:
    """Between 0 and 1 at each pixel: stripes, checks, dots or noise."""
    out = np.empty_like(u)
    for kind in np.unique(texture):
        rows = np.flatnonzero(texture == kind)
        wave_u, wave_v = (np.sin(np.pi * _cells(pitch[rows]) * side[rows]) for side in (u, v))
        if kind == 0:
            out[rows] = wave_u > 0
        elif kind == 1:
            out[rows] = wave_u * wave_v > 0
        elif kind == 2:
            out[rows] = wave_u**2 * wave_v**2 > 0.4
        else:
            out[rows] = np.clip(0.5 + 0.5 * grain[rows], 0, 1)
    return out


def _boxes(owner: np.ndarray, area: np.ndarray, things: _Things) -> np.ndarray:
    """Hulls of what is seen of each thing (N, M, 5), from the back to the front, -1 where there is none."""
    (N, Y, X), K = owner.shape, area.shape[1]
    found = np.full((N, K, 5), (-1.0, 0, 0, 0, 0), np.float32)
    for k in range(K):
        seen = owner == k + 1
        left, right = _ends(seen.any(1))
        top, bottom = _ends(seen.any(2))
        enough = (seen.sum((1, 2)) >= LEAST_SEEN * area[:, k]) & (area[:, k] > 0)  # eq. 4
        hull = ((left + right) / 2 / X, (top + bottom) / 2 / Y, (right - left) / X, (bottom - top) / Y)
        found[enough, k] = np.stack([things.code[:, k], *hull], 1)[enough]
    order = np.argsort(found[..., 0] < 0, axis=1, kind="stable")  # boxes first, padding last
    found = np.take_along_axis(found, order[..., None], 1)
    return found[:, : max(1, int((found[..., 0] >= 0).sum(1).max()))]


def _ends(hit: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """First place that is hit and the one after the last, of each row."""
    return hit.argmax(1), hit.shape[1] - hit[:, ::-1].argmax(1)


def _points(owner: np.ndarray, things: _Things) -> np.ndarray:
    """The dart's points (N, J, 3): where, and whether nothing lies over them. All 0 where there is no dart."""
    N, size, _ = owner.shape
    own = np.array(list(POINTS.values()))  # (J, 2)
    found = np.zeros((N, len(own), 3), np.float32)
    k = max(things.there.shape[1] - 2, 0)
    if not (things.shape[:, k] == _DART).all():
        return found
    cos, sin = np.cos(things.angle[:, k, None]), np.sin(things.angle[:, k, None])
    turned = np.stack([cos * own[:, 0] - sin * own[:, 1], sin * own[:, 0] + cos * own[:, 1]], -1)
    xy = things.centre[:, k, None] + things.radius[:, k, None, None] * turned  # (N, J, 2)
    column, row = (np.clip((xy[..., i] * size).astype(np.int64), 0, size - 1) for i in (0, 1))
    found[..., :2] = xy
    found[..., 2] = owner[np.arange(N)[:, None], row, column] <= k + 1
    return found


def _corners(*at: tuple[float, float]) -> Callable[[np.ndarray, np.ndarray], np.ndarray]:
    """A convex polygon with these corners, in the order in which they turn from x to y."""
    sides = list(zip(at, (*at[1:], at[0])))

    def outside(u: np.ndarray, v: np.ndarray) -> np.ndarray:
        return reduce(np.maximum, (_beyond(u, v, a, b) for a, b in sides))

    return outside


def _beyond(u: np.ndarray, v: np.ndarray, a: tuple[float, float], b: tuple[float, float]) -> np.ndarray:
    """How far points lie to the right of the line from a to b."""
    along = np.subtract(b, a)
    normal = np.array([along[1], -along[0]], np.float32) / np.float32(np.hypot(*along))
    return normal[0] * (u - np.float32(a[0])) + normal[1] * (v - np.float32(a[1]))


def _regular(num: int) -> Callable[[np.ndarray, np.ndarray], np.ndarray]:
    turn = 2 * np.pi * np.arange(num) / num
    return _corners(*zip(np.cos(turn).tolist(), np.sin(turn).tolist()))


def _bar(u: np.ndarray, v: np.ndarray, long: float = 1.0, wide: float = 0.3) -> np.ndarray:
    return np.maximum(np.abs(u) - np.float32(long), np.abs(v) - np.float32(wide))


def _star(u: np.ndarray, v: np.ndarray) -> np.ndarray:
    """Five points: in a fifth of the circle, folded along its tip, the side from the tip to the valley."""
    r, fifth = np.hypot(u, v), np.float32(2 * np.pi / 5)
    a = np.arctan2(v, u)
    a = np.abs(a - fifth * np.round(a / fifth))
    return _beyond(r * np.cos(a), r * np.sin(a), (1.0, 0.0), (0.42 * np.cos(np.pi / 5), 0.42 * np.sin(np.pi / 5)))


def _dart(u: np.ndarray, v: np.ndarray) -> np.ndarray:
    """Folded along its axis: the side from the tip to the wing, and that from the wing to the tail."""
    tip, wing, tail = POINTS["tip"], POINTS["right"], POINTS["tail"]
    return np.maximum(_beyond(u, np.abs(v), tip, wing), _beyond(u, np.abs(v), wing, tail))


#: how far (u, v) lies outside each shape of radius 1, in the order of SHAPES, and the dart
_OUTSIDE: tuple[Callable[[np.ndarray, np.ndarray], np.ndarray], ...] = (
    lambda u, v: np.hypot(u, v) - np.float32(0.9),
    lambda u, v: _bar(u, v, 0.8, 0.8),
    _regular(3),
    lambda u, v: np.abs(np.hypot(u, v) - np.float32(0.72)) - np.float32(0.25),
    _star,
    lambda u, v: np.minimum(_bar(u, v), _bar(v, u)),
    _corners((1.0, 0.0), (0.0, 0.55), (-1.0, 0.0), (0.0, -0.55)),
    _regular(6),
    lambda u, v: np.maximum(np.hypot(u, v) - np.float32(0.95), np.float32(0.75) - np.hypot(u - np.float32(0.5), v)),
    _bar,
    _dart,
)
