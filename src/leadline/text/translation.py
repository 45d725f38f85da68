"""How good translations are, and the translator that needs no network: a memory of sentences.

    BLEU   = brevity · exp(¼ Σ_{n=1..4} log p_n)     p_n -> share of runs of n words that a reference has too      (1)
    chrF   = F_2 of runs of 1 to 6 letters           recall counts twice as much as precision                      (2)
    memory(s) = t_k,   k = argmin_k D(s, s_k)        of known pairs (s_k, t_k), D the edit distance                (3)
    not exact = share of translations that are none of their references                                            (4)
    symbols   = Σ_i D(y_i, r_i) / Σ_i |r_i|          D over words, r_i the nearest of its references               (5)

(1) and (2) are sacrebleu's, from 0 to 100, of all sentences together. (3) is what a model has to beat: in texts that
repeat themselves it is good. Where one right answer is expected, as of the sounds of a word, (4) and (5) say more:
there they are called the word error and the phoneme error; of sentences (5) is the word error rate.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from leadline.errors import UserError
from leadline.settings import given
from leadline.text.edit_distance import Memory, edit_distance


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


@dataclass(frozen=True)
class Errors:
    """Args:
    inexact: eq. 4, from 0 to 1.
    symbols: eq. 5, at least 0.

    >>> print(Errors(inexact=0.25, symbols=0.0625))
    25.0 % not exact, 6.2 % of symbols wrong
    """

    inexact: float
    symbols: float

    def __str__(self) -> str:
        return f"{100 * self.inexact:.1f} % not exact, {100 * self.symbols:.1f} % of symbols wrong"


def errors(translations: Sequence[str], references: Sequence[Sequence[str]]) -> Errors:
    """Eqs. 4 and 5; symbols are what white space parts.

    Args:
        references: one or more that are right, for each translation.

    >>> print(errors(["K AE T", "D AA G"], [["K AE T"], ["D AO G", "D AO G Z"]]))
    50.0 % not exact, 16.7 % of symbols wrong
    """
    if len(translations) != len(references) or not references or not all(references):
        raise UserError(
            "there must be a reference for each translation",
            got=f"{sum(map(bool, references))} for {len(translations)}",
            do="Pass two lists of equal length, the second of lists",
        )
    alone = next((one for one in references if isinstance(one, str)), None)
    if alone is not None:  # whose letters would each be one that is right
        got, do = given("a reference", alone), "Pass a list of those that are right, for each translation"
        raise UserError("references must be several for each translation", got=got, do=do)
    wrong, changes, symbols = 0, 0, 0
    for text, known in zip(translations, references, strict=True):
        said, right = text.split(), [one.split() for one in known]
        distance, length = min((edit_distance(said, one), len(one)) for one in right)
        wrong, changes, symbols = wrong + (said not in right), changes + distance, symbols + length
    return Errors(wrong / len(references), changes / max(symbols, 1))


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
