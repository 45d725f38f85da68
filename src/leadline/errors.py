"""What a user sees when something does not fit: what must hold, what came, what to do."""

from __future__ import annotations


class UserError(ValueError):
    """A mistake that the user can correct. The command line prints it without a traceback and exits with code 2.

    Args:
        must: what must hold, as a full sentence without its stop.
        got: what came instead, by name and number.
        do: what to do about it, as a full sentence without its stop.

    >>> print(UserError("epochs must be at least 1", got="epochs=0", do="Pass --epochs 10"))
    epochs must be at least 1. Got epochs=0. Pass --epochs 10.
    """

    def __init__(self, must: str, *, got: str, do: str):
        self.must, self.got, self.do = must, got, do
        super().__init__(f"{must}. Got {got}. {do}" + ("" if do.endswith(("?", ".")) else "."))


class UnknownName(UserError):
    """A name that no registry or option list knows."""


class DataError(UserError):
    """A file, column or value that cannot be trained on."""


class ShapeError(UserError):
    """Tensors that do not fit each other."""


class RunError(UserError):
    """A run folder that cannot be created, read or continued."""


class CheckpointError(RunError):
    """A checkpoint that is missing, damaged, or of another model or schema."""


class DivergedError(UserError):
    """Training produced a value that is not finite; the weights are those before it."""
