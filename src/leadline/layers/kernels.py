"""GPU kernels out of their text. Triton reads what it compiles from a file, and is not there on every machine."""

from __future__ import annotations

import functools
import importlib.util
import tempfile
from pathlib import Path
from typing import Any


@functools.cache
def has_triton() -> bool:
    """Whether Triton is installed, without importing it, which takes a second."""
    return importlib.util.find_spec("triton") is not None


@functools.cache
def kernels(text: str) -> Any:
    """The text as a module, whose functions are kernels; an ImportError where there is no Triton."""
    folder = tempfile.TemporaryDirectory(prefix="leadline-")
    path = Path(folder.name) / "kernels.py"
    path.write_text(text)
    spec = importlib.util.spec_from_file_location("leadline_kernels", path)
    if spec is None or spec.loader is None:
        raise RuntimeError("the text of kernels is a module")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    module.folder = folder  # type: ignore[attr-defined]  # lives as long as the kernels
    return module
