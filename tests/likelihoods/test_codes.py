import pytest
import torch

from leadline.errors import DataError, ShapeError
from leadline.likelihoods.codes import check_codes


@pytest.mark.parametrize(
    ("y", "num_classes", "error", "message"),
    [
        (torch.zeros(3, 1).long(), 3, ShapeError, r"Got y of shape \(3, 1\). Pass y.squeeze\(1\)"),
        (torch.eye(3).long(), 3, ShapeError, r"not one-hot rows: y.argmax\(1\)"),
        (torch.tensor([0.0, 0.5]), 2, DataError, "whole numbers. Got y of type torch.float32. Use a real target"),
        (torch.tensor([0.0, 1.0]), 3, DataError, r"int64. Got y of type torch.float32. Pass y.long\(\)"),
        (torch.tensor([0, 3, 3]), 3, DataError, r"0 … 2. Got 2 outside, the first 3 in row 1"),
        (torch.tensor([0, 1, -1]), 2, DataError, r"0 … 1. Got 1 outside, the first -1 in row 2"),
        (torch.tensor([0.0, float("nan")]), 2, DataError, "whole numbers"),
    ],
)
def test_wrong_codes_are_refused_in_words(y, num_classes, error, message):
    with pytest.raises(error, match=message):
        check_codes(y, num_classes)


@pytest.mark.parametrize("y", [torch.tensor([0, 1]), torch.tensor([0.0, 1.0]), torch.tensor([True, False])])
def test_two_classes_may_be_of_any_type(y):
    check_codes(y, 2)
