"""What the first machines can learn, and what they cannot."""

import pytest
import torch

import leadline as ll
from leadline.data.data import Batch
from leadline.likelihoods import Bernoulli
from leadline.models import DenseMemory, Hopfield, Perceptron, circuit_of, separate
from leadline.optim import Hebb, PerceptronRule


@pytest.mark.parametrize("seed", range(3))
def test_a_perceptron_separates_what_is_separable(seed):
    data = ll.data.separable(num=300, margin=0.05, seed=seed)
    rule = PerceptronRule(separate(data.train.x, data.train.y))
    run = ll.fit(Perceptron(2), data, rule=rule, epochs=200, seed=seed, progress=False)
    assert run.evaluate("train")["accuracy"] == 1.0 and run.evaluate("test")["accuracy"] > 0.95
    assert 0 < rule.updates <= rule.bound


def test_a_perceptron_never_ends_on_exclusive_or_and_a_circuit_computes_it():
    data = ll.data.xor(num=4, noise=0.0, val=0.0, test=0.0)
    rule = PerceptronRule(separate(data.train.x, data.train.y))
    run = ll.fit(Perceptron(2), data, rule=rule, epochs=100, progress=False)
    assert run.evaluate("train")["accuracy"] < 1.0 and rule.updates > 100
    assert "no plane separates the classes" in rule.verdict()
    circuit = circuit_of("0110")
    assert torch.equal(circuit(data.train.x).flatten().long(), data.train.y)


def test_a_perceptron_ends_where_noise_lets_it():
    x = torch.tensor([[0.0, 0.0], [0.0, 1.0], [1.0, 0.0], [1.0, 1.0]])
    for labels in ((0, 0, 0, 1), (0, 1, 1, 1), (1, 1, 1, 0)):
        rule, model = PerceptronRule(), Perceptron(2)
        rule.steps_per_epoch = 1
        rule.bind(model, Bernoulli(), 1)
        y = torch.tensor(labels)
        for epoch in range(50):
            rule.step(Batch(x, y), epoch)
            if rule.finished:
                break
        assert rule.finished and torch.equal((model(x).flatten() > 0).long(), y)


def test_digits_are_recalled_from_damaged_ones():
    digits = ll.data.load("digits").train
    y = torch.where(digits.x[[int((digits.y == digit).nonzero()[0]) for digit in range(10)]] > 7.5, 1.0, -1.0)
    order = torch.rand(10, 64, generator=torch.Generator().manual_seed(0)).argsort(1)
    noisy = torch.where(order < 7, -y, y)
    dense, hebb = DenseMemory(64, num_patterns=10, power=6), Hopfield(64)
    right = {}
    for memory in (dense, hebb):
        memory.store(y)
        right[memory] = float((memory.recall(noisy).state == y).all(1).float().mean())
    assert right[dense] == 1.0 and right[hebb] <= 0.2  # ten digits are too much alike for Hebb's rule


def test_a_memory_that_is_too_full_forgets_everything():
    for count, recalled in ((10, 1.0), (60, 0.0)):
        data = ll.data.patterns(count, 200, corrupted=0.05)
        run = ll.fit(Hopfield(200), data, rule=Hebb(), epochs=1, progress=False)
        assert run.evaluate("test")["recalled"] == pytest.approx(recalled, abs=0.02)


def test_gradients_make_room_that_hebb_does_not_find():
    """Pseudo-likelihood by gradient descent stores patterns at a load where Hebb's rule has broken down."""
    data = ll.data.patterns(40, 100, corrupted=0.02)
    hebb = ll.fit(Hopfield(100), data, rule=Hebb(), epochs=1, progress=False)
    model = Hopfield(100)
    learned = ll.fit(model, data, epochs=60, optimizer="adamw", lr=1.0, weight_decay=0.0, progress=False)
    assert hebb.evaluate("train")["recalled"] < 0.3 < 0.9 < learned.evaluate("train")["recalled"]
    assert torch.equal(model.weight, model.weight.T) and not bool(model.weight.diagonal().any())
