"""Exported models, run again by onnxruntime at other sizes."""

import numpy as np
import pytest
import torch
from torch import nn

from leadline.errors import UserError
from leadline.interop import onnx
from leadline.models import GCN, GPT, MLP, ConvNet, EncoderDecoder, PointNet, Recurrent, SetTransformer

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


@pytest.mark.parametrize(
    "model",
    [
        EncoderDecoder(11, 4, 5, dim=8, num_layers=2),
        EncoderDecoder(11, 4, 5, cell="elman", dim=8, num_layers=1, bidirectional=False, attention="additive"),
        Recurrent(11, num_tokens=11, dim=6, head="next", pad=0),
        Recurrent(3, num_tokens=11, cell="lstm", dim=6, head="steps", bidirectional=True, pad=0),
        pytest.param(EncoderDecoder(11, 4, 5, 11, "gru", dim=8, attention="none"), marks=pytest.mark.slow),
    ],
    ids=lambda model: f"{type(model).__name__}-{model.cell}",
)
def test_recurrent_networks_answer_the_same_at_every_length_and_say_that_they_do(model, tmp_path):
    path = onnx.export(model, tmp_path / "net.onnx")
    [output] = runtime.InferenceSession(str(path), providers=["CPUExecutionProvider"]).get_outputs()
    assert [type(size) for size in output.shape] == [str, str, int]  # those that vary are named
    model.eval()
    for shape in ((2, 9), (1, 6), (5, 7)):
        x = torch.from_numpy(np.random.default_rng(0).integers(1, 11, shape))
        x[0, 3:5] = 0  # padding at the end of a source, a gap in a row
        torch.testing.assert_close(answers(path, x), model(x).detach(), atol=1e-5, rtol=1e-4)


@pytest.mark.parametrize(
    "model",
    [EncoderDecoder(11, 4, 5, dim=8, num_layers=1, inside=True), Recurrent(3, 2, cell="lru", dim=8, num_layers=1)],
)
def test_rows_that_no_kernel_of_torch_reads_are_refused(model, tmp_path):
    before = torch.lstm
    with pytest.raises(UserError, match=f"{type(model).__name__}, of which it says"):
        onnx.export(model, tmp_path / "net.onnx")
    assert torch.lstm is before


class Sorting(nn.Module):
    """Equal values keep their order."""

    def forward(self, x):
        return x.sort(dim=1, descending=True, stable=True).indices.to(x.dtype)


def test_values_are_sorted_as_torch_does(tmp_path):
    x = torch.tensor([[0.5, 0.7, 0.5, 0.2], [0.1, 0.1, 0.1, 0.9]])
    path = onnx.export(Sorting(), tmp_path / "sort.onnx", x)
    assert torch.equal(answers(path, x.flip(1)), Sorting()(x.flip(1)))


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


@pytest.mark.parametrize("kind", [SetTransformer, pytest.param(PointNet, marks=pytest.mark.slow)])
def test_networks_of_sets_answer_the_same_at_every_size(kind, tmp_path):
    torch.manual_seed(0)
    model = kind(3, 2, **({"dim": 8} if kind is SetTransformer else {"width": 0.1}))
    example = torch.cat([torch.randn(2, 5, 2), torch.ones(2, 5, 1)], 2)  # with the column that says who is there
    path = onnx.export(model, tmp_path / "set.onnx", example)
    model.eval()
    x = torch.randn(3, 9, 3)
    x[..., -1] = (torch.arange(9) < torch.tensor([[9], [4], [1]])).float()
    torch.testing.assert_close(answers(path, x), model(x).detach(), atol=1e-5, rtol=1e-4)


def test_a_network_on_a_graph_is_refused_in_words(tmp_path):
    with pytest.raises(UserError, match="must answer from its rows alone to be written as ONNX. Got GCN"):
        onnx.export(GCN.tiny(), tmp_path / "gcn.onnx")
    assert not (tmp_path / "gcn.onnx").exists()


def test_what_cannot_be_written_is_told_before_it_is_computed(tmp_path):
    with pytest.raises(UserError, match=r"must stand in a folder that is there\. Got .*gone, which is no folder"):
        onnx.export(GPT.tiny(), tmp_path / "gone" / "gpt.onnx")
    with pytest.raises(UserError, match="what is exported must be a model. Got model=None"):
        onnx.export(None, tmp_path / "none.onnx")
