"""Text, before and after a run: rows that waste their places, vocabularies that nobody uses, and what was learned.

    unigram nll = -Σ_v q_v log p_v,    p the frequencies of tokens in training (one more of each), q in a split    (1)

A model that reads nothing but knows (1) is the simplest rival of a model of language.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from leadline.data.data import Data, Split
from leadline.data.tokens import NOTHING, Tokens
from leadline.doctor.finding import Finding
from leadline.doctor.words import percent
from leadline.engine.evaluation import Evaluation
from leadline.likelihoods.likelihood import Likelihood

# Tokens that are looked at: frequencies of all but the rarest are then within a per cent.
SAMPLE = 2**22
# Of the rows' places, what padding may take, and what must be left of them for a shorter length to be worth while.
# Sentences padded to the longest often waste half.
PADDED, WORTH_CUTTING = 0.6, 0.6
# A vocabulary is mostly unused where a training text that is long for it has less than this part of it. A tokenizer
# that was trained on the text uses nearly all of it; of its 256 bytes half may lack, so small ones are not judged.
USED, LARGE_VOCABULARY, LONG_TEXT = 0.5, 1024, 5
# A context that documents do not fill: rows hold more than this number of them on average.
DOCUMENTS = 6.0
# No better than frequencies: within one part in a hundred of them.
NO_BETTER = 0.01
# A clear rise of the validation nll, in nats a token: each has become 5 % less likely; beyond half of the interval.
RISE = 0.05
# A gap between training rows and others that matters: a quarter of the nll on others, and beyond both intervals.
GAP = 0.25


def check_rows_of_text(data: Data) -> list[Finding]:
    """What is wrong with rows of tokens before a run; nothing for other rows."""
    inputs = data.inputs
    if not isinstance(inputs, Tokens):
        return []
    x = _sample(data.train.x)
    return [*_padding(x, inputs), *_vocabulary(x, data, inputs), *_context(x, inputs)]


def _sample(x: Tensor) -> Tensor:
    """Evenly spaced rows, as numbers without a sign; `NOTHING` where there is no token."""
    count = max(1, SAMPLE // max(x.shape[1], 1))
    rows = x if len(x) <= count else x[torch.linspace(0, len(x) - 1, count).long()]
    return unsigned(rows)


def unsigned(x: Tensor) -> Tensor:
    """Stored tokens as int64, `NOTHING` where there is none.

    >>> unsigned(torch.tensor([3, -1, -2], dtype=torch.int16)).tolist()
    [3, -1, 65534]
    """
    wide = x.to(torch.int64)
    if x.dtype != torch.int16:
        return wide
    return torch.where(wide == NOTHING, NOTHING, wide & 0xFFFF)


def _padding(x: Tensor, inputs: Tokens) -> list[Finding]:
    parts = {"rows": x}
    if inputs.len_source is not None:
        parts = {"sources": x[:, : inputs.len_source], "targets": x[:, inputs.len_source :]}
    pad = NOTHING if inputs.tokenizer.pad is None else inputs.tokenizer.pad
    found = []
    for name, part in parts.items():
        size, there = part.shape[1], ((part != NOTHING) & (part != pad)).sum(1).float()
        share = 1 - float(there.mean()) / max(size, 1)
        most = int(there.sort().values[int(0.95 * (len(there) - 1))])
        shorter = _round(most)
        if share > PADDED and shorter < WORTH_CUTTING * size:
            what = f"{name} of tokens are mostly padding"
            told = f"{percent(share)} of {size} places; 95 of 100 have at most {most} tokens"
            do = f"Cut the few that are longer: length={shorter} leaves {percent(shorter / size)} of the places"
            found.append(Finding("mostly-padding", "warning", what, "train split", told, do))
    return found


def _round(most: int) -> int:
    """The next multiple of 8, which kernels like."""
    return max(8, -(-most // 8) * 8)


def _vocabulary(x: Tensor, data: Data, inputs: Tokens) -> list[Finding]:
    own = inputs.tokenizer
    known = int((~torch.from_numpy(own.special)).sum())
    x = x if inputs.source_tokenizer is None else x[:, inputs.len_source :]
    tokens = x[x != NOTHING]
    if known < LARGE_VOCABULARY or len(tokens) < LONG_TEXT * known:
        return []
    used = int((torch.bincount(tokens, minlength=own.num_tokens) > 0).sum())
    if used >= USED * known:
        return []
    what = "most of the vocabulary never occurs in the training text"
    found = f"{used:,} of {known:,} tokens in {len(tokens):,}"
    do = "Leave tokenizer out, so that one is trained on this text, or lower num_tokens: unused tokens cost memory"
    return [Finding("unused-vocabulary", "warning", what, "train split", found, do)]


def _context(x: Tensor, inputs: Tokens) -> list[Finding]:
    end = inputs.tokenizer.end
    if inputs.task != "next" or end is None:
        return []
    ends, places = int((x == end).sum()), int((x != NOTHING).sum())
    if not ends or ends / len(x) <= DOCUMENTS:
        return []
    what = "documents are much shorter than the context"
    found = f"{places / ends:.0f} tokens a document on average, rows of {x.shape[1]}"
    do = (
        "Nothing is wrong, but a token sees only its own document: "
        f"length={_round(round(2 * places / ends))} learns the same, and longer documents would teach more"
    )
    return [Finding("short-documents", "note", what, "train split", found, do)]


def unigram_nll(data: Data, split: str) -> float:
    """Eq. 1, in nats a token; of what is asked, which are words, or tags."""
    size = data.target.dim
    train, other = (_asked(data, part, size) for part in (data.train, data[split]))
    p = (train + 1) / (train.sum() + size)
    return float(-(other / other.sum().clamp(min=1)) @ p.log())


def _asked(data: Data, part: Split, size: int) -> Tensor:
    """How often each answer occurs in y, (V,); of hidden words, those that may be hidden."""
    y = _sample(part.y)
    counts = torch.bincount(y[y != NOTHING], minlength=size)[:size].double()
    inputs = data.inputs
    if isinstance(inputs, Tokens) and inputs.task == "masked":
        counts[torch.from_numpy(inputs.tokenizer.special)] = 0
    return counts


def check_texts(
    history: Sequence[Mapping[str, Any]],
    evaluations: Mapping[str, Evaluation],
    data: Data,
    likelihood: Likelihood,
) -> list[Finding]:
    """What is wrong after a run on tokens, or on stretches of text.

    Args:
        history, evaluations, data, likelihood: as of `leadline.doctor.after`.
    """
    held = next((name for name in ("val", "test") if name in evaluations and len(data[name])), None)
    findings = _frequencies(evaluations, data, held) if data.target.kind == "tokens" else []
    if findings or held is None:
        return findings
    return _overfitting(held, history, evaluations)


def _frequencies(evaluations: Mapping[str, Evaluation], data: Data, held: str | None) -> list[Finding]:
    """No better than a model that knows how often tokens occur: on its own rows, or only on others."""
    for name in ("train", held):
        if name is None or name not in evaluations:
            continue
        own, rival = evaluations[name]["nll"], unigram_nll(data, name)
        if math.isfinite(own) and own <= (1 - NO_BETTER) * rival:
            continue
        found = f"nll {own:.3f}, against {rival:.3f} from the frequencies of tokens alone"
        if name == "train":
            what = "the model is no better than the frequencies of tokens, even on the rows it trained on"
            do = "Train for more epochs; then try a learning rate ten times larger and smaller, and a larger model"
            return [Finding("underfitting", "warning", what, "train split", found, do)]
        what = f"on {name} the model is no better than the frequencies of tokens"
        do = "What it learned does not hold for new text: use more text, a smaller model, or more dropout"
        return [Finding("no-better-than-constant", "warning", what, f"{name} split", found, do)]
    return []


def _overfitting(
    name: str, history: Sequence[Mapping[str, Any]], evaluations: Mapping[str, Evaluation]
) -> list[Finding]:
    do = "Stop early (patience=3), add dropout or weight decay, shrink the model, or gather more text"
    other = evaluations[name]
    train = evaluations.get("train")
    rise = _rise(history, other) if name == "val" else None
    risen = f"; val nll rose from {rise[1]:.3f} (epoch {rise[0]}) to {rise[2]:.3f}" if rise else ""
    if train is not None and _apart(train, other):
        what = "the model overfits: it is much better on its training text than on other text"
        found = f"nll {train['nll']:.3f} on train and {other['nll']:.3f} on {name}{risen}"
        return [Finding("overfitting", "warning", what, f"train and {name}", found, do)]
    if rise:
        epoch, best, last, kept_late = rise
        what = "the model overfitted after its best epoch"
        found = f"val nll rose from {best:.3f} (epoch {epoch}) to {last:.3f} while the training loss fell"
        # where the best weights were kept, the later epochs were wasted, but the model is not the worse for them
        severity = "warning" if kept_late else "note"
        return [Finding("overfitting", severity, what, f"epoch {epoch}", found, do)]
    return []


def _apart(train: Evaluation, other: Evaluation) -> bool:
    beyond = other.interval("nll")[0] > train.interval("nll")[1]
    return beyond and other["nll"] - train["nll"] > GAP * other["nll"]


def _rise(history: Sequence[Mapping[str, Any]], val: Evaluation) -> tuple[int, float, float, bool] | None:
    """Epoch and value of the best validation nll, the last value, and whether the weights kept are from the rise."""
    line = [
        (record["epoch"], record["val"]["nll"], record["train"]["loss"])
        for record in history
        if math.isfinite((record.get("val") or {}).get("nll", math.nan)) and "loss" in record.get("train", {})
    ]
    if len(line) < 3:
        return None
    epoch, best, then = min(line, key=lambda item: item[1])
    last = min(nll for _, nll, _ in line[-2:])  # of two: one bad epoch is no trend
    low, high = val.interval("nll")
    margin = max(RISE, (high - low) / 2)
    if last <= best + margin or line[-1][2] >= then:
        return None
    kept = min(line, key=lambda item: abs(item[1] - val["nll"]))[0]
    return epoch, best, last, kept > epoch and val["nll"] > best + margin
