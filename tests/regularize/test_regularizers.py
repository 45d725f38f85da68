"""Every registered regulariser keeps one contract; each penalty has the gradient of its closed form."""

import os
import signal

import pytest
import torch
from torch import nn
from torch.func import functional_call, grad, vmap
from torch.fx.experimental.proxy_tensor import make_fx

import leadline as ll
from leadline.data.data import Batch
from leadline.engine.events import StepsDone
from leadline.errors import UserError
from leadline.layers import noise
from leadline.likelihoods import Categorical, Normal
from leadline.optim.objective import Objective
from leadline.regularize import REGULARIZERS, Augmentation, Confusion, Distillation, Pull, regularizer, soft_loss, words

WORDS = [word for word, kind in REGULARIZERS.items() if not issubclass(kind, Augmentation)]  # the rest need pictures
WORDS.remove("orthogonal")  # which needs clouds of points, and is held in tests/models/test_set_models.py


def batch(num=6, dtype=torch.float64, weight=True):
    g = torch.Generator().manual_seed(1)
    x, y = torch.randn(num, 3, generator=g, dtype=dtype), torch.arange(num) % 4
    keys = noise.example_keys(0, 1, torch.arange(num))
    return Batch(x, y, torch.rand(num, generator=g, dtype=dtype) + 0.5 if weight else None, None, keys)


def objective(*given, p_drop=0.3, dtype=torch.float64):
    torch.manual_seed(3)
    model = ll.models.MLP(3, (5,), 4, activation="tanh", p_drop=p_drop).to(dtype)
    with torch.no_grad():  # a clear largest direction, which power iteration finds in a few turns
        model.layers[0].map.weight[0] += 3.0
        model.head.weight[0] += 3.0
    return Objective(model, Categorical(4), [regularizer(r).to(dtype) for r in given])


def parameters(made):
    return {name: p.detach().clone() for name, p in made.named_parameters()}


@pytest.mark.parametrize("word", WORDS)
def test_words_and_configs_build_the_same_again(word):
    made = regularizer(word)
    odd = type(made)(**{name: value * (1 + 1 / 3e4) for name, value in made.config.items()})
    for each in (made, odd):
        assert type(each)(**each.config).config == each.config
        assert regularizer(each.word).config == each.config
        assert words([each]) == (each.word,)
    assert made.mechanism in ll.regularize.MECHANISMS
    with pytest.raises(UserError, match="must be a number"):
        type(made)(-1.0)


@pytest.mark.parametrize("word", WORDS)
def test_gradients_are_those_of_the_loss(word):
    made, rows = objective(word), batch()
    start = parameters(made)

    def loss(*values):
        return functional_call(made, dict(zip(start, values, strict=True)), (rows,))

    assert torch.autograd.gradcheck(loss, tuple(p.requires_grad_() for p in start.values()), atol=1e-6, rtol=1e-5)


@pytest.mark.parametrize("word", WORDS)
def test_members_of_a_stack_have_strengths_of_their_own(word):
    kind, rows = REGULARIZERS[word], batch()
    [(first, usual), *_] = regularizer(word).config.items()
    each = [objective(kind(**{first: value})) for value in (usual, usual * (1000 if word == "flooding" else 3))]
    weights = parameters(each[0])
    buffers = {name: torch.stack([dict(o.named_buffers())[name] for o in each]) for name, _ in each[0].named_buffers()}

    def slope(own):
        return grad(lambda values: functional_call(each[0], {**values, **own}, (rows,)))(weights)

    stacked = vmap(slope)(buffers)
    for k, one in enumerate(each):
        alone = grad(lambda values, one=one: functional_call(one, values, (rows,)))(weights)
        for name, value in alone.items():
            torch.testing.assert_close(stacked[name][k], value)
    assert any(not torch.equal(value[0], value[1]) for value in stacked.values())


@pytest.mark.parametrize("word", WORDS)
def test_a_step_can_be_traced_and_the_trace_serves_other_rows(word):
    made = objective(word, dtype=torch.float32)
    weights, buffers = parameters(made), dict(made.named_buffers())

    def slope(x, y, weight, keys, *flat):
        rows = Batch(x, y, weight, None, keys)
        fresh = {name: b.clone() for name, b in buffers.items()}
        values = dict(zip(weights, flat, strict=True))
        return grad(lambda v: functional_call(made, {**v, **fresh}, (rows,)))(values)["model.head.weight"]

    one, other = batch(dtype=torch.float32), batch(dtype=torch.float32)
    other = Batch(other.x.flip(0) + 1, other.y.flip(0), other.weight, None, other.keys + 5)
    columns = lambda b: (b.x, b.y, b.weight, b.keys, *weights.values())  # noqa: E731
    traced = make_fx(slope, tracing_mode="fake", _allow_non_fake_inputs=True)(*columns(one))
    for rows in (one, other):
        torch.testing.assert_close(traced(*columns(rows)), slope(*columns(rows)))


@pytest.mark.parametrize("word", [word for word in WORDS if not REGULARIZERS[word].whole_batch])
def test_micro_batches_add_up_to_the_whole(word):
    made, rows = objective(word), batch(7)
    whole = made(rows)
    parts = [made(part, rows.weight.sum()) for part in rows.parts(3)]
    torch.testing.assert_close(sum(parts), whole)
    slopes = [torch.autograd.grad(loss, list(made.model.parameters())) for loss in (whole, sum(parts))]
    for one, other in zip(*slopes, strict=True):
        torch.testing.assert_close(one, other)


@pytest.mark.parametrize("word", WORDS)
def test_it_trains_and_leaves_metrics_plain(word):
    data = ll.data.blobs(num=60)
    torch.manual_seed(0)
    model = ll.models.MLP(2, (6,), 3)
    run = ll.fit(model, data, epochs=1, batch=16, regularize=word, progress=False)
    assert run.settings.regularize == (regularizer(word).word,)
    plain = run.likelihood.measures(run.outputs("test"), data.test.y)["nll"].mean()
    assert run.evaluate("test")["nll"] == pytest.approx(float(plain), rel=1e-5)


@pytest.mark.parametrize("word", [word for word in WORDS if REGULARIZERS[word].whole_batch])
def test_what_needs_all_rows_of_a_step_refuses_micro_batches(word):
    with pytest.raises(UserError, match="at once"):
        ll.fit(ll.models.Linear(2, 3), ll.data.blobs(num=60), regularize=word, accumulate=2, progress=False)


def test_a_noisy_run_that_was_stopped_ends_as_the_one_that_never_was(tmp_path):
    noisy = ("input_noise(0.3)", "weight_noise(0.05)", "label_noise(0.2)", "mixup(0.5)", "mask(0.2)")

    def fit(folder, *listeners):
        torch.manual_seed(0)
        model = ll.models.MLP(2, (6,), 3, norm="batch")
        return ll.fit(
            model, ll.data.blobs(num=60), epochs=3, batch=16, regularize=noisy, folder=folder, progress=False,
            with_report=False, listeners=listeners,
        )  # fmt: skip

    def stop(event):
        if isinstance(event, StepsDone) and event.step == 4:
            os.kill(os.getpid(), signal.SIGINT)

    through = fit(tmp_path / "a")
    fit(tmp_path / "b", stop)
    taken_up = ll.resume(tmp_path / "b", progress=False, with_report=False)
    assert taken_up.history == through.history
    for one, other in zip(through.model.state_dict().values(), taken_up.model.state_dict().values(), strict=True):
        assert torch.equal(one, other)


# ── each closed form ─────────────────────────────────────────────────────────────────────────────────────────────────


def pushed(word, weight, head=None):
    """Gradient of the penalty alone on the one weight matrix of a linear map, and on its bias."""
    layers = [nn.Linear(weight.shape[1], weight.shape[0])] + ([nn.Linear(1, 1)] if head else [])
    model = nn.Sequential(*layers).double()
    with torch.no_grad():
        model[0].weight.copy_(weight)
    made = regularizer(word) if isinstance(word, str) else word
    loss = made.double().objective(torch.zeros((), dtype=torch.float64), model, 0.5)
    loss.backward()
    return model[0].weight.grad, model[0].bias.grad


W = torch.tensor([[3.0, -4.0], [0.5, 0.0]], dtype=torch.float64)


@pytest.mark.parametrize(
    ("word", "closed"),
    [
        ("l2(0.1)", 0.5 * 0.1 * 2 * W),
        ("l1(0.1)", 0.5 * 0.1 * W.sign()),
        ("l_half(0.1)", 0.5 * 0.1 * W.sign() / (2 * (W.abs() + 1e-6).sqrt())),
        ("elastic_net(0.1, 0.2)", 0.5 * (0.1 * W.sign() + 0.2 * 2 * W)),
        ("group_lasso(0.1)", 0.5 * 0.1 * 2**0.5 * W / W.norm(dim=1, keepdim=True)),
    ],
)
def test_a_penalty_pushes_weights_as_its_closed_form_and_biases_not_at_all(word, closed):
    weight, bias = pushed(word, W, head=word.startswith("group"))
    torch.testing.assert_close(weight, closed)
    assert bias is None


def test_the_spectral_penalty_pushes_along_the_first_singular_pair():
    u, s, v = torch.linalg.svd(W)
    torch.testing.assert_close(pushed("spectral(0.1)", W)[0], 0.5 * 0.1 * 2 * s[0] * torch.outer(u[:, 0], v[0]))


def test_a_pull_is_towards_its_centre_by_name():
    model, centre = nn.Linear(2, 2).double(), nn.Linear(2, 2).double()
    pull = Pull(0.1, {"weight": centre.weight, "other": torch.ones(3)})
    pull.objective(torch.zeros((), dtype=torch.float64), model, 1.0).backward()
    torch.testing.assert_close(model.weight.grad, 0.2 * (model.weight - centre.weight).detach())
    assert model.bias.grad is None


def test_the_gradient_penalty_is_the_squared_gradient():
    made, plain, rows = objective("gradient_norm(0.3)"), objective(), batch()
    slopes = torch.autograd.grad(plain(rows), list(plain.model.parameters()))
    torch.testing.assert_close(made(rows) - plain(rows), 0.3 * sum(g.square().sum() for g in slopes))


def test_adversarial_rows_are_moved_where_the_loss_rises_most():
    made, plain, rows = objective("adversarial(0.05, 1)"), objective(), batch()
    x = rows.x.clone().requires_grad_()
    slope = torch.autograd.grad(plain(Batch(x, rows.y, rows.weight, None, rows.keys)), x)[0]
    moved = Batch(rows.x + 0.05 * slope.sign(), rows.y, rows.weight, None, rows.keys)
    torch.testing.assert_close(made(rows), plain(moved))
    assert made(rows) > plain(rows)


def test_a_second_look_leaves_what_batch_norm_remembers():
    rows = batch()
    for word in ("adversarial", "gradient_norm"):
        means = []
        for given in ((), (word,)):
            torch.manual_seed(0)
            model = ll.models.MLP(3, (5,), 4, norm="batch").double()
            Objective(model, Categorical(4), [regularizer(r) for r in given])(rows)
            means.append(model.layers[0].norm.running_mean)
        assert torch.equal(*means) and bool((means[0] != 0).any())


def test_label_noise_is_label_smoothing_on_average():
    num, rho = 40_000, 0.3
    rows = Batch(torch.zeros(num, 1), torch.arange(num) % 4, None, None, noise.example_keys(0, 0, torch.arange(num)))
    output = torch.tensor([[2.0, 0.0, -1.0, 0.5]]).expand(num, 4)
    noisy, smooth = (
        regularizer(f"{word}({rho})").score(Categorical(4).loss, rows)(output, rows.y)
        for word in ("label_noise", "label_smoothing")
    )
    for c in range(4):
        mine = rows.y == c
        error = float(noisy[mine].std()) / float(mine.sum()) ** 0.5
        assert float(noisy[mine].mean()) == pytest.approx(float(smooth[mine].mean()), abs=4 * error)
    torch.testing.assert_close(smooth, Categorical(4, label_smoothing=rho * 4 / 3).loss(output, rows.y))


def test_a_confusion_matrix_generalises_smoothing_and_is_checked():
    rho, rows = 0.2, batch(8)
    matrix = torch.full((4, 4), rho / 3) + (1 - rho - rho / 3) * torch.eye(4)
    output = torch.randn(8, 4, dtype=torch.float64)
    both = Confusion(matrix), regularizer("label_smoothing(0.2)")
    each = [r.score(Categorical(4).loss, rows)(output, rows.y) for r in both]
    torch.testing.assert_close(*each)
    with pytest.raises(UserError, match="add up to 1"):
        Confusion([[0.5, 0.0], [0.0, 1.0]])
    with pytest.raises(UserError, match="a row for each class"):
        Confusion([[1.0, 0.0], [0.0, 1.0]]).score(Categorical(4).loss, rows)(output, rows.y)


@pytest.mark.parametrize("word", ["label_noise", "label_smoothing"])
def test_labels_of_no_class_are_refused_and_yes_and_no_are_classes(word):
    rows = Batch(torch.zeros(2, 1), torch.zeros(2), None, None, torch.arange(2))
    with pytest.raises(UserError, match="must have classes"):
        regularizer(word).score(Normal().loss, rows)(torch.zeros(2, 1), rows.y)
    ll.fit(ll.models.Linear(2, 1), ll.data.moons(num=60), epochs=1, regularize=word, progress=False)


def test_noise_on_weights_is_normal_and_other_for_each_parameter_and_batch():
    made, zeros = regularizer("weight_noise(0.5)"), {"a": torch.zeros(60, 60), "b": torch.zeros(60, 60)}
    rows = [Batch(torch.zeros(2, 1), torch.zeros(2), keys=torch.tensor(keys)) for keys in ([1, 2], [1, 3], [2, 1])]
    one, other, turned = (made.weights(zeros, batch) for batch in rows)
    drawn = torch.stack([one["a"], one["b"], other["a"]]).flatten(1)
    torch.testing.assert_close(drawn.cov(), 0.25 * torch.eye(3), atol=0.02, rtol=0)
    assert torch.equal(turned["a"], one["a"])


def test_mixed_rows_lie_between_two_and_are_scored_by_both():
    made = regularizer("mixup(0.4)").double()
    rows = batch(64, weight=False)
    mixed = made.inputs(rows.x, rows)
    part = ((mixed - rows.x.roll(1, 0)) / (rows.x - rows.x.roll(1, 0))).median(1).values
    assert bool(((part >= 0) & (part <= 1)).all()) and float(part.std()) == pytest.approx(0.373, abs=0.08)
    output = torch.randn(64, 4, dtype=torch.float64)
    loss = Categorical(4).loss
    expected = part * loss(output, rows.y) + (1 - part) * loss(output, rows.y.roll(1, 0))
    torch.testing.assert_close(made.score(loss, rows)(output, rows.y), expected)


def test_the_distillation_gradient_is_the_difference_of_softened_answers_over_t():
    teacher, student = torch.randn(5, 4).double(), torch.randn(5, 4).double().requires_grad_()
    slope = torch.autograd.grad(soft_loss(student, teacher, 3.0).sum(), student)[0]
    torch.testing.assert_close(slope, ((student / 3).softmax(-1) - (teacher / 3).softmax(-1)) / 3)
    one, two = torch.randn(5, 1).double(), torch.randn(5, 1).double()
    as_two = [torch.cat([torch.zeros_like(z), z], 1) for z in (one, two)]
    torch.testing.assert_close(soft_loss(one, two, 2.0), soft_loss(*as_two, 2.0))


def test_a_student_of_part_one_learns_its_teacher_and_the_teacher_stays():
    data = ll.data.blobs(num=200, noise=1.5)
    torch.manual_seed(0)
    teacher = ll.fit(ll.models.MLP(2, (16,), 3), data, epochs=20, progress=False)
    before = [p.clone() for p in teacher.model.parameters()]
    student = ll.fit(
        ll.models.MLP(2, (32,), 3, p_drop=0.0), data, epochs=60, lr=0.02, weight_decay=0.0, validate_every=60,
        regularize=Distillation(teacher, 2.0, 1.0), progress=False,
    )  # fmt: skip
    apart = (student.outputs("train").softmax(-1) - teacher.outputs("train").softmax(-1)).abs().mean()
    assert float(apart) < 0.02
    assert all(torch.equal(a, b) for a, b in zip(before, teacher.model.parameters(), strict=True))
