"""Made-up graphs and one that is known: a club that broke in two, communities, families of graphs, small molecules.

**Communities** (a planted partition). Node i has a class c, and reads

    x_i = m_c + ε,   ε standard normal,   any two class means m are 2·signal apart                              (1)

It has `degree` neighbours on average, each of its own class with chance `same`, else of any other. Between two classes,
the best rule that reads x_i alone is right with chance Φ(signal), which no classifier of rows can beat. The mean of a
node and its d neighbours has, along the line between the two means,

    mean      signal · (1 + d (2·same - 1)) / (d + 1)                                                          (2)
    variance  1 / (d + 1)  +  4 · signal² · same (1 - same) · d / (d + 1)²                                      (3)

features averaged, and neighbours of the other class; so one average is right with chance Φ(mean / deviation). For
signal 0.5, d = 10 and same = 0.8 that is 0.69 alone and 0.84 in company: the margin that a graph network must show.
A neighbour's class tells more than its features do, so that the best rule of all is better still.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from leadline.data.account import Account
from leadline.data.arguments import checked
from leadline.data.cells import Text
from leadline.data.data import Data
from leadline.data.graph_source import graph
from leadline.errors import UserError
from leadline.settings import real, whole

# Members of a karate club and who met whom outside of it (W. Zachary, 1977). It broke in two over a quarrel between its
# instructor, number 1, and its officer, number 34. A line holds a member's friends of higher numbers.
_FRIENDS = {
    1: (2, 3, 4, 5, 6, 7, 8, 9, 11, 12, 13, 14, 18, 20, 22, 32),
    2: (3, 4, 8, 14, 18, 20, 22, 31),
    3: (4, 8, 9, 10, 14, 28, 29, 33),
    4: (8, 13, 14),
    5: (7, 11),
    6: (7, 11, 17),
    7: (17,),
    9: (31, 33, 34),
    10: (34,),
    14: (34,),
    15: (33, 34),
    16: (33, 34),
    19: (33, 34),
    20: (34,),
    21: (33, 34),
    23: (33, 34),
    24: (26, 28, 30, 33, 34),
    25: (26, 28, 32),
    26: (32,),
    27: (30, 34),
    28: (34,),
    29: (32, 34),
    30: (33, 34),
    31: (33, 34),
    32: (33, 34),
    33: (34,),
}
_WITH_INSTRUCTOR = (1, 2, 3, 4, 5, 6, 7, 8, 9, 11, 12, 13, 14, 17, 18, 20, 22)
_MEMBERS = 34


@checked
def karate() -> Data:
    """The club of 34 members and 78 friendships that broke in two. Who left with whom is known of the instructor and
    the officer alone; the others are the test. Members are known by their number, one-hot.

    >>> karate()
    Data(karate: train 2, test 32; x (1,); y side: instructor or officer)
    """
    members = np.arange(1, _MEMBERS + 1)
    sides = ["instructor" if m in _WITH_INSTRUCTOR else "officer" for m in members]
    split = ["train" if m in (1, _MEMBERS) else "test" for m in members]
    pairs = [(a, b) for a, friends in _FRIENDS.items() for b in friends]
    nodes = {"id": members, "side": Text(sides), "split": Text(split)}
    edges = {"source": [a for a, _ in pairs], "target": [b for _, b in pairs]}
    return _named(graph(nodes, edges, target="side", split="split"), "karate", {})


@checked
def communities(
    *,
    num: int = 1000,
    num_classes: int = 2,
    degree: float = 10.0,
    same: float = 0.8,
    dim_input: int = 16,
    signal: float = 0.5,
    seed: int = 0,
    val: float = 0.15,
    test: float = 0.2,
) -> Data:
    """Communities of nodes whose features overlap: which one is each node of? Drawn by eq. 1 of this file.

    Args:
        num: nodes in all, at least 10 for each class.
        num_classes: communities, at least 2.
        degree: neighbours of a node on average, above 0.
        same: chance that a neighbour is of the same community, from 0 to 1.
        dim_input: features of a node, at least num_classes.
        signal: half of the distance between the means of two communities, in deviations of the noise, at least 0.
        seed: of the nodes, the edges and their split.
        val: part of the nodes that validates, from 0 to below 1.
        test: part of the nodes that tests, from 0 to below 1; val and test together stay below 1.

    >>> communities(num=100)
    Data(communities: train 65, val 15, test 20; x (1,); y y: 0 or 1)
    """
    whole("num_classes", num_classes, 2, usual=2)
    whole("num", num, 10 * num_classes, usual=1000)
    whole("dim_input", dim_input, num_classes, usual=16)
    real("degree", degree, 0, num / (2 * num_classes), above=True, usual=10.0)
    real("same", same, 0, most=1, usual=0.8)
    real("signal", signal, 0, usual=0.5)
    rng = np.random.default_rng(whole("seed", seed, 0, usual=0))
    y = rng.permutation(np.arange(num) % num_classes)
    means = np.eye(num_classes, dim_input) * signal * math.sqrt(2)
    x = means[y] + rng.standard_normal((num, dim_input))
    pairs = _planted(rng, y, num_classes, degree, same)
    kind = "binary" if num_classes == 2 else "classes"
    made = graph(x.astype(np.float32), pairs, y, kind=kind, val=val, test=test, split_seed=seed)
    options = {"num": num, "num_classes": num_classes, "degree": degree, "same": same, "dim_input": dim_input}
    return _named(made, "communities", {**options, "signal": signal, "seed": seed, "val": val, "test": test})


def chances(signal: float, degree: float, same: float) -> tuple[float, float]:
    """How often two communities can be told apart: by a node's own features, and by their mean over its neighbours and
    itself, eqs. 2 and 3.

    >>> [round(p, 3) for p in chances(0.5, 10, 0.8)]
    [0.691, 0.838]
    """
    normal = lambda z: 0.5 * math.erfc(-z / math.sqrt(2))  # noqa: E731
    mean = signal * (1 + degree * (2 * same - 1)) / (degree + 1)
    variance = 1 / (degree + 1) + 4 * signal**2 * same * (1 - same) * degree / (degree + 1) ** 2
    return normal(signal), normal(mean / math.sqrt(variance))


def _planted(rng: np.random.Generator, y: np.ndarray, classes: int, degree: float, same: float) -> np.ndarray:
    """Different pairs of different nodes, (2, E): about degree / 2 a node, the part `same` of them within a class."""
    num, wanted = len(y), round(len(y) * degree / 2)
    order = np.argsort(y, kind="stable")
    first = np.searchsorted(y[order], np.arange(classes + 1))
    found = np.zeros(0, dtype=np.int64)
    while len(found) < wanted:
        count = wanted - len(found)
        a = rng.integers(0, num, count + count // 8 + 8)
        other = (y[a] + rng.integers(1, classes, len(a))) % classes if classes > 1 else y[a]
        of = np.where(rng.random(len(a)) < same, y[a], other)
        b = order[first[of] + (rng.random(len(a)) * (first[of + 1] - first[of])).astype(np.int64)]
        new = (np.minimum(a, b) * num + np.maximum(a, b))[a != b]
        joined = np.concatenate([found, new])
        _, once = np.unique(joined, return_index=True)
        found = joined[np.sort(once)][:wanted]
    return np.stack(np.divmod(found, num))


@checked
def random_graphs(*, num: int = 300, size: int = 24, seed: int = 0, val: float = 0.15, test: float = 0.2) -> Data:
    """Three families of graphs of about 2·size edges: lattices, where all have four neighbours, evenly random ones, and
    ones in which the rich get richer. Which family is each of?

    Args:
        num: graphs in all, at least 9.
        size: nodes of a graph on average, at least 12; they have from two thirds to four thirds of it.
        seed: of the graphs and of their split.
        val: part of the graphs that validates, from 0 to below 1.
        test: part of the graphs that tests, from 0 to below 1; val and test together stay below 1.

    >>> random_graphs(num=60)
    Data(random_graphs: train 39, val 9, test 12; x (1,); y family: 3 classes)
    """
    whole("num", num, 9, usual=300)
    whole("size", size, 12, usual=24)
    rng = np.random.default_rng(whole("seed", seed, 0, usual=0))
    families = ("lattice", "random", "rich")
    drawn: dict[str, Callable[[int], np.ndarray]] = {
        "lattice": _lattice,
        "random": lambda n: _distinct(rng, n, 2 * n),
        "rich": lambda n: _rich(rng, n),
    }
    kinds = [families[k] for k in rng.permutation(np.arange(num) % 3)]
    sizes = rng.integers(2 * size // 3, 4 * size // 3 + 1, num)
    edges = [drawn[kind](int(n)) for kind, n in zip(kinds, sizes)]
    made = _many(sizes, edges, {}, kinds, "family", val, test, seed, features=("degree", "constant"))
    return _named(made, "random_graphs", {"num": num, "size": size, "seed": seed, "val": val, "test": test})


@checked
def molecules(*, num: int = 400, size: int = 9, seed: int = 0, val: float = 0.15, test: float = 0.2) -> Data:
    """Small made-up molecules: a tree of carbon, nitrogen and oxygen, a ring in some, and hydrogen wherever a bond is
    free. Those in which a nitrogen holds an oxygen are toxic.

    Args:
        num: molecules in all, at least 20.
        size: heavy atoms on average, at least 4; they have from half to one and a half of it.
        seed: of the molecules and of their split.
        val: part of the molecules that validates, from 0 to below 1.
        test: part of the molecules that tests, from 0 to below 1; val and test together stay below 1.

    >>> molecules(num=40)
    Data(molecules: train 26, val 6, test 8; x (1,); y toxic: no or yes)
    """
    whole("num", num, 20, usual=400)
    whole("size", size, 4, usual=9)
    rng = np.random.default_rng(whole("seed", seed, 0, usual=0))
    made: list[tuple[list[str], list[tuple[int, int]], str]] = []
    while len(made) < num:  # as many toxic ones as others
        atoms, bonds = _molecule(rng, int(rng.integers(size // 2, size + size // 2 + 1)))
        toxic = any({atoms[a], atoms[b]} == {"N", "O"} for a, b in bonds)
        if toxic == (len(made) % 2 == 0):
            made.append((atoms, bonds, "yes" if toxic else "no"))
    made = [made[k] for k in rng.permutation(num)]
    sizes = np.array([len(atoms) for atoms, _, _ in made])
    elements = {"element": Text([atom for atoms, _, _ in made for atom in atoms])}
    edges = [np.array(bonds, dtype=np.int64).T for _, bonds, _ in made]
    found = _many(sizes, edges, elements, [label for *_, label in made], "toxic", val, test, seed)
    return _named(found, "molecules", {"num": num, "size": size, "seed": seed, "val": val, "test": test})


def _molecule(rng: np.random.Generator, heavy: int) -> tuple[list[str], list[tuple[int, int]]]:
    bonds_of = {"C": 4, "N": 3, "O": 2}
    atoms, bonds, free = ["C"], [], [4]
    for k in range(1, max(2, heavy)):
        atom = "CNO"[int(rng.choice(3, p=(0.6, 0.2, 0.2)))]
        open_to = [j for j in range(k) if free[j] > 1] or [j for j in range(k) if free[j] > 0]
        if not open_to:
            break
        at = int(rng.choice(open_to))
        atoms.append(atom)
        bonds.append((at, k))
        free[at] -= 1
        free.append(bonds_of[atom] - 1)
    ends = [j for j in range(len(atoms)) if free[j] > 0 and atoms[j] == "C"]
    if len(ends) > 3 and rng.random() < 0.5 and (ends[0], ends[-1]) not in bonds:
        bonds.append((ends[0], ends[-1]))
        free[ends[0]] -= 1
        free[ends[-1]] -= 1
    for j, left in enumerate(list(free)):
        for _ in range(left):
            bonds.append((j, len(atoms)))
            atoms.append("H")
    return atoms, bonds


def _lattice(n: int) -> np.ndarray:
    """A ring in which everyone knows the next two."""
    nodes = np.arange(n)
    return np.concatenate([np.stack([nodes, (nodes + step) % n]) for step in (1, 2)], 1)


def _distinct(rng: np.random.Generator, n: int, count: int) -> np.ndarray:
    low, high = np.triu_indices(n, 1)
    chosen = rng.permutation(len(low))[:count]
    return np.stack([low[chosen], high[chosen]])


def _rich(rng: np.random.Generator, n: int) -> np.ndarray:
    """Every new node joins two others, the likelier the more they have."""
    pairs, ends = [(0, 1), (1, 2), (0, 2)], [0, 1, 1, 2, 0, 2]
    for k in range(3, n):
        friends: set[int] = set()
        while len(friends) < 2:
            friends.add(int(ends[int(rng.integers(len(ends)))]))
        pairs += [(j, k) for j in sorted(friends)]
        ends += [node for j in sorted(friends) for node in (j, k)]
    return np.array(pairs, dtype=np.int64).T


def _many(
    sizes: np.ndarray,
    edges: list[np.ndarray],
    columns: dict[str, Any],
    labels: list[str],
    target: str,
    val: float,
    test: float,
    seed: int,
    features: tuple[str, ...] = (),
) -> Data:
    """Many graphs with a label each."""
    first = np.concatenate([[0], np.cumsum(sizes)])
    which = np.repeat(np.arange(len(sizes)), sizes)
    moved = np.concatenate([pairs + at for pairs, at in zip(edges, first)], 1)
    nodes = {"id": np.arange(len(which)), "graph": which, **columns}
    ends = {"source": moved[0], "target": moved[1]}
    graphs = {"graph": np.arange(len(sizes)), target: Text(labels)}
    options: dict[str, Any] = {"val": val, "test": test, "split_seed": seed, "features": features}
    return graph(nodes, ends, target, graph="graph", graphs=graphs, **options)


def _named(data: Data, name: str, options: dict[str, Any]) -> Data:
    held = data.account
    told = Account(f"{name} generator", held.read, columns=held.columns, notes=held.notes[:1], one=held.one)
    return replace(data, name=name, recipe={"source": name, "options": options}, account=told)


def nodes_alone(data: Data) -> Data:
    """The same rows and splits without the edges: of each node, what a network reads of it. For models of rows, with
    which a graph network is to be compared.

    >>> nodes_alone(communities(num=100))
    Data(communities, nodes alone: train 65, val 15, test 20; x (16,); y y: 0 or 1)
    """
    from leadline.data.graph_inputs import GraphInputs
    from leadline.data.inputs import Identity

    inputs = data.inputs
    if not isinstance(inputs, GraphInputs) or inputs.graph is None or inputs.level != "node":
        raise UserError(
            "nodes_alone must be given a graph whose nodes are asked", got=f"{data}", do="Pass ll.data.graph(…)"
        )
    x = inputs.graph.x
    parts: dict[str, Any] = {name: replace(data[name], x=x[data[name].x[:, 0]]) for name in ("train", "val", "test")}
    names = inputs.input_names
    return replace(
        data, **parts, inputs=Identity(names if len(names) == x.shape[1] else ()), recipe=None,
        name=f"{data.name}, nodes alone",
    )  # fmt: skip
