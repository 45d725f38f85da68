"""Network output → distribution → loss, prediction, metrics. A `Target` picks the family; a user may name another."""

from __future__ import annotations

from typing import Any

from leadline.data.target import Target
from leadline.errors import UserError
from leadline.likelihoods.bernoulli import Bernoulli
from leadline.likelihoods.categorical import Categorical
from leadline.likelihoods.likelihood import Likelihood
from leadline.likelihoods.normal import Normal
from leadline.likelihoods.prediction import Prediction
from leadline.names import lookup

LIKELIHOODS: dict[str, type[Likelihood]] = {
    "Normal": Normal,
    "Bernoulli": Bernoulli,
    "Categorical": Categorical,
}

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
    return family.for_target(target, **options)


__all__ = ["LIKELIHOODS", "Bernoulli", "Categorical", "Likelihood", "Normal", "Prediction", "likelihood_for"]
