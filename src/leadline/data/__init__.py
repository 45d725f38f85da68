"""Sources → `Data(train, val, test, target)` → `Batch`. Generators, bundled sets, arrays, tables."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from leadline.data.account import Account
from leadline.data.arguments import arguments
from leadline.data.arrays import arrays
from leadline.data.bundled import breast_cancer, diabetes, digits, iris, wine
from leadline.data.chance import noise_binary, noise_regression
from leadline.data.colours import Colours, colours
from leadline.data.columns import TableInputs
from leadline.data.curves import (
    branches,
    cubic,
    gabor,
    gap,
    inverse,
    line,
    linear,
    quasi_sine,
    sine,
    smooth,
    step,
    twelve_points,
    uneven_noise,
)
from leadline.data.data import Batch, Data, Split
from leadline.data.edge_graph import edge_graph, graph_of_edge_graph, incidence
from leadline.data.folder import find_task
from leadline.data.folds import folds
from leadline.data.graph_formats import EDGE_LISTS, GRAPHML, holds_graph
from leadline.data.graph_inputs import GraphInputs
from leadline.data.graph_made import communities, karate, molecules, nodes_alone, random_graphs
from leadline.data.graph_shapes import complete_graph, nearest, picture_graph, point_graph
from leadline.data.graph_source import graph
from leadline.data.idx import holds_idx, idx
from leadline.data.images import images
from leadline.data.inputs import Identity, Inputs, Rescale, Standardize
from leadline.data.labels import binary_1d, three_classes_1d, two_gaussians
from leadline.data.large_graph import large_graph
from leadline.data.measurements import car_prices, height_weight, pedestrians, repayment, wind_direction, wind_speed
from leadline.data.mnist1d import mnist1d
from leadline.data.patterns import memories, patterns
from leadline.data.pictures import Pictures
from leadline.data.plane import blobs, checkerboard, circles, imbalanced, moons, separable, spirals, xor
from leadline.data.pretext import reconstruction, which_is_original
from leadline.data.resample import bootstrap, label_noise
from leadline.data.scenes import scenes
from leadline.data.sequence_inputs import Sequences
from leadline.data.sequences import sequences
from leadline.data.series import series
from leadline.data.series_windows import Windows
from leadline.data.set_inputs import Sets
from leadline.data.sets import sets
from leadline.data.solids import solids
from leadline.data.table import ENDINGS, check_no_pipe, table
from leadline.data.tagged_rows import holds_sentences
from leadline.data.target import Target
from leadline.data.text import recorded, text
from leadline.data.text_files import holds_text, mostly_text
from leadline.data.text_rows import JSON_LINES, holds_pairs
from leadline.data.tokens import Tokens
from leadline.data.whitening import Whiten, whitened, whitening
from leadline.errors import DataError
from leadline.names import lookup
from leadline.settings import given

#: every data set that has a name; a path to a table works in its place
SOURCES: dict[str, Callable[..., Data]] = {
    function.__name__: function
    for function in (
        mnist1d,
        *(digits, wine, breast_cancer, diabetes, iris),
        *(xor, moons, circles, spirals, blobs, imbalanced, separable, checkerboard),
        *(binary_1d, three_classes_1d, two_gaussians, noise_regression, noise_binary),
        *(line, linear, twelve_points, gabor, sine, quasi_sine, uneven_noise, step, smooth, cubic, gap),
        *(inverse, branches),
        patterns,
        *(scenes, solids),
        *(wind_direction, wind_speed, pedestrians, repayment, height_weight, car_prices),
        *(karate, communities, random_graphs, molecules),
    )
}

_FROM_FILES: dict[str, Callable[..., Data]] = {
    **{"table": table, "images": images, "idx": idx, "text": text},
    **{"series": series, "sequences": sequences, "sets": sets, "graph": graph, "large_graph": large_graph},
}

#: options that tell what a path is read as, whatever its ending; of several the first counts: series have a level too
READ_AS = {
    **{"horizon": "series", "sequence": "sequences", "field": "sequences", "set": "sets", "coordinates": "sets"},
    **{"edges": "graph", "ends": "graph", "level": "graph"},
}
#: and those that make a table one of text
AS_TEXT = ("text", "source", "task")

#: ways to turn raw rows into network inputs, by the name under which a run records them
INPUTS: dict[str, type[Inputs]] = {
    kind.__name__: kind
    for kind in (
        *(Identity, Standardize, Rescale, TableInputs, Whiten, Pictures, Colours, Tokens, Windows, Sequences, Sets),
        GraphInputs,
    )
}


def source(name: str) -> Callable[..., Data]:
    """The source of a name, those that read files ("table", "images", "text", "graph" …) included; an unknown
    name answers with the closest one.

    >>> source("moons").__name__
    'moons'
    """
    return lookup(name, {**SOURCES, **_FROM_FILES}, "data set")


def load(what: str | Path | Mapping[str, Any], /, **options: Any) -> Data:
    """Data by the name of a source, the path of a table, a text or a folder of pictures, or a recipe (`Data.recipe`).

    Args:
        what: which data.
        options: the source's own, such as `num` of a generator or `target` of a table.

    >>> load("moons", num=40)
    Data(moons: train 26, val 6, test 8; x (2,); y y: upper or lower)
    >>> load(load("moons", num=40).recipe).fingerprint == load("moons", num=40).fingerprint
    True
    """
    if isinstance(what, Mapping):
        if not isinstance(what.get("source"), str) or not isinstance(what.get("options", {}), Mapping):
            raise DataError(
                "a recipe must hold a source's name and a dictionary of its options",
                got=f"the keys {', '.join(map(str, what)) or 'of nothing'}",
                do="Pass data.recipe as it was, or use ll.data.table(columns, target=…) for a dictionary of columns",
            )
        return load(what["source"], **{**options_of(what), **options})
    if not isinstance(what, (str, Path)):
        raise DataError(
            "data must be named: by a source, a table's path or a recipe",
            got=given("what", what),
            do="Use ll.data.table(frame, target=…) for a data frame, ll.data.arrays(x, y) for arrays",
        )
    name = str(what)
    if is_path(what):
        name, options = reader_by(what, options), {"path": what, **options}
    function = source(name)
    return function(**arguments(function, (), options))


def options_of(recipe: Mapping[str, Any]) -> dict[str, Any]:
    """The options of a recipe, as its source takes them today."""
    options = recipe.get("options", {})
    return recorded(options) if recipe["source"] == "text" else dict(options)


def is_path(what: str | Path) -> bool:
    """Whether this names a file or folder rather than a source: it looks like one, or there is one of that name.

    >>> is_path("moons"), is_path("moons.csv")
    (False, True)
    """
    name = str(what)
    if isinstance(what, Path) or name.lower().endswith(ENDINGS):
        return True
    if name.lower() in {known.lower() for known in (*SOURCES, *_FROM_FILES)}:
        return False
    return "/" in name or "\\" in name or Path(name).suffix != "" or Path(name).exists()


def reader_of(path: str | Path) -> str:
    """Which source reads a path: "images" for a folder with pictures or an .npz, "idx" for IDX files, "text" for a file
    of text or a folder of them, "graph" for GraphML, an edge list or a folder with nodes and edges, else "table".

    >>> reader_of("cars.csv"), reader_of("digits.npz"), reader_of("book.txt")
    ('table', 'images', 'text')
    """
    path = Path(path).expanduser()
    if path.suffix.lower() == ".npz":
        return "images"
    if path.name.lower().endswith((*GRAPHML, *EDGE_LISTS)) or holds_graph(path):
        return "graph"
    if path.is_dir() and holds_idx(path):
        return "idx"
    if path.is_file() and "-ubyte" in path.name:
        return "idx"
    if path.name.lower().endswith((*JSON_LINES, ".txt", ".txt.gz", ".md")):
        return "text"
    if not path.is_dir():
        return "text" if not path.name.lower().endswith(ENDINGS) and path.is_file() and holds_text(path) else "table"
    tables, task = any(file.name.lower().endswith(ENDINGS) for file in path.iterdir()), find_task(path)
    if task not in ("boxes", "pixels") and mostly_text(path):
        return "text"
    if task != "none":
        return "images"
    return "table" if tables else "text" if holds_text(path) else "images"


def reader_by(path: str | Path, options: Mapping[str, Any]) -> str:
    """Which source reads a path, by the options that come with it: a table is text where they name columns of it, or
    where it holds tagged words, or pairs of texts and no target is named, and so is a folder that has pictures too,
    where the words in it are asked for.

    >>> reader_by("cars.csv", {"horizon": 3, "level": "moving"}), reader_by("cars.csv", {"text": "name"})
    ('series', 'text')
    """
    check_no_pipe(Path(path).expanduser())
    said = next((reader for word, reader in READ_AS.items() if options.get(word) is not None), None)
    if said is not None:
        return said
    name = reader_of(path)
    if name == "images" and options.get("task") in ("next", "masked"):
        return "text"
    if name == "table" and any(options.get(word) is not None for word in AS_TEXT):
        return "text"
    target = options.get("target")
    of_words = name == "table" and (holds_sentences(path, target=target) or (target is None and holds_pairs(path)))
    return "text" if of_words else name


def inputs_from(name: str, config: Mapping[str, Any], attached: Mapping[str, str] | None = None) -> Inputs:
    """The inputs that a run recorded: the name of their class, their config, and the texts attached to them.

    >>> inputs_from("Rescale", {"shift": 1.0, "scale": 2.0}).config
    {'shift': 1.0, 'scale': 2.0, 'names': []}
    """
    kind = lookup(name, INPUTS, "inputs")
    try:
        return kind(**{**config, **(attached or {})})
    except TypeError as error:
        raise DataError(
            f"the config of {kind.__name__} must hold its arguments",
            got=f"one that does not ({error})",
            do="Restore it",
        ) from None


__all__ = [
    "INPUTS",
    "READ_AS",
    "SOURCES",
    "AS_TEXT",
    "Account",
    "Batch",
    "Colours",
    "Data",
    "GraphInputs",
    "Inputs",
    "Pictures",
    "Sequences",
    "Sets",
    "Split",
    "Target",
    "Tokens",
    "Windows",
    "arrays",
    "bootstrap",
    "colours",
    "complete_graph",
    "edge_graph",
    "find_task",
    "folds",
    "graph",
    "graph_of_edge_graph",
    "idx",
    "images",
    "incidence",
    "inputs_from",
    "large_graph",
    "is_path",
    "label_noise",
    "load",
    "memories",
    "nearest",
    "nodes_alone",
    "picture_graph",
    "point_graph",
    "reader_by",
    "reader_of",
    "reconstruction",
    "sequences",
    "series",
    "sets",
    "source",
    "table",
    "text",
    "which_is_original",
    "whitened",
    "whitening",
    *SOURCES,
]
