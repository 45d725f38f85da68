"""What networks of sets learn, a sum, a count, the largest, and what they cannot: an order."""

import pytest
import torch

import leadline as ll


def drawn(num, seed=0, least=2, most=8):
    """Sets of digits 0 … 9 as one-hot rows, of different sizes."""
    stream = torch.Generator().manual_seed(seed)
    sizes = torch.randint(least, most + 1, (num,), generator=stream).tolist()
    digits = [torch.randint(10, (size,), generator=stream) for size in sizes]
    return [torch.eye(10)[own].numpy() for own in digits], digits


def fitted(asked, model="DeepSets", epochs=30, **options):
    x, digits = drawn(1200)
    data = ll.data.sets(x, [asked(own) for own in digits], kind="real")
    net = ll.models.build(model, data, 1, dim=32, **options)
    return ll.fit(
        net, data, epochs=epochs, batch=32, lr=3e-3, progress=False, threads=1, findings=[], with_report=False
    )


@pytest.mark.parametrize(
    ("asked", "options"),
    [
        (lambda own: float(own.sum()), {"norm": False}),
        (lambda own: float(len(own)), {"norm": False}),
        (lambda own: float(own.max()), {"pool": "max"}),
    ],
    ids=["sum", "count", "largest"],
)
def test_deep_sets_learn_what_has_no_order(asked, options):
    assert fitted(asked, **options).evaluate("test")["r2"] > 0.97


def test_a_sum_of_digits_reaches_sets_larger_than_any_in_training():
    run = fitted(lambda own: float(own.sum()), norm=False)
    x, digits = drawn(100, seed=5, least=16, most=16)
    said = run.predict(x).mean.flatten()
    asked = torch.tensor([float(own.sum()) for own in digits])
    assert float((said - asked).abs().mean()) < 0.1 * float(asked.mean())


def test_a_mean_cannot_count():
    """Sets of one digit, many times: a mean, or a maximum, is the same for all of them."""
    x = [torch.ones(2 + k % 7, 1).numpy() for k in range(140)]
    data = ll.data.sets(x, [float(len(own)) for own in x], kind="real")
    for pool in ("mean", "max"):
        net = ll.models.build("DeepSets", data, 1, pool=pool)
        out = net(data.inputs.encode(data.train.x))
        torch.testing.assert_close(out, out[:1].expand_as(out))


def test_an_order_is_not_seen_unless_it_is_told():
    """First digit above the last? Half of all answers are right by chance; with a place at each digit it is learned."""
    stream = torch.Generator().manual_seed(0)
    values = torch.rand(800, 2, 1, generator=stream)
    y = ["up" if a < b else "down" for a, b in values[..., 0].tolist()]
    places = torch.arange(2.0).expand(800, 2)[..., None]
    right = []
    for x in (values, torch.cat([values, places], 2)):
        data = ll.data.sets(list(x.numpy()), y)
        net = ll.models.build("DeepSets", data, 1, dim=32, norm=False)
        run = ll.fit(net, data, epochs=15, lr=1e-2, progress=False, threads=1, findings=[], with_report=False)
        right.append(run.evaluate("test")["accuracy"])
        swapped = [row[::-1].copy() for row in x.numpy()]
        same = torch.allclose(run.predict(swapped).mean, run.predict(list(x.numpy())).mean, atol=1e-5)
        assert same  # whatever it has learned, the order of the rows is nothing to it
    assert right[0] < 0.65 and right[1] > 0.93
