"""What a regulariser may change: the rows, what the network reads, its weights for a batch, the score, the loss.

    (x_i, y_i) = rows(batch)_i,   loss = r[ mean_i  score(f[inputs(x_i), weights(φ)], y_i) ]  + penalties        (1)

Each is a wrapper around the same step, so that any of them works with any model, any likelihood and any optimizer.
Whatever it draws comes from the keys of the rows (`leadline.layers.noise`): resumed and repeated runs draw the same.
"""

from __future__ import annotations

from collections.abc import Callable

from torch import Tensor, nn

from leadline.config import Configured
from leadline.data.data import Batch
from leadline.data.inputs import Inputs
from leadline.data.target import Target
from leadline.data.tokens import Tokens
from leadline.errors import UserError

Score = Callable[[Tensor, Tensor], Tensor]


class Regularizer(nn.Module, Configured):
    """A concrete one overrides some of these; a number that may differ between the members of a population is a buffer.

    It acts while training alone: metrics are those of the plain likelihood.
    """

    #: the word that names it in a config; empty for one that only Python can build
    name: str = ""
    #: by which of `leadline.regularize.MECHANISMS` it helps
    mechanism: str = ""
    #: whether it draws from the keys of the rows
    draws_noise: bool = False
    #: whether it needs the rows of a step together, so that micro-batches would change it
    whole_batch: bool = False
    #: whether it overrides `weights`
    moves_weights: bool = False
    #: whether it computes with x, which must then be numbers
    moves_rows: bool = False

    @property
    def word(self) -> str:
        """Its name with its numbers in brackets, as a config holds it."""
        numbers = ", ".join(f"{v:g}" if float(f"{v:g}") == v else repr(v) for v in self.config.values())
        return f"{type(self).name}({numbers})" if numbers else type(self).name

    def meet(self, inputs: Inputs, target: Target) -> None:
        """Learn, once before training, how x was made and what y is; refuse what it is not right for."""
        if self.moves_rows and isinstance(inputs, Tokens):
            raise UserError(
                f"{self.name} must have rows of numbers, which can be a little larger or smaller",
                got="rows of tokens",
                do=f"Leave {self.name} out; a model's own dropout, l2 and weight_noise do for text",
            )

    def rows(self, batch: Batch) -> Batch:
        """The rows in place of the batch's, x and y; comes before everything else."""
        return batch

    def inputs(self, x: Tensor, batch: Batch) -> Tensor:
        """What the network reads in place of x."""
        return x

    def weights(self, parameters: dict[str, Tensor], batch: Batch) -> dict[str, Tensor]:
        """The model's parameters as they count for this batch."""
        return parameters

    def score(self, inner: Score, batch: Batch) -> Score:
        """A function of (output, y) to the loss of each row, in place of `inner`."""
        return inner

    def objective(self, loss: Tensor, model: nn.Module, share: Tensor | float) -> Tensor:
        """The loss of a batch in place of its mean: a penalty added, say.

        Args:
            share: what the batch has of a whole step: 1, or less for a micro-batch. Penalties are scaled by it.
        """
        return loss
