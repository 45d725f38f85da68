"""The graph with what was said of it: nodes, or small graphs, in the colour of the answer, and rings around wrong ones.

Of a large graph the part around its node with most edges is drawn; of many graphs, some.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import torch

from leadline.errors import UserError
from leadline.lens.graph_drawing import GraphDrawing, graph_drawing
from leadline.report.facts import Facts
from leadline.report.numbers import Answers

MOST = 600  # nodes that are drawn
SOME = 24  # graphs that are drawn


def graph_of(facts: Facts, split: str, draw: Callable[..., str]) -> str:
    """HTML of the figure; empty where rows ask of no node and no graph."""
    drawing = said(facts, split)
    if drawing is None:
        return ""
    ringed = f" Rings mark {split} rows with a wrong answer." if drawing.wrong is not None else ""
    unasked = drawing.values is not None and bool(drawing.classes) and -1 in drawing.values
    grey = " Grey nodes are in no split." if unasked else ""
    note = f"Colours are the answers of the network.{ringed}{grey}"
    return f'<div class="card">{draw("graph", drawing.plot(), note)}</div>'


def said(facts: Facts, split: str) -> GraphDrawing | None:
    """The drawing, or None where there is none to make."""
    graph, level = facts.data.inputs.graph, getattr(facts.data.inputs, "level", "")
    if graph is None or level not in ("node", "graph"):
        return None
    num = len(graph) if level == "node" else graph.num_graphs
    values, wrong, classes = np.full(num, np.nan), np.zeros(num, dtype=bool), bool(facts.data.target.discrete)
    for name in ("train", "val", "test"):
        if name not in facts.outputs or not len(facts.data[name]):
            continue
        told = _told(facts, name, classes)
        if told is None:
            return None
        at = facts.data[name].x[:, 0].long().cpu().numpy()
        values[at], y = told
        if classes and name == split:
            wrong[at] = values[at] != y
    names = tuple(facts.data.target.classes) or ("0", "1") if classes else ()
    if classes:
        values = np.nan_to_num(values, nan=-1).astype(int)
    if level == "graph":
        own = facts.data[split].x[:SOME, 0].long().cpu()
        graph = graph.to("cpu").some(own)
        values, wrong = (np.repeat(v[own.numpy()], np.diff(graph.bounds.numpy())) for v in (values, wrong))
    rings = wrong if wrong.any() else None
    what = f"predicted {facts.data.target.name}"
    return graph_drawing(graph, torch.from_numpy(values), classes=names, what=what, wrong=rings, most=MOST)


def _told(facts: Facts, split: str, classes: bool) -> tuple[np.ndarray, np.ndarray] | None:
    """What was said of each row of a split, one number each, and what is true."""
    try:
        answers = Answers.of(facts, split)
    except UserError:
        return None
    found = answers.probabilities if classes else answers.mean
    if found is None:
        return None
    return np.nan_to_num(found).argmax(1) if classes else found[:, 0], answers.y
