"""Folders as Hugging Face's transformers writes and reads them: config.json beside model.safetensors.

    load(folder)          config.json -> a model of ours, its tensors filled by name         (1)
    save(model, folder)   the same way back; transformers' from_pretrained reads it          (2)
    fetch(name)           a folder out of the hub. Nothing is downloaded unless this is called

A model that was loaded takes along what stood beside its weights, such as special tokens, names of classes and the
files of its tokenizer (`leadline.interop.beside`), and is saved with it.

Only safetensors are read, never pickle: a file of a stranger can be refused but can do no harm. Every tensor must find
its place and every place its tensor, or the message names those that do not. What is known of a family is in one file:

    MODEL                  our class
    config_of(theirs)      our constructor's arguments, of their config.json
    hf_config_of(model)    their config.json, of our model
    names(model)           our name of each tensor -> theirs, several of theirs to stack, or a `Place`
    READ                   their classes that can be read

and, where there is need of it,

    PREFIX, HEAD           with which names of their trunk, and of our head, begin
    SPARE                  patterns of their names that say nothing new
    ALIASES                a tensor that may be missing -> one like it
    renamed(name, config)  older names -> those of today
"""

from __future__ import annotations

import inspect
import json
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor, nn

from leadline.engine.files import replace_bytes, replace_json, sync_folder
from leadline.errors import CheckpointError, ShapeError, UnknownName, UserError
from leadline.interop.beside import FILES, TOKENIZER, Beside
from leadline.interop.filling import Filled, fill, listed
from leadline.interop.fixed import labels
from leadline.interop.place import Place, place_of
from leadline.layers.low_rank_update import LowRankUpdate
from leadline.models.lora import merged
from leadline.names import suggest
from leadline.settings import given, truth

if TYPE_CHECKING:
    from leadline.text import Tokenizer

#: "model_type" of a config.json -> our class, and the module that knows this family
FAMILIES = {
    "bert": ("BERT", "leadline.interop.bert"),
    "gpt2": ("GPT", "leadline.interop.gpt2"),
    "vit": ("ViT", "leadline.interop.vit"),
    "swin": ("Swin", "leadline.interop.swin"),
    "t5": ("T5", "leadline.interop.t5"),
}

CONFIG, WEIGHTS, INDEX = "config.json", "model.safetensors", "model.safetensors.index.json"
_MOST_JSON = 64 * 2**20  # bytes of a config or an index


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
    drawn = any(name.startswith(_head(opened.family)) for name in filled.new)
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
    family, folder = _family_of(model), _path(folder)
    if tokenizer is not None:
        from leadline.text import Tokenizer  # whose library takes a while to import

        if not isinstance(tokenizer, Tokenizer):
            got, do = given("tokenizer", tokenizer), "Pass Tokenizer.load(path)"
            raise UserError("tokenizer must be a Tokenizer of leadline.text", got=got, do=do)
    if any(isinstance(module, LowRankUpdate) for module in model.modules()):
        model = merged(model)
    beside = getattr(model, "beside", Beside({}, {})).read_by(tokenizer)
    config, own = _told(beside.joined(family.hf_config_of(model)), tokenizer), model.state_dict()
    if classes is not None:
        config |= labels(_num_classes(model, config), classes)
    tensors: dict[str, Tensor] = {}
    for name, place in places_of(family, model).items():
        parts = place.write(own[name].detach().cpu())
        tensors |= {
            theirs: part.clone(memory_format=torch.contiguous_format) for theirs, part in zip(place.names, parts)
        }
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
        for name, content in beside.files.items():
            replace_bytes(folder / name, content)
        if tokenizer is not None and TOKENIZER not in beside.files:
            replace_bytes(folder / TOKENIZER, tokenizer.to_json().encode())
        sync_folder(folder)
    except (OSError, SafetensorError) as error:
        raise CheckpointError(
            "the folder must be one that can be written to",
            got=f"{folder}: {getattr(error, 'strerror', None) or error}",
            do="Name another folder, or make room",
        ) from None
    return folder


def _path(folder: str | Path) -> Path:
    """A folder as a path; an empty name would be the folder of now."""
    if isinstance(folder, (str, Path)) and str(folder):
        return Path(folder)
    raise UserError("folder must be the path of a folder", got=given("folder", folder), do='Pass such as "models/gpt2"')


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
    path = _path(folder) / TOKENIZER
    if not path.is_file():
        raise CheckpointError(
            f"the folder must hold {TOKENIZER} for its tokenizer to be read",
            got=f"{_there(Path(folder))} in {folder}",
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


@dataclass(frozen=True, eq=False)
class Folder:
    """A folder with a model in it, read as far as its config and the names of its tensors.

    Args:
        path: of the folder.
        config: their config.json.
        family: the module that knows it.
        files: their name of each tensor -> the file that holds it, under today's names.
        stored: today's name -> that in the file, which may be older.
    """

    path: Path
    config: dict[str, Any]
    family: ModuleType
    files: dict[str, Path]
    stored: dict[str, str]

    @classmethod
    def open(cls, folder: str | Path) -> Folder:
        path = _path(folder)
        config = _json(path / CONFIG, path)
        family = _family(config, path)
        files = _files(path)
        renamed = getattr(family, "renamed", lambda name, config: name)
        prefix = getattr(family, "PREFIX", "")
        alone = not any(name.startswith(prefix) for name in files)  # a trunk that was saved without a head
        names = {f"{prefix if alone else ''}{renamed(name, config)}": name for name in files}
        for missing, other in getattr(family, "ALIASES", {}).items():
            names |= {missing: names[other]} if missing not in names and other in names else {}
        return cls(path, config, family, {today: files[old] for today, old in names.items()}, names)

    def arguments(self) -> dict[str, Any]:
        """Those of our constructor, as config.json asks for."""
        try:
            found = self.family.config_of(self.config)
        except UserError:
            raise
        except (KeyError, TypeError, AttributeError, IndexError, ValueError, ArithmeticError) as error:
            raise self._unbuilt(f"no {error}" if isinstance(error, KeyError) else str(error)) from None
        layers = sum(_layers(found.get(name)) for name in ("num_layers", "num_decoder_layers", "stages"))
        if layers > len(self.files):  # each has tensors of its own
            raise self._unbuilt(f"{layers} layers, where the files hold {len(self.files)} tensors,")
        return found

    def build(self, **options: Any) -> nn.Module:
        """A model of that config, with first weights."""
        known = inspect.signature(self.family.MODEL).parameters
        for name in options:
            if name not in known:
                raise UnknownName(
                    f"options must be arguments of {self.family.MODEL.__name__}", got=name, do=suggest(name, known)
                )
        arguments = self.arguments()
        try:
            return self.family.MODEL(**{**arguments, **options})
        except UserError as error:
            if options:
                raise
            got = f"{error.got}, by {self.path / CONFIG}"
            raise CheckpointError(error.must, got=got, do="Restore the file from where the folder came") from None

    def expect(self, new_head: bool = False, **options: Any) -> None:
        """Raise unless the tensors are those of that model, before any weight of either takes memory."""
        try:
            with torch.device("meta"):
                planned = self.build(**options)
        except UserError:
            raise
        except (RuntimeError, TypeError) as error:  # numbers that no tensor can count
            raise self._unbuilt(str(error).partition("\n")[0]) from None
        self.check(self.fill(planned), planned, new_head, list(options))

    def _unbuilt(self, what: str) -> CheckpointError:
        return CheckpointError(
            f"{CONFIG} must hold what a model of type {self.config['model_type']} is built from",
            got=f"{what} in {self.path / CONFIG}",
            do="Restore the file from where the folder came",
        )

    def fill(self, model: nn.Module) -> Filled:
        """Put the tensors into a model, where names and shapes agree."""
        places = places_of(self.family, model)
        planned = next(model.parameters()).is_meta
        filled = fill(model, self._fitting(model, self._tensors(places, planned)))
        own = model.state_dict()
        asked = {theirs for name, place in places.items() if name in own for theirs in place.names}
        return Filled(filled.loaded, filled.new, tuple(sorted(set(self.files) - asked)), filled.unlike)

    def _fitting(self, model: nn.Module, tensors: Iterator[tuple[str, Tensor]]) -> Iterator[tuple[str, Tensor]]:
        """The same, without rows that a vocabulary was rounded up by: no token of the tokenizer asks for them."""
        there, here, own = self.config.get("vocab_size"), getattr(model, "num_tokens", None), model.state_dict()
        for name, tensor in tensors:
            rounded = there is not None and here is not None and there > here and tensor.shape[:1] == (there,)
            yield name, tensor[:here] if rounded and own[name].shape[:1] == (here,) else tensor

    def check(self, filled: Filled, model: nn.Module, new_head: bool, options: Sequence[str] = ()) -> None:
        """Raise unless every tensor found its place; with `new_head`, unless those of the trunk did.

        Args:
            options: names of those that were not as config.json has them.
        """
        owner, head = type(model).__name__, _head(self.family)
        wanted = [name for name in filled.new if not (new_head and name.startswith(head))]
        for name, there, here in filled.unlike:
            if name in wanted:
                raise ShapeError(
                    f"{name} must have the shape that this {owner} has, {here}",
                    got=f"{there} in {self.path}",
                    do="Pass new_head=True to draw a new one"
                    if name.startswith(head)
                    else f"Leave out {listed(options)}, if that changes its width or its vocabulary"
                    if options
                    else f"Restore the folder from where it came: its {CONFIG} asks for another shape",
                )
        spare = tuple(getattr(self.family, "SPARE", ()))
        left = [name for name in filled.left if not any(fnmatchcase(name, pattern) for pattern in spare)]
        if new_head:
            left = [name for name in left if name.startswith(getattr(self.family, "PREFIX", ""))]
        if wanted or left:
            places = places_of(self.family, model)
            lacking = [theirs for name in wanted for theirs in places[name].names if theirs not in self.files]
            told = [f"no {listed(lacking)}"] if lacking else []
            told += [f"{listed(left)}, which it has not"] if left else []
            of_trunk = [name for name in left if name.startswith(getattr(self.family, "PREFIX", ""))]
            only_head = not of_trunk and all(name.startswith(head) for name in wanted) and not new_head
            raise CheckpointError(
                f"the folder must hold the tensors of this {owner}",
                got=f"{', and '.join(told) or listed(wanted)}, in {self.path}",
                do=self._remedy(only_head, bool(wanted), options),
            )

    def _remedy(self, only_head: bool, wanted: bool, options: Sequence[str]) -> str:
        """What to do where tensors are missing or left over."""
        classes, known = self.config.get("architectures"), self.family.READ
        if only_head:
            return f"Pass new_head=True to {'draw a new head, for fine-tuning' if wanted else 'leave that head out'}"
        if isinstance(classes, list) and classes and classes[0] not in known:
            return f"Take a folder of {' or '.join(known)}: this one is of {classes[0]}"
        if options:
            return f"Leave out {listed(options)}, if that changes what it is made of"
        return "Restore the folder from where it came; its config.json may be of another model"

    def _tensors(self, places: dict[str, Place], planned: bool = False) -> Iterator[tuple[str, Tensor]]:
        """Those of the files, as ours.

        Args:
            planned: tell their shapes alone.
        """
        opened: dict[Path, Any] = {}
        for name, place in places.items():
            if not all(theirs in self.files for theirs in place.names):
                continue
            parts = []
            for theirs in place.names:
                file = self.files[theirs]
                opened[file] = opened.get(file) or safe_open(file, framework="pt")
                if planned:
                    shape = opened[file].get_slice(self.stored[theirs]).get_shape()
                    parts.append(torch.empty(shape, device="meta"))
                else:
                    parts.append(_finite(theirs, opened[file].get_tensor(self.stored[theirs]), file))
            yield name, _read(place, parts, self.path)


def _head(family: ModuleType) -> tuple[str, ...]:
    """With which names the tensors of a head of ours begin."""
    return tuple(getattr(family, "HEAD", ("head.",)))


def places_of(family: ModuleType, model: nn.Module) -> dict[str, Place]:
    """Our name of each tensor of a model -> its place in their file."""
    return {name: place_of(given) for name, given in family.names(model).items()}


def _finite(name: str, tensor: Tensor, file: Path) -> Tensor:
    """A tensor of a file, if it can be a weight."""
    if not tensor.is_floating_point():
        raise CheckpointError(
            f"{name} must hold real numbers",
            got=f"{tensor.dtype} in {file}",
            do="Take weights that are not quantised, or write them again in 16 or 32 bits",
        )
    odd = int((~tensor.float().isfinite()).sum())
    if odd:
        raise CheckpointError(
            f"{name} must hold finite numbers",
            got=f"{odd} of {tensor.numel()} that are not, in {file}",
            do="Restore the folder from where it came, or from before its training diverged",
        )
    return tensor


def _layers(asked: Any) -> int:
    """How many layers a number, or one a stage, asks for; what is neither is refused by the model."""
    return sum(num for num in (asked if isinstance(asked, list) else [asked]) if isinstance(num, int))


def _read(place: Place, parts: list[Tensor], path: Path) -> Tensor:
    try:
        return place.read(*parts)
    except RuntimeError:
        shapes = ", ".join(f"{name} {tuple(part.shape)}" for name, part in zip(place.names, parts, strict=True))
        raise ShapeError(
            f"{listed(place.names)} must fit each other", got=f"{shapes} in {path}", do="Restore the folder"
        ) from None


def _family(config: dict[str, Any], path: Path) -> ModuleType:
    kind = config.get("model_type")
    if not isinstance(kind, str) or kind not in FAMILIES:
        raise UnknownName(
            "model_type in config.json must be of a family that is known here",
            got=f"{kind!r} in {path}",
            do=f"Known are {', '.join(FAMILIES)}",
        )
    return import_module(FAMILIES[kind][1])


def _family_of(model: nn.Module) -> ModuleType:
    for name, module in FAMILIES.values():
        if type(model).__name__ == name:
            return import_module(module)
    known = ", ".join(name for name, _ in FAMILIES.values())
    raise UnknownName(
        "the model must be of a family that Hugging Face has too", got=type(model).__name__, do=f"Known are {known}"
    )


def _files(path: Path) -> dict[str, Path]:
    """Name of each tensor in the folder -> the file that holds it."""
    if (path / WEIGHTS).is_file():
        return dict.fromkeys(_whole(path / WEIGHTS), path / WEIGHTS)
    if not (path / INDEX).is_file():
        pickled = any(path.glob("*.bin")) or any(path.glob("*.pt"))
        raise CheckpointError(
            f"the folder must hold {WEIGHTS}, or {INDEX} and its parts",
            got=f"{_there(path)} in {path}"
            + (", which is pickle: it can run any code when it is read" if pickled else ""),
            do="Write it again with save_pretrained(folder), which writes safetensors; the hub has them of most models",
        )
    shards = _json(path / INDEX, path).get("weight_map")
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


def _whole(file: Path) -> list[str]:
    """Names of the tensors in a file; raises where it is cut off or no safetensors at all."""
    try:
        with safe_open(file, framework="pt") as opened:
            return list(opened.keys())
    except (SafetensorError, OSError) as error:
        raise _damaged(file, str(error)) from None


def _json(file: Path, path: Path) -> dict[str, Any]:
    if not file.is_file():
        raise CheckpointError(
            f"the folder must hold {file.name}",
            got=f"{_there(path)} in {path}" if path.is_dir() else f"{path}, which is no folder",
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


def _there(path: Path) -> str:
    names = sorted(file.name for file in path.iterdir())[:100] if path.is_dir() else []
    return listed(names) if names else "nothing"


def _damaged(file: Path, evidence: str) -> CheckpointError:
    return CheckpointError(f"{file.name} must be whole", got=f"{evidence} ({file})", do="Restore it from where it came")
