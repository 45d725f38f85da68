"""Where to draw nodes: waves of the graph first, then forces, then pieces beside each other.

    start    the eigenvectors of D^{-1/2} A D^{-1/2} with the second and third largest eigenvalue             (1)
    pulls    along an edge: d √d towards each other                                                           (2)
    pushes   between any two nodes: √((1 + deg_i) (1 + deg_j)) / d away from each other                       (3)

Degrees in (3) leave space around hubs (Jacomy et al., 2014). Each piece of the graph that hangs
together is laid out alone, and pieces are set in rows, the largest first. Pushes are computed for all pairs at once: a
thousand nodes take about a second. The same graph and seed give the same places.

Shapes     pairs (E, 2) -> places (N, 2), in a square from 0 to 1
"""

from __future__ import annotations

import numpy as np

_EXACT = 1200  # nodes up to which eigenvectors are computed, and not iterated to


def layout(num_nodes: int, pairs: np.ndarray, seed: int = 0, steps: int = 200) -> np.ndarray:
    """Places of the nodes, (N, 2).

    Args:
        pairs: (E, 2), ends of edges; directions and parallel edges do not matter.
        steps: of the forces, at least 0.

    >>> places = layout(3, np.array([[0, 1], [1, 2]]))
    >>> places.shape, bool((places >= 0).all() and (places <= 1).all())
    ((3, 2), True)
    """
    if not num_nodes:
        return np.zeros((0, 2))
    rng = np.random.default_rng(seed)
    of = pieces(num_nodes, pairs)
    order = np.argsort(of, kind="stable")
    groups = np.split(order, np.cumsum(np.bincount(of))[:-1])
    groups.sort(key=lambda nodes: -len(nodes))
    number = np.empty(num_nodes, dtype=int)
    shapes = []
    for nodes in groups:
        number[nodes] = np.arange(len(nodes))
        inside = pairs[of[pairs[:, 0]] == of[nodes[0]]] if len(pairs) else pairs.reshape(0, 2)
        shapes.append(_piece(len(nodes), number[inside], rng, steps))
    places = np.zeros((num_nodes, 2))
    for nodes, shape in zip(groups, _shelves(shapes)):
        places[nodes] = shape
    low, high = places.min(0), places.max(0)
    wide, tall = high - low
    if len(groups) == 1 and 0 < tall < wide:  # what is flat is drawn a little higher: distances mean little
        places[:, 1] *= min(wide / tall, 1.6)
        low, high = places.min(0), places.max(0)
    return 0.5 + (places - (low + high) / 2) / (float((high - low).max()) or 1.0)


def pieces(num_nodes: int, pairs: np.ndarray) -> np.ndarray:
    """Which connected piece each node belongs to, (N,), numbered by their first nodes.

    >>> pieces(4, np.array([[3, 1]])).tolist()
    [0, 1, 2, 1]
    """
    label = np.arange(num_nodes)
    while len(pairs):
        a, b = label[pairs[:, 0]], label[pairs[:, 1]]
        new = label.copy()
        np.minimum.at(new, a, b)
        np.minimum.at(new, b, a)
        new = new[new]
        if np.array_equal(new, label):
            break
        label = new
    return np.unique(label, return_inverse=True)[1].reshape(-1)


def _piece(num: int, pairs: np.ndarray, rng: np.random.Generator, steps: int) -> np.ndarray:
    """Places of one connected piece, about as large as the root of its nodes."""
    if num <= 2:
        return np.array([[0.0, 0.0], [0.75, 0.0]])[:num]
    joined = np.zeros((num, num), dtype=np.float32)
    joined[pairs[:, 0], pairs[:, 1]] = joined[pairs[:, 1], pairs[:, 0]] = 1
    np.fill_diagonal(joined, 0)
    x = _forced(_waves(joined, rng), joined, rng, steps)
    x -= x.mean(0)
    _, _, axes = np.linalg.svd(x, full_matrices=False)
    x = x @ axes.T  # the longest way lies across
    reach = np.quantile(np.linalg.norm(x, axis=1), 0.9) or 1.0
    return x * (0.62 * num**0.5 / reach)


def _waves(joined: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Eq. 1."""
    d = joined.sum(1)
    mixed = joined / np.sqrt(d[:, None] * d)
    if len(d) <= _EXACT:
        v = np.linalg.eigh(mixed)[1][:, ::-1][:, :3]
    else:
        v = rng.standard_normal((len(d), 3)).astype(np.float32)
        v[:, 0] = np.sqrt(d)
        for _ in range(150):
            v = np.linalg.qr(v + mixed @ v)[0].astype(np.float32)
    x = v[:, 1:] / np.sqrt(d)[:, None]
    spread = x.std(0)
    return x / np.where(spread > 1e-6, spread, 1) + 0.02 * rng.standard_normal(x.shape)


def _forced(x: np.ndarray, joined: np.ndarray, rng: np.random.Generator, steps: int) -> np.ndarray:
    """Eqs. 2 and 3, with steps that become shorter."""
    num = len(x)
    mass = 1 + joined.sum(1)
    push = np.sqrt(mass[:, None] * mass)
    x = (x * 0.6 * num**0.5).astype(np.float32)
    heat = 0.06 * num**0.5 + 0.2
    for step in range(steps):
        square = (x * x).sum(1)
        d2 = np.maximum(square[:, None] + square - 2 * x @ x.T, 1e-2)
        weight = push / d2 - joined * d2**0.25
        np.fill_diagonal(weight, 0)
        move = x * weight.sum(1, keepdims=True) - weight @ x
        move -= 0.01 * mass[:, None] * x
        size = np.linalg.norm(move, axis=1, keepdims=True)
        x = x + move / np.maximum(size, 1e-9) * np.minimum(size / mass[:, None], heat * (1 - step / steps) ** 1.2)
    return x.astype(np.float64)


def _shelves(shapes: list[np.ndarray]) -> list[np.ndarray]:
    """Pieces in rows from the top, the largest first, a little apart."""
    if len(shapes) == 1:
        return shapes
    boxes = [shape.max(0) - shape.min(0) + 1.3 for shape in shapes]
    width = max(float(boxes[0][0]), 1.15 * sum(float(box[0] * box[1]) for box in boxes) ** 0.5)
    x = y = tall = 0.0
    out = []
    for shape, (wide, high) in zip(shapes, boxes):
        if x and x + wide > width * 1.001:
            x, y, tall = 0.0, y - tall, 0.0
        out.append(shape - [shape[:, 0].min(), shape[:, 1].max()] + [x + 0.65, y - 0.65])
        x, tall = x + wide, max(tall, high)
    return out
