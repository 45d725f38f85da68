import math

import pytest
import torch

import leadline as ll
from leadline.data.data import Data, Split
from leadline.data.target import Target
from leadline.doctor import after
from leadline.engine.evaluation import evaluate
from leadline.likelihoods import Bernoulli, Normal
from leadline.likelihoods.links import PACE


def binary(accuracies, n=1000, confidence=0.9):
    """Data and outputs of a model that is right in the given share of each split's rows."""
    splits, outputs = {}, {}
    for name, share in accuracies.items():
        y = torch.arange(n) % 2
        right = torch.arange(n) < share * n
        logit = torch.logit(torch.tensor(confidence)) * torch.where(right, 1, -1) * (2 * y - 1)
        splits[name], outputs[name] = Split(torch.randn(n, 2), y), logit[:, None].float()
    return Data(**splits, target=Target("binary")), outputs


def verdict(data, outputs, history=(), likelihood=None):
    likelihood = likelihood or Bernoulli()
    evaluations = {name: evaluate(likelihood, output, data[name].y) for name, output in outputs.items()}
    return after(list(history), evaluations, data, likelihood, outputs)


def codes(findings):
    return [(finding.code, finding.severity) for finding in findings]


def records(losses, val=None):
    val = val or [None] * len(losses)
    return [
        {"epoch": k, "train": {"loss": a}, "val": {} if b is None else {"nll": b}}
        for k, (a, b) in enumerate(zip(losses, val, strict=True), 1)
    ]


def test_a_model_as_good_on_all_splits_is_left_alone():
    assert verdict(*binary({"train": 0.91, "val": 0.9, "test": 0.9})) == []


def test_the_gap_must_matter_and_exceed_chance():
    assert codes(verdict(*binary({"train": 0.98, "val": 0.9, "test": 0.9}))) == [("overfitting", "warning")]
    assert verdict(*binary({"train": 0.93, "val": 0.9, "test": 0.9})) == []  # three points do not matter
    assert verdict(*binary({"train": 0.98, "val": 0.9, "test": 0.9}, n=50)) == []  # eight points of 50 rows are chance


def test_of_a_single_row_nothing_is_said():
    x, y = torch.randn(40, 2), torch.randn(40)
    data = Data(Split(x, y), Split(x[:1], y[:1] + 5), Split(x[:1], y[:1]), Target.real(y))
    outputs = {"train": y[:, None] + 0.1, "val": y[:1, None], "test": y[:1, None]}
    found = verdict(data, outputs, likelihood=Normal("fixed"))
    assert "overfitting" not in [finding.code for finding in found]
    assert "nan" not in " ".join(finding.evidence for finding in found)


def test_a_rise_of_val_is_a_note_when_the_best_weights_were_kept():
    data, outputs = binary({"train": 0.91, "val": 0.9, "test": 0.9})
    kept = evaluate(Bernoulli(), outputs["val"], data.val.y)["nll"]
    rising = records([0.5, 0.4, 0.3, 0.2, 0.2, 0.1], [0.5, kept, 0.4, 0.5, 0.6, 0.6])
    (finding,) = verdict(data, outputs, rising)
    assert (finding.code, finding.severity) == ("overfitting", "note")
    assert "epoch 2" in finding.where
    last_kept = records([0.5, 0.4, 0.3, 0.2, 0.2, 0.1], [0.5, kept - 0.2, 0.3, 0.3, kept, kept])
    assert codes(verdict(data, outputs, last_kept)) == [("overfitting", "warning")]


def test_underfitting_tells_a_falling_loss_from_a_flat_one():
    data, outputs = binary({"train": 0.5, "val": 0.5, "test": 0.5}, confidence=0.51)
    (falling,) = verdict(data, outputs, records([0.70 - 0.001 * k for k in range(10)]))
    (flat,) = verdict(data, outputs, records([0.9, 0.7] + [0.693] * 8))
    assert falling.code == flat.code == "underfitting"
    assert "more epochs" in falling.remedy and "more epochs" not in flat.remedy


def with_rates(losses, rates):
    return [{**record, "lr": rate} for record, rate in zip(records(losses), rates, strict=True)]


def test_a_loss_that_stands_still_because_the_schedule_ended_is_not_called_flat():
    data, outputs = binary({"train": 0.5, "val": 0.5, "test": 0.5}, confidence=0.51)
    cosine = [0.5 * (1 + math.cos(math.pi * k / 19)) for k in range(20)]
    losses = [0.75 - 0.0005 * sum(cosine[: k + 1]) for k in range(20)]  # the loss falls as fast as it is let
    assert losses[15] - losses[19] < 0.1 * (losses[0] - losses[19])
    (ended,) = verdict(data, outputs, with_rates(losses, cosine))
    assert "flat" not in ended.evidence and "the schedule ended before the loss had flattened" in ended.remedy
    (flat,) = verdict(data, outputs, with_rates([0.9, 0.7] + [0.693] * 18, cosine))
    assert "the loss has flattened in the last " in flat.evidence and "the last 4 epochs" not in flat.evidence
    (constant,) = verdict(data, outputs, with_rates([0.9, 0.7] + [0.693] * 18, [1.0] * 20))
    assert "the loss has flattened in the last 4 epochs of 20" in constant.evidence


@pytest.mark.parametrize("epochs", [0, 1, 4])
def test_of_a_few_epochs_nothing_is_said(epochs):
    data, outputs = binary({"train": 0.5, "val": 0.5, "test": 0.5}, confidence=0.51)
    (finding,) = verdict(data, outputs, records([0.7] * epochs))
    assert "flat" not in finding.evidence and "fall" not in finding.evidence and "more epochs" in finding.remedy


@pytest.mark.parametrize(
    ("share", "confidence", "words"),
    [(0.4, 0.6, "is worse than"), (0.5, 0.5, "is no better than"), (0.515, 0.51, "barely beats")],
)
def test_a_model_worse_than_the_guess_is_called_worse(share, confidence, words):
    (finding,) = verdict(*binary({"train": share, "val": share, "test": share}, confidence=confidence))
    assert finding.what == f"the model {words} a constant guess even on the rows it trained on"


def test_on_rows_held_out_too():
    found = {f.code: f.what for f in verdict(*binary({"train": 1.0, "val": 0.4, "test": 0.4}))}
    assert found["no-better-than-constant"] == "on val the model is worse than a constant guess"
    found = {f.code: f.what for f in verdict(*binary({"train": 1.0, "val": 0.5, "test": 0.5}))}
    assert found["no-better-than-constant"] == "on val the model is no better than a constant guess"


def test_learning_by_heart_is_no_better_than_guessing():
    found = codes(verdict(*binary({"train": 1.0, "val": 0.5, "test": 0.5})))
    assert ("no-better-than-constant", "warning") in found and ("overfitting", "warning") in found


def test_a_worse_test_split_is_named():
    found = codes(verdict(*binary({"train": 0.91, "val": 0.9, "test": 0.8})))
    assert ("test-worse-than-val", "warning") in found


def test_a_real_target_is_compared_with_its_mean():
    g = torch.Generator().manual_seed(0)
    y = 100 + 5 * torch.randn(3, 500, generator=g)
    splits = [Split(torch.randn(500, 2), part) for part in y]
    data = Data(*splits, target=Target.real(y[0]))
    likelihood = Normal.for_target(data.target)
    guess = {name: torch.zeros(500, 1) for name in ("train", "val", "test")}
    assert codes(verdict(data, guess, likelihood=likelihood)) == [("underfitting", "warning")]
    close = {
        name: ((split.y - 100 + 1.0 * torch.randn(500, generator=g)) / 5)[:, None] for name, split in data.splits()
    }
    with torch.no_grad():
        likelihood.rho.fill_(torch.tensor(0.2).expm1().log() / PACE)
    assert verdict(data, close, likelihood=likelihood) == []


def test_several_outputs_are_judged_without_their_units():
    """The first, in thousands, would drown the second in a common rmse."""
    unit, generator = torch.tensor([1000.0, 0.01]), torch.Generator().manual_seed(0)
    splits = {name: torch.randn(600, 2, generator=generator) for name in ("train", "val", "test")}
    data = Data(*(Split(torch.randn(600, 2), y * unit) for y in splits.values()), target=Target("real", dim=2))
    likelihood = Normal("fixed", sigma=0.5, dim=2, scale=(1000.0, 0.01))

    def told(noise):
        outputs = {n: y + noise[n] * torch.randn(600, 2, generator=generator) for n, y in splits.items()}
        return [f for f in verdict(data, outputs, likelihood=likelihood) if f.code != "interval-coverage"]

    assert told({"train": 0.5, "val": 0.5, "test": 0.5}) == []
    (finding,) = told({"train": 0.3, "val": torch.tensor([0.3, 0.8]), "test": torch.tensor([0.3, 0.8])})
    assert finding.code == "overfitting" and finding.evidence.startswith("r2 0.9")
    (finding, *_) = told({"train": 1.1, "val": 1.1, "test": 1.1})
    assert finding.code == "underfitting" and "the mean over the outputs, against 0" in finding.evidence


def test_splits_that_lack_are_no_trouble():
    data, outputs = binary({"train": 0.91, "val": 0.9, "test": 0.9})
    empty = data.val.take(torch.arange(0))
    alone = data.with_(val=empty, test=empty)
    assert verdict(alone, {"train": outputs["train"]}) == []


def test_a_model_that_was_stopped_on_its_way_is_told_from_one_that_arrived():
    x = torch.randn(200, 3, generator=torch.Generator().manual_seed(0))
    y = x @ torch.tensor([2.0, -1.0, 0.5]) + 1
    data = ll.data.arrays(x, y)
    torch.manual_seed(0)
    slow = ll.fit(ll.models.Linear(3, 1), data, epochs=100, progress=False)
    assert [f.what for f in slow.findings if f.code == "underfitting"] == [
        "the model was still learning when the run ended"
    ]
    torch.manual_seed(0)
    arrived = ll.fit(ll.models.Linear(3, 1), data, epochs=60, lr=0.1, progress=False)
    assert "underfitting" not in [f.code for f in arrived.findings]
