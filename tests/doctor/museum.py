"""A museum of set-ups: broken ones, each with the code that names its fault, and healthy ones that name none.

An exhibit is a function that builds its set-up, takes it as far as its fault shows (before, during, after), and returns
every finding. Healthy exhibits go all the way.
"""

import dataclasses
import math

import numpy as np
import torch
from sklearn import datasets
from torch import nn

from leadline.data.data import Data, Split
from leadline.data.edges import Edges
from leadline.data.graph_made import communities, molecules
from leadline.data.inputs import Identity, Standardize
from leadline.data.target import Target
from leadline.data.tokens import Tokens, padded
from leadline.doctor import Watch, after, before, locate
from leadline.engine.evaluation import evaluate, outputs
from leadline.engine.events import EpochDone, RunEnded, RunStarted
from leadline.init import initialise
from leadline.layers import Elman, Skip
from leadline.likelihoods import Bernoulli, Normal, likelihood_for
from leadline.models import BERT, GPT, Recurrent, build
from leadline.models.linear import Linear
from leadline.models.mlp import MLP
from leadline.text.tokenizer import Tokenizer

BROKEN: dict[str, tuple[str, object]] = {}
HEALTHY: dict[str, object] = {}


def broken(code):
    def hang(exhibit):
        BROKEN[exhibit.__name__] = (code, exhibit)
        return exhibit

    return hang


def healthy(exhibit):
    HEALTHY[exhibit.__name__] = exhibit
    return exhibit


# --- how exhibits are built


def split_up(x, y, target, inputs=None, parts=(0.6, 0.2), seed=0, names=()):
    """Shuffled splits; columns standardised by the training rows unless `inputs` says otherwise."""
    n = len(y)
    order = torch.randperm(n, generator=torch.Generator().manual_seed(seed))
    a, b = int(parts[0] * n), int((parts[0] + parts[1]) * n)
    train, val, test = (Split(x[i], y[i], rows=i) for i in (order[:a], order[a:b], order[b:]))
    if target.kind == "real":
        target = Target.real(train.y)
    inputs = Standardize.fit(train.x, names) if inputs is None else inputs
    return Data(train, val, test, target, inputs)


def classes(count):
    return Target("classes", classes=tuple(f"c{i}" for i in range(count)))


def blobs(n=400, d=5, count=3, spread=1.0, seed=0, **options):
    g = torch.Generator().manual_seed(seed)
    centres = 2.5 * torch.randn(count, d, generator=g)
    y = torch.arange(n) % count
    x = centres[y] + spread * torch.randn(n, d, generator=g)
    return split_up(x, y, classes(count), **options)


def line(n=400, d=4, noise=0.3, seed=0, **options):
    g = torch.Generator().manual_seed(seed)
    x = torch.randn(n, d, generator=g)
    y = x @ torch.linspace(1, 2, d) + noise * torch.randn(n, generator=g)
    return split_up(x, y, Target("real"), **options)


def bundled(load, count=None):
    bunch = load()
    x = torch.tensor(bunch.data, dtype=torch.float32)
    if count is None:
        return x, torch.tensor(bunch.target, dtype=torch.float32)
    return x, torch.tensor(bunch.target).long()


def net(d, c, hidden=(32,), seed=0, activation="relu", p_drop=0.0, **options):
    torch.manual_seed(seed)
    return MLP(d, hidden, c, activation=activation, p_drop=p_drop, **options)


def changed(data, split="train", **arrays):
    """`data` with the arrays of one split replaced."""
    old = data[split]
    new = {"x": old.x, "y": old.y, "weight": old.weight, "rows": old.rows, **arrays}
    return data.with_(**{split: Split(**new)})


def train(model, data, likelihood=None, epochs=8, lr=3e-3, batch=32, make=None, spoil=None):
    """A small loop that speaks the engine's events; the best weights by validation nll are kept."""
    likelihood = likelihood or likelihood_for(data.target)
    split, x = data.train, data.inputs.encode(data.train.x)
    weights = [*model.parameters(), *likelihood.parameters()]
    optimizer = (make or (lambda p: torch.optim.AdamW(p, lr=lr)))(weights)
    watch = Watch(model, likelihood, x[:256], split.y[:256], rows=range(256))
    g = torch.Generator().manual_seed(0)
    steps = math.ceil(len(split) / batch)
    watch(RunStarted(epochs, steps))
    history, step, best, kept = [], 0, math.inf, None
    for epoch in range(1, epochs + 1):
        losses = []
        model.train()
        for index in torch.randperm(len(split), generator=g).split(batch):
            if spoil:
                spoil(step, optimizer)
            loss = likelihood.loss(model(x[index]), split.y[index]).mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            losses.append(loss.detach())
            step += 1
        losses = torch.stack(losses)
        mean = float(losses.mean())
        record = {"epoch": epoch, "step": step, "lr": lr, "train": {"loss": mean}}
        if len(data.val):
            output = outputs(model, data.inputs.encode(data.val.x))
            record["val"] = dict(evaluate(likelihood, output, data.val.y))
            if record["val"]["nll"] < best:
                best = record["val"]["nll"]
                kept = [p.detach().clone() for p in weights]
        history.append(record)
        watch(EpochDone(epoch, step, lr, record, False, losses))
    watch(RunEnded(epochs, step, "finished"))
    if kept:
        with torch.no_grad():
            for p, value in zip(weights, kept, strict=True):
                p.copy_(value)
    return watch, history, likelihood


def judge(model, data, likelihood, history):
    results = {name: outputs(model, data.inputs.encode(split.x)) for name, split in data.splits()}
    evaluations = {name: evaluate(likelihood, results[name], split.y) for name, split in data.splits()}
    return after(history, evaluations, data, likelihood, results)


def whole(model, data, likelihood=None, **options):
    """Before, during and after."""
    likelihood = likelihood or likelihood_for(data.target)
    found = before(model, data, likelihood)
    watch, history, likelihood = train(model, data, likelihood, **options)
    return found + watch.findings + judge(model, data, likelihood, history)


def checked(model, data, likelihood=None):
    return before(model, data, likelihood or likelihood_for(data.target))


# --- broken before the first step: the target


@broken("target-shape")
def y_has_a_second_axis():
    data = line()
    return checked(net(4, 1), changed(data, y=data.train.y[:, None]), Normal())


@broken("target-shape")
def y_is_one_hot():
    data = blobs()
    return checked(net(5, 3), changed(data, y=nn.functional.one_hot(data.train.y, 3)))


@broken("target-type")
def y_is_half_way_between_classes():
    data = blobs()
    return checked(net(5, 3), changed(data, y=data.train.y + 0.5))


@broken("target-type")
def y_of_whole_numbers_for_a_bell_curve():
    data = line()
    return checked(net(4, 1), changed(data, y=data.train.y.long()), Normal())


@broken("label-range")
def labels_begin_at_one():
    data = blobs()
    return checked(net(5, 3), changed(data, y=data.train.y + 1))


@broken("label-range")
def minus_one_for_unknown_in_val():
    data = blobs()
    y = data.val.y.clone()
    y[7] = -1
    return checked(net(5, 3), changed(data, "val", y=y))


@broken("label-range")
def plus_and_minus_one_for_yes_and_no():
    data = blobs(count=2).with_(target=Target("binary"))
    return checked(net(5, 1), changed(data, y=2 * data.train.y - 1), Bernoulli())


@broken("non-finite-target")
def a_price_is_missing():
    data = line()
    y = data.train.y.clone()
    y[[3, 30]] = math.nan
    return checked(net(4, 1), changed(data, y=y))


@broken("bad-weight")
def a_negative_weight():
    data = line()
    return checked(net(4, 1), changed(data, weight=torch.linspace(-1, 1, len(data.train))))


@broken("one-class")
def sorted_file_cut_in_order():
    g = torch.Generator().manual_seed(0)
    y = torch.arange(300) // 200
    x = torch.randn(300, 4, generator=g) + y[:, None]
    part = lambda a, b: Split(x[a:b], y[a:b])  # noqa: E731
    data = Data(part(0, 180), part(180, 199), part(199, 200), classes(2))
    return checked(net(4, 2), data)


@broken("class-missing")
def a_class_only_in_test():
    data = blobs(count=4)
    rows = (data.train.y != 3).nonzero().flatten()
    return [f for f in checked(net(5, 4), data.with_(train=data.train.take(rows))) if "val" not in f.where]


@broken("constant-target")
def the_wrong_column_as_target():
    data = line()
    return checked(net(4, 1), changed(data, y=torch.full((len(data.train),), 3.0)))


@broken("target-resolution")
def seconds_since_1970_as_the_target():
    data = line()
    target = Target.real(data.train.y.double() + 1.7e9)
    return checked(net(4, 1), changed(data, y=data.train.y + 1.7e9).with_(target=target))


# --- broken before the first step: the inputs


@broken("non-finite-input")
def a_missing_value_that_nothing_fills():
    data = blobs()
    x = data.train.x.clone()
    x[17, 2] = math.nan
    return checked(net(5, 3), changed(data, x=x))


@broken("non-finite-input")
def logarithm_of_zero_in_a_column_of_test():
    data = line(inputs=Identity(("a", "b", "c", "d")))
    x = data.test.x.clone()
    x[4, 3] = -math.inf
    return checked(net(4, 1), changed(data, "test", x=x))


@broken("constant-column")
def the_year_is_always_the_same():
    g = torch.Generator().manual_seed(0)
    x = torch.randn(300, 4, generator=g)
    y = x.sum(1) + 0.1 * torch.randn(300, generator=g)
    x[:, 2] = 2019
    return checked(net(4, 1), split_up(x, y, Target("real"), names=("a", "b", "year", "d")))


@broken("duplicate-column")
def the_same_column_twice():
    data = line()
    twice = lambda split: split.x[:, [0, 1, 2, 3, 1]]  # noqa: E731
    for name in ("train", "val", "test"):
        data = changed(data, name, x=twice(data[name]))
    return checked(net(5, 1), data.with_(inputs=Identity()))


@broken("target-leak")
def price_in_another_currency():
    data = line()
    for name in ("train", "val", "test"):
        split = data[name]
        data = changed(data, name, x=torch.cat([split.x, 1.1 * split.y[:, None] + 3], 1))
    return checked(net(5, 1), data.with_(inputs=Standardize.fit(data.train.x)))


@broken("target-leak")
def the_label_as_a_code_among_the_columns():
    data = blobs()
    code = torch.tensor([5.0, 1.0, 3.0])
    for name in ("train", "val", "test"):
        split = data[name]
        data = changed(data, name, x=torch.cat([split.x, code[split.y][:, None]], 1))
    return checked(net(6, 3), data.with_(inputs=Standardize.fit(data.train.x)))


@broken("target-leak")
def the_label_one_hot_among_the_columns():
    data = blobs()
    for name in ("train", "val", "test"):
        split = data[name]
        data = changed(data, name, x=torch.cat([split.x, nn.functional.one_hot(split.y, 3).float()], 1))
    return checked(net(8, 3), data.with_(inputs=Identity()))


@broken("unscaled-input")
def wine_as_measured():
    x, y = bundled(datasets.load_wine, 3)
    return checked(net(13, 3), split_up(x, y, classes(3), inputs=Identity()))


@broken("unscaled-input")
def time_stamps():
    g = torch.Generator().manual_seed(0)
    x = torch.randn(300, 2, generator=g)
    y = x.sum(1) + 0.1 * torch.randn(300, generator=g)
    x[:, 0] = 1e4 + 20 * x[:, 0]
    return checked(net(2, 1), split_up(x, y, Target("real"), inputs=Identity()))


@broken("unscaled-input")
def metres_beside_nanometres():
    data = line(inputs=Identity())
    for name in ("train", "val", "test"):
        data = changed(data, name, x=data[name].x * torch.tensor([1.0, 1.0, 1.0, 1e-6]))
    return checked(net(4, 1), data)


@broken("unscaled-input")
def pixels_from_0_to_255():
    x, y = bundled(datasets.load_digits, 10)
    x = (x * 255 / 16).view(-1, 1, 8, 8)
    return checked(net(64, 10), split_up(x, y, classes(10), inputs=Identity()))


@broken("shared-rows")
def test_copied_from_train():
    data = blobs()
    return checked(net(5, 3), data.with_(test=data.train.take(torch.arange(60))))


@broken("shared-rows")
def copies_made_before_the_split():
    g = torch.Generator().manual_seed(0)
    x = torch.randn(200, 6, generator=g)
    y = (x.sum(1) > 0).long()
    fresh = torch.randn(200, 6, generator=g)
    rows = Split(torch.cat([x, fresh]), torch.cat([y, (fresh.sum(1) > 0).long()]))
    data = Data(
        rows.take(torch.arange(200)), rows.take(torch.arange(150, 250)), rows.take(torch.arange(300, 400)), classes(2)
    )
    return checked(net(6, 2), data)


# --- broken before the first step: the model


@broken("no-trainable-parameters")
def everything_frozen():
    return checked(net(5, 3).requires_grad_(False), blobs())


@broken("model-input")
def a_layer_for_another_width():
    model = nn.Sequential(nn.Linear(5, 16), nn.ReLU(), nn.Linear(8, 3))
    return checked(model, blobs())


@broken("model-input")
def rows_for_a_convolution():
    x, y = bundled(datasets.load_digits, 10)
    model = nn.Sequential(nn.Conv2d(1, 4, 3), nn.Flatten(), nn.Linear(4 * 36, 10))
    return checked(model, split_up(x, y, classes(10), inputs=Identity()))


@broken("output-shape")
def one_output_too_few():
    return checked(net(5, 2), blobs())


@broken("output-shape")
def the_last_axis_squeezed_away():
    class Squeezed(nn.Module):
        def __init__(self):
            super().__init__()
            self.map = nn.Linear(4, 1)

        def forward(self, x):
            return self.map(x).squeeze(-1)

    return checked(Squeezed(), line())


@broken("double-softmax")
def softmax_module_before_categorical():
    return checked(nn.Sequential(nn.Linear(5, 3), nn.Softmax(dim=1)), blobs())


@broken("double-softmax")
def softmax_call_before_categorical():
    class Soft(nn.Module):
        def __init__(self):
            super().__init__()
            self.map = nn.Linear(5, 3)

        def forward(self, x):
            return self.map(x).softmax(-1)

    return checked(Soft(), blobs())


@broken("double-softmax")
def softmax_by_hand_before_categorical():
    class ByHand(nn.Module):
        def __init__(self):
            super().__init__()
            self.map = nn.Linear(5, 3)

        def forward(self, x):
            odds = self.map(x).exp()
            return odds / odds.sum(1, keepdim=True)

    return checked(ByHand(), blobs())


@broken("double-softmax")
def sigmoid_before_bernoulli():
    data = blobs(count=2).with_(target=Target("binary"))
    return checked(nn.Sequential(nn.Linear(5, 1), nn.Sigmoid()), data)


@broken("relu-output")
def relu_after_the_last_layer():
    torch.manual_seed(0)
    return checked(nn.Sequential(nn.Linear(4, 16), nn.ReLU(), nn.Linear(16, 1), nn.ReLU()), line())


@broken("bounded-output")
def tanh_after_the_last_layer():
    return checked(nn.Sequential(nn.Linear(4, 1), nn.Tanh()), line())


@broken("non-finite-forward")
def a_logarithm_at_the_first_layer():
    class Log(nn.Module):
        def forward(self, x):
            return x.log()

    return checked(nn.Sequential(Log(), nn.Linear(4, 1)), line())


# --- broken before the first step: the first weights


def drawn(model, name, seed=0, data=None):
    batch = None if data is None else (data.inputs.encode(data.train.x), data.train.y)
    return initialise(model, name, torch.Generator().manual_seed(seed), batch)


@broken("vanishing-gradient")
def ten_layers_of_sigmoids_with_small_weights():
    return checked(drawn(net(5, 3, (50,) * 10, activation="sigmoid"), "normal(0.01)"), blobs())


@broken("vanishing-gradient")
def thirty_relu_layers_as_torch_draws_them():
    return checked(net(5, 3, (32,) * 30), blobs())


@broken("vanishing-gradient")
def the_same_small_variance_for_every_width():
    return checked(drawn(net(5, 3, (100,) * 12), "normal(0.001)"), blobs())


@broken("exploding-gradient")
def a_variance_of_one_on_twenty_layers():
    return checked(drawn(net(5, 3, (100,) * 20), "normal(1.0)"), blobs())


@broken("exploding-gradient")
def sixty_four_skips_that_each_double():
    return checked(drawn(net(4, 1, (32,) * 64, residual=True), "he"), line())


@broken("wild-start")
def a_variance_of_one_on_three_layers():
    return checked(drawn(net(5, 3, (100, 100)), "normal(1.0)"), blobs())


@broken("dead-units")
def every_bias_far_below_zero():
    model = net(5, 3, (32, 32))
    for layer in model.layers:
        nn.init.constant_(layer.map.bias, -20.0)
    return checked(model, blobs())


@broken("dead-units")
def negative_weights_for_positive_inputs():
    data = blobs(inputs=Identity())
    for name in ("train", "val", "test"):
        data = changed(data, name, x=data[name].x.abs())
    model = net(5, 3, (32,))
    with torch.no_grad():
        model.layers[0].map.weight.copy_(-model.layers[0].map.weight.abs())
        model.layers[0].map.bias.zero_()
    return checked(model, data)


@broken("saturated-units")
def tanh_with_weights_fifty_times_too_large():
    model = net(5, 3, (32, 32), activation="tanh")
    with torch.no_grad():
        model.layers[1].map.weight.mul_(100)
    return checked(model, blobs())


@broken("saturated-units")
def sigmoids_pushed_to_one_by_their_biases():
    model = net(5, 3, (32,), activation="sigmoid")
    nn.init.constant_(model.layers[0].map.bias, 20.0)
    return checked(model, blobs())


@broken("vanishing-signal")
def first_weights_of_a_billionth():
    model = net(5, 3, (32, 32), activation="tanh")
    with torch.no_grad():
        model.layers[0].map.weight.mul_(1e-9)
    return checked(model, blobs())


@broken("equal-units")
def every_weight_zero():
    model = net(5, 3, (32,))
    for p in model.parameters():
        nn.init.zeros_(p)
    return checked(model, blobs())


@broken("equal-units")
def every_weight_the_same_number():
    model = net(5, 3, (32, 32), activation="tanh")
    for p in model.parameters():
        nn.init.constant_(p, 0.1)
    return checked(model, blobs())


# --- broken while training


@broken("dead-units")
def biases_pushed_far_below_zero():
    model = net(5, 3, (32, 32))
    nn.init.constant_(model.layers[1].map.bias, -20.0)
    return train(model, blobs(), epochs=4)[0].findings


@broken("dead-units")
def dead_channels_of_a_convolution():
    torch.manual_seed(0)
    x, y = bundled(datasets.load_digits, 10)
    data = split_up(x.view(-1, 1, 8, 8)[:600] / 16, y[:600], classes(10), inputs=Identity())

    class Conv(nn.Module):
        def __init__(self):
            super().__init__()
            self.conv, self.head = nn.Conv2d(1, 16, 3), nn.Linear(16 * 36, 10)
            nn.init.constant_(self.conv.bias[:14].data, -50.0)

        def forward(self, x):
            return self.head(torch.relu(self.conv(x)).flatten(1))

    return train(Conv(), data, epochs=2)[0].findings


@broken("dead-units")
def gelu_units_out_of_reach():
    model = net(5, 3, (32,), activation="gelu")
    nn.init.constant_(model.layers[0].map.bias[:28].data, -30.0)
    return train(model, blobs(), epochs=2)[0].findings


@broken("saturated-units")
def first_weights_fifty_times_too_large():
    model = net(5, 3, (32,), activation="tanh")
    with torch.no_grad():
        model.layers[0].map.weight.mul_(50)
    return train(model, blobs(), epochs=4)[0].findings


@broken("saturated-units")
def inputs_as_measured_into_a_sigmoid():
    x, y = bundled(datasets.load_wine, 3)
    data = split_up(x, y, classes(3), inputs=Identity())
    return train(net(13, 3, (32,), activation="sigmoid"), data, epochs=4)[0].findings


@broken("vanishing-gradient")
def fifteen_layers_of_sigmoids():
    return train(net(5, 3, (16,) * 15, activation="sigmoid"), blobs(), epochs=2)[0].findings


@broken("exploding-gradient")
def waves_of_too_high_a_frequency():
    class Sine(nn.Module):  # bounded on the way forward, steep on the way back
        def forward(self, h):
            return torch.sin(30 * h)

    torch.manual_seed(0)
    layers = [nn.Linear(4, 16), Sine()]
    for _ in range(8):
        layers += [nn.Linear(16, 16), Sine()]
    return train(nn.Sequential(*layers, nn.Linear(16, 1)), line(), epochs=2, lr=1e-4)[0].findings


@broken("disconnected-parameters")
def a_branch_that_is_never_used():
    class Half(nn.Module):
        def __init__(self):
            super().__init__()
            self.used, self.forgotten = nn.Linear(4, 1), nn.Linear(4, 1)

        def forward(self, x):
            return self.used(x)

    torch.manual_seed(0)
    return train(Half(), line(), epochs=2)[0].findings


@broken("disconnected-parameters")
def a_detached_body():
    class Cut(nn.Module):
        def __init__(self):
            super().__init__()
            self.body, self.head = nn.Linear(4, 8), nn.Linear(8, 1)

        def forward(self, x):
            return self.head(torch.tanh(self.body(x)).detach())

    torch.manual_seed(0)
    return train(Cut(), line(), epochs=2)[0].findings


@broken("large-updates")
def learning_rate_a_thousand_times_too_large():
    return train(net(5, 3, activation="gelu"), blobs(spread=3.0), epochs=4, lr=3.0)[0].findings


@broken("small-updates")
def learning_rate_a_million_times_too_small():
    return train(net(5, 3), blobs(), epochs=2, lr=3e-9)[0].findings


@broken("loss-spike")
def a_burst_of_learning_rate():
    def burst(step, optimizer):
        for group in optimizer.param_groups:
            group["lr"] = 0.7 if step in (100, 101) else 3e-3

    return train(net(5, 3), blobs(spread=3.0), epochs=40, spoil=burst)[0].findings


@broken("loss-jump")
def learning_rate_that_never_comes_down_again():
    def surge(step, optimizer):
        for group in optimizer.param_groups:
            group["lr"] = 3.0 if step >= 100 else 3e-3

    found = train(net(5, 3, activation="gelu"), blobs(spread=3.0), epochs=20, spoil=surge)[0].findings
    return [finding for finding in found if finding.code != "large-updates"]  # true as well


# --- a step that failed


def _batch(data, count=32):
    return data.inputs.encode(data.train.x[:count]), data.train.y[:count], None, data.train.rows[:count]


@broken("non-finite-weights")
def a_weight_became_nan():
    model, data = net(4, 1), line()
    model.head.weight.data[0, 3] = math.nan
    return [locate(model, Normal(), *_batch(data), step=9)]


@broken("non-finite-input")
def a_batch_with_nan():
    model, (x, y, weight, rows) = net(4, 1), _batch(line())
    x[5, 1] = math.nan
    return [locate(model, Normal(), x, y, weight, rows, step=9)]


@broken("non-finite-forward")
def weights_overflow():
    model, data = net(4, 1, (16, 16)), line()
    with torch.no_grad():
        model.layers[0].map.weight.mul_(1e25)
        model.layers[1].map.weight.mul_(1e25)
    return [locate(model, Normal(), *_batch(data), step=9)]


@broken("non-finite-loss")
def outputs_too_large_to_square():
    model, data = net(4, 1), line()
    with torch.no_grad():
        model.head.weight.mul_(1e25)
    return [locate(model, Normal(), *_batch(data), step=9)]


@broken("non-finite-backward")
def root_of_zero():
    class Length(nn.Module):
        def forward(self, h):
            return h.square().sum(1, keepdim=True).sqrt()

    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), Length(), nn.Linear(1, 1))
    nn.init.constant_(model[0].bias, -50.0)  # nothing passes the ReLU: the length is 0, its slope is infinite
    return [locate(model, Normal(), *_batch(line()), step=9)]


@broken("diverged")
def only_the_update_is_at_fault():
    return [locate(net(4, 1), Normal(), *_batch(line()), step=9)]


# --- broken in the end


def _ended(model, data, likelihood=None, **options):
    _, history, likelihood = train(model, data, likelihood, **options)
    return judge(model, data, likelihood, history)


@broken("underfitting")
def stopped_before_it_learned():
    model = net(4, 1)
    nn.init.zeros_(model.head.weight)
    return _ended(model, line(), epochs=6, lr=1e-5)


@broken("underfitting")
def a_line_for_a_ring():
    torch.manual_seed(0)
    x = 2 * torch.rand(600, 2) - 1
    y = (x.square().sum(1) > 2 / math.pi).long()
    return _ended(Linear(2, 2), split_up(x, y, classes(2)), epochs=20)


@broken("overfitting")
def a_large_net_on_few_noisy_rows():
    torch.manual_seed(0)
    x = torch.randn(500, 20)
    y = x[:, :4].sum(1) + 0.5 * torch.randn(500)
    data = split_up(x, y, Target("real"), parts=(0.16, 0.42))
    found = _ended(net(20, 1, (256, 256)), data, Normal("fixed"), epochs=100, lr=1e-2)
    return found


@broken("no-better-than-constant")
def labels_shuffled():
    torch.manual_seed(0)
    x, y = torch.randn(300, 10), torch.randint(0, 2, (300,))
    model, data = net(10, 2, (128,)), split_up(x, y, classes(2))
    _, history, likelihood = train(model, data.with_(val=data.val.take(torch.arange(0))), epochs=60, lr=1e-2)
    found = judge(model, data, likelihood, history)
    return [f for f in found if f.code not in ("overfitting", "miscalibrated")]  # true as well


@broken("miscalibrated")
def logits_ten_times_too_bold():
    model, data = Linear(5, 3), blobs(n=1500, spread=4.0)
    torch.manual_seed(0)
    _, history, likelihood = train(model, data, epochs=10)
    with torch.no_grad():
        for p in model.parameters():
            p.mul_(10)
    return judge(model, data, likelihood, history)


@broken("interval-coverage")
def noise_that_grew_after_training():
    model, data = net(4, 1), line(n=1000)
    _, history, likelihood = train(model, data, epochs=15)
    with torch.no_grad():
        likelihood.rho -= 0.3
    return judge(model, data, likelihood, history)


@broken("test-worse-than-val")
def test_from_another_source():
    data = blobs(n=900)
    g = torch.Generator().manual_seed(1)
    shifted = data.test.x + 3.0 * torch.randn(len(data.test), 5, generator=g)
    data = changed(data, "test", x=shifted)
    found = _ended(net(5, 3), data)
    return [f for f in found if f.code != "miscalibrated"]  # true as well


# --- rows that are read step by step


def told_first(steps=60, n=600, at=0):
    """Rows of noise; the answer is what the first channel has at one step."""
    g = torch.Generator().manual_seed(0)
    x = torch.randn(n, steps, 2, generator=g)
    return split_up(x, x[:, at, 0] + 0.1 * torch.randn(n, generator=g), Target("real"), inputs=Identity())


def listener(cell="elman", pool="last", **sizes):
    torch.manual_seed(0)
    return Recurrent(1, channels=2, **{"cell": cell, "dim": 16, "num_layers": 1, "pool": pool, "p_drop": 0.0, **sizes})


@broken("vanishing-recurrence")
def what_elman_was_told_sixty_steps_ago():
    return checked(listener(), told_first())


@broken("vanishing-recurrence")
def a_deep_step_forgets_sooner():
    return checked(listener("deep_transition", num_layers=2), told_first(40))


@broken("vanishing-recurrence")
def torchs_own_layer_with_its_last_step():
    class Reader(nn.Module):
        def __init__(self):
            super().__init__()
            self.read, self.head = nn.RNN(2, 16), nn.Linear(16, 1)

        def forward(self, x):
            return self.head(self.read(x.transpose(0, 1))[0][-1])

    torch.manual_seed(0)
    return checked(Reader(), told_first())


@broken("vanishing-recurrence")
def gates_that_forget_at_once():
    model = listener("lstm")
    with torch.no_grad():
        model.layers[0].branch.kernel.bias_ih_l0[16:32] = -4.0
    data = told_first()
    found = checked(model, data)
    return found + train(model, data, epochs=4)[0].findings


@broken("exploding-recurrence")
def recurrent_weights_that_are_far_too_large():
    model = listener()
    nn.init.orthogonal_(model.layers[0].branch.kernel.weight_hh_l0, 5.0)
    return checked(model, told_first(80))


@broken("exploding-recurrence")
def half_waves_that_grow():
    model = listener(residual=False)
    model.layers[0].branch = Elman(2, 16, "relu")
    model.layers[0].branch.kernel.weight_hh_l0.data.copy_(1.3 * torch.eye(16))
    return checked(model, told_first(100))


@broken("exploding-recurrence")
def growth_that_training_does_not_mend():
    model = listener()
    nn.init.orthogonal_(model.layers[0].branch.kernel.weight_hh_l0, 5.0)
    return train(model, told_first(80, n=300), epochs=2, lr=1e-4)[0].findings


@healthy
def every_cell_with_a_mean_over_long_rows():
    data = told_first()
    cells = ("elman", "lstm", "gru", "deep_transition", "min_gru", "min_lstm", "lru")
    return [f for cell in cells for f in checked(listener(cell, "mean", num_layers=2), data)]


@healthy
def gated_cells_that_answer_at_the_last_step():
    data = told_first(100)
    return [f for cell in ("lstm", "gru", "min_gru", "min_lstm", "lru") for f in checked(listener(cell), data)]


@healthy
def elman_and_the_last_few_steps():
    return whole(listener(), told_first(15, at=12), epochs=10, lr=1e-2)


@healthy
def an_lru_that_recalls_the_first_step():
    return whole(listener("lru", dim=32), told_first(24), epochs=10, lr=6e-3)


@healthy
def a_gru_whose_answer_lies_near_the_end():
    return whole(listener("gru"), told_first(60, n=300, at=57), epochs=7, lr=6e-3)


@healthy
def an_elman_that_has_learned_the_last_steps_is_trained_on():
    model, data = listener(), told_first(60, n=300, at=58)
    train(model, data, epochs=8, lr=1e-2)
    return checked(model, data)


@healthy
def orthogonal_elman_at_forty_steps():
    model = listener()
    nn.init.orthogonal_(model.layers[0].branch.kernel.weight_hh_l0)
    return checked(model, told_first(40))


# --- rows of tokens


def tokens_of(rows, tokenizer, length):
    """Rows of tokens of two classes, told by the first token."""
    x = padded(rows, length, tokenizer.num_tokens)
    y = torch.tensor([int(row[0]) % 2 for row in rows])
    parts = [Split(x[a::3], y[a::3]) for a in range(3)]
    return Data(*parts, Target("classes", classes=("even", "odd")), Tokens("classes", length, tokenizer))


def reader(data, **sizes):
    torch.manual_seed(0)
    return build("BERT", data, 2, dim=16, num_layers=1, num_heads=2, **sizes)


def letters(count=360, length=24, least=24):
    """Rows of random letters, of `least` to `length` of them."""
    draw, own = np.random.default_rng(0), Tokenizer.train([], "bytes")
    first = int(np.flatnonzero(~own.special)[0]) + 97
    return [first + draw.integers(0, 26, draw.integers(least, length + 1)) for _ in range(count)], own


@broken("mostly-padding")
def one_long_text_among_short_ones():
    rows, own = letters(least=4, length=7)
    rows[0] = np.resize(rows[0], 40)
    data = tokens_of(rows, own, 40)
    return checked(reader(data), data)


@broken("unused-vocabulary")
def a_tokenizer_of_another_language():
    own = Tokenizer.train((f"word{k} thing{k * 7} a{k}b" for k in range(3000)), "bpe", num_tokens=1400)
    draw, known = np.random.default_rng(0), np.flatnonzero(~own.special)
    data = tokens_of(known[draw.integers(0, 300, (900, 32))], own, 32)
    return checked(reader(data), data)


def text_of(rows, own, length, task="next"):
    """Rows of tokens of which each asks for the next one."""
    x = padded(rows, length, own.num_tokens)
    x, y = x[:, :-1], x[:, 1:]
    parts = [Split(x[a::3], y[a::3]) for a in range(3)]
    return Data(*parts, Target("tokens", dim=own.num_tokens), Tokens(task, length, own))


@broken("sees-ahead")
def a_model_that_looks_both_ways_is_asked_for_the_next_word():
    data = text_of(*letters(), 24)
    torch.manual_seed(0)
    return checked(BERT(data.target.dim, 24, data.target.dim, dim=16, num_layers=1, num_heads=2), data)


@broken("model-input")
def a_vocabulary_that_is_smaller_than_that_of_the_rows():
    data = text_of(*letters(), 24)
    return checked(GPT(50, 24, dim=16, num_layers=1, num_heads=2), data)


@healthy
def a_model_that_looks_back_is_asked_for_the_next_word():
    data = text_of(*letters(), 24)
    torch.manual_seed(0)
    return checked(GPT(data.target.dim, 24, dim=16, num_layers=1, num_heads=2), data)


@healthy
def letters_of_two_kinds():
    data = tokens_of(*letters(), 24)
    return checked(reader(data), data)


@healthy
def texts_of_many_lengths():
    data = tokens_of(*letters(least=8), 24)
    return checked(reader(data), data)


# --- healthy: nothing may be said


@healthy
def digits_scaled():
    x, y = bundled(datasets.load_digits, 10)
    return whole(net(64, 10, (64,)), split_up(x, y, classes(10)))


@healthy
def digits_as_pixels_to_16():
    x, y = bundled(datasets.load_digits, 10)
    return whole(net(64, 10, (64,)), split_up(x, y, classes(10), inputs=Identity()))


@healthy
def digits_as_images():
    torch.manual_seed(0)
    x, y = bundled(datasets.load_digits, 10)
    conv = nn.Sequential(
        nn.Conv2d(1, 16, 3, padding=1), nn.BatchNorm2d(16), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(256, 10)
    )
    return whole(conv, split_up(x.view(-1, 1, 8, 8) / 16, y, classes(10), inputs=Identity()), epochs=4)


@healthy
def wine_scaled():
    x, y = bundled(datasets.load_wine, 3)
    return whole(net(13, 3), split_up(x, y, classes(3)), epochs=20)


@healthy
def wine_linear():
    x, y = bundled(datasets.load_wine, 3)
    torch.manual_seed(0)
    return whole(Linear(13, 3), split_up(x, y, classes(3)), epochs=40, lr=1e-2)


@healthy
def iris_as_measured():
    x, y = bundled(datasets.load_iris, 3)
    return whole(net(4, 3), split_up(x, y, classes(3), inputs=Identity()), epochs=60, lr=1e-2)


@healthy
def iris_in_every_split():
    x, y = bundled(datasets.load_iris, 3)
    found = []
    for seed in range(20):  # it holds one row twice: now and then the pair is torn apart
        found += checked(net(4, 3), split_up(x, y, classes(3), seed=seed))
    return found


@healthy
def breast_cancer_scaled():
    x, y = bundled(datasets.load_breast_cancer, 2)
    data = split_up(x, y, Target("binary", classes=("no", "yes")))
    return whole(net(30, 1, (16,)), data, epochs=10)


@healthy
def diabetes_linear():
    x, y = bundled(datasets.load_diabetes)
    torch.manual_seed(0)
    return whole(Linear(10, 1), split_up(x, y, Target("real")), epochs=40, lr=1e-2)


@healthy
def diabetes_as_shipped():
    x, y = bundled(datasets.load_diabetes)  # columns of deviation 0.05
    return whole(net(10, 1, (16,)), split_up(x, y, Target("real"), inputs=Identity()), epochs=30, lr=1e-2)


@healthy
def blobs_close():
    return whole(net(5, 3), blobs(spread=2.0))


@healthy
def blobs_far_apart():
    return whole(net(2, 3), blobs(d=2, spread=0.01))


@healthy
def blobs_with_leaky_units():
    return whole(net(5, 3, (64, 64), activation="leaky_relu"), blobs(n=800))


@healthy
def moons():
    x, y = datasets.make_moons(600, noise=0.15, random_state=0)
    data = split_up(torch.tensor(x, dtype=torch.float32), torch.tensor(y).long(), Target("binary"))
    return whole(net(2, 1, (32, 32), activation="tanh"), data, epochs=60, lr=1e-2)


@healthy
def circles():
    x, y = datasets.make_circles(600, noise=0.1, factor=0.4, random_state=0)
    data = split_up(torch.tensor(x, dtype=torch.float32), torch.tensor(y).long(), classes(2))
    return whole(net(2, 2, (32, 32)), data, epochs=30, lr=1e-2)


@healthy
def exclusive_or():
    x = torch.tensor([[0.0, 0], [0, 1], [1, 0], [1, 1]])
    y = torch.tensor([0, 1, 1, 0])
    everything = Split(x, y)  # there are only four rows: every split holds them
    data = Data(everything, everything, everything, Target("binary"))
    return whole(net(2, 1, (16,), activation="tanh"), data, epochs=300, lr=1e-2)


@healthy
def parity_of_four_bits():
    x = torch.cartesian_prod(*[torch.tensor([-1.0, 1.0])] * 4)
    y = (x.prod(1) > 0).long()
    everything = Split(x, y)
    data = Data(everything, everything, everything, Target("binary"))
    return whole(net(4, 1, (64,)), data, epochs=200, lr=1e-2)


@healthy
def one_hot_columns():
    g = torch.Generator().manual_seed(0)
    codes = torch.randint(0, 6, (600, 3), generator=g)
    x = nn.functional.one_hot(codes, 6).flatten(1).float()
    score = torch.randn(18, generator=g)
    y = (x @ score + 0.5 * torch.randn(600, generator=g) > 0).long()
    return whole(Linear(18, 2), split_up(x, y, classes(2), inputs=Identity()), epochs=30, lr=1e-2)


@healthy
def sparse_words():
    g = torch.Generator().manual_seed(0)
    x = (torch.rand(3000, 100, generator=g) < 0.03).float()
    x[:, :30] = (torch.rand(3000, 30, generator=g) < 0.0005).float()
    y = (x[:, 40:60].sum(1) > 0).long()
    return whole(Linear(100, 2), split_up(x, y, classes(2), inputs=Identity()), lr=1e-2)


@healthy
def few_answers_to_few_questions():
    g = torch.Generator().manual_seed(0)
    x = torch.randint(0, 3, (900, 5), generator=g).float()  # 243 possible rows: most come several times
    y = (x.sum(1) + torch.randn(900, generator=g) > 5).long()
    return whole(Linear(5, 2), split_up(x, y, classes(2)), epochs=30, lr=1e-2)


@healthy
def rare_class():
    g = torch.Generator().manual_seed(0)
    y = (torch.rand(2000, generator=g) < 0.03).long()
    x = torch.randn(2000, 4, generator=g) + 2.5 * y[:, None]
    return whole(net(4, 1, (16,)), split_up(x, y, Target("binary")), epochs=10)


@healthy
def forty_rows():
    return whole(Linear(4, 1), line(n=40), epochs=60, lr=3e-2)


@healthy
def many_columns():
    return whole(Linear(60, 1), line(n=1500, d=60), epochs=30, lr=5e-3)


@healthy
def large_numbers_standardised():
    g = torch.Generator().manual_seed(0)
    x = torch.randn(500, 4, generator=g) * torch.tensor([1e6, 1e-3, 50.0, 1.0]) + torch.tensor([1e6, 0.0, 2000.0, 1.0])
    z = (x - x.mean(0)) / x.std(0)
    y = 1e5 * (z.sum(1) + 0.3 * torch.randn(500, generator=g))
    return whole(net(4, 1), split_up(x, y, Target("real")), epochs=40)


@healthy
def double_precision():
    data = line()
    for name in ("train", "val", "test"):
        data = changed(data, name, x=data[name].x.double(), y=data[name].y.double())
    return whole(net(4, 1).double(), data, Normal.for_target(data.target).double(), epochs=30)


@healthy
def batch_normalised():
    return whole(net(5, 3, (32, 32), norm="batch"), blobs(n=600))


@healthy
def residual_with_dropout():
    return whole(net(4, 1, (32,) * 6, norm="layer", p_drop=0.1, residual=True), line(n=800), epochs=15)


@healthy
def some_dead_units():
    model = net(5, 3, (32,))
    nn.init.constant_(model.layers[0].map.bias[:10].data, -30.0)
    return whole(model, blobs())


@healthy
def variance_that_changes_with_x():
    g = torch.Generator().manual_seed(0)
    x = torch.randn(1000, 1, generator=g)
    y = 2 * x[:, 0] + (0.2 + 0.5 * (x[:, 0] > 0)) * torch.randn(1000, generator=g)
    data = split_up(x, y, Target("real"))
    return whole(net(1, 2), data, Normal.for_target(data.target, variance="input"), epochs=30, lr=1e-2)


@healthy
def noiseless_line():
    x = torch.linspace(-1, 1, 200)[:, None]
    data = split_up(x, 2 * x[:, 0] + 1, Target("real"))
    return whole(Linear(1, 1), data, Normal.for_target(data.target, variance="fixed"), epochs=40, lr=3e-2)


@healthy
def heavy_tailed_noise_one_row_a_step():
    g = torch.Generator().manual_seed(0)
    x = torch.randn(300, 3, generator=g)
    t = torch.distributions.StudentT(3.0)
    torch.manual_seed(0)
    y = 2 * x.sum(1) + 0.5 * t.sample((300,))
    return whole(Linear(3, 1), split_up(x, y, Target("real")), epochs=10, batch=1)


@healthy
def last_batch_of_one_row():
    return whole(net(5, 3), blobs(n=401, parts=(241 / 401, 0.2), spread=2.0), epochs=30, batch=16)


@healthy
def plain_gradient_descent():
    return whole(net(5, 3), blobs(), epochs=16, make=lambda p: torch.optim.SGD(p, lr=0.05, momentum=0.9))


@healthy
def missing_values_that_are_filled():
    class Filled(Identity):
        def encode(self, x):
            return x.nan_to_num(0.0)

    data = line(inputs=Filled(), noise=0.3)
    x = data.train.x.clone()
    x[::9, 1] = math.nan
    return whole(net(4, 1), changed(data, x=x), epochs=20)


@healthy
def tokens_and_embeddings():
    g = torch.Generator().manual_seed(0)
    x = torch.randint(1, 50, (600, 12), generator=g)
    x[:, 0] = 0  # every text begins alike
    y = (x == 7).any(1).long() | (x == 9).any(1).long()

    class Bag(nn.Module):
        def __init__(self):
            super().__init__()
            self.embed, self.head = nn.Embedding(50, 16), nn.Linear(16, 2)

        def forward(self, x):
            return self.head(self.embed(x).sum(1))

    torch.manual_seed(0)
    return whole(Bag(), split_up(x, y, classes(2), inputs=Identity()), epochs=20, lr=1e-2)


@healthy
def recurrent_net():
    g = torch.Generator().manual_seed(0)
    x = torch.randn(500, 10, 2, generator=g)
    y = x[:, :, 0].sum(1) * 0.3 + 0.1 * torch.randn(500, generator=g)

    class Reader(nn.Module):
        def __init__(self):
            super().__init__()
            self.read, self.head = nn.LSTM(2, 16, batch_first=True), nn.Linear(16, 1)

        def forward(self, x):
            return self.head(self.read(x)[0][:, -1])

    torch.manual_seed(0)
    return whole(Reader(), split_up(x, y, Target("real"), inputs=Identity()), epochs=15, lr=1e-2)


# --- graphs


def graph_net(data, name="GCN", **sizes):
    return build(name, data, 1, **{"dim": 16, **sizes})


def regraphed(data, **changes):
    """The same data with parts of its graph replaced."""
    graph = dataclasses.replace(data.inputs.graph, **changes)
    return data.with_(inputs=data.inputs.holding(graph, data.inputs.ids))


@broken("isolated-nodes")
def edges_that_find_few_of_their_nodes():
    data = communities(num=200, degree=2.0)
    edges = data.inputs.graph.edges
    few = edges.pairs[:, (edges.pairs < 60).all(0)]
    data = regraphed(data, edges=Edges.of(few, 200).with_(directed=False))
    return checked(graph_net(data), data)


@broken("constant-nodes")
def means_over_nodes_without_features():
    data = communities(num=200)
    data = regraphed(data, x=torch.ones(200, 16))
    return checked(graph_net(data, "GraphSAGE"), data)


@broken("constant-nodes")
def attention_over_nodes_without_features():
    data = communities(num=200)
    data = regraphed(data, x=torch.ones(200, 16))
    return checked(graph_net(data, "GAT"), data)


@broken("unlike-neighbours")
def friends_of_the_other_side():
    data = communities(num=400, same=0.1)
    return checked(graph_net(data), data)


@broken("over-smoothed")
def thirty_layers_that_say_one_thing():
    data = communities(num=200)
    model = graph_net(data, num_layers=30)
    _, history, likelihood = train(model, data, epochs=6, batch=200, lr=1e-2)
    return judge(model, data, likelihood, history)


@healthy
def a_graph_with_communities():
    data = communities(num=400, signal=1.0)
    return whole(graph_net(data), data, epochs=40, batch=400, lr=1e-2)


@healthy
def a_graph_with_communities_and_attention():
    data = communities(num=400, signal=1.0)
    return whole(graph_net(data, "GAT"), data, epochs=40, batch=400, lr=1e-2)


@healthy
def friends_of_the_other_side_told_apart():
    data = communities(num=400, same=0.1, signal=1.0)
    return whole(graph_net(data, "GraphSAGE"), data, epochs=30, batch=400, lr=1e-2)


@healthy
def sums_that_count_neighbours_of_constant_nodes():
    data = communities(num=200)
    data = regraphed(data, x=torch.ones(200, 16))
    return checked(graph_net(data, "GIN"), data)


@healthy
def many_small_graphs():
    data = molecules(num=120)
    return checked(build("GIN", data, 1, dim=16), data)


# --- healthy first weights


@healthy
def fifty_relu_layers_by_he():
    data = blobs()
    return [f for seed in range(5) for f in checked(drawn(net(5, 3, (100,) * 50), "he", seed), data)]


@healthy
def thirty_orthogonal_layers_of_tanh():
    return whole(drawn(net(5, 3, (16,) * 30, activation="tanh"), "orthogonal"), blobs(), lr=1e-3)


@healthy
def sixty_four_skips_with_fixup():
    return whole(drawn(net(4, 1, (32,) * 64, residual=True), "fixup"), line(), epochs=8, lr=1e-3)


@healthy
def skips_that_begin_as_nothing():
    torch.manual_seed(0)
    block = lambda: Skip(nn.Sequential(nn.Linear(16, 16), nn.ReLU(), nn.Linear(16, 16)))  # noqa: E731
    model = nn.Sequential(nn.Linear(4, 16), *[block() for _ in range(10)], nn.Linear(16, 1))
    return whole(drawn(model, "skipinit"), line(), epochs=15)


@healthy
def a_head_of_zeros():
    model = net(5, 3, (32, 32))
    nn.init.zeros_(model.head.weight), nn.init.zeros_(model.head.bias)
    return whole(model, blobs())


@healthy
def logistic_regression_from_zero():
    model = Linear(5, 3)
    for p in model.parameters():
        nn.init.zeros_(p)
    return whole(model, blobs(), lr=1e-2)


@healthy
def large_weights_behind_batch_normalisation():
    return whole(drawn(net(5, 3, (64,) * 6, norm="batch"), "normal(1.0)"), blobs(n=600))


@healthy
def ten_layers_of_unit_variance():
    data = blobs()
    return whole(drawn(net(5, 3, (32,) * 10), "lsuv", data=data), data, lr=1e-3)


@healthy
def thirty_delta_orthogonal_convolutions():
    torch.manual_seed(0)
    x, y = bundled(datasets.load_digits, 10)
    data = split_up(x.view(-1, 1, 8, 8) / 16, y, classes(10), inputs=Identity())
    layers = [nn.Conv2d(1, 16, 3, padding=1), nn.Tanh()]
    for _ in range(29):
        layers += [nn.Conv2d(16, 16, 3, padding=1), nn.Tanh()]
    return checked(drawn(nn.Sequential(*layers, nn.Flatten(), nn.Linear(1024, 10)), "delta_orthogonal"), data)


@healthy
def narrow_nets_of_many_draws():
    data, found = line(), []
    for seed in range(15):
        for activation in ("relu", "gelu", "tanh", "selu", "softplus"):
            found += checked(net(4, 1, (8, 8), seed=seed, activation=activation), data)
    return found


@healthy
def a_trained_net_that_is_trained_on():
    model, data = net(2, 3, (32,), activation="tanh"), blobs(d=2, spread=0.01)
    train(model, data, epochs=40, lr=1e-2)
    with torch.no_grad():
        for p in model.layers[0].map.parameters():
            p.mul_(100)  # sure of itself, and right
    return checked(model, data)


@healthy
def attention_over_tokens():
    class Reader(nn.Module):
        def __init__(self):
            super().__init__()
            self.embed, self.head = nn.Embedding(50, 16), nn.Linear(16, 2)
            self.layer = nn.TransformerEncoder(nn.TransformerEncoderLayer(16, 2, 32, batch_first=True), 2)

        def forward(self, x):
            return self.head(self.layer(self.embed(x)).mean(1))

    torch.manual_seed(0)
    g = torch.Generator().manual_seed(0)
    x = torch.randint(0, 50, (300, 12), generator=g)
    return checked(Reader(), split_up(x, (x == 7).any(1).long(), classes(2), inputs=Identity()))
