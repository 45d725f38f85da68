"""Leadline: deep learning sounded to the bottom.

    import leadline as ll

    data = ll.data.mnist1d()
    run = ll.fit(ll.models.MLP(40, (100, 100), 10), data)
    run.evaluate("test")

Needs torch, numpy and safetensors; everything else is imported where it is used. The names below are loaded when they
are first asked for, so that `leadline --help` answers without waiting for torch.
"""

from __future__ import annotations

import gc
import sys
from importlib import import_module
from typing import TYPE_CHECKING, Any

from leadline.version import VERSION

if TYPE_CHECKING:
    from leadline import (
        data,
        doctor,
        interop,
        layers,
        lens,
        likelihoods,
        models,
        optim,
        regularize,
        selection,
        settings,
        testing,
        text,
    )
    from leadline.population import Population, fit_many, members
    from leadline.run import Run
    from leadline.selection import Comparison, CrossValidation, Search, compare, cross_validate, search
    from leadline.verbs import Replay, fit, load, replay, resume

__version__ = VERSION

_FROM = {
    **dict.fromkeys(("fit", "load", "replay", "resume", "Replay"), "leadline.verbs"),
    **dict.fromkeys(("fit_many", "members", "Population"), "leadline.population"),
    **dict.fromkeys(
        ("compare", "cross_validate", "search", "Comparison", "CrossValidation", "Search"), "leadline.selection"
    ),
    "Run": "leadline.run",
}
_PARTS = (
    "data",
    "doctor",
    "init",
    "interop",
    "layers",
    "lens",
    "likelihoods",
    "models",
    "optim",
    "regularize",
    "selection",
    "settings",
    "testing",
    "text",
)

__all__ = [
    "Comparison",
    "CrossValidation",
    "Population",
    "Replay",
    "Run",
    "Search",
    "__version__",
    "compare",
    "cross_validate",
    "data",
    "doctor",
    "fit",
    "fit_many",
    "init",
    "interop",
    "layers",
    "lens",
    "likelihoods",
    "load",
    "members",
    "models",
    "optim",
    "regularize",
    "replay",
    "resume",
    "search",
    "selection",
    "settings",
    "testing",
    "text",
]


_alone = "torch" not in sys.modules  # nothing of the user's can be garbage yet


def __getattr__(name: str) -> Any:
    global _alone
    collecting = gc.isenabled()
    gc.disable()  # importing makes no garbage, and a collection on the way would walk through all of torch
    try:
        if name in _PARTS:
            return import_module(f"leadline.{name}")
        if name in _FROM:
            return getattr(import_module(_FROM[name]), name)
    finally:
        if collecting:
            gc.enable()
        if _alone and "torch" in sys.modules:
            gc.freeze()  # nor need it ever walk through it again, in training or at the end: 0.4 s a process
            _alone = False
    raise AttributeError(f"module 'leadline' has no attribute {name!r}")


def __dir__() -> list[str]:
    return __all__
