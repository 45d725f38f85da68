"""GPU kernels out of their text. Triton reads what it compiles from a file, and is not there on every machine."""

from __future__ import annotations

import functools
import importlib.util
import tempfile
from pathlib import Path
from typing import Any

import torch


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


@functools.cache
def early(device: torch.device) -> dict[str, Any]:
    """How a kernel with a flag EARLY is launched. Where a device can, it starts while the one before it still runs, and
    waits for it inside, before it reads what that one writes."""
    can = torch.version.cuda is not None and torch.cuda.get_device_capability(device) >= (9, 0)
    return {"EARLY": True, "launch_pdl": True} if can else {"EARLY": False}


def power(size: int) -> int:
    """The least power of 2 that holds it, at least 16.

    >>> power(3), power(768)
    (16, 1024)
    """
    return max(16, 1 << (size - 1).bit_length())
