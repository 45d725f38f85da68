import museum
import torch
from test_checkup import digest
from torch import nn

import leadline as ll
from leadline.doctor import locate
from leadline.likelihoods import Categorical, Normal


class Halves(nn.Module):
    """A fault that only some rows show, deep inside."""

    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Identity(), Root())
        self.head = nn.Linear(2, 1)

    def forward(self, x):
        return self.head(self.body(x))


class Root(nn.Module):
    def forward(self, x):
        return x.sqrt()


def test_forward_names_module_function_rows_and_range():
    x = torch.ones(6, 2)
    x[2, 0], x[4, 1] = -4.0, -1.0
    finding = locate(Halves(), Normal(), x, torch.zeros(6), rows=torch.arange(100, 106), step=31)
    assert finding.code == "non-finite-forward"
    assert finding.where == "body.1 (Root), step 31"
    assert finding.evidence == "2 nan of 12 values in sqrt, from inputs between -4 and 1; rows 102, 104"
    assert "sqrt" in finding.remedy


def test_an_attention_mask_is_not_accused():
    class Masked(nn.Module):
        def __init__(self):
            super().__init__()
            self.score, self.head = nn.Linear(3, 3), nn.Linear(3, 1)

        def forward(self, x):
            weight = self.score(x).masked_fill(x < 0, -torch.inf).softmax(-1)  # a row of -inf alone gives nan
            return self.head(weight)

    x = torch.ones(4, 3)
    x[1] = -1.0
    finding = locate(Masked(), Normal(), x, torch.zeros(4))
    assert finding.code == "non-finite-forward"
    assert finding.where.startswith("head (Linear)") is False
    assert "rows 1" in finding.evidence and "masked_fill" not in finding.evidence


def test_backward_names_the_module_whose_slope_is_infinite():
    class Distance(nn.Module):
        def forward(self, x):
            return (x[:, :1] - x[:, 1:]).square().sum(1, keepdim=True).sqrt()

    model = nn.Sequential(nn.Linear(2, 2), Distance(), nn.Linear(1, 1))
    with torch.no_grad():
        model[0].weight[1] = model[0].weight[0]  # both coordinates agree: the distance is 0
        model[0].bias[1] = model[0].bias[0]
    finding = locate(model, Normal(), torch.randn(8, 2), torch.zeros(8), step=3)
    assert finding.code == "non-finite-backward"
    assert finding.where == "1 (Distance), step 3"
    assert "0.weight" in finding.evidence and "sqrt" in finding.evidence


def test_a_huge_learning_rate_is_told_by_the_weights():
    model = museum.net(3, 1)
    with torch.no_grad():
        for p in model.parameters():
            p.mul_(1e18)
    finding = locate(model, Normal(), torch.randn(8, 3), torch.zeros(8))
    assert finding.code == "non-finite-loss" or finding.code == "non-finite-forward"
    assert "lower the learning rate" in finding.remedy


def test_unscaled_inputs_are_told_by_their_range():
    finding = locate(museum.net(3, 1), Normal(), 1e25 * torch.randn(8, 3), torch.zeros(8))
    assert finding.code == "non-finite-loss" and "scale them" in finding.remedy


def test_nothing_is_left_behind():
    model = nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1d(8), nn.Dropout(0.5), nn.Linear(8, 3)).train()
    x = torch.randn(16, 4)
    state = digest(model)
    locate(model, Categorical(3), x, torch.arange(16) % 3, torch.ones(16))
    assert digest(model) == state


def test_weights_that_were_broken_before_training_are_blamed_on_where_they_came_from():
    data = ll.data.moons(num=60)
    model = ll.models.MLP(2, (4,), 1)
    with torch.no_grad():
        model.head.weight[0, 0] = float("nan")
    (finding,) = [f for f in ll.doctor.before(model, data, ll.likelihoods.Bernoulli()) if f.severity == "error"]
    assert finding.code == "non-finite-weights" and "head.weight" in finding.where
    assert "before the first step" in finding.where and "Restore the weights" in finding.remedy
