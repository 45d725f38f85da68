import numpy as np
import pytest

from leadline.doctor.spikes import Spikes


def feed(losses, parts=1):
    spikes, step, found = Spikes(), 0, []
    for part in np.array_split(np.asarray(losses, float), parts):
        step += len(part)
        found += spikes.feed(part.tolist(), step)
    return found + spikes.end()


def noise(n, seed=0, scale=0.1):
    return 1 + scale * np.random.default_rng(seed).standard_normal(n)


def test_a_spike_is_named_by_step_height_and_length():
    losses = noise(300)
    losses[200:206] = 9.0, 12.0, 8.0, 5.0, 3.0, 2.0
    (finding,) = feed(losses)
    assert finding.code == "loss-spike" and finding.where == "step 201"
    assert "to 12, back after 6 steps" in finding.evidence


@pytest.mark.parametrize("parts", [1, 3, 10, 60])
def test_epochs_cut_the_line_but_not_the_findings(parts):
    losses = noise(300)
    losses[100:104], losses[200:] = 8.0, 30.0
    assert feed(losses, parts) == feed(losses)
    assert [f.code for f in feed(losses, parts)] == ["loss-spike", "loss-jump"]


def test_a_jump_below_zero_counts_too():
    losses = noise(200) - 4  # densities have losses below 0
    losses[150:160] = 6.0
    assert [f.code for f in feed(losses)] == ["loss-spike"]


@pytest.mark.parametrize("seed", range(5))
def test_long_tails_single_odd_batches_and_falling_losses_are_no_spikes(seed):
    rng = np.random.default_rng(seed)
    tails = rng.lognormal(0, 1, 3000)
    odd = noise(1000, seed)
    odd[::50] = 30.0  # the last batch of each epoch holds one odd row
    falling = 5 * np.exp(-np.arange(500) / 100) + 0.05 * rng.standard_normal(500)
    assert feed(tails) + feed(odd) + feed(falling) == []


def test_values_that_are_not_finite_are_left_to_others():
    assert Spikes().feed([1.0, float("nan")], 2) == []
