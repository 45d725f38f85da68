"""Members of a population that move in one call.

    step of all = vmap(step)    over the members' weights, memories, rows and numbers        (1)

Members do not touch one another, so the gradient of the sum of their losses is that of each: one backward pass.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, cast

import numpy as np
import torch
from torch import Tensor
from torch.func import functional_call, vmap

from leadline.data.data import Batch
from leadline.engine.batched import linear_by_members
from leadline.engine.fused import Moves, fused, obstacle
from leadline.engine.loop import DIVERGED, settled
from leadline.engine.member import named
from leadline.engine.plan import Plan, PlannedEpoch
from leadline.engine.scoring import Score
from leadline.engine.step import Recorded, Tensors, several, through_inductor
from leadline.optim.gradient import Gradient
from leadline.optim.inline import Inline
from leadline.optim.tape import Repeated, replayable

_STEPS = 40  # of a recorded CUDA graph
_LINE = 4  # numbers
_WINDOW_BYTES = 8 * 2**20  # of rows that are gathered at once


class Chunk:
    """Members that move in one call.

    Args:
        first: number of the first of them.
        size: how many places there are; those beyond `members` are filled with copies of the first.
    """

    def __init__(self, first: int, size: int, plan: Plan, compiled: bool):
        self.members = list(plan.members[first : first + size])
        self.size, self.plan, self.compiled = size, plan, compiled
        template = self.members[0].rule
        inline = Inline(template.optimizer)
        self.decays = any(member.rule.optimizer.param_groups[0]["weight_decay"] for member in plan.members)
        self.rule, self.update, self.names = template, inline.update(self.decays), Names.of(template, inline)
        places = [*self.members, *[self.members[0]] * (size - len(self.members))]
        tensors = [named(member.rule.objective) for member in places]
        stack = lambda names: [torch.stack([own[name].detach() for own in tensors]) for name in names]  # noqa: E731
        parameters, buffers, fixed = (stack(part) for part in (self.names.moved, self.names.buffers, self.names.fixed))
        self.layout = Layout.of([p.shape[1:] for p in parameters])
        moved = self.layout.joined(parameters)  # so that an update is a few operations, however many layers there are
        slots = [torch.zeros_like(moved) for _ in range(self.names.slots)]
        self.held: Tensors = (moved, *slots, *buffers, *fixed)
        self.kept: Tensors = (moved, *buffers)  # what makes a member what it is
        self.best: Tensors = tuple(tensor.clone() for tensor in self.kept)
        self.weights = {**self._by_name(self.kept), **dict(zip(self.names.fixed, fixed, strict=True))}
        self.changed = 1 + len(slots) + len(buffers)
        self.own = slice(first, first + len(self.members))
        shift = lambda shifts: self.fill(shifts[self.own]).to(plan.device)  # noqa: E731
        self.shared: dict[str, Tensor] = {"rows_x": plan.x, "rows_y": plan.y}
        self.shared |= {"shift_x": shift(plan.shift_x), "shift_y": shift(plan.shift_y)}
        if plan.weight is not None:
            self.shared["rows_weight"] = plan.weight
        self.calls: dict[Any, Callable[..., Tensor]] = {}
        self._score: Score | None = None

    def _by_name(self, kept: Tensors) -> dict[str, Tensor]:
        """Parameters and buffers of all places, stacked; views."""
        names = (*self.names.moved, *self.names.buffers)
        return dict(zip(names, (*self.layout.views(kept[0]), *kept[1:]), strict=True))

    def fill(self, column: Tensor) -> Tensor:
        """Of the members, axis 0 or 1 (after that of the steps), to all places."""
        axis = 1 if column.dim() > 1 else 0
        missing = self.size - len(self.members)
        if not missing:
            return column
        first = column.narrow(axis, 0, 1)
        return torch.cat([column, first.expand(*(missing if a == axis else -1 for a in range(column.dim())))], axis)

    def epoch(self, epoch: PlannedEpoch) -> Tensor:
        """All steps of an epoch; their losses, (steps, members)."""
        plan, losses = self.plan, []
        if plan.full:
            inputs = epoch.inputs(self.own, self.fill, range(plan.full))
            together = _STEPS if plan.device.type == "cuda" else self._window(inputs["index"])
            for at in range(0, plan.full, together):
                losses.append(self.call({name: column[at : at + together] for name, column in inputs.items()}))
        for s in range(plan.full, plan.steps):
            losses.append(self.call(epoch.inputs(self.own, self.fill, range(s, s + 1))))
        return torch.cat(losses)[:, : len(self.members)]

    def _window(self, index: Tensor) -> int:
        """Of how many steps the rows are gathered at once."""
        row = self.plan.x[0].numel() * self.plan.x.element_size() if len(self.plan.x) else 1
        return max(1, _WINDOW_BYTES // max(1, row * index[0].numel()))

    def call(self, inputs: dict[str, Tensor]) -> Tensor:
        """Some steps; their losses, (steps, places)."""
        on_cpu = self.plan.device.type == "cpu"
        if on_cpu:  # a GPU gathers as it goes
            inputs = {**self._rows(inputs["index"], self.shared), **inputs}
            del inputs["index"]
        key = tuple((name, tuple(column.shape)[on_cpu:]) for name, column in inputs.items())
        if key not in self.calls:
            self.calls[key] = self._prepare(inputs)
        return self.calls[key](*inputs.values())

    def _rows(self, index: Tensor, shared: dict[str, Tensor]) -> dict[str, Tensor]:
        """The rows of all members, (…, members, rows of a batch, …)."""

        def take(rows: Tensor, shift: Tensor) -> Tensor:
            return rows.index_select(0, (index + shift[:, None]).flatten()).view(*index.shape, *rows.shape[1:])

        found = {"x": take(shared["rows_x"], shared["shift_x"]), "y": take(shared["rows_y"], shared["shift_y"])}
        if "rows_weight" in shared:
            found["weight"] = take(shared["rows_weight"], shared["shift_y"])
        return found

    def _prepare(self, inputs: dict[str, Tensor]) -> Callable[..., Tensor]:
        names, device = list(inputs), self.plan.device
        held = (*self.held, *self.shared.values()) if "index" in inputs else self.held
        size = inputs["index" if "index" in inputs else "y"].shape[2]
        compiled = self.compiled and size == self.members[0].train.batch and "valid" not in inputs
        if self.compiled and device.type == "cuda" and self._obstacle(inputs) is None:
            return self._in_one_kernel(inputs)
        one: Callable[..., Tensor] = lambda *flat: self._all(names, flat)  # noqa: E731
        with torch.no_grad():
            if compiled:
                one = self._compiled(one, (*held, *(column[0].to(device) for column in inputs.values())))
            if device.type == "cuda":
                whole = tuple(column.to(device) for column in inputs.values())
                return Recorded(lambda *flat: several(one, len(held), flat), held, whole)
        run = lambda *columns: one(*held, *columns)  # noqa: E731
        if not compiled and replayable([self.rule.objective]):
            repeated = Repeated(lambda *columns: (one(*held, *columns),), steady=True, small=True)
            run = lambda *columns: cast(Tensor, repeated(*columns)[0])  # noqa: E731

        def calls(*columns: Tensor) -> Tensor:
            with torch.no_grad():
                return torch.stack([run(*row) for row in zip(*columns, strict=True)])

        return calls

    def _compiled(self, step: Callable[..., Tensor], flat: Tensors) -> Callable[..., Tensor]:
        """A step of flat tensors through the compiler. Chunks of one shape share it."""
        key = tuple((t.shape, t.dtype) for t in flat)
        if key not in self.plan.compiled:
            tupled = through_inductor(lambda *flat: (step(*flat),), flat)
            self.plan.compiled[key] = lambda *flat: tupled(*flat)[0]
        return self.plan.compiled[key]

    def _obstacle(self, inputs: dict[str, Tensor]) -> str | None:
        """Why the steps cannot be one kernel, or None."""
        if "valid" in inputs or "rows_weight" in self.shared or self.names.buffers or self.names.fixed:
            return "rows that do not count, weights of rows, or buffers"
        chain = getattr(self.rule.objective.model, "chain", lambda: None)()
        objective, clip = self.rule.objective, self.rule.settings.clip
        return obstacle(chain, objective.likelihood, self.held[0].dtype, clip, objective.plain)

    def _in_one_kernel(self, inputs: dict[str, Tensor]) -> Callable[..., Tensor]:
        group, objective = self.rule.optimizer.param_groups[0], self.rule.objective
        run = fused(
            objective.model.chain(),  # type: ignore[operator]
            dict(zip(self.names.moved, self.layout.starts, strict=True)),
            objective.likelihood,
            Moves.of(group, self.decays),
            inputs["index"].shape[2],
        )
        moved, *slots = self.held

        def calls(*columns: Tensor) -> Tensor:
            own = dict(zip(inputs, columns, strict=True))
            return run(
                moved, slots, tuple(self.shared.values()), own["index"], own.get("keys", own["index"]), own["numbers"]
            )

        return calls

    def _all(self, names: list[str], flat: Tensors) -> Tensor:
        """Eq. 1 for flat tensors: what is held, the rows of all members where they are to be gathered, and inputs."""
        held, rest = flat[: len(self.held)], flat[len(self.held) :]
        own = dict(zip([*(self.shared if "index" in names else ()), *names], rest, strict=True))
        batch = self._rows(own["index"], own) if "index" in own else {}
        batch |= {name: own[name] for name in ("x", "y", "weight", "keys") if name in own}
        if "valid" in own:
            batch["weight"] = own["valid"] * batch["weight"] if "weight" in batch else own["valid"]
        resting = "active" in own
        before = [t.clone() for t in held[: self.changed]] if resting else []
        losses = self._move(held, batch, own["numbers"])
        for t, old in zip(held, before, strict=False):
            t.copy_(torch.where(own["active"].view(-1, *[1] * (t.dim() - 1)), t, old))
        return losses

    def _move(self, held: Tensors, batch: dict[str, Tensor], numbers: Tensor) -> Tensor:
        names, slots = self.names, self.names.slots
        moved, memory = held[0], list(held[1 : 1 + slots])
        buffers, fixed = held[1 + slots : self.changed], held[self.changed :]

        def loss(parameters: list[Tensor], kept: Tensors, fixed: Tensors, *columns: Tensor) -> Any:
            fresh = {name: b.clone() for name, b in zip(names.buffers, kept, strict=True)}  # training may change them
            values = dict(zip((*names.moved, *names.fixed), (*parameters, *fixed), strict=True))
            rows = Batch(**dict(zip(batch, columns, strict=True)))
            with self.rule.autocast(rows):
                return functional_call(self.rule.objective, (values, fresh), (rows,)), list(fresh.values())

        with torch.enable_grad():
            leaves = [p.detach().requires_grad_() for p in self.layout.views(moved)]
            with linear_by_members():
                losses, fresh = vmap(loss, randomness="different")(leaves, buffers, fixed, *batch.values())
            each = torch.ones(len(losses), dtype=losses.dtype, device=losses.device)
            gradients = torch.autograd.grad(losses, leaves, each)
        with torch.no_grad():
            gradient = self.layout.joined(gradients)
            if (clip := self.rule.settings.clip) is not None:
                norm = gradient.square().sum(1, keepdim=True).sqrt()
                gradient = gradient * (clip / (norm + 1e-6)).clamp(max=1.0)
            self.update([moved], [[slot] for slot in memory], [gradient], numbers)
            for b, new in zip(buffers, fresh, strict=True):
                b.copy_(new)
        return losses.detach()

    # ── the end of an epoch ──

    def close(self, losses: Tensor, epoch: int, numbers: np.ndarray, validating: bool) -> None:
        """Record the epoch of every member that is not over, keep its weights if they are its best, end it if due."""
        plan, own = self.plan, self.own
        sizes, values = plan.sizes[:, own], losses.double().cpu().numpy()
        shares = sizes / sizes.sum(0)
        if plan.weight is not None:
            for m, member in enumerate(self.members):
                shares[: member.train.steps, m] = member.train.shares(epoch).numpy()
        means = np.where(sizes > 0, values * shares, 0.0).sum(0)
        if epoch == 0:
            for member, begin in zip(self.members, values[0].tolist(), strict=True):
                member.first_loss = begin
        firsts = np.array([member.first_loss for member in self.members])
        sound = means <= DIVERGED * (np.abs(firsts) + 1)  # what is not a number is not
        steps = (sizes > 0).sum(0)
        rates = numbers[steps - 1, np.arange(own.start, own.stop), 0]
        metrics = self.score() if validating else None
        last, improved = epoch + 1 == self.rule.settings.epochs, []
        columns = (column.tolist() for column in (steps * (epoch + 1), rates, means, sound))
        for m, (member, step, rate, mean, fine) in enumerate(zip(self.members, *columns, strict=True)):
            if member.ended:
                continue
            record: dict[str, Any] = {"epoch": epoch + 1, "step": step, "lr": rate, "train": {"loss": mean}}
            member.history.append(record)
            if metrics is not None:
                record["val"] = metrics[m]
            if not fine:
                member.ended = "diverged"
            elif metrics is not None:
                if member.judge(metrics[m]):
                    improved.append(m)
                patience = member.settings.patience
                if patience is not None and member.stale >= patience:
                    member.ended = "stopped early"
            if last:
                member.ended = member.ended or "finished"
        if improved:
            index = torch.tensor(improved, device=plan.device)
            for best, tensor in zip(self.best, self.kept, strict=True):
                best.index_copy_(0, index, tensor.index_select(0, index))

    def score(self) -> list[dict[str, float]]:
        """Each member's metrics on its validation rows."""
        if self._score is None:
            self._score = Score(self.members, self.size, self.weights)
        return self._score()

    def finish(self) -> None:
        """Put each member's best weights into its model; where nothing judges, its newest, or its first if it broke."""
        best, newest = self._by_name(self.best), self._by_name(self.kept)
        with torch.no_grad():
            for m, member in enumerate(self.members):
                chosen = newest if member.val is None and member.ended != "diverged" else best
                own = named(member.rule.objective)
                for name, stacked in chosen.items():
                    own[name].copy_(stacked[m])
        for member in self.members:
            if member.best_epoch:
                settled(member.model, member.likelihood, member.train, member.val)


@dataclass(frozen=True)
class Names:
    """What a member holds: parameters that move, how many memories of each, buffers that may change, and the rest."""

    moved: tuple[str, ...]
    slots: int
    buffers: tuple[str, ...]
    fixed: tuple[str, ...]

    @classmethod
    def of(cls, rule: Gradient, inline: Inline) -> Names:
        moves = {id(p) for p in inline.parameters}
        parameters, buffers = dict(rule.objective.named_parameters()), dict(rule.objective.named_buffers())
        saved = rule.objective.state_dict().keys()  # others are constants, such as the unit of y
        return cls(
            tuple(name for name, p in parameters.items() if id(p) in moves),
            len(inline.slots),
            tuple(name for name in buffers if name in saved),
            (
                *(name for name, p in parameters.items() if id(p) not in moves),
                *(name for name in buffers if name not in saved),
            ),
        )


@dataclass(frozen=True)
class Layout:
    """Where parameters lie in one row of numbers: each at a multiple of 16 bytes, as matrix kernels like it."""

    shapes: tuple[torch.Size, ...]
    starts: tuple[int, ...]
    length: int

    @classmethod
    def of(cls, shapes: list[torch.Size]) -> Layout:
        starts, at = [], 0
        for shape in shapes:
            starts.append(at)
            at += -(-shape.numel() // _LINE) * _LINE
        return cls(tuple(shapes), tuple(starts), at)

    def views(self, whole: Tensor) -> list[Tensor]:
        """The parameters in a stack of such rows, (places, length)."""
        parts = zip(self.shapes, self.starts, strict=True)
        return [whole[:, at : at + shape.numel()].view(-1, *shape) for shape, at in parts]

    def joined(self, parts: Sequence[Tensor]) -> Tensor:
        """A stack of such rows out of the parameters."""
        columns: list[Tensor] = []
        for part in parts:
            columns.append(part.flatten(1) if part.dim() > 1 else part[:, None])
            missing = -columns[-1].shape[1] % _LINE
            if missing:
                columns.append(part.new_zeros(len(part), missing))
        return torch.cat(columns, 1)
