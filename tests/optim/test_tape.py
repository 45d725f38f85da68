import copy

import pytest
import torch
import torch.nn.functional as F
from torch import nn

import leadline as ll
from leadline.data.data import Batch
from leadline.layers.held_graph import give_graph
from leadline.models import MODELS
from leadline.optim import gradient, tape
from leadline.optim.gradient import Gradient
from leadline.optim.tape import Repeated, Tape, replayable
from leadline.settings import Settings
from leadline.testing import row_shape, small_graph


def network(activation=nn.ReLU):
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(4, 8), activation(), nn.Linear(8, 3))


def gradients_of(model):
    parameters = list(model.parameters())
    return lambda x, y: torch.autograd.grad(F.cross_entropy(model(x), y), parameters)


def rows(seed, count=6):
    stream = torch.Generator().manual_seed(seed)
    return torch.randn(count, 4, generator=stream), torch.randint(3, (count,), generator=stream)


@pytest.mark.parametrize("activation", [nn.ReLU, nn.GELU, nn.Tanh, nn.SiLU, nn.Softplus])
def test_a_replay_has_the_bits_of_autograd(activation):
    model = network(activation)
    found = Tape(gradients_of(model), rows(0))
    for seed in (0, 1, 2):
        x, y = rows(seed)
        with torch.no_grad():
            model[0].weight += 0.1  # weights are read where they lie
        for mine, theirs in zip(found(x, y), gradients_of(model)(x, y), strict=True):
            assert torch.equal(mine, theirs)


def test_what_a_call_changes_in_place_a_replay_changes_too():
    one, two = nn.BatchNorm1d(4), nn.BatchNorm1d(4)
    found = Tape(lambda x: (one(x),), [rows(0)[0]])
    two(rows(0)[0])
    for seed in (1, 2):
        x, _ = rows(seed)
        assert torch.equal(found(x)[0], two(x))
    for mine, theirs in zip(one.buffers(), two.buffers(), strict=True):
        assert torch.equal(mine, theirs)


def test_what_draws_from_torchs_generator_is_not_replayed():
    found = Tape(lambda x: (F.dropout(x, 0.5),), [rows(0)[0]])
    assert found.obstacle is not None
    assert "generator" in found.obstacle


def test_a_conjugate_is_not_taken_for_the_number():
    function = lambda x: (torch.complex(x, 2 * x).conj() * 1j,)  # noqa: E731
    found = Tape(function, [torch.randn(3)])
    x = torch.rand(3)
    assert torch.equal(found(x)[0], function(x)[0])


def test_a_check_is_made_in_a_replay_too():
    found = Tape(lambda x: (torch.linalg.cholesky(x),), [torch.eye(2)])
    with pytest.raises(torch.linalg.LinAlgError):
        found(-torch.eye(2))


def test_tensors_that_nobody_reads_are_not_computed_and_constants_only_once():
    def function(x):
        x.exp().log()
        return (x + torch.arange(4.0),)

    found = Tape(function, [rows(0)[0]])
    assert [str(line.call) for line in found.lines] == ["aten.arange.default", "aten.add.Tensor"]
    made = [name for name in found._replay.__code__.co_varnames if name.startswith("v")]
    assert len(made) == 2  # x and the sum: the constant is there already


def test_a_constant_that_is_changed_is_made_anew_each_time():
    def function(x):
        total = torch.zeros(6, 4)
        total[:, :2] += x[:, :2]
        return (total,)

    found = Tape(function, [rows(0)[0]])
    for seed in (1, 2):
        x, _ = rows(seed)
        assert torch.equal(found(x)[0], function(x)[0])


def test_a_value_that_python_reads_is_an_obstacle():
    found = Tape(lambda x: (x * 2 if float(x.sum()) > 0 else x,), [rows(0)[0]])
    assert found.obstacle is not None
    assert "depends on values" in found.obstacle


class Counting:
    """Counts how often Python goes through it."""

    def __init__(self, function):
        self.function, self.calls = function, 0

    def __call__(self, *inputs):
        self.calls += 1
        return self.function(*inputs)


def test_after_four_calls_only_the_tape_runs_for_each_shape_anew():
    model = network()
    counting = Counting(gradients_of(model))
    repeated = Repeated(counting)
    for seed in range(10):
        assert torch.equal(repeated(*rows(seed))[0], gradients_of(model)(*rows(seed))[0])
    assert counting.calls == 4
    for seed in range(10):
        assert torch.equal(repeated(*rows(seed, 5))[0], gradients_of(model)(*rows(seed, 5))[0])
    assert counting.calls == 8


def test_a_function_that_counts_its_calls_is_never_replayed():
    seen = []

    def function(x):
        seen.append(1)
        return (x * len(seen),)

    repeated = Repeated(function)
    x, _ = rows(0)
    for turn in range(1, 9):
        assert torch.equal(repeated(x)[0], x * turn)


def test_a_tensor_that_is_replaced_each_time_is_never_replayed():
    kept = {"mean": torch.zeros(4)}

    def function(x):
        kept["mean"] = 0.9 * kept["mean"] + 0.1 * x.mean(0)
        return (x - kept["mean"],)

    repeated, mean = Repeated(function), torch.zeros(4)
    for seed in range(8):
        x, _ = rows(seed)
        mean = 0.9 * mean + 0.1 * x.mean(0)
        assert torch.equal(repeated(x)[0], x - mean)


def test_only_known_modules_without_hooks_are_replayed():
    class Own(nn.Module):
        def forward(self, x):
            return x

    assert replayable([network()])
    assert replayable([ll.models.MLP(4, (8,), 3)])
    assert not replayable([nn.Sequential(network(), Own())])
    heard = network()
    heard[1].register_forward_hook(lambda *_: None)
    assert not replayable([heard])
    heard = network()
    heard[0].weight.register_hook(lambda g: g)
    assert not replayable([heard])
    with torch.autograd.set_detect_anomaly(True):
        assert not replayable([network()])


def squares(y, output):
    return (y - output).square().sum(-1)


class OwnLinear(nn.Linear):
    pass


def replaced_forward():
    model = network()
    model[1].forward = lambda x: x * 2
    return model


@pytest.mark.parametrize(
    "make",
    [
        lambda: ll.likelihoods.Distance(squares),
        lambda: torch.nn.utils.parametrizations.weight_norm(OwnLinear(2, 3)),
        lambda: torch.fx.symbolic_trace(network()),
        lambda: nn.TransformerEncoderLayer(4, 2, activation=lambda x: x.relu()),
        replaced_forward,
    ],
)
def test_code_of_the_user_inside_of_known_modules_is_found(make):
    assert not replayable([make()])


# ── in fit ──


def trained(replayed, monkeypatch, model, data, **settings):
    monkeypatch.setattr(gradient, "replayable", replayable if replayed else lambda modules: False)
    torch.manual_seed(0)
    made = model()
    recorded = []
    watched = Tape.__call__
    monkeypatch.setattr(tape.Tape, "__call__", lambda self, *inputs: recorded.append(1) or watched(self, *inputs))
    run = ll.fit(made, data, progress=False, threads=1, compile="off", **settings)
    monkeypatch.setattr(tape.Tape, "__call__", watched)
    return run, len(recorded)


def same(one, other):
    for (name, mine), theirs in zip(one.model.state_dict().items(), other.model.state_dict().values(), strict=True):
        assert torch.equal(mine, theirs), name
    assert one.history == other.history


@pytest.mark.parametrize(
    ("options", "settings"),
    [
        ({"p_drop": 0.3}, {}),
        ({"norm": "batch"}, {"optimizer": "sgd", "momentum": 0.9}),
        ({"norm": "layer", "residual": True}, {"clip": 0.1}),
        ({"activation": "relu"}, {"regularize": ["l1(1e-3)", "input_noise(0.1)", "mixup(0.2)"]}),
        ({}, {"precision": "bf16"}),
        ({}, {"optimizer": "rmsprop", "schedule": "cosine"}),
        ({}, {"optimizer": "sam", "lr": 0.05}),
        ({}, {"average": "ema"}),
    ],
    ids=str,
)
def test_a_fit_has_the_same_bits_with_and_without_tapes(options, settings, monkeypatch):
    data = ll.data.load("moons", num=200)
    make = lambda: ll.models.MLP(2, (16, 16), 1, **options)  # noqa: E731
    with_tapes, replays = trained(True, monkeypatch, make, data, epochs=8, batch=24, **settings)
    without, none = trained(False, monkeypatch, make, data, epochs=8, batch=24, **settings)
    assert (replays > 0, none) == (True, 0)
    same(with_tapes, without)


@pytest.mark.parametrize("name", [name for name, kind in MODELS.items() if hasattr(kind, "tiny")])
def test_every_model_steps_with_the_same_bits_from_a_tape(name, monkeypatch):
    torch.manual_seed(0)
    model = MODELS[name].tiny()
    graph = small_graph(model) if hasattr(model, "held") else None
    give_graph(model, graph)
    likelihood = ll.likelihoods.Normal()
    stream = torch.Generator().manual_seed(0)
    batches = []
    for _ in range(12):
        x = torch.randn(6, *row_shape(model), generator=stream)
        if hasattr(model, "num_tokens"):
            x = torch.randint(model.num_tokens, x.shape, generator=stream)
        elif hasattr(model, "held"):
            x = torch.randint(6, x.shape, generator=stream)
        keys = torch.randint(2**40, (6,), generator=stream)
        batches.append(Batch(x, torch.randn(6, generator=stream), keys=keys))
    if model(batches[0].x).dim() == 4:
        likelihood = ll.likelihoods.HeatMaps(model(batches[0].x).shape[1])
        y = torch.rand(6, likelihood.dim_output, 3, generator=stream)
        batches = [Batch(b.x, y, keys=b.keys) for b in batches]
    elif model(batches[0].x).dim() == 3:
        _, places, words = model(batches[0].x).shape
        likelihood, y = ll.likelihoods.Tokens(words), torch.randint(words, (6, places), generator=stream)
        batches = [Batch(b.x, y, keys=b.keys) for b in batches]
    elif model(batches[0].x).shape != (6, 1):
        likelihood = ll.likelihoods.Categorical(model(batches[0].x).shape[1])
        batches = [Batch(b.x, torch.arange(6) % likelihood.dim_output, keys=b.keys) for b in batches]
    ends = []
    for allowed in (True, False):
        monkeypatch.setattr(gradient, "replayable", replayable if allowed else lambda modules: False)
        torch.manual_seed(1)
        own = MODELS[name].tiny()
        give_graph(own, graph)
        rule = Gradient(Settings(lr=1e-3))
        rule.bind(own, copy.deepcopy(likelihood), 100)
        assert (rule._gradients is not None) == allowed
        losses = [rule.step(batch, k) for k, batch in enumerate(batches)]
        ends.append([*losses, *own.state_dict().values()])
    for mine, theirs in zip(*ends, strict=True):
        assert torch.equal(mine, theirs)


def freeze(model):
    model.layers[0].requires_grad_(False)


def hook(model):
    model.layers[0].register_forward_hook(lambda module, args, output: output * 2)


def less_dropout(model):
    model.layers[0].drop.p_drop = 0.9


@pytest.mark.parametrize("change", [freeze, hook, less_dropout])
def test_what_a_listener_changes_between_epochs_takes_effect(change, monkeypatch):
    data, ends = ll.data.load("moons", num=200), []
    for allowed in (True, False):
        monkeypatch.setattr(gradient, "replayable", replayable if allowed else lambda modules: False)
        torch.manual_seed(0)
        model = ll.models.MLP(2, (16, 16), 1, p_drop=0.2)

        def listen(event, model=model):
            if type(event).__name__ == "EpochDone" and event.epoch == 3:
                change(model)

        ll.fit(model, data, epochs=6, batch=20, progress=False, compile="off", listeners=[listen])
        ends.append(model.state_dict())
    for mine, theirs in zip(*(end.values() for end in ends), strict=True):
        assert torch.equal(mine, theirs)


def test_hooks_of_the_user_are_called_at_every_step():
    data = ll.data.load("moons", num=200)
    model = ll.models.MLP(2, (8,), 1)
    heard = []
    model.register_forward_hook(lambda module, args, output: heard.append(module.training))
    ll.fit(model, data, epochs=6, batch=20, progress=False, compile="off")
    assert sum(heard) >= 6 * -(-len(data.train) // 20)
