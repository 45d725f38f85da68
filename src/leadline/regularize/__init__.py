"""What keeps a network from learning its rows by heart. `REGULARIZERS` is the list of those that a word can name."""

from __future__ import annotations

import inspect
from collections.abc import Iterable

from leadline.errors import UserError
from leadline.names import bracketed, lookup
from leadline.regularize.adversarial import Adversarial, worst_case
from leadline.regularize.affine import Affine
from leadline.regularize.augmentation import Augmentation
from leadline.regularize.colour import Colour, Gray
from leadline.regularize.crops import Crop, Zoom
from leadline.regularize.cutmix import CutMix
from leadline.regularize.distillation import Distillation, soft_loss
from leadline.regularize.elastic_net import ElasticNet
from leadline.regularize.ensemble import Ensemble, stack
from leadline.regularize.erasing import Erase
from leadline.regularize.flips import Flip, FlipVertical
from leadline.regularize.flooding import Flooding
from leadline.regularize.gradient_norm import GradientNorm
from leadline.regularize.group_lasso import GroupLasso
from leadline.regularize.input_noise import InputNoise
from leadline.regularize.l0 import L0
from leadline.regularize.l1 import L1
from leadline.regularize.l2 import L2
from leadline.regularize.l_half import LHalf
from leadline.regularize.label_noise import LabelNoise
from leadline.regularize.label_smoothing import Confusion, LabelSmoothing
from leadline.regularize.mask import Mask
from leadline.regularize.mixup import Mixup
from leadline.regularize.monte_carlo import every_mask, monte_carlo
from leadline.regularize.orthogonal import Orthogonal
from leadline.regularize.posterior import Posterior, laplace, swag
from leadline.regularize.pull import Pull
from leadline.regularize.rand_augment import RandAugment
from leadline.regularize.regularizer import Regularizer
from leadline.regularize.several import Several
from leadline.regularize.snapshots import Snapshots
from leadline.regularize.spectral import Spectral
from leadline.regularize.trained import Member, Trained
from leadline.regularize.turns import Turn
from leadline.regularize.weight_noise import WeightNoise
from leadline.settings import given

REGULARIZERS: dict[str, type[Regularizer]] = {
    kind.name: kind
    for kind in (
        *(L2, L1, LHalf, ElasticNet, GroupLasso, Spectral),
        *(InputNoise, Mask, WeightNoise, LabelNoise, LabelSmoothing),
        *(Mixup, Adversarial, Flooding, GradientNorm, Orthogonal),
        *(Flip, FlipVertical, Turn, Crop, Zoom, Affine, Colour, Gray, Erase, CutMix, RandAugment),
    )
}


def regularizer(wish: Regularizer | str) -> Regularizer:
    """A regulariser from its word, or itself."""
    if isinstance(wish, Regularizer):
        return wish
    if not isinstance(wish, str):
        raise UserError(
            "regularize must hold words or regularisers",
            got=given("regularize", wish),
            do=f"Known words: {', '.join(REGULARIZERS)}",
        )
    name, numbers = bracketed(wish, "regularizer")
    kind = lookup(name, REGULARIZERS, "regularizer")
    known = list(inspect.signature(kind).parameters)
    if len(numbers) > len(known):
        raise UserError(
            f"regularizer {name} takes at most {len(known)} numbers in brackets",
            got=f"regularizer {wish!r}",
            do=f"They are: {', '.join(known)}" if known else f"Write {name}",
        )
    return kind(*numbers)


def regularizers(wishes: Iterable[Regularizer | str]) -> tuple[Regularizer, ...]:
    """Regularisers from words and from themselves, in order."""
    return tuple(regularizer(wish) for wish in ([wishes] if isinstance(wishes, (str, Regularizer)) else wishes))


def words(given: Iterable[Regularizer]) -> tuple[str, ...]:
    """How a config holds them; "given" stands for one that it cannot build again."""
    return tuple(r.word if type(r) in REGULARIZERS.values() else "given" for r in given)


#: the four ways in which regularisers help (Understanding Deep Learning, 9.4)
MECHANISMS = ("smoother function", "more effective data", "combined models", "wider minima")

__all__ = [
    "MECHANISMS",
    "REGULARIZERS",
    "L0",
    "L1",
    "L2",
    "Adversarial",
    "Affine",
    "Augmentation",
    "Colour",
    "Confusion",
    "Crop",
    "CutMix",
    "Distillation",
    "ElasticNet",
    "Erase",
    "Flip",
    "FlipVertical",
    "Flooding",
    "GradientNorm",
    "Gray",
    "GroupLasso",
    "InputNoise",
    "LHalf",
    "LabelNoise",
    "LabelSmoothing",
    "Mask",
    "Mixup",
    "Orthogonal",
    "Pull",
    "RandAugment",
    "Regularizer",
    "Spectral",
    "Turn",
    "WeightNoise",
    "Zoom",
    "Ensemble",
    "Member",
    "Posterior",
    "Several",
    "Snapshots",
    "Trained",
    "every_mask",
    "laplace",
    "monte_carlo",
    "stack",
    "swag",
    "regularizer",
    "regularizers",
    "soft_loss",
    "words",
    "worst_case",
]
