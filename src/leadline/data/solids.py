"""Solids: clouds of points on the surfaces of ten bodies, with the body, or the part of it that a point lies on, known.

A solid is a list of pieces, each with an area and a name. A point is on a piece with a probability that is its area:

    p  = piece(u, v),   u, v uniform over its area                                               (1)
    x  = size · R_z(θ) (stretch * p) + noise · size · ε + place                                  (2)

    classes   y = the solid               θ uniform: turned about the vertical, and never tipped over
    parts     y_m = the part of point m, by the role that it plays: "side" is upright, "slope" leans

The ten are told apart by how they bend, not by how large they are or where they stand: size and place are drawn for
each cloud. All is a pure function of the seed.

Notation   stretch -> three numbers near 1, drawn for each cloud;  R_z -> a turn about the third axis
Shapes     x (N, points, 4), the last column 1;  y (N,), or (N, points) of parts
"""

from __future__ import annotations

import math
from collections.abc import Callable
from inspect import signature

import numpy as np
import torch

from leadline.data.account import Account
from leadline.data.arguments import checked
from leadline.data.data import Data, Split
from leadline.data.generated import balanced, check_settings
from leadline.data.set_inputs import Sets
from leadline.data.splits import split_indices
from leadline.data.target import Target
from leadline.errors import UserError
from leadline.names import lookup
from leadline.settings import whole

TASKS = ("classes", "parts")
PARTS = ("top", "base", "side", "slope", "dome", "ring")

#: numbers in [0, 1) of each point, two of them -> points (n, 3) on a piece of a surface
Piece = Callable[[np.ndarray, np.ndarray], np.ndarray]


@checked
def solids(
    *,
    num: int = 2000,
    points: int = 1024,
    task: str = "classes",
    noise: float = 0.02,
    seed: int = 0,
    val: float = 0.15,
    test: float = 0.2,
) -> Data:
    """Made-up clouds of points on ten solids, for the solid or for the part that each point lies on.

    Args:
        num: clouds in all, at least 10.
        points: of a cloud, from 1 to 65536.
        task: what is to be predicted: classes (of the cloud) or parts (of each point).
        noise: deviation of each coordinate, in sizes of the solid, from 0 for none.
        seed: of the clouds and of their split.
        val, test: parts of the clouds, each from 0 and together below 1.

    >>> solids(num=40, points=32)
    Data(solids: train 26, val 6, test 8; x (32, 4); y solid: 10 classes)
    >>> solids(num=40, points=32, task="parts").target.classes
    ('top', 'base', 'side', 'slope', 'dome', 'ring')
    """
    options = dict(locals())
    check_settings({"num": num, "noise": noise, "seed": seed})
    whole("points", points, 1, 2**16)
    task = lookup(task, {word: word for word in TASKS}, "task")
    clouds, code, part = generate(**{name: options[name] for name in signature(generate).parameters})
    x = torch.from_numpy(np.concatenate([clouds, np.ones_like(clouds[..., :1])], 2))
    solid = torch.from_numpy(code)
    rows = split_indices(num, val=val, test=test, seed=seed, stratify=solid)
    if task == "classes":
        y, target = solid, Target("classes", "solid", tuple(SOLIDS))
    else:
        y = torch.from_numpy(part)
        target = Target("tokens", "part", PARTS, dim=len(PARTS), scale=(float(points),), overlap=True)
    train, held, tested = (Split(x[own], y[own], rows=own) for own in rows)
    inputs = Sets.fit(train.x, ("x", "y", "z"), coordinates=3)
    recipe = {"source": "solids", "options": options}
    return Data(train, held, tested, target, inputs, "solids", recipe, Account("solids generator", read=num))


def generate(num: int, points: int, noise: float, seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Clouds (num, points, 3), the code of each one's solid, and the code of each point's part, (num, points).

    >>> clouds, solid, part = generate(num=10, points=16, noise=0.0, seed=0)
    >>> clouds.shape, sorted(solid.tolist()) == list(range(10)), part.shape
    ((10, 16, 3), True, (10, 16))
    """
    if num < len(SOLIDS):
        raise UserError("num must give every solid a cloud", got=f"num={num}", do=f"Pass {10 * len(SOLIDS)} or more")
    rng = np.random.default_rng(seed)
    code = balanced(rng, num, len(SOLIDS))
    clouds = np.empty((num, points, 3), dtype=np.float32)
    part = np.empty((num, points), dtype=np.int64)
    for k, which in enumerate(code):
        p, part[k] = _surface(rng, list(SOLIDS.values())[which], points)
        theta, size = rng.uniform(0, 2 * math.pi), rng.uniform(0.5, 2.0)
        turn = np.array([[math.cos(theta), -math.sin(theta), 0], [math.sin(theta), math.cos(theta), 0], [0, 0, 1]])
        own = size * (p * rng.uniform(0.9, 1.1, 3)) @ turn.T  # eq. 2
        clouds[k] = own + noise * size * rng.standard_normal((points, 3)) + rng.uniform(-1, 1, 3)
    return clouds, code.astype(np.int64), part


def _surface(
    rng: np.random.Generator, pieces: tuple[tuple[str, float, Piece], ...], points: int
) -> tuple[np.ndarray, np.ndarray]:
    """Eq. 1: points of a solid, and the code of the part of each."""
    area = np.array([area for _, area, _ in pieces])
    which = rng.choice(len(pieces), points, p=area / area.sum())
    u, v = rng.random((2, points))
    p, part = np.empty((points, 3)), np.empty(points, dtype=np.int64)
    for k, (name, _, piece) in enumerate(pieces):
        own = which == k
        p[own], part[own] = piece(u[own], v[own]), PARTS.index(name)
    return p, part


# ── pieces of surfaces: an area, and points of it out of two uniform numbers ──


def _patch(name: str, corner: np.ndarray, one: np.ndarray, other: np.ndarray) -> tuple[str, float, Piece]:
    """A parallelogram."""
    area = float(np.linalg.norm(np.cross(one, other)))
    return name, area, lambda u, v: corner + u[:, None] * one + v[:, None] * other


def _triangle(name: str, a: np.ndarray, b: np.ndarray, c: np.ndarray) -> tuple[str, float, Piece]:
    area = float(np.linalg.norm(np.cross(b - a, c - a))) / 2

    def piece(u: np.ndarray, v: np.ndarray) -> np.ndarray:
        folded = u + v > 1  # the half of the parallelogram that lies beyond, turned back
        u, v = np.where(folded, 1 - u, u), np.where(folded, 1 - v, v)
        return a + u[:, None] * (b - a) + v[:, None] * (c - a)

    return name, area, piece


def _disc(name: str, radius: float, z: float) -> tuple[str, float, Piece]:
    def piece(u: np.ndarray, v: np.ndarray) -> np.ndarray:
        return _around(radius * np.sqrt(u), v, np.full_like(u, z))

    return name, math.pi * radius**2, piece


def _frustum(name: str, low: float, high: float, z: float, height: float) -> tuple[str, float, Piece]:
    """The mantle of a cylinder, or of a cone where the radii differ."""
    area = math.pi * (low + high) * math.hypot(height, low - high)

    def piece(u: np.ndarray, v: np.ndarray) -> np.ndarray:
        radius = np.sqrt(low**2 + u * (high**2 - low**2)) if low != high else np.full_like(u, low)
        along = (radius - low) / (high - low) if low != high else u
        return _around(radius, v, z + height * along)

    return name, area, piece


def _cap(radius: float, z: float, low: float, high: float) -> tuple[str, float, Piece]:
    """The zone of a sphere about (0, 0, z) with heights from low to high, in radii."""

    def piece(u: np.ndarray, v: np.ndarray) -> np.ndarray:
        h = low + (high - low) * u  # zones of equal height have equal areas
        return _around(radius * np.sqrt(np.clip(1 - h**2, 0, None)), v, z + radius * h)

    return "dome", 2 * math.pi * radius**2 * (high - low), piece


def _stretched(piece: Piece, by: np.ndarray) -> Piece:
    return lambda u, v: piece(u, v) * by


def _tube(radius: float, thickness: float) -> tuple[str, float, Piece]:
    """A torus."""
    turns = np.linspace(0, 2 * math.pi, 513)
    share = (radius * turns + thickness * np.sin(turns)) / (2 * math.pi * radius)  # of the area, up to an angle

    def piece(u: np.ndarray, v: np.ndarray) -> np.ndarray:
        phi = np.interp(u, share, turns)
        return _around(radius + thickness * np.cos(phi), v, thickness * np.sin(phi))

    return "ring", 4 * math.pi**2 * radius * thickness, piece


def _around(radius: np.ndarray, turn: np.ndarray, z: np.ndarray) -> np.ndarray:
    return np.stack([radius * np.cos(2 * math.pi * turn), radius * np.sin(2 * math.pi * turn), z], 1)


def _corners(count: int, radius: float, z: float) -> list[np.ndarray]:
    turns = 2 * math.pi * np.arange(count) / count
    return [np.array([radius * math.cos(t), radius * math.sin(t), z]) for t in turns]


def _upright(count: int, radius: float, height: float) -> tuple[tuple[str, float, Piece], ...]:
    """A prism on a regular polygon."""
    low, high = _corners(count, radius, -height / 2), _corners(count, radius, height / 2)
    up = np.array([0.0, 0.0, height])
    sides = [_patch("side", low[k], low[(k + 1) % count] - low[k], up) for k in range(count)]
    return (*_fan("base", low), *_fan("top", high), *sides)


def _pointed(count: int, radius: float, height: float) -> tuple[tuple[str, float, Piece], ...]:
    """A pyramid on a regular polygon."""
    low, tip = _corners(count, radius, -height / 3), np.array([0.0, 0.0, 2 * height / 3])
    slopes = [_triangle("slope", low[k], low[(k + 1) % count], tip) for k in range(count)]
    return (*_fan("base", low), *slopes)


def _fan(name: str, corners: list[np.ndarray]) -> list[tuple[str, float, Piece]]:
    return [_triangle(name, corners[0], corners[k], corners[k + 1]) for k in range(1, len(corners) - 1)]


SOLIDS: dict[str, tuple[tuple[str, float, Piece], ...]] = {
    "sphere": (_cap(1.0, 0.0, -1.0, 1.0),),
    "cube": _upright(4, 1.0, math.sqrt(2)),
    "cylinder": (_disc("base", 0.75, -0.8), _disc("top", 0.75, 0.8), _frustum("side", 0.75, 0.75, -0.8, 1.6)),
    "cone": (_disc("base", 0.9, -0.5), _frustum("slope", 0.9, 0.0, -0.5, 1.6)),
    "torus": (_tube(0.75, 0.25),),
    "pyramid": _pointed(4, 1.0, 1.6),
    "capsule": (_frustum("side", 0.5, 0.5, -0.6, 1.2), _cap(0.5, 0.6, 0.0, 1.0), _cap(0.5, -0.6, -1.0, 0.0)),
    "ellipsoid": (("dome", 1.0, _stretched(_cap(1.0, 0.0, -1.0, 1.0)[2], np.array([1.0, 0.65, 0.45]))),),
    "prism": _upright(3, 0.9, 1.6),
    "tetrahedron": _pointed(3, 1.0, math.sqrt(2)),
}
