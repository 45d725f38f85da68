"""The sentence under the headline tells a useful model from a useless one."""

from dataclasses import replace

import torch
from trained_runs import class_data, real_data, train

import leadline as ll
from leadline.data.data import Split
from leadline.engine.evaluation import evaluate
from leadline.report.verdict import verdict


def judged(facts, output, split="test"):
    evaluation = evaluate(facts.likelihood, output, facts.data[split].y, facts.data[split].weight)
    return verdict(replace(facts, evaluations={split: evaluation}, outputs={split: output}), split)


def test_classes():
    facts = train(class_data(sizes=(200, 50, 100)))
    truth = torch.nn.functional.one_hot(facts.data.test.y, 4).float()
    assert judged(facts, truth) == (
        "Right on 100.0\xa0% of unseen rows; always answering “class-0”, the commonest class, "
        "would be right on 25.0\xa0%."
    )
    constant = torch.tensor([1.0, 0, 0, 0]).expand(100, 4)
    assert "not clearly better than always answering “class-0”" in judged(facts, constant)
    assert "worse than always answering" in judged(facts, -truth)


def test_real():
    facts = train(real_data(sizes=(200, 50, 100)))
    shift, scale, y = facts.likelihood.shift[0], facts.likelihood.scale[0], facts.data.test.y[:, None]
    truth = (y - shift) / scale
    base = (y - facts.data.train.y.mean()).square().mean().sqrt().item()
    assert f"always answering the training mean would be off by {base:.1f}." in judged(facts, truth + 0.01)
    assert "not clearly better" in judged(facts, torch.zeros(100, 1))
    assert "worse than" in judged(facts, truth + 5)


def test_several_reals_are_told_without_a_unit():
    x = torch.linspace(-1, 1, 300)[:, None]
    facts = train(ll.data.arrays(x, torch.cat([x, 100 * x], 1)))
    y, shift, scale = (torch.as_tensor(v) for v in (facts.data.test.y, facts.likelihood.shift, facts.likelihood.scale))
    truth = (y - shift) / scale
    told = judged(facts, truth)
    assert told.startswith("Predictions explain 100.0\xa0% of the variance of the 2 targets on unseen rows")
    assert "not clearly better than always answering the training means" in judged(facts, torch.zeros_like(y))
    assert "worse than always answering the training means" in judged(facts, truth + 5)


def test_the_baseline_is_weighted_like_the_metric():
    data = class_data(num_classes=2, sizes=(200, 50, 100))
    weight = torch.where(data.test.y == 0, 3.0, 1.0)
    facts = train(data.with_(test=Split(data.test.x, data.test.y, weight)))
    assert "right on 75.0\xa0%" in judged(facts, (data.test.y[:, None] - 0.5) * 9)


def test_few_rows_are_called_few():
    facts = train(class_data(sizes=(200, 50, 5)))
    assert verdict(facts, "test").endswith("With 5 rows, this figure is only a rough estimate.")
    assert "hint" not in verdict(facts, "train")
