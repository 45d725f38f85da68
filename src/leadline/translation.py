"""A run of pairs as a translator: sentences in, sentences out, and what they are worth beside a memory.

    translate(run, texts)     beam search behind each source                                      (1)
    scores(run, split)        BLEU and chrF of (1), and of the nearest known sentence             (2)

References are the targets as the run has them: those that were cut to its length are cut here too.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, cast

import torch
from torch import Tensor, nn

from leadline.data.tokens import NOTHING, Tokens
from leadline.engine.decoder import Cached, Recomputing
from leadline.errors import DataError, UserError
from leadline.run import Run
from leadline.settings import whole
from leadline.text.beam import beam_search
from leadline.text.decoding import Scorer
from leadline.text.stopping import Stop
from leadline.text.translation import Quality, TranslationMemory, quality

BATCH = 64  # sentences that are translated at once
MOST = 2000  # sentences of a split that are translated


@dataclass(frozen=True)
class Scores:
    """What a run's translations are worth.

    Args:
        model, memory: quality of the run's own, and of the translation memory's.
        sources, references, translations, remembered: sentence by sentence.
        rows: sentences that the split has; those above are evenly spaced where it has more than were asked for.
    """

    model: Quality
    memory: Quality
    sources: list[str]
    references: list[str]
    translations: list[str]
    remembered: list[str]
    rows: int

    def to_dict(self, examples: int = 3) -> dict[str, Any]:
        """As JSON holds it, with a few sentences."""
        names = ("source", "reference", "translation", "remembered")
        sentences = zip(self.sources, self.references, self.translations, self.remembered, strict=True)
        return {
            "sentences": len(self.sources),
            "rows": self.rows,
            "model": {"bleu": self.model.bleu, "chrf": self.model.chrf},
            "memory": {"bleu": self.memory.bleu, "chrf": self.memory.chrf},
            "signature": self.model.signature,
            "examples": [dict(zip(names, sentence, strict=True)) for sentence, _ in zip(sentences, range(examples))],
        }


def translates(run: Run) -> bool:
    """Whether a run was trained on pairs of sentences.

    >>> import leadline as ll
    >>> translates(ll.fit(ll.models.MLP(2, (4,), 1), ll.data.moons(num=60), epochs=1, progress=False))
    False
    """
    return isinstance(run.inputs, Tokens) and run.inputs.task == "pairs"


def translate(run: Run, texts: str | Sequence[str], beams: int = 4, penalty: float = 1.0) -> list[str]:
    r"""The likeliest translation that was found of each sentence (eq. 1).

    Args:
        beams: translations followed at once; 1 takes the likeliest word each time.
        penalty: above 0 favours long translations.

    >>> import tempfile
    >>> from pathlib import Path
    >>> import leadline as ll
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder, "pairs.tsv")
    ...     _ = path.write_text("".join(f"{n} cats\t{n} chats\n" for n in range(60)))
    ...     data = ll.data.text(path, task="pairs", kind="bytes", length=12, cache=False)
    >>> model = ll.models.build("Transformer", data, data.target.dim, dim=16, num_layers=1)
    >>> run = ll.fit(model, data, epochs=1, progress=False)
    >>> len(translate(run, ["61 cats", "62 cats"], beams=1))
    2
    """
    texts = [texts] if isinstance(texts, str) else list(texts)
    return _translations(run, _inputs(run).read(texts), beams, penalty) if texts else []


def scores(run: Run, split: str = "test", beams: int = 4, penalty: float = 1.0, most: int = MOST) -> Scores:
    """Quality on a split beside that of a memory of the training split (eq. 2).

    Args:
        beams, penalty: as of `translate`.
        most: sentences at most, evenly spaced, at least 1.
    """
    inputs, data = _inputs(run), run.need_data()
    rows = data[split]
    if not len(rows):
        have = " or ".join(name for name, _ in data.splits())
        raise DataError(f"split {split} must have rows", got="none", do=f"Take {have}")
    taken = torch.linspace(0, len(rows) - 1, min(len(rows), whole("most", most))).round().long()
    x, y = rows.x[taken], rows.y[taken]
    sources, references = _sources(inputs, x), _targets(inputs, y)
    translations = _translations(run, x, beams, penalty)
    known = TranslationMemory(_sources(inputs, data.train.x), _targets(inputs, data.train.y))
    remembered = known.translate(sources)
    worth = quality(translations, references), quality(remembered, references)
    return Scores(*worth, sources, references, translations, remembered, len(rows))


def _translations(run: Run, x: Tensor, beams: int, penalty: float) -> list[str]:
    """Of raw rows, sentences of like length together."""
    inputs = _inputs(run)
    source = inputs.encode(x[:, : inputs.len_source])
    lengths = (source != inputs.fill).sum(1)
    end = cast(int, inputs.tokenizer.end)  # without which there are no pairs
    stop = Stop(tokens=(end,))
    found = [""] * len(source)
    for part in lengths.argsort(descending=True).split(BATCH):
        scorer = _scorer(run.model, source[part], max(1, int(lengths[part].max())))
        best = beam_search(scorer, [[inputs.start]] * len(part), inputs.length, beams, stop, penalty=penalty)
        for row, texts in zip(part.tolist(), best, strict=True):
            words = [token for token in texts[0].tokens if token != end]
            found[row] = inputs.tokenizer.decode(words)
    return found


def _scorer(model: nn.Module, source: Tensor, longest: int) -> Scorer:
    """A model that reads its source once, or any other of rows (B, S + T)."""
    if all(callable(getattr(model, method, None)) for method in ("cache", "read", "step")):
        return Cached(model, source=source[:, :longest])
    return Recomputing(_Behind(model, source))


class _Behind(nn.Module):
    """A model of rows (B, S + T) as one of rows (B, T), the sources being known."""

    def __init__(self, model: nn.Module, source: Tensor):
        super().__init__()
        self.model, self.source = model, source

    def forward(self, rows: Tensor) -> Tensor:
        source = self.source.to(rows.device).repeat_interleave(len(rows) // len(self.source), 0)
        return self.model(torch.cat([source, rows], 1))


def _sources(inputs: Tokens, x: Tensor) -> list[str]:
    return inputs.decode(x[:, : inputs.len_source])


def _targets(inputs: Tokens, y: Tensor) -> list[str]:
    tokens = inputs.encode(y)
    return inputs.decode(tokens.masked_fill(tokens == cast(int, inputs.tokenizer.end), NOTHING))


def _inputs(run: Run) -> Tokens:
    if isinstance(run.inputs, Tokens) and run.inputs.task == "pairs":
        return run.inputs
    raise UserError(
        "a run must be of pairs of sentences to translate",
        got=f"{run.inputs.task} of text" if isinstance(run.inputs, Tokens) else f"{type(run.inputs).__name__} inputs",
        do="Train one on ll.data.text(path, task='pairs')",
    )
