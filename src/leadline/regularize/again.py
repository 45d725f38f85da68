"""Regularisers that compute the loss of the batch once more, at other inputs or other weights.

`score` sees the batch and how it is scored, `objective` the model; what the first sees is kept for the second. The
second look reads the rows as they are, with the same noise, and leaves what a layer remembers of batches as it was.
"""

from __future__ import annotations

from torch import Tensor, nn
from torch.func import functional_call

from leadline.data.data import Batch
from leadline.layers import noise
from leadline.regularize.regularizer import Regularizer, Score


class Again(Regularizer):
    """A concrete one overrides `objective`, and calls `seen` once in it."""

    def score(self, inner: Score, batch: Batch) -> Score:
        self.__dict__["held"] = inner, batch
        return inner

    def seen(self) -> tuple[Score, Batch]:
        """How the batch is scored, and the batch; they are let go."""
        held: tuple[Score, Batch] = self.__dict__.pop("held")
        return held


def mean_loss(score: Score, batch: Batch, model: nn.Module, x: Tensor, weights: dict[str, Tensor]) -> Tensor:
    """The batch's mean loss at inputs x, and with `weights` in place of the model's where they are given."""
    fresh = {name: buffer.clone() for name, buffer in model.named_buffers()}  # training may change them in place
    with noise.keyed(batch.keys):
        losses = score(functional_call(model, {**fresh, **weights}, (x,)), batch.y)
    if batch.weight is None:
        return losses.mean()
    return (losses * batch.weight).sum() / batch.weight.sum()
