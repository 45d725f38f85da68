import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from leadline.engine.step import traced
from leadline.layers import noise

GAMMA = 0x9E3779B97F4A7C15


def signed(z):
    return (z + 2**63) % 2**64 - 2**63


def test_mix_gives_the_published_numbers_of_splitmix64():
    # the generator adds GAMMA to its state and mixes; these are its first outputs for two seeds
    published = {
        0: [0xE220A8397B1DCDAF, 0x6E789E6AA1B965F4, 0x06C45D188009454F, 0xF88BB8A8724C81EC],
        1234567: [6457827717110365317, 3203168211198807973, 9817491932198370423, 4593380528125082431],
    }
    for seed, outputs in published.items():
        states = torch.tensor([signed(seed + (k + 1) * GAMMA) for k in range(len(outputs))])
        assert [z % 2**64 for z in noise.mix(states).tolist()] == outputs


@given(st.integers(-(2**63), 2**63 - 1))
def test_mix_equals_its_twin_on_any_number(number):
    z = number % 2**64
    z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) % 2**64
    z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) % 2**64
    z ^= z >> 31
    assert noise.mix(torch.tensor([number])).item() % 2**64 == z


def test_mix_int_is_a_63_bit_number_that_depends_on_each_part_and_their_order():
    values = {noise.mix_int(a, b) for a in range(20) for b in range(20)}
    assert len(values) == 400
    assert all(0 <= value < 2**63 for value in values)
    assert noise.mix_int(0) == 0xE220A8397B1DCDAF >> 1


def test_keys_differ_between_examples_epochs_and_seeds():
    examples = torch.arange(1000)
    keys = torch.cat([noise.example_keys(seed, epoch, examples) for seed in range(3) for epoch in range(3)])
    assert len(keys.unique()) == 9000
    assert torch.equal(noise.example_keys(1, 2, examples)[[7]], noise.example_keys(1, 2, torch.tensor([7])))


@settings(max_examples=50)
@given(st.permutations(range(12)), st.integers(1, 11), st.integers(0, 50))
def test_a_row_of_noise_depends_on_its_key_and_site_alone(order, cut, site):
    keys = noise.example_keys(0, 0, torch.arange(12))
    together = noise.uniform(keys, (3, 5), site)
    order = torch.tensor(order)
    assert torch.equal(noise.uniform(keys[order], (3, 5), site), together[order])
    split = [noise.uniform(part, (3, 5), site) for part in (keys[:cut], keys[cut:])]
    assert torch.equal(torch.cat(split), together)


def test_numbers_are_uniform_in_zero_to_one():
    u = noise.uniform(noise.example_keys(0, 0, torch.arange(2000)), (100,), site=1).double()
    assert u.min() >= 0
    assert u.max() < 1
    counts = torch.histc(u, bins=20, min=0, max=1)
    assert ((counts - 10000).abs() < 5 * 10000**0.5).all()  # five deviations of a Poisson count


def test_sites_positions_examples_and_epochs_do_not_correlate():
    keys = noise.example_keys(0, 0, torch.arange(300))
    streams = torch.stack(
        [noise.uniform(keys, (200,), site).flatten() for site in (0, 1, 2, 3)]
        + [noise.uniform(noise.example_keys(0, 1, torch.arange(300)), (200,), 0).flatten()]
        + [noise.uniform(noise.example_keys(1, 0, torch.arange(300)), (200,), 0).flatten()]
        + [noise.uniform(keys, (200,), 0).roll(shift, dims).flatten() for shift, dims in ((1, 0), (1, 1))]
    )
    correlation = torch.corrcoef(streams) - torch.eye(len(streams))
    assert correlation.abs().max() < 5 / 60000**0.5


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float64])
@pytest.mark.parametrize("p_drop", [0.0, 0.1, 0.5, 0.999])
@pytest.mark.parametrize("shape", [(1,), (5,), (3, 4)])
def test_masks_by_one_operation_are_the_same(shape, p_drop, dtype):
    keys = noise.example_keys(0, 0, torch.arange(7))
    expected = noise.kept(keys, shape, p_drop, 3, dtype)
    units = noise.kept_units(keys, expected[0].numel(), 3 * noise._C % 2**63, round(p_drop * 2**16))
    assert torch.equal(units.view_as(expected) == 1, expected > 0)
    assert set(expected.unique().tolist()) <= {0.0, torch.tensor(1 / (1 - p_drop), dtype=dtype).item()}


def test_masks_by_one_operation_are_traced_and_mapped():
    keys = noise.example_keys(0, 0, torch.arange(12)).view(3, 4)
    units = lambda row: noise.kept_units(row, 5, 3, 6000)  # noqa: E731
    assert torch.equal(torch.func.vmap(units)(keys), torch.stack([units(row) for row in keys]))
    loss = lambda h, row: (h * units(row)).sum()  # noqa: E731
    graph = traced(lambda h, row: (torch.func.grad(loss)(h, row),), (torch.ones(4, 5), keys[0])).graph
    [node] = graph.find_nodes(op="call_function", target=torch.ops.leadline.kept_units.default)
    assert node.meta["val"].shape == (4, 5)
    assert torch.equal(torch.func.grad(loss)(torch.ones(4, 5), keys[0]), units(keys[0]).float())


def test_keys_hold_inside_and_are_given_back():
    keys = torch.arange(3)
    with noise.keyed(keys):
        assert noise.current.keys is keys
        with noise.keyed(None):
            assert noise.current.keys is None
        assert noise.current.keys is keys
    assert noise.current.keys is None
    try:
        with noise.keyed(keys):
            raise KeyboardInterrupt
    except KeyboardInterrupt:
        assert noise.current.keys is None
