"""How good translations are, and the translator that needs no network: a memory of sentences.

    BLEU   = brevity · exp(¼ Σ_{n=1..4} log p_n)     p_n -> share of runs of n words that a reference has too      (1)
    chrF   = F_2 of runs of 1 to 6 letters           recall counts twice as much as precision                      (2)
    memory(s) = t_k,   k = argmin_k D(s, s_k)        of known pairs (s_k, t_k), D the edit distance                (3)

(1) and (2) are sacrebleu's, from 0 to 100, of all sentences together. (3) is what a model has to beat: in texts that
repeat themselves it is good.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from leadline.errors import UserError
from leadline.text.edit_distance import Memory


@dataclass(frozen=True)
class Quality:
    """Args:
    bleu, chrf: from 0 to 100.
    signature: how words were told apart and counted, for a comparison with others.

    >>> print(Quality(bleu=31.25, chrf=55.0))
    BLEU 31.2, chrF 55.0
    """

    bleu: float
    chrf: float
    signature: str = ""

    def __str__(self) -> str:
        return f"BLEU {self.bleu:.1f}, chrF {self.chrf:.1f}"


def quality(translations: Sequence[str], references: Sequence[str]) -> Quality:
    """Eqs. 1 and 2.

    >>> print(quality(["le chat est sur la table"], ["le chat est sur la table"]))
    BLEU 100.0, chrF 100.0
    """
    if len(translations) != len(references) or not references:
        raise UserError(
            "there must be a reference for each translation",
            got=f"{len(references)} for {len(translations)}",
            do="Pass two lists of equal length",
        )
    metrics = _sacrebleu().metrics
    bleu, chrf = metrics.BLEU(), metrics.CHRF()
    both = [metric.corpus_score(list(translations), [list(references)]).score for metric in (bleu, chrf)]
    return Quality(both[0], both[1], str(bleu.get_signature()))


class TranslationMemory:
    """The translation of the nearest known source (eq. 3).

    Args:
        sources, targets: known pairs, at least one.

    >>> TranslationMemory(["a cat", "a dog"], ["un chat", "un chien"]).translate(["the dog"])
    ['un chien']
    """

    def __init__(self, sources: Sequence[str], targets: Sequence[str]):
        if len(sources) != len(targets):
            raise UserError(
                "a memory must have a target for each source",
                got=f"{len(targets)} for {len(sources)}",
                do="Pass two lists of equal length",
            )
        self.memory, self.targets = Memory(sources), list(targets)

    def translate(self, sources: Sequence[str]) -> list[str]:
        """The target of the nearest known source, for each source."""
        return [self.targets[self.memory.nearest(source)[0]] for source in sources]


def _sacrebleu() -> Any:
    try:
        import sacrebleu
    except ImportError:
        raise UserError(
            "sacrebleu must be installed to score translations", got="no such package", do="pip install sacrebleu"
        ) from None
    return sacrebleu
