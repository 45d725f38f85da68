"""Every optimizer beside its twin in plain Python or its namesake in torch: 100 steps in float64."""

import math

import pytest
import torch
from torch import nn

import leadline as ll
from leadline.data.data import Batch
from leadline.likelihoods import Normal
from leadline.optim import (
    SVRG,
    SWATS,
    AveragedMomentum,
    EntropyDescent,
    LookAhead,
    Muon,
    PerExampleAdam,
    PrintedAdam,
    SharpnessAware,
    SignDescent,
    Yogi,
)
from leadline.optim.optimizers import optimizer
from leadline.reference import updates
from leadline.settings import CHOICES, Settings

START = [1.3, -0.7, 0.4, 2.1]
STEPS = 100


def bumpy(phi):
    """A loss with curvatures from 0.5 to 8 and waves on it."""
    scale = torch.tensor([0.5, 1.0, 3.0, 8.0], dtype=phi.dtype)
    return 0.5 * (scale * phi**2).sum() + torch.sin(2 * phi).sum() + 0.3 * phi[0] * phi[3]


def slope(phi):
    p = torch.tensor(list(phi), dtype=torch.float64, requires_grad=True)
    return torch.autograd.grad(bumpy(p), p)[0].tolist()


def way_of(make):
    """The weights after each step, in two parameters, so that memory is kept apart."""
    whole = torch.tensor(START, dtype=torch.float64)
    p, q = nn.Parameter(whole[:1].clone()), nn.Parameter(whole[1:].clone())
    rule = make([p, q])
    way = []

    def closure():
        rule.zero_grad()
        loss = bumpy(torch.cat([p, q]))
        loss.backward()
        return loss

    for _ in range(STEPS):
        if getattr(rule, "needs_closure", False):
            rule.step(closure)
        else:
            closure()
            rule.step()
        way.append(torch.cat([p, q]).tolist())
    return way, rule


def twin_way(step):
    phi, memory, way = START, {}, []
    for _ in range(STEPS):
        phi = step(phi, slope, memory)
        way.append(list(phi))
    return way, memory


def largest(ways):
    return max(abs(a - b) for row, other in zip(*ways, strict=True) for a, b in zip(row, other, strict=True))


TWINS = {
    "averaged": (lambda p: AveragedMomentum(p, 0.1, 0.9), lambda *a: updates.averaged(*a, 0.1, 0.9)),
    "printed look-ahead": (lambda p: LookAhead(p, 0.1, 0.9), lambda *a: updates.look_ahead(*a, 0.1, 0.9, True)),
    "exact look-ahead": (
        lambda p: LookAhead(p, 0.1, 0.9, printed=False),
        lambda *a: updates.look_ahead(*a, 0.1, 0.9, False),
    ),
    "sign": (lambda p: SignDescent(p, 0.01, 1e-6), lambda *a: updates.sign(*a, 0.01, 1e-6)),
    "adam, eps inside": (lambda p: PrintedAdam(p, 0.05), lambda *a: updates.adam(*a, 0.05, 0.9, 0.999, 1e-8)),
    "adam, uncorrected": (
        lambda p: PrintedAdam(p, 0.05, corrected=False),
        lambda *a: updates.adam(*a, 0.05, 0.9, 0.999, 1e-8, corrected=False),
    ),
    "yogi": (lambda p: Yogi(p, 0.05), lambda *a: updates.yogi(*a, 0.05, 0.9, 0.999, 1e-3)),
    "sam": (lambda p: SharpnessAware(p, 0.02, 0.8, 0.1), lambda *a: updates.sharpness_aware(*a, 0.02, 0.8, 0.1)),
    "swats": (
        lambda p: SWATS(p, 0.05, tolerance=0.02),
        lambda *a: updates.swats(*a, 0.05, 0.9, 0.999, 1e-8, 0.02),
    ),
    "entropy": (
        lambda p: EntropyDescent(p, 0.05, inner=4, gamma=0.3, noise=0.0, share=0.6, outer=0.9),
        lambda *a: updates.entropy(*a, 0.05, 4, 0.3, 0.6, 0.9),
    ),
}


@pytest.mark.parametrize("name", TWINS)
def test_a_rule_of_ours_is_its_twin(name, record_property):
    ours, twin = TWINS[name]
    way, rule = way_of(ours)
    theirs, memory = twin_way(twin)
    record_property("largest", largest((way, theirs)))
    print(f"{name}: {largest((way, theirs)):.1e}")
    assert largest((way, theirs)) <= 1e-6
    assert math.dist(way[-1], START) > 0.1
    if name == "swats":  # both halves of the rule were seen
        assert rule.rate == pytest.approx(memory["rate"]) and 1 < rule.switched_at < 90


# ── torch's own, as the settings name them, beside torch's ──

NAMESAKES = {
    "sgd": lambda p: torch.optim.SGD(p, 0.01, momentum=0.9),
    "nesterov": lambda p: torch.optim.SGD(p, 0.01, momentum=0.9, nesterov=True),
    "adam": lambda p: torch.optim.Adam(p, 0.01),
    "adamw": lambda p: torch.optim.AdamW(p, 0.01, weight_decay=0.0),
    "amsgrad": lambda p: torch.optim.Adam(p, 0.01, amsgrad=True),
    "rmsprop": lambda p: torch.optim.RMSprop(p, 0.01, momentum=0.9),
    "adagrad": lambda p: torch.optim.Adagrad(p, 0.01),
    "adadelta": lambda p: torch.optim.Adadelta(p, 0.01),
    "nadam": lambda p: torch.optim.NAdam(p, 0.01),
    "radam": lambda p: torch.optim.RAdam(p, 0.01),
}


@pytest.mark.parametrize("name", NAMESAKES)
def test_a_rule_of_torchs_is_its_namesake(name):
    settings = Settings(optimizer=name, lr=0.01, weight_decay=0.0)
    difference = largest((way_of(lambda p: optimizer(settings, p))[0], way_of(NAMESAKES[name])[0]))
    print(f"{name}: {difference:.1e}")
    assert difference <= 1e-6


def test_heavy_ball_is_sgd_with_momentum():
    way, before, phi = [], START, START
    for _ in range(STEPS):
        pairs = zip(phi, slope(phi), before, strict=True)
        phi, before = [p - 0.01 * g + 0.9 * (p - b) for p, g, b in pairs], phi
        way.append(phi)
    assert largest((way, way_of(NAMESAKES["sgd"])[0])) <= 1e-6


def test_every_name_makes_an_optimizer():
    p = nn.Parameter(torch.zeros(2, 2))
    made = {name: optimizer(Settings(optimizer=name), [p]) for name in CHOICES["optimizer"] if name != "given"}
    assert set(TWINS) and all(isinstance(o, torch.optim.Optimizer) for o in made.values())
    assert made["nesterov_printed"].printed and not made["nesterov_ahead"].printed


def test_muon_moves_matrices_as_torchs_and_the_rest_as_adamw():
    torch.manual_seed(0)
    matrix, offset = torch.randn(5, 3), torch.randn(3)
    ours = [nn.Parameter(matrix.clone()), nn.Parameter(offset.clone())]
    theirs = [nn.Parameter(matrix.clone()), nn.Parameter(offset.clone())]
    rule = Muon(ours, 0.02, 0.9, 0.1)
    parts = [
        torch.optim.Muon(theirs[:1], 0.02, weight_decay=0.1, momentum=0.9, adjust_lr_fn="match_rms_adamw"),
        torch.optim.AdamW(theirs[1:], 0.02, weight_decay=0.1),
    ]
    for k in range(STEPS):
        for group in (ours, theirs):
            for p in group:
                p.grad = torch.sin(p.detach() * 3 + k)
        rule.step()
        [part.step() for part in parts]
    assert all(torch.allclose(a, b, atol=1e-6) for a, b in zip(ours, theirs, strict=True))
    assert not torch.allclose(ours[0], matrix) and not torch.allclose(ours[1], offset)


def test_the_exact_look_ahead_is_torchs_nesterov_seen_from_behind():
    """Look-ahead points are torch's weights, at rate η (1 - β)."""
    theirs, _ = way_of(lambda p: torch.optim.SGD(p, 0.01 * 0.1, momentum=0.9, nesterov=True))
    ours, rule = way_of(lambda p: LookAhead(p, 0.01, 0.9, printed=False))
    ahead = torch.cat([p.detach() - 0.01 * 0.9 * rule.state[p]["mean"] for p in rule.param_groups[0]["params"]])
    assert ahead.tolist() == pytest.approx(theirs[-1], abs=1e-9)
    assert largest(([ours[-1]], [theirs[-1]])) > 1e-4


def test_torchs_dampening_differs_from_the_average_by_its_first_step():
    damped, _ = way_of(lambda p: torch.optim.SGD(p, 0.01, momentum=0.9, dampening=0.9))
    ours, _ = way_of(lambda p: AveragedMomentum(p, 0.01, 0.9))
    first = [p - q for p, q in zip(START, damped[0], strict=True)]
    assert [p - q for p, q in zip(START, ours[0], strict=True)] == pytest.approx([0.1 * d for d in first])


def test_weight_decay_is_added_to_the_gradient():
    for make in (AveragedMomentum, LookAhead, SharpnessAware, Yogi, PrintedAdam, SWATS, EntropyDescent, SignDescent):
        p = nn.Parameter(torch.tensor([2.0], dtype=torch.float64))
        rule = make([p], 0.1, weight_decay=0.5)

        def closure(p=p):
            p.grad = torch.zeros_like(p)
            return p.detach().sum()

        rule.step(closure) if getattr(rule, "needs_closure", False) else (closure(), rule.step())
        assert p.item() < 2.0, make


# ── rules ──


def rows(num=12):
    torch.manual_seed(3)
    x = torch.randn(num, 2, dtype=torch.float64)
    return x, torch.sin(x[:, 0]) + 0.3 * x[:, 1], torch.rand(num, dtype=torch.float64) + 0.5


def affine():
    model = nn.Linear(2, 1).double()
    with torch.no_grad():
        model.weight.copy_(torch.tensor([[0.5, -1.0]]))
        model.bias.fill_(0.2)
    return model


def row_slope(x, y, w=1.0):
    """Gradient of (f - y)² / 2 of one row, of the weights and the offset."""

    def g(phi):
        error = phi[0] * x[0] + phi[1] * x[1] + phi[2] - y
        return [w * error * x[0], w * error * x[1], w * error]

    return g


@pytest.mark.parametrize("weighted", [False, True])
def test_adam_with_single_squares_is_its_twin(weighted):
    x, y, w = rows()
    model, rule = affine(), PerExampleAdam(0.02)
    rule.bind(model, Normal(variance="fixed"), STEPS)
    slopes = [
        row_slope(a, b, c)
        for a, b, c in zip(x.tolist(), y.tolist(), w.tolist() if weighted else [1.0] * 12, strict=True)
    ]
    phi, memory = [0.5, -1.0, 0.2], {}
    for k in range(STEPS):
        part = slice(0, 6) if k % 2 else slice(6, 12)
        loss = rule.step(Batch(x[part], y[part], w[part] if weighted else None), k)
        phi = updates.adam_by_example(phi, slopes[part], memory, 0.02, 0.9, 0.999, 1e-8)
        found = [*model.weight.detach()[0].tolist(), model.bias.item()]
        assert found == pytest.approx(phi, abs=1e-6)
    assert math.isfinite(loss)


def test_single_squares_of_noisy_rows_move_less_than_adam():
    x = torch.ones(8, 1, dtype=torch.float64)
    y = torch.tensor([1.0, -1.0] * 4, dtype=torch.float64) * 5 + 0.1
    model = nn.Linear(1, 1, bias=False).double()
    nn.init.zeros_(model.weight)
    rule = PerExampleAdam(0.1)
    rule.bind(model, Normal(variance="fixed"), 1)
    rule.step(Batch(x, y), 0)
    assert 0 < model.weight.item() < 0.02  # Adam's first step would be 0.1


def test_variance_reduced_steps_are_their_twin():
    x, y, w = rows()
    model, rule = affine(), SVRG(0.1, passes=2)
    rule.steps_per_epoch = 3
    rule.bind(model, Normal(variance="fixed"), STEPS)
    lists = zip(x.tolist(), y.tolist(), w.tolist(), strict=True)
    slopes, weights = [row_slope(a, b, c) for a, b, c in lists], w.tolist()

    def mean(part):
        total = sum(weights[part])
        return lambda phi: [sum(column) / total for column in zip(*[g(phi) for g in slopes[part]], strict=True)]

    phi = [0.5, -1.0, 0.2]
    for k in range(STEPS):
        part = slice(4 * (k % 3), 4 * (k % 3) + 4)
        rule.step(Batch(x[part], y[part], w[part]), k)
        if k // 3 % 3 == 0:
            anchor, whole = phi, mean(slice(0, 12))(phi)
        else:
            phi = updates.svrg(phi, mean(part), anchor, whole, 0.1)
        assert [*model.weight.detach()[0].tolist(), model.bias.item()] == pytest.approx(phi, abs=1e-6)


# ── where the theory says something ──


def test_sign_descent_bounces_and_adam_settles():
    ends = {}
    for name, make in (("sign", lambda p: SignDescent(p, 0.1)), ("adam", lambda p: PrintedAdam(p, 0.1))):
        p = nn.Parameter(torch.tensor([1.03], dtype=torch.float64))
        rule, way = make([p]), []
        for _ in range(600):
            p.grad = p.detach().clone()
            rule.step()
            way.append(p.item())
        ends[name] = way[-20:]
    assert {round(abs(v), 6) for v in ends["sign"]} == {0.03, 0.07}  # for ever, to both sides
    assert max(map(abs, ends["adam"])) < 1e-6


@pytest.mark.parametrize(("amsgrad", "end"), [(False, 1.0), (True, -1.0)])
def test_amsgrad_converges_where_adam_goes_to_the_worst_place(amsgrad, end):
    """Reddi, Kale and Kumar: slopes of C, -1, -1 in turn on [-1, 1]; their sum pulls to -1."""
    p = nn.Parameter(torch.tensor([0.0], dtype=torch.float64))
    rule = torch.optim.Adam([p], lr=1.0, betas=(0.0, 1 / (1 + 3**2)), eps=1e-16, amsgrad=amsgrad)
    for k in range(3000):
        p.grad = torch.full_like(p, 3.0 if k % 3 == 0 else -1.0)
        rule.param_groups[0]["lr"] = 0.5 / math.sqrt(k + 1)
        rule.step()
        p.data.clamp_(-1, 1)
    assert p.item() == pytest.approx(end, abs=0.05)


def test_variance_reduction_converges_at_a_constant_rate_where_sgd_does_not():
    data = ll.data.line(num=80, noise=1.0)
    ends = {}
    for name in ("svrg", "sgd"):
        torch.manual_seed(0)
        model = ll.models.Linear(1, 1)
        how = {"rule": SVRG(0.1)} if name == "svrg" else {"optimizer": "sgd", "momentum": 0.0, "lr": 0.1}
        how |= {} if name == "svrg" else {"weight_decay": 0.0, "schedule": "constant", "warmup": 0.0}
        way = ll.lens.Path(model)
        family = ll.likelihoods.Normal(variance="fixed")
        ll.fit(model, data, likelihood=family, batch=4, epochs=60, progress=False, listeners=[way], **how)
        ends[name] = way.weights[-60:].std(0).max().item()
    assert ends["svrg"] < 1e-4 < 1e-2 < ends["sgd"]


@pytest.mark.parametrize("curvature", [1.0, 10.0])
def test_sam_keeps_its_distance_from_a_minimum_the_more_the_sharper_it_is(curvature):
    """On ½ h φ² a step is φ - η h (φ + ρ sign φ): from φ to -φ and back for φ = η h ρ / (2 - η h)."""
    p, lr, rho = nn.Parameter(torch.tensor([0.7], dtype=torch.float64)), 0.05, 0.2
    rule = SharpnessAware([p], lr, 0.0, rho)

    def closure():
        p.grad = curvature * p.detach()
        return (0.5 * curvature * p.detach() ** 2).sum()

    for _ in range(800):
        rule.step(closure)
    assert abs(p.item()) == pytest.approx(lr * curvature * rho / (2 - lr * curvature), rel=1e-6)
