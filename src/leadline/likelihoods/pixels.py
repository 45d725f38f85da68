"""Pixels: y is a picture of class codes, one for each pixel.

    p(y_i = c) = softmax_c(output_i)                                                     (1)
    nll        = mean over the labelled pixels i of -log p(y_i)                          (2)
    dice       = 1 - mean_c 2 Σ_i p_ic t_ic / Σ_i (p_ic + t_ic)                          (3)   classes that y shows
    loss       = (2), its labels smoothed by s, + dice weight · (3)                      (4)
    IoU_c      = Σ |said c and is c| / Σ |said c or is c|                                (5)   over all pictures
    Dice_c     = 2 IoU_c / (1 + IoU_c)                                                   (6)

Pixels of code 255 have no label and count nowhere. A network without padding answers for the middle of a picture alone:
y is cropped to it. Classes that are neither there nor named are left out of the means of (5) and (6).

Notation   i -> pixel;  t_ic -> 1 where pixel i is of class c, else 0;  s -> label_smoothing
Shapes     output (B, C, Y, X) or (B, C, Z, Y, X); y (B, Y, X) or (B, Z, Y, X), or larger
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.distributions import Categorical as CategoricalDistribution

from leadline.data.target import Target
from leadline.errors import DataError, ShapeError, UserError
from leadline.likelihoods.classes import ClassPrediction
from leadline.likelihoods.codes import check_smoothing
from leadline.likelihoods.likelihood import Likelihood, full
from leadline.likelihoods.regions import UNLABELLED, grown
from leadline.likelihoods.values import names_of
from leadline.settings import real, whole


class Pixels(Likelihood):
    """Args:
        num_classes: C, from 2 to 255.
        dice: weight of one minus the overlap with each class, in the loss beside the cross-entropy; at least 0.
        label_smoothing: s of eq. 4, 0 <= s < 1.
        names: of the classes, for their metrics; 0, 1 … where they are left out.

    >>> y = torch.tensor([[[0, 1], [1, 255]]], dtype=torch.uint8)
    >>> float(Pixels(4).loss(torch.zeros(1, 4, 2, 2), y))  # log 4
    1.3862943649291992
    """

    headline = "mean_iou"
    shares = ("accuracy",)
    higher_is_better = True
    kinds = ("pixels",)

    def __init__(self, num_classes: int, dice: float = 0.0, label_smoothing: float = 0.0, names: Sequence[str] = ()):
        super().__init__()
        self.num_classes = self.dim_output = whole("num_classes", num_classes, 2, UNLABELLED)
        self.dice, self.label_smoothing = real("dice", dice, 0, usual=1.0), check_smoothing(label_smoothing)
        self.names = names_of(names or range(num_classes), num_classes)  # type: ignore[arg-type]

    @classmethod
    def for_target(cls, target: Target, **options: Any) -> Pixels:
        return cls(len(target.classes), names=target.classes, **options)

    @property
    def loss_is_nll(self) -> bool:
        return not self.dice and not self.label_smoothing

    def distribution(self, output: Tensor) -> CategoricalDistribution:
        return CategoricalDistribution(logits=full(output).movedim(1, -1), validate_args=False)

    def loss(self, output: Tensor, y: Tensor) -> Tensor:
        output = full(output)
        codes, labelled = _codes(y, output)
        scores = F.log_softmax(output, 1)
        each = -scores.gather(1, codes[:, None]).squeeze(1)
        if self.label_smoothing:
            each = (1 - self.label_smoothing) * each - self.label_smoothing * scores.mean(1)
        loss = _mean(each, labelled)  # eq. 2
        return loss + self.dice * _soft_dice(scores.exp(), codes, labelled) if self.dice else loss  # eq. 4

    def measures(self, output: Tensor, y: Tensor) -> dict[str, Tensor]:
        output = full(output)
        codes, labelled = _codes(y, output)
        said = output.argmax(1)
        found = {
            "nll": _mean(-F.log_softmax(output, 1).gather(1, codes[:, None]).squeeze(1), labelled),
            "accuracy": _mean((said == codes).to(output.dtype), labelled),
        }
        for code, name in enumerate(self.names):
            named, there = (said == code) & labelled, (codes == code) & labelled
            found[f"both_{name}"] = (named & there).flatten(1).sum(1).to(output.dtype)
            found[f"either_{name}"] = (named | there).flatten(1).sum(1).to(output.dtype)
        return found

    def summary(self, means: dict[str, float]) -> dict[str, float]:
        seen = [name for name in self.names if means[f"either_{name}"] > 0]
        each = {name: min(means[f"both_{name}"] / means[f"either_{name}"], 1.0) for name in seen}  # eq. 5
        found = {"nll": means["nll"], "accuracy": means["accuracy"]}
        found["mean_iou"] = sum(each.values()) / max(len(seen), 1)
        found["mean_dice"] = sum(2 * value / (1 + value) for value in each.values()) / max(len(seen), 1)  # eq. 6
        return found | {f"iou_{name}": value for name, value in each.items()}

    def prediction(self, output: Tensor) -> PixelsPrediction:
        return PixelsPrediction(self.distribution(output)).named(self.names)

    def check(self, y: Tensor) -> None:
        if y.dim() not in (3, 4):
            raise ShapeError(
                "class codes of pixels must have shape (n, Y, X), or (n, Z, Y, X)",
                got=f"y of shape {tuple(y.shape)}",
                do="Pass codes, not one-hot maps: y.argmax(1)" if y.dim() > 4 else "Pass one code for each pixel",
            )
        if y.is_floating_point() or y.is_complex():
            raise DataError(
                "class codes must be whole numbers", got=f"y of type {y.dtype}", do="Pass y.to(torch.uint8)"
            )
        wrong = ((y < 0) | (y >= self.num_classes)) & (y != UNLABELLED)
        if bool(wrong.any()):
            picture = int(wrong.flatten(1).any(1).nonzero()[0])
            raise DataError(
                f"class codes of pixels must lie in 0 … {self.num_classes - 1}, or be {UNLABELLED} for no label",
                got=f"{int(wrong.sum())} outside, the first {int(y[wrong][0])} in picture {picture}",
                do="Recode the masks, or give the model as many outputs as there are classes",
            )
        empty = (y == UNLABELLED).flatten(1).all(1).nonzero().flatten()
        if len(empty):
            raise DataError(
                "every picture must have a labelled pixel",
                got=f"{len(empty)} without, the first in row {int(empty[0])}",
                do="Leave these pictures out",
            )

    def check_output(self, output: Tensor, y: Tensor) -> None:
        fits = output.dim() == y.dim() + 1 and output.shape[:2] == (len(y), self.num_classes)
        # what answers for half of a side or less has a stride, and does not mean the middle
        if not fits or any(not side < 2 * own <= 2 * side for own, side in zip(output.shape[2:], y.shape[1:])):
            places = tuple(y.shape[1:])
            raise ShapeError(
                f"Pixels needs {self.num_classes} outputs for each pixel, or for a middle of more than half a side",
                got=f"model output of shape {tuple(output.shape)} for {len(y)} pictures of {places} pixels",
                do=f"Take a model that answers for pixels, such as UNet, with dim_output={self.num_classes}",
            )


def cropped(y: Tensor, places: Sequence[int]) -> Tensor:
    """The middle of y: as many places along its last axes as there are in `places`.

    >>> cropped(torch.arange(16).view(1, 4, 4), (2, 2)).tolist()
    [[[5, 6], [9, 10]]]
    """
    for axis, count in zip(range(-len(places), 0), places, strict=True):
        if y.shape[axis] != count:
            y = y.narrow(axis, (y.shape[axis] - count) // 2, count)
    return y


def _codes(y: Tensor, output: Tensor) -> tuple[Tensor, Tensor]:
    """Codes of the pixels that the output answers for, 0 where there is no label, and where there is one."""
    y = cropped(y, output.shape[2:])
    labelled = y != UNLABELLED
    return torch.where(labelled, y, 0).long(), labelled


def _mean(values: Tensor, labelled: Tensor) -> Tensor:
    """Over the labelled pixels of each picture; 0 where there is none."""
    total = torch.where(labelled, values, 0).flatten(1).sum(1)
    return total / labelled.flatten(1).sum(1).clamp(min=1)


def _soft_dice(p: Tensor, codes: Tensor, labelled: Tensor) -> Tensor:
    """Eq. 3."""
    classes = torch.arange(p.shape[1], device=p.device).view(-1, *[1] * (p.dim() - 2))
    t = ((codes[:, None] == classes) & labelled[:, None]).to(p.dtype)
    p = torch.where(labelled[:, None], p, 0)
    shared, there = (p * t).flatten(2).sum(2), t.flatten(2).sum(2)  # (B, C)
    shown = there > 0
    dice = 2 * shared / torch.where(shown, p.flatten(2).sum(2) + there, 1)
    return 1 - (dice * shown).sum(1) / shown.sum(1).clamp(min=1)


class PixelsPrediction(ClassPrediction):
    """Probabilities of the classes for each pixel."""

    @property
    def mean(self) -> Tensor:
        return self.probabilities

    @property
    def probabilities(self) -> Tensor:
        """Shape (B, C, Y, X)."""
        return self.distribution.probs.movedim(-1, 1)

    @property
    def std(self) -> Tensor:
        """Deviation of each class's indicator, shape (B, C, Y, X)."""
        return super().std.movedim(-1, 1)

    def top(self, k: int = 5) -> tuple[Tensor, Tensor]:
        """Codes of the k most probable classes of each pixel, the best first, and their probabilities: (B, k, Y, X)."""
        codes, p = super().top(k)
        return codes.movedim(-1, 1), p.movedim(-1, 1)

    def credible_set(self, level: float = 0.9) -> Tensor:
        """The fewest classes whose probabilities add up to `level`, for each pixel: a boolean mask (B, C, Y, X)."""
        return super().credible_set(level).movedim(-1, 1)

    def log_prob(self, y: Any) -> Tensor:
        """log p(y) of each picture, the mean over its labelled pixels, (B,)."""
        y = torch.as_tensor(y, device=self.mode.device)
        codes, labelled = _codes(y, self.distribution.logits.movedim(-1, 1))
        return _mean(self.distribution.log_prob(codes), labelled)

    def regions(self, **options: Any) -> Tensor:
        """Codes of pixels by growing connected regions class after class, (B, Y, X); see `regions.grown`."""
        return torch.stack([grown(p, **options) for p in self.probabilities])

    def quantile(self, q: float) -> Tensor:
        raise UserError(
            "a quantile needs values in an order, and classes have none",
            got=f"quantile({q}) of a Pixels prediction",
            do="Use the mode, or probabilities",
        )
