import pytest
import torch
import torch.nn.functional as F

from leadline.data.target import Target
from leadline.errors import UserError
from leadline.likelihoods import Focal, likelihood_for
from leadline.reference import orders as twin
from leadline.testing import check_likelihood


@pytest.mark.parametrize("gamma", [0.0, 0.5, 2.0])
@pytest.mark.parametrize("classes", [2, 5])
def test_it_keeps_the_contract_and_equals_the_twin(classes, gamma):
    torch.manual_seed(0)
    likelihood, output, y = Focal(classes, gamma), 2 * torch.randn(12, classes), torch.arange(12) % classes
    check_likelihood(likelihood, output, y)
    losses = likelihood.loss(output.double(), y)
    for k in range(12):
        assert float(losses[k]) == pytest.approx(twin.focal_loss(output[k].tolist(), int(y[k]), gamma), rel=1e-6)


def test_without_gamma_it_is_cross_entropy_and_the_nll_never_changes():
    output, y = torch.randn(8, 3), torch.arange(8) % 3
    torch.testing.assert_close(Focal(3, 0.0).loss(output, y), F.cross_entropy(output, y, reduction="none"))
    assert torch.equal(Focal(3, 0.0).measures(output, y)["nll"], Focal(3, 5.0).measures(output, y)["nll"])
    assert Focal(3, 0.0).loss_is_nll
    assert not Focal(3, 2.0).loss_is_nll


def test_what_is_well_classified_counts_for_less():
    output, y = torch.tensor([[4.0, 0.0], [0.0, 4.0]]), torch.tensor([0, 0])
    share = Focal(2, 2.0).loss(output, y) / F.cross_entropy(output, y, reduction="none")
    assert float(share[0]) < 0.001
    assert float(share[1]) > 0.9


@pytest.mark.parametrize("gamma", [0.3, 2.0])
def test_certainty_has_a_finite_gradient(gamma):
    output = torch.tensor([[1e4, -1e4], [-1e4, 1e4], [90.0, 0.0]], requires_grad=True)
    loss = Focal(2, gamma).loss(output, torch.zeros(3, dtype=torch.int64))
    (gradient,) = torch.autograd.grad(loss.sum(), output)
    assert bool(loss.isfinite().all() & gradient.isfinite().all())


def test_the_rare_class_is_found_more_often():
    """Two overlapping classes, one in twenty rare: more of the rare ones are named than by cross-entropy."""
    torch.manual_seed(0)
    y = (torch.rand(8000) < 0.05).long()
    x = torch.randn(8000, 1) + 2.0 * y[:, None]
    recall = {}
    for gamma in (0.0, 4.0):
        weight = torch.zeros(2, 2, requires_grad=True)
        optimizer = torch.optim.Adam([weight], lr=0.1)
        inputs = torch.cat([x, torch.ones_like(x)], 1)
        for _ in range(300):
            optimizer.zero_grad()
            Focal(2, gamma).loss(inputs @ weight, y).mean().backward()
            optimizer.step()
        said = (inputs @ weight.detach()).softmax(-1)[:, 1]
        recall[gamma] = float((said > 0.3)[y == 1].float().mean())
    assert recall[4.0] > recall[0.0] + 0.05


def test_it_is_named_for_classes_and_refused_for_numbers():
    assert likelihood_for(Target("binary"), "focal", gamma=3.0).config == {"num_classes": 2, "gamma": 3.0}
    with pytest.raises(UserError, match="must fit the target"):
        likelihood_for(Target("real"), "Focal")
    with pytest.raises(UserError, match="gamma must be a number of at least 0"):
        Focal(2, -1.0)
