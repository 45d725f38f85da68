"""A network written out as equations.

    unit     a line for each unit and output
    layer    h1 = a[β0 + Ω0 x] …, with the shape of each matrix
    nested   y = β2 + Ω2 a[β1 + Ω1 a[β0 + Ω0 x]], in one line

Notation   β0, Ω0 -> offsets and slopes of the first map, and so on;  x -> inputs;  h1 -> a hidden layer;  y -> output
"""

from __future__ import annotations

from torch import nn

from leadline.layers.activation import name_of
from leadline.models.chain import Chain, chain
from leadline.models.shallow import Shallow
from leadline.names import lookup


def equations(model: nn.Module, form: str = "layer") -> str:
    """The equations of a network, in one of the forms above.

    >>> from leadline.models import MLP
    >>> print(equations(MLP(5, (20, 10), 4, activation="relu")))
    h1 = relu[β0 + Ω0 x]      β0 (20), Ω0 (20 × 5)
    h2 = relu[β1 + Ω1 h1]     β1 (10), Ω1 (10 × 20)
    y = β2 + Ω2 h2            β2 (4), Ω2 (4 × 10)
    """
    write = lookup(form, {"unit": _units, "layer": _layers, "nested": _nested}, "form")
    if isinstance(model, Shallow) and write is _units:
        return model.equations()
    return write(chain(model))


def _name(a: nn.Module) -> str:
    return name_of(a) or type(a).__name__


def _sum(k: int, c: Chain, inner: str) -> str:
    return f"Ω{k} {inner}" if c.maps[k].bias is None else f"β{k} + Ω{k} {inner}"


def _layers(c: Chain) -> str:
    lines, last = [], len(c.maps) - 1
    for k, map_ in enumerate(c.maps):
        inner = _sum(k, c, f"h{k}" if k else "x")
        left = f"y = {inner}" if k == last else f"h{k + 1} = {_name(c.activations[k])}[{inner}]"
        offsets = "" if map_.bias is None else f"β{k} ({map_.out_features}), "
        lines.append((left, f"{offsets}Ω{k} ({map_.out_features} × {map_.in_features})"))
    wide = max(len(left) for left, _ in lines) + 5
    return "\n".join(f"{left:<{wide}}{shape}" for left, shape in lines)


def _nested(c: Chain) -> str:
    text = "x"
    for k in range(len(c.maps) - 1):
        text = f"{_name(c.activations[k])}[{_sum(k, c, text)}]"
    return f"y = {_sum(len(c.maps) - 1, c, text)}"


def _units(c: Chain) -> str:
    lines, last = [], len(c.maps) - 1
    before = _numbered("x", c.dim_input)
    for k, map_ in enumerate(c.maps):
        after = _numbered("y" if k == last else f"h{k + 1}", map_.out_features)
        for d, name in enumerate(after, 1):
            terms = [] if map_.bias is None else [f"β{k}[{d}]"]
            terms += [f"Ω{k}[{d},{e}] {unit}" for e, unit in enumerate(before, 1)]
            inner = " + ".join(terms)
            lines.append(f"{name} = {inner}" if k == last else f"{name} = {_name(c.activations[k])}[{inner}]")
        before = after
    return "\n".join(lines)


def _numbered(letter: str, count: int) -> list[str]:
    if letter in "xy":
        return [letter] if count == 1 else [f"{letter}{k + 1}" for k in range(count)]
    return [f"{letter}[{k + 1}]" for k in range(count)]
