"""What a prediction over classes answers, be they in an order or not."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.distributions import Categorical

from leadline.likelihoods.prediction import Prediction, check_probability
from leadline.settings import whole


class ClassPrediction(Prediction):
    """Probabilities of the classes for each row. What a quantile means is for the family to say."""

    distribution: Categorical

    @property
    def mean(self) -> Tensor:
        return self.distribution.probs

    @property
    def mode(self) -> Tensor:
        return self.distribution.logits.argmax(-1)

    @property
    def std(self) -> Tensor:
        """Deviation of each class's indicator, shape (B, C)."""
        p = self.distribution.probs
        return (p * (1 - p)).sqrt()

    @property
    def probabilities(self) -> Tensor:
        """Shape (B, C)."""
        return self.distribution.probs

    def top(self, k: int = 5) -> tuple[Tensor, Tensor]:
        """Codes of the k most probable classes, the best first, and their probabilities: (B, k) both.

        >>> from leadline.likelihoods import Categorical
        >>> codes, p = Categorical(3).prediction(torch.tensor([[0.5, 0.2, 0.3]]).log()).top(2)
        >>> codes.tolist(), [round(value, 2) for value in p[0].tolist()]
        ([[0, 2]], [0.5, 0.3])
        """
        probabilities = self.distribution.probs
        whole("k", k, 1, probabilities.shape[-1])
        p, codes = probabilities.topk(k, dim=-1)
        return codes, p

    def credible_set(self, level: float = 0.9) -> Tensor:
        """The fewest classes whose probabilities add up to `level`: a boolean mask (B, C).

        >>> from leadline.likelihoods import Categorical
        >>> logits = torch.tensor([[0.5, 0.3, 0.2]]).log()
        >>> Categorical(3).prediction(logits).credible_set(0.7).tolist()
        [[True, True, False]]
        """
        check_probability("level", level)
        p, order = self.distribution.probs.sort(dim=-1, descending=True)
        wanted = p.cumsum(-1) - p < level  # a class is in while those before it fall short
        return torch.zeros_like(wanted).scatter(-1, order, wanted)


def among(output: Tensor, y: Tensor, k: int) -> Tensor:
    """Whether the class y is among the k of largest output, (B,); of equal ones the lower code comes first.

    >>> among(torch.tensor([[3.0, 1.0, 2.0], [3.0, 1.0, 2.0]]), torch.tensor([2, 1]), 2)
    tensor([ True, False])
    """
    own = output.gather(-1, y[:, None].long())
    lower = torch.arange(output.shape[-1], device=output.device) < y[:, None]
    return ((output > own) | ((output == own) & lower)).sum(-1) < k
