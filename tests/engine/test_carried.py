"""Text in streams: states go on from batch to batch, the gradient does not, and a run that stops goes on with them."""

import copy
import math
import warnings

import pytest
import torch
import torch.nn.functional as F
from engine_runs import same

import leadline as ll
from leadline.data.tokens import NOTHING
from leadline.engine.evaluation import assess
from leadline.engine.feed import Feed, stream_order
from leadline.engine.step import Step
from leadline.errors import UserError
from leadline.layers.recurrent_layers import RECURRENT
from leadline.optim.gradient import Gradient
from leadline.optim.inline import Inline
from leadline.settings import Settings

T = 8


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    folder = tmp_path_factory.mktemp("text")
    for k in range(12):
        text = " ".join(f"{k} sailors went to sea {k * j % 7} times" for j in range(8))
        (folder / f"{k:02}.txt").write_text(text)
    return ll.data.text(folder, length=T, kind="bytes", every=6, cache=False)


def made(data, **options):
    return ll.models.build("Recurrent", data, data.target.dim, seed=0, **{"dim": 6, "p_drop": 0.0, **options})


def fitted(data, model, **settings):
    return ll.fit(
        model, data, **{"epochs": 1, "batch": 5, "carry_state": True, "progress": False, "threads": 1, **settings}
    )


@pytest.mark.parametrize("cell", RECURRENT)
def test_a_carried_evaluation_is_that_of_the_whole_text_in_one_row(data, cell):
    model, family = made(data, cell=cell), ll.likelihoods.likelihood_for(data.target)
    feed = Feed(data.test, data.inputs, 1, 0, torch.device("cpu"), torch.float32, carry=True)
    x, y = data.inputs.drawn(data.inputs.encode(data.test.x), data.test.y, None)
    with torch.no_grad():
        whole, parts = (
            float(F.cross_entropy(scores.flatten(0, 1), y.flatten(), ignore_index=NOTHING))
            for scores in (model(x.view(1, -1)), model(x).view(1, x.numel(), -1))
        )
    assert assess(model, family, feed.in_streams(), streams=1)["nll"] == pytest.approx(whole, rel=1e-6)
    assert abs(whole - parts) > 1e-5 * whole


def test_a_run_evaluates_in_streams(data):
    run = fitted(data, made(data), lr=0.02)
    few = data.test.take(torch.arange(20))  # so few that they are one stream
    x, y = data.inputs.drawn(data.inputs.encode(few.x), few.y, None)
    with torch.no_grad():
        whole = float(F.cross_entropy(run.model(x.view(1, -1))[0], y.flatten(), ignore_index=NOTHING))
    assert run.measure(few.x, few.y)["nll"] == pytest.approx(whole, rel=1e-6)
    feed = Feed(data.val, data.inputs, 3, 0, torch.device("cpu"), torch.float32, carry=True)  # 61 rows: 3 streams
    assert run.history[-1]["val"] == dict(assess(run.model, run.likelihood, feed.in_streams(), spans=False, streams=3))


@pytest.mark.parametrize("cell", ["lstm", "lru"])
def test_the_gradient_is_cut_at_the_seam_as_in_a_loop_by_hand(data, cell):
    batch, lr = 7, 0.1
    model = made(data, cell=cell)
    twin = copy.deepcopy(model)
    settings = {"optimizer": "sgd", "momentum": 0.0, "weight_decay": 0.0, "schedule": "constant", "warmup": 0.0}
    run = fitted(data, model, epochs=2, batch=batch, lr=lr, **settings)
    x, y = data.inputs.drawn(data.inputs.encode(data.train.x), data.train.y, None)
    assert len(x) % batch > 1  # the last batch has fewer rows
    streams = torch.arange(len(x)).tensor_split(batch)
    sgd, losses = torch.optim.SGD(twin.parameters(), lr), []
    for _ in range(2):
        states = twin.first_states(batch)
        for k in range(len(streams[0])):
            rows = torch.tensor([int(stream[k]) for stream in streams if k < len(stream)])
            h = twin.embed(x[rows])
            for number, layer in enumerate(twin.layers):
                h, state = layer(h, tuple(part[: len(rows)] for part in states[number]), None)
                states[number] = tuple(part.detach() for part in state)
            scores = F.linear(twin.leave(h), twin.embed.weight)
            total = F.cross_entropy(scores.flatten(0, 1), y[rows].flatten(), ignore_index=NOTHING, reduction="sum")
            loss = total / data.target.scale[0] / len(rows)
            sgd.zero_grad()
            loss.backward()
            sgd.step()
            losses.append(loss.item())
    assert run.history[-1]["step"] == len(losses)
    for name, p in run.model.state_dict().items():
        torch.testing.assert_close(p, twin.state_dict()[name], rtol=1e-5, atol=1e-7)


def test_streams_are_in_order_in_every_epoch(data):
    feed = Feed(data.train, data.inputs, 5, 3, torch.device("cpu"), torch.float32, carry=True)
    assert feed.order(0).tolist() == feed.order(1).tolist() == stream_order(len(feed), 5).tolist()
    before = targets = None
    for [batch] in feed.calls(1, 0, 1):
        if before is not None:
            assert batch.example.tolist() == [row + 1 for row in before[: len(batch)].tolist()]
            torch.testing.assert_close(batch.x[:, 0], targets[: len(batch)])
        before, targets = batch.example, batch.y[:, -1]
    assert sorted(row for [batch] in feed.calls(0, 0, 1) for row in batch.example.tolist()) == list(range(len(feed)))


def test_steps_of_flat_tensors_carry_too(data):
    """As a compiler and a recorded graph have them."""
    feed = Feed(data.train, data.inputs, 5, 3, torch.device("cpu"), torch.float32, keyed=False, carry=True)
    rules, losses = [], []
    for _ in range(2):
        rule = Gradient(Settings(batch=5, carry_state=True, optimizer="sgd"))
        rule.steps_per_epoch = feed.steps
        rule.bind(made(data, cell="min_gru"), ll.likelihoods.likelihood_for(data.target), 10)
        rules.append(rule)
    inline = Inline(rules[1].optimizer)
    step = Step(rules[1], inline, ["x", "y"])
    for k, [batch] in zip(range(3), feed.calls(0, 0, 1), strict=False):
        scalars = torch.from_numpy(inline.scalars([rules[1].rate(k)])).float()
        losses.append((rules[0].step(batch, k), step(*step.held, batch.x, batch.y, scalars[0])))
        inline.counted(1)
    for one, other in losses:
        torch.testing.assert_close(one, other)
    for one, other in zip(*(rule.state()["carried"].values() for rule in rules), strict=True):
        torch.testing.assert_close(one, other)
        assert one.abs().max() > 0


@pytest.mark.slow
def test_compiled_steps_carry_too(data):
    """Over a last batch that has fewer rows, and into a second epoch, which begins anew."""
    assert len(data.train) % 7
    settings = {"epochs": 2, "batch": 7, "lr": 0.02}
    with warnings.catch_warnings():
        warnings.filterwarnings("error", "steps are not compiled")  # but run as they are, which would hide it
        plain, fast = (
            fitted(data, made(data, cell="lru", num_layers=1), compile=wish, **settings) for wish in ("off", "on")
        )
    for name, p in plain.model.state_dict().items():
        torch.testing.assert_close(fast.model.state_dict()[name], p, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("streams", [1, 4, 7, 30])
def test_no_row_of_any_number_of_streams_is_lost(streams):
    assert sorted(stream_order(30, streams).tolist()) == list(range(30))
    for more in range(3):
        order = stream_order(30 + more, 4)
        assert all(order[i + 4] == order[i] + 1 for i in range(len(order) - 4))


def test_a_run_without_it_reads_rows_on_their_own(data):
    carried, plain = fitted(data, made(data), seed=1), fitted(data, made(data), seed=1, carry_state=False)
    assert not same(carried.model.state_dict(), plain.model.state_dict())
    assert math.isfinite(plain.evaluate("test")["bits_per_character"])


@pytest.mark.parametrize(
    ("options", "settings", "said"),
    [
        ({}, {"replacement": True}, "rows in their order"),
        ({}, {"epoch_steps": 2}, "shuffled rows. Got carry_state=True"),
        ({}, {"accumulate": 2}, "read their rows once"),
        ({}, {"optimizer": "lbfgs"}, "read their rows once"),
        ({}, {"optimizer": "sam"}, "read their rows once"),
        ({"name": "GPT", "dim": 8, "num_heads": 1}, {}, "a recurrent network"),
    ],
)
def test_what_cannot_be_carried_is_refused(data, options, settings, said):
    name = options.pop("name", "Recurrent") if options else "Recurrent"
    model = ll.models.build(name, data, data.target.dim, **(options or {"dim": 6}))
    with pytest.raises(UserError, match=said):
        fitted(data, model, **settings)
    with pytest.raises(UserError, match="needs the task next"):
        ll.fit(ll.models.MLP(2, (3,), 1), ll.data.moons(num=60), carry_state=True, progress=False)
