"""Models as ONNX files, which runtimes without torch or Python compute.

    export(model, path)       any number of rows; for tokens any length too, up to the model's own

A recurrent network must read its rows by a kernel of torch's: `Recurrent` is exported of lstm, gru and elman alone, and
`EncoderDecoder` without attention inside of its step.
The file holds what the model answers in evaluation mode: the parameters of a distribution, not yet its likelihood.
Needs the packages onnx and onnxscript.
"""

from __future__ import annotations

import copy
import io
import logging
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from leadline.errors import UserError
from leadline.interop.onnx_recurrent import translations, whole_kernels
from leadline.layers.held_graph import HeldGraph
from leadline.settings import given

NAMES = ("x", "output")  # of the graph's input and output


def export(model: nn.Module, path: str | Path, x: Tensor | None = None) -> Path:
    """Write a model as one ONNX file, with input `x` and output `output`.

    Args:
        x: an example of a batch, of at least 2 rows; without it rows of `model.input_shape`, tokens where the model has
            `num_tokens`.
    """
    for package in ("onnx", "onnxscript"):
        if find_spec(package) is None:
            raise UserError(
                f"{package} must be installed to write ONNX", got="no such package", do=f"pip install {package}"
            )
    if not isinstance(model, nn.Module):
        raise UserError("what is exported must be a model", got=given("model", model), do="Pass an nn.Module")
    if not Path(path).parent.is_dir():
        got = f"{Path(path).parent}, which is no folder"
        raise UserError("the file must stand in a folder that is there", got=got, do="Make it, or name another")
    if any(isinstance(part, HeldGraph) for part in model.modules()):
        raise UserError(
            "a model must answer from its rows alone to be written as ONNX",
            got=f"{type(model).__name__}, which reads a graph besides",
            do="Ask it with run.predict, or in a shell with leadline predict",
        )
    x, path = _example(model) if x is None else x, Path(path)
    quiet = copy.deepcopy(model).cpu().eval()
    of_any_length = not x.is_floating_point() or getattr(model, "reads_sets", False)
    sizes: dict[int, Any] = {0: torch.export.Dim.DYNAMIC, **({1: torch.export.Dim.DYNAMIC} if of_any_length else {})}
    try:
        with _hushed(), whole_kernels(), torch.no_grad():
            torch.onnx.export(
                quiet,
                (x.cpu(),),
                path,
                input_names=NAMES[:1],
                output_names=NAMES[1:],
                dynamic_shapes=(sizes,),
                custom_translation_table=translations(),
                dynamo=True,
                external_data=False,
                verbose=False,
            )
    except torch.onnx.OnnxExporterError as error:
        lines = [line.strip() for line in str(error.__cause__ or error).splitlines() if line.strip()]
        reason = " ".join(lines[: 2 if lines and lines[0].endswith(":") else 1]).rstrip(".")
        raise UserError(
            "a model must be of operations that torch's exporter can follow for rows of any number",
            got=f"{type(model).__name__}, of which it says: {reason}",
            do="Compute it with torch, or export another model",
        ) from None
    return path


@contextmanager
def _hushed() -> Iterator[None]:
    """Without what the exporter says of its own insides."""
    before = logging.root.manager.disable
    logging.disable(logging.CRITICAL)
    try:
        with warnings.catch_warnings(), redirect_stdout(io.StringIO()), redirect_stderr(io.StringIO()):
            warnings.simplefilter("ignore")
            yield
    finally:
        logging.disable(before)


def _example(model: nn.Module) -> Tensor:
    shape = getattr(model, "input_shape", None)
    if shape is None:
        raise UserError(
            "a model must say what it reads to be exported",
            got=f"{type(model).__name__} without input_shape",
            do="Pass an example: export(model, path, x)",
        )
    words: Any = getattr(model, "num_tokens", None)
    if words is None:
        return torch.zeros(2, *shape)
    return torch.arange(2 * shape[0]).view(2, -1) % words
