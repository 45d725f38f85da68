"""Every initialiser draws what it says: against torch.nn.init, against its formula, and on what it needs."""

import itertools
import math

import pytest
import torch
from torch import nn

from leadline.data.data import Batch
from leadline.errors import UnknownName, UserError
from leadline.init import INITS, branches, initialise, maps, named
from leadline.layers import Skip
from leadline.models import MLP, Hopfield, Residual
from leadline.reference import first_weights as twin


def gen(seed=0):
    return torch.Generator().manual_seed(seed)


def net(*widths):
    layers = [part for a, b in itertools.pairwise(widths) for part in (nn.Linear(a, b), nn.ReLU())]
    return nn.Sequential(*layers[:-1])


X, Y = torch.randn(64, 6, generator=gen(1)), torch.randn(64, generator=gen(2))
BATCH = Batch(X, Y)


def square(out, y):
    return (out[:, 0] - y).square()


def noting(seen, name):
    def hook(module, args, out):
        seen.setdefault(name, (float(args[0].detach().square().mean()), float(out.detach().var())))

    return hook


TORCH = {
    "lecun": lambda w, g: nn.init.kaiming_normal_(w, nonlinearity="linear", generator=g),
    "lecun_uniform": lambda w, g: nn.init.kaiming_uniform_(w, nonlinearity="linear", generator=g),
    "glorot": lambda w, g: nn.init.xavier_normal_(w, generator=g),
    "glorot_uniform": lambda w, g: nn.init.xavier_uniform_(w, generator=g),
    "he": lambda w, g: nn.init.kaiming_normal_(w, generator=g),
    "he(0.2)": lambda w, g: nn.init.kaiming_normal_(w, 0.2, generator=g),
    "he_uniform": lambda w, g: nn.init.kaiming_uniform_(w, generator=g),
    "he_out": lambda w, g: nn.init.kaiming_normal_(w, mode="fan_out", generator=g),
    "normal": lambda w, g: nn.init.normal_(w, generator=g),
    "normal(0.04)": lambda w, g: nn.init.normal_(w, 0, 0.2, generator=g),
    "orthogonal": lambda w, g: nn.init.orthogonal_(w, generator=g),
    "orthogonal(1.5)": lambda w, g: nn.init.orthogonal_(w, 1.5, generator=g),
}


@pytest.mark.parametrize("name", TORCH)
@pytest.mark.parametrize("make", [lambda: nn.Linear(30, 20), lambda: nn.Conv2d(5, 7, 3), lambda: nn.Conv1d(4, 8, 5)])
def test_the_draw_is_that_of_torch(name, make):
    ours, theirs = initialise(make(), name, gen()), make()
    TORCH[name](theirs.weight, gen())
    assert torch.equal(ours.weight, theirs.weight)
    assert not ours.bias.any()


@pytest.mark.parametrize(
    ("name", "rule", "slope"),
    [("lecun", "lecun", 0), ("glorot_uniform", "glorot", 0), ("he_uniform", "he", 0), ("he(0.3)", "he", 0.3),
     ("he_out(0.3)", "he_out", 0.3), ("he_mean", "he_mean", 0)],
)  # fmt: skip
@pytest.mark.parametrize(
    "make", [lambda: nn.Linear(200, 100), lambda: nn.Conv2d(20, 30, 5), lambda: nn.Conv3d(8, 6, 4)]
)
def test_the_variance_follows_from_the_fans(name, rule, slope, make):
    weight = initialise(make(), name, gen()).weight.detach()
    expected = twin.variance(rule, *twin.fans(weight.shape), slope)
    # the variance of a mean of squares: a normal value's square strays by √2 of its mean, a uniform one's by less
    margin = 4 * math.sqrt(2 / weight.numel())
    assert abs(float(weight.square().mean()) / expected - 1) < margin
    assert abs(float(weight.mean())) < 4 * math.sqrt(expected / weight.numel())


def test_uniform_has_the_variance_of_normal():
    weight = initialise(nn.Linear(300, 300), "uniform(0.09)", gen()).weight.detach()
    assert weight.abs().max() <= 0.3 * math.sqrt(3) and abs(float(weight.var()) / 0.09 - 1) < 0.02


def test_groups_and_transposed_kernels_are_counted_as_they_act():
    [one] = maps(nn.Conv2d(8, 12, 3, groups=4))
    assert [tuple(block.shape) for block in one.blocks()] == [(3, 2, 3, 3)] * 4
    up = initialise(nn.ConvTranspose2d(60, 10, 4), "he", gen())
    assert abs(float(up.weight.detach().square().mean()) / (2 / (60 * 16)) - 1) < 0.06  # fan-in 60, not 10
    grouped = initialise(nn.Conv1d(64, 64, 3, groups=64), "he_out", gen())
    assert abs(float(grouped.weight.detach().square().mean()) / (2 / 3) - 1) < 0.5


def test_recurrent_layers_and_attention_are_drawn_gate_by_gate():
    model = nn.ModuleList([nn.LSTM(8, 16), nn.GRUCell(8, 16), nn.MultiheadAttention(16, 2)])
    initialise(model, "orthogonal", gen())
    for block in model[0].weight_hh_l0.detach().chunk(4):
        torch.testing.assert_close(block @ block.T, torch.eye(16), atol=1e-5, rtol=0)
    for block in (*model[1].weight_hh.detach().chunk(3), *model[2].in_proj_weight.detach().chunk(3)):
        torch.testing.assert_close(block @ block.T, torch.eye(16), atol=1e-5, rtol=0)
    biases = [p for name, p in model.named_parameters() if "bias" in name]
    assert len(biases) == 6 and not any(b.any() for b in biases)


def test_weights_that_are_shared_frozen_or_computed():
    first, second = nn.Linear(6, 6), nn.Linear(6, 6)
    second.weight = first.weight
    frozen = nn.Linear(6, 6).requires_grad_(False)
    kept = frozen.weight.clone()
    computed = nn.utils.parametrizations.weight_norm(nn.Linear(6, 6))
    model = nn.Sequential(first, second, frozen, computed)
    assert [one.path for one in maps(model)] == ["0", "3"]
    initialise(model, "orthogonal", gen())
    assert torch.equal(frozen.weight, kept)
    torch.testing.assert_close(computed.weight @ computed.weight.T, torch.eye(6), atol=1e-5, rtol=0)


@pytest.mark.parametrize("name", INITS)
def test_a_draw_follows_from_the_generator_alone(name):
    def drawn(seed):
        torch.manual_seed(5)
        model = nn.Sequential(nn.Linear(6, 6), Skip(nn.Sequential(nn.Linear(6, 6), nn.ReLU(), nn.Linear(6, 6))),
                              nn.Linear(6, 1))  # fmt: skip
        torch.manual_seed(seed)
        before = torch.get_rng_state()
        out = initialise(model, name, gen(seed), BATCH, square)
        assert torch.equal(before, torch.get_rng_state())  # torch's own generator is not touched
        return [p.detach().clone() for p in out.parameters()]

    one, same, other = drawn(0), drawn(0), drawn(1)
    assert all(torch.equal(a, b) for a, b in zip(one, same, strict=True))
    assert name == "own" or not all(torch.equal(a, b) for a, b in zip(one, other, strict=True))
    assert all(p.isfinite().all() for p in one)


def test_double_precision_and_half_are_kept():
    for dtype in (torch.float64, torch.bfloat16):
        model = initialise(nn.Linear(8, 8).to(dtype), "orthogonal", gen())
        assert model.weight.dtype == dtype and abs(float(model.weight.detach().float().norm()) - 8**0.5) < 0.05


def test_orthogonal_keeps_lengths_through_linear_and_tanh_layers():
    x = torch.randn(5, 64, generator=gen(3), dtype=torch.float64)
    linear = nn.Sequential(*[nn.Linear(64, 64) for _ in range(50)]).double()
    initialise(linear, "orthogonal", gen())
    torch.testing.assert_close(linear(x).norm(dim=1), x.norm(dim=1))
    bent = nn.Sequential(*[part for layer in linear for part in (layer, nn.Tanh())])
    small = 1e-3 * x
    torch.testing.assert_close(bent(small).norm(dim=1), small.norm(dim=1), rtol=1e-3, atol=0)


@pytest.mark.parametrize(("kind", "size"), [(nn.Conv1d, (40,)), (nn.Conv2d, (9, 8)), (nn.Conv3d, (5, 4, 6))])
def test_delta_orthogonal_convolutions_keep_lengths(kind, size):
    layers = nn.Sequential(kind(4, 8, 3, padding=1), *[kind(8, 8, 3, padding=1) for _ in range(20)]).double()
    initialise(layers, "delta_orthogonal", gen())
    x = torch.randn(3, 4, *size, generator=gen(3), dtype=torch.float64)
    torch.testing.assert_close(layers(x).flatten(1).norm(dim=1), x.flatten(1).norm(dim=1))
    initialise(layers, "orthogonal", gen())  # a flattened kernel does not
    assert (layers(x).flatten(1).norm(dim=1) / x.flatten(1).norm(dim=1) - 1).abs().min() > 0.1


def test_lsuv_gives_every_layer_unit_variance_in_one_pass():
    class Twice(nn.Module):  # a module that is used twice, and batch normalisation
        def __init__(self):
            super().__init__()
            self.first, self.again, self.norm = nn.Linear(6, 20), nn.Linear(20, 20), nn.BatchNorm1d(20)
            self.last = nn.Linear(20, 3)

        def forward(self, x):
            h = self.again(torch.relu(self.first(x)))
            return self.last(torch.relu(self.norm(self.again(h))))

    model = Twice().train()
    initialise(model, "lsuv", gen(), X)
    seen = {}
    for name in ("first", "again", "last"):
        getattr(model, name).register_forward_hook(noting(seen, name))
    model(X)
    assert [seen[name][1] for name in ("first", "again", "last")] == pytest.approx([1, 1, 1], rel=0.02)
    assert model.training and model.norm.num_batches_tracked == 1  # of the line above alone
    deep = initialise(net(6, *[30] * 20, 2), "lsuv(4)", gen(), X)
    assert float(deep(X).detach().var(correction=0)) == pytest.approx(4, rel=1e-3)


@pytest.mark.parametrize("make", [
    lambda depth: MLP(6, (32,) * depth, 3, activation="relu", p_drop=0, residual=True),
    lambda depth: nn.Sequential(nn.Linear(6, 32), *[
        Skip(nn.Sequential(nn.Linear(32, 32), nn.ReLU(), nn.Linear(32, 32))) for _ in range(depth)], nn.Linear(32, 3)),
])  # fmt: skip
def test_fixup_keeps_the_size_of_a_residual_network_whatever_its_depth(make):
    sizes = {}
    for depth in (4, 64):
        model = initialise(make(depth), "fixup", gen())
        maps(model)[-1].module.register_forward_hook(noting(sizes, depth))
        assert not model(X).any()  # the last map begins at 0
    assert 0.5 < sizes[64][0] / sizes[4][0] < 2
    plain = initialise(make(64), "he", gen())
    assert float(plain(X).detach().square().mean()) > 1e6


def test_fixup_scales_by_the_number_of_branches_and_of_their_maps():
    block = lambda: Skip(nn.Sequential(*[nn.Linear(50, 50) for _ in range(3)]), scale=0.5)  # noqa: E731
    model = initialise(nn.Sequential(*[block() for _ in range(16)], nn.Linear(50, 1)), "fixup", gen())
    weights = [one.weight.detach() for one in branches(model)[3].maps]
    sizes = [float(w.square().mean()) * 50 / 2 for w in weights]
    assert sizes == pytest.approx([1 / 4, 1 / 4, 0], rel=0.1)  # 16^(-1/4) each, squared
    assert [float(b.scale.detach()) for b in branches(model)] == [1.0] * 16


def test_skipinit_begins_as_the_identity_and_learns():
    model = nn.Sequential(
        nn.Linear(6, 8), Skip(nn.Sequential(nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, 8))), nn.Linear(8, 1)
    )
    initialise(model, "skipinit", gen())
    torch.testing.assert_close(model(X), model[2](model[0](X)))
    square(model(X), Y).mean().backward()
    assert model[1].scale.grad != 0 and not model[1].body[0].weight.grad.any()
    assert float(initialise(model, "skipinit(0.25)", gen())[1].scale.detach()) == 0.25


def test_gradinit_makes_the_first_step_better_within_its_bound():
    def after(model, lr=0.1):
        weights = list(model.parameters())
        gradients = torch.autograd.grad(square(model(X[::2]), Y[::2]).mean(), weights)
        size = math.sqrt(sum(float(g.square().sum()) for g in gradients))
        with torch.no_grad():
            for p, g in zip(weights, gradients, strict=True):
                p -= lr * g
            return float(square(model(X), Y).mean()), size

    start = initialise(net(6, *[40] * 8, 1), "he", gen())
    learned = initialise(net(6, *[40] * 8, 1), "gradinit", gen(), (X, Y), square)
    ratios = [b.weight.detach() / a.weight.detach() for a, b in zip(start[::2], learned[::2], strict=True)]
    assert all(float(r.std()) < 1e-5 and float(r.mean()) > 0 for r in ratios)  # one factor for each matrix
    (loss, size), (before, wild) = after(learned), after(start)
    assert size <= 1.0 + 1e-6 and wild > 1 and loss < before


def test_branches_are_declared_by_the_modules():
    assert [b.path for b in branches(Residual(3, (5, 5), 1))] == ["layers.0", "layers.1"]
    assert branches(MLP(3, (5, 5), 1)) == []

    class Block(nn.Module):
        residual_branch = ("conv1", "conv3")

        def __init__(self):
            super().__init__()
            self.conv1, self.conv2 = nn.Conv1d(2, 2, 3), nn.Conv1d(2, 2, 3)

    with pytest.raises(UserError, match="Got 'conv3' in the model .Block.. Did you mean conv"):
        branches(Block())


@pytest.mark.parametrize(("name", "words"), [
    ("hee", "Did you mean he"), ("he_mean(2)", "takes no number"), ("normal(-1)", "at least 0"),
    ("orthogonal(0)", "above 0"), ("he(a)", "finite numbers in brackets"), ("he(1, 2)", "one number"),
    ("lsuv", "Pass batch="), ("gradinit", "loss=likelihood.loss"), ("fixup", "residual branches"),
])  # fmt: skip
def test_messages(name, words):
    with pytest.raises(UserError, match=words):
        initialise(nn.Linear(2, 2), name, gen())


def test_more_messages():
    assert issubclass(UnknownName, UserError) and named("HE")[0] == "he"
    with pytest.raises(UserError, match="Leave init at own"):
        initialise(Hopfield(4), "he")
    with pytest.raises(UserError, match="Send one batch"):
        initialise(nn.LazyLinear(3), "he")
    with pytest.raises(UserError, match="layers.Skip, which has one"):
        initialise(MLP(3, (5, 5), 1, residual=True), "skipinit")
