"""Network output → distribution → loss, prediction, metrics. A `Target` picks the family; a user may name another."""

from __future__ import annotations

import inspect
from typing import Any

from leadline.data.target import Target
from leadline.errors import UnknownName, UserError
from leadline.likelihoods.bernoulli import Bernoulli
from leadline.likelihoods.categorical import Categorical
from leadline.likelihoods.likelihood import Likelihood
from leadline.likelihoods.normal import Normal
from leadline.likelihoods.prediction import Prediction
from leadline.names import lookup, suggest

LIKELIHOODS: dict[str, type[Likelihood]] = {
    "Normal": Normal,
    "Bernoulli": Bernoulli,
    "Categorical": Categorical,
}

#: what `likelihood_for` fills in from the target; everything else of a constructor is the user's to choose
FROM_TARGET = ("num_classes", "dim", "shift", "scale")

DEFAULTS = {"real": "Normal", "binary": "Bernoulli", "classes": "Categorical"}


def likelihood_for(target: Target, name: str | None = None, **options: Any) -> Likelihood:
    """The likelihood of a target: its default family, or the one called `name`.

    >>> likelihood_for(Target("binary"))
    Bernoulli()
    """
    family = lookup(name or DEFAULTS.get(target.kind, "Normal"), LIKELIHOODS, "likelihood")
    if name and issubclass(family, (Bernoulli, Categorical)) != target.discrete:
        raise UserError(
            f"likelihood {family.__name__} must fit the target",
            got=f"{target}",
            do=f"Leave the likelihood out, and {DEFAULTS.get(target.kind, 'Normal')} is taken",
        )
    known = choices(family)
    for option in options:
        if option not in known:
            have = [other.__name__ for other in LIKELIHOODS.values() if option in choices(other)]
            raise UnknownName(
                f"{family.__name__} must be given options that it has",
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
    "Categorical",
    "Likelihood",
    "Normal",
    "Prediction",
    "choices",
    "likelihood_for",
]
