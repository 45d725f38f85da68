"""The recurrent layers of a model, as they read its rows: what went in, and every state on the way.

    s_t = step(x_t, s_{t-1}),     s the parts of a layer's state side by side                               (1)
    J_t = ∂s_t / ∂s_{t-1},     I_t = ∂s_t / ∂x_t                                                             (2)

Layers of `leadline.layers.recurrent_layers` are heard, in one direction or in both, and torch's nn.RNN, nn.LSTM and
nn.GRU, which are taken apart into their layers. A layer that is called again with the state that it left behind, as
where text is written, goes on with the same row. (2) is computed in float64 on a copy, for all steps at once: a step
depends on the state before it alone.

Legend     B rows, T steps, D channels that a layer reads, M numbers of its state
"""

from __future__ import annotations

import copy
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import PackedSequence, pad_packed_sequence

from leadline.data.sequence_inputs import Sequences
from leadline.data.tokens import Tokens
from leadline.errors import UserError
from leadline.layers.bidirectional import Bidirectional, turned
from leadline.layers.recurrent_layers import RECURRENT, from_torch
from leadline.layers.steps_there import State, put_back
from leadline.lens.tokens import Read

KINDS = tuple(RECURRENT.values())
_MOST = 2**24  # numbers of a batch of eq. 2


@dataclass(frozen=True, eq=False)
class Reading:
    """One recurrent layer and what it read.

    Args:
        name: path of the layer, with its number after it in a stack of torch's.
        layer: a copy, in float64 on the CPU.
        x: (B, T, D), in the order in which the layer read it.
        there: (B, T), which steps a row has; None where it has all.
        first: the state it began with; None where it was its own.
        y: what it gave, (B, T, D'), in the order of the row.
        back: whether it read rows from their end.
    """

    name: str
    layer: nn.Module
    x: Tensor
    there: Tensor | None
    first: State | None
    y: Tensor
    back: bool = False

    @property
    def has(self) -> Tensor:
        """Which steps a row has, (B, T)."""
        return torch.ones(self.x.shape[:2], dtype=torch.bool) if self.there is None else self.there

    def states(self) -> list[State]:
        """The state before the first step, and after each, T + 1 of them."""
        _, state = self.layer(self.x[:, :1], self.first, torch.zeros_like(self.has[:, :1]))
        passed = [state]
        for t in range(self.x.shape[1]):
            there = None if self.there is None else self.there[:, t : t + 1]
            _, state = self.layer(self.x[:, t : t + 1], state, there)
            passed.append(state)
        return passed

    def jacobians(self, steps: int) -> tuple[Tensor, Tensor]:
        """Eq. 2 of the last steps that each row has, the last first: (B, steps, M, M) and (B, steps, M, D).

        A row with fewer steps has nan from its first on.
        """
        passed = self.states()
        before = torch.stack([flat(state) for state in passed[:-1]], 1)  # (B, T, M)
        shapes = [part.shape[1:] for part in passed[0]]
        num, length, _ = before.shape
        at = torch.arange(length).expand(num, length).masked_fill(~self.has, -1).sort(1, descending=True)[0][:, :steps]
        rows = torch.arange(num)[:, None]
        x, s = self.x[rows, at], before[rows, at]  # (B, steps, ·), the last step first
        state, read = _slopes(self.layer, x.flatten(0, 1), s.flatten(0, 1), shapes)
        state, read = state.unflatten(0, at.shape), read.unflatten(0, at.shape)
        gone = (at < 0)[..., None, None]
        return state.masked_fill(gone, torch.nan), read.masked_fill(gone, torch.nan)


def flat(state: State) -> Tensor:
    """The parts of a state side by side, (B, M)."""
    return torch.cat([part.flatten(1) for part in state], 1)


def readings(seen: Read) -> list[Reading]:
    """The recurrent layers of a model in the order in which they begin, on the rows that a lens looks at.

    A layer that is not told which steps are there runs on over what fills a row at its end; it is not looked at there.

    >>> from leadline.lens.tokens import read
    >>> from leadline.models import Recurrent
    >>> [reading.name for reading in readings(read(Recurrent.tiny(), torch.ones(2, 5, dtype=torch.long)))]
    ['layers.0.branch', 'layers.1.branch']
    """
    model, x = seen.model, seen.x
    parts = dict(model.named_modules())
    heard: dict[str, list[tuple[Any, ...]]] = {}
    ways: dict[str, list[tuple[Any, ...]]] = {}
    handles = []
    for path, part in parts.items():
        owner = parts.get(path.rpartition(".")[0]) if path else None
        if isinstance(part, KINDS) or (isinstance(part, nn.RNNBase) and not isinstance(owner, KINDS)):
            handles.append(part.register_forward_hook(_listen(heard, path), with_kwargs=True))
        elif isinstance(part, Bidirectional):
            handles.append(part.register_forward_hook(_listen(ways, path), with_kwargs=True))
    try:
        model(x)
    finally:
        for handle in handles:
            handle.remove()
    found: list[Reading] = []
    for path, calls in heard.items():
        layer = parts[path]
        if isinstance(layer, nn.RNNBase):
            found += [one for call in calls for one in _taken_apart(path, layer, *call)]
        else:
            owner = path.rpartition(".")[0]
            both: Any = parts.get(owner)
            back = isinstance(both, Bidirectional) and both.back is layer
            found += _joined(path, layer, calls, [call[2] for call in ways[owner]] if back else None)
    if not found:
        names = ", ".join(RECURRENT)
        raise UserError(
            "the model must have recurrent layers",
            got=f"{type(model).__name__} without one that was called",
            do=f"Take a model with one of {names}, or torch's nn.RNN, nn.LSTM or nn.GRU",
        )
    filled = _filled(seen)
    if filled is None:
        return found
    has = ~filled
    return [replace(one, there=has) if one.there is None and one.x.shape[:2] == has.shape else one for one in found]


def _filled(seen: Read) -> Tensor | None:
    """Which places of rows hold nothing, (B, T), where the data say so."""
    x, pad = seen.x.detach().cpu(), getattr(seen.model, "pad", None)
    if isinstance(seen.inputs, Tokens):
        pad = seen.inputs.tokenizer.pad
    if isinstance(seen.inputs, Sequences):
        return x[..., -1] <= 0
    return x == pad if pad is not None and x.dim() == 2 and not x.is_floating_point() else None


def _listen(heard: dict[str, list[tuple[Any, ...]]], path: str) -> Any:
    def hook(_: Any, args: tuple[Any, ...], kwargs: dict[str, Any], out: Any) -> None:
        named = dict(zip(("x", "state", "there"), args)) | kwargs
        x = named.get("x", named.get("input"))
        heard.setdefault(path, []).append((x, named.get("state", named.get("hx")), named.get("there"), *out))

    return hook


def _joined(path: str, layer: nn.Module, calls: list[tuple[Any, ...]], turned_rows: list[Any] | None) -> list[Reading]:
    """Calls of a layer, those that go on with the state of the one before as one.

    Args:
        turned_rows: of a layer that reads from the end, which steps the rows of each call have.
    """
    rows: list[list[tuple[Any, ...]]] = []
    for call in calls:
        if rows and turned_rows is None and _goes_on(rows[-1][-1][4], call[1]):
            rows[-1].append(call)
        else:
            rows.append([call])
    found = []
    for number, row in enumerate(rows):
        x, y = (torch.cat([_plain(call[k]) for call in row], 1) for k in (0, 3))
        there = None
        if any(call[2] is not None for call in row):
            every = [torch.ones(call[0].shape[:2]) if call[2] is None else call[2] for call in row]
            there = torch.cat([one.cpu().bool() for one in every], 1)
        if turned_rows is not None:
            ahead = turned_rows[number]
            y = y.flip(1) if ahead is None else put_back(y, turned(ahead.cpu()), ahead.cpu())
        first = None if row[0][1] is None else tuple(map(_plain, row[0][1]))
        name = path if number == 0 else f"{path}, call {number + 1}"
        found.append(Reading(name, _copied(layer), x, there, first, y, turned_rows is not None))
    return found


def _goes_on(left: State, given: State | None) -> bool:
    if given is None or len(given) != len(left):
        return False
    return all(a.shape == b.shape and bool(torch.equal(a, b)) for a, b in zip(left, given, strict=True))


def _taken_apart(path: str, stack: nn.RNNBase, x: Any, state: Any, _: Any, *out: Any) -> list[Reading]:
    """The layers of a stack of torch's, each with what the one before gave it."""
    there = None
    if isinstance(x, PackedSequence):
        x, lengths = pad_packed_sequence(x, batch_first=True)
        there = torch.arange(x.shape[1]) < lengths[:, None]
    elif x.dim() == 2:
        x = x[None]
    elif not stack.batch_first:
        x = x.transpose(0, 1)
    x = _plain(x)
    given = () if state is None else state if isinstance(state, tuple) else (state,)
    parts = [_plain(part if part.dim() == 3 else part[:, None]) for part in given]
    found: list[Reading] = []
    for number, layer in enumerate(from_torch(stack)):
        layer = _copied(layer)
        ways = [layer.ahead, layer.back] if isinstance(layer, Bidirectional) else [layer]
        y, _ = layer(x, _first(parts, number, len(ways)), there)
        for k, way in enumerate(ways):
            first = tuple(part[number * len(ways) + k] for part in parts) or None
            read = x if k == 0 else _from_the_end(x, there)
            own = y if len(ways) == 1 else y.chunk(2, -1)[k]
            ends = ("", ", back")[k]
            found.append(
                Reading(f"{path or 'the model'}, layer {number + 1}{ends}", way, read, there, first, own, k == 1)
            )
        x = y
    return found


def _first(parts: list[Tensor], number: int, ways: int) -> State | None:
    own = [part[number * ways + k] for k in range(ways) for part in parts]
    return tuple(own) or None


def _from_the_end(x: Tensor, there: Tensor | None) -> Tensor:
    if there is None:
        return x.flip(1)
    order = turned(there)
    return x.gather(1, order[..., None].expand_as(x))


def _slopes(layer: nn.Module, x: Tensor, s: Tensor, shapes: list[torch.Size]) -> tuple[Tensor, Tensor]:
    """Eq. 2 of steps that stand alone, x (n, D) and s (n, M): (n, M, M) and (n, M, D).

    Each step is taken M times side by side, and each time another number of the new state is asked for its slope.
    """
    (n, width), size = x.shape, s.shape[1]
    sizes = [shape.numel() for shape in shapes]
    state, read = x.new_empty(n, size, size), x.new_empty(n, size, width)
    many = max(1, _MOST // (size * max(size, width)))
    for begin in range(0, n, many):
        own_x, own_s = x[begin : begin + many], s[begin : begin + many]
        k = len(own_x)
        with torch.enable_grad():
            wide_x = own_x[:, None].repeat(1, size, 1).flatten(0, 1).requires_grad_()
            wide_s = own_s[:, None].repeat(1, size, 1).flatten(0, 1).requires_grad_()
            parts = [part.unflatten(1, shape) for part, shape in zip(wide_s.split(sizes, 1), shapes, strict=True)]
            _, new = layer(wide_x[:, None], tuple(parts), None)
            asked = torch.eye(size, dtype=x.dtype).repeat(k, 1)
            by_state, by_x = torch.autograd.grad(flat(new), (wide_s, wide_x), asked)
        state[begin : begin + k], read[begin : begin + k] = by_state.view(k, size, size), by_x.view(k, size, width)
    return state, read


def _copied(layer: nn.Module) -> nn.Module:
    return copy.deepcopy(layer).cpu().double().eval().requires_grad_(False)


def _plain(x: Tensor) -> Tensor:
    return x.detach().cpu().double()
