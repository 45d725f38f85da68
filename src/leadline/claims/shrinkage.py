"""One penalty under many names: L2, a normal prior, decayed weights, an early stop, noise on the inputs."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn

from leadline.claims.claim import Check, Evidence, claim
from leadline.claims.curves import Curves
from leadline.models import MLP

_NOTES = "Lecture notes on tricks of the trade"
_UDL = "Understanding Deep Learning"


def _bowl(axes: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """A quadratic loss with these curvatures along turned axes: Hessian, axes (one a column), best weights."""
    g = torch.Generator().manual_seed(0)
    q, _ = torch.linalg.qr(torch.randn(len(axes), len(axes), generator=g, dtype=torch.float64))
    return q @ axes.diag() @ q.T, q, torch.randn(len(axes), generator=g, dtype=torch.float64)


@claim(
    "l2-shrinks",
    "A penalty μ/2 |θ|² shrinks the best weights by λ/(λ + μ) along each axis of curvature λ",
    f"{_NOTES}, weight decay",
)
def l2_shrinks(full: bool) -> Evidence:
    mu = 0.5
    axes = torch.logspace(1, -1, 21 if full else 9, dtype=torch.float64)
    h, q, best = _bowl(axes)
    theta = torch.zeros(len(axes), dtype=torch.float64)
    for _ in range(2000):
        theta = theta - (h @ (theta - best) + mu * theta) / (10 + mu)
    factors = (q.T @ theta) / (q.T @ best)
    law = axes / (axes + mu)
    view = Curves(
        "What a penalty of μ = 0.5 leaves of the weights", "curvature λ of the axis", "part that is left",
        {"measured": (tuple(axes.tolist()), tuple(factors.tolist()))},
        {"λ/(λ + μ)": (tuple(axes.tolist()), tuple(law.tolist()))}, marks={"λ = μ": mu}, log="x",
    )  # fmt: skip
    middle = len(axes) // 2
    seen = [float(factors[k]) for k in (0, middle, -1)]  # λ = 10, 1, 0.1
    return Evidence(
        (
            Check("largest distance from λ/(λ + μ)", float((factors - law).abs().max()), high=1e-9),
            Check("part left at λ = 10, 1 and 0.1: distance from 0.952, 0.667, 0.167",
                  max(abs(a - b) for a, b in zip(seen, (0.952, 0.667, 0.167), strict=True)), high=5e-4),
        ),
        view,
    )  # fmt: skip


@claim(
    "early-stop-is-l2",
    "Gradient descent from 0 that is stopped after t = 1/(ημ) steps is about where a penalty μ/2 |θ|² ends",
    f"{_NOTES}, early stopping; {_UDL}, notes 9",
    misprint="the lecture notes print t ≈ η/μ; the book prints λ ≈ 1/(τα), which is for a penalty (λ/2) φ²: with its "
    "own λφ² it is 1/(2τα)",
)
def early_stop_is_l2(full: bool) -> Evidence:
    eta, mu = 0.01, 0.5
    stop = round(1 / (eta * mu))
    axes = torch.logspace(1, -4, 51 if full else 26, dtype=torch.float64)
    h, q, best = _bowl(axes)
    theta = torch.zeros(len(axes), dtype=torch.float64)
    for _ in range(stop):
        theta = theta - eta * h @ (theta - best)
    stopped = (q.T @ theta) / (q.T @ best)
    law = axes / (axes + mu)
    # the penalty λ φ² shrinks by c/(c + 2λ) along an axis of curvature c
    halved = axes / (axes + 2 * (1 / (2 * stop * eta)))
    printed = axes / (axes + 2 * (1 / (stop * eta)))
    flat = axes < 1e-3
    named = {10.0: 1.000, 1.0: 0.866, 0.1: 0.181}
    wrong = max(abs(1 - (1 - eta * c) ** stop - value) for c, value in named.items())
    at = tuple(axes.tolist())
    view = Curves(
        f"Stopped after {stop} steps of {eta}, beside μ = {mu}", "curvature λ of the axis", "part that is left",
        {"stopped early": (at, tuple(stopped.tolist()))}, {"λ/(λ + μ)": (at, tuple(law.tolist()))}, log="x",
    )  # fmt: skip
    return Evidence(
        (
            Check("part reached at λ = 10, 1, 0.1: distance from 1.000, 0.866, 0.181", wrong, high=5e-4),
            # 1 - e^-x against x/(1 + x): at most 0.2036 apart
            Check("largest distance from the penalty's", float((stopped - law).abs().max()), high=0.21),
            Check("over the penalty's, flat axes", float((stopped / law)[flat].mean()), 0.99, 1.01),
            Check("over that of λφ² with λ = 1/(2τα), flat axes", float((stopped / halved)[flat].mean()), 0.99, 1.01),
            Check("over that of λφ² with λ = 1/(τα) as printed", float((stopped / printed)[flat].mean()), 1.98, 2.02),
        ),
        view,
    )


@claim(
    "prior-is-l2",
    "The most probable weights under a normal prior of variance s² are those of a penalty λ Σ φ² with λ = 1/(2s²)",
    f"{_UDL}, problem 9.1",
    misprint="the problem prints the likelihood as Pr(x_i | φ); it is Pr(y_i | x_i, φ)",
)
def prior_is_l2(full: bool) -> Evidence:
    g = torch.Generator().manual_seed(0)
    x = torch.randn(30, 6, generator=g, dtype=torch.float64)
    y = x @ torch.randn(6, generator=g, dtype=torch.float64) + 0.7 * torch.randn(30, generator=g, dtype=torch.float64)
    label = (y > 0).double()
    spreads = tuple(10 ** (k / 4) for k in range(-6, 5)) if full else (0.1, 1.0, 3.0)
    eye = torch.eye(6, dtype=torch.float64)
    apart, logistic, sizes = [], [], []
    for s in spreads:
        # closed form: posterior of a line under noise of variance 0.49, prior N(0, s² I)
        posterior = torch.linalg.solve(x.T @ x / 0.49 + eye / s**2, x.T @ y / 0.49)

        def squares(w: Tensor, s: float = s) -> Tensor:
            return ((x @ w - y).square() / (2 * 0.49)).sum() + w.square().sum() / (2 * s**2)

        penalised = _minimum(squares)
        apart.append(float((posterior - penalised).norm() / posterior.norm()))
        prior = torch.distributions.Normal(torch.zeros(6, dtype=torch.float64), s)

        def probable(w: Tensor, prior: torch.distributions.Normal = prior) -> Tensor:
            chance = torch.distributions.Bernoulli(logits=x @ w)
            return -(chance.log_prob(label).sum() + prior.log_prob(w).sum())

        def pulled(w: Tensor, s: float = s) -> Tensor:
            each = torch.nn.functional.binary_cross_entropy_with_logits(x @ w, label, reduction="sum")
            return each + 1 / (2 * s**2) * w.square().sum()

        one, other = _minimum(probable), _minimum(pulled)
        logistic.append(float((one - other).norm() / one.norm()))
        sizes.append(float(one.norm()))
    view = Curves(
        "Logistic regression under a normal prior", "spread s of the prior", "length of the most probable weights",
        {"measured": (spreads, tuple(sizes))}, log="xy",
    )  # fmt: skip
    return Evidence(
        (
            Check("largest relative distance of the two, linear regression", max(apart), high=1e-8),
            Check("largest relative distance of the two, logistic regression", max(logistic), high=1e-8),
            Check("length of the weights, narrowest prior over widest", sizes[0] / sizes[-1], high=0.2),
        ),
        view,
    )


def _minimum(loss: Callable[[Tensor], Tensor], dims: int = 6) -> Tensor:
    """Of a convex function, by Newton's method with halved steps."""
    w = torch.zeros(dims, dtype=torch.float64)
    for _ in range(60):
        g, h = torch.func.grad(loss)(w), torch.func.hessian(loss)(w)
        step, size = torch.linalg.solve(h, g), 1.0
        while float(loss(w - size * step)) > float(loss(w)) and size > 1e-6:
            size /= 2
        w = w - size * step
        if float(step.norm()) < 1e-13 * (1 + float(w.norm())):
            break
    return w


@claim(
    "decay-is-l2",
    "Weights that decay by λ' a step are a penalty λ'/(2α) Σ φ² for plain descent with step α, and are not for Adam",
    f"{_UDL}, notes 9 and problem 9.5; {_NOTES}, weight decay",
)
def decay_is_l2(full: bool) -> Evidence:
    steps, lr, decay = 400 if full else 150, 0.05, 0.002
    g = torch.Generator().manual_seed(0)
    x = torch.randn(64, 5, generator=g, dtype=torch.float64)
    y = x[:, 0] * x[:, 1] + 0.1 * torch.randn(64, generator=g, dtype=torch.float64)
    ends = {}
    for rule in ("descent", "momentum", "adam"):
        for form in ("decayed", "penalised"):
            model = _network()
            parameters = list(model.parameters())
            optimizer: torch.optim.Optimizer = (
                torch.optim.Adam(parameters, lr=lr / 5)
                if rule == "adam"
                else torch.optim.SGD(parameters, lr=lr, momentum=0.9 if rule == "momentum" else 0.0)
            )
            for _ in range(steps):
                loss = (model(x)[:, 0] - y).square().mean()
                if form == "penalised":
                    size = sum(p.square().sum() for p in parameters)
                    loss = loss + decay / (2 * optimizer.param_groups[0]["lr"]) * size
                optimizer.zero_grad()
                loss.backward()
                if form == "decayed":
                    with torch.no_grad():
                        for p in parameters:
                            p.mul_(1 - decay)  # φ <- (1 - λ') φ - α ∂L/∂φ: the gradient is that of the old φ
                optimizer.step()
            ends[rule, form] = torch.cat([p.detach().flatten() for p in parameters])
    apart = {
        rule: float((ends[rule, "decayed"] - ends[rule, "penalised"]).norm() / ends[rule, "decayed"].norm())
        for rule in ("descent", "momentum", "adam")
    }
    places = tuple(map(float, range(len(ends["adam", "decayed"]))))
    order = ends["adam", "decayed"].argsort()
    view = Curves(
        f"Weights after {steps} steps of Adam", "weight, by rank", "value",
        {name: (places, tuple(ends["adam", form][order].tolist()))
         for name, form in (("decayed", "decayed"), ("penalised", "penalised"))},
    )  # fmt: skip
    return Evidence(
        (
            Check("relative distance of the two, plain descent", apart["descent"], high=1e-10),
            Check("relative distance of the two, Adam", apart["adam"], low=0.05),
            Check("relative distance of the two, momentum 0.9", apart["momentum"], low=0.01),
        ),
        view,
    )


def _network() -> MLP:
    with torch.random.fork_rng():
        torch.manual_seed(0)
        return MLP(5, (12,), 1, activation="tanh", p_drop=0.0).double()


@claim(
    "input-noise-is-l2",
    "Noise of variance s² on the inputs of linear regression is a penalty I s² on the slope and none on the intercept; "
    "on a network, small noise is a penalty on the slope of output against input",
    f"{_UDL}, problem 9.3 and notes 9 (Bishop 1995)",
)
def input_noise_is_l2(full: bool) -> Evidence:
    g = torch.Generator().manual_seed(0)
    n, copies = 40, 20_000 if full else 4000
    x = torch.randn(n, generator=g, dtype=torch.float64) + 1
    y = 0.5 + 1.5 * x + 0.3 * torch.randn(n, generator=g, dtype=torch.float64)
    noises, measured, law, off = (0.25, 0.5, 1.0, 2.0), [], [], []
    for s in noises:
        seen = x + s * torch.randn(copies, n, generator=g, dtype=torch.float64)
        slope, offset = _line(seen.flatten(), y.repeat(copies))
        # argmin Σ (y - a - b x)² + I s² b²
        ridge = float(((x - x.mean()) * (y - y.mean())).sum() / ((x - x.mean()).square().sum() + n * s**2))
        measured.append(slope)
        law.append(ridge)
        off.append(abs(offset - float(y.mean() - ridge * x.mean())))
    wrong = max(abs(m - e) / e for m, e in zip(measured, law, strict=True))
    # a network: E[(f(x + ε) - y)²] - (f(x) - y)² -> s² (|∂f/∂x|² + (f - y) Δf), the last part 0 where y is the mean
    net = _network()
    rows = torch.randn(50, 5, generator=g, dtype=torch.float64)
    with torch.enable_grad():
        leaf = rows.clone().requires_grad_()
        (slopes,) = torch.autograd.grad(net(leaf).sum(), leaf)
    with torch.no_grad():
        target, s = net(rows)[:, 0], 0.02
        shaken = rows + s * torch.randn(copies, *rows.shape, generator=g, dtype=torch.float64)
        extra = float((net(shaken.view(-1, 5))[:, 0].view(copies, -1) - target).square().mean())
    penalty = s**2 * float(slopes.square().sum(1).mean())
    view = Curves(
        "A line through noisy inputs", "noise s on the inputs", "slope",
        {"fitted to noisy copies": (noises, tuple(measured))}, {"penalty I s²": (noises, tuple(law))},
    )  # fmt: skip
    return Evidence(
        (
            Check("largest relative distance of the slopes", wrong, high=0.02),
            Check("largest distance of the intercepts", max(off), high=0.02),
            Check("rise of a network's loss over s² (∂f/∂x)²", extra / penalty, 0.97, 1.03),
        ),
        view,
    )


def _line(x: Tensor, y: Tensor) -> tuple[float, float]:
    slope = float(((x - x.mean()) * (y - y.mean())).sum() / (x - x.mean()).square().sum())
    return slope, float(y.mean() - slope * x.mean())


@claim(
    "l2-to-nothing",
    "A network whose weights are all pressed to 0 answers with its last bias, whatever comes in",
    f"{_UDL} 9.1.2",
)
def l2_to_nothing(full: bool) -> Evidence:
    g = torch.Generator().manual_seed(0)
    x = torch.randn(80, 5, generator=g, dtype=torch.float64)
    y = 2 + x[:, 0] * x[:, 1]
    strengths = (0.0, 0.01, 0.1, 1.0, 10.0)
    spread, level, bias = [], 0.0, 0.0
    for strength in strengths:
        model = _network()
        weights = [p for p in model.parameters() if p.ndim > 1]
        rule = torch.optim.Adam(model.parameters(), lr=0.02)
        for k in range(1500 if full else 500):
            rule.param_groups[0]["lr"] = 0.02 * (1 - k / (1500 if full else 500))
            loss = (model(x)[:, 0] - y).square().mean() + strength * sum(w.square().sum() for w in weights)
            rule.zero_grad()
            loss.backward()
            rule.step()
        with torch.no_grad():
            answers = model(x)[:, 0]
            spread.append(float(answers.std()))
            level, bias = float(answers.mean()), float(_last(model).bias.item())
    shown = tuple(max(s, 1e-3) for s in strengths)
    view = Curves(
        "Answers under an ever stronger penalty", "strength λ of the penalty", "deviation of the answers",
        {"measured": (shown, tuple(max(s, 1e-12) for s in spread))}, log="xy",
    )  # fmt: skip
    return Evidence(
        (
            Check("deviation of the answers, strongest penalty over none", spread[-1] / spread[0], high=1e-3),
            Check("distance of the answers from the last bias", abs(level - bias), high=1e-2),
            Check("distance of the last bias from the mean of y", abs(bias - float(y.mean())), high=0.02),
        ),
        view,
    )


def _last(model: nn.Module) -> nn.Linear:
    return [module for module in model.modules() if isinstance(module, nn.Linear)][-1]
