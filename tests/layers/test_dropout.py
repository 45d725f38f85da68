import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from leadline.layers import Dropout, noise


def keys(count, epoch=0):
    return noise.example_keys(0, epoch, torch.arange(count))


def dropped(layer, h, its_keys):
    with noise.keyed(its_keys):
        return layer(h)


@settings(max_examples=50)
@given(st.permutations(range(10)), st.integers(1, 9), st.floats(0.05, 0.95), st.integers(0, 9))
def test_a_mask_does_not_depend_on_batch_mates_order_or_splitting(order, cut, p_drop, site):
    layer, h, its_keys = Dropout(p_drop, site), torch.ones(10, 4, 6), keys(10)
    together = dropped(layer, h, its_keys)
    order = torch.tensor(order)
    assert torch.equal(dropped(layer, h[order], its_keys[order]), together[order])
    parts = [dropped(layer, h[:cut], its_keys[:cut]), dropped(layer, h[cut:], its_keys[cut:])]
    assert torch.equal(torch.cat(parts), together)


@pytest.mark.parametrize("p_drop", [0.1, 0.5, 0.9])
def test_units_are_kept_at_the_rate_promised_and_scaled_to_the_same_mean(p_drop):
    out = dropped(Dropout(p_drop, site=3), torch.ones(1000, 100), keys(1000))
    kept = (out != 0).float()
    assert kept.mean() == pytest.approx(1 - p_drop, abs=5 * (p_drop * (1 - p_drop) / 1e5) ** 0.5)
    assert out[out != 0].unique().tolist() == pytest.approx([1 / (1 - p_drop)])


def test_layers_and_epochs_drop_other_units():
    h = torch.ones(400, 100)
    masks = [dropped(Dropout(0.5, site), h, keys(400, epoch)) != 0 for site, epoch in ((1, 0), (2, 0), (1, 1), (2, 1))]
    correlation = torch.corrcoef(torch.stack(masks).flatten(1).float()) - torch.eye(4)
    assert correlation.abs().max() < 5 / 40000**0.5


def test_the_gradient_passes_where_units_pass():
    h = torch.randn(5, 7, requires_grad=True)
    out = dropped(Dropout(0.4, site=1), h, keys(5))
    out.sum().backward()
    assert torch.equal(h.grad, (out != 0).float() / (1 - 0.4))


def test_without_keys_it_is_torch_s_dropout():
    layer, h = Dropout(0.3), torch.ones(50, 50)
    torch.manual_seed(0)
    ours = layer(h)
    torch.manual_seed(0)
    assert torch.equal(ours, torch.nn.Dropout(0.3)(h))


def test_evaluation_and_zero_rate_change_nothing():
    h = torch.randn(4, 3)
    assert dropped(Dropout(0.5).eval(), h, keys(4)) is h
    assert dropped(Dropout(0.0), h, keys(4)) is h


def test_it_keeps_the_type_of_its_input():
    for dtype in (torch.float64, torch.bfloat16):
        assert dropped(Dropout(0.5), torch.ones(4, 3, dtype=dtype), keys(4)).dtype == dtype
