"""Directions in the space of a network's weights, each a flat vector in the order of the parameters.

    filter   u_r = n_r · |φ_r| / |n_r|,  n ~ N(0, I)      r a filter: one row of a weight; biases and norms 0    (1)
    none     u   = n / |n|                                over all parameters                                    (2)

With (1) a plane does not see how a network is written: ReLU layers that are scaled by c and 1/c give the same picture
(Li et al., 2018), where with (2) large weights make a surface look flat.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn

from leadline.errors import ShapeError, UserError
from leadline.lens.path import Path
from leadline.lens.style import percent
from leadline.lens.weights import weight_at
from leadline.names import suggest
from leadline.settings import given, whole

#: what one unit on an axis is, by kind of normalisation
UNITS = {"filter": "(lengths of the network's own filters)", "none": "(of length 1)"}


def trail_of(path: Path | Tensor | None, centre: Tensor) -> Tensor:
    if path is None:
        return centre.new_zeros(0, len(centre))
    weights = path.weights if isinstance(path, Path) else torch.as_tensor(path)
    if weights.ndim != 2 or weights.shape[1] != len(centre):
        raise ShapeError(
            f"a path must hold {len(centre):,} weights a step, as the model has",
            got=f"shape {tuple(weights.shape)}",
            do="Keep it with path = ll.lens.Path(model) and ll.fit(model, data, listeners=[path])",
        )
    return weights.to(centre)


def plane_directions(
    model: nn.Module, directions: Any, trail: Tensor, centre: Tensor, seed: int, normalise: str
) -> tuple[Tensor, Tensor, tuple[str, str]]:
    if isinstance(directions, str) and directions == "random":
        u, v = (random_direction(model, seed + k, normalise) for k in (0, 1))
        return u, v, (f"random direction 1 {UNITS[normalise]}", f"random direction 2 {UNITS[normalise]}")
    if isinstance(directions, str) and directions == "pca":
        if len(trail) < 3:
            raise UserError(
                "pca needs a path of at least 3 steps", got=f"{len(trail)}", do="Pass path=, kept by ll.lens.Path"
            )
        _, size, rows = torch.linalg.svd((trail - centre).double(), full_matrices=False)
        share = (size.square() / size.square().sum()).tolist()
        names = [f"main direction {k + 1} of the path, {percent(share[k])} of it" for k in (0, 1)]
        return rows[0].to(centre), rows[1].to(centre), (names[0], names[1])
    if isinstance(directions, str) or not isinstance(directions, Sequence) or len(directions) != 2:
        words = suggest(directions, ["random", "pca"]) if isinstance(directions, str) else "Write directions='random'"
        raise UserError(
            "directions must be random, pca or two flat vectors", got=given("directions", directions), do=words
        )
    u, v = (vector(direction, centre) for direction in directions)
    return u, v, ("first direction (its own lengths)", "second direction (its own lengths)")


def vector(direction: Any, centre: Tensor) -> Tensor:
    vector = torch.as_tensor(direction).to(centre).flatten()
    if vector.shape != centre.shape or not bool(vector.abs().sum() > 0):
        raise ShapeError(
            f"a direction must have one number for each of the {len(centre):,} parameters, not all 0",
            got=f"{vector.numel():,} of them",
            do="Take differences of ll.lens.flat(model)",
        )
    return vector


def random_direction(model: nn.Module, seed: int, normalise: str = "filter") -> Tensor:
    """A normal draw, as long as the model's own filters are (1), or of length 1 in all (2).

    >>> net = nn.Linear(3, 2)
    >>> bool(torch.allclose(random_direction(net, 0)[:3].norm(), net.weight[0].norm()))
    True
    """
    if normalise not in UNITS:
        raise UserError(
            "normalise must be filter or none",
            got=given("normalise", normalise),
            do=suggest(normalise, UNITS) if isinstance(normalise, str) else "Write normalise='filter'",
        )
    generator = torch.Generator().manual_seed(whole("seed", seed, 0, 2**63 - 1, usual=0))
    parts = []
    for p in model.parameters():
        draw = torch.randn(p.shape, generator=generator).to(p)
        if normalise == "filter" and p.ndim < 2:
            draw.zero_()  # biases, and gains of norms
        elif normalise == "filter":
            rows, own = draw.flatten(1), p.detach().flatten(1)
            draw = (rows * (own.norm(dim=1) / rows.norm(dim=1).clamp(min=1e-12))[:, None]).view_as(p)
        parts.append(draw.flatten())
    found = torch.cat(parts)
    if not bool(found.abs().sum() > 0):
        raise UserError(
            "a model must have weights that are not 0 to have directions of their lengths",
            got=f"none in {type(model).__name__}",
            do="Pass parameters=, directions= of your own, or normalise='none'",
        )
    return found if normalise == "filter" else found / found.norm()


def axes(model: nn.Module, names: Any) -> tuple[Tensor, Tensor]:
    if isinstance(names, str) or len(names) != 2 or names[0] == names[1]:
        raise UserError("parameters must be two different ones", got=given("parameters", names), do="Name two")
    return axis(model, names[0]), axis(model, names[1])


def axis(model: nn.Module, written: str) -> Tensor:
    """The unit vector of one weight, written like "map.weight[0, 1]"."""
    wanted, index = weight_at(model, written)
    parts = []
    for name, p in model.named_parameters():
        part = torch.zeros_like(p)
        if name == wanted:
            part[index] = 1
        parts.append(part.flatten())
    return torch.cat(parts)
