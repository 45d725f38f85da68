"""A run of pairs as a translator: sentences in, sentences out, and what they are worth beside a memory.

    translate(run, texts)     beam search after each source                                      (1)
    scores(run, split)        BLEU, chrF and errors of (1), and of the nearest known sentence     (2)

References are the targets as the run has them: those that were cut to its length are cut here too. Where a source comes
more than once, each of its targets counts as right among the errors.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, cast

import torch
from torch import Tensor

from leadline.data.data import Split
from leadline.data.tokens import NOTHING, Tokens
from leadline.engine.decoder import Decodable, scorer_of
from leadline.errors import DataError, UserError
from leadline.run import Run
from leadline.settings import texts as listed
from leadline.settings import whole
from leadline.text.beam import beam_search
from leadline.text.stopping import Stop
from leadline.text.translation import Errors, Quality, TranslationMemory, errors, quality

BATCH, BATCH_ON_GPU = 64, 256  # sentences that are translated at once
MOST = 2000  # sentences of a split that are translated, or more where they are short
_TOKENS = 200_000  # of targets that are translated, where that makes more sentences
_COMPARED = 3e7  # sentences that a memory may look at; it is asked for fewer translations where it knows many


@dataclass(frozen=True)
class Scores:
    """What a run's translations are worth.

    Args:
        model, memory: quality of the run's own, and of the translation memory's.
        model_errors, memory_errors: of the same.
        sources, references, translations: sentence by sentence.
        asked: which of them the memory was asked for; evenly spaced, where it knows too many to be asked for all.
        remembered: what it answered.
        rows: sentences that the split has; those above are evenly spaced where it has more than were asked for.
    """

    model: Quality
    memory: Quality
    model_errors: Errors
    memory_errors: Errors
    sources: list[str]
    references: list[str]
    translations: list[str]
    asked: list[int]
    remembered: list[str]
    rows: int

    def to_dict(self, examples: int = 3) -> dict[str, Any]:
        """As JSON holds it, with a few sentences."""
        both = {"model": (self.model, self.model_errors), "memory": (self.memory, self.memory_errors)}
        return {
            "sentences": len(self.sources),
            "rows": self.rows,
            **{
                name: {"bleu": worth.bleu, "chrf": worth.chrf, "inexact": wrong.inexact, "symbol_errors": wrong.symbols}
                for name, (worth, wrong) in both.items()
            },
            "asked_of_memory": len(self.asked),
            "signature": self.model.signature,
            "examples": self.examples(examples),
        }

    def examples(self, num: int) -> list[dict[str, str]]:
        """A few sentences, as all say them."""
        return [
            {
                "source": self.sources[row],
                "reference": self.references[row],
                "translation": self.translations[row],
                "remembered": remembered,
            }
            for row, remembered in list(zip(self.asked, self.remembered, strict=True))[:num]
        ]


def translates(run: Run) -> bool:
    """Whether a run was trained on pairs of sentences.

    >>> import leadline as ll
    >>> translates(ll.fit(ll.models.MLP(2, (4,), 1), ll.data.moons(num=60), epochs=1, progress=False))
    False
    """
    return isinstance(run.inputs, Tokens) and run.inputs.task == "pairs"


def translate(run: Run, texts: str | Sequence[str], beams: int = 4, penalty: float = 1.0) -> list[str]:
    r"""The likeliest translation that was found of each sentence (eq. 1); of an empty one nothing.

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
    asked = listed("texts", texts)
    found, said = [""] * len(asked), [row for row, text in enumerate(asked) if text.strip()]
    if said:
        x = _inputs(run).read([asked[row] for row in said])
        for row, text in zip(said, _translations(run, x, beams, penalty), strict=True):
            found[row] = text
    return found


def scores(
    run: Run, split: str | Split = "test", beams: int = 4, penalty: float = 1.0, most: int | None = None
) -> Scores:
    """Quality on a split, or on other rows, beside that of a memory of the training split (eq. 2).

    Args:
        beams, penalty: as of `translate`.
        most: sentences at most, evenly spaced, at least 1; by default 2,000, or 200,000 tokens where that is more.
    """
    inputs, data = _inputs(run), run.need_data()
    rows = split if isinstance(split, Split) else data[split]
    most = max(MOST, _TOKENS // inputs.length) if most is None else most
    if not len(rows):
        have = " or ".join(name for name, _ in data.splits())
        raise DataError(f"split {split} must have rows", got="none", do=f"Take {have}")
    taken = torch.linspace(0, len(rows) - 1, min(len(rows), whole("most", most))).round().long()
    x, y = rows.x[taken], rows.y[taken]
    sources, references = _sources(inputs, x), _targets(inputs, y)
    translations = _translations(run, x, beams, penalty)
    right: dict[str, list[str]] = {}
    for source, reference in zip(sources, references, strict=True):
        right.setdefault(source, []).append(reference)
    known = TranslationMemory(_sources(inputs, data.train.x), _targets(inputs, data.train.y))
    few = min(len(sources), max(100, int(_COMPARED / len(data.train))))
    asked = torch.linspace(0, len(sources) - 1, few).round().long().tolist()
    remembered = known.translate([sources[row] for row in asked])
    worth = quality(translations, references), quality(remembered, [references[row] for row in asked])
    wrong = (
        errors(translations, [right[source] for source in sources]),
        errors(remembered, [right[sources[row]] for row in asked]),
    )
    return Scores(*worth, *wrong, sources, references, translations, asked, remembered, len(rows))


def _translations(run: Run, x: Tensor, beams: int, penalty: float) -> list[str]:
    """Of raw rows, sentences of like length together."""
    inputs = _inputs(run)
    source = inputs.encode(x[:, : inputs.len_source])
    lengths = (source != inputs.fill).sum(1)
    end = cast(int, inputs.tokenizer.end)  # without which there are no pairs
    stop = Stop(tokens=(end,))
    found = [""] * len(source)
    on_gpu = next(run.model.parameters()).is_cuda
    for part in lengths.argsort(descending=True).split(BATCH_ON_GPU if on_gpu else BATCH):
        read = source[part]
        if isinstance(run.model, Decodable):  # which reads sources of any length
            read = read[:, : max(1, int(lengths[part].max()))]
        scorer = scorer_of(run.model, inputs.length, read, inputs.length)
        best = beam_search(scorer, [[inputs.start]] * len(part), inputs.length, beams, stop, penalty=penalty)
        for row, texts in zip(part.tolist(), best, strict=True):
            words = [token for token in texts[0].tokens if token != end]
            found[row] = inputs.tokenizer.decode(words)
    return found


def _sources(inputs: Tokens, x: Tensor) -> list[str]:
    return inputs.decode_sources(x)


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
