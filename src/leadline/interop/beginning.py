"""What a model can begin from: the weights of a Hugging Face folder, or of a run of ours.

other data  ->  a model of the same sizes  ->  the old weights, where names and shapes agree; the head is new        (1)
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import torch
from torch import nn

from leadline.config import Configured, plain
from leadline.data.data import Data
from leadline.data.tokens import Tokens
from leadline.engine.checkpoint import of, restore
from leadline.engine.keeper import read_newest
from leadline.engine.record import Record
from leadline.errors import RunError, UserError
from leadline.interop.beside import TOKENIZER
from leadline.interop.filling import Filled, fill
from leadline.interop.folder import Folder
from leadline.interop.folder_files import CONFIG
from leadline.models import MODELS, build, choices, lora, merged


@dataclass(frozen=True, eq=False)
class Beginning:
    """Weights in a folder, and the model that they are of.

    Args:
        path: of the folder.
        name: of the model's class.
        config: its constructor's arguments.
        fill: puts the weights into a model, where names and shapes agree.
    """

    path: Path
    name: str
    config: dict[str, Any]
    fill: Callable[[nn.Module], Filled]

    @property
    def tokenizer(self) -> Path | None:
        """Where the tokenizer stands that these weights were trained with; None where there is none."""
        path = self.path / TOKENIZER
        return path if path.is_file() else None

    @property
    def source_tokenizer(self) -> Path | None:
        """Where that of the sources stands, which have one of their own; None where they have none."""
        path = self.path / f"source_{TOKENIZER}"
        return path if path.is_file() else None

    def build(self, data: Data, dim_output: int, seed: int = 0, **options: Any) -> tuple[nn.Module, Filled]:
        """A model for these data that begins from here (1), and what was loaded of it.

        Args:
            dim_output: what its likelihood needs.
            seed: of the weights that are new.
            options: of the model, in place of those that it had.
        """
        kind = MODELS[self.name]
        as_it_was = {name: value for name, value in self.config.items() if name in choices(kind) and name != "head"}
        model = build(self.name, data, dim_output, seed=seed, **{**as_it_was, **options})
        longest = self.config.get("length")
        if longest and "len_source" not in self.config and longest > getattr(model, "length", longest):
            with torch.random.fork_rng(devices=[]):  # shorter rows: the positions after them are kept
                torch.manual_seed(seed)
                model = kind(**{**cast(Configured, model).config, "length": longest})
        self._check_words(data, model)
        filled = self.fill(model)
        if not filled.fits:
            had = {name: self.config[name] for name in options if name in self.config}
            changed = [name for name in had if plain(had[name]) != plain(options[name])]
            raise UserError(
                f"{self.path} must hold weights that fit a {self.name} for these data, but for its head",
                got=str(filled),
                do=f"Leave out what it has otherwise: {', '.join(f'{name} {had[name]}' for name in changed)}"
                if changed
                else "Begin from weights of a model for data of the same kind, or from none",
            )
        model.begun_from = str(self.path)  # type: ignore[assignment]
        return model, filled

    def _check_words(self, data: Data, model: nn.Module) -> None:
        """Refuses a tokenizer of more words than the weights know."""
        known, asked = self.config.get("num_tokens"), getattr(model, "num_tokens", None)
        if isinstance(data.inputs, Tokens) and known is not None and asked is not None and asked > known:
            raise UserError(
                "a tokenizer must have no more tokens than the weights know",
                got=f"one of {asked}, where {self.path} knows {known}",
                do="Use the tokenizer.json that the weights were trained with",
            )


def beginning(folder: str | Path) -> Beginning:
    """What a folder has to begin from: one with config.json is Hugging Face's, one with run.json a run of ours."""
    path = Path(folder)
    if (path / "run.json").is_file():
        return _of_run(path)
    if not (path / CONFIG).is_file():
        raise RunError(
            "a folder to begin from must hold config.json and model.safetensors, or a run",
            got=f"{path}, which {_lacking(path)}" if path.is_dir() else f"{path}, which is no folder",
            do="Name a folder that save_pretrained has written, or one in runs/",
        )
    opened = Folder.open(path)
    opened.expect(new_head=True)  # which refuses a trunk that is not whole
    return Beginning(path, opened.family.MODEL.__name__, opened.arguments(), opened.fill)


def _lacking(path: Path) -> str:
    return f"has no {CONFIG}" if any(path.glob("*.safetensors")) else "holds neither"


def _of_run(path: Path) -> Beginning:
    record = Record.open(path)
    model = record.config["model"]
    if model["config"] is None or model["name"] not in MODELS:
        raise RunError(
            "a run to begin from must be of a model that can be built by name",
            got=f"{model['name']} in {path}",
            do="Build your own model in Python, and load its weights with leadline.load",
        )

    def fill_from_best(made: nn.Module) -> Filled:
        tensors, _ = read_newest(record)
        weights = of("model", tensors.get("best", tensors["weights"]))
        if "lora" in model:  # its updates are folded into its weights
            whole = lora(MODELS[model["name"]](**model["config"]), **model["lora"])
            restore(whole, weights, "model")
            weights = merged(whole).state_dict()
        return fill(made, weights.items())

    return Beginning(path, model["name"], model["config"], fill_from_best)
