"""A computation recorded as the tensor operations that it comes down to, and replayed.

    y = f(x)          modules call modules; autograd builds a graph, walks it once and throws it away
    y = tape(x)       the same kernels in the same order and nothing between them: the same bits

A small network spends half of its step between its kernels. Recording a step costs about a millisecond, so a replay
pays from the tenth step on; a compiler asks for seconds. What `f` does must follow from the shapes of its inputs
alone, which `Repeated` puts to the test before it trusts a tape.
"""

from __future__ import annotations

import functools
import operator
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, cast

import torch
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode

aten = torch.ops.aten

_SMALL = 2e-2  # seconds: a step that takes longer has nothing to gain, and a recording keeps all that it computes

#: by its name in torch an operation is called a microsecond faster than by its overload
_BY_NAME: dict[Any, Callable[..., Any]] = {
    aten.__rshift__.Scalar: operator.rshift,
    aten.add.Tensor: torch.add,
    aten.addcdiv_.default: Tensor.addcdiv_,
    aten.addcmul_.default: Tensor.addcmul_,
    aten.addmm.default: torch.addmm,
    aten.baddbmm.default: torch.baddbmm,
    aten.bitwise_and.Scalar: torch.bitwise_and,
    aten.bitwise_xor.Scalar: torch.bitwise_xor,
    aten.bitwise_xor.Tensor: torch.bitwise_xor,
    aten.bmm.default: torch.bmm,
    aten.cat.default: torch.cat,
    aten.clamp.default: torch.clamp,
    aten.div.Scalar: torch.div,
    aten.div.Tensor: torch.div,
    aten.exp.default: torch.exp,
    aten.expand.default: Tensor.expand,
    aten.gather.default: torch.gather,
    aten.index_select.default: torch.index_select,
    aten.lerp_.Scalar: Tensor.lerp_,
    aten.mm.default: torch.mm,
    aten.mul.Scalar: torch.mul,
    aten.mul.Tensor: torch.mul,
    aten.mul_.Tensor: Tensor.mul_,
    aten.neg.default: torch.neg,
    aten.relu.default: torch.relu,
    aten.sigmoid.default: torch.sigmoid,
    aten.sqrt.default: torch.sqrt,
    aten.sub.Tensor: torch.sub,
    aten.sum.dim_IntList: torch.sum,
    aten.t.default: torch.t,
    aten.tanh.default: torch.tanh,
    aten.transpose.int: torch.transpose,
    aten.unsqueeze.default: torch.unsqueeze,
    aten.view.default: Tensor.view,
    aten.where.self: torch.where,
}

Function = Callable[..., Sequence[Tensor | None]]


@dataclass(frozen=True)
class Place:
    """Where a tensor lies during a replay."""

    number: int


@dataclass(frozen=True)
class Line:
    """One operation: its results lie at `found`, a single place where it gives a single tensor."""

    call: Any
    args: tuple[Any, ...]
    named: dict[str, Any]
    found: Any

    @property
    def matters(self) -> bool:
        """Even where nothing reads its results: it changes a tensor, or there are none, as of a check."""
        return self.call._schema.is_mutable or not self.call._schema.returns


class Tape:
    """`function` of `inputs`, recorded while it runs; `found` is what it returned.

    Tensors that are neither inputs nor computed, such as weights, are taken by reference.

    Args:
        function: from tensors to a sequence of tensors; where one is None, nothing is there.
        steady: whether given tensors stay where they are in memory, so that views of them do.

    >>> w = torch.ones(3, requires_grad=True)
    >>> tape = Tape(lambda x: torch.autograd.grad((w * x).square().sum(), [w]), [torch.ones(3)])
    >>> tape(torch.tensor([1.0, 2.0, 3.0]))
    (tensor([ 2.,  8., 18.]),)
    """

    def __init__(self, function: Function, inputs: Sequence[Tensor | None], steady: bool = False):
        with _Recorder(inputs) as recorder:
            self.found = tuple(function(*inputs))
        self.obstacle = recorder.obstacle
        self.places = tuple(recorder.place(value) for value in self.found)
        self.given, self.lines = recorder.given, _needed(recorder.lines, self.places)
        self._count, self._steady = len(inputs), steady

    def __call__(self, *inputs: Tensor | None) -> tuple[Tensor | None, ...]:
        with torch._C._AutoDispatchBelowAutograd():
            return self._replay(*inputs)

    @functools.cached_property
    def _replay(self) -> Callable[..., tuple[Tensor | None, ...]]:
        return _source(self.lines, self._count, self.given, self.places, self._steady)

    def same_as(self, other: Tape) -> bool:
        """Whether both do the same, with the same numbers and the same given tensors."""
        alike = self.lines == other.lines and self.places == other.places and len(self.given) == len(other.given)
        return alike and all(
            a is b or (a.shape == b.shape and a.dtype == b.dtype and torch.equal(a, b))
            for a, b in zip(self.given, other.given, strict=True)
        )


class Repeated:
    """`function`, to be called many times: as it is at first, then from a tape for each shape of inputs.

    A tape is trusted after a second recording was the same. For `steady` see `Tape`.

    Args:
        small: whether `function` is known to be quick: a recording keeps all that it computes, and pays only then.
            Otherwise two calls are watched.
    """

    def __init__(self, function: Function, steady: bool = False, small: bool = False):
        self.function, self.steady, self.small = function, steady, small
        self._tapes: dict[Any, Tape] = {}
        self._watched: dict[Any, list[float]] = {}  # of each shape, seconds of its first calls
        self._first: dict[Any, Tape | None] = {}  # of each shape, its first recording; None where there is no tape

    def __call__(self, *inputs: Tensor | None) -> Sequence[Tensor | None]:
        shapes = tuple([None if value is None else value.shape for value in inputs])
        tape = self._tapes.get(shapes)
        return self._begin(shapes, inputs) if tape is None else tape(*inputs)

    def _begin(self, shapes: Any, inputs: Sequence[Tensor | None]) -> Sequence[Tensor | None]:
        watched = self._watched.setdefault(shapes, [0.0, 0.0] if self.small else [])
        if len(watched) < 2:  # the first may load libraries; the second says whether there is anything to gain
            start = time.perf_counter()
            found = self.function(*inputs)
            watched.append(time.perf_counter() - start)
            return found
        first = self._first.get(shapes)
        if watched[1] > _SMALL or (shapes in self._first and first is None):
            return self.function(*inputs)
        tape = Tape(self.function, inputs, self.steady)
        found, tape.found = tape.found, ()
        if tape.obstacle is not None:
            self._first[shapes] = None
        elif first is None:
            self._first[shapes] = tape
        elif tape.same_as(first):
            self._tapes[shapes] = tape
        else:
            self._first[shapes] = None
        return found


def replayable(modules: Iterable[nn.Module]) -> bool:
    """Whether all that happens in these modules is known: code of torch or of this library, and nobody listens."""
    if torch.is_anomaly_enabled() or torch.nn.modules.module._has_any_global_hook():
        return False
    for module in modules:
        for part in module.modules():
            hooks = part._forward_hooks or part._forward_pre_hooks or part._backward_hooks or part._backward_pre_hooks
            kinds = (kind.__module__ for kind in type(part).__mro__)
            if hooks or not all(name in _PLAIN or name.startswith(_KNOWN) for name in kinds):
                return False
            if getattr(part, "reads_by_value", False):
                return False
            if getattr(part, "calls_user_code", False) or not all(map(_known, vars(part).values())):
                return False
        for p in module.parameters():
            if p._backward_hooks or p._post_accumulate_grad_hooks:
                return False
    return True


def described(modules: Iterable[nn.Module]) -> Any:
    """Equal as long as the modules are the same ones, with the same numbers and modes, and nobody listens."""
    parts = [part for module in modules for part in module.modules()]
    plain = [(name, v) for part in parts for name, v in vars(part).items() if type(v) in (bool, int, float, str)]
    moving = [p.requires_grad for part in parts for p in part._parameters.values() if p is not None]
    return [*map(id, parts)], plain, moving, replayable(modules)


_KNOWN, _PLAIN = ("torch.nn.", "leadline."), ("builtins", "abc", "typing")


def _known(value: Any) -> bool:
    """Whether a part of a module is none that calls code of the user."""
    while isinstance(value, functools.partial):
        value = value.func
    if not callable(value) or isinstance(value, (type, nn.Module, Tensor)):
        return True
    where = getattr(value, "__module__", None) or type(value).__module__
    return where.split(".")[0] in ("torch", "leadline", "builtins", "math", "_operator")


class _Recorder(TorchDispatchMode):
    """Writes down every operation below autograd."""

    def __init__(self, inputs: Sequence[Tensor | None]):
        super().__init__()
        self.lines: list[Line] = []
        self.given: list[Tensor] = []
        self.obstacle: str | None = None
        self._places: dict[int, Place] = {}
        self._alive: list[Tensor | None] = []  # or another tensor might get the same id
        self._turned: dict[Place, Place] = {}
        self._count = 0
        for value in inputs:
            self._new(value)

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        return False  # else torch imports its compiler, which takes a second

    def __torch_dispatch__(self, call: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        found = call(*args, **(kwargs or {}))
        if torch.Tag.data_dependent_output in call.tags or torch.Tag.dynamic_output_shape in call.tags:
            self.obstacle = f"{call} depends on values"
        if torch.Tag.nondeterministic_seeded in call.tags:  # a generator may be set back on the way, unseen
            self.obstacle = f"{call} draws from torch's generator"
        if self.obstacle is not None:
            return found
        if args and _unchanged(found, args[0]) and not call._schema.is_mutable:
            self._new(found, self.place(args[0]))
            return found
        if call is aten.t.default:
            source = cast(Place, self.place(args[0]))
            if source in self._turned:  # turned back: autograd does so for every linear layer
                self._new(found, self._turned[source])
                return found
            self._turned[self._new(found)] = source
        args, named = self._places_in(args), {name: self._places_in(value) for name, value in (kwargs or {}).items()}
        single = isinstance(found, Tensor)
        found_at = self._result(found) if single else tuple([self._result(value) for value in found or ()])
        self.lines.append(Line(call, args, named, found_at))
        return found

    def place(self, value: Tensor | None) -> Place | None:
        """Where `value` lies; one that was never seen is given from outside."""
        if value is None:
            return None
        if id(value) not in self._places:
            self.given.append(value)
            self._new(value, Place(-len(self.given)))
        return self._places[id(value)]

    def _new(self, value: Tensor | None, place: Place | None = None) -> Place:
        if place is None:
            place, self._count = Place(self._count), self._count + 1
        self._places[id(value)] = place
        self._alive.append(value)
        return place

    def _result(self, value: Tensor | None) -> Place | None:
        if value is None:
            return None
        return self._places.get(id(value)) or self._new(value)  # an operation in place returns what it was given

    def _places_in(self, value: Any) -> Any:
        if isinstance(value, Tensor):
            return self.place(value)
        if isinstance(value, (list, tuple)):
            return type(value)([self._places_in(part) for part in value])
        return value


def _unchanged(found: Any, given: Any) -> bool:
    """Whether an operation gave back the very numbers that it was given, in the same shape: there is nothing to do."""
    return (
        isinstance(found, Tensor)
        and isinstance(given, Tensor)
        and found is not given
        and found.dtype == given.dtype
        and found.shape == given.shape
        and found.stride() == given.stride()
        and found.numel() > 0
        and (found.is_conj(), found.is_neg()) == (given.is_conj(), given.is_neg())
        and found.data_ptr() == given.data_ptr()
    )


def _needed(lines: list[Line], ends: Sequence[Place | None]) -> list[Line]:
    """Without operations whose results nobody reads."""
    read, kept = set(ends), []
    for line in reversed(lines):
        if line.matters or read.intersection(_places(line.found)):
            kept.append(line)
            read.update(_places((line.args, line.named)))
    return kept[::-1]


def _settled(lines: list[Line], ends: Sequence[Place | None]) -> list[Line]:
    """Operations that read no tensor and whose result nobody changes, such as `arange`: once is enough."""
    made = {line.found: line for line in lines if not line.matters and not any(_places((line.args, line.named)))}
    for line in lines:
        arguments = line.call._schema.arguments
        values = {a.name: value for a, value in zip(arguments, line.args, strict=False)} | line.named
        for argument in arguments:
            if argument.alias_info is not None:  # changed in place, or looked at through another shape
                for place in _places(values.get(argument.name)):
                    made.pop(place, None)
    return [line for place, line in made.items() if isinstance(place, Place) and place not in ends]


def _views(lines: list[Line]) -> list[Line]:
    """Views of what is given from outside, and views of these."""
    found: dict[Place, Line] = {}
    for line in lines:
        results = line.call._schema.returns
        looks = bool(results) and all(r.alias_info is not None and not r.alias_info.is_write for r in results)
        read = list(_places((line.args, line.named)))
        outside = bool(read) and all(place.number < 0 or place in found for place in read)
        if looks and outside and isinstance(line.found, Place):
            found[line.found] = line
    return list(found.values())


def _name(place: Place) -> str:
    return f"v{place.number}" if place.number >= 0 else f"g{-place.number}"


def _places(value: Any) -> Iterable[Place]:
    if isinstance(value, Place):
        yield value
    elif isinstance(value, dict):
        yield from _places(tuple(value.values()))
    elif isinstance(value, (list, tuple)):
        for part in value:
            yield from _places(part)


def _source(
    lines: list[Line], inputs: int, given: list[Tensor], ends: Sequence[Place | None], steady: bool
) -> Callable[..., tuple[Tensor | None, ...]]:
    """A Python function of the inputs, a line for each operation; a tensor is let go after its last use."""
    space: dict[str, Any] = {f"g{k}": tensor for k, tensor in enumerate(given, 1)}
    settled = _settled(lines, ends) + (_views(lines) if steady else [])
    tensor = lambda value: space[_name(value)] if isinstance(value, Place) else value  # noqa: E731
    for line in settled:
        space[_name(line.found)] = line.call(*map(tensor, line.args), **line.named)
    lines = [line for line in lines if line not in settled]
    last: dict[Place, int] = {}
    for at, line in enumerate(lines):
        for place in _places((line.args, line.named, line.found)):
            last[place] = at
    kept = {*ends, *(line.found for line in settled)}
    source = [f"def replay({', '.join(f'v{k}' for k in range(inputs))}):"]

    def spell(value: Any) -> str:
        if isinstance(value, Place):
            return _name(value)
        if isinstance(value, (list, tuple)) and any(_places(value)):
            inner = ", ".join(spell(part) for part in value)
            return f"[{inner}]" if isinstance(value, list) else f"({inner},)"
        if value is None or type(value) in (bool, int):
            return repr(value)
        space[name := f"c{len(space)}"] = value
        return name

    result = lambda place: spell(place) if place and place.number >= 0 else "_"  # noqa: E731 - what is given stays
    for at, line in enumerate(lines):
        space[f"f{at}"] = _BY_NAME.get(line.call, line.call)
        parts = [*map(spell, line.args), *(f"{name}={spell(value)}" for name, value in line.named.items())]
        single = not isinstance(line.found, tuple)
        to = result(line.found) if single else "".join(f"{result(place)}, " for place in line.found)
        used = _places((line.args, line.named, line.found))
        over = dict.fromkeys(place for place in used if last[place] == at and place.number >= 0 and place not in kept)
        freed = "".join(f"; {spell(place)} = None" for place in over)
        source.append(f"    {f'{to} = ' if to else ''}f{at}({', '.join(parts)}){freed}")
    source.append(f"    return ({''.join(f'{spell(place)}, ' for place in ends)})")
    exec("\n".join(source), space)
    return space["replay"]
