"""Derivatives on any graph without cycles, forwards and backwards, written out step by step.

    forward   df_i/dx = Σ_j (∂f_i/∂f_j) df_j/dx       over what f_i reads, from x on: one sweep for each input     (1)
    reverse   dy/df_j = Σ_i (∂f_i/∂f_j) dy/df_i       over what reads f_j, from y down: one sweep for each output  (2)

Each edge j → i of the graph costs one multiplication in a sweep, whatever its direction. So a loss of a million weights
needs one sweep backwards or a million forwards.

A graph is text: one line for each node, which reads nodes that stand above it, so that no cycle can be written.

>>> g = Graph('''
...     f1 = exp(x)
...     f2 = f1 * f1
...     f3 = f1 + f2
...     f4 = exp(f3)
...     f5 = sin(f3)
...     y = f4 + f5
... ''')
>>> print(g.reverse("y", x=0.3))
dy/df5 = 1
dy/df4 = 1
dy/df3 = dy/df4 · f4 + dy/df5 · cos(f3) = 22.8551
dy/df2 = dy/df3 · 1 = 22.8551
dy/df1 = dy/df2 · 2 f1 + dy/df3 · 1 = 84.5573
dy/dx = dy/df1 · f1 = 114.14
>>> round(g.forward("y", "x", x=0.3).slope, 5)
114.14044
"""

from __future__ import annotations

import ast
import math
import re
from collections.abc import Callable
from dataclasses import dataclass

from leadline.errors import UserError
from leadline.names import lookup

#: operation -> what it computes, and for each argument its derivative (arguments and the result in) and how that reads
Operation = tuple[Callable[..., float], tuple[tuple[Callable[..., float], str], ...]]


def _sigmoid(a: float) -> float:
    return 1 / (1 + math.exp(-a)) if a >= 0 else math.exp(a) / (1 + math.exp(a))


OPERATIONS: dict[str, Operation] = {
    "+": (lambda a, b: a + b, ((lambda a, b, out: 1.0, "1"), (lambda a, b, out: 1.0, "1"))),
    "-": (lambda a, b: a - b, ((lambda a, b, out: 1.0, "1"), (lambda a, b, out: -1.0, "-1"))),
    "*": (lambda a, b: a * b, ((lambda a, b, out: b, "{b}"), (lambda a, b, out: a, "{a}"))),
    "/": (
        lambda a, b: a / b,
        ((lambda a, b, out: 1 / b, "1/{b}"), (lambda a, b, out: -a / b**2, "(-{a}/{b}²)")),
    ),
    "**": (
        lambda a, b: a**b,
        (
            (lambda a, b, out: b * a ** (b - 1), "{b} {a}^({b}-1)"),
            (lambda a, b, out: out * math.log(a), "{out} log({a})"),
        ),
    ),
    "neg": (lambda a: -a, ((lambda a, out: -1.0, "-1"),)),
    "exp": (math.exp, ((lambda a, out: out, "{out}"),)),
    "log": (math.log, ((lambda a, out: 1 / a, "1/{a}"),)),
    "sqrt": (math.sqrt, ((lambda a, out: 0.5 / out, "1/(2 {out})"),)),
    "sin": (math.sin, ((lambda a, out: math.cos(a), "cos({a})"),)),
    "cos": (math.cos, ((lambda a, out: -math.sin(a), "(-sin({a}))"),)),
    "tanh": (math.tanh, ((lambda a, out: 1 - out * out, "(1 - {out}²)"),)),
    "sigmoid": (_sigmoid, ((lambda a, out: out * (1 - out), "{out} (1 - {out})"),)),
    "relu": (lambda a: max(a, 0.0), ((lambda a, out: float(a > 0), "[{a} > 0]"),)),
}
_SIGNS: dict[type, str] = {ast.Add: "+", ast.Sub: "-", ast.Mult: "*", ast.Div: "/", ast.Pow: "**"}


@dataclass(frozen=True)
class Node:
    """One value of the graph: an operation on nodes above it, by name, or on numbers."""

    name: str
    operation: str
    reads: tuple[str | float, ...]


@dataclass(frozen=True)
class Sweep:
    """Args:
    value: of the output;  slope: its derivative in the input, forwards, or in the first input, backwards.
    values, slopes: of every node, by name.
    multiplications, additions: that the sweep took, the values not counted.
    lines: how each derivative came about; `str` of a sweep shows them.
    """

    value: float
    slope: float
    values: dict[str, float]
    slopes: dict[str, float]
    multiplications: int
    additions: int
    lines: tuple[str, ...]

    def __str__(self) -> str:
        return "\n".join(self.lines)


class Graph:
    """Args:
        text: lines `name = expression`. Expressions are made of names, numbers, + - * / ** and the functions of
            OPERATIONS; inner ones become nodes of their own, t1, t2 …; names that no line defines are inputs.

    >>> Graph("y = sin(a * b) + a").inputs
    ('a', 'b')
    """

    def __init__(self, text: str):
        self.nodes: list[Node] = []
        self._known: dict[str, None] = {}  # inputs, in the order in which they are met
        self._words, self._made = set(re.findall(r"[^\W\d]\w*", text)), 0
        lines = [line.strip() for line in text.strip().splitlines() if line.strip()]
        defined = [line.split("=")[0].strip() for line in lines]
        for k, line in enumerate(lines):
            self._read(line, set(defined[k:]), defined[:k])
        self.inputs = tuple(self._known)

    # ── reading ──

    def _read(self, line: str, later: set[str], before: list[str]) -> None:
        try:
            (statement,) = ast.parse(line).body
        except (SyntaxError, ValueError):
            statement = ast.Pass()
        if not isinstance(statement, ast.Assign) or not isinstance(statement.targets[0], ast.Name):
            raise UserError("a line of a graph must read name = expression", got=repr(line), do="Write y = exp(x) + x")
        name = statement.targets[0].id
        if name in before or name in self._known:
            raise UserError("a node must have a name of its own", got=f"{name} again in {line!r}", do="Take a new name")
        made = self._expression(statement.value, name, later)
        if made != name:  # a line such as y = x is a node too
            self.nodes.append(Node(name, "+", (made, 0.0)))

    def _expression(self, tree: ast.expr, name: str | None, later: set[str]) -> str | float:
        if isinstance(tree, ast.Constant) and isinstance(tree.value, (int, float)) and not isinstance(tree.value, bool):
            return float(tree.value)
        if isinstance(tree, ast.Name):
            if tree.id in later:
                raise UserError(
                    "a node must stand below what it reads, so that there is no cycle",
                    got=f"{tree.id}, which is defined there or later",
                    do="Order the lines",
                )
            if not any(node.name == tree.id for node in self.nodes):
                self._known[tree.id] = None
            return tree.id
        if isinstance(tree, ast.UnaryOp) and isinstance(tree.op, ast.USub):
            operation, parts = "neg", [tree.operand]
        elif isinstance(tree, ast.BinOp) and type(tree.op) in _SIGNS:
            operation, parts = _SIGNS[type(tree.op)], [tree.left, tree.right]
        elif isinstance(tree, ast.Call) and isinstance(tree.func, ast.Name) and not tree.keywords:
            operation, parts = tree.func.id, tree.args
        else:
            raise UserError("an expression must be made of names, numbers and operations", got=ast.unparse(tree),
                            do=f"Known: {', '.join(OPERATIONS)}")  # fmt: skip
        _, partials = lookup(operation, OPERATIONS, "operation")
        if len(parts) != len(partials):
            raise UserError(
                f"{operation} must be given {len(partials)} {'argument' if len(partials) == 1 else 'arguments'}",
                got=f"{len(parts)} in {ast.unparse(tree)}",
                do="Write them between the brackets, with commas",
            )
        reads = tuple(self._expression(part, None, later) for part in parts)
        if name is None:
            self._made += 1
            while f"t{self._made}" in self._words:
                self._made += 1
            name = f"t{self._made}"
        self.nodes.append(Node(name, operation, reads))
        return name

    # ── computing ──

    def values(self, **inputs: float) -> dict[str, float]:
        """Every node's value.

        >>> Graph("y = x * x + 1").values(x=3.0)["y"]
        10.0
        """
        if set(inputs) != set(self.inputs):
            raise UserError(
                f"a graph must be given its inputs: {', '.join(self.inputs)}",
                got=", ".join(inputs) or "none",
                do=f"Pass {', '.join(f'{name}=1.0' for name in self.inputs)}",
            )
        found = {name: float(inputs[name]) for name in self.inputs}
        for node in self.nodes:
            function, _ = OPERATIONS[node.operation]
            try:
                found[node.name] = function(*self._arguments(node, found))
            except (ValueError, ZeroDivisionError, OverflowError) as error:
                raise UserError(
                    f"{node.name} = {node.operation} of {node.reads} must have a value", got=str(error), do="Move x"
                ) from None
        return found

    def _arguments(self, node: Node, values: dict[str, float]) -> list[float]:
        return [values[read] if isinstance(read, str) else read for read in node.reads]

    def _edges(self, node: Node, values: dict[str, float]) -> list[tuple[str, float, str]]:
        """What a node reads: the name, the derivative in it, and how that is written; a node read twice is one edge."""
        arguments, out = self._arguments(node, values), values[node.name]
        words = {**dict(zip("ab", map(_word, node.reads))), "out": node.name}
        edges: dict[str, tuple[float, str]] = {}
        for read, (partial, text) in zip(node.reads, OPERATIONS[node.operation][1], strict=True):
            if isinstance(read, str):
                slope, written = partial(*arguments, out), text.format(**words)
                if read in edges:
                    both = f"2 {written}" if written == edges[read][1] else f"({edges[read][1]} + {written})"
                    slope, written = edges[read][0] + slope, both
                edges[read] = slope, written
        return [(read, slope, written) for read, (slope, written) in edges.items()]

    def forward(self, output: str, wrt: str, **inputs: float) -> Sweep:
        """Eq. 1: derivatives of every node in the input `wrt`.

        >>> print(Graph("y = x * x + 3").forward("y", "x", x=2.0))
        dt1/dx = 2 x · dx/dx = 4
        dy/dx = 1 · dt1/dx = 4
        """
        values = self.values(**inputs)
        slopes = dict.fromkeys(self.inputs, 0.0)
        slopes[lookup(wrt, {name: name for name in self.inputs}, "input")] = 1.0
        multiplications = additions = 0
        lines = []
        for node in self.nodes:
            terms = [(s * slopes[read], f"{text} · d{read}/d{wrt}") for read, s, text in self._edges(node, values)]
            multiplications, additions = multiplications + len(terms), additions + max(0, len(terms) - 1)
            slopes[node.name] = sum(term for term, _ in terms)
            lines.append(_line(f"d{node.name}/d{wrt}", [text for _, text in terms], slopes[node.name]))
        lookup(output, values, "node")
        return Sweep(values[output], slopes[output], values, slopes, multiplications, additions, tuple(lines))

    def reverse(self, output: str, **inputs: float) -> Sweep:
        """Eq. 2: derivatives of `output` in every node.

        >>> Graph("y = a * b").reverse("y", a=2.0, b=5.0).slopes
        {'y': 1.0, 'a': 5.0, 'b': 2.0}
        """
        values = self.values(**inputs)
        lookup(output, values, "node")
        reads: dict[str, list[tuple[str, float, str]]] = {}  # who reads a node: its name, the derivative, the text
        for node in self.nodes:
            for read, slope, text in self._edges(node, values):
                reads.setdefault(read, []).append((node.name, slope, text))
        slopes = {output: 1.0}
        multiplications = additions = 0
        lines = []
        order = [node.name for node in reversed(self.nodes)] + list(self.inputs)
        for name in order[order.index(output) + 1 :]:
            above = [edge for edge in reads.get(name, []) if edge[0] in slopes]
            slopes[name] = sum(slopes[reader] * slope for reader, slope, _ in above)
            # what the output reads needs no product: dy/dy is 1
            multiplications += sum(reader != output for reader, _, _ in above)
            additions += max(0, len(above) - 1)
            texts = [text if reader == output else f"d{output}/d{reader} · {text}" for reader, _, text in above]
            lines.append(_line(f"d{output}/d{name}", texts, slopes[name]))
        first = slopes.get(self.inputs[0], 0.0) if self.inputs else 0.0
        return Sweep(values[output], first, values, slopes, multiplications, additions, tuple(lines))


def _line(left: str, terms: list[str], value: float) -> str:
    right, number = " + ".join(terms) or "0", f"{value:.6g}"
    return f"{left} = {right}" if right == number else f"{left} = {right} = {number}"


def _word(read: str | float) -> str:
    return read if isinstance(read, str) else f"{read:g}"
