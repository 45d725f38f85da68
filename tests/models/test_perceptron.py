"""The perceptron as a model, and what can be said of two classes before it learns."""

import importlib.util
import itertools

import pytest
import torch

import leadline as ll
from leadline.errors import DataError, ShapeError, UserError
from leadline.models import (
    Perceptron,
    count_dichotomies,
    cover,
    estimate_share,
    novikoff,
    separable,
    separate,
    share_separable,
    version_space,
)
from leadline.reference import first_machines as twin

BITS = torch.tensor([[0.0, 0.0], [0.0, 1.0], [1.0, 0.0], [1.0, 1.0]])


def test_the_answer_is_the_sign_of_an_affine_map():
    model = Perceptron(2)
    with torch.no_grad():
        model.weight.copy_(torch.tensor([[3.0, 4.0]]))
        model.bias.fill_(-5.0)
    x = torch.tensor([[3.0, 4.0], [0.0, 0.0], [1.0, 0.5]])
    assert model(x).flatten().tolist() == [20.0, -5.0, 0.0]
    assert model.decide(x).flatten().tolist() == [1.0, -1.0, 0.0]  # on the plane there is no answer
    assert model.margins(x, torch.tensor([1, 1, -1])).flatten().tolist() == [4.0, -1.0, 0.0]
    assert Perceptron(2, bias=False).config == {"dim_input": 2, "dim_output": 1, "bias": False}


def test_the_widest_plane_of_known_points():
    x, y = torch.tensor([[2.0, 1.0], [2.0, -1.0], [-2.0, 1.0], [-2.0, -1.0]]), torch.tensor([1, 1, -1, -1])
    found = separate(x, y, bias=False)
    assert found.separable and found.margin == pytest.approx(2.0, rel=1e-4)
    assert found.w.tolist() == pytest.approx([1.0, 0.0], abs=1e-3)
    assert found.radius == pytest.approx(5**0.5) and found.bound == 1
    assert "at most 1 mistakes" in str(found)


def test_the_widest_plane_beats_any_other():
    torch.manual_seed(0)
    data = ll.data.separable(num=100, margin=0.1).train
    found = separate(data.x, data.y, bias=False)
    angle = torch.linspace(0, 2 * torch.pi, 20001, dtype=torch.float64)
    every = torch.stack([angle.cos(), angle.sin()], 1)
    signed = (2 * data.y.double() - 1)[:, None] * data.x.double()
    best = float((every @ signed.T).amin(1).max())
    assert 0.1 <= best <= found.margin * (1 + 2e-4) and found.margin <= best * (1 + 1e-3)


def test_exclusive_or_cannot_be_parted_and_the_rest_can():
    wrong = {(0, 1, 1, 0), (1, 0, 0, 1)}
    for labels in itertools.product((0, 1), repeat=4):
        found = separate(BITS, torch.tensor(labels))
        assert found.separable is (labels not in wrong)
        assert separable(BITS, torch.tensor(labels)) is (labels not in wrong)
        if found.separable:
            side = torch.tensor(labels) * 2 - 1
            assert bool((side * (BITS.double() @ found.w + found.b) > 0).all())
        else:
            assert found.bound is None and str(found) == "no plane separates the classes"


def test_without_a_solver_nothing_is_claimed_that_was_not_found(monkeypatch):
    real = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name == "scipy" else real(name))
    assert separate(BITS, torch.tensor([0, 0, 0, 1])).separable is True
    found = separate(BITS, torch.tensor([0, 1, 1, 0]))
    assert found.separable is None and "not decided" in str(found) and found.bound is None
    with pytest.raises(UserError, match="Install scipy"):
        count_dichotomies(BITS)


def test_novikoff_counts_down():
    assert novikoff(1.0, 0.1) == 100 and novikoff(1.0, 0.3) == 11 and novikoff(2.0, 2.0) == 1
    for radius, margin in ((1.0, 0.0), (1.0, 2.0), (1.0, -1.0)):
        with pytest.raises(DataError, match="margin must be above 0"):
            novikoff(radius, margin)


def test_the_version_space_shrinks_and_empties():
    torch.manual_seed(0)
    data = ll.data.separable(num=60, margin=0.05).train
    shares = [version_space(data.x[:k], data.y[:k], bias=False, num=4000).share for k in (1, 5, 40)]
    assert shares[0] == pytest.approx(0.5, abs=0.03) and shares[0] > shares[1] > shares[2] > 0
    space = version_space(data.x, data.y, bias=False, num=4000)
    side = 2 * data.y.double() - 1
    assert bool((side * (data.x.double() @ space.centre) > 0).all()), "the centre of a convex cone lies in it"
    none = version_space(BITS, torch.tensor([0, 1, 1, 0]), num=4000)
    assert none.count == 0 and none.centre is None and 0 < none.most < 2e-3


def test_covers_count_is_its_recursion():
    for points in range(1, 12):
        for dims in range(1, 8):
            assert cover(points, dims) == twin.cover_count(points, dims)
    assert cover(1000, 500) == 2**999  # exact however large
    for dims in (1, 5, 50):
        assert share_separable(2 * dims, dims) == 0.5
    assert share_separable(60, 20) == pytest.approx(0.0043, abs=5e-5)


def test_covers_count_is_that_of_real_points():
    torch.manual_seed(0)
    for points, dims in ((4, 2), (5, 3), (6, 3)):
        assert count_dichotomies(torch.randn(points, dims)) == cover(points, dims)
    assert count_dichotomies(BITS, bias=True) == 14
    assert cover(4, 3) == 14


def test_covers_share_by_trial():
    assert estimate_share(12, 6, trials=150) == pytest.approx(0.5, abs=0.13)
    assert estimate_share(24, 6, trials=60) < 0.1


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: cover(0, 2), "points must be a whole number of at least 1"),
        (lambda: cover(3, 0), "dims must be"),
        (lambda: separate(torch.zeros(3, 2), torch.zeros(2)), "one label for each"),
        (lambda: separate(torch.zeros(0, 2), torch.zeros(0)), "one label for each"),
        (lambda: separate(torch.zeros(3, 2), torch.tensor([0, 1, 2])), "labels must be 0 and 1"),
        (lambda: version_space(torch.zeros(3, 2), torch.zeros(3), num=0), "num must be"),
        (lambda: count_dichotomies(torch.zeros(30, 2)), "1 to 16 points"),
        (lambda: Perceptron(0), "dim_input must be"),
    ],
)
def test_bad_arguments_are_explained(call, words):
    with pytest.raises(UserError, match=words):
        call()


def test_a_wrong_shape_is_a_shape_error():
    with pytest.raises(ShapeError):
        separate(torch.zeros(3), torch.zeros(3))
