"""Rows of tokens that a lens looks at, their words, and the tables and layers of the model that reads them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from leadline.data.data import Data, Split
from leadline.data.inputs import Identity, Inputs
from leadline.data.tokens import Tokens
from leadline.engine.feed import Feed
from leadline.errors import UserError
from leadline.lens.rows import Fitted, fit_to
from leadline.settings import given


@dataclass(frozen=True, eq=False)
class Read:
    """A model with rows as it reads them.

    Args:
        x: (B, T) of tokens, or a picture (B, C, Y, X).
        y: what is asked of them, where that is known.
        words: of each row, what each token says; () where rows are no tokens.
        inputs: that made them.
    """

    model: nn.Module
    x: Tensor
    y: Tensor | None
    words: tuple[tuple[str, ...], ...]
    inputs: Inputs


def read(model: Any, rows: Any, split: str = "val", num: int = 4) -> Read:
    """What a lens looks at: of a run or a module, rows of Data, texts, tokens (B, T) or pictures.

    Args:
        rows: Data, a Split or a pair (x, y); texts, where a run says how they are read; or a tensor as the network
            reads it. None takes the run's own data.
        num: rows at most.

    >>> from leadline.models import GPT
    >>> read(GPT.tiny(), torch.tensor([[3, 1, 4]])).words
    (('3', '1', '4'),)
    """
    inputs: Inputs = Identity()
    if isinstance(model, Fitted):
        inputs = getattr(model, "inputs", inputs)
        rows = model.need_data() if rows is None else rows
        model = model.model
    if not isinstance(model, nn.Module):
        raise UserError("a lens looks at a run or a torch module", got=given("model", model), do="Pass run")
    y = None
    if isinstance(rows, Data):
        inputs, part = rows.inputs, rows[split]
        if not len(part):
            raise UserError(f"split {split} must have rows", got="none", do="Look at split='train'")
        x, y = asked(model, part, inputs, num)
    elif isinstance(rows, Split) or (isinstance(rows, tuple) and len(rows) == 2 and not _are_texts(rows)):
        part = rows if isinstance(rows, Split) else Split(*(torch.as_tensor(column) for column in rows))
        x, y = asked(model, part, Identity(), num)
    elif isinstance(rows, Tensor) and rows.dim() >= 2 and len(rows):
        stored = isinstance(inputs, Tokens) and rows.dim() == 2 and not rows.is_floating_point()
        x = fit_to(model, inputs.encode(rows[:num]) if stored else rows[:num])
    elif isinstance(inputs, Tokens) and _are_texts(rows):
        x = fit_to(model, inputs.encode(inputs.read(rows)))[:num]
    else:
        raise UserError(
            "rows must be Data, tokens (B, T), pictures, or texts with the run that reads them",
            got=f"a tensor of shape {tuple(rows.shape)}" if isinstance(rows, Tensor) else given("rows", rows),
            do="Pass run and a text, or a module and a tensor whose first axis is the row",
        )
    return Read(model, x, y, words_of(x, inputs), inputs)


def asked(model: nn.Module, part: Split, inputs: Inputs, num: int | None = None) -> tuple[Tensor, Tensor]:
    """The first rows of a split as the network reads them, and what is asked of them."""
    weight = next(iter(model.parameters()), torch.zeros(()))
    count = len(part) if num is None else min(num, len(part))
    batch = Feed(part, inputs, count, 0, weight.device, weight.dtype, keyed=False).first(count)
    return batch.x, batch.y


def words_of(x: Tensor, inputs: Inputs) -> tuple[tuple[str, ...], ...]:
    """What each token of (B, T) says, by the tokenizer where there is one, else its number.

    >>> words_of(torch.tensor([[5, 7]]), Identity())
    (('5', '7'),)
    """
    if x.is_floating_point() or x.dim() != 2:
        return ()
    if not isinstance(inputs, Tokens):
        return tuple(tuple(map(str, row)) for row in x.tolist())
    first = inputs.len_source if inputs.len_source is not None and x.shape[1] > inputs.len_source else 0
    return tuple(tuple(word(inputs, token, source=t < first) for t, token in enumerate(row)) for row in x.tolist())


def word(inputs: Inputs, token: int, source: bool = False) -> str:
    """A token as it is read: its text with a space written as ␣ and a new line as ↵, or the name of a special one.

    Args:
        source: it is of the source of a pair.
    """
    if not isinstance(inputs, Tokens):
        return str(token)
    own = inputs.reads if source else inputs.tokenizer
    said = own.bytes_of(token).decode("utf-8", "replace") or own.token(token)
    said = said.replace("\n", "↵").replace(" ", "␣").replace("\t", "→")
    return "".join(letter if letter.isprintable() else f"\\x{ord(letter):02x}" for letter in said)


def _are_texts(rows: Any) -> bool:
    if isinstance(rows, str):
        return True
    return isinstance(rows, Sequence) and bool(rows) and all(isinstance(row, (str, tuple, list)) for row in rows)


def embedding_of(model: nn.Module, x: Tensor) -> tuple[str, nn.Embedding]:
    """Path and table that the model looks the tokens of rows up in: the one that is called with them.

    >>> from leadline.models import BERT
    >>> embedding_of(BERT.tiny(), torch.ones(1, 4, dtype=torch.long))[0]
    'tokens'
    """
    calls: dict[str, list[Tensor]] = {}
    tables = {path: part for path, part in model.named_modules() if isinstance(part, nn.Embedding)}
    handles = [
        part.register_forward_pre_hook(lambda _, args, path=path: calls.setdefault(path, []).append(args[0]))
        for path, part in tables.items()
    ]
    try:
        with torch.no_grad():
            model(x)
    finally:
        for handle in handles:
            handle.remove()
    for path, heard in calls.items():
        if all(part.dim() == 2 for part in heard) and torch.equal(torch.cat(heard, 1), x):
            return path, tables[path]
    raise UserError(
        "the model must look up its tokens in an nn.Embedding",
        got=f"{type(model).__name__}, whose tables are called with something else",
        do="Take a model that reads rows of tokens, such as GPT or BERT",
    )


def layers_of(model: nn.Module, called: Sequence[str], layers: str | None = None) -> list[tuple[str, nn.Module]]:
    """Paths and modules of the layers that stand one after the other: of the last stack that attends.

    Args:
        called: paths of attentions, in the order of the calls.
        layers: path of the stack, where it is not the last.

    >>> from leadline.models import GPT
    >>> [path for path, _ in layers_of(GPT.tiny(), ["layers.0.look.branch", "layers.1.look.branch"])]
    ['layers.0', 'layers.1']
    """
    stacks = {path: part for path, part in model.named_modules() if isinstance(part, (nn.ModuleList, nn.Sequential))}
    if layers is None:
        held = [path for path in stacks if path and called and called[-1].startswith(f"{path}.")]
        layers = min(held, key=len) if held else ""
    stack = stacks.get(layers)
    if stack is None or not len(stack):
        raise UserError(
            "the model must have a list of layers that attend",
            got=f"layers={layers!r} of {type(model).__name__}",
            do=f"Pass layers=, one of {', '.join(path for path in stacks if path) or 'none'}",
        )
    return [(f"{layers}.{k}", part) for k, part in enumerate(stack)]
