"""What a step goes downhill on: the mean loss of a batch, with whatever regularisers do to it.

    loss = Σ_i w_i loss_i / Σ_i w_i  (+ penalties)                       (1)

A module, so that the weights of everything in it can be swapped for others: those of a compiled step, or of the
members of a population.
"""

from __future__ import annotations

from collections.abc import Sequence

from torch import Tensor, nn
from torch.func import functional_call

from leadline.data.data import Batch
from leadline.layers import noise
from leadline.likelihoods.likelihood import Likelihood
from leadline.regularize.regularizer import Regularizer, Score


class Objective(nn.Module):
    """Args:
    regularizers: applied in order.
    """

    _straight: tuple[nn.Module, Score]

    def __init__(self, model: nn.Module, likelihood: Likelihood, regularizers: Sequence[Regularizer] = ()):
        super().__init__()
        self.model, self.likelihood = model, likelihood
        self.regularizers = nn.ModuleList(regularizers)
        self.plain = not regularizers
        self.__dict__["_straight"] = model, likelihood.loss  # a module's own way to its parts takes microseconds

    def forward(self, batch: Batch, whole: Tensor | float | None = None) -> Tensor:
        """The batch's part of eq. 1, where `whole` is the weight of the batch that it is part of."""
        model, score = self._straight
        with noise.keyed(batch.keys):
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
            score = regularizer.score(score, batch)  # type: ignore[operator]
            if regularizer.moves_weights:
                named = dict(self.model.named_parameters()) if parameters is None else parameters
                parameters = regularizer.weights(named, batch)  # type: ignore[operator]
        output = self.model(x) if parameters is None else functional_call(self.model, parameters, (x,))
        return score(output, batch.y)
