"""Network output → distribution → loss, prediction, metrics. A `Target` picks the family; a user may name another."""

from __future__ import annotations

import inspect
from typing import Any

from leadline.data.target import Target
from leadline.errors import UnknownName, UserError
from leadline.likelihoods.bernoulli import Bernoulli
from leadline.likelihoods.beta import Beta
from leadline.likelihoods.boxes import Boxes
from leadline.likelihoods.categorical import Categorical
from leadline.likelihoods.divergence import kl
from leadline.likelihoods.exponential import Exponential
from leadline.likelihoods.focal import Focal
from leadline.likelihoods.gamma import Gamma
from leadline.likelihoods.heat_maps import HeatMaps
from leadline.likelihoods.huber import Huber
from leadline.likelihoods.joint import Joint
from leadline.likelihoods.laplace import Laplace
from leadline.likelihoods.likelihood import Likelihood
from leadline.likelihoods.log_normal import LogNormal
from leadline.likelihoods.margin import Distance, Margin
from leadline.likelihoods.mixture import Mixture
from leadline.likelihoods.multivariate_normal import MultivariateNormal
from leadline.likelihoods.negative_binomial import NegativeBinomial
from leadline.likelihoods.normal import Normal
from leadline.likelihoods.one_hot import OneHot
from leadline.likelihoods.ordinal import Ordinal
from leadline.likelihoods.pixels import Pixels
from leadline.likelihoods.plackett_luce import PlackettLuce
from leadline.likelihoods.poisson import Poisson
from leadline.likelihoods.prediction import Prediction
from leadline.likelihoods.quantile import Quantile
from leadline.likelihoods.robust import Robust
from leadline.likelihoods.signs import Signs
from leadline.likelihoods.span import Span
from leadline.likelihoods.student_t import StudentT
from leadline.likelihoods.tokens import Tokens
from leadline.likelihoods.von_mises import VonMises
from leadline.names import lookup, suggest

LIKELIHOODS: dict[str, type[Likelihood]] = {
    "Normal": Normal,
    "Laplace": Laplace,
    "StudentT": StudentT,
    "Huber": Huber,
    "Robust": Robust,
    "Quantile": Quantile,
    "MultivariateNormal": MultivariateNormal,
    "Gamma": Gamma,
    "LogNormal": LogNormal,
    "Exponential": Exponential,
    "Beta": Beta,
    "Bernoulli": Bernoulli,
    "Categorical": Categorical,
    "Signs": Signs,
    "Margin": Margin,
    "Distance": Distance,
    "OneHot": OneHot,
    "Poisson": Poisson,
    "NegativeBinomial": NegativeBinomial,
    "VonMises": VonMises,
    "Ordinal": Ordinal,
    "Focal": Focal,
    "PlackettLuce": PlackettLuce,
    "Mixture": Mixture,
    "Joint": Joint,
    "Pixels": Pixels,
    "Boxes": Boxes,
    "HeatMaps": HeatMaps,
    "Tokens": Tokens,
    "Span": Span,
}

#: what `likelihood_for` fills in from the target; everything else of a constructor is the user's to choose
FROM_TARGET = (
    "num_classes",
    "num_points",
    "num_tokens",
    "dim",
    "shift",
    "scale",
    "options",
    "names",
    "characters",
    "per",
    "sizes",
    "most",
)

DEFAULTS = {
    "signs": "Signs",
    "real": "Normal",
    "positive": "Gamma",
    "proportion": "Beta",
    "count": "Poisson",
    "angle": "VonMises",
    "binary": "Bernoulli",
    "classes": "Categorical",
    "ordered": "Ordinal",
    "ranking": "PlackettLuce",
    "several": "Joint",
    "pixels": "Pixels",
    "boxes": "Boxes",
    "points": "HeatMaps",
    "tokens": "Tokens",
    "span": "Span",
}


def likelihood_for(target: Target, name: str | None = None, **options: Any) -> Likelihood:
    """The likelihood of a target: its default family, or the one called `name`.

    >>> likelihood_for(Target("binary"))
    Bernoulli(label_smoothing=0.1)
    """
    family = lookup(name or DEFAULTS.get(target.kind, "Normal"), LIKELIHOODS, "likelihood")
    if name and target.kind not in family.kinds:
        each = target.columns and all(column.kind in family.kinds for column in target.columns)
        raise UserError(
            f"likelihood {family.__name__} must fit the target",
            got=f"{target}",
            do=f'Use one for each of them, with likelihood="Joint" and families="{family.__name__}"'
            if each
            else f"Leave the likelihood out, and {DEFAULTS.get(target.kind, 'Normal')} is taken; or, if the values are "
            f'of that kind, say so with kind="{family.kinds[0]}"',
        )
    known = choices(family)
    for option in options:
        if option not in known:
            have = [other.__name__ for other in LIKELIHOODS.values() if option in choices(other)]
            raise UnknownName(
                f"{family.__name__} does not have this option",
                got=option + (f", an option of {' and '.join(have)}" if have else ""),
                do=f"{family.__name__} has {', '.join(known)}" if have else suggest(option, known).rstrip("."),
            )
    return family.for_target(target, **options)


def choices(family: type[Likelihood]) -> dict[str, inspect.Parameter]:
    """The arguments of a likelihood that its user chooses, with the defaults that hold when a target picks it.

    >>> {name: parameter.default for name, parameter in choices(Categorical).items()}
    {'label_smoothing': 0.1}
    """
    usual = inspect.signature(family.for_target).parameters
    return {
        name: usual.get(name, parameter)
        for name, parameter in inspect.signature(family).parameters.items()
        if name not in FROM_TARGET
    }


__all__ = [
    "LIKELIHOODS",
    "Bernoulli",
    "Beta",
    "Boxes",
    "Categorical",
    "Distance",
    "Exponential",
    "Focal",
    "Gamma",
    "HeatMaps",
    "Huber",
    "Joint",
    "Laplace",
    "Likelihood",
    "LogNormal",
    "Margin",
    "Mixture",
    "MultivariateNormal",
    "NegativeBinomial",
    "Normal",
    "OneHot",
    "Ordinal",
    "Pixels",
    "PlackettLuce",
    "Poisson",
    "Prediction",
    "Quantile",
    "Robust",
    "Signs",
    "Span",
    "StudentT",
    "Tokens",
    "VonMises",
    "choices",
    "kl",
    "likelihood_for",
]
