"""Exported models, run again by onnxruntime at other sizes."""

import pytest
import torch
from torch import nn

from leadline.errors import UserError
from leadline.interop import onnx
from leadline.models import GPT, MLP, ConvNet

runtime = pytest.importorskip("onnxruntime")
pytest.importorskip("onnxscript")


def answers(path, x):
    session = runtime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    return torch.from_numpy(session.run(["output"], {"x": x.numpy()})[0])


@pytest.mark.parametrize(
    "options",
    [
        {"positions": "rotary", "end": 3, "tied": False},
        pytest.param({}, marks=pytest.mark.slow),
        pytest.param({"positions": "alibi", "window": 2}, marks=pytest.mark.slow),
    ],
)
def test_a_language_model_answers_the_same_at_every_length(options, tmp_path):
    torch.manual_seed(0)
    model = GPT(13, 16, dim=16, num_layers=2, num_heads=2, **options)
    path = onnx.export(model, tmp_path / "gpt.onnx")
    assert model.training and path.stat().st_size > 1000
    model.eval()
    for shape in ((2, 16), (1, 5), (5, 9), (3, 1)):
        x = torch.randint(0, 13, shape)
        torch.testing.assert_close(answers(path, x), model(x).detach(), atol=1e-5, rtol=1e-4)


@pytest.mark.parametrize("model, x", [(MLP(4, (8,), 3), torch.randn(5, 4)), (ConvNet(1, 3), torch.randn(5, 1, 12, 12))])
def test_other_models_answer_for_any_number_of_rows(model, x, tmp_path):
    path = onnx.export(model, tmp_path / "net.onnx", x[:2])
    torch.testing.assert_close(answers(path, x), model.eval()(x).detach(), atol=1e-5, rtol=1e-4)


def test_a_model_that_does_not_say_what_it_reads_needs_an_example(tmp_path):
    with pytest.raises(UserError, match="Linear without input_shape"):
        onnx.export(nn.Linear(2, 2), tmp_path / "linear.onnx")


class Branching(nn.Module):
    """Which way it goes depends on the values."""

    def forward(self, x):
        return x * 2 if float(x.sum()) > 0 else x.flatten()[:1]


def test_a_model_that_cannot_be_followed_is_told_in_one_line(tmp_path, caplog, capfd):
    with pytest.raises(UserError, match="Branching, of which it says") as told:
        onnx.export(Branching(), tmp_path / "branching.onnx", torch.ones(2, 3))
    assert "\n" not in str(told.value) and not any(record.levelname != "DEBUG" for record in caplog.records)
    assert capfd.readouterr() == ("", "")
    assert not list(tmp_path.iterdir())
