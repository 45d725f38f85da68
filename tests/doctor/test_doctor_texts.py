"""Text before and after a run: each fault is named, and healthy text raises nothing."""

import math

import numpy as np
import pytest
import torch

from leadline.data.data import Data, Split
from leadline.data.target import Target
from leadline.data.tokens import NOTHING, Tokens, padded
from leadline.doctor import after
from leadline.doctor.texts import check_rows_of_text, unigram_nll, unsigned
from leadline.engine.evaluation import Evaluation
from leadline.likelihoods import Span
from leadline.likelihoods import Tokens as Family
from leadline.text.tokenizer import Tokenizer

BYTES = Tokenizer.train([], "bytes")
FIRST = int(np.flatnonzero(~BYTES.special)[0])


def codes(findings):
    return [finding.code for finding in findings]


def of_rows(rows, task="next", tokenizer=BYTES, length=32, width=None, **more):
    x = padded(rows, width or length, tokenizer.num_tokens)
    y = torch.zeros(len(x), dtype=torch.long) if task == "classes" else x
    target = Target("classes", classes=("a", "b")) if task == "classes" else Target("tokens", dim=tokenizer.num_tokens)
    return Data(Split(x, y), Split(x, y), Split(x, y), target, Tokens(task, length, tokenizer, **more))


def random_rows(count=64, length=32, seed=0, vocabulary=60):
    draw = np.random.default_rng(seed)
    return FIRST + draw.integers(0, vocabulary, (count, length))


def test_healthy_text_raises_nothing():
    assert check_rows_of_text(of_rows(random_rows())) == []
    assert check_rows_of_text(of_rows(random_rows(), "classes")) == []


def test_rows_that_are_mostly_padding_are_named_with_a_length():
    rows = [row[: 3 + k % 5] for k, row in enumerate(random_rows(100))]
    rows[0] = random_rows(1)[0]
    (found,) = check_rows_of_text(of_rows(rows, "classes"))
    assert found.code == "mostly-padding" and "length=8" in found.remedy and "32 places" in found.evidence


def test_of_pairs_each_side_is_judged_alone():
    data = of_rows(random_rows(40, 48), "pairs", length=32, width=48, len_source=16)
    assert check_rows_of_text(data) == []
    short = [np.concatenate([row[:2], np.full(14, BYTES.pad), row[16:48]]) for row in random_rows(40, 48)]
    (found,) = check_rows_of_text(of_rows(short, "pairs", length=32, width=48, len_source=16))
    assert found.code == "mostly-padding" and "sources" in found.what


def big_tokenizer():
    return Tokenizer.train((f"word{k} thing{k * 7} a{k}b" for k in range(3000)), "bpe", num_tokens=1400)


def test_a_vocabulary_that_is_mostly_unused_is_named():
    own = big_tokenizer()
    tokens = np.flatnonzero(~own.special)
    draw = np.random.default_rng(0)
    few = tokens[draw.integers(0, 200, (300, 64))]
    (found,) = check_rows_of_text(of_rows(few, "classes", own, 64))
    assert found.code == "unused-vocabulary" and "200 of" in found.evidence
    many = tokens[draw.integers(0, len(tokens), (300, 64))]
    assert check_rows_of_text(of_rows(many, "classes", own, 64)) == []
    assert check_rows_of_text(of_rows(few[:20], "classes", own, 64)) == []  # too short to tell


def test_documents_far_shorter_than_the_context_are_noted():
    rows = random_rows(60, 64)
    rows[:, ::6] = BYTES.end
    (found,) = check_rows_of_text(of_rows(rows, length=64))
    assert found.code == "short-documents" and found.severity == "note" and "6 tokens a document" in found.evidence
    rows = random_rows(60, 64)
    rows[:, ::30] = BYTES.end
    assert check_rows_of_text(of_rows(rows, length=64)) == []


def test_stored_tokens_have_no_sign():
    stored = torch.tensor([5, -1, -2], dtype=torch.int16)
    assert unsigned(stored).tolist() == [5, NOTHING, 65534]
    assert unsigned(torch.tensor([5, -1])).tolist() == [5, NOTHING]


def test_the_rival_is_the_nll_of_frequencies():
    data = of_rows(random_rows(20, 16), length=16)
    y = data.train.y.long().flatten()
    counts = torch.bincount(y, minlength=BYTES.num_tokens).double() + 1
    p = counts / counts.sum()
    assert unigram_nll(data, "val") == pytest.approx(float(-p.log()[y].mean()))


def evaluated(nll, half=0.02, count=64):
    return Evaluation({"nll": nll, "perplexity": math.exp(nll)}, {"nll": (nll - half, nll + half)}, count)


def history(val, train=None):
    train = train or [3.0 - 0.3 * k for k in range(len(val))]
    return [
        {"epoch": k + 1, "step": k + 1, "train": {"loss": loss}, "val": {"nll": nll}}
        for k, (nll, loss) in enumerate(zip(val, train))
    ]


def judged(train, val, past=()):
    data = of_rows(random_rows())
    family = Family(BYTES.num_tokens)
    return after(list(past), {"train": evaluated(train), "val": evaluated(val)}, data, family, {})


def test_a_healthy_run_raises_nothing():
    assert judged(1.5, 1.7, history([3.0, 2.5, 2.0, 1.8, 1.7])) == []
    assert judged(1.5, 1.7, history([3.0, 2.5, 1.7, 1.72, 1.71])) == []  # noise is no rise


def test_a_model_that_is_no_better_than_frequencies_is_named():
    rival = unigram_nll(of_rows(random_rows()), "train")
    (found,) = judged(rival * 1.001, rival * 1.01)
    assert found.code == "underfitting" and "frequencies" in found.what
    (found,) = judged(rival * 0.5, rival * 1.05)
    assert found.code == "no-better-than-constant" and found.where == "val split"
    assert codes(judged(math.nan, 2.0)) == ["underfitting"]


def test_val_that_rises_while_train_falls_is_named():
    past = history([3.0, 2.0, 1.8, 2.1, 2.4, 2.6])
    (found,) = judged(1.4, 1.8, past)  # the best weights were kept
    assert found.code == "overfitting" and found.severity == "note" and "epoch 3" in found.where
    (found,) = judged(2.2, 2.6, past)
    assert found.code == "overfitting" and found.severity == "warning"
    both = history([3.0, 2.0, 1.8, 2.1, 2.4, 2.6], train=[3.0, 2.0, 1.7, 2.0, 2.4, 2.6])
    assert judged(2.4, 2.6, both) == []  # both rise: that is no overfitting


def test_text_known_by_heart_is_named():
    (found,) = judged(0.3, 2.5)
    assert found.code == "overfitting" and "overfits" in found.what and found.severity == "warning"


def test_stretches_of_text_are_judged_without_frequencies():
    data = of_rows(random_rows())
    spans = Data(data.train, data.val, data.test, Target("span"), data.inputs)
    told = {"train": evaluated(0.2), "val": evaluated(3.0)}
    assert codes(after([], told, spans, Span(), {})) == ["overfitting"]
    assert after([], {"train": evaluated(1.0), "val": evaluated(1.1)}, spans, Span(), {}) == []
