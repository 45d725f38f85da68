"""Does a model of the next word see that word? Then it copies, and what it says of itself is worth nothing.

    score_t(x_1 … x_T) = score_t(x'_1 … x'_T)      where x and x' differ after place t alone                    (1)

Notation   t -> a place of the first half of a row;  x' -> the row with other words in its second half
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from leadline.data.data import Data
from leadline.data.tokens import Tokens
from leadline.doctor.finding import Finding
from leadline.engine.untouched import untouched

ROWS, PLACES = 2, 16
# Of the largest score, what eq. 1 may miss by rounding; in 16 bits much more.
_ROUNDING = {torch.float64: 1e-9, torch.float32: 1e-4}
_COARSE = 0.05


def check_sight(model: nn.Module, data: Data) -> list[Finding]:
    """Whether eq. 1 is broken on a few rows, of tasks where words are asked for one after the other."""
    inputs = data.inputs
    if not isinstance(inputs, Tokens) or inputs.task not in ("next", "pairs") or data.train.x.shape[1] < 2:
        return []
    first = inputs.len_source or 0
    x, _ = data.asked(torch.arange(min(ROWS, len(data.train))))
    own = next(model.parameters(), None)
    x = x if own is None else x.to(own.device)
    for row in (x[:, : first + PLACES], x):  # a short row is enough, where the model takes it
        half = (row.shape[1] - first) // 2
        try:
            moved = _moved(model, row, first, max(half, 1), inputs.tokenizer.num_tokens)
        except (RuntimeError, ValueError, IndexError, TypeError):
            continue
        break
    else:
        return []
    if moved <= _ROUNDING.get(torch.float32 if own is None else own.dtype, _COARSE):
        return []
    what = "the model sees the tokens that it must predict"
    found = (
        f"other tokens in the second half of a row change the scores of the first half by {moved:.2g} of the largest"
    )
    do = 'Use a model that looks back only, such as GPT; one that looks both ways is for masked tokens, task="masked"'
    if inputs.task == "pairs":
        do = "Use a model whose decoder looks back only, such as Transformer or T5"
    return [Finding("sees-ahead", "error", what, type(model).__name__, found, do)]


@torch.no_grad()
def _moved(model: nn.Module, x: Tensor, first: int, half: int, num_tokens: int) -> float:
    """How far scores of the first half move when the second is another, of the largest score."""
    other = x.clone()
    other[:, first + half :] = (x[:, first + half :] + 1) % num_tokens
    with untouched(model, training=False):
        scores, others = model(x)[:, :half].double(), model(other)[:, :half].double()
    largest = float(scores.abs().max())
    return float((scores - others).abs().max()) / largest if largest > 0 else 0.0
