"""What only a GPU can show: `pytest -m gpu`. Recorded graphs, compiled steps, precisions, and the way back to a CPU."""

import pytest
import torch

import leadline as ll
from leadline.engine import chunk
from leadline.engine.events import EpochDone
from leadline.errors import DivergedError
from leadline.layers import noise

pytestmark = [pytest.mark.gpu, pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")]


def model(**options):
    torch.manual_seed(0)
    return ll.models.MLP(40, options.pop("hidden", (100, 100)), 10, **options)


def data():
    return ll.data.mnist1d(num=1000)


def losses(run):
    return torch.tensor([line["train"]["loss"] for line in run.history])


def fit(made, **options):
    given = {"epochs": 6, "batch": 100, "device": "cuda", "precision": "float32", "progress": False, **options}
    return ll.fit(made, data(), **given)


@pytest.mark.parametrize("options", [{}, {"optimizer": "sgd", "momentum": 0.9, "lr": 0.05}, {"clip": 0.1}])
def test_recorded_and_compiled_steps_follow_the_eager_ones(options):
    eager = fit(model(norm="batch"), compile="off", **options)
    compiled = fit(model(norm="batch"), compile="on", **options)
    assert eager.settings.compile == "off" and compiled.settings.compile == "on"
    torch.testing.assert_close(losses(compiled), losses(eager), rtol=2e-3, atol=2e-3)


@pytest.mark.parametrize("options", [{}, {"optimizer": "sgd", "lr": 0.05, "clip": 0.1, "decay_on": "matrices"}])
def test_compiled_steps_of_many_tensors_follow_the_eager_ones(options, monkeypatch):
    monkeypatch.setattr(noise, "_MANY", 1)  # masks by their own kernel
    deep = lambda: model(hidden=(60,) * 9, norm="batch", residual=True)  # noqa: E731
    assert len(list(deep().parameters())) > 32
    eager, compiled = (fit(deep(), compile=way, **options) for way in ("off", "on"))
    torch.testing.assert_close(losses(compiled), losses(eager), rtol=5e-3, atol=5e-3)


@pytest.mark.parametrize(("count", "site", "dropped"), [(1, 0, 0), (4099, 3, 6554), (2**17, 40, 65000)])
def test_masks_of_a_gpu_are_those_of_a_cpu(count, site, dropped):
    keys = noise.example_keys(0, 0, torch.arange(5))
    site = site * noise._C % 2**63
    expected = noise.kept_units(keys, count, site, dropped)
    assert torch.equal(noise.kept_units(keys.cuda(), count, site, dropped).cpu(), expected)


def test_a_gpu_follows_the_cpu():
    cpu, gpu = fit(model(), device="cpu"), fit(model(), compile="off")
    torch.testing.assert_close(losses(gpu), losses(cpu), rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize("compile", ["off", "on"])
def test_an_interrupted_run_goes_on_bit_for_bit(tmp_path, compile):
    def stop(event):
        if isinstance(event, EpochDone) and event.epoch == 3:
            raise KeyboardInterrupt

    options = {"compile": compile, "with_report": False}
    whole = fit(model(), folder=tmp_path / "whole", **options)
    with pytest.raises(KeyboardInterrupt):
        fit(model(), folder=tmp_path / "cut", listeners=[stop], **options)
    resumed = ll.resume(tmp_path / "cut", progress=False, data=data())
    assert torch.equal(losses(whole), losses(resumed))
    for a, b in zip(whole.model.state_dict().values(), resumed.model.state_dict().values(), strict=True):
        assert torch.equal(a, b)


@pytest.mark.parametrize("precision", ["tf32", "bf16", "float64"])
def test_precisions_train(precision):
    run = fit(model(), precision=precision, compile="on", epochs=12)
    assert losses(run)[-1] < losses(run)[0] - 0.3
    assert run.settings.precision == precision


def test_a_run_of_a_gpu_is_read_without_one(tmp_path, monkeypatch):
    run = fit(model(), folder=tmp_path / "run", with_report=False)
    expected = run.predict(data().test.x).probabilities.cpu()
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    again = ll.load(tmp_path / "run", data=data())
    assert next(again.model.parameters()).device.type == "cpu"
    torch.testing.assert_close(again.predict(data().test.x).probabilities, expected, rtol=1e-3, atol=1e-3)


def test_a_value_that_is_not_finite_is_found_behind_recorded_steps():
    with pytest.raises(DivergedError) as caught:
        fit(model(p_drop=0.0), optimizer="sgd", lr=1e30, schedule="constant", warmup=0.0, compile="on")
    assert "step" in str(caught.value)


# ── populations ──


@pytest.mark.parametrize(
    ("model", "likelihood", "settings"),
    [
        ({"activation": "relu", "p_drop": 0.0}, "Categorical", {"optimizer": "sgd", "momentum": 0.9, "batch": 50}),
        ({"activation": "gelu", "p_drop": 0.2}, "Categorical", {"optimizer": "adamw", "batch": 40}),
        ({"activation": "tanh", "p_drop": 0.0}, "Categorical", {"optimizer": "nesterov", "batch": 200}),
        ({"activation": "silu", "p_drop": 0.3, "hidden": (20, 30, 10)}, "Bernoulli", {"optimizer": "adam"}),
    ],
)
def test_steps_in_one_kernel_follow_single_runs(model, likelihood, settings, monkeypatch):
    pytest.importorskip("triton")
    classes = likelihood == "Categorical"
    data = ll.data.mnist1d(num=300) if classes else ll.data.moons(num=300)
    made = ll.models.MLP(data.dim_input, model.pop("hidden", (48, 24)), 10 if classes else 1, **model)
    common = {"epochs": 2, "precision": "float32", "device": "cuda", "progress": False, **settings}
    used = []
    own = chunk.Chunk._in_one_kernel
    monkeypatch.setattr(chunk.Chunk, "_in_one_kernel", lambda self, inputs: used.append(1) or own(self, inputs))
    population = ll.fit_many(made, data, ll.members(seed=range(3), lr=[1e-3, 1e-2]), compile="on", **common)
    assert used
    for run in population:
        torch.manual_seed(run.settings.seed)
        alone = ll.models.MLP(**made.config)
        single = ll.fit(alone, data, seed=run.settings.seed, lr=run.settings.lr, compile="off", **common)
        for mine, theirs in zip(run.model.parameters(), single.model.parameters(), strict=True):
            assert torch.allclose(mine, theirs, atol=1e-4), (run.settings.seed, float((mine - theirs).abs().max()))


def test_orders_of_a_gpu_are_those_of_torch():
    pytest.importorskip("triton")
    from leadline.engine.shuffled import orders

    seeds, counts = torch.tensor([0, 7, 2**40 + 3, 2**62]), torch.tensor([2000, 624])
    out = torch.zeros(4, 2000, dtype=torch.int64, device="cuda")
    orders(seeds.cuda(), counts.cuda(), out)
    for row, seed, count in zip(out.cpu(), seeds.tolist(), [2000, 624, 2000, 624], strict=True):
        assert torch.equal(row[:count], torch.randperm(count, generator=torch.Generator().manual_seed(seed)))


def test_a_population_that_is_no_chain_trains_through_the_compiler():
    data = ll.data.moons(num=200)
    model = ll.models.MLP(2, (16, 16), 1, norm="layer", residual=True, p_drop=0.2)
    runs = ll.fit_many(model, data, ll.members(seed=range(4)), epochs=12, compile="on", device="cuda", progress=False)
    assert all(run.history[-1]["train"]["loss"] < run.history[0]["train"]["loss"] for run in runs)
