"""Two tables, of nodes and of edges, to numbered nodes and pairs of numbers: every edge finds its ends, or is told.

    key        the column of nodes that names each; the ends of edges are such names
    ends       the two columns of edges where each begins and ends
    repeats    rows that say the same of the same ends are one edge; those that differ are parallel edges, and stay

Names are words: 7 in one file is "7" in another. Where they still do not meet and all of them are numbers, "7.0" and
"007" are 7 too.

Shapes     pairs (2, E);  first (G + 1,), where the nodes of each graph begin
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from leadline.data.account import counted
from leadline.data.cells import Cells, Table, Text
from leadline.data.columns import named
from leadline.data.raw import words_of
from leadline.data.words import number, plain_text
from leadline.errors import DataError, UserError

KEYS = ("id", "node", "node_id", "nodeid", "name", "key", "label_id", "paper_id", "index")
ENDS = (
    *(("source", "target"), ("from", "to"), ("src", "dst"), ("source_id", "target_id"), ("src_id", "dst_id")),
    *(("node1", "node2"), ("node_1", "node_2"), ("head", "tail"), ("start", "end"), ("citing", "cited")),
    *(("u", "v"), ("i", "j"), ("a", "b")),
)
_SHOWN = 5


@dataclass(frozen=True)
class Roles:
    """What columns of two tables are for.

    Args:
        key: of nodes, names each; None is found out, and empty where a node's name is its place.
        ends: of edges, where each begins and ends; empty is found out.
        directed: whether an edge is one way alone.
        weight: of edges, a number that messages are multiplied by.
        relation: of edges, which kind each is.
        node_kind: of nodes, which kind each is.
        graph: of nodes, which graph each is in; where edges have the column too, names are those of one graph.
        features: what a network reads of a node, of `FEATURES`; empty is found out.
    """

    key: str | None = None
    ends: tuple[str, ...] = ()
    directed: bool = False
    weight: str | None = None
    relation: str | None = None
    node_kind: str | None = None
    graph: str | None = None
    features: tuple[str, ...] = ()

    @classmethod
    def of(cls, fields: Roles | Mapping[str, Any]) -> Roles:
        """Out of plain JSON."""
        if isinstance(fields, Roles):
            return fields
        own: dict[str, Any] = {k: tuple(v) if isinstance(v, list) else v for k, v in fields.items()}
        return cls(**own)


@dataclass(frozen=True, eq=False)
class Found:
    """Numbered nodes, and the edges between them.

    Args:
        nodes: a row each, in the order of their numbers.
        edges: a row each, of those that stay.
        pairs: (2, E), numbers of the nodes where each begins and ends.
        names: of the nodes; None where a name is its number.
        roles: with what was found out filled in.
        graphs: names of the graphs, in the order of their nodes.
        first: where the nodes of each graph begin, and one more.
        notes: what a reader should know of it.
        dropped: edges left out because an end is no node.
    """

    nodes: Table
    edges: Table
    pairs: np.ndarray
    names: tuple[str, ...] | None
    roles: Roles
    graphs: tuple[str, ...] = ()
    first: np.ndarray | None = None
    notes: tuple[str, ...] = ()
    dropped: int = 0

    @cached_property
    def degree(self) -> np.ndarray:
        """Edges at each node, either way; a loop counts once."""
        loops = self.pairs[0] == self.pairs[1]
        return np.bincount(self.pairs[1], minlength=len(self.nodes)) + np.bincount(
            self.pairs[0][~loops], minlength=len(self.nodes)
        )


def find(nodes: Table | None, edges: Table, roles: Roles, bad_edges: str = "error") -> Found:
    """The nodes and edges of two tables; without nodes, the ends of edges are the nodes.

    Args:
        bad_edges: "error", or "drop" to leave out edges to nodes that are not there.

    >>> from leadline.data.cells import table_of
    >>> edges = table_of({"from": ["b", "c", "b"], "to": ["a", "b", "a"]})
    >>> found = find(table_of({"id": ["a", "b", "c"]}), edges, Roles())
    >>> found.pairs.tolist(), found.notes[-1]
    ([[1, 2], [0, 1]], '1 edge that repeats another is left out')
    """
    if bad_edges not in ("error", "drop"):
        raise UserError("bad_edges must be error or drop", got=f"bad_edges={bad_edges!r}", do="Leave it out for error")
    roles, notes = _settled(nodes, edges, roles)
    if nodes is None:
        nodes, roles = _from_ends(edges, roles), replace(roles, key="id")
    if not len(nodes):
        raise DataError(f"{nodes.source} must have nodes", got="none", do="Check that it was written whole")
    nodes, graphs, first = _by_graph(nodes, roles)
    names, pairs, told = _paired(nodes, edges, roles, graphs, first)
    notes += told
    bad: np.ndarray = np.asarray((pairs < 0).any(0))
    if bad.any():
        _check_ends(nodes, edges, roles, bad, pairs, bad_edges)
        notes.append(f"{counted(int(bad.sum()), 'edge')} to nodes that are not there left out, as asked")
        edges, pairs = edges.keep(~bad), pairs[:, ~bad]
    if first is not None:
        _check_inside(edges, pairs, first)
    edges, pairs, told = _without_repeats(edges, pairs, roles, len(nodes))
    found = Found(nodes, edges, pairs, names, roles, graphs, first, dropped=int(bad.sum()))
    return replace(found, notes=(*notes, *told, *_odd(found)))


def _settled(nodes: Table | None, edges: Table, roles: Roles) -> tuple[Roles, list[str]]:
    """Roles with key and ends found out, and what was found."""
    notes = []
    for table, asked in ((edges, (*roles.ends, roles.weight, roles.relation)), (nodes, (roles.node_kind, roles.graph))):
        for name in filter(None, asked):
            if table is None or name not in table.columns:
                raise DataError(
                    f"{name} must be a column of {'the nodes' if table is None else table.source}",
                    got="no table of nodes" if table is None else f"the columns {_some(table.columns)}",
                    do=named(name, list(table.columns)).rstrip(".") if table is not None else "Pass a table of nodes",
                )
    if len(roles.ends) not in (0, 2):
        got = f"{len(roles.ends)}: {', '.join(roles.ends)}"
        raise UserError("ends must name two columns, where edges begin and end", got=got, do="Pass ends=['from', 'to']")
    if not roles.ends:
        ends = _guess_ends(edges, [n for n in (roles.weight, roles.relation, roles.graph) if n])
        roles = replace(roles, ends=ends)
        notes.append(f"edges run from {ends[0]} to {ends[1]}")
    if nodes is not None and roles.key and roles.key not in nodes.columns:
        raise DataError(
            f"key must name a column of {nodes.source}",
            got=f"key {roles.key!r}",
            do=named(roles.key, list(nodes.columns)).rstrip("."),
        )
    if nodes is not None and roles.key is None:
        roles = replace(roles, key=_guess_key(nodes, edges, roles))
        notes.append(f"{roles.key} names the nodes")
    return roles, notes


def _guess_ends(edges: Table, others: Sequence[str]) -> tuple[str, str]:
    lower = {name.lower().strip(): name for name in edges.columns}
    for one, other in ENDS:
        if one in lower and other in lower:
            return lower[one], lower[other]
    free = [name for name in edges.columns if name not in others]
    if len(free) == 2 or (edges.nameless and len(free) >= 2):
        return free[0], free[1]
    raise DataError(
        f"{edges.source} must have two columns where edges begin and end",
        got=f"the columns {_some(edges.columns)}",
        do="Name them source and target, or pass ends=['…', '…']",
    )


def _guess_key(nodes: Table, edges: Table, roles: Roles) -> str:
    lower = {name.lower().strip(): name for name in nodes.columns}
    for name in KEYS:
        if name in lower:
            return lower[name]
    wanted = {word for end in roles.ends for word in words_of(edges.columns[end])[0]}
    inside = roles.graph is not None and roles.graph in edges.columns
    graphs = words_of(nodes.columns[roles.graph])[1] if inside else None  # type: ignore[index]
    others: list[str] = []  # that hold every end, and one of them twice
    for name, cells in nodes.columns.items():
        words, codes = words_of(cells)
        if name == roles.graph or None in words or not wanted & set(words):
            continue
        if len(words) == len(codes) or (graphs is not None and len(set(zip(graphs, codes))) == len(codes)):
            return name
        others += [name] if wanted <= set(words) else []
    if others:  # it is said which names come twice
        return others[0]
    raise DataError(
        f"{nodes.source} must have a column that names each node",
        got=f"the columns {_some(nodes.columns)}",
        do="Name it id, or say which it is with key='…'",
    )


def _from_ends(edges: Table, roles: Roles) -> Table:
    """A table of the nodes that edges name, in the order in which they come."""
    cells = [edges.columns[end] for end in roles.ends]
    words: dict[str, None] = {}
    for column in cells:
        known, codes = words_of(column)
        order = np.unique(codes, return_index=True)[1] if len(codes) else np.zeros(0, dtype=int)
        words.update(dict.fromkeys(w for k in np.sort(order) if (w := known[codes[k]]) is not None))
    names = list(words)
    if not names:
        raise DataError(f"{edges.source} must have edges", got="none", do="Check that it was written whole")
    return Table({"id": Text(names)}, np.arange(len(names)), source=f"ends in {edges.source}")


def _by_graph(nodes: Table, roles: Roles) -> tuple[Table, tuple[str, ...], np.ndarray | None]:
    """The nodes of each graph together, the graphs in the order in which they come."""
    if roles.graph is None:
        return nodes, (), None
    words, codes = words_of(nodes.columns[roles.graph])
    if None in words:
        lost = int(np.flatnonzero(codes == words.index(None))[0])
        raise DataError(
            f"{roles.graph} must name the graph of every node", got=f"nothing in {nodes.at(lost)}", do="Correct the row"
        )
    came = np.unique(codes, return_index=True)[1]
    rank = np.empty(len(words), dtype=np.int64)
    rank[np.argsort(came)] = np.arange(len(words))
    order = np.argsort(rank[codes], kind="stable")
    sizes = np.bincount(rank[codes], minlength=len(words))
    graphs = tuple(str(words[k]) for k in np.argsort(rank))
    columns = {n: c.take(order) if isinstance(c, Text) else c[order] for n, c in nodes.columns.items()}
    return replace(nodes, columns=columns, numbers=nodes.numbers[order]), graphs, np.r_[0, sizes.cumsum()]


def _paired(
    nodes: Table, edges: Table, roles: Roles, graphs: tuple[str, ...], first: np.ndarray | None
) -> tuple[tuple[str, ...] | None, np.ndarray, list[str]]:
    """Names of the nodes, the numbers of the ends, -1 where there is no such node, and notes."""
    ends = [edges.columns[end] for end in roles.ends]
    for end, cells in zip(roles.ends, ends):
        lost = _empty(cells)
        if len(lost):
            raise DataError(
                f"{end} must name a node in every row of {edges.source}",
                got=f"nothing in {edges.at(int(lost[0]))}",
                do="Correct or take out the row",
            )
    inside = first is not None and roles.graph in edges.columns
    if not roles.key and not inside:  # a node's name is its place
        pairs = np.stack([_places(cells, len(nodes)) for cells in ends])
        return None, pairs, []
    if not roles.key:
        sizes = np.diff(np.zeros(1) if first is None else first)
        own: Cells = np.concatenate([np.arange(n, dtype=float) for n in sizes])
    else:
        own = nodes.columns[roles.key]
    prefix: np.ndarray | None = None
    if inside:
        place = {name: k for k, name in enumerate(graphs)}
        words, codes = words_of(edges.columns[roles.graph])  # type: ignore[index]
        prefix = np.array([place.get(str(word), -1) for word in words])[codes]
    names = _names(nodes, own, roles, first if inside else None)
    numbers: dict[Any, int] = {name: k for k, name in enumerate(names)}
    pairs = np.stack([_looked_up(cells, numbers, prefix) for cells in ends])
    if (pairs < 0).any() and not inside:
        as_numbers = {_plain(name): k for name, k in numbers.items()}
        if None not in as_numbers and len(as_numbers) == len(numbers):
            again = np.stack([_looked_up(cells, as_numbers, None, _plain) for cells in ends])
            if (again < 0).sum() < (pairs < 0).sum():
                told = f"{roles.key} and the ends of edges are written differently, and taken as numbers"
                return tuple(names), again, [told]
    shown = tuple(name if isinstance(name, str) else name[1] for name in names)
    return shown, pairs, []


def _empty(cells: Cells) -> np.ndarray:
    """Rows without a value."""
    if isinstance(cells, np.ndarray) and cells.dtype.kind == "f":
        return np.flatnonzero(np.isnan(cells))
    words, codes = words_of(cells)
    return np.flatnonzero(codes == words.index(None)) if None in words else np.zeros(0, dtype=np.int64)


def _names(nodes: Table, own: Cells, roles: Roles, first: np.ndarray | None) -> list[Any]:
    """A name for each node, with the number of its graph where names are those of one graph."""
    words, codes = words_of(own)
    if None in words and len(lost := np.flatnonzero(codes == words.index(None))):
        got = f"nothing in {nodes.at(int(lost[0]))}"
        raise DataError(f"{roles.key} must name every node of {nodes.source}", got=got, do="Fill it in")
    codes_of = codes
    if first is not None:
        codes_of = np.repeat(np.arange(len(first) - 1), np.diff(first)) * len(words) + codes
    seen, count = np.unique(codes_of, return_counts=True)
    if len(seen) < len(codes):
        twice = [str(words[code % len(words)]) for code in seen[count > 1]]
        rows = np.flatnonzero(codes_of == seen[count > 1][0])
        raise DataError(
            f"{roles.key} must name each node of {nodes.source} once",
            got=f"{_some(twice)} more than once, first in {nodes.at(int(rows[0]))} and {nodes.at(int(rows[1]))}",
            do="Keep one row for each node",
        )
    plain = np.array(words, dtype=object)[codes].tolist()
    if first is None:
        return plain
    return list(zip(np.repeat(np.arange(len(first) - 1), np.diff(first)).tolist(), plain))


def _looked_up(cells: Cells, numbers: Mapping[Any, int], prefix: np.ndarray | None, change: Any = None) -> np.ndarray:
    words, codes = words_of(cells)
    if prefix is None:
        known = [numbers.get(word if change is None else change(word), -1) for word in words]
        return np.array(known, dtype=np.int64)[codes] if len(codes) else np.zeros(0, dtype=np.int64)
    pairs = zip(prefix.tolist(), codes.tolist())
    return np.fromiter((numbers.get((g, words[c]), -1) for g, c in pairs), np.int64, len(codes))


def _plain(word: str | None) -> str | None:
    value = None if word is None else number(word)
    return None if value is None else plain_text(value)


def _places(cells: Cells, count: int) -> np.ndarray:
    """Whole numbers below `count` as they are, -1 for all else."""
    values = cells if isinstance(cells, np.ndarray) else cells.floats()
    if values is None:
        words, codes = words_of(cells)
        values = np.array([n if (n := number(word or "")) is not None else -1.0 for word in words])[codes]
    values = values.astype(np.float64)
    fits = (values >= 0) & (values < count) & (values == np.round(values))
    return np.where(fits, values, -1).astype(np.int64)


def _check_ends(nodes: Table, edges: Table, roles: Roles, bad: np.ndarray, pairs: np.ndarray, policy: str) -> None:
    if policy == "drop" and not bad.all():
        return
    lost: dict[str, None] = {}
    for end, row in zip(roles.ends, pairs < 0):
        words, codes = words_of(edges.columns[end])
        lost.update(dict.fromkeys(str(words[code]) for code in codes[np.flatnonzero(row)[:1000]]))
    where = edges.at(int(np.flatnonzero(bad)[0]))
    some = ", ".join([*lost][:3])
    who = nodes.source if not roles.key else f"{roles.key} of {nodes.source}"
    have = _some(words_of(nodes.columns[roles.key])[0]) if roles.key else f"0 … {len(nodes) - 1}"
    raise DataError(
        f"both ends of every edge must be nodes: {who} has {have}",
        got=f"{int(bad.sum())} of {counted(len(bad), 'edge')} to unknown nodes such as {some}, first in {where}",
        do='Name the columns of their names: key="…" of nodes and ends=["…", "…"] of edges'
        if bad.all()
        else 'Add these nodes, or leave such edges out with bad_edges="drop"',
    )


def _check_inside(edges: Table, pairs: np.ndarray, first: np.ndarray) -> None:
    graph = np.searchsorted(first, pairs, side="right") - 1
    across = np.flatnonzero(graph[0] != graph[1])
    if len(across):
        raise DataError(
            "both ends of an edge must be in the same graph",
            got=f"{counted(len(across), 'edge')} between two, first in {edges.at(int(across[0]))}",
            do="Give the edges a column that names their graph, or correct them",
        )


def _without_repeats(edges: Table, pairs: np.ndarray, roles: Roles, count: int) -> tuple[Table, np.ndarray, list[str]]:
    """Edges that say the same of the same ends once; without a direction, there and back is the same."""
    if not len(edges):
        return edges, pairs, []
    low, high = (pairs[0], pairs[1]) if roles.directed else (pairs.min(0), pairs.max(0))
    code = low * count + high
    _, group, sizes = np.unique(code, return_inverse=True, return_counts=True)
    many = np.flatnonzero(sizes[group] > 1)
    if not len(many):
        return edges, pairs, []
    mask = np.zeros(len(code), dtype=bool)
    mask[many] = True
    others = [c for n, c in edges.keep(mask).columns.items() if n not in (*roles.ends, roles.graph)]
    says = np.column_stack([group[many], *(words_of(cells)[1] for cells in others)])
    _, once, back = np.unique(says, axis=0, return_index=True, return_inverse=True)
    keep = np.ones(len(code), dtype=bool)
    keep[many] = False
    keep[many[once]] = True
    turned = (pairs[0][many] > pairs[1][many]) != (pairs[0][many[once]] > pairs[1][many[once]])[back.reshape(-1)]
    lost, both = int((~keep).sum()), int(turned.sum())
    notes = []
    if both and not roles.directed:
        notes.append(f"{counted(both, 'edge')} given both ways counted once: edges have no direction")
    more = lost - (0 if roles.directed else both)
    if more > 0:
        notes.append(f"{counted(more, 'edge')} that repeat{'s' if more == 1 else ''} another {_be(more)} left out")
    parallel = int(keep[many].sum()) - len(np.unique(group[many]))
    if parallel:
        notes.append(f"{counted(parallel, 'edge')} parallel to another {_be(parallel)} kept: their columns differ")
    return edges.keep(keep), pairs[:, keep], notes


def _odd(found: Found) -> list[str]:
    """Loops and nodes without edges, in words."""
    loops = int((found.pairs[0] == found.pairs[1]).sum())
    alone = int((found.degree == 0).sum())
    notes = []
    if loops:
        notes.append(f"{counted(loops, 'edge')} from a node to itself kept")
    if alone:
        notes.append(
            f"{counted(alone, 'node')} without an edge kept: {'it reads' if alone == 1 else 'they read'} no neighbours"
        )
    return notes


def _be(count: int) -> str:
    return "is" if count == 1 else "are"


def _some(names: Any, most: int = _SHOWN) -> str:
    names = [str(name) for name in names]
    return ", ".join(names[:most]) + (f" … ({len(names)} in all)" if names[most:] else "")
