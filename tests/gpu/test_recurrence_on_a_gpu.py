"""Recurrent layers on a GPU in mixed precision, states that are carried there, and steps that are recorded."""

import copy
import random
import warnings

import pytest
import torch

import leadline as ll
from leadline.engine.compiled import Compiled
from leadline.engine.events import EpochDone, StepsDone
from leadline.layers.elman import Elman
from leadline.layers.gru import GRU
from leadline.layers.linear_recurrent_unit import LRU
from leadline.layers.lstm import LSTM
from leadline.layers.min_gru import MinGRU

pytestmark = [pytest.mark.gpu, pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")]


def gradients(layer, x, above, mixed):
    for p in layer.parameters():
        p.grad = None
    x = x.clone().requires_grad_()
    with torch.autocast("cuda", torch.bfloat16, enabled=mixed):
        y, _ = layer(x)
    y.float().backward(above)
    return [x.grad, *(p.grad for p in layer.parameters())]


@pytest.mark.parametrize("kind", [LSTM, GRU, Elman, LRU, MinGRU])
@pytest.mark.parametrize("size", [1.0, 1e-8])
def test_gradients_in_mixed_precision_are_those_of_float32_but_for_rounding(kind, size):
    torch.manual_seed(0)
    layer = kind(128, 128).cuda()
    x, above = torch.randn(16, 100, 128, device="cuda"), size * torch.randn(16, 100, 128, device="cuda")
    for one, other in zip(gradients(layer, x, above, True), gradients(layer, x, above, False), strict=True):
        assert float((one - other).norm() / other.norm()) < 0.05


def text(folder):
    for k in range(40):
        (folder / f"{k:02}.txt").write_text(" ".join(f"{k} sailors went to sea {j * k % 11} times" for j in range(30)))
    return ll.data.text(folder, length=32, kind="characters", every=10, cache=False)


@pytest.mark.parametrize(
    ("cell", "compile"),
    [("lstm", "off"), ("lstm", "record"), ("gru", "record"), ("lru", "off"), ("lru", "record"), ("min_gru", "on")],
)
def test_states_are_carried_on_a_gpu_as_on_a_cpu(tmp_path, cell, compile):
    data = text(tmp_path)
    model = ll.models.build("Recurrent", data, data.target.dim, cell=cell, dim=32, p_drop=0.0, seed=0)
    twin = copy.deepcopy(model)
    settings = {"epochs": 3, "batch": 8, "carry_state": True, "precision": "float32", "progress": False, "lr": 1e-3}
    here = ll.fit(model, data, device="cpu", compile="off", **settings)
    there = ll.fit(twin, data, device="cuda", compile=compile, **settings)
    assert there.history[-1]["train"]["loss"] == pytest.approx(here.history[-1]["train"]["loss"], rel=1e-3)
    assert there.evaluate("test")["bits_per_character"] == pytest.approx(
        here.evaluate("test")["bits_per_character"], rel=1e-3
    )


@pytest.mark.parametrize("cell", ["lstm", "lru", "min_gru"])
def test_a_network_learns_in_mixed_precision_as_in_float32(tmp_path, cell):
    data, found = text(tmp_path), {}
    for precision in ("float32", "bf16"):
        model = ll.models.build("Recurrent", data, data.target.dim, cell=cell, dim=128, p_drop=0.0, seed=0)
        settings = {"epochs": 6, "batch": 8, "carry_state": True, "device": "cuda", "progress": False}
        found[precision] = ll.fit(model, data, precision=precision, **settings).evaluate("test")["bits_per_character"]
    assert found["bf16"] == pytest.approx(found["float32"], rel=0.05)


@pytest.fixture
def whole_products():
    """Of float32 as it is: in TF32, which cuDNN takes by itself, factors have 10 bits."""
    switches = (torch.backends.cudnn, torch.backends.cuda.matmul)
    before = [switch.allow_tf32 for switch in switches]
    for switch in switches:
        switch.allow_tf32 = False
    yield
    for switch, was in zip(switches, before, strict=True):
        switch.allow_tf32 = was


@pytest.mark.parametrize("kind", [LSTM, GRU, Elman])
@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.usefixtures("whole_products")
def test_single_steps_are_those_of_the_kernel(kind, bias):
    torch.manual_seed(0)
    layer, x = kind(24, 32, bias=bias).cuda(), torch.randn(6, 9, 24, device="cuda")
    above, there = torch.randn(6, 9, 32).cuda(), (torch.arange(9) < 9 - torch.arange(6)[:, None]).cuda()
    for mixed, tolerance in ((False, 1e-5), (True, 0.03)):
        found = []
        for size in (9, 1):
            state, steps = None, []
            with torch.autocast("cuda", torch.bfloat16, enabled=mixed):
                for x_t, has in zip(x.split(size, 1), there.split(size, 1), strict=True):
                    y, state = layer(x_t, state, has)
                    steps.append(y)
            y = torch.cat(steps, 1).float()
            slopes = torch.autograd.grad(y, list(layer.parameters()), above)
            found.append([y.detach(), *(part.detach() for part in state), *slopes])
        for one, other in zip(*found, strict=True):
            assert float((one - other).norm() / other.norm()) < tolerance


def pairs(folder):
    """Words to be spelled backwards; the last batch of an epoch has fewer rows."""
    draw = random.Random(0)
    words = sorted({"".join(draw.choices("abcdef", k=draw.randint(2, 9))) for _ in range(330)})[:300]
    (folder / "pairs.tsv").write_text("ahead\tback\n" + "".join(f"{word}\t{word[::-1]}\n" for word in words))
    return ll.data.text(folder / "pairs.tsv", task="pairs", kind="characters", length=12, cache=False)


def spelled(data, **options):
    return ll.models.build("EncoderDecoder", data, data.target.dim, **{"dim": 32, "p_drop": 0.2, "seed": 0, **options})


def fitted(model, data, **options):
    given = {"epochs": 4, "batch": 16, "lr": 3e-3, "device": "cuda", "precision": "float32", "progress": False}
    with warnings.catch_warnings():
        warnings.filterwarnings("error", "steps are not compiled")  # but run as they are, which would hide it
        return ll.fit(model, data, with_report=False, **{**given, **options})


def losses(run):
    """Of training and validation, by epoch."""
    return torch.tensor([[line["train"]["loss"], line["val"]["nll"]] for line in run.history])


@pytest.mark.parametrize(
    ("options", "settings"),
    [
        ({"attention": "additive", "inside": True}, {"clip": 0.5}),
        ({"attention": "additive"}, {"optimizer": "sgd", "momentum": 0.9, "lr": 0.05}),
        ({"cell": "gru", "p_own": 0.3, "inside": True}, {}),
        ({"cell": "elman", "attention": "none"}, {"regularize": "weight_noise"}),
    ],
)
def test_recorded_steps_of_kernels_follow_the_single_ones(tmp_path, options, settings):
    data = pairs(tmp_path)
    assert len(data.train) % 16
    eager = fitted(spelled(data, **options), data, compile="off", **settings)
    recorded = fitted(spelled(data, **options), data, compile="on", **settings)
    assert (eager.settings.compile, recorded.settings.compile) == ("off", "record")
    torch.testing.assert_close(losses(recorded), losses(eager), rtol=2e-3, atol=2e-3)


@pytest.mark.parametrize("precision", ["bf16", "tf32"])
def test_recorded_kernels_learn_in_every_precision(tmp_path, precision):
    data = pairs(tmp_path)
    run = fitted(spelled(data, inside=True, p_drop=0.0), data, precision=precision, compile="record", epochs=15)
    assert losses(run)[-1, 0] < 0.7 * losses(run)[0, 0]


def test_left_to_choose_runs_of_kernels_are_recorded(tmp_path):
    data = pairs(tmp_path)
    assert fitted(spelled(data), data, epochs=20).settings.compile == "record"


def test_a_recorded_run_of_kernels_goes_on_bit_for_bit(tmp_path):
    def stop(event):
        if isinstance(event, EpochDone) and event.epoch == 2:
            raise KeyboardInterrupt

    data = pairs(tmp_path)
    whole = fitted(spelled(data, inside=True), data, compile="record", folder=tmp_path / "whole")
    with pytest.raises(KeyboardInterrupt):
        fitted(spelled(data, inside=True), data, compile="record", folder=tmp_path / "cut", listeners=[stop])
    resumed = ll.resume(tmp_path / "cut", progress=False, data=data)
    for one, other in zip(whole.model.state_dict().values(), resumed.model.state_dict().values(), strict=True):
        assert torch.equal(one, other)


def test_weights_that_torch_moves_in_memory_are_recorded_anew(tmp_path, monkeypatch):
    data, prepared, own = pairs(tmp_path), [], Compiled._prepare
    monkeypatch.setattr(Compiled, "_prepare", lambda *given, **more: prepared.append(1) or own(*given, **more))

    def move(event):
        if isinstance(event, StepsDone) and event.step == 4:
            model.to("cuda")  # where it is

    model = spelled(data)
    moved = fitted(model, data, compile="record", listeners=[move])
    again = len(prepared)
    stayed = fitted(spelled(data), data, compile="record")
    assert again > len(prepared) - again
    torch.testing.assert_close(losses(moved), losses(stayed), rtol=1e-4, atol=1e-4)


def test_a_stack_of_ones_own_is_recorded():
    class Own(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.body, self.head = torch.nn.LSTM(1, 32, num_layers=2, batch_first=True), torch.nn.Linear(32, 10)

        def forward(self, x):
            return self.head(self.body(x[..., None])[0][:, -1])

    data, found = ll.data.mnist1d(num=400), []
    for compile in ("off", "record"):
        torch.manual_seed(0)
        found.append(fitted(Own(), data, compile=compile))
    assert found[1].settings.compile == "record"
    torch.testing.assert_close(losses(found[1]), losses(found[0]), rtol=2e-3, atol=2e-3)
