"""Critical points: they alone decide, and nothing else is asked of the others."""

import numpy as np
import pytest
import torch

import leadline as ll
from leadline.errors import ShapeError, UserError
from leadline.models import DeepSets, PointNet, SetTransformer


def cloud(points=200, seed=0):
    return torch.randn(points, 3, generator=torch.Generator().manual_seed(seed))


def test_what_does_not_decide_can_be_left_out_moved_inside_or_repeated():
    torch.manual_seed(0)
    model, x = PointNet(5, 3, width=0.25, transforms=False).double().eval(), cloud().double()
    view = ll.lens.critical_set(model, x)
    assert 0 < len(view.critical) < 200 and view.change < 1e-12
    assert view.decides.sum() == view.features == 256
    with torch.no_grad():
        whole = model(x[None])
        alone = model(x[view.critical][None])
        fewer = model(x[np.setdiff1d(np.arange(200), view.critical[:1])][None])
    torch.testing.assert_close(alone, whole)
    assert not torch.allclose(fewer, whole)  # without one that decides it is another answer


def test_of_a_known_network_they_are_known():
    """Features that are the coordinates themselves: the points farthest along each axis decide."""
    model = DeepSets(1, 3, dim=3, num_layers=1, pool="max")
    with torch.no_grad():
        model.enter.weight.copy_(torch.eye(3))
        model.enter.bias.fill_(10.0)  # so that nothing is clipped
        model.latent.weight.copy_(torch.eye(3))
    x = cloud()
    view = ll.lens.critical_set(model, x)
    assert set(view.critical.tolist()) == set(x.argmax(0).tolist()) and view.features == 3


def test_padding_is_no_point_and_a_run_has_its_own_rows():
    data = ll.data.solids(num=30, points=20)
    model = ll.models.build("PointNet", data, 10, width=0.1)
    x = data.inputs.encode(data.test.x[:1])[0]
    padded = torch.cat([x, torch.zeros(7, 4)])
    one, other = (ll.lens.critical_set(model, rows) for rows in (x, padded))
    assert np.array_equal(one.decides, other.decides) and one.points.shape == (20, 3)
    assert np.array_equal(ll.lens.critical_set(model, data).decides, one.decides)
    run = ll.fit(model, data, epochs=1, progress=False)
    view = ll.lens.critical_set(run, row=2, split="train")
    assert view.change < 1e-5 and view.to_dict()["features"] == view.features
    figure = view.plot()
    assert figure.axes[0].get_title() == "All 20 points"
    assert ll.lens.critical_set(DeepSets(2, 2, pool="max"), cloud()[:, :2]).plot().axes


def test_networks_without_a_maximum_are_refused():
    for model in (DeepSets(2, 3), SetTransformer(2, 3, dim=8)):
        with pytest.raises(UserError, match="maximum over members"):
            ll.lens.critical_set(model, cloud())
    with pytest.raises(ShapeError, match="one set"):
        ll.lens.critical_set(PointNet(2, 3, width=0.1), cloud()[None])
    with pytest.raises(UserError, match="two or three coordinates"):
        ll.lens.critical_set(DeepSets(2, 5, pool="max"), torch.randn(9, 5)).plot()
