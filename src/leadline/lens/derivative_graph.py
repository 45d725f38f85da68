"""A computation as a graph, with the value of every node and the derivative of the output in it.

    dy/df_j = Σ_i (∂f_i/∂f_j) dy/df_i          over the nodes i that read j          (1)

Values flow to the right, derivatives to the left: see `leadline.reference.graph`, which computes them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from leadline.lens.style import FULL, HUES, INK, SOFT, blank, styled
from leadline.lens.view import View
from leadline.reference.graph import Graph

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@dataclass(frozen=True, eq=False)
class DerivativeGraph(View):
    """Args:
    nodes: name → (value, derivative of the output, how it is made, column of the drawing).
    edges: (from, to).
    output: the node that is differentiated.
    lines: the backward sweep, step by step.
    multiplications: of the backward sweep, and of forward sweeps for all inputs.
    """

    nodes: dict[str, tuple[float, float, str, int]]
    edges: tuple[tuple[str, str], ...]
    output: str
    lines: tuple[str, ...]
    multiplications: tuple[int, int]

    @styled
    def plot(self) -> Figure:
        columns: dict[int, list[str]] = {}
        for name, (_, _, _, column) in self.nodes.items():
            columns.setdefault(column, []).append(name)
        deepest, tallest = max(columns), max(len(names) for names in columns.values())
        figure = blank(max(FULL * 0.7, 1.5 * (deepest + 1)), max(2.6, 1.25 * tallest))
        ax = figure.subplots()
        places = {
            name: (float(column), (len(names) - 1) / 2 - k)
            for column, names in columns.items()
            for k, name in enumerate(names)
        }
        for start, end in self.edges:
            bend = 0.0 if places[end][0] - places[start][0] < 1.5 else 0.6
            ax.annotate("", places[end], places[start], zorder=1, arrowprops={
                "arrowstyle": "-|>", "color": SOFT, "lw": 1.2, "shrinkA": 21, "shrinkB": 21,
                "connectionstyle": f"arc3,rad={bend}"})  # fmt: skip
        for name, (x, y) in places.items():
            value, slope, made, _ = self.nodes[name]
            ax.plot(x, y, "o", ms=31, color="white", mec=HUES[1] if name == self.output else INK, mew=1.2, zorder=2)
            ax.text(x, y, name, ha="center", va="center", weight="bold", zorder=3)
            ax.text(x, y + 0.33, f"{made} = {value:.5g}" if made else f"{value:.5g}", ha="center", fontsize=7.5,
                    color=HUES[0])  # fmt: skip
            ax.text(x, y - 0.4, f"d{self.output}/d{name} = {slope:.5g}", ha="center", fontsize=7.5, color=HUES[1])
        ax.set(xlim=(-0.6, deepest + 0.6), ylim=(-tallest / 2 - 0.15, tallest / 2 + 0.05))
        ax.set_axis_off()
        back, forth = self.multiplications
        ax.set_title(f"Values (blue) and derivatives (red): {back} multiplications backwards, {forth} forwards")
        return figure


def derivative_graph(text: str, output: str = "y", **inputs: float) -> DerivativeGraph:
    """The graph of a computation that is written line by line, differentiated backwards.

    Args:
        text: lines `name = expression`, as `leadline.reference.graph.Graph` reads them.
        output: the node to differentiate.
        inputs: a number for each input.

    >>> view = derivative_graph("f = exp(x)\\ny = f * f", x=0.0)
    >>> view.nodes["x"][1], view.multiplications
    (2.0, (1, 2))
    """
    graph = Graph(text)
    sweep = graph.reverse(output, **inputs)
    forwards = sum(graph.forward(output, name, **inputs).multiplications for name in graph.inputs)
    column = dict.fromkeys(graph.inputs, 0)
    made = dict.fromkeys(graph.inputs, "")
    edges = []
    for node in graph.nodes:
        reads = [read for read in node.reads if isinstance(read, str)]
        column[node.name] = 1 + max((column[read] for read in reads), default=-1)
        words = [read if isinstance(read, str) else f"{read:g}" for read in node.reads]
        made[node.name] = f" {node.operation} ".join(words) if len(words) == 2 else f"{node.operation} {words[0]}"
        edges += [(read, node.name) for read in dict.fromkeys(reads)]
    nodes = {name: (sweep.values[name], sweep.slopes.get(name, 0.0), made[name], column[name]) for name in sweep.values}
    return DerivativeGraph(nodes, tuple(edges), output, sweep.lines, (sweep.multiplications, forwards))
