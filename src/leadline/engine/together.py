"""Many networks of one architecture as one computation.

    step of all = vmap(step)    over the members' weights, memories, rows and numbers        (1)

Every member is the run that it would be alone: its own first weights, order of rows, noise, rate, decay, data, best
epoch and end. Only the arithmetic is shared, so results agree with single runs up to rounding.

Members whose rows differ in number go together too: a batch is as long as the longest member's, rows that a member does
not have count for nothing, and a member that has no batch left this epoch stands still.

On a CPU members are taken a few at a time, so that what they compute stays in the cache; on a GPU all at once, several
steps in one recorded graph.
"""

from __future__ import annotations

import math
import time
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.func import functional_call, vmap

from leadline.data.data import Batch
from leadline.engine.events import EpochDone, Listener, RunEnded, RunStarted, StepsDone
from leadline.engine.feed import Feed
from leadline.engine.loop import Arriving, settled
from leadline.engine.step import Recorded, Tensors, as_traced, several, through_inductor
from leadline.layers import noise
from leadline.likelihoods.likelihood import Likelihood
from leadline.optim.gradient import Gradient
from leadline.optim.inline import Inline, step_numbers
from leadline.optim.objective import Objective
from leadline.regularize.regularizer import Regularizer
from leadline.settings import Settings

_CACHE_BYTES = 8 * 2**20  # what a chunk of members may touch in a step
_DIVERGED = 100.0  # as in the loop of a single run
_STEPS = 40  # of a recorded CUDA graph
_THREADS, _AHEAD = 4, 2  # threads that draw orders for a GPU, and for how many epochs there is room


@dataclass(eq=False)
class Member:
    """One network, ready to be trained, and what became of it.

    Args:
        history: one record an epoch.
        best_epoch: whose weights the model has at the end; 0 where nothing was validated.
        ended: finished, stopped early or diverged; "" while it is not over.
    """

    model: nn.Module
    likelihood: Likelihood
    regularizers: Sequence[Regularizer]
    settings: Settings
    train: Feed
    val: Feed | None
    history: list[dict[str, Any]] = field(default_factory=list)
    best_score: float | None = None
    best_epoch: int = 0
    stale: int = 0
    first_loss: float | None = None
    ended: str = ""

    def __post_init__(self):
        self.rule = Gradient(self.settings, regularizers=self.regularizers)
        self.rule.steps_per_epoch = self.train.steps
        self.rule.bind(self.model, self.likelihood, self.settings.epochs * self.train.steps)

    def judge(self, metrics: dict[str, float]) -> bool:
        """Whether the weights of this epoch are the best so far; equal scores prefer the later epoch."""
        likelihood = self.likelihood
        score = metrics[likelihood.headline] * (1 if likelihood.higher_is_better else -1)
        if math.isnan(score) and self.val is not None and len(self.val) == 1:  # one row has no r2
            score = -metrics.get("nll", math.nan)
        if math.isnan(score) or (self.best_score is not None and score < self.best_score):
            self.stale += 1
            return False
        self.stale = 0 if self.best_score is None or score > self.best_score else self.stale + 1
        self.best_score, self.best_epoch = score, len(self.history)
        return True


class Together:
    """Args:
    members: of one architecture, likelihood, optimizer, batch and number of epochs.
    how: "direct", "traced" or "compiled": a trace takes part of a second and saves Python's part of every step; the
        compiler takes ten and halves the rest.
    """

    def __init__(
        self, members: Sequence[Member], device: torch.device, how: str = "direct", listeners: Sequence[Listener] = ()
    ):
        self.members, self.device, self.listeners = list(members), device, listeners
        self.settings = members[0].settings
        self.plan = _Plan(self.members, device)
        size = len(members) if device.type != "cpu" else _members_together(members[0])
        count = -(-len(members) // size)
        size = -(-len(members) // count)
        self.chunks = [_Chunk(at, size, self.plan, how) for at in range(0, len(members), size)]
        self.done = 0
        self.closing: deque[tuple[_Chunk, Arriving, int, np.ndarray, bool]] = deque()

    def fit(self) -> None:
        """Train all members to their ends, and put the weights of each one's best epoch into its model."""
        total = sum(member.train.steps for member in self.members)
        self._say(RunStarted(self.settings.epochs, total))
        for epoch in range(self.settings.epochs):
            self.epoch(epoch)
            if all(member.ended for member in self.members):
                break
        for chunk in self.chunks:
            chunk.finish()
        self._say(RunEnded(max(len(member.history) for member in self.members), self.done, "finished"))

    def seconds(self, threads: int) -> float:
        """What a step of all members takes on so many CPU threads; the members stay as they are."""
        chunk, inputs = self.chunks[0], self.plan.epoch(0).inputs(self.chunks[0], range(1))
        before, now = [t.clone() for t in chunk.held], torch.get_num_threads()
        torch.set_num_threads(threads)
        chunk.call(inputs)
        took = []
        for _ in range(3):
            start = time.perf_counter()
            chunk.call(inputs)
            took.append(time.perf_counter() - start)
        torch.set_num_threads(now)
        for t, old in zip(chunk.held, before, strict=True):
            t.copy_(old)
        return min(took) * len(self.chunks)

    def epoch(self, epoch: int) -> None:
        """One pass of every member over its rows, and the validation of those for which it is due."""
        settings = self.settings
        last = epoch + 1 == settings.epochs
        validating = self.members[0].val is not None and ((epoch + 1) % settings.validate_every == 0 or last)
        plan = self.plan.epoch(epoch)
        for chunk in self.chunks:
            self.closing.append((chunk, Arriving(chunk.epoch(plan)), epoch, plan.numbers, validating))
        if plan.read is not None:
            plan.read.synchronize()  # long past: the device has had time to read the order
            for later in range(1, _AHEAD + 1):
                self.plan.orders.ahead(epoch + later)
        # on a GPU an epoch that is not validated is closed while the next one runs
        late = self.device.type == "cuda" and not (validating or last)
        while len(self.closing) > late:
            self._close()

    def _close(self) -> None:
        chunk, losses, epoch, numbers, validating = self.closing.popleft()
        chunk.close(losses.read(), epoch, numbers, validating)
        self.done += sum(member.train.steps for member in chunk.members)
        self._say(StepsDone(epoch, self.done, losses.read().flatten()))
        if chunk is self.chunks[-1]:
            self._announce(epoch + 1)

    def _announce(self, epoch: int) -> None:
        alive = [member for member in self.members if len(member.history) >= epoch]
        latest = [member.history[epoch - 1] for member in alive] or [member.history[-1] for member in self.members]
        metrics: dict[str, dict[str, float]] = {"train": {}, "spread": {}}
        for name, values in _columns([record["train"] for record in latest]).items():
            metrics["train"][name], metrics["spread"][name] = _mean(values)
        if "val" in latest[0]:
            metrics["val"] = {}
            for name, values in _columns([record["val"] for record in latest]).items():
                metrics["val"][name], metrics["spread"][name] = _mean(values)
        rate = sum(record["lr"] for record in latest) / len(latest)
        self._say(EpochDone(epoch, self.done, rate, metrics, False, torch.zeros(0)))

    def _say(self, event: Any) -> None:
        for listener in self.listeners:
            listener(event)


class _Plan:
    """Which rows each member sees in which step of an epoch.

    The rows of all members lie in one tensor; members that share their data share its rows too. `shift` says where a
    member's begin.
    """

    def __init__(self, members: Sequence[Member], device: torch.device):
        self.members, self.device = members, device
        feeds = [member.train for member in members]
        self.x, self.shift_x = _joined([feed.x for feed in feeds])
        self.y, self.shift_y = _joined([feed.y for feed in feeds])
        self.keyed = any(feed.keyed for feed in feeds)
        sizes = [feed.rows_of_batches() for feed in feeds]
        self.steps = max(map(len, sizes))
        self.sizes = np.array([[*own, *[0] * (self.steps - len(own))] for own in sizes]).T  # (steps, M)
        self.padded = bool((self.sizes != self.sizes[:, :1]).any())
        weights = [feed.weight for feed in feeds]
        self.weight: Tensor | None = None
        if any(weight is not None for weight in weights):
            full = [torch.ones(len(f), device=device) if w is None else w for f, w in zip(feeds, weights, strict=True)]
            keys = [(feed.y.data_ptr(), len(feed)) for feed in feeds]
            self.weight, _ = _joined([w.to(feeds[0].x.dtype) for w in full], keys)
        batch = feeds[0].batch
        #: slots in which every member has a full batch come first
        self.full = int((self.sizes == batch).all(1).sum())
        self.starts = np.concatenate([np.zeros((1, len(feeds)), int), self.sizes.cumsum(0)[:-1]])
        self.numbers_of, self.orders = _Numbers(members), _Orders(members, device)
        #: what was traced or compiled; chunks of one shape share it
        self.graphs: dict[Any, Callable[..., Tensor]] = {}

    def epoch(self, epoch: int) -> _Epoch:
        """Rows, noise and numbers of every step of an epoch."""
        salts = _salts(self.members, epoch) if self.keyed else np.zeros(0, np.int64)
        return _Epoch(self, self.orders(epoch), salts, self.numbers_of(epoch))


class _Epoch:
    """Args:
    orders: of each member's rows, (M, rows); those that a member does not have are 0.
    salts: of each member's noise.
    numbers: (steps, M, …) of the optimizer.
    """

    def __init__(self, plan: _Plan, orders: Tensor, salts: np.ndarray, numbers: np.ndarray):
        self.plan, self.salts, self.numbers = plan, salts, numbers
        self.orders = orders.to(plan.device, non_blocking=True)
        self.read = torch.cuda.Event() if plan.device.type == "cuda" else None
        if self.read is not None:
            self.read.record()

    def inputs(self, chunk: _Chunk, steps: range) -> dict[str, Tensor]:
        """What the steps read, each (steps, members, …)."""
        plan, own = self.plan, slice(chunk.first, chunk.first + len(chunk.members))
        sizes, starts = plan.sizes[steps.start : steps.stop, own], plan.starts[steps.start : steps.stop, own]
        width = int(sizes.max())
        masked = bool((sizes != width).any())
        orders = self.orders[own]
        if not masked:  # all alike: one slice of the stack
            at = int(starts[0, 0])
            index = orders[:, at : at + width * len(steps)].unflatten(1, (len(steps), width)).transpose(0, 1)
        else:
            places = np.minimum(starts[..., None] + np.arange(width), orders.shape[1] - 1)
            index = orders.gather(1, self._sent(torch.from_numpy(places).transpose(0, 1).flatten(1)))
            index = index.unflatten(1, (len(steps), width)).transpose(0, 1)
        found: dict[str, Tensor] = {"index": index}
        if masked:
            there = np.arange(width) < np.maximum(sizes, 1)[..., None]  # a member at rest keeps one row, and no change
            found["valid"], found["active"] = torch.from_numpy(there).to(plan.x.dtype), torch.from_numpy(sizes > 0)
        if plan.keyed:
            found["salt"] = torch.from_numpy(self.salts[own]).expand(len(steps), -1)
        found["numbers"] = torch.from_numpy(self.numbers[steps.start : steps.stop, own]).to(plan.x.dtype)
        return {name: self._sent(chunk.fill(column)) for name, column in found.items()}

    def _sent(self, column: Tensor) -> Tensor:
        """On the device; out of pinned memory, or the copy would wait for all steps before it."""
        if self.plan.device.type == "cuda" and not column.is_cuda:
            column = column.contiguous().pin_memory()
        return column.to(self.plan.device, non_blocking=True).contiguous()


class _Orders:
    """The order in which each member takes its rows, (M, rows): the very order of a single run.

    Drawing them is the host's work. For a GPU a few threads draw those of the next epoch while this one runs, by turns
    into two places that the device reads from.
    """

    def __init__(self, members: Sequence[Member], device: torch.device):
        self.members, self.cuda = members, device.type == "cuda"
        rows, ahead = max(len(member.train) for member in members), _AHEAD if self.cuda else 1
        self.rooms = [torch.zeros(len(members), rows, dtype=torch.int64, pin_memory=self.cuda) for _ in range(ahead)]
        self.settled = all(member.train.steps == 1 and not member.train.replacement for member in members)
        if self.settled:  # one batch holds all rows: their order is rounding
            for row, member in zip(self.rooms[0], members, strict=True):
                row[: len(member.train)] = torch.arange(len(member.train))
        self.places = [
            [row[: len(member.train)] for row, member in zip(room, members, strict=True)] for room in self.rooms
        ]
        self.pool = ThreadPoolExecutor(_THREADS) if self.cuda and not self.settled else None
        self.coming: dict[int, list[Future[None]]] = {}

    def __call__(self, epoch: int) -> Tensor:
        room = self.rooms[0 if self.settled else epoch % len(self.rooms)]
        if self.pool is None:
            if not self.settled:
                self._draw(epoch, range(len(self.members)))
            return room
        self._begin(epoch)
        for part in self.coming.pop(epoch):
            part.result()
        return room

    def ahead(self, epoch: int) -> None:
        """Begin to draw the order of a later epoch; the device must have read the one that lies in its place."""
        if self.pool is not None:
            self._begin(epoch)

    def _begin(self, epoch: int) -> None:
        if epoch not in self.coming:
            count = len(self.members)
            parts = [range(k * count // _THREADS, (k + 1) * count // _THREADS) for k in range(_THREADS)]
            self.coming[epoch] = [self.pool.submit(self._draw, epoch, part) for part in parts]  # type: ignore[union-attr]

    def _draw(self, epoch: int, part: range) -> None:
        generator, places = torch.Generator(), self.places[epoch % len(self.rooms)]
        for m, seed in zip(part, _salts(self.members[part.start : part.stop], epoch).tolist(), strict=True):
            self.members[m].train.write_order(places[m], generator.manual_seed(seed))


def _salts(members: Sequence[Member], epoch: int) -> np.ndarray:
    """`noise.mix_int(seed, epoch)` of every member."""
    return noise.mix_ints(np.array([member.train.seed for member in members]), epoch)


class _Numbers:
    """The optimizer's numbers for every step of an epoch, (steps, M, …)."""

    def __init__(self, members: Sequence[Member]):
        groups = [member.rule.optimizer.param_groups[0] for member in members]
        self.rules = [member.rule for member in members]
        self.adam = "betas" in groups[0]
        self.betas = groups[0].get("betas", (0.0, 0.0))
        self.lr = np.array([member.settings.lr for member in members])
        self.decay = np.array([float(group["weight_decay"]) for group in groups])
        self.momentum = np.array([float(group.get("momentum", 0.0)) for group in groups])
        self.own = np.array([member.train.steps for member in members])
        self.steps = int(self.own.max())
        self.by_length = {int(n): self.rules[int(np.argmax(self.own == n))] for n in set(self.own)}

    def __call__(self, epoch: int) -> np.ndarray:
        rates, counts = np.zeros((self.steps, len(self.own))), np.ones((self.steps, len(self.own)))
        for length, rule in self.by_length.items():
            of = self.own == length
            factors = np.array([rule.rate(epoch * length + s) / rule.settings.lr for s in range(length)])
            rates[:length, of] = factors[:, None] * self.lr[of]
            counts[:length, of] = (epoch * length + np.arange(1, length + 1))[:, None]
        return step_numbers(self.adam, self.betas, rates, counts, self.decay, self.momentum)


class _Chunk:
    """Members that move in one call.

    Args:
        first: number of the first of them.
        size: how many places there are; those beyond `members` are filled with copies of the first.
    """

    def __init__(self, first: int, size: int, plan: _Plan, how: str):
        self.members = list(plan.members[first : first + size])
        self.first, self.size, self.plan, self.how = first, size, plan, how
        template = self.members[0].rule
        columns = ["x", "y"]
        columns += ["weight"] if plan.weight is not None or plan.padded else []
        columns += ["keys"] if plan.keyed else []
        inline = Inline(template.optimizer)
        decays = any(member.rule.optimizer.param_groups[0]["weight_decay"] for member in plan.members)
        self.rule, self.update, self.columns = template, inline.update(decays), columns
        self.names = _Names.of(template, inline)
        places = [*self.members, *[self.members[0]] * (size - len(self.members))]
        named = [_named(member.rule.objective) for member in places]
        stack = lambda names: [torch.stack([own[name].detach() for own in named]) for name in names]  # noqa: E731
        parameters, buffers, fixed = (stack(part) for part in (self.names.moved, self.names.buffers, self.names.fixed))
        slots = [torch.zeros_like(p) for _ in range(self.names.slots) for p in parameters]
        self.held: Tensors = (*parameters, *slots, *buffers, *fixed)
        self.weights: dict[str, Tensor] = dict(zip(self.names.all, (*parameters, *buffers, *fixed), strict=True))
        self.best = {name: tensor.clone() for name, tensor in self.weights.items()}
        self.changed = len(parameters) + len(slots) + len(buffers)
        own = slice(first, first + len(self.members))
        shift = lambda shifts: self.fill(shifts[own]).to(plan.device)  # noqa: E731
        self.shared: dict[str, Tensor] = {"rows_x": plan.x, "rows_y": plan.y}
        self.shared |= {"shift_x": shift(plan.shift_x), "shift_y": shift(plan.shift_y)}
        if plan.weight is not None:
            self.shared["rows_weight"] = plan.weight
        self.calls: dict[Any, Callable[..., Tensor]] = {}
        self._score: _Score | None = None

    def fill(self, column: Tensor) -> Tensor:
        """Of the members, axis 0 or 1 (after that of the steps), to all places."""
        axis = 1 if column.dim() > 1 else 0
        missing = self.size - len(self.members)
        if not missing:
            return column
        first = column.narrow(axis, 0, 1)
        return torch.cat([column, first.expand(*(missing if a == axis else -1 for a in range(column.dim())))], axis)

    def epoch(self, epoch: _Epoch) -> Tensor:
        """All steps of an epoch; their losses, (steps, members)."""
        plan, losses = self.plan, []
        together = _STEPS if plan.device.type == "cuda" else 1
        if plan.full:
            inputs = epoch.inputs(self, range(plan.full))
            for at in range(0, plan.full, together):
                part = {name: column[at : at + together] for name, column in inputs.items()}
                losses.append(self.call(part))
        for s in range(plan.full, plan.steps):
            losses.append(self.call(epoch.inputs(self, range(s, s + 1))))
        return torch.cat(losses)[:, : len(self.members)]

    def call(self, inputs: dict[str, Tensor]) -> Tensor:
        """Some steps; their losses, (steps, places)."""
        key = tuple((name, tuple(column.shape)) for name, column in inputs.items())
        if key not in self.calls:
            self.calls[key] = self._prepare(inputs)
        return self.calls[key](*inputs.values())

    def _prepare(self, inputs: dict[str, Tensor]) -> Callable[..., Tensor]:
        held = (*self.held, *self.shared.values())
        step = lambda *flat: self._all(list(inputs), flat)  # noqa: E731
        count = len(next(iter(inputs.values())))
        one = tuple(column[0].to(self.plan.device) for column in inputs.values())
        full = inputs["index"].shape[2] == self.members[0].train.batch and "valid" not in inputs
        with torch.no_grad():
            key = tuple((t.shape, t.dtype) for t in (*held, *one))
            run: Callable[..., Tensor] = step
            if self.how != "direct":
                if key not in self.plan.graphs:
                    make = through_inductor if self.how == "compiled" and full else as_traced
                    self.plan.graphs[key] = make(step, (*held, *one))
                run = self.plan.graphs[key]
            if self.plan.device.type == "cuda":
                whole = tuple(column.to(self.plan.device) for column in inputs.values())
                return Recorded(lambda *flat: several(run, len(held), flat), held, whole)

        def calls(*columns: Tensor) -> Tensor:
            with torch.no_grad():
                return torch.stack([run(*held, *(c[k] for c in columns)) for k in range(count)])

        return calls

    def _all(self, names: list[str], flat: Tensors) -> Tensor:
        """Eq. 1 for flat tensors: what is held, the rows of all members, and the inputs of this step."""
        count = len(self.held)
        held, rest = flat[:count], dict(zip([*self.shared, *names], flat[count:], strict=True))
        index = rest["index"]

        def take(rows: Tensor, shift: Tensor) -> Tensor:
            return rows.index_select(0, (index + shift[:, None]).flatten()).view(*index.shape, *rows.shape[1:])

        batch = [take(rest["rows_x"], rest["shift_x"]), take(rest["rows_y"], rest["shift_y"])]
        if "weight" in self.columns:
            valid = rest.get("valid", torch.ones(index.shape, dtype=batch[0].dtype, device=index.device))
            weight = take(rest["rows_weight"], rest["shift_y"]) if "rows_weight" in rest else None
            batch.append(valid if weight is None else valid * weight)
        if "keys" in self.columns:
            batch.append(noise.mix(noise.mix(index) ^ rest["salt"][:, None]))
        resting = "active" in rest
        before = [t.clone() for t in held[: self.changed]] if resting else []
        losses = self._move(held, batch, rest["numbers"])
        for t, old in zip(held, before, strict=False):
            t.copy_(torch.where(rest["active"].view(-1, *[1] * (t.dim() - 1)), t, old))
        return losses

    def _move(self, held: Tensors, batch: list[Tensor], numbers: Tensor) -> Tensor:
        """Members do not touch one another: the gradient of the sum of their losses is that of each."""
        names = self.names
        rest = iter(held)
        take = lambda like: [next(rest) for _ in like]  # noqa: E731
        parameters, slots = take(names.moved), [take(names.moved) for _ in range(names.slots)]
        buffers, fixed = take(names.buffers), take(names.fixed)

        def loss(moved: list[Tensor], kept: list[Tensor], fixed: list[Tensor], *columns: Tensor) -> Any:
            fresh = {name: b.clone() for name, b in zip(names.buffers, kept, strict=True)}  # training may change them
            values = dict(zip((*names.moved, *names.fixed), (*moved, *fixed), strict=True))
            rows = Batch(**dict(zip(self.columns, columns, strict=True)))
            with self.rule.autocast(rows):
                return functional_call(self.rule.objective, (values, fresh), (rows,)), list(fresh.values())

        with torch.enable_grad():
            leaves = [p.detach().requires_grad_() for p in parameters]
            losses, fresh = vmap(loss, randomness="different")(leaves, buffers, fixed, *batch)
            gradients = list(torch.autograd.grad(losses.sum(), leaves))
        with torch.no_grad():
            if (clip := self.rule.settings.clip) is not None:
                norm = torch.stack([g.flatten(1).square().sum(1) for g in gradients]).sum(0).sqrt()
                factor = (clip / (norm + 1e-6)).clamp(max=1.0)
                gradients = [g * factor.view(-1, *[1] * (g.dim() - 1)) for g in gradients]
            self.update(parameters, slots, gradients, numbers)
            for b, new in zip(buffers, fresh, strict=True):
                b.copy_(new)
        return losses.detach()

    # ── the end of an epoch ──

    def close(self, losses: Tensor, epoch: int, numbers: np.ndarray, validating: bool) -> None:
        """Record the epoch of every member that is not over, keep its weights if they are its best, end it if due."""
        plan, own = self.plan, slice(self.first, self.first + len(self.members))
        sizes, values = plan.sizes[:, own], losses.double().cpu().numpy()
        shares = sizes / sizes.sum(0)
        if plan.weight is not None:
            for m, member in enumerate(self.members):
                shares[: member.train.steps, m] = member.train.shares(epoch).numpy()
        means = np.where(sizes > 0, values * shares, 0.0).sum(0).tolist()
        steps = (sizes > 0).sum(0)
        rates = numbers[steps - 1, np.arange(own.start, own.stop), 0].tolist()
        begins = values[0].tolist()
        metrics = self.score() if validating else None
        improved = []
        for m, (member, mean) in enumerate(zip(self.members, means, strict=True)):
            if member.ended:
                continue
            record: dict[str, Any] = {"epoch": epoch + 1, "step": (epoch + 1) * int(steps[m]), "lr": rates[m]}
            record["train"] = {"loss": mean}
            if metrics is not None:
                record["val"] = metrics[m]
            member.history.append(record)
            member.first_loss = begins[m] if member.first_loss is None else member.first_loss
            if not math.isfinite(mean) or mean > _DIVERGED * (abs(member.first_loss) + 1):
                member.ended = "diverged"
                continue
            if metrics is not None and member.judge(metrics[m]):
                improved.append(m)
            patience = member.settings.patience
            if patience is not None and member.stale >= patience:
                member.ended = "stopped early"
            elif epoch + 1 == member.settings.epochs:
                member.ended = "finished"
        if improved:
            index = torch.tensor(improved, device=plan.device)
            for name, tensor in self.weights.items():
                self.best[name].index_copy_(0, index, tensor.index_select(0, index))

    def score(self) -> list[dict[str, float]]:
        """Each member's metrics on its validation rows."""
        if self._score is None:
            self._score = _Score(self)
        return self._score()

    def finish(self) -> None:
        """Put each member's best weights into its model; where nothing judges, its newest, or its first if it broke."""
        with torch.no_grad():
            for m, member in enumerate(self.members):
                newest = member.val is None and member.ended != "diverged"
                for name, tensor in _named(member.rule.objective).items():
                    tensor.copy_((self.weights if newest else self.best)[name][m])
        for member in self.members:
            if member.best_epoch:
                settled(member.model, member.likelihood, member.train, member.val)


class _Score:
    """Metrics of a chunk's members on their validation rows, all at once."""

    def __init__(self, chunk: _Chunk):
        self.chunk = chunk
        feeds = [member.val for member in chunk.members if member.val is not None]
        self.counts = [len(feed) for feed in feeds]
        most = max(self.counts)
        pad = lambda t: torch.cat([t, t[:1].expand(most - len(t), *t.shape[1:])])  # noqa: E731
        shared = len({feed.x.data_ptr() for feed in feeds}) == len({feed.y.data_ptr() for feed in feeds}) == 1
        self.axis = None if shared else 0
        columns = [(feed.x, feed.y) for feed in feeds]
        if shared:
            self.x, self.y = columns[0]
        else:
            filled = [*columns, *[columns[0]] * (chunk.size - len(columns))]
            self.x, self.y = (torch.stack([pad(pair[k]) for pair in filled]) for k in (0, 1))
        self.weight = torch.zeros(len(feeds), most, dtype=torch.float64, device=self.x.device)
        for m, feed in enumerate(feeds):
            self.weight[m, : len(feed)] = 1.0 if feed.weight is None else feed.weight.double()
        template = chunk.members[0]
        self.module = _Measured(template.model, template.likelihood)
        self.names = [name for name in chunk.weights if name.startswith(("model.", "likelihood."))]

    def _all(self, *flat: Tensor) -> Tensor:
        *held, x, y = flat
        one = lambda x, y, *values: functional_call(  # noqa: E731
            self.module, dict(zip(self.names, values, strict=True)), (x, y)
        )
        return vmap(one, in_dims=(self.axis, self.axis, *[0] * len(held)))(x, y, *held)

    @torch.no_grad()
    def __call__(self) -> list[dict[str, float]]:
        modes = [(module, module.training) for module in self.module.modules()]
        self.module.eval()
        values = self._all(*(self.chunk.weights[name] for name in self.names), self.x, self.y)  # (M, measures, rows)
        for module, mode in modes:
            module.training = mode
        values = torch.where(self.weight[:, None] > 0, values[: len(self.counts)].double(), 0.0)
        means = ((values * self.weight[:, None]).sum(-1) / self.weight.sum(1)[:, None]).tolist()  # as for one run
        found = [dict(zip(self.module.names, row, strict=True)) for row in means]
        return [member.likelihood.summary(row) for member, row in zip(self.chunk.members, found, strict=True)]


class _Measured(nn.Module):
    """What is averaged over validation rows, (measures, rows)."""

    def __init__(self, model: nn.Module, likelihood: Likelihood):
        super().__init__()
        self.model, self.likelihood = model, likelihood
        self.names: list[str] = []

    def forward(self, x: Tensor, y: Tensor) -> Tensor:
        measures = self.likelihood.measures(self.model(x), y)
        self.names = list(measures)
        return torch.stack([value.to(x.dtype) for value in measures.values()])


@dataclass(frozen=True)
class _Names:
    """What a member holds: parameters that move, how many memories of each, buffers, parameters that do not move."""

    moved: tuple[str, ...]
    slots: int
    buffers: tuple[str, ...]
    fixed: tuple[str, ...]

    @classmethod
    def of(cls, rule: Gradient, inline: Inline) -> _Names:
        moves = {id(p) for p in inline.parameters}
        named = dict(rule.objective.named_parameters())
        moved = tuple(name for name, p in named.items() if id(p) in moves)
        fixed = tuple(name for name, p in named.items() if id(p) not in moves)
        return cls(moved, len(inline.slots), tuple(dict(rule.objective.named_buffers())), fixed)

    @property
    def all(self) -> tuple[str, ...]:
        return (*self.moved, *self.buffers, *self.fixed)


def _named(objective: Objective) -> dict[str, Tensor]:
    return {**dict(objective.named_parameters()), **dict(objective.named_buffers())}


def _joined(tensors: list[Tensor], keys: list[Any] | None = None) -> tuple[Tensor, Tensor]:
    """Distinct tensors one after the other, and where each one's rows begin; `keys` say which are the same."""
    keys = keys or [(tensor.data_ptr(), len(tensor)) for tensor in tensors]
    distinct = dict(zip(reversed(keys), reversed(tensors), strict=True))
    starts, at = {}, 0
    for key, tensor in distinct.items():
        starts[key], at = at, at + len(tensor)
    whole = next(iter(distinct.values())) if len(distinct) == 1 else torch.cat(list(distinct.values()))
    return whole, torch.tensor([starts[key] for key in keys])


def _members_together(member: Member) -> int:
    """How many members' weights and activations fit into the cache at once."""
    widths = sum(p.shape[0] for p in member.model.parameters() if p.dim() > 1)
    weights = sum(p.numel() for p in member.model.parameters())
    touched = 4 * (4 * weights + 4 * member.train.batch * (widths + member.train.x[0].numel()))
    return max(1, _CACHE_BYTES // touched)


def _columns(records: list[dict[str, float]]) -> dict[str, list[float]]:
    return {name: [record[name] for record in records] for name in records[0]}


def _mean(values: list[float]) -> tuple[float, float]:
    """Mean and standard deviation of those that are finite."""
    finite = np.array([value for value in values if math.isfinite(value)] or [math.nan])
    return float(finite.mean()), float(finite.std())
