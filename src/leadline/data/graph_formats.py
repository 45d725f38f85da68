"""Graphs as others hold them, to a table of nodes and a table of edges.

    tables       {"nodes": …, "edges": …}, each a file or a data frame
    a folder     with nodes.csv and edges.csv (or .tsv, .parquet), and graphs.csv where there are many graphs
    networkx     a graph, or a list of them; attributes are columns, vectors several columns
    PyG          Data, HeteroData, or a list of them; masks become the column split
    GraphML      a file, which may hold several graphs
    edge list    a file of two names a line, and a weight perhaps; # and % begin a remark

Nothing is imported for it: objects are known by what they have.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np
from torch import Tensor

from leadline.data.cells import Cells, Table, Text, cells_of, table_of
from leadline.data.raw import words_of
from leadline.data.table import ENDINGS, read_rows
from leadline.errors import DataError

EDGE_LISTS = (".edges", ".edgelist", ".el")
GRAPHML = (".graphml", ".graphml.xml")
GRAPH = "graph"  # the column that says which graph a node is in
_SPLITS = {"train_mask": "train", "val_mask": "val", "test_mask": "test"}


def is_graph(what: Any) -> bool:
    """Whether this is a graph, or several, as `graph_tables` reads them.

    >>> is_graph({"nodes": {"id": [1]}, "edges": {"from": [1], "to": [1]}}), is_graph(["a", "b"])
    (True, False)
    """
    if isinstance(what, (str, Path)):
        path = Path(what).expanduser()
        return path.name.lower().endswith((*GRAPHML, *EDGE_LISTS)) or holds_graph(path)
    if isinstance(what, Mapping):
        return "edges" in what
    if isinstance(what, (list, tuple)):
        return len(what) > 0 and all(_is_networkx(one) or _is_pyg(one) for one in what)
    return _is_networkx(what) or _is_pyg(what)


def holds_graph(path: Path) -> bool:
    """Whether a folder has a table of nodes and one of edges."""
    return path.is_dir() and _inside(path, "edges") is not None and _inside(path, "nodes") is not None


def graph_tables(what: Any, graph: str | None = None) -> tuple[Table | None, Table, dict[str, Any]]:
    """Nodes, edges, and what else is known: options of `leadline.data.graph` by name.

    Args:
        graph: the column that says which graph a node is in, where there are several.
    """
    graph = graph or GRAPH
    if isinstance(what, (str, Path)):
        return _of_path(Path(what).expanduser(), graph)
    if isinstance(what, Mapping):
        nodes = None if what.get("nodes") is None else table_in(what["nodes"], "nodes")
        return nodes, table_in(what["edges"], "edges"), {}
    if isinstance(what, (list, tuple)):
        return _joined([graph_tables(one) for one in what], [str(k) for k in range(len(what))], graph)
    if _is_networkx(what):
        return _of_networkx(what)
    return _of_pyg(what)


def table_in(what: Any, name: str) -> Table:
    """A table out of a file or of whatever holds one."""
    if isinstance(what, (str, Path)):
        path = Path(what).expanduser()
        if path.name.lower().endswith((*EDGE_LISTS, ".txt")):
            return _edge_list(path)
        return read_rows(path)
    return table_of(what, source=name)


def files_of(path: Path) -> list[Path]:
    """The files of a folder of a graph."""
    return [file for name in ("nodes", "edges", "graphs") if (file := _inside(path, name)) is not None]


def _inside(folder: Path, name: str) -> Path | None:
    places = (folder / f"{name}{ending}" for ending in (*ENDINGS, *EDGE_LISTS, ".txt"))
    return next((place for place in places if place.is_file()), None)


def _of_path(path: Path, graph: str) -> tuple[Table | None, Table, dict[str, Any]]:
    if path.is_dir():
        nodes, edges, graphs = (_inside(path, name) for name in ("nodes", "edges", "graphs"))
        if edges is None:
            inside = sorted(file.name for file in path.iterdir())[:6]
            raise DataError(
                f"{path} must hold nodes.csv and edges.csv",
                got=", ".join(inside) or "an empty folder",
                do="Name the two files so, or pass both",
            )
        more = {} if graphs is None else {"graphs": str(graphs)}
        return None if nodes is None else table_in(nodes, "nodes"), table_in(edges, "edges"), more
    if not path.exists():
        raise DataError("a graph's file must exist", got=f"no {path}", do="Check the name and the folder")
    if path.name.lower().endswith(GRAPHML):
        return _graphml(path, graph)
    return None, table_in(path, "edges"), {}


# ---------------------------------------------------------------------------------------------------- objects


def _is_networkx(what: Any) -> bool:
    return all(hasattr(what, name) for name in ("nodes", "edges", "is_directed", "adj"))


def _is_pyg(what: Any) -> bool:
    return (hasattr(what, "edge_index") and hasattr(what, "num_nodes")) or hasattr(what, "edge_types")


def _of_networkx(what: Any) -> tuple[Table, Table, dict[str, Any]]:
    nodes = list(what.nodes(data=True))
    edges = list(what.edges(data=True))
    of_nodes = {"id": _words([name for name, _ in nodes]), **_attributes([own for _, own in nodes], "id")}
    of_edges: dict[str, Cells] = {
        "source": _words([a for a, _, _ in edges]),
        "target": _words([b for _, b, _ in edges]),
    }
    of_edges |= _attributes([own for _, _, own in edges], "source", "target")
    more: dict[str, Any] = {"directed": bool(what.is_directed()), "key": "id", "ends": ("source", "target")}
    if "weight" in of_edges:
        more["weight"] = "weight"
    labels = {name: value for name, value in getattr(what, "graph", {}).items() if isinstance(value, (str, int, float))}
    return (
        Table(of_nodes, np.arange(len(nodes)), source="nodes"),
        Table(of_edges, np.arange(len(edges)), source="edges"),
        {**more, "labels": labels},
    )


def _attributes(rows: Sequence[Mapping[str, Any]], *taken: str) -> dict[str, Cells]:
    """Attributes as columns; a vector is several, and what only some have is missing in the others."""
    columns: dict[str, Cells] = {}
    for name in dict.fromkeys(key for row in rows for key in row):
        values = [row.get(name) for row in rows]
        label = f"{name}_" if str(name) in taken else str(name)
        wide = next((np.asarray(value) for value in values if value is not None), np.zeros(()))
        if wide.ndim == 1 and wide.dtype.kind in "fiub":
            block = np.full((len(values), len(wide)), math.nan)
            for place, value in enumerate(values):
                if value is not None and len(value) != len(wide):
                    raise DataError(
                        f"{name} must have as many numbers at every node or edge",
                        got=f"{len(value)} in row {place} and {len(wide)} before it",
                        do="Make the vectors equally long",
                    )
                if value is not None:
                    block[place] = np.asarray(value, dtype=np.float64)
            columns |= {f"{label}_{k}": block[:, k] for k in range(block.shape[1])}
        else:
            columns[label] = cells_of(values, label)
    return columns


def _words(values: Iterable[Any]) -> Cells:
    values = list(values)
    whole = values and all(isinstance(value, (int, np.integer)) and not isinstance(value, bool) for value in values)
    if whole and max(map(abs, values)) <= 2**53:  # larger ones would run into one another as floats
        return np.array(values, dtype=np.float64)
    return Text([str(value) for value in values])


def _of_pyg(what: Any) -> tuple[Table, Table, dict[str, Any]]:
    if hasattr(what, "edge_types"):
        return _of_hetero(what)
    count = int(what.num_nodes)
    nodes = _block(getattr(what, "x", None), "x", count)
    nodes |= {"pos_" + "xyz"[k]: c for k, c in enumerate(_block(getattr(what, "pos", None), "pos", count).values())}
    y = getattr(what, "y", None)
    more: dict[str, Any] = {"key": "", "ends": ("source", "target")}
    if y is not None and len(y) == count and (count > 1 or y.ndim > 1):
        nodes |= _block(y, "y", count, one="y")
        if _array(y).dtype.kind in "iub" and "y" in nodes:  # whole numbers are codes of classes there
            more["kind"] = "classes"
    elif y is not None:
        own = _array(y).reshape(-1)
        names = ["y"] if len(own) == 1 else [f"y_{k}" for k in range(len(own))]
        more["labels"] = {name: float(value) for name, value in zip(names, own)}
        if own.dtype.kind in "iub":
            more["kind"] = "classes"
    said = _split_words(what, count)
    if any(said):
        nodes["split"], more["split"] = Text(said), "split"
    pairs = _array(what.edge_index)
    edges: dict[str, Cells] = {"source": pairs[0].astype(np.float64), "target": pairs[1].astype(np.float64)}
    edges |= _block(getattr(what, "edge_attr", None), "edge", pairs.shape[1])
    if getattr(what, "edge_weight", None) is not None:
        edges["weight"], more["weight"] = _array(what.edge_weight).astype(np.float64), "weight"
    more["directed"] = not bool(what.is_undirected()) if hasattr(what, "is_undirected") else True
    return (
        Table(nodes, np.arange(count), source="nodes"),
        Table(edges, np.arange(pairs.shape[1]), source="edges"),
        more,
    )


def _of_hetero(what: Any) -> tuple[Table, Table, dict[str, Any]]:
    """Nodes of all kinds one after the other, named kind:number."""
    parts: list[tuple[int, dict[str, Cells]]] = []
    ids: list[str] = []
    kinds: list[str] = []
    said: list[str | None] = []
    codes = False
    first: dict[Any, int] = {}
    for kind in what.node_types:
        store = what[kind]
        count = int(store.num_nodes)
        first[kind] = len(ids)
        own = {f"{kind}_{name}": c for name, c in _block(getattr(store, "x", None), "x", count).items()}
        own |= _block(getattr(store, "y", None), "y", count, one="y")
        if "y" in own and _array(store.y).dtype.kind in "iub":
            codes = True
        parts.append((count, own))
        said += _split_words(store, count)
        ids += [f"{kind}:{k}" for k in range(count)]
        kinds += [kind] * count
    nodes: dict[str, Cells] = {"id": Text(ids), "kind": Text(kinds)}
    nodes |= _stacked(parts)
    begin, end, relation = [], [], []
    features: list[tuple[int, dict[str, Cells]]] = []
    for source, name, target in what.edge_types:
        store = what[source, name, target]
        pairs = _array(store.edge_index)
        own = _block(getattr(store, "edge_attr", None), "edge", pairs.shape[1])
        features.append((pairs.shape[1], {f"{source}_{name}_{target}_{column}": c for column, c in own.items()}))
        begin += [ids[first[source] + k] for k in pairs[0].tolist()]
        end += [ids[first[target] + k] for k in pairs[1].tolist()]
        relation += [f"{source} {name} {target}"] * pairs.shape[1]
    edges: dict[str, Cells] = {"source": Text(begin), "target": Text(end), "relation": Text(relation)}
    edges |= _stacked(features)
    more: dict[str, Any] = {"key": "id", "ends": ("source", "target"), "relation": "relation", "node_kind": "kind"}
    more |= {"directed": True} | ({"kind": "classes"} if codes else {})
    if any(said):
        nodes["split"], more["split"] = Text(said), "split"
    return (
        Table(nodes, np.arange(len(ids)), source="nodes"),
        Table(edges, np.arange(len(begin)), source="edges"),
        more,
    )


def _stacked(parts: Sequence[tuple[int, dict[str, Cells]]]) -> dict[str, Cells]:
    """Columns of numbers one after the other; what a part does not have is missing in it."""
    columns: dict[str, Cells] = {}
    for name in dict.fromkeys(name for _, own in parts for name in own):
        filled = [np.asarray(own.get(name, np.full(count, math.nan))) for count, own in parts]
        columns[name] = np.concatenate(filled)
    return columns


def _split_words(store: Any, count: int) -> list[str | None]:
    """What masks say of each node: train, val, test or nothing."""
    words = np.full(count, None, dtype=object)
    for mask, split in _SPLITS.items():
        if getattr(store, mask, None) is None:
            continue
        own = _array(getattr(store, mask))
        if own.shape != (count,):
            raise DataError(
                f"{mask} must say of each node whether it is in that split",
                got=f"shape {own.shape} for {count} nodes",
                do=f"Pick one split: data.{mask} = data.{mask}[:, 0]",
            )
        words[own.astype(bool)] = split
    return words.tolist()


def _block(values: Any, name: str, count: int, one: str | None = None) -> dict[str, Cells]:
    """The columns of an array; a single one has the name `one`, where that is given."""
    if values is None:
        return {}
    block = _array(values)
    block = block.reshape(len(block), -1)
    if len(block) != count:
        raise DataError(f"{name} must have a row for each of {count}", got=f"{len(block)} rows", do="Correct it")
    if one is not None and block.shape[1] == 1:
        return {one: block[:, 0].astype(np.float64)}
    return {f"{name}_{k}": block[:, k].astype(np.float64) for k in range(block.shape[1])}


def _array(values: Any) -> np.ndarray:
    return values.detach().cpu().numpy() if isinstance(values, Tensor) else np.asarray(values)


def array_tables(x: Any, pairs: Any, y: Any = None, weight: Any = None) -> tuple[Table, Table]:
    """Tables of arrays: x (N, F), pairs (2, E) or (E, 2), y (N,); a node's name is its place.

    >>> nodes, edges = array_tables([[1.0], [2.0]], [[0], [1]], [0, 1])
    >>> list(nodes.columns), list(edges.columns)
    (['x_0', 'y'], ['source', 'target'])
    """
    own, ends = _array(x), _array(pairs)
    if own.ndim == 1:
        own = own[:, None]
    if own.ndim != 2 or own.dtype.kind not in "fiub":
        raise DataError(
            "x must have a row of numbers for each node",
            got=f"{own.dtype} of shape {own.shape}",
            do="Pass (nodes, numbers)",
        )
    if ends.ndim != 2 or 2 not in ends.shape or (ends.size and ends.dtype.kind not in "iu" and (ends % 1 != 0).any()):
        raise DataError(
            "edges must be pairs of whole numbers, (2, E) or (E, 2)",
            got=f"{ends.dtype} of shape {ends.shape}",
            do="Pass where they begin in the first row and where they end in the second",
        )
    ends = ends if ends.shape[0] == 2 else ends.T
    nodes = _block(own, "x", len(own))
    if y is not None:
        values = y if isinstance(y, list) and y and isinstance(y[0], str) else _array(y)
        if len(values) != len(own):
            got = f"{len(values)} values for {len(own)} nodes"
            raise DataError("y must have a value for each node, NaN where it is not known", got=got, do="Correct it")
        nodes |= {"y": cells_of(values, "y")} if np.ndim(values) == 1 else _block(values, "y", len(own), one="y")
    edges: dict[str, Cells] = {"source": ends[0].astype(np.float64), "target": ends[1].astype(np.float64)}
    if weight is not None:
        edges["weight"] = _array(weight).astype(np.float64).reshape(-1)
    return Table(nodes, np.arange(len(own)), source="x"), table_of(edges, source="edges")


def _joined(
    parts: Sequence[tuple[Table | None, Table, dict[str, Any]]], names: Sequence[str], graph: str
) -> tuple[Table, Table, dict[str, Any]]:
    """Several graphs as one, with a column that says which; the labels of graphs are a table of their own."""
    tables: list[Table] = []
    for place in (0, 1):
        own = [part[place] for part in parts]
        if any(table is None for table in own):
            raise DataError("every graph must have nodes", got="edges alone", do="Add a table of nodes for each")
        sizes = [len(table) for table in own]  # type: ignore[arg-type]
        columns: dict[str, Cells] = {graph: Text([n for n, count in zip(names, sizes) for _ in range(count)])}
        for name in dict.fromkeys(name for table in own for name in table.columns):  # type: ignore[union-attr]
            cells = [t.columns.get(name, np.full(n, math.nan)) for t, n in zip(own, sizes)]  # type: ignore[union-attr]
            arrays = [c for c in cells if isinstance(c, np.ndarray)]
            if len(arrays) == len(cells):
                columns[name] = np.concatenate(arrays)
            else:
                columns[name] = Text([word for c in cells for word in _spelt(c)])
        tables.append(Table(columns, np.arange(sum(sizes)), source=("nodes", "edges")[place]))
    more = {**parts[0][2], "graph": graph}
    labels = [part[2].get("labels", {}) for part in parts]
    more.pop("labels", None)
    more["directed"] = any(part[2].get("directed", False) for part in parts)
    if any(labels):
        of_graphs = {name: cells_of([own.get(name) for own in labels], name) for name in labels[0]}
        more["graphs"] = Table({graph: Text(list(names)), **of_graphs}, np.arange(len(names)), source="graphs")
    return tables[0], tables[1], more


def _spelt(cells: Cells) -> list[str | None]:
    """Cells as words, where those of other graphs are."""
    words, codes = words_of(cells)
    return [words[code] for code in codes.tolist()]


# ---------------------------------------------------------------------------------------------------- files


def _edge_list(path: Path) -> Table:
    """Two names a line, then a weight perhaps; between them white space or commas."""
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise DataError("an edge list must be a file of text", got=f"{path} ({error})", do="Check it") from None
    rows: list[list[str]] = []
    numbers: list[int] = []
    for place, line in enumerate(lines, 1):
        words = line.replace(",", " ").split()
        if not words or words[0][0] in "#%":
            continue
        if len(words) not in (2, 3) or (rows and len(words) != len(rows[0])):
            raise DataError(
                f"every line of {path.name} must have two names, or all two names and a weight",
                got=f"{len(words)} words in line {place}",
                do="Correct the line, or write a table with names of columns as .csv",
            )
        rows.append(words)
        numbers.append(place)
    width = len(rows[0]) if rows else 2
    columns: dict[str, Cells] = {
        name: Text([row[k] for row in rows]) for k, name in enumerate(("source", "target", "weight")[:width])
    }
    return Table(columns, np.array(numbers, dtype=np.int64), "line", path.name)


def _graphml(path: Path, graph: str) -> tuple[Table, Table, dict[str, Any]]:
    content = path.read_bytes()
    if b"<!DOCTYPE" in content or b"<!ENTITY" in content:
        raise DataError(f"{path.name} must be plain GraphML", got="a document type of its own", do="Write it again")
    try:
        root = ElementTree.fromstring(content)
    except ElementTree.ParseError as error:
        raise DataError(f"{path.name} must be whole GraphML", got=f"{error}", do="Write it again") from None
    bare = lambda tag: str(tag).rpartition("}")[2]  # noqa: E731
    keys = {
        e.get("id"): (
            e.get("for", "all"),
            e.get("attr.name") or str(e.get("id")),
            e.get("attr.type", "string"),
            _default(e),
        )
        for e in root.iter()
        if bare(e.tag) == "key"
    }
    found = [e for e in root.iter() if bare(e.tag) == "graph"]
    if not found:
        raise DataError(f"{path.name} must hold a graph", got=f"<{bare(root.tag)}> without one", do="Write it again")
    parts = [_of_element(e, keys, path.name, bare) for e in found]
    if len(parts) == 1:
        return parts[0]
    return _joined(parts, [e.get("id") or str(k) for k, e in enumerate(found)], graph)


def _default(key: Any) -> str | None:
    return next((child.text for child in key if str(child.tag).endswith("default")), None)


def _of_element(element: Any, keys: Mapping[Any, Any], source: str, bare: Any) -> tuple[Table, Table, dict[str, Any]]:
    nodes = [e for e in element if bare(e.tag) == "node"]
    edges = [e for e in element if bare(e.tag) == "edge"]
    of_nodes: dict[str, Cells] = {"id": Text([e.get("id", "") for e in nodes])}
    of_nodes |= _data(nodes, "node", keys, bare, ("id",))
    of_edges: dict[str, Cells] = {end: Text([e.get(end, "") for e in edges]) for end in ("source", "target")}
    of_edges |= _data(edges, "edge", keys, bare, ("source", "target"))
    more: dict[str, Any] = {"key": "id", "ends": ("source", "target")}
    more["directed"] = element.get("edgedefault", "undirected") == "directed"
    if "weight" in of_edges:
        more["weight"] = "weight"
    labels = {keys[e.get("key")][1]: e.text for e in element if bare(e.tag) == "data" and e.get("key") in keys}
    return (
        Table(of_nodes, np.arange(len(nodes)), "node", source),
        Table(of_edges, np.arange(len(edges)), "edge", source),
        {**more, "labels": labels},
    )


def _data(
    elements: Sequence[Any], kind: str, keys: Mapping[Any, Any], bare: Any, taken: Sequence[str]
) -> dict[str, Cells]:
    columns: dict[str, Cells] = {}
    own = [{e.get("key"): e.text for e in element if bare(e.tag) == "data"} for element in elements]
    for key, (for_, name, _, default) in keys.items():
        if for_ in (kind, "all") and any(key in row for row in own):
            label = f"{name}_" if name in taken else name
            columns[label] = Text([row.get(key, default) for row in own])
    return columns
