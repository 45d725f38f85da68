"""LoRA: a large model is taught something new by small updates beside its maps (Hu et al., 2021).

    W x  ->  W x + (α / r) B A x        W held still, A and B learned (leadline.layers.low_rank_update)        (1)
    merged:  W <- W + (α / r) B A          the plain architecture again                                        (2)

It acts on a model from outside. Weights that do not move have no gradient and no state in the optimizer: of a map with
D inputs and D outputs 2 r D numbers are learned in place of D².

Paper      all four maps of attention get an update here, queries and values alone there. Where one map computes
           queries, keys and values, the three share A
"""

from __future__ import annotations

import copy
from collections.abc import Iterable, Sequence
from fnmatch import fnmatchcase
from typing import Any, TypeVar

import torch
from torch import nn

from leadline.errors import UserError
from leadline.layers.low_rank_update import LowRankUpdate
from leadline.settings import whole

Network = TypeVar("Network", bound=nn.Module)

#: names of the maps of attention
ATTENTION = ("*.query", "*.key", "*.value", "*.query_key_value", "*.key_value", "*.branch.out", "*.attention.out")
#: names of the weights that answer
HEAD = ("head.*", "answer.*", "pooler.*")
_USUAL = 8  # rank, which maps of a toy may be smaller than


def lora(
    model: Network,
    rank: int = _USUAL,
    alpha: float | None = None,
    where: Sequence[str] = ATTENTION,
    moving: Sequence[str] = HEAD,
    seed: int = 0,
) -> Network:
    """Put updates of low rank beside linear maps of a model, and hold all else still but its head, in place (1).

    A run records it: `resume` and `load` build the model the same way.

    Args:
        rank: r, at least 1, at most the smaller side of the largest map.
        alpha: α, above 0; r by default, which makes the factor 1.
        where: patterns of names of nn.Linear modules, such as "*.widen".
        moving: patterns of names of other weights that learn; a pattern may match nothing.
        seed: of the first A.

    >>> from leadline.models import BERT
    >>> model = lora(BERT.tiny(), rank=2)
    >>> [name for name, p in model.named_parameters() if p.requires_grad][:3]
    ['layers.0.attention.branch.query_key_value.down.weight', 'layers.0.attention.branch.query_key_value.up.weight', \
'layers.0.attention.branch.out.down.weight']
    """
    rank, where, moving = whole("rank", rank, usual=_USUAL), _patterns("where", where), _patterns("moving", moving)
    if any(isinstance(module, LowRankUpdate) for module in model.modules()):
        raise UserError(
            "a model must be plain to be given updates of low rank",
            got=f"a {type(model).__name__} that has some",
            do="Fold them in first: lora(merged(model), …)",
        )
    every = [(name, m) for name, m in model.named_modules(remove_duplicate=False) if isinstance(m, nn.Linear) and name]
    chosen = [(name, m) for name, m in every if _matches(name, where)]
    if not chosen:
        some = ", ".join(name for name, _ in every[:8])
        raise UserError(
            "where must match linear maps of the model",
            got=f"{', '.join(where)}, which match none of {type(model).__name__}",
            do=f"Its maps are {some}{' …' if len(every) > 8 else ''}" if every else "Use a model that has linear maps",
        )
    widest = max(_USUAL, *(min(linear.in_features, linear.out_features) for _, linear in chosen))
    if rank > widest:
        raise UserError(
            f"an update must have no higher rank than its map, at most {widest}",
            got=f"rank {rank}",
            do=f"A usual one is {_USUAL}",
        )
    generator = torch.Generator().manual_seed(whole("seed", seed, 0, usual=0))
    made: dict[nn.Module, LowRankUpdate] = {}
    for name, p in model.named_parameters():
        p.requires_grad_(_matches(name, moving))
    for name, linear in chosen:
        made[linear] = made.get(linear) or LowRankUpdate(linear, rank, alpha, generator)
        model.set_submodule(name, made[linear])
    used = next(iter(made.values())).alpha
    model.lora = {"rank": rank, "alpha": used, "where": where, "moving": moving}  # type: ignore[assignment]
    return model


def merged(model: Network) -> Network:
    """A copy with the updates folded into its weights (2), all of which may move again.

    >>> from leadline.models import BERT
    >>> plain = BERT.tiny()
    >>> list(merged(lora(plain, rank=2)).state_dict()) == list(BERT.tiny().state_dict())
    True
    """
    made = copy.deepcopy(model)
    updates = [(n, m) for n, m in made.named_modules(remove_duplicate=False) if isinstance(m, LowRankUpdate)]
    folded: dict[nn.Module, Any] = {}
    for name, update in updates:
        folded[update] = folded.get(update) or update.folded()
        made.set_submodule(name, folded[update])
    made.__dict__.pop("lora", None)
    return made.requires_grad_(True) if updates else made


def _matches(name: str, patterns: Sequence[str]) -> bool:
    return any(fnmatchcase(name, pattern) for pattern in patterns)


def _patterns(name: str, given: Sequence[str]) -> list[str]:
    words = [given] if isinstance(given, str) or not isinstance(given, Iterable) else list(given)
    if not all(isinstance(word, str) for word in words):
        raise UserError(f"{name} must be patterns of names", got=f"{name}={given!r}", do='Pass such as ("*.widen",)')
    return words
