"""Newton's method for logistic and softmax regression: iteratively reweighted least squares, one pass a step.

    J     = Σ_i w_i loss_i + ½ λ |Ω|²                                              (1)
    g     = Σ_i w_i (p_i - q_i) a_iᵀ + λ Ω                                         (2)   (prediction - target) input
    H     = Σ_i w_i (diag(p_i) - p_i p_iᵀ) ⊗ a_i a_iᵀ + λ                          (3)
    Δ     = -H⁻¹ g,   φ <- φ + t Δ                                                 (4)
    t     = 1, ½, ¼ …  until J(φ + tΔ) <= J(φ) - 10⁻⁴ t gᵀH⁻¹g                     (5)   damping
    end     ½ gᵀH⁻¹g <= tolerance · Σ w                                            (6)   the loss still to be gained

A pass over the rows gathers J, g and H at the weights as they are; if J has risen, the next pass tries half the way,
else the next step is taken. The last pass of a run only measures, so that the weights that are left are the best of all
that were tried: K epochs make at most K - 1 moves. Near the end the number of right digits doubles with each of them.

It begins at 0, where no row is so sure of its class that it has no curvature left; J is convex, so the end is the
same from everywhere.

Classes that a hyperplane tells apart have no best weights: J falls for ever while they grow. That ends in an error,
unless λ > 0 or the likelihood smooths its labels.

Notation   a_i -> x_i less the mean of the first batch, and a 1 for the offset: a column far from 0 would be too much
           like the 1;  p_i -> predicted probabilities;  q_i -> the label as probabilities;  λ -> ridge (offsets are not
           penalised);  gᵀH⁻¹g -> decrement
Use it     ll.fit(ll.models.Linear(d, 1), data, rule=ll.optim.Newton(), epochs=20)
"""

from __future__ import annotations

from typing import Any, cast

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from leadline.data.data import Batch
from leadline.errors import UserError
from leadline.likelihoods.bernoulli import Bernoulli
from leadline.likelihoods.categorical import Categorical
from leadline.likelihoods.likelihood import Likelihood
from leadline.optim.passes import PassRule, solve
from leadline.settings import real

_MOST = 8192  # unknowns: their H takes half a gigabyte
_CHUNK = 2**22  # numbers of an intermediate of eq. 3 at a time


class Newton(PassRule):
    """Args:
        ridge: pull of the slopes towards 0, λ of eq. 1, at least 0.
        tolerance: mean loss still to be gained at which it ends (6), above 0.

    >>> from leadline.models import Linear
    >>> x, y = torch.tensor([[-1.0], [0.0], [0.0], [1.0]]), torch.tensor([0, 0, 1, 1])
    >>> model, rule = Linear(1, 1), Newton(ridge=1.0)
    >>> rule.bind(model, Bernoulli(), total_steps=20)
    >>> losses = [rule.step(Batch(x, y), k) for k in range(20)]
    >>> rule.finished, round(model.map.weight.item(), 4), abs(model.map.bias.item()) < 1e-6
    (True, 0.6748, True)
    """

    def __init__(self, ridge: float = 0.0, tolerance: float = 1e-12):
        self.ridge = real("ridge", ridge, 0, usual=1.0)
        self.tolerance = real("tolerance", tolerance, 0, above=True, usual=1e-12)

    def bind(self, model: nn.Module, likelihood: Likelihood, total_steps: int) -> None:
        if not isinstance(likelihood, (Bernoulli, Categorical)):
            raise UserError(
                "Newton needs a Bernoulli or Categorical likelihood",
                got=type(likelihood).__name__,
                do="Use LeastSquares for real targets, or leave rule out",
            )
        super().bind(model, likelihood, total_steps)
        if total_steps < 2 * self.steps_per_epoch:
            raise UserError("Newton needs at least 2 epochs: one to move, one to check", got="1", do="Pass epochs=20")
        outputs, d = self.map.weight.shape
        # the weights in float64, (outputs, d + 1): the model holds them rounded to its own type
        self.weights = torch.zeros(outputs, d + (self.map.bias is not None), dtype=torch.float64, device=self.device)
        self.centre: Tensor | None = None
        if self.weights.numel() > _MOST:
            raise UserError(
                f"Newton needs at most {_MOST} weights, because it solves for all of them at once",
                got=f"{self.weights.numel()}",
                do="Leave rule out and pass optimizer='lbfgs'",
            )
        #: the best weights so far, J and gᵀH⁻¹g there, the step Δ from there and the part t of it that is being tried
        self.best: dict[str, Any] | None = None
        self._finite = bool(self.ridge or likelihood.label_smoothing)
        for parameter in self.map.parameters():
            nn.init.zeros_(parameter)

    # ── a batch ──

    def gather(self, batch: Batch) -> Tensor:
        x, w = self.rows(batch)
        a = self._with_one(x) if self.map.bias is not None else x
        y = batch.y.to(self.device)
        logits = a @ self.weights.T
        loss = (self.likelihood.loss(logits, y) * w).sum()
        if not self.finished:
            p, q, margin = self._probabilities(logits, y)
            wrong = ((margin <= 0) & (w > 0)).sum()
            hessian = self.weights.new_zeros(self.weights.numel(), self.weights.numel())
            for part in torch.arange(len(a), device=a.device).split(max(1, _CHUNK // self.weights.numel())):
                _add_hessian(hessian, a[part], p[part], w[part])
            gradient = ((p - q) * w[:, None]).T @ a  # eq. 2
            self.add(loss=loss, weight=w.sum(), wrong=wrong.double(), gradient=gradient, hessian=hessian)
        return loss / w.sum()

    def _with_one(self, x: Tensor) -> Tensor:
        """Rows of a_i, (B, d + 1)."""
        if self.centre is None:
            self.centre = x.mean(0)
        return F.pad(x - self.centre, (0, 1), value=1.0)

    def _probabilities(self, logits: Tensor, y: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """p and q of eq. 2, and by how much the logit of the label exceeds all others."""
        s = cast(Bernoulli | Categorical, self.likelihood).label_smoothing
        if isinstance(self.likelihood, Bernoulli):
            q = y.to(logits).view(-1, 1)
            return logits.sigmoid(), (1 - s) * q + s / 2, (logits * (2 * q - 1)).squeeze(1)
        label = y.long()[:, None]
        q = torch.zeros_like(logits).scatter_(1, label, 1.0)
        others = logits.scatter(1, label, -torch.inf).amax(1)
        return logits.softmax(1), (1 - s) * q + s / q.shape[1], logits.gather(1, label).squeeze(1) - others

    # ── a pass ──

    def move(self, last: bool) -> None:
        if not self._finite and not bool(self.sums["wrong"]):
            self._separable("all rows on the right side of it")
        value = float(self.sums["loss"] + 0.5 * self.ridge * self._slopes.square().sum())  # eq. 1
        best = self.best
        if best is not None and not value <= best["value"] - 1e-4 * best["part"] * best["decrement"]:  # eq. 5
            best["part"] /= 2
            self.finished = last or best["part"] < 1e-10
            self._go(best["weights"] if self.finished else best["weights"] + best["part"] * best["step"])
            return
        step, decrement = self._newton_step()
        if 0.5 * decrement <= self.tolerance * float(self.sums["weight"]):  # eq. 6
            # at a minimum steps shrink with the square of their length; on the way to infinity they do not
            if best is not None and not self._finite and float(step.norm()) > 0.5 * float(best["step"].norm()):
                self._separable("a loss that no longer falls while the weights keep growing")
            self.finished = True
        self.best = {"weights": self.weights, "value": value, "decrement": decrement, "step": step, "part": 1.0}
        if self.finished or not last:  # at the end a step is too small to need a check, and doubles the digits
            self._go(self.weights + step)  # eq. 4

    @property
    def _slopes(self) -> Tensor:
        return self.weights[:, : self.map.in_features]

    def _newton_step(self) -> tuple[Tensor, float]:
        """Δ of eq. 4, in the shape of the weights, and gᵀH⁻¹g."""
        outputs, p = self.weights.shape
        gradient, hessian = self.sums["gradient"].clone(), self.sums["hessian"].clone()
        d = self.map.in_features
        gradient[:, :d] += self.ridge * self._slopes
        blocks = hessian.view(outputs, p, outputs, p)
        columns = torch.arange(p, device=hessian.device)
        blocks[:, columns[:d], :, columns[:d]] += self.ridge * torch.eye(outputs).to(hessian)  # eq. 3
        if outputs > 1:
            # adding one vector to the weights of all classes changes nothing: where no ridge does, pin that direction,
            # along which g is 0
            free = columns[d:] if self.ridge else columns
            blocks[:, free, :, free] += hessian.diagonal().mean() / outputs
        step = -solve(hessian, gradient.reshape(-1, 1)).view_as(gradient)
        return step, float(-(gradient * step).sum())

    def _go(self, weights: Tensor) -> None:
        self.weights = weights
        offsets = None if self.centre is None else weights[:, -1] - self._slopes @ self.centre
        self.put(self._slopes, offsets)

    def _separable(self, seen: str) -> None:
        raise UserError(
            "the classes must overlap, otherwise there are no best weights: the loss falls forever while they grow",
            got=f"classes that a hyperplane separates, with {seen}",
            do="Pass Newton(ridge=1.0), or give the likelihood a label_smoothing above 0",
        )

    def state(self) -> Any:
        return {**super().state(), "weights": self.weights, "centre": self.centre, "best": self.best}

    def load_state(self, state: Any) -> None:
        super().load_state(state)
        move = lambda v: v.to(self.device, torch.float64) if isinstance(v, Tensor) else v  # noqa: E731
        self.weights, self.centre = move(state["weights"]), move(state["centre"])
        self.best = None if state["best"] is None else {name: move(value) for name, value in state["best"].items()}


def _add_hessian(total: Tensor, a: Tensor, p: Tensor, w: Tensor) -> None:
    """Eq. 3 of some rows, without λ; `total` is (outputs · width, outputs · width)."""
    outputs, width = p.shape[1], a.shape[1]
    if outputs == 1:
        total.addmm_((a * (w[:, None] * p * (1 - p))).T, a)
        return
    both = (w.sqrt()[:, None] * p)[:, :, None] * a[:, None, :]  # (B, outputs, width)
    total.addmm_(both.flatten(1).T, both.flatten(1), alpha=-1)
    own = torch.einsum("bi,bc,bj->cij", a, p * w[:, None], a)
    total.view(outputs, width, outputs, width).diagonal(dim1=0, dim2=2).add_(own.permute(1, 2, 0))
