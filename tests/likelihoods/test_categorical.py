import pytest
import torch

from leadline.data.target import Target
from leadline.errors import ShapeError, UserError
from leadline.likelihoods import Categorical
from leadline.likelihoods.classes import among


def test_it_has_one_output_for_each_class_of_the_target():
    assert Categorical.for_target(Target("classes", classes=("a", "b", "c"))).dim_output == 3


def test_classes_have_no_interval_and_the_message_says_what_to_ask():
    with pytest.raises(UserError, match=r"Use credible_set\(0.8\)"):
        Categorical(3).prediction(torch.zeros(2, 3)).interval(0.8)


def test_the_credible_set_is_the_fewest_classes():
    prediction = Categorical(3).prediction(torch.tensor([[0.7, 0.2, 0.1]]).log())
    assert prediction.credible_set(0.6).tolist() == [[True, False, False]]
    assert prediction.credible_set(0.8).tolist() == [[True, True, False]]
    assert prediction.credible_set(0.95).tolist() == [[True, True, True]]


def test_mode_mean_and_deviation():
    p = torch.tensor([[0.7, 0.2, 0.1]])
    prediction = Categorical(3).prediction(p.log())
    assert prediction.mode.tolist() == [0]
    torch.testing.assert_close(prediction.mean, p)
    torch.testing.assert_close(prediction.std, (p * (1 - p)).sqrt())
    assert len(prediction) == 1


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ((1,), "num_classes must be a whole number of at least 2"),
        ((3, 1.0), "label_smoothing must be a number of at least 0 and below 1"),
        ((3, -0.1), "-0.1"),
    ],
)
def test_options_that_make_no_sense_are_refused(options, message):
    with pytest.raises(UserError, match=message):
        Categorical(*options)


def test_the_k_best_classes():
    torch.manual_seed(0)
    output, y = torch.randn(50, 30), torch.arange(50) % 30
    codes, p = Categorical(30).prediction(output).top(5)
    assert torch.equal(codes, output.topk(5).indices)
    torch.testing.assert_close(p, output.softmax(-1).topk(5).values)
    wanted = (codes == y[:, None]).any(-1)
    assert torch.equal(among(output, y, 5), wanted) and 0 < int(wanted.sum()) < 50
    assert torch.equal(Categorical(30).measures(output, y)["top5"], wanted.float())
    with pytest.raises(UserError, match="k must be a whole number from 1 to 30"):
        Categorical(30).prediction(output).top(31)


def test_top5_is_measured_where_there_are_many_classes_and_equal_outputs_earn_no_more_than_their_share():
    assert "top5" not in Categorical(19).measures(torch.zeros(2, 19), torch.tensor([0, 1]))
    assert Categorical(20).measures(torch.zeros(20, 20), torch.arange(20))["top5"].sum() == 5


@pytest.mark.parametrize(
    ("shape", "remedy"),
    [
        ((4, 2), "dim_output=3"),
        ((4,), "dim_output=3"),
        ((4, 3, 1, 1), "flatten"),
        ((4, 3, 9, 9), "each place.*whole pictures, such as ConvNet"),
        ((4, 3, 9), "each place.*whole series, such as ConvNet1D"),
    ],
)
def test_an_output_that_does_not_fit_gets_a_remedy_that_helps(shape, remedy):
    with pytest.raises(ShapeError, match=remedy) as told:
        Categorical(3).check_output(torch.zeros(shape), torch.zeros(4).long())
    assert ("dim_output" in str(told.value)) is (len(shape) < 3)
