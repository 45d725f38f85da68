"""Rosenblatt's rule: row by row, and only mistakes teach (Rosenblatt, 1958).

    on y (wᵀx + b) <= 0:   w <- w + y x,   b <- b + y                  (1)   a score of 0 is a mistake
    after t mistakes, for any unit vector u with margin γ:             (2)   u, w with the bias as a last entry
        uᵀ w >= t γ                        alignment grows with t
        |w|² <= t R²                       length only with √t         hence t <= R² / γ²  (Novikoff, 1962)

The order is that of the epoch, and the result does not depend on how rows are batched. Between two mistakes w stands
still: so the next mistake is found by a matrix product over rows ahead, as many as mistakes are rare.

It ends when an epoch has no mistake. Where no plane separates the classes it never does; then the pocket holds the
weights that went longest without a mistake (Gallant, 1990).

Notation   t -> updates;  |w|² -> norm2;  uᵀw -> alignment;  R -> radius, of the rows seen so far;  y -> code 0 is -1
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from leadline.config import Configured, plain
from leadline.data.account import counted
from leadline.data.data import Batch, Stacked
from leadline.errors import DataError, ShapeError, UserError
from leadline.likelihoods.likelihood import Likelihood
from leadline.models.perceptron import Perceptron
from leadline.models.separability import Separation
from leadline.optim.rule import Rule
from leadline.settings import whole

_LEAST, _MOST = 16, 8192  # rows looked ahead


class PerceptronRule(Rule, Configured):
    """Args:
        separation: what `leadline.models.separate` found of the training rows, or its fields as a run's record holds
            them; its plane is u of (2).
        keep: how many of the first mistakes `trace` records, at least 0.

    >>> import leadline as ll
    >>> rule = ll.optim.PerceptronRule()
    >>> data = ll.data.separable(margin=0.2)
    >>> run = ll.fit(ll.models.Perceptron(2, bias=False), data, rule=rule, epochs=20, progress=False)
    >>> run.evaluate("train")["accuracy"], rule.updates <= (1 / 0.2) ** 2
    (1.0, True)
    """

    steps_per_call = 64
    #: batches an epoch, told before `bind`; 0 leaves it to whoever steps by hand to call `close_epoch`
    steps_per_epoch: int = 0

    def __init__(self, separation: Separation | Mapping[str, Any] | None = None, keep: int = 10_000):
        if isinstance(separation, Mapping):
            w = separation["w"]
            w = None if w is None else torch.tensor(w, dtype=torch.float64)
            separation = Separation(**{**separation, "w": w})
        self.separation, self.keep = separation, whole("keep", keep, 0, usual=10_000)
        self.updates = self.mistakes = self.epochs = self._run = 0
        self.radius2 = 0.0
        self.finished = False
        self.pocket: Pocket | None = None
        self._trace: list[np.ndarray] = []
        self._kept = 0

    @property
    def config(self) -> dict[str, Any]:
        found = self.separation
        if found is None:
            return {"separation": None, "keep": self.keep}
        w = None if found.w is None else found.w.tolist()
        return plain({"separation": {**asdict(found), "w": w}, "keep": self.keep})

    def bind(self, model: nn.Module, likelihood: Likelihood, total_steps: int) -> None:
        if not isinstance(model, Perceptron):
            raise UserError(
                "PerceptronRule trains a Perceptron",
                got=f"a model of type {type(model).__name__}",
                do="Use ll.models.Perceptron, or leave the rule out",
            )
        if model.dim_output != 1:
            raise ShapeError(
                "PerceptronRule separates two classes with one unit",
                got=f"dim_output={model.dim_output}",
                do="Use dim_output=1, or leave the rule out: gradient descent takes any number of classes",
            )
        self.model = model
        self.steps_per_call = _together(self.steps_per_epoch) if self.steps_per_epoch else 64
        u = self.separation.w if self.separation is not None else None
        if u is not None and (u.numel() != model.dim_input or self.separation.bias != (model.bias is not None)):  # type: ignore[union-attr]
            raise ShapeError(
                "the separation must be of rows like the model's",
                got=f"a plane in {counted(u.numel(), 'dimension')}, bias {self.separation.bias}",  # type: ignore[union-attr]
                do="Call ll.models.separate(x, y, bias=…) on the rows that the network reads",
            )
        self._u = None if u is None else u.numpy()

    # ── the rule ──

    def step(self, batch: Batch, index: int) -> Tensor:
        return self.steps([batch], index)[0]

    def steps(self, batches: Sequence[Batch], index: int) -> Tensor:
        if isinstance(batches, Stacked):  # rows in one piece, in order
            rows = batches.columns.map(lambda column: column.flatten(0, 1))
            losses = self._learn(rows, len(batches))
        else:
            losses = torch.cat([self._learn(batch, 1) for batch in batches])
        if self.steps_per_epoch and (index + len(batches)) % self.steps_per_epoch == 0:
            self.close_epoch()
        return losses

    def close_epoch(self) -> None:
        """An epoch is over; one without a mistake was the last."""
        self.epochs += 1
        self.finished, self.mistakes = self.mistakes == 0, 0
        self.latest_is_best = self.finished  # weights that part all training rows are the answer

    @torch.no_grad()
    def _learn(self, rows: Batch, batches: int) -> Tensor:
        """Eq. 1 for rows in order; for each batch the mean of max(0, -y (wᵀx + b)), each row scored as it came."""
        if rows.weight is not None:
            raise DataError(
                "PerceptronRule cannot weigh rows", got="weights of rows", do="Leave them out, or name an optimizer"
            )
        model = self.model
        w = model.weight[0].cpu().numpy() if model.weight.is_cuda else model.weight.detach()[0].numpy()
        b = self._bias
        x, y = rows.x.flatten(1).cpu().numpy(), _labels(rows.y)
        before = (self.norm2, self.alignment or 0.0) if self._kept < self.keep else (0.0, 0.0)
        at, score, b = self._sweep(w, b, x, y)
        if model.weight.is_cuda:
            model.weight[0] = torch.from_numpy(w)
        if model.bias is not None:
            model.bias.fill_(b)
        self._account(x, y, at, score, before)
        size = len(x) // batches
        losses = np.bincount(at // size, -score, minlength=batches) / size
        return torch.from_numpy(losses).to(model.weight)

    def _sweep(self, w: np.ndarray, b: float, x: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, np.ndarray, float]:
        """Move w in place; which rows were mistakes, by how much y (wᵀx + b) fell short of 0, and the new bias."""
        at, score, biased = [], [], self.model.bias is not None
        i, ahead, last, run, n = 0, _LEAST, 0, self._run, len(x)
        while i < n:
            end = min(i + ahead, n)
            s = x[i:end] @ w
            if biased:
                s += b
            s *= y[i:end]
            wrong = s <= 0
            k = int(wrong.argmax())
            if not wrong[k]:
                i, ahead = end, min(2 * ahead, _MOST)
                continue
            i += k
            if run + i - last > (self.pocket.run if self.pocket is not None else 0):
                self.pocket = Pocket(w.copy(), b, run + i - last)
            ahead = min(max((ahead + 2 * (i - last)) // 2, _LEAST), _MOST)
            at.append(i)
            score.append(s[k])
            if y[i] > 0:
                w += x[i]
                b += 1.0
            else:
                w -= x[i]
                b -= 1.0
            i += 1
            last, run = i, 0
        self._run = run + n - last
        if self._run > (self.pocket.run if self.pocket is not None else 0):
            self.pocket = Pocket(w.copy(), b, self._run)
        return np.array(at, dtype=np.int64), np.array(score, dtype=np.float64), b if biased else 0.0

    def _account(
        self, x: np.ndarray, y: np.ndarray, at: np.ndarray, score: np.ndarray, before: tuple[float, float]
    ) -> None:
        """Eq. 2 after every mistake, from what it was before: |w + y x|² = |w|² + 2 y wᵀx + |x|²."""
        one = self.model.bias is not None
        if not self.epochs:
            self.radius2 = max(self.radius2, float(np.einsum("ij,ij->i", x, x).max()) + one)
        count, self.updates, self.mistakes = self.updates, self.updates + len(at), self.mistakes + len(at)
        at, score = at[: self.keep - self._kept], score[: self.keep - self._kept]
        if len(at):
            taught = x[at].astype(np.float64)
            norm2 = before[0] + np.cumsum(2 * score + np.square(taught).sum(1) + one)
            along = np.full(len(at), np.nan)
            if self._u is not None and self.separation is not None:
                along = before[1] + np.cumsum(y[at] * (taught @ self._u + one * self.separation.b))
            self._trace.append(np.stack([count + np.arange(1, len(at) + 1), norm2, along], 1))
            self._kept += len(at)

    # ── what it knows ──

    @property
    def norm2(self) -> float:
        """|w|², the bias included."""
        return float(self.model.weight.detach().double().square().sum()) + self._bias**2

    @property
    def alignment(self) -> float | None:
        """uᵀw, the bias included; None without a separation."""
        if self._u is None or self.separation is None:
            return None
        along = self.model.weight.detach()[0].double().cpu() @ torch.from_numpy(self._u)
        return float(along) + self._bias * self.separation.b

    @property
    def _bias(self) -> float:
        return 0.0 if self.model.bias is None else float(self.model.bias.detach())

    @property
    def radius(self) -> float:
        """Largest |x| seen, the bias's 1 included."""
        return self.radius2**0.5

    @property
    def bound(self) -> int | None:
        """Most mistakes that these rows can cost, by Novikoff; None without a separating plane."""
        return None if self.separation is None else self.separation.bound

    @property
    def trace(self) -> Tensor:
        """(t, |w|², uᵀw) after each of the first `keep` mistakes, shape (mistakes, 3)."""
        return torch.from_numpy(np.concatenate(self._trace)) if self._trace else torch.zeros(0, 3, dtype=torch.float64)

    def verdict(self) -> str:
        """How it ended, or why it does not end, in a sentence."""
        spent = f"{counted(self.updates, 'mistake')} in {counted(self.epochs, 'epoch')}"
        if self.finished:
            return f"the plane separates the classes, after {spent}, the last without one" + (
                f"; {self.bound} were the most it could take" if self.bound is not None else ""
            )
        if self.separation is not None and self.separation.separable is False:
            return f"no plane separates the classes, so the rule never ends; {spent} so far"
        if self.bound is not None:
            return f"not ended after {spent}, but it will: at most {self.bound}"
        return f"not ended after {spent}: ll.models.separate tells whether any plane separates the classes"

    @torch.no_grad()
    def take_pocket(self) -> None:
        """Give the model the weights of the pocket: those that were right for most rows in a row.

        It changes the model in memory. A run's folder keeps the weights of its best epoch, and the pocket beside them:
        after `run = ll.load(folder)`, take it again by `run.rule.take_pocket()`.
        """
        if self.pocket is None:
            raise UserError("the pocket has no weights before rows were seen", got="none so far", do="Fit first")
        self.model.weight[0] = torch.from_numpy(self.pocket.w).to(self.model.weight)
        if self.model.bias is not None:
            self.model.bias.fill_(self.pocket.b)

    # ── its memory ──

    def state(self) -> Any:
        plain = {name: getattr(self, name) for name in _PLAIN}
        state: dict[str, Any] = {**plain, "trace": self.trace}
        if self.pocket is not None:
            pocket = torch.from_numpy(self.pocket.w)
            state["pocket"] = {"w": pocket, "b": self.pocket.b, "run": self.pocket.run}
        return state

    def load_state(self, state: Any) -> None:
        for name in _PLAIN:
            setattr(self, name, state[name])
        self.latest_is_best = self.finished
        self._trace = [state["trace"].cpu().numpy()] if len(state["trace"]) else []
        self._kept = len(state["trace"])
        held = state.get("pocket")
        self.pocket = None if held is None else Pocket(held["w"].cpu().numpy(), held["b"], held["run"])


@dataclass(frozen=True, eq=False)
class Pocket:
    """Weights and how many rows in a row they were right for."""

    w: np.ndarray
    b: float
    run: int


_PLAIN = ("updates", "mistakes", "epochs", "radius2", "finished", "_run")


def _labels(y: Tensor) -> np.ndarray:
    """-1 and +1 out of the codes 0 and 1, or as they are."""
    if y.dim() != 1:
        raise ShapeError(
            "PerceptronRule needs one label a row", got=f"y of shape {tuple(y.shape)}", do="Pass y of shape (B,)"
        )
    label = y.detach().to("cpu", torch.float32).numpy()
    label = label if label.min() < 0 else 2 * label - 1
    if not (label * label == 1).all():
        raise DataError("PerceptronRule separates two classes, 0 and 1", got=f"label {float(y.max()):g}", do="Keep two")
    return label


def _together(steps: int) -> int:
    """How many of an epoch's batches to take together, so that few are left over.

    >>> _together(101), _together(3)
    (50, 3)
    """
    sizes = range(min(64, steps), min(31, steps - 1), -1)
    return min(sizes, key=lambda size: (steps - 1) % size)
