"""What a step goes downhill on: the mean loss of a batch, with whatever regularisers do to it.

    loss = Σ_i w_i loss_i / Σ_i w_i  (+ penalties)                       (1)

All `rows` come before all `inputs`, whatever the order of the list. Scores are nested as the rows were changed: those
of `rows` innermost, those of `inputs` outermost, so that labels are mixed as pictures were.

A module, so that the weights of everything in it can be swapped for others: those of a compiled step, or of the
members of a population.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import nullcontext

from torch import Tensor, nn
from torch.func import functional_call

from leadline.data.data import Batch
from leadline.layers import noise
from leadline.layers.carried import Carried
from leadline.layers.unembedding import deferred
from leadline.likelihoods.likelihood import Likelihood
from leadline.regularize.regularizer import Regularizer, Score


class Objective(nn.Module):
    """Args:
    regularizers: applied in order, first the `rows` of all, then the `inputs` of all.
    carried: states that go on from batch to batch; None where rows are on their own.
    """

    _straight: tuple[nn.Module, Score]

    def __init__(
        self,
        model: nn.Module,
        likelihood: Likelihood,
        regularizers: Sequence[Regularizer] = (),
        carried: Carried | None = None,
    ):
        super().__init__()
        self.carried = carried
        self.model, self.likelihood = model, likelihood
        self.regularizers = nn.ModuleList(regularizers)
        self.plain = not regularizers
        self.whole = any(type(r).score is not Regularizer.score for r in regularizers)  # they want all scores
        self.nesting = sorted(range(len(regularizers)), key=lambda k: _depth(regularizers[k]))
        self.__dict__["_straight"] = model, likelihood.loss  # a module's own way to its parts takes microseconds

    def forward(self, batch: Batch, whole: Tensor | float | None = None) -> Tensor:
        """The batch's part of eq. 1, where `whole` is the weight of the batch that it is part of."""
        model, score = self._straight
        later = deferred() if self.likelihood.takes_deferred and not self.whole else nullcontext()
        onward = nullcontext() if self.carried is None else self.carried.on(len(batch))
        with noise.keyed(batch.keys), later, onward:
            losses = score(model(batch.x), batch.y) if self.plain else self._regularized(batch)
        if batch.weight is not None:
            own: Tensor | float = batch.weight.sum()
            loss = (losses * batch.weight).sum() / (own if whole is None else whole)
        else:
            own = float(len(batch))
            loss = losses.mean() if whole is None else losses.sum() / whole
        if self.plain:
            return loss
        for regularizer in self.regularizers:
            loss = regularizer.objective(loss, self.model, 1.0 if whole is None else own / whole)  # type: ignore[operator]
        return loss

    def _regularized(self, batch: Batch) -> Tensor:
        for regularizer in self.regularizers:
            batch = regularizer.rows(batch)  # type: ignore[operator]
        x, score, parameters = batch.x, self.likelihood.loss, None
        for regularizer in self.regularizers:
            x = regularizer.inputs(x, batch)  # type: ignore[operator]
            if regularizer.moves_weights:
                named = dict(self.model.named_parameters()) if parameters is None else parameters
                parameters = regularizer.weights(named, batch)  # type: ignore[operator]
        for k in self.nesting:
            score = self.regularizers[k].score(score, batch)  # type: ignore[operator]
        output = self.model(x) if parameters is None else functional_call(self.model, parameters, (x,))
        return score(output, batch.y)


def _depth(regularizer: Regularizer) -> int:
    """Where its score is nested: -1 with what changes rows, 1 with what changes what the network reads, 0 between."""
    own = type(regularizer)
    return (own.inputs is not Regularizer.inputs) - (own.rows is not Regularizer.rows)
