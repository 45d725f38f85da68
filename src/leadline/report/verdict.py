"""One sentence that says what the headline number means: beside what one would reach without looking at x."""

from __future__ import annotations

import math

import numpy as np
from torch import Tensor

from leadline.doctor.texts import unigram_nll
from leadline.report.facts import Facts
from leadline.report.numbers import array
from leadline.report.words import count, escape, number, percent

ROWS = {"test": "unseen rows", "val": "rows held out for validation", "train": "the rows it was trained on"}
FEW = 30  # rows below which a figure says little


def verdict(facts: Facts, split: str) -> str:
    """HTML of the sentence."""
    evaluation, rows, kind = facts.evaluations[split], ROWS[split], facts.data.target.kind
    headline = facts.headline(split)
    if headline == "accuracy" and facts.data.target.discrete:
        sentence = _classes(facts, split)
    elif kind == "tokens" and "perplexity" in evaluation:
        sentence = _tokens(facts, split)
    elif headline == "rmse" and kind == "real":
        sentence = _real(facts, split)
    elif headline == "r2" and kind == "real":
        sentence = _reals(facts, split)
    else:
        sentence = f"On {rows} the {escape(headline)} is {number(evaluation[headline])}."
    if evaluation.count < FEW:
        sentence += f" With {count(evaluation.count, 'row')}, this figure is only a rough estimate."
    return sentence


def _classes(facts: Facts, split: str) -> str:
    evaluation, part, names = facts.evaluations[split], facts.data[split], facts.data.target.classes
    usual = int(np.bincount(array(facts.data.train.y).astype(int)).argmax())
    base = _mean(array(part.y) == usual, part.weight)
    low, high = evaluation.interval("accuracy")
    answer = f"“{escape(names[usual] if usual < len(names) else usual)}”"
    begin = f"Right on {percent(evaluation['accuracy'])} of {ROWS[split]}"
    if low > base:
        return f"{begin}; always answering {answer}, the commonest class, would be right on {percent(base)}."
    if high < base:
        return f"{begin}, worse than always answering {answer}, the commonest class: {percent(base)}."
    return f"{begin}, not clearly better than always answering {answer}, the commonest class: {percent(base)}."


def _tokens(facts: Facts, split: str) -> str:
    evaluation = facts.evaluations[split]
    own, rival = evaluation["perplexity"], unigram_nll(facts.data, split)
    guess = number(math.exp(min(rival, 700.0)))
    begin = f"On {ROWS[split]} the perplexity is {number(own)}: as unsure as between that many equally likely tokens"
    if evaluation.interval("nll")[1] < rival:
        return f"{begin}; knowing only how often tokens occur would leave {guess}."
    return f"{begin}, not clearly better than knowing only how often tokens occur: {guess}."


def _real(facts: Facts, split: str) -> str:
    evaluation, part = facts.evaluations[split], facts.data[split]
    y, train = (array(s.y).reshape(len(s), -1) for s in (part, facts.data.train))
    base = _mean(((y - train.mean(0)) ** 2).mean(1), part.weight) ** 0.5
    low, high = evaluation.interval("rmse")
    name = escape(facts.data.target.name)
    begin = f"Predictions of {name} on {ROWS[split]} are off by {number(evaluation['rmse'])} (root mean square)"
    if high < base:
        return f"{begin}; always answering the training mean would be off by {number(base)}."
    if low > base:
        return f"{begin}, worse than always answering the training mean: {number(base)}."
    return f"{begin}, not clearly better than always answering the training mean: {number(base)}."


def _reals(facts: Facts, split: str) -> str:
    """Of several outputs, whose units differ."""
    evaluation, part, outputs = facts.evaluations[split], facts.data[split], facts.data.target.dim
    r2, (low, high) = evaluation["r2"], evaluation.interval("r2")
    if not math.isfinite(r2):
        return f"No target varies over {ROWS[split]}: there is no variance to explain."
    begin = f"Predictions explain {percent(max(r2, 0.0))} of the variance of the {outputs} targets on {ROWS[split]}"
    begin += " (r2, the mean over the targets)"
    y, guess = array(part.y), array(facts.data.train.y).mean(0)
    weight = None if part.weight is None else array(part.weight)
    off, own = (np.average((y - at) ** 2, 0, weight) for at in (guess, np.average(y, 0, weight)))
    base = float(np.mean(1 - off[own > 0] / own[own > 0]))  # 0, or less where the means of the splits differ
    if low > base:
        return f"{begin}; always answering the training means would explain none."
    if high < base:
        return f"{begin}, and are worse than always answering the training means."
    return f"{begin}, not clearly better than always answering the training means."


def _mean(values: np.ndarray, weight: Tensor | None) -> float:
    return float(np.average(values, weights=None if weight is None else array(weight)))
