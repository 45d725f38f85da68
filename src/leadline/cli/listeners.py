"""What listens to the loop of a run: asked of a loop that has just run, for one epoch on forty rows."""

from __future__ import annotations

import contextlib
import io
import tempfile
from pathlib import Path

from leadline import models
from leadline.cli.list import first_sentence
from leadline.data import load
from leadline.engine.record import Record
from leadline.likelihoods import likelihood_for
from leadline.session import Session
from leadline.settings import Settings


def listeners_of_a_run() -> dict[str, str]:
    """The listeners of `leadline train`, in the order in which they are called, with what each says it does."""
    rows = load("xor", num=40)
    session = Session(models.Linear(2, 1), rows, likelihood_for(rows.target), Settings(epochs=1, threads=1))
    with tempfile.TemporaryDirectory() as folder, contextlib.redirect_stderr(io.StringIO()):
        session.keep(Record.create(Path(folder, "run"), session.config(), session.data.inputs.attachments()))
        session.train([], "log", False, ())
    found = {}
    for listener in session.loop.listeners:
        thing = listener if hasattr(listener, "__qualname__") else type(listener)
        found[thing.__qualname__.lstrip("_")] = first_sentence(thing, thing.__name__)
    return found
