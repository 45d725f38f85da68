"""An ensemble: several trained networks asked the same, and their answers made one.

    mixture   p(y) = Σ_k w_k p_k(y)                          the mean of distributions; of classes, of probabilities (1)
    outputs   p(y | Σ_k w_k output_k)                        the mean of outputs; of classes, before the softmax     (2)
    median    p(y | median_k output_k)                       one wild member moves it little                         (3)
    vote      p(y = c) = Σ_k w_k [member k answers c]        classes                                                 (4)

Members differ by seed, rows (`leadline.data.bootstrap`), settings or model. A mixture is never worse in nll than the
mean of its members, since -log is convex. Weights can be learned on rows that no member has seen (`stacked`), and so
can a whole model of the members' outputs (`stack`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from torch.distributions import Bernoulli, Categorical

from leadline.data.data import Data, Split
from leadline.data.inputs import Standardize
from leadline.errors import DataError, UserError
from leadline.likelihoods.bernoulli import BernoulliPrediction
from leadline.likelihoods.classes import ClassPrediction
from leadline.likelihoods.pixels import PixelsPrediction
from leadline.likelihoods.prediction import Prediction
from leadline.names import lookup
from leadline.regularize.several import Several
from leadline.regularize.trained import Trained, answer, encoded, raw_outputs

_WAYS = ("mixture", "outputs", "median", "vote")
_TURNS = 200


class Ensemble:
    """Args:
        members: runs, or `Member`s, of one target; at least one.
        combine: "mixture", "outputs", "median" or "vote" (1 to 4).
        weights: one for each member, not negative; alike where they are left out. A median takes none.

    >>> import leadline as ll
    >>> data = ll.data.moons(num=90)
    >>> runs = [ll.fit(ll.models.MLP(2, (8,), 1), data, epochs=2, seed=s, progress=False) for s in range(3)]
    >>> sorted(Ensemble(runs).evaluate("test"))
    ['accuracy', 'nll']
    """

    def __init__(self, members: Sequence[Trained], combine: str = "mixture", weights: Sequence[float] | None = None):
        self.members = tuple(members)
        self.combine = lookup(combine, {way: way for way in _WAYS}, "combine")
        families = {type(member.likelihood).__name__ for member in self.members}
        if len(families) != 1:
            raise UserError(
                "members must be of one likelihood",
                got=", ".join(sorted(families)) or "no members",
                do="Pass runs on the same target",
            )
        given = torch.ones(len(self.members)) if weights is None else torch.as_tensor(weights)
        if given.shape != (len(self.members),) or not bool((given >= 0).all()) or float(given.sum()) <= 0:
            raise UserError(
                "weights must be one number of at least 0 for each member, not all of them 0",
                got=f"{given.tolist()} for {len(self.members)}",
                do="Leave them out, or pass as many as there are members",
            )
        if weights is not None and self.combine == "median":
            raise UserError("a median takes no weights", got=f"{given.tolist()}", do="Leave them out")
        self.weights = given.double() / given.double().sum()

    @classmethod
    @torch.no_grad()
    def stacked(cls, members: Sequence[Trained], rows: Any, y: Tensor) -> Ensemble:
        """The mixture whose weights make y likeliest: on rows that no member was trained on, else the vainest wins.

        w_k <- mean over the rows of w_k p_k(y) / Σ_j w_j p_j(y)        never makes y less likely (Wolpert, 1992; EM)
        """
        log_p = torch.stack([answer(member, rows).log_prob(y) for member in members]).double()
        log_p = log_p.flatten(2).sum(-1) if log_p.dim() > 2 else log_p  # (K, B)
        log_w = torch.full((len(members), 1), 1 / len(members), dtype=torch.float64, device=log_p.device).log()
        for _ in range(_TURNS):
            log_w = (log_w + log_p).log_softmax(0).exp().mean(1, keepdim=True).clamp(min=1e-300).log()
        return cls(members, "mixture", log_w.exp().flatten().cpu().tolist())

    def several(self, rows: Any) -> Several:
        """The members' answers: their mixture, and how uncertainty parts into scatter of y and scatter of answers."""
        return Several.of([answer(member, rows) for member in self.members], self.weights)

    @torch.no_grad()
    def predict(self, rows: Any) -> Prediction:
        """The distribution of y for raw rows."""
        first = self.members[0]
        if self.combine == "mixture":
            return self.several(rows).prediction
        if self.combine == "vote":
            return self._vote(rows)
        outputs = torch.stack([raw_outputs(member.model, encoded(member, rows)) for member in self.members])
        if self.combine == "median":
            return first.likelihood.prediction(outputs.quantile(0.5, dim=0))  # eq. 3
        return first.likelihood.prediction(torch.tensordot(self.weights.to(outputs), outputs, dims=1))  # eq. 2

    def _vote(self, rows: Any) -> Prediction:
        parts = [answer(member, rows) for member in self.members]
        if not isinstance(parts[0], (ClassPrediction, BernoulliPrediction)):
            raise UserError("a vote must be of classes", got=type(parts[0]).__name__, do='Pass combine="median"')
        kinds = 2 if isinstance(parts[0], BernoulliPrediction) else parts[0].distribution.probs.shape[-1]
        votes = torch.stack([torch.nn.functional.one_hot(part.mode, kinds) for part in parts]).double()
        share = torch.tensordot(self.weights.to(votes), votes, dims=1).to(parts[0].mean.dtype)  # eq. 4
        if isinstance(parts[0], BernoulliPrediction):
            return BernoulliPrediction(Bernoulli(probs=share[:, 1], validate_args=False))
        return type(parts[0])(Categorical(probs=share, validate_args=False)).named(parts[0].names)

    def evaluate(self, split: str = "test") -> dict[str, float]:
        """Metrics on a split of the first member's data."""
        data: Data | None = getattr(self.members[0], "data", None)
        if data is None:
            raise DataError("the first member must know its data", got="none", do="Use measure(x, y)")
        return self.measure(data[split].x, data[split].y)

    @torch.no_grad()
    def measure(self, rows: Any, y: Tensor) -> dict[str, float]:
        """nll, and accuracy or rmse and mae, on raw rows; of pixels what their likelihood measures."""
        said = self.predict(rows)
        y = y.to(said.mode.device)
        if isinstance(said, PixelsPrediction):
            family = self.members[0].likelihood
            each = family.measures(said.distribution.logits.movedim(-1, 1), y)
            return family.summary({name: float(value.double().mean()) for name, value in each.items()})
        found = {"nll": -float(said.log_prob(y).mean())}
        if isinstance(said, (ClassPrediction, BernoulliPrediction)):
            return {**found, "accuracy": float((said.mode == y).double().mean())}
        off = (said.mean - y).double()
        return {**found, "rmse": float(off.square().mean().sqrt()), "mae": float(off.abs().mean())}

    def __len__(self) -> int:
        return len(self.members)


def stack(members: Sequence[Trained], data: Data) -> Data:
    """Data whose rows are the members' outputs, side by side: for a model that learns how to combine them.

    Trains on what was the validation split, which no member has learned from, and has no validation split of its own.

    >>> import leadline as ll
    >>> data = ll.data.moons(num=90)
    >>> runs = [ll.fit(ll.models.MLP(2, (8,), 1), data, epochs=2, seed=s, progress=False) for s in range(3)]
    >>> stack(runs, data)
    Data(moons, stacked: train 14, test 18; x (3,); y y: upper or lower)
    """
    if not len(data.val):
        raise DataError(
            "stacking needs rows that no member has learned from", got="no validation rows", do="Split some"
        )

    def outputs(split: Split) -> Split:
        x = torch.cat([raw_outputs(member.model, encoded(member, split.x)).float().cpu() for member in members], dim=1)
        return Split(x, split.y, split.weight, split.rows)

    train, test = outputs(data.val), outputs(data.test)
    none = train.take(torch.arange(0))
    return data.with_(
        train=train,
        val=none,
        test=test,
        inputs=Standardize.fit(train.x),
        name=f"{data.name}, stacked",
        recipe=None,
    )
