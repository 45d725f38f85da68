"""Checkpoints: safetensors and JSON, whole or absent, checked before they are believed.

    checkpoints/step-0000000400/
        weights.safetensors   the model's and the likelihood's parameters and buffers
        best.safetensors      those of the best epoch so far, where there is one
        state.safetensors     what the rule remembers, and the losses of the epoch under way
        state.json            position, best score, skeleton of the state; schema version
        manifest.json         size and SHA-256 of each of these; written last

Order of writing: a temporary sibling, each file fsynced, the manifest, fsync, rename, fsync of the parent; only then
are older checkpoints removed. So after a kill or a full disk at any moment the newest that carries a step's name is
whole, and the one before it was there until then.
"""

from __future__ import annotations

import hashlib
import json
import shutil
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load as load_tensors
from safetensors.torch import save as save_tensors
from torch import Tensor

from leadline.engine.files import sync_folder, write_bytes
from leadline.errors import CheckpointError

SCHEMA = 1
KEPT = 2


def save(folder: Path, step: int, tensors: dict[str, dict[str, Tensor]], plain: dict[str, Any]) -> Path:
    """Write the checkpoint of `step` into `folder` and remove all but the first and the newest `KEPT`."""
    final = folder / f"step-{step:010d}"
    temporary = folder / f".tmp-{final.name}"
    sweep(folder)
    if step == 0 and final.exists():
        return final  # the beginning does not change, and there is none before it to fall back to
    try:
        temporary.mkdir(parents=True)
        files = {f"{name}.safetensors": save_tensors(_own(group)) for name, group in tensors.items()}
        files["state.json"] = json.dumps({"schema": SCHEMA, "step": step, **plain}, indent=1).encode()
        for name, content in files.items():
            write_bytes(temporary / name, content)
        manifest = {name: {"bytes": len(c), "sha256": hashlib.sha256(c).hexdigest()} for name, c in files.items()}
        write_bytes(temporary / "manifest.json", json.dumps({"schema": SCHEMA, "files": manifest}, indent=1).encode())
        sync_folder(temporary)
        if final.exists():
            final.rename(folder / f".tmp-{final.name}-before")
        temporary.rename(final)
        sync_folder(folder)
    except OSError:
        shutil.rmtree(temporary, ignore_errors=True)
        raise
    for old in steps(folder)[1:-KEPT]:  # the first, of step 0, stays: from it any step can be replayed
        old.rename(folder / f".tmp-{old.name}")  # in one move: a kill leaves nothing half removed under a step's name
    sweep(folder)
    return final


def steps(folder: Path) -> list[Path]:
    """The checkpoints in `folder`, oldest first."""
    return sorted(path for path in folder.glob("step-*") if path.is_dir())


def sweep(folder: Path) -> None:
    """Remove what a killed writer left behind."""
    for stale in folder.glob(".tmp-step-*"):
        shutil.rmtree(stale, ignore_errors=True)


def load(path: Path) -> tuple[dict[str, dict[str, Tensor]], dict[str, Any]]:
    """Tensors by file and the plain state of a checkpoint, after every byte was checked."""
    manifest = _json(path / "manifest.json", path)
    if not isinstance(manifest, dict) or "schema" not in manifest:
        raise _damaged(path, "manifest.json, which is no manifest")
    if manifest["schema"] != SCHEMA:
        raise CheckpointError(
            f"a checkpoint must be of schema {SCHEMA}",
            got=f"{path.name} of schema {manifest['schema']}",
            do="Use the version of leadline that wrote it, named in run.json",
        )
    try:
        listed = {name: (entry["bytes"], entry["sha256"]) for name, entry in manifest["files"].items()}
        listed["state.json"]
    except (AttributeError, KeyError, TypeError):
        raise _damaged(path, "manifest.json, which does not list the files") from None
    contents = {}
    for name, (size, digest) in listed.items():
        if Path(name).name != name:
            raise _damaged(path, f"a file name that leaves the folder: {name!r}")
        try:
            content = (path / name).read_bytes()
        except (OSError, ValueError) as error:
            raise _damaged(path, f"{name}: {getattr(error, 'strerror', None) or error}") from None
        if len(content) != size:
            raise _damaged(path, f"{name} of {len(content)} bytes where {size} were written")
        if hashlib.sha256(content).hexdigest() != digest:
            raise _damaged(path, f"{name}, whose content is not what was written")
        contents[name] = content
    plain = json.loads(contents.pop("state.json"))
    try:
        return {Path(name).stem: load_tensors(content) for name, content in contents.items()}, plain
    except SafetensorError as error:
        raise _damaged(path, str(error)) from None


def _json(file: Path, path: Path) -> dict[str, Any]:
    try:
        return json.loads(file.read_text())
    except OSError as error:
        raise _damaged(path, f"{file.name}: {error.strerror}") from None
    except ValueError:
        raise _damaged(path, f"{file.name}, which is not JSON") from None


def _damaged(path: Path, evidence: str) -> CheckpointError:
    others = [other.name for other in steps(path.parent) if other != path]
    do = f"Remove {path} to continue from {others[-1]}" if others else "Restore the folder from a copy, or train anew"
    return CheckpointError(f"checkpoint {path.name} must be whole", got=evidence, do=do)


def _own(group: dict[str, Tensor]) -> dict[str, Tensor]:
    """Contiguous CPU copies that share no memory, as safetensors asks for."""
    return {name: tensor.detach().to("cpu", copy=True).contiguous() for name, tensor in group.items()}


def of(owner: str, tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    """The tensors of one owner, "model" or "likelihood", under their own names."""
    return {n.removeprefix(f"{owner}."): t for n, t in tensors.items() if n.startswith(f"{owner}.")}


def restore(module: torch.nn.Module, tensors: dict[str, Tensor], owner: str) -> None:
    """Load tensors into a module of the same architecture; a mismatch is named."""
    expected = module.state_dict()
    wrong = sorted(set(expected) ^ set(tensors)) or [
        name for name in expected if expected[name].shape != tensors[name].shape
    ]
    if wrong:
        name = wrong[0]
        shape = lambda group: tuple(group[name].shape) if name in group else "nothing"  # noqa: E731
        raise CheckpointError(
            f"the checkpoint must be of this {owner}",
            got=f"{len(wrong)} tensors that differ, first {name}: {shape(tensors)} stored, {shape(expected)} wanted",
            do=f"Build the {owner} with the settings in run.json",
        )
    module.load_state_dict(tensors)
