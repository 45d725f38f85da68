"""Update rules and schedules. `RULES` is the list of the rules that take the place of gradient descent."""

from __future__ import annotations

import inspect
from collections.abc import Iterable
from typing import Any

from torch import nn

from leadline.data.target import Target
from leadline.errors import UnknownName, UserError
from leadline.likelihoods import LIKELIHOODS, Likelihood, likelihood_for
from leadline.names import lookup, suggest
from leadline.optim.averaged_momentum import AveragedMomentum
from leadline.optim.bayes import BayesianLinear, Posterior
from leadline.optim.damped_newton import DampedNewton
from leadline.optim.entropy_descent import EntropyDescent
from leadline.optim.exhaustive import Exhaustive
from leadline.optim.flow import descend, flow, modified
from leadline.optim.gauss_newton import GaussNewton
from leadline.optim.gradient import Gradient
from leadline.optim.hebb import Hebb
from leadline.optim.least_squares import LeastSquares
from leadline.optim.line_search import LineSearch
from leadline.optim.look_ahead import LookAhead
from leadline.optim.muon import Muon
from leadline.optim.newton import Newton
from leadline.optim.per_example_adam import PerExampleAdam
from leadline.optim.perceptron import PerceptronRule
from leadline.optim.printed_adam import PrintedAdam
from leadline.optim.rule import Rule
from leadline.optim.schedules import SCHEDULES
from leadline.optim.sharpness_aware import SharpnessAware
from leadline.optim.sign_descent import SignDescent
from leadline.optim.swats import SWATS
from leadline.optim.variance_reduced import SVRG
from leadline.optim.votes import Votes
from leadline.optim.yogi import Yogi
from leadline.settings import given

RULES: dict[str, type[Rule]] = {
    "LeastSquares": LeastSquares,
    "BayesianLinear": BayesianLinear,
    "Newton": Newton,
    "DampedNewton": DampedNewton,
    "GaussNewton": GaussNewton,
    "LineSearch": LineSearch,
    "SVRG": SVRG,
    "PerExampleAdam": PerExampleAdam,
    "Exhaustive": Exhaustive,
    "PerceptronRule": PerceptronRule,
    "Hebb": Hebb,
    "Votes": Votes,
}

#: arguments of rules that only Python can give, since they are objects
OBJECTS = ("separation",)
#: settings that say how gradient descent moves, and nothing to another rule
OF_GRADIENT = ("optimizer", "lr", "schedule", "warmup", "weight_decay", "momentum", "clip", "accumulate", "regularize")


def choices(rule_type: type[Rule]) -> dict[str, inspect.Parameter]:
    """The arguments of a rule that can be spelt out.

    >>> [*choices(Newton)]
    ['ridge', 'tolerance']
    """
    parameters = inspect.signature(rule_type).parameters
    return {name: parameter for name, parameter in parameters.items() if name not in OBJECTS}


def rule_from(wish: Rule | type[Rule] | str, **options: Any) -> Rule:
    """A rule from its name, its class, or itself.

    >>> rule_from("newton", ridge=1.0).ridge
    1.0
    """
    if isinstance(wish, Rule):
        return wish
    kind = lookup(wish, RULES, "rule") if isinstance(wish, str) else wish
    if not isinstance(kind, type) or not issubclass(kind, Rule) or kind is Gradient:
        raise UserError(
            "rule must be a name, a class of rules or a rule",
            got="Gradient, which is what is used without a rule" if kind is Gradient else given("rule", wish),
            do="Leave rule out" if kind is Gradient else f"Known: {', '.join(RULES)}; or leave it out",
        )
    known = choices(kind)
    for option in options:
        if option not in known:
            own = suggest(option, known).rstrip(".") if known else f"{kind.__name__} has none"
            raise UnknownName(f"{kind.__name__} does not have this option", got=option, do=own)
    return kind(**options)


# ── what a model is made for ──


def own_rule(model: nn.Module | type[nn.Module], target: Target) -> str | None:
    """The rule that a model is made for, by its attribute `own_rule`, where y is of this kind; None is by gradients.

    >>> from leadline.models import Hopfield
    >>> own_rule(Hopfield, Target("signs", dim=4))
    'Hebb'
    """
    return getattr(model, "own_rule", {}).get(target.kind)


def likelihood_of(
    model: nn.Module | type[nn.Module],
    target: Target,
    rule: str | None,
    wish: Likelihood | type[Likelihood] | str | None = None,
    **options: Any,
) -> Likelihood:
    """The likelihood that was asked for; else the one that goes with the model's own rule; else the target's.

    Args:
        rule: what moves the model, by name; None is gradient descent.
        wish: a family, its class or its name.
    """
    if isinstance(wish, type) and issubclass(wish, Likelihood):
        return likelihood_for(target, wish.__name__) if wish in LIKELIHOODS.values() else wish.for_target(target)
    if wish is None and rule is not None and rule == own_rule(model, target):
        name, usual = getattr(model, "own_likelihood", {}).get(target.kind, (None, {}))
        return likelihood_for(target, name, **{**usual, **options})
    if wish is None or isinstance(wish, str):
        return likelihood_for(target, wish, **options)
    if not isinstance(wish, Likelihood):
        raise UserError(
            "likelihood must be a name, a class of likelihoods or a likelihood",
            got=given("likelihood", wish),
            do='Pass likelihood="Normal", or leave it out, and the target picks it',
        )
    return wish


def check_alone(rule: str, named: Iterable[str], of_model: str = "") -> None:
    """Refuse settings of gradient descent beside a rule.

    Args:
        rule: its name.
        named: the settings that were given.
        of_model: the model that brought the rule, where nobody named it.
    """
    both = [name for name in OF_GRADIENT if name in named]
    if both:
        words = ", ".join(both)
        do = f"Leave {words} out; or, for gradient descent, "
        raise UserError(
            "a model must learn by a rule or by gradient descent, not by both",
            got=f"{f'{of_model}, which learns by {rule},' if of_model else f'rule {rule}'} and {words}",
            do=do + ("name an optimizer, such as adamw" if of_model else "leave the rule out"),
        )


def told(model: nn.Module | type[nn.Module], rule: str, likelihood: Likelihood, instead: str) -> str:
    """That a model learns by its own rule, for those who named none.

    Args:
        instead: what to write for gradient descent.
    """
    name = (model if isinstance(model, type) else type(model)).__name__
    family = type(likelihood).__name__
    with_ = f" and {family}" if getattr(model, "own_likelihood", {}) else ""
    return f"{name} learns by {rule}{with_}, which it is made for; {instead} trains it by gradient descent"


__all__ = [
    "RULES",
    "SCHEDULES",
    "SVRG",
    "SWATS",
    "AveragedMomentum",
    "BayesianLinear",
    "DampedNewton",
    "EntropyDescent",
    "Exhaustive",
    "GaussNewton",
    "Gradient",
    "Hebb",
    "LeastSquares",
    "LineSearch",
    "LookAhead",
    "Muon",
    "Newton",
    "PerExampleAdam",
    "PerceptronRule",
    "Posterior",
    "PrintedAdam",
    "Rule",
    "SharpnessAware",
    "SignDescent",
    "Votes",
    "Yogi",
    "check_alone",
    "choices",
    "descend",
    "flow",
    "likelihood_of",
    "modified",
    "own_rule",
    "rule_from",
    "told",
]
