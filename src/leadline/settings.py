"""How a run is fitted: every number that decides the result, plain and JSON-able, with its legal range."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass, fields, replace
from typing import Any

from leadline.errors import UnknownName, UserError
from leadline.names import suggest


@dataclass(frozen=True)
class Settings:
    """The settings of `fit`. Those that are None or "auto" are resolved before the first step and recorded.

    >>> Settings(epochs=5).epochs
    5
    """

    epochs: int = 100
    """passes over the training split, at least 1"""
    batch: int = 64
    """examples a step, at least 1"""
    lr: float = 3e-3
    """highest learning rate of the schedule, above 0"""
    optimizer: str = "adamw"
    """update rule: sgd, nesterov, adam, adamw, rmsprop, adagrad, nadam, radam, lbfgs"""
    weight_decay: float = 0.01
    """pull of the weights towards 0, at least 0"""
    momentum: float = 0.9
    """of sgd, nesterov and rmsprop, in [0, 1)"""
    schedule: str = "cosine"
    """of the learning rate after warm-up: constant, cosine, linear, step"""
    warmup: float = 0.05
    """part of the run in which the learning rate rises, in [0, 1)"""
    clip: float | None = None
    """largest norm of the gradient, above 0; None leaves it alone"""
    accumulate: int = 1
    """micro-batches a step, at least 1: the same gradient in less memory"""
    patience: int | None = None
    """epochs without improvement before the run stops; None never stops early"""
    validate_every: int = 1
    """epochs between validations, at least 1"""
    seed: int = 0
    """of first weights, order and noise"""
    precision: str = "auto"
    """float32, float64, tf32 (matrix products in 10 bits), bf16 (mixed), or auto: float32 on a CPU; on a GPU bf16 for
    models above a million weights, else tf32"""
    device: str = "auto"
    """cpu, cuda, mps, or auto"""
    threads: int | None = None
    """CPU threads; None measures which count is faster"""
    compile: str = "auto"
    """on, off, or auto: compile when the time saved in this run exceeds the time of compiling"""

    def __post_init__(self):
        at_least_one = ("epochs", "batch", "accumulate", "validate_every")
        for name in (*at_least_one, "patience", "threads"):
            value = getattr(self, name)
            if value is None and name not in at_least_one:
                continue
            if not isinstance(value, int) or isinstance(value, bool) or value < 1:
                raise UserError(f"{name} must be a whole number of at least 1", got=f"{name}={value!r}", do="Raise it")
        if not isinstance(self.seed, int) or isinstance(self.seed, bool) or not 0 <= self.seed < 2**63:
            raise UserError(
                "seed must be a whole number from 0 to 2^63 - 1", got=f"seed={self.seed!r}", do="Pass one such as 0"
            )
        for name, low, high in (("warmup", 0, 1), ("momentum", 0, 1), ("weight_decay", 0, math.inf)):
            value = getattr(self, name)
            if not (isinstance(value, (int, float)) and low <= value < high):
                raise UserError(
                    f"{name} must be at least {low}" + (f" and below {high}" if high < math.inf else ""),
                    got=f"{name}={value!r}",
                    do="Choose a value in that range",
                )
        for name in ("lr", "clip"):
            value = getattr(self, name)
            if not (value is None and name == "clip") and not (
                isinstance(value, (int, float)) and 0 < value < math.inf
            ):
                raise UserError(f"{name} must be above 0", got=f"{name}={value!r}", do="A usual value is 0.003")
        for name, legal in CHOICES.items():
            value = getattr(self, name)
            if value not in legal:
                raise UnknownName(
                    f"{name} must be a known word",
                    got=f"{name}={value!r}",
                    do=suggest(str(value), [word for word in legal if word != "given"]),
                )

    @classmethod
    def make(cls, **given: Any) -> Settings:
        """Settings from keywords; an unknown one answers with the closest known."""
        known = [field.name for field in fields(cls)]
        for name in given:
            if name not in known:
                raise UnknownName("a setting must be known", got=name, do=suggest(name, known))
        return cls(**given)

    def with_(self, **changes: Any) -> Settings:
        return replace(self, **changes)

    @property
    def config(self) -> dict[str, Any]:
        return asdict(self)


CHOICES: dict[str, tuple[str, ...]] = {
    "optimizer": ("sgd", "nesterov", "adam", "adamw", "rmsprop", "adagrad", "nadam", "radam", "lbfgs", "given"),
    "schedule": ("constant", "cosine", "linear", "step", "given"),
    "precision": ("auto", "float32", "float64", "tf32", "bf16"),
    "compile": ("auto", "on", "off"),
}
