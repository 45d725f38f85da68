"""What a Hugging Face folder says beside its weights, and what goes with the model when it is saved again.

    config.json    special tokens and names of classes, which no tensor depends on        (1)
    files          of the tokenizer, of how pictures are prepared, of how text is written  (2)

A field of (1) goes where our own model says nothing, or can only guess; names of classes only with the head that they
were learned for. Files (2) are copied as they are, never read. With a tokenizer of its own a model leaves both the old
files of a tokenizer and the numbers of its tokens behind.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeGuard

from leadline.errors import CheckpointError

if TYPE_CHECKING:
    from leadline.text import Tokenizer

TOKENIZER = "tokenizer.json"
#: of a tokenizer, as their save_pretrained writes them
OF_TOKENIZER = (
    *(TOKENIZER, "tokenizer_config.json", "special_tokens_map.json", "added_tokens.json", "chat_template.jinja"),
    *("vocab.json", "merges.txt", "vocab.txt", "spiece.model"),
)
FILES = (*OF_TOKENIZER, "generation_config.json", "preprocessor_config.json", "processor_config.json")
#: fields of a config that change no score; `*` stands for any letters
FIELDS = ("*_token_id", "id2label", "label2id", "problem_type", "task_specific_params")
_CLASSES = ("id2label", "label2id", "problem_type")
_GUESSED = ("bos_token_id", *_CLASSES)  # what our config says of them is only a guess
_LARGEST = 2**28  # bytes of a file


@dataclass(frozen=True)
class Beside:
    """Args:
    fields: of their config.json, (1).
    files: name of each file -> its bytes, (2).
    """

    fields: Mapping[str, Any]
    files: Mapping[str, bytes]

    @classmethod
    def of(cls, path: Path, config: Mapping[str, Any]) -> Beside:
        """What stands in a folder with this config.

        >>> Beside.of(Path("nowhere"), {"eos_token_id": 3, "n_embd": 8}).fields
        {'eos_token_id': 3}
        """
        fields = {name: value for name, value in config.items() if any(fnmatchcase(name, known) for known in FIELDS)}
        return cls(fields, {name: _content(path / name) for name in FILES if (path / name).is_file()})

    def without_classes(self) -> Beside:
        """The same for a head that is new.

        >>> Beside({"id2label": {"0": "cat"}, "eos_token_id": 3}, {}).without_classes().fields
        {'eos_token_id': 3}
        """
        return replace(self, fields={name: value for name, value in self.fields.items() if name not in _CLASSES})

    def read_by(self, tokenizer: Tokenizer | None) -> Beside:
        """The same, where the model goes with this tokenizer: nothing of another one is kept."""
        if tokenizer is None or self._is(tokenizer):
            return self
        fields = {name: value for name, value in self.fields.items() if not name.endswith("_token_id")}
        files = {name: content for name, content in self.files.items() if name not in OF_TOKENIZER}
        return Beside(fields, {name: content for name, content in files.items() if not name.startswith("generation")})

    def _is(self, tokenizer: Tokenizer) -> bool:
        from leadline.errors import DataError
        from leadline.text import Tokenizer

        try:
            return tokenizer == Tokenizer.from_json(self.files.get(TOKENIZER, b"").decode())
        except (DataError, UnicodeDecodeError):
            return False

    def joined(self, ours: Mapping[str, Any]) -> dict[str, Any]:
        """Our config with the fields that it does not say, or only guesses.

        >>> Beside({"bos_token_id": 1, "eos_token_id": 2, "pad_token_id": 3}, {}).joined(
        ...     {"bos_token_id": 9, "eos_token_id": 9, "pad_token_id": None}
        ... )
        {'bos_token_id': 1, 'eos_token_id': 9, 'pad_token_id': 3}
        """
        fields = dict(self.fields)
        if "id2label" in ours:
            names = fields.get("id2label")
            if _are_names(names, len(ours["id2label"])):
                fields["label2id"] = fields.get("label2id") or {name: int(number) for number, name in names.items()}
            else:  # of other classes than the model has
                fields = {name: value for name, value in fields.items() if name not in ("id2label", "label2id")}
        known = {name: value for name, value in fields.items() if value is not None}
        return {**ours, **{k: v for k, v in known.items() if k in _GUESSED or ours.get(k) is None}}


def _are_names(names: Any, count: int) -> TypeGuard[Mapping[str, str]]:
    """Whether these are names of so many classes by their numbers."""
    return isinstance(names, Mapping) and len(names) == count and all(str(number).isdigit() for number in names)


def _content(file: Path) -> bytes:
    try:
        size = file.stat().st_size
        if size <= _LARGEST:
            return file.read_bytes()
        got = f"{size / 2**20:.0f} MiB"
    except OSError as error:
        got = error.strerror or str(error)
    raise CheckpointError(
        f"{file.name} must be readable and below {_LARGEST // 2**20} MiB, to go with the model",
        got=f"{got} ({file})",
        do="Restore it, or move it elsewhere",
    )
