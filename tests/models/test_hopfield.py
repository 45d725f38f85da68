"""Associative memories: energy, updates, cross-talk and capacity, beside their twins."""

import pytest
import torch
import torch.nn.functional as F

from leadline.errors import DataError, ShapeError, UserError
from leadline.layers.signs import signs
from leadline.models import (
    DenseMemory,
    Hopfield,
    ModernHopfield,
    capacity,
    capacity_without_errors,
    crosstalk,
    flip_probability,
)
from leadline.reference import first_machines as twin


def random_signs(*shape, seed=0):
    return torch.randint(2, shape, generator=torch.Generator().manual_seed(seed)).float() * 2 - 1


def flipped(patterns, count, seed=1):
    order = torch.rand(patterns.shape, generator=torch.Generator().manual_seed(seed)).argsort(1)
    return torch.where(order < count, -patterns, patterns)


def net_of(patterns, **options):
    net = Hopfield(patterns.shape[1], **options)
    net.store(patterns)
    return net


def random_net(n, seed=0, **options):
    generator = torch.Generator().manual_seed(seed)
    W = torch.randn(n, n, generator=generator)
    W = (W + W.T).fill_diagonal_(0)
    return Hopfield.of(W, torch.randn(n, generator=generator), **options)


# ── Hebb's network ──


@pytest.mark.parametrize(("count", "n"), [(1, 3), (4, 7), (5, 12)])
def test_couplings_energy_and_fields_equal_their_twins(count, n):
    patterns = random_signs(count, n)
    net = net_of(patterns)
    whole = twin.hebb_couplings(patterns.int().tolist())
    assert net.weight.tolist() == whole
    torch.testing.assert_close(net.coupling, torch.tensor(whole) / n)
    net.bias.data.copy_(torch.randn(n))
    states = random_signs(6, n, seed=2)
    bias = net.bias.tolist()
    energy = [twin.hopfield_energy(whole, bias, row) for row in states.int().tolist()]
    assert net.energy(states).tolist() == pytest.approx(energy, rel=1e-5, abs=1e-5)
    field = [[twin.hopfield_field(whole, bias, row, i) for i in range(n)] for row in states.int().tolist()]
    torch.testing.assert_close(net.field(states), torch.tensor(field))


@pytest.mark.parametrize("n", [5, 64, 150])  # below, at and across the block of units
def test_one_unit_at_a_time_equals_its_twin(n):
    patterns = random_signs(max(2, n // 5), n)
    net = net_of(patterns, max_sweeps=1, order_seed=3)
    order = torch.randperm(n, generator=torch.Generator().manual_seed(3)).tolist()
    states = random_signs(9, n, seed=2)
    whole = twin.hebb_couplings(patterns.int().tolist())
    swept = [twin.hopfield_sweep(whole, [0.0] * n, row, order) for row in states.int().tolist()]
    found = net.recall(states)
    assert found.state.int().tolist() == swept  # ties included: Hebb's counts are whole
    assert not bool(found.settled.all()) and found.sweeps == 1


@torch.no_grad()
def test_energy_never_rises_one_unit_at_a_time():
    for seed in range(5):
        net = random_net(40, seed)
        found = net.recall(random_signs(50, 40, seed=seed), trace=True)
        assert bool((found.energies.diff(dim=0) <= 1e-4).all())
        assert bool(found.settled.all()) and not bool(found.cycle.any())
        assert torch.equal(signs(net.field(found.state)), found.state), "a settled state is a fixed point"
        torch.testing.assert_close(found.field, net.field(found.state), rtol=1e-4, atol=1e-4)


@torch.no_grad()
def test_energy_falls_by_twice_the_field_when_a_unit_flips():
    net, s = random_net(10), random_signs(1, 10)
    for i in range(10):
        turned = s.clone()
        turned[0, i] = -s[0, i]
        fall = net.energy(s) - net.energy(turned)
        assert fall.item() == pytest.approx(float(-2 * s[0, i] * net.field(s)[0, i]), rel=1e-3, abs=1e-4)


def test_all_at_once_may_cycle_and_is_told_so():
    net = Hopfield.of(torch.tensor([[0.0, -1.0], [-1.0, 0.0]]))
    found = net.recall(torch.tensor([[1.0, 1.0], [1.0, -1.0]]), "synchronous")
    assert found.cycle.tolist() == [True, False] and found.settled.tolist() == [False, True]
    assert found.sweeps == 2  # no longer than it takes to see it
    assert net.recall(torch.tensor([[1.0, 1.0]]), "asynchronous").settled.tolist() == [True]
    cycles = 0
    for seed in range(10):  # symmetric couplings allow no longer cycle than two
        found = random_net(12, seed, max_sweeps=500).recall(random_signs(40, 12, seed=seed), "synchronous")
        assert bool((found.settled ^ found.cycle).all())
        cycles += int(found.cycle.sum())
    assert cycles > 0


def test_a_batch_is_its_rows():
    patterns = random_signs(20, 100)
    net, noisy = net_of(patterns), flipped(patterns, 15)
    for mode in ("asynchronous", "synchronous"):
        together = net.recall(noisy, mode)
        alone = torch.cat([net.recall(row[None], mode).state for row in noisy])
        assert torch.equal(together.state, alone)


def test_damaged_patterns_are_found_again():
    patterns = random_signs(20, 400)
    net = net_of(patterns)
    for mode in ("asynchronous", "synchronous"):
        assert torch.equal(net.recall(flipped(patterns, 80), mode).state, patterns)
    other = net_of(patterns, order_seed=1)
    assert torch.equal(other.recall(flipped(patterns, 80)).state, patterns)
    with torch.no_grad():
        assert torch.equal(signs(net.eval()(flipped(patterns, 80))), patterns)


@pytest.mark.parametrize("training", [True, False])
def test_forward_has_the_gradient_of_its_field(training):
    net, x = net_of(random_signs(3, 8)).double().train(training), random_signs(5, 8, seed=4).double()
    s = x if training else net.recall(x).state
    assert training or not torch.equal(s, x)
    target = torch.randn(5, 8, dtype=torch.float64)
    (net(x) * target).sum().backward()
    wanted = target.T @ s / 8
    wanted = ((wanted + wanted.T) / 2).fill_diagonal_(0)
    torch.testing.assert_close(net.weight.grad, wanted)
    assert torch.equal(net.weight.grad, net.weight.grad.T), "so that an optimizer keeps W symmetric"
    with torch.no_grad():
        torch.testing.assert_close(net(x), net.field(s))


def test_crosstalk_equals_its_twin_and_decides_stability():
    patterns = random_signs(6, 20)
    found = crosstalk(patterns)
    for t in range(6):
        for i in range(20):
            assert found[t, i].item() == pytest.approx(twin.crosstalk(patterns.int().tolist(), t, i), abs=1e-12)
    field = net_of(patterns).field(patterns).double()
    torch.testing.assert_close(field, patterns * 19 / 20 + found, rtol=1e-5, atol=1e-6)


def test_crosstalk_is_about_normal_with_variance_s_over_n():
    values = crosstalk(random_signs(100, 1000))
    assert float(values.mean()) == pytest.approx(0.0, abs=0.01)
    assert float(values.var()) == pytest.approx(0.1, rel=0.05)


def test_flips_lie_on_the_error_function_and_memory_breaks_down():
    assert [round(flip_probability(load), 5) for load in (0.1, 0.138, 0.2)] == [0.00078, 0.00355, 0.01267]
    below, above = capacity(1000, [0.1, 0.2], seed=0)
    assert below.flips == pytest.approx(below.predicted, abs=4e-4)
    assert above.flips == pytest.approx(above.predicted, abs=2e-3)
    assert below.overlap > 0.98 and above.overlap < 0.6
    assert below.recalled > above.recalled == 0.0
    few = round(capacity_without_errors(1000) / 2)
    assert capacity(1000, [few / 1000])[0].recalled == 1.0
    assert set(below.to_dict()) == {"load", "patterns", "flips", "predicted", "overlap", "recalled"}


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: Hopfield.of(torch.zeros(2, 3)), "square matrix"),
        (lambda: Hopfield.of(torch.tensor([[0.0, 1.0], [2.0, 0.0]])), "symmetric"),
        (lambda: Hopfield.of(torch.eye(2)), "coupled to itself"),
        (lambda: Hopfield.of(torch.zeros(2, 2), torch.zeros(3)), "one number a unit"),
        (lambda: Hopfield(3, 4), "unit by unit"),
        (lambda: Hopfield(0), "dim_input must be"),
        (lambda: Hopfield(3, mode="sinchronous"), "Did you mean synchronous"),
        (lambda: Hopfield(2).store(torch.tensor([[0.0, 1.0]])), "Got 0 and 1. Pass 2 \\* patterns - 1"),
        (lambda: Hopfield(2).store(torch.tensor([[True, True]])), "Got 0 and 1"),
        (lambda: Hopfield(2).store(torch.tensor([[0.5, 1.0]])), "0.5 in row 0"),
        (lambda: Hopfield(2).store(torch.ones(1, 3)), "rows of 2 values"),
        (lambda: Hopfield(2).store(torch.ones(0, 2)), "rows of 2 values"),
        (lambda: Hopfield(2).recall(torch.ones(2)), "rows of 2 values"),
        (lambda: Hopfield(2)(torch.tensor([[0.0, 1.0]])), "rows must be -1 and \\+1"),
        (lambda: capacity(10, []), "needs a load"),
        (lambda: flip_probability(0.0), "load must be"),
        (lambda: DenseMemory(3, 4), "unit by unit"),
        (lambda: DenseMemory(3, growth="cubic"), "growth must be a known name"),
        (lambda: DenseMemory(3, power=1), "power must be"),
        (lambda: DenseMemory(2, num_patterns=1).store(torch.ones(2, 2)), "room for what is stored.*num_patterns=2"),
        (lambda: ModernHopfield(2, 2, num_patterns=1).store(torch.ones(2, 2)), "room for what is stored"),
        (lambda: ModernHopfield(2, 2).store(torch.ones(2, 3)), "keys must be rows of 2"),
        (lambda: ModernHopfield(2, 3).store(torch.ones(2, 2)), "values must be rows of 3"),
        (lambda: ModernHopfield(2, 2, beta=0.0), "beta must be"),
    ],
)
def test_bad_arguments_are_explained(call, words):
    with pytest.raises(UserError, match=words):
        call()


def test_kinds_of_errors():
    with pytest.raises(ShapeError):
        Hopfield(3).store(torch.ones(1, 4))
    with pytest.raises(DataError):
        Hopfield(3).store(torch.zeros(1, 3))


# ── dense memories ──


@pytest.mark.parametrize("power", [2, 3, 5])
def test_dense_fields_equal_their_twin(power):
    patterns, states = random_signs(5, 9), random_signs(4, 9, seed=2)
    memory = DenseMemory(9, num_patterns=5, power=power).double()
    memory.store(patterns)
    wanted = [
        [twin.dense_field(patterns.int().tolist(), row, i, power) for i in range(9)] for row in states.int().tolist()
    ]
    torch.testing.assert_close(memory.field(states.double()), torch.tensor(wanted, dtype=torch.float64))


def test_a_dense_memory_of_power_two_is_hebbs_network():
    patterns, states = random_signs(5, 30), random_signs(8, 30, seed=2)
    memory, net = DenseMemory(30, num_patterns=9, power=2), net_of(patterns)
    memory.store(patterns)
    torch.testing.assert_close(memory.field(states), net.field(states))
    torch.testing.assert_close(memory.energy(states) - net.energy(states), torch.full((8,), -2.5))  # the diagonal


@pytest.mark.parametrize("options", [{"power": 3}, {"power": 4}, {"growth": "exponential"}])
def test_dense_energy_never_rises_and_fields_are_its_differences(options):
    memory = DenseMemory(20, num_patterns=30, **options).double()
    memory.store(random_signs(30, 20))
    s = random_signs(20, 20, seed=2).double()
    for i in range(20):
        up, down = s.clone(), s.clone()
        up[:, i], down[:, i] = 1, -1
        half = (memory.energy(down) - memory.energy(up)) / 2
        torch.testing.assert_close(memory.field(s)[:, i], half)
    found = memory.recall(s, trace=True)
    assert bool((found.energies.diff(dim=0) <= 1e-9).all()) and bool(found.settled.all())
    torch.testing.assert_close(found.field, memory.field(found.state))


@pytest.mark.parametrize("mode", ["asynchronous", "synchronous"])
@pytest.mark.parametrize("options", [{"power": 4}, {"growth": "exponential"}])
def test_dense_memories_hold_more_than_hebbs(mode, options):
    patterns = random_signs(150, 100)  # more memories than units
    noisy = flipped(patterns, 10)
    memory = DenseMemory(100, num_patterns=150, mode=mode, **options)
    memory.store(patterns)
    share = float((memory.recall(noisy).state == patterns).all(1).float().mean())
    hebb = float((net_of(patterns).recall(noisy).state == patterns).all(1).float().mean())
    assert share > 0.95 and hebb == 0.0


def test_a_dense_field_stays_finite_for_many_units():
    memory = DenseMemory(4000, num_patterns=3, growth="exponential")
    memory.store(random_signs(3, 4000))
    assert bool(memory.eval()(memory.memories.detach()).isfinite().all())


# ── the continuous network ──


def test_one_modern_update_is_one_step_of_attention():
    torch.manual_seed(0)
    net = ModernHopfield(16, 5, num_patterns=12).double()
    x = torch.randn(7, 16, dtype=torch.float64)
    usual = F.scaled_dot_product_attention(x[None], net.keys[None], net.values[None])[0]
    torch.testing.assert_close(net(x), usual)  # β = 1 / √n
    net = ModernHopfield(16, 5, num_patterns=12, beta=2.0).double()
    wanted = F.scaled_dot_product_attention(x[None], net.keys[None], net.values[None], scale=2.0)[0]
    torch.testing.assert_close(net(x), wanted)


def test_modern_updates_equal_their_twin_and_lower_the_energy():
    torch.manual_seed(0)
    net = ModernHopfield(6, 6, num_patterns=10, beta=0.7, num_updates=3).double()
    keys = torch.randn(4, 6, dtype=torch.float64)
    net.store(keys)
    state = torch.randn(5, 6, dtype=torch.float64)
    wanted = [twin.continuous_update(keys.tolist(), row, 0.7) for row in state.tolist()]
    torch.testing.assert_close(net.update(state), torch.tensor(wanted, dtype=torch.float64))
    three = state
    for _ in range(3):
        new = net.update(three)
        assert bool((net.energy(new) <= net.energy(three) + 1e-12).all())
        three = new
    torch.testing.assert_close(net(state), three)


def test_a_modern_network_recalls_in_one_update_what_hebb_cannot():
    patterns = random_signs(300, 64)
    net = ModernHopfield(64, 64, num_patterns=300, beta=1.0)
    net.store(patterns)
    noisy = flipped(patterns, 6)
    with torch.no_grad():
        assert float((signs(net(noisy)) == patterns).all(1).float().mean()) > 0.95


def test_memories_can_be_stored_in_parts():
    patterns = random_signs(6, 10)
    for memory in (Hopfield(10), DenseMemory(10, num_patterns=6), ModernHopfield(10, 10, num_patterns=6)):
        memory.store(patterns[:2])
        memory.store(patterns[2:])
        whole = type(memory)(**memory.config)
        whole.store(patterns)
        x = random_signs(4, 10, seed=5)
        assert torch.equal(memory.eval()(x), whole.eval()(x))
