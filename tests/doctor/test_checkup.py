import hashlib
import math
import time

import museum
import pytest
import torch
from torch import nn

from leadline.data.data import Data, Split
from leadline.data.inputs import Identity, Standardize
from leadline.data.target import Target
from leadline.doctor import before
from leadline.likelihoods import Bernoulli, Categorical, Normal, likelihood_for
from leadline.models.mlp import MLP


def digest(model):
    state = hashlib.sha256(torch.get_rng_state().numpy().tobytes())
    for name, value in sorted(model.state_dict().items()):
        state.update(name.encode() + value.numpy().tobytes())
    for name, p in model.named_parameters():
        state.update(f"{name} {p.requires_grad} {None if p.grad is None else p.grad.tolist()}".encode())
    state.update(str([(module.training, len(module._forward_hooks)) for module in model.modules()]).encode())
    return state.hexdigest()


def test_looking_changes_nothing():
    class Noisy(nn.Module):
        """Draws noise and counts its calls even in evaluation mode."""

        def __init__(self):
            super().__init__()
            self.norm, self.head = nn.BatchNorm1d(5), nn.Linear(5, 3)
            self.register_buffer("calls", torch.zeros(()))

        def forward(self, x):
            self.calls = self.calls + 1
            return self.head(self.norm(x) + torch.randn_like(x))

    model = Noisy()
    model.head.weight.grad = torch.ones_like(model.head.weight)
    model.norm.eval()
    state = digest(model)
    before(model, museum.blobs(), Categorical(3))
    assert digest(model) == state


def test_errors_come_first():
    data = museum.blobs(n=60)
    x = data.train.x.clone()
    x[:, 0] = 3.0
    model = nn.Sequential(nn.Linear(5, 3), nn.Softmax(1))
    severities = [f.severity for f in before(model, museum.changed(data, x=x), Categorical(3))]
    assert severities == ["error", "warning", "note"]


def test_a_missing_value_is_named_by_source_row_and_column():
    x = torch.randn(200, 3)
    x[42, 1] = math.nan
    data = museum.split_up(x, x.sum(1).nan_to_num(), Target("real"), inputs=Identity(("height", "age", "mass")))
    (finding,) = before(MLP(3, (8,), 1), data, Normal())
    assert finding.code == "non-finite-input"
    assert "row 42, column 'age'" in finding.where


def test_a_value_that_only_the_encoding_spoils_is_found():
    class Log(Identity):
        def encode(self, x):
            return x.log()

    x = torch.rand(200, 2) + 1
    x[7, 1] = 0.0
    data = museum.split_up(x, torch.randn(200), Target("real"), inputs=Log())
    (finding,) = before(MLP(2, (8,), 1), data, Normal())
    assert finding.code == "non-finite-input" and "row 7, column 1" in finding.where


def test_the_chain_of_shapes_up_to_the_failure_is_shown():
    model = nn.Sequential(nn.Linear(5, 16), nn.ReLU(), nn.Sequential(nn.Linear(8, 3)))
    (finding,) = before(model, museum.blobs(), Categorical(3))
    assert finding.code == "model-input" and finding.where == "2.0 (Linear)"
    assert "0 (Linear) (32, 5) -> (32, 16)" in finding.evidence
    assert "made for 8 inputs: make it for 16" in finding.remedy


def test_a_log_softmax_is_waste_and_not_a_fault():
    model = nn.Sequential(nn.Linear(5, 3), nn.LogSoftmax(1))
    (finding,) = before(model, museum.blobs(), Categorical(3))
    assert (finding.code, finding.severity) == ("double-softmax", "note")


def test_logits_that_happen_to_lie_between_0_and_1_are_no_sigmoid():
    model = nn.Linear(5, 1)
    nn.init.constant_(model.bias, 0.5)
    nn.init.constant_(model.weight, 1e-3)
    data = museum.blobs(count=2).with_(target=Target("binary"))
    assert before(model, data, Bernoulli()) == []


def test_rare_classes_and_few_validation_rows_are_noted():
    y = (torch.arange(1000) % 50 == 0).long()
    data = museum.split_up(torch.randn(1000, 3), y, Target("binary"), parts=(0.9, 0.02))
    found = before(MLP(3, (8,), 1), data, Bernoulli())
    assert {(f.code, f.severity) for f in found} == {("class-imbalance", "note"), ("small-val", "note")}


@pytest.mark.parametrize("n", [3000, 30_000])
def test_evidence_says_when_only_some_rows_were_read(n):
    x = torch.randn(n, 3)
    data = museum.split_up(x, 2 * x[:, 0] + 1e-3 * x[:, 1], Target("real"))
    (finding,) = before(MLP(3, (8,), 1), data, Normal())
    assert finding.code == "target-leak"
    assert ("sample of 4096 of 18000 rows" in finding.evidence) == (n > 4096)


def test_a_column_that_changes_outside_of_the_sample_is_not_constant():
    x = torch.randn(20_000, 3)
    x[:, 1] = 7.0
    x[1, 1] = 8.0  # a row that the evenly spaced sample does not read
    split = Split(x, torch.randn(20_000))
    few = Split(torch.randn(50, 3), torch.randn(50))
    data = Data(split, few, few, Target("real"), Standardize.fit(x))
    assert "constant-column" not in {f.code for f in before(MLP(3, (8,), 1), data, Normal())}


def test_blank_pixels_and_matching_indicators_are_notes():
    x = (torch.rand(300, 6) < 0.5).float()
    x[:, 1], x[:, 4] = 0.0, x[:, 3]
    data = museum.split_up(x, torch.randn(300), Target("real"), inputs=Identity())
    found = before(MLP(6, (8,), 1), data, Normal())
    assert {(f.code, f.severity) for f in found} == {("constant-column", "note"), ("duplicate-column", "note")}


def test_one_column_of_a_kind_for_one_class_is_no_leak():
    data = museum.blobs(n=300)  # as "gives milk" is for mammals: a fine feature that settles one class of several
    for name in ("train", "val", "test"):
        split = data[name]
        data = museum.changed(data, name, x=torch.cat([split.x, (split.y == 1)[:, None].float()], 1))
    assert before(MLP(6, (8,), 3), data.with_(inputs=Identity()), Categorical(3)) == []


def test_it_is_cheap():
    x, y = torch.randn(4000, 40), torch.randint(0, 10, (4000,))
    data = museum.split_up(x, y, museum.classes(10))
    model, likelihood = MLP(40, (100, 100), 10), likelihood_for(data.target)
    times = []
    for _ in range(20):
        begin = time.process_time()
        before(model, data, likelihood)
        times.append(time.process_time() - begin)
    assert min(times) < 0.016  # 5 ms where it was written; slower machines get their due


def test_a_good_predictor_is_no_leak():
    x = torch.randn(500, 3)
    y = x[:, 0] + 0.1 * torch.randn(500)  # correlation 0.995
    assert before(MLP(3, (8,), 1), museum.split_up(x, y, Target("real")), Normal()) == []


def test_a_sigmoid_is_seen_behind_a_change_of_shape():
    class Flat(nn.Module):
        def __init__(self):
            super().__init__()
            self.map = nn.Linear(5, 1)

        def forward(self, x):
            return self.map(x).squeeze(-1).sigmoid().unsqueeze(-1).view(-1, 1)

    data = museum.blobs(count=2).with_(target=Target("binary"))
    assert [f.code for f in before(Flat(), data, Bernoulli())] == ["double-softmax"]


def test_wrong_labels_are_named_with_their_rows():
    data = museum.blobs()
    y = data.train.y.clone()
    y[[4, 9]] = torch.tensor([7, -1])
    (finding,) = before(MLP(5, (8,), 3), museum.changed(data, y=y), Categorical(3))
    rows = data.train.rows[[4, 9]].tolist()
    assert finding.evidence == f"2 outside: -1, 7 in rows {rows[0]}, {rows[1]}"


def test_a_target_that_single_precision_blurs_is_named_as_it_is_written_and_needs_two_rows():
    y = torch.tensor([-2e9, -2e9 + 1, -2e9 + 2] * 20, dtype=torch.float64)
    split = Split(torch.randn(60, 2), y.float())
    found = before(MLP(2, (4,), 1), Data(split, split, split, Target.real(y, "v_1")), Normal("fixed"))
    (finding,) = [f for f in found if f.code == "target-resolution"]
    assert finding.what.startswith("the target v_1 must vary") and finding.remedy.endswith("v_1 + 2e+09")
    one = Split(split.x[:1], split.y[:1])
    found = before(MLP(2, (4,), 1), Data(one, one, one, Target.real(y[:1], "v_1")), Normal("fixed"))
    assert "target-resolution" not in [f.code for f in found]
