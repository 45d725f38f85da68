"""Leadline: deep learning sounded to the bottom.

    import leadline as ll

    data = ll.data.mnist1d()
    run = ll.fit(ll.models.MLP(40, (100, 100), 10), data)
    run.evaluate("test")

Importing this needs torch, numpy and safetensors; everything else is imported where it is used.
"""

from leadline import data, doctor, likelihoods, models, optim, settings
from leadline.run import Run
from leadline.verbs import Replay, fit, load, replay, resume
from leadline.version import VERSION

__version__ = VERSION

__all__ = [
    "Replay",
    "Run",
    "__version__",
    "data",
    "doctor",
    "fit",
    "likelihoods",
    "load",
    "models",
    "optim",
    "replay",
    "resume",
    "settings",
]
