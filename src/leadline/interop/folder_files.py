"""Files of a Hugging Face folder, read with care: config.json, model.safetensors, or its parts and their index.

Only safetensors are read, never pickle: a file of a stranger can be refused but can do no harm.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from safetensors import SafetensorError, safe_open

from leadline.errors import CheckpointError, UserError
from leadline.interop.filling import listed
from leadline.settings import given

CONFIG, WEIGHTS, INDEX = "config.json", "model.safetensors", "model.safetensors.index.json"
_MOST_JSON = 64 * 2**20  # bytes of a config or an index


def path_of(folder: str | Path) -> Path:
    """A folder as a path; an empty name would be the folder of now.

    >>> path_of("models/gpt2").name
    'gpt2'
    """
    if isinstance(folder, (str, Path)) and str(folder):
        return Path(folder)
    raise UserError("folder must be the path of a folder", got=given("folder", folder), do='Pass such as "models/gpt2"')


def read_json(file: Path, path: Path) -> dict[str, Any]:
    """The JSON object in a file of a folder; raises where it is missing, huge or no such thing."""
    if not file.is_file():
        raise CheckpointError(
            f"the folder must hold {file.name}",
            got=f"{listing(path)} in {path}" if path.is_dir() else f"{path}, which is no folder",
            do="Name a folder that save_pretrained has written",
        )
    if file.stat().st_size > _MOST_JSON:
        raise _damaged(file, f"{file.stat().st_size / 2**20:.0f} MiB, where {_MOST_JSON // 2**20} are the most")
    try:
        found = json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        found = None
    if not isinstance(found, dict):
        raise _damaged(file, "no JSON object")
    return found


def files_of(path: Path) -> dict[str, Path]:
    """Name of each tensor in the folder -> the file that holds it."""
    if (path / WEIGHTS).is_file():
        return dict.fromkeys(_whole(path / WEIGHTS), path / WEIGHTS)
    if not (path / INDEX).is_file():
        pickled = any(path.glob("*.bin")) or any(path.glob("*.pt"))
        raise CheckpointError(
            f"the folder must hold {WEIGHTS}, or {INDEX} and its parts",
            got=f"{listing(path)} in {path}"
            + (", which is pickle: it can run any code when it is read" if pickled else ""),
            do="Write it again with save_pretrained(folder), which writes safetensors; the hub has them of most models",
        )
    shards = read_json(path / INDEX, path).get("weight_map")
    if not isinstance(shards, dict) or not all(isinstance(file, str) for file in shards.values()):
        raise _damaged(path / INDEX, "no weight_map from names to files")
    for file in sorted(set(shards.values())):
        if Path(file).name != file or not file.endswith(".safetensors"):
            raise _damaged(path / INDEX, f"the file name {file!r}, which leaves the folder or is no .safetensors")
        if not (path / file).is_file():
            raise _damaged(path / INDEX, f"{file}, which is not there")
    held = {file: set(_whole(path / file)) for file in set(shards.values())}
    for name, file in shards.items():
        if name not in held[file]:
            raise _damaged(path / file, f"no {name}, which {INDEX} promises")
    return {name: path / file for name, file in shards.items()}


def listing(path: Path) -> str:
    """What stands in a folder, as a message tells it.

    >>> listing(Path("nowhere"))
    'nothing'
    """
    names = sorted(file.name for file in path.iterdir())[:100] if path.is_dir() else []
    return listed(names) if names else "nothing"


def _whole(file: Path) -> list[str]:
    """Names of the tensors in a file; raises where it is cut off or no safetensors at all."""
    try:
        with safe_open(file, framework="pt") as opened:
            return list(opened.keys())
    except (SafetensorError, OSError) as error:
        raise _damaged(file, str(error)) from None


def _damaged(file: Path, evidence: str) -> CheckpointError:
    return CheckpointError(f"{file.name} must be whole", got=f"{evidence} ({file})", do="Restore it from where it came")
