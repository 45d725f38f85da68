"""The contracts of a model and of a likelihood, as functions that anyone may run on their own.

    check_model       builds tiny · config · rebuilds · answers · learns · same seed, same bits · keeps its state
                      · float64 · rows stand alone · noise stands alone
    check_likelihood  accepts y · nll = -log p · gradient · far outputs · measures · config · prediction
    check_gradients   derivatives of any module or function = finite differences

Each clause raises a `ContractError` that says in one sentence what does not hold. Nothing that is passed in is changed,
and neither is torch's random state.
"""

from __future__ import annotations

import copy
import inspect
import json
from collections.abc import Callable
from typing import Any, NoReturn

import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm

from leadline.data.edges import Edges
from leadline.data.graph import Graph
from leadline.errors import UserError
from leadline.layers import noise
from leadline.layers.held_graph import HeldGraph, give_graph
from leadline.likelihoods.likelihood import Likelihood
from leadline.optim.differences import Difference, differences

#: rows of a batch and a row alone go through different kernels: in float64 they agree to this, relative to the largest
TOLERANCE = 1e-9


class ContractError(AssertionError):
    """A clause of a contract that does not hold."""


def check_model(model: nn.Module | type[nn.Module], x: Tensor | None = None) -> None:
    """Raise a ContractError unless `model` keeps the contract of a model.

    Args:
        model: a model, or its class, whose `tiny()` is then taken.
        x: a batch of inputs, at least two rows; without it, random rows of `row_shape(model)`. A network on a graph
            that holds none is given `small_graph(model)`, and asked of it.

    Layers that normalise over the batch mix its rows on purpose; they are held in evaluation mode where the
    contract asks that rows stand alone.

    >>> from leadline.models import MLP
    >>> check_model(MLP)
    """
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        subject = _tiny(model) if isinstance(model, type) else copy.deepcopy(model)
        _tiny(type(subject))
        if (place := _holding(subject)) is not None and not place.full:
            place.put(small_graph(subject))
        if x is None:
            x = _inputs(subject)
        for clause in _MODEL_CLAUSES:
            clause(copy.deepcopy(subject), x.detach().clone())


def check_likelihood(likelihood: Likelihood, output: Tensor, y: Tensor) -> None:
    """Raise a ContractError unless `likelihood` keeps the contract of a likelihood on these rows.

    Args:
        output: what a network could return, shape (B, dim_output), or (B, dim_output, ...) where answers have places,
            B at least 2.
        y: targets that the family accepts.

    >>> from leadline.likelihoods import Categorical
    >>> check_likelihood(Categorical(3), torch.randn(4, 3), torch.tensor([0, 1, 2, 2]))
    """
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        for clause in _LIKELIHOOD_CLAUSES:
            clause(copy.deepcopy(likelihood), output.detach().clone(), y.clone())


def check_gradients(
    subject: nn.Module | Callable[..., Tensor],
    *inputs: Tensor,
    loss: Callable[[Tensor], Tensor] | None = None,
    tolerance: float = 1e-6,
    step: float = 1e-6,
    most: int = 100,
) -> list[Difference]:
    """Raise a ContractError unless the derivatives of `subject` are those of finite differences, in float64.

    Args:
        subject: a module, or a function of tensors; a copy of a module is asked, in evaluation mode.
        inputs: what it is called with; derivatives in those of real numbers are checked too.
        loss: from its output to one number; None is a random weighted sum of all outputs.
        tolerance: largest error of a derivative, relative to the largest of its tensor, or to 1 where that is less.
        step: of the differences, above 0.
        most: entries of each tensor that are checked, evenly spread, at least 1.

    Returns the worst entry of each tensor, the worst tensor first. The message of the error names it. At a kink, such
    as ReLU at 0, a derivative is not that of differences: check somewhere else.

    >>> worst = check_gradients(nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 2)), torch.ones(5, 3))
    >>> sorted(one.name for one in worst)
    ['0.bias', '0.weight', '2.bias', '2.weight', 'input 0']
    """
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        asked = copy.deepcopy(subject).double().eval() if isinstance(subject, nn.Module) else subject
        given = [_double(x.detach().clone()) for x in inputs]
        leaves = {f"input {k}": x.requires_grad_() for k, x in enumerate(given) if x.is_floating_point()}
        if isinstance(asked, nn.Module):
            leaves |= {name: p for name, p in asked.named_parameters() if p.requires_grad}
        weights: list[Tensor] = []

        def value() -> Tensor:
            output = asked(*given)
            if loss is not None:
                return loss(output)
            if not weights:  # a plain sum would have no gradient after a softmax or a normalisation
                weights.append(torch.randn(output.shape, dtype=torch.float64))
            return (output * weights[0]).sum()

        found = differences(value, leaves, step=step, most=most)
    if found and not found[0].error <= tolerance:
        name = (
            type(subject).__name__ if isinstance(subject, nn.Module) else getattr(subject, "__name__", "the function")
        )
        raise ContractError(f"{name}: a derivative is not that of finite differences: {found[0]}.")
    return found


# ── the model's clauses ──────────────────────────────────────────────────────────────────────────────────────────────


def _config(model: nn.Module, x: Tensor) -> None:
    config = _read_config(model)
    wanted = [name for name in inspect.signature(type(model).__init__).parameters if name != "self"]
    _must(sorted(config) == sorted(wanted), model, f"config holds {sorted(config)}, the constructor takes {wanted}")


def _rebuilds(model: nn.Module, x: Tensor) -> None:
    twin = _from_config(model)
    if (place := _holding(model)) is not None:
        give_graph(twin, place.graph)
    try:
        twin.load_state_dict(model.state_dict(), strict=True)
    except RuntimeError as error:
        _fail(model, f"a model built from config does not take the state of the first: {error}")
    same = torch.equal(_answer(twin.eval(), x), _answer(model.eval(), x))
    _must(same, model, "a model built from config, with the same state, gives other outputs")


def _answers(model: nn.Module, x: Tensor) -> None:
    output = _answer(model.eval(), x)
    _must(
        output.dim() >= 2 and len(output) == len(x),
        model,
        f"output has shape {tuple(output.shape)} for {len(x)} rows: it must be (B, ...)",
    )
    _must(bool(output.isfinite().all()), model, "output is not finite")


def _learns(model: nn.Module, x: Tensor) -> None:
    model.train()
    with noise.keyed(_keys(x)):
        output = model(x)
    # random weights: a plain sum would have no gradient after a softmax or a normalisation
    (output * torch.randn_like(output)).sum().backward()
    for name, parameter in model.named_parameters():
        if not parameter.requires_grad:
            continue
        _must(parameter.grad is not None, model, f"parameter {name} gets no gradient")
        finite = parameter.grad is not None and bool(parameter.grad.isfinite().all())
        _must(finite, model, f"the gradient of parameter {name} is not finite")


def _same_seed(model: nn.Module, x: Tensor) -> None:
    states = []
    for _ in range(2):
        torch.manual_seed(7)
        states.append(_from_config(model).state_dict())
    for name, first in states[0].items():
        _must(torch.equal(first, states[1][name]), model, f"{name} differs between two models of the same seed")
    model.eval()
    _must(torch.equal(_answer(model, x), _answer(model, x)), model, "the same input gives two outputs in eval mode")


def _keeps_state(model: nn.Module, x: Tensor) -> None:
    model.eval()
    given, before = x.clone(), _state(model)
    _answer(model, x)
    after = _state(model)
    for name, value in before.items():
        _must(name in after and torch.equal(value, after[name]), model, f"a forward pass in eval mode changes {name}")
    _must(torch.equal(x, given), model, "a forward pass writes into its input")


def _float64(model: nn.Module, x: Tensor) -> None:
    try:
        output = _answer(model.double().eval(), _double(x))
    except RuntimeError as error:
        _fail(model, f"float64 does not work: {error}")
    _must(output.dtype == torch.float64, model, f"float64 weights and inputs give an output of type {output.dtype}")


def _rows_stand_alone(model: nn.Module, x: Tensor) -> None:
    model, x = model.double().eval(), _double(x)
    together = _answer(model, x)
    for row in (0, len(x) - 1):
        _close(
            _answer(model, x[row : row + 1])[0],
            together[row],
            model,
            f"row {row} alone gives another output than in a batch, in eval mode",
        )


def _noise_stands_alone(model: nn.Module, x: Tensor) -> None:
    model, x, keys = model.double().train(), _double(x), _keys(x)
    for module in model.modules():
        if isinstance(module, _BatchNorm):
            module.eval()

    def answer(rows: Tensor) -> Tensor:
        with noise.keyed(keys[rows]):
            return _answer(model, x[rows])

    order = torch.arange(len(x))
    together = answer(order)
    _close(answer(order), together, model, "the same keys give other noise: draw it with leadline.layers.noise.uniform")
    _close(answer(order.flip(0)).flip(0), together, model, "noise depends on the order of the batch")
    alone = torch.cat([answer(order[:1]), answer(order[1:])])
    _close(alone, together, model, "noise depends on the other rows of the batch")


_MODEL_CLAUSES: tuple[Callable[[nn.Module, Tensor], None], ...] = (
    _config,
    _answers,
    _rebuilds,
    _learns,
    _same_seed,
    _keeps_state,
    _float64,
    _rows_stand_alone,
    _noise_stands_alone,
)


# ── the likelihood's clauses ─────────────────────────────────────────────────────────────────────────────────────────


def _accepts(likelihood: Likelihood, output: Tensor, y: Tensor) -> None:
    try:
        likelihood.check(y)
        likelihood.check_output(output, y)
    except UserError as error:
        _fail(likelihood, f"it refuses these rows: {error}")


def _is_negative_log_probability(likelihood: Likelihood, output: Tensor, y: Tensor) -> None:
    likelihood, output, y = likelihood.double(), output.double(), _double(y)
    if not likelihood.has_density:
        return _has_no_probability(likelihood, output, y)
    measures = likelihood.measures(output, y)
    _must("nll" in measures, likelihood, "measures() has no nll")
    log_p = _per_row(likelihood.prediction(output).log_prob(y))
    _close(measures["nll"], -log_p, likelihood, "nll is not -log p(y) of the distribution")
    if likelihood.loss_is_nll:
        _close(likelihood.loss(output, y), -log_p, likelihood, "the loss is not -log p(y) of the distribution")
    for row in (0, len(y) - 1):
        alone = likelihood.loss(output[row : row + 1], y[row : row + 1])[0]
        _close(alone, likelihood.loss(output, y)[row], likelihood, f"the loss of row {row} depends on other rows")


def _has_no_probability(likelihood: Likelihood, output: Tensor, y: Tensor) -> None:
    """A loss that is no -log p has no nll, and says so when it is asked for a probability."""
    _must("nll" not in likelihood.measures(output, y), likelihood, "measures() has an nll, where there is no density")
    try:
        likelihood.prediction(output).log_prob(y)
    except UserError:
        return
    _fail(likelihood, "log_prob answers, where there is no density")


def _gradient(likelihood: Likelihood, output: Tensor, y: Tensor) -> None:
    likelihood, y = likelihood.double(), _double(y)
    parameters = [parameter for parameter in likelihood.parameters() if parameter.requires_grad]
    leaves = (output.double().requires_grad_(), *parameters)
    try:
        torch.autograd.gradcheck(lambda out, *_: likelihood.loss(out, y), leaves)
    except RuntimeError as error:
        _fail(likelihood, f"the gradient of the loss is not that of finite differences: {error}")


def _far_outputs(likelihood: Likelihood, output: Tensor, y: Tensor) -> None:
    likelihood = likelihood.float()
    y = y.float() if y.is_floating_point() else y
    for far in (-1e4, 1e4):
        for column in range(output.shape[1]):
            moved = output.float().clone()
            moved[:, column] = far
            moved.requires_grad_()
            loss = likelihood.loss(moved, y)
            (gradient,) = torch.autograd.grad(loss.sum(), moved)
            where = f"at output[:, {column}] = {far:g} in float32"
            _must(bool(loss.isfinite().all()), likelihood, f"the loss is not finite {where}")
            _must(bool(gradient.isfinite().all()), likelihood, f"the gradient is not finite {where}")


def _measures(likelihood: Likelihood, output: Tensor, y: Tensor) -> None:
    loss = likelihood.loss(output, y)
    _must(loss.shape == (len(y),), likelihood, f"loss has shape {tuple(loss.shape)}, not one value per example")
    measures = likelihood.measures(output, y)
    for name, value in measures.items():
        _must(value.shape == (len(y),), likelihood, f"{name} has shape {tuple(value.shape)}, not one value per example")
    summary = likelihood.summary({name: float(value.detach().mean()) for name, value in measures.items()})
    _must("nll" in summary or not likelihood.has_density, likelihood, "summary() has no nll")
    found = {**summary, **_overall(likelihood.double(), output.detach().double(), _double(y))}
    _must(likelihood.headline in found, likelihood, f"summary() has no {likelihood.headline}, its headline")


def _overall(likelihood: Likelihood, output: Tensor, y: Tensor) -> dict[str, float]:
    """Metrics of all rows together, out of tallies that do not depend on the batches in which the rows came."""
    tallies = likelihood.tallies(output, y)
    alone = [likelihood.tallies(output[row : row + 1], y[row : row + 1]) for row in range(len(y))]
    for name, value in tallies.items():
        joined = torch.cat([part[name] for part in alone])
        _close(joined.double(), value.double(), likelihood, f"tally {name} of a row alone is another than in a batch")
    return likelihood.overall(tallies)


def _likelihood_config(likelihood: Likelihood, output: Tensor, y: Tensor) -> None:
    twin = _from_config(likelihood)
    twin.load_state_dict(likelihood.state_dict(), strict=True)
    _must(twin.dim_output == likelihood.dim_output, likelihood, "config builds another dim_output")
    same = torch.equal(twin.loss(output, y), likelihood.loss(output, y))
    _must(same, likelihood, "a likelihood built from config gives another loss")


def _prediction(likelihood: Likelihood, output: Tensor, y: Tensor) -> None:
    prediction = likelihood.prediction(output)
    _must(len(prediction) == len(y), likelihood, f"a prediction of {len(y)} rows has length {len(prediction)}")
    mode = prediction.mode.shape
    same = mode[:1] + mode[2:] == y.shape[:1] + y.shape[2:] if "boxes" in likelihood.kinds else mode == y.shape
    _must(same, likelihood, f"mode has shape {tuple(mode)}, y {tuple(y.shape)}")  # as many boxes as it sees
    if not likelihood.has_density:
        return
    first, again = prediction.sample(3, seed=5), prediction.sample(3, seed=5)
    _must(first.shape == (3, *y.shape), likelihood, f"3 samples have shape {tuple(first.shape)}")
    _must(torch.equal(first, again), likelihood, "two samples of the same seed differ")


_LIKELIHOOD_CLAUSES: tuple[Callable[[Any, Tensor, Tensor], None], ...] = (
    _accepts,
    _measures,
    _is_negative_log_probability,
    _gradient,
    _far_outputs,
    _likelihood_config,
    _prediction,
)


# ── what the clauses share ───────────────────────────────────────────────────────────────────────────────────────────


def _fail(subject: nn.Module | type, sentence: str) -> NoReturn:
    name = subject.__name__ if isinstance(subject, type) else type(subject).__name__
    raise ContractError(f"{name}: {sentence}.")


def _must(holds: bool, subject: nn.Module, sentence: str) -> None:
    if not holds:
        _fail(subject, sentence)


def _close(got: Tensor, wanted: Tensor, subject: nn.Module, sentence: str) -> None:
    got, wanted = got.detach(), wanted.detach()
    off = float((got - wanted).abs().max()) if got.shape == wanted.shape else float("inf")
    limit = TOLERANCE * max(1.0, float(wanted.abs().max()))
    _must(off <= limit, subject, f"{sentence} (off by {off:.3g}, tolerance {limit:.3g})")


def _tiny(model_type: type[nn.Module]) -> nn.Module:
    tiny = getattr(model_type, "tiny", None)
    if tiny is None:
        _fail(model_type, "a model class has a classmethod tiny() that builds a small one")
    made = tiny()
    if type(made) is not model_type:
        _fail(model_type, f"tiny() builds a {type(made).__name__}")
    return made


def row_shape(model: nn.Module) -> tuple[int, ...]:
    """The shape of a row that a model says it can read: its `input_shape`, or its width `dim_input`.

    >>> from leadline.models import MLP
    >>> row_shape(MLP.tiny())
    (3,)
    """
    shape, width = getattr(model, "input_shape", None), getattr(model, "dim_input", None)
    if shape is not None:
        return tuple(shape)
    if not isinstance(width, int):
        raise UserError(
            "check_model needs inputs for a model with neither input_shape nor dim_input",
            got=f"no x for {type(model).__name__}",
            do="Pass x, a batch of at least two rows",
        )
    return (width,)


def small_graph(model: nn.Module) -> Graph:
    """A graph of the sizes that a network on graphs says it can read: six of five nodes each, as one.

    >>> from leadline.models import GCN
    >>> small_graph(GCN.tiny())
    Graph(6 graphs, 30 nodes, 84 edges)
    """
    sizes = {name: getattr(model, name, 0) or 0 for name in ("dim_input", "dim_edge", "num_relations")}
    first = torch.arange(0, 31, 5)
    ring = torch.stack([torch.arange(5), torch.arange(5).roll(-1)])
    pairs = torch.cat([ring, torch.tensor([[0, 1], [2, 3]])], 1)
    pairs = torch.cat([pairs + int(at) for at in first[:-1]], 1)
    features = torch.randn(pairs.shape[1], sizes["dim_edge"]) if sizes["dim_edge"] else None
    relation = torch.randint(sizes["num_relations"], (pairs.shape[1],)) if sizes["num_relations"] else None
    edges = Edges.of(pairs, 30, directed=False, features=features, relation=relation)
    return Graph(torch.randn(30, sizes["dim_input"]), edges, first)


def _holding(model: nn.Module) -> HeldGraph | None:
    return next((module for module in model.modules() if isinstance(module, HeldGraph)), None)


def _inputs(model: nn.Module) -> Tensor:
    if (place := _holding(model)) is not None:
        most = place.graph.num_graphs if place.level == "graph" else len(place.graph)
        return torch.randint(most, (6, *place.row_shape))
    num_tokens = getattr(model, "num_tokens", None)
    if num_tokens is not None:
        return torch.randint(num_tokens, (6, *row_shape(model)))
    return torch.randn(6, *row_shape(model))


def _read_config(thing: Any) -> dict[str, Any]:
    config = getattr(thing, "config", None)
    _must(isinstance(config, dict), thing, "config must be a dictionary of the constructor's arguments")
    try:
        stored = json.loads(json.dumps(config))
    except (TypeError, ValueError) as error:
        _fail(thing, f"config is not plain JSON: {error}")
    _must(stored == config, thing, "config changes on its way through JSON: use lists, strings and numbers")
    return stored


def _from_config(thing: Any) -> Any:
    try:
        return type(thing)(**_read_config(thing))
    except (TypeError, ValueError) as error:
        raise ContractError(f"{type(thing).__name__}: config does not build it again: {error}") from error


@torch.no_grad()
def _answer(model: nn.Module, x: Tensor) -> Tensor:
    output = model(x)
    _must(isinstance(output, Tensor), model, f"forward returns a {type(output).__name__}, not a tensor")
    return output


def _state(model: nn.Module) -> dict[str, Tensor]:
    tensors = {**dict(model.named_parameters()), **dict(model.named_buffers())}
    return {name: tensor.detach().clone() for name, tensor in tensors.items()}


def _double(x: Tensor) -> Tensor:
    return x.double() if x.is_floating_point() else x


def _keys(x: Tensor) -> Tensor:
    return noise.example_keys(0, 0, torch.arange(len(x)))


def _per_row(values: Tensor) -> Tensor:
    return values.flatten(1).sum(1) if values.dim() > 1 else values
