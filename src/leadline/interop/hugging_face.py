"""Folders as Hugging Face's transformers writes and reads them: config.json beside model.safetensors.

    load(folder)          config.json -> a model of ours, its tensors filled by name         (1)
    save(model, folder)   the same way back; transformers' from_pretrained reads it          (2)
    fetch(name)           a folder out of the hub. Nothing is downloaded unless this is called

A model that was loaded takes along what stood beside its weights, such as special tokens, names of classes and the
files of its tokenizer (`leadline.interop.beside`), and is saved with it.

Only safetensors are read, never pickle (`leadline.interop.folder_files`). Every tensor must find its place and every
place its tensor (`leadline.interop.folder`). What is known of a family of models is in one file
(`leadline.interop.families`).
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

import torch
from safetensors import SafetensorError
from safetensors.torch import save_file
from torch import Tensor, nn

from leadline.engine.files import replace_bytes, replace_json, sync_folder
from leadline.errors import CheckpointError, UserError
from leadline.interop.beside import FILES, TOKENIZER, Beside
from leadline.interop.families import FAMILIES, family_of, head_of, places_of
from leadline.interop.fixed import labels
from leadline.interop.folder import Folder
from leadline.interop.folder_files import CONFIG, INDEX, WEIGHTS, listing, path_of
from leadline.layers.low_rank_update import LowRankUpdate
from leadline.models.lora import merged
from leadline.settings import given, truth

if TYPE_CHECKING:
    from leadline.text import Tokenizer

__all__ = ["CONFIG", "FAMILIES", "INDEX", "WEIGHTS", "Folder", "fetch", "load", "places_of", "save", "tokenizer"]


def load(folder: str | Path, *, new_head: bool = False, **options: Any) -> nn.Module:
    """The model that a folder holds (1).

    Args:
        new_head: take the trunk, and draw first weights for a head that is missing or of another shape.
        options: arguments of our constructor, in place of those that config.json asks for.

    For fine-tuning: `load(folder, new_head=True, head="classes", dim_output=3)`.
    """
    truth("new_head", new_head)
    opened = Folder.open(folder)
    opened.expect(new_head, **options)
    model = opened.build(**options)
    filled, beside = opened.fill(model), Beside.of(opened.path, opened.config)
    drawn = any(name.startswith(head_of(opened.family)) for name in filled.new)
    model.beside = beside.without_classes() if drawn else beside  # type: ignore[assignment]
    return model


def save(
    model: nn.Module, folder: str | Path, tokenizer: Tokenizer | None = None, classes: Sequence[str] | None = None
) -> Path:
    """Write a model as transformers would (2), in place of what was there.

    Args:
        tokenizer: goes into the folder too.
        classes: names of what the head tells apart, such as `data.target.classes`.

    Updates of low rank (`leadline.models.lora`) are folded in on the way; the model itself keeps them. A model that was
    loaded from a folder brings special tokens, names of classes and files of that folder along; with another tokenizer,
    what was of the old one stays behind.
    """
    family, folder = family_of(model), path_of(folder)
    if tokenizer is not None:
        from leadline.text import Tokenizer  # whose library takes a while to import

        if not isinstance(tokenizer, Tokenizer):
            got, do = given("tokenizer", tokenizer), "Pass Tokenizer.load(path)"
            raise UserError("tokenizer must be a Tokenizer of leadline.text", got=got, do=do)
    if any(isinstance(module, LowRankUpdate) for module in model.modules()):
        model = merged(model)
    beside = getattr(model, "beside", Beside({}, {})).read_by(tokenizer)
    config = _told(beside.joined(family.hf_config_of(model)), tokenizer)
    if classes is not None:
        config |= labels(_num_classes(model, config), classes)
    files = dict(beside.files)
    if tokenizer is not None and TOKENIZER not in files:
        files[TOKENIZER] = tokenizer.to_json().encode()
    _write(folder, config, _as_theirs(model, family), files)
    return folder


def _as_theirs(model: nn.Module, family: ModuleType) -> dict[str, Tensor]:
    """The tensors of a model under their names, laid out as they have them."""
    own, tensors = model.state_dict(), {}
    for name, place in places_of(family, model).items():
        for theirs, part in zip(place.names, place.write(own[name].detach().cpu())):
            tensors[theirs] = part.clone(memory_format=torch.contiguous_format)
    return tensors


def _write(folder: Path, config: dict[str, Any], tensors: dict[str, Tensor], files: Mapping[str, bytes]) -> None:
    """Put everything into a folder, each file in one move."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        temporary = folder / f".{WEIGHTS}.{os.getpid()}.tmp"
        try:
            save_file(tensors, temporary, metadata={"format": "pt"})
            os.replace(temporary, folder / WEIGHTS)
        finally:
            temporary.unlink(missing_ok=True)
        (folder / INDEX).unlink(missing_ok=True)  # of shards that stood here before
        replace_json(folder / CONFIG, config)
        for name, content in files.items():
            replace_bytes(folder / name, content)
        sync_folder(folder)
    except (OSError, SafetensorError) as error:
        raise CheckpointError(
            "the folder must be one that can be written to",
            got=f"{folder}: {getattr(error, 'strerror', None) or error}",
            do="Name another folder, or make room",
        ) from None


def _num_classes(model: nn.Module, config: dict[str, Any]) -> int:
    if "id2label" in config and isinstance(found := getattr(model, "dim_output", None), int):
        return found
    raise UserError(
        "classes must be of a model that tells some apart", got=f"a {type(model).__name__}", do="Leave them out"
    )


def _told(config: dict[str, Any], tokenizer: Tokenizer | None) -> dict[str, Any]:
    """A config with the tokens that close and begin a document, where it has a place for them that is empty."""
    if tokenizer is None:
        return config
    begins = tokenizer.end if tokenizer.start is None else tokenizer.start
    told = {"eos_token_id": tokenizer.end, "bos_token_id": begins}
    return {**config, **{name: value for name, value in told.items() if name in config and config[name] is None}}


def tokenizer(folder: str | Path) -> Tokenizer:
    """The tokenizer in a folder, tokenizer.json."""
    path = path_of(folder) / TOKENIZER
    if not path.is_file():
        raise CheckpointError(
            f"the folder must hold {TOKENIZER} for its tokenizer to be read",
            got=f"{listing(Path(folder))} in {folder}",
            do="Save it with AutoTokenizer.from_pretrained(…).save_pretrained(folder), which writes that file",
        )
    from leadline.text import Tokenizer  # whose library takes a while to import

    return Tokenizer.load(path)


def fetch(name: str, revision: str | None = None) -> Path:
    """The folder of a model on Hugging Face's hub, downloaded once: the only function here that uses the network.

    Args:
        name: as the hub has it, such as "google-bert/bert-base-uncased".
        revision: a branch, a tag or, to be sure of the same bytes, a commit.
    """
    try:
        from huggingface_hub import snapshot_download
    except ImportError:
        raise UserError(
            "huggingface_hub must be installed to fetch from the hub",
            got="no such package",
            do="pip install huggingface_hub, or download the folder another way and load it",
        ) from None
    wanted = [CONFIG, "*.safetensors", INDEX, *FILES]
    return Path(snapshot_download(name, revision=revision, allow_patterns=wanted))
