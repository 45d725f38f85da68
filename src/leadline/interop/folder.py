"""A Hugging Face folder on its way into a model of ours.

    config.json                    ->  arguments of our constructor, a model                        (1)
    names and shapes of tensors    ->  checked on a model without memory, before any weight is read (2)
    tensors                        ->  their places in the model                                    (3)

Every tensor must find its place and every place its tensor, or the message names those that do not.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from types import ModuleType
from typing import Any

import torch
from safetensors import safe_open
from torch import Tensor, nn

from leadline.errors import CheckpointError, ShapeError, UnknownName, UserError
from leadline.interop.families import family_named, head_of, places_of, prefix_of
from leadline.interop.filling import Filled, fill, listed
from leadline.interop.folder_files import CONFIG, files_of, path_of, read_json
from leadline.interop.place import Place
from leadline.names import suggest


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
        """What a folder holds; raises where a file of it is missing or damaged."""
        path = path_of(folder)
        config = read_json(path / CONFIG, path)
        family = family_named(config, path)
        files = files_of(path)
        renamed = getattr(family, "renamed", lambda name, config: name)
        prefix = prefix_of(family)
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
        """A model of that config (1), with first weights."""
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
        """Raise unless the tensors are those of that model, before any weight of either takes memory (2)."""
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
        """Put the tensors into a model, where names and shapes agree (3)."""
        places = places_of(self.family, model)
        planned = next(model.parameters()).is_meta
        if not planned:
            self._check_tied(model)
        filled = fill(model, self._fitting(model, self._tensors(places, planned)))
        own = model.state_dict()
        asked = {theirs for name, place in places.items() if name in own for theirs in place.names}
        return Filled(filled.loaded, filled.new, tuple(sorted(set(self.files) - asked)), filled.unlike)

    def _check_tied(self, model: nn.Module) -> None:
        """Raise where a tensor that the model has once stands in the files twice, with different numbers."""
        tied: dict[str, str] = getattr(self.family, "tied", lambda model: {})(model)
        for copy, original in tied.items():
            if not {copy, original} <= self.files.keys() or self.stored[copy] == self.stored[original]:
                continue
            pair = (safe_open(self.files[name], "pt").get_tensor(self.stored[name]) for name in (copy, original))
            if not torch.equal(*(tensor.float() for tensor in pair)):
                do = "Restore the folder from where it came"
                if copy == "lm_head.weight":
                    do += "; if both were trained apart, its config.json must say tie_word_embeddings: false"
                raise CheckpointError(
                    f"{copy} must hold the numbers of {original}, to which this {type(model).__name__} ties it",
                    got=f"others in {self.path}",
                    do=do,
                )

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
        owner, head = type(model).__name__, head_of(self.family)
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
            left = [name for name in left if name.startswith(prefix_of(self.family))]
        if wanted or left:
            places = places_of(self.family, model)
            lacking = [theirs for name in wanted for theirs in places[name].names if theirs not in self.files]
            told = [f"no {listed(lacking)}"] if lacking else []
            told += [f"{listed(left)}, which it has not"] if left else []
            of_trunk = [name for name in left if name.startswith(prefix_of(self.family))]
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
