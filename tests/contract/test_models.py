"""Every registered model keeps the contract, and the contract is one that can be broken."""

import ast
import importlib
import inspect
import random
import time

import pytest
import torch
from torch import nn

from leadline.config import Configured
from leadline.data import Data, Split, Target
from leadline.data.inputs import Identity
from leadline.errors import UserError
from leadline.layers import Dropout
from leadline.models import FROM_DATA, MLP, MODELS, build, choices
from leadline.testing import ContractError, check_model


@pytest.mark.parametrize("name", MODELS)
def test_every_model_keeps_the_contract(name):
    check_model(MODELS[name])


@pytest.mark.parametrize("norm", ["none", "batch", "layer"])
@pytest.mark.parametrize("options", [{"p_drop": 0.5}, {"residual": True, "p_drop": 0.3}, {"activation": "gelu"}])
def test_the_mlp_keeps_it_with_any_options(norm, options):
    check_model(MLP(4, (6, 6), 3, norm=norm, **options))


@pytest.mark.parametrize("name", MODELS)
def test_a_model_is_registered_under_its_own_name_and_documented(name):
    model_type = MODELS[name]
    assert model_type.__name__ == name
    module_doc = inspect.getdoc(importlib.import_module(model_type.__module__))
    for part in ("(1)", "Notation", "Shapes", "Train it"):
        assert part in module_doc, f"the docstring of {model_type.__module__} lacks {part}"
    for argument in inspect.signature(model_type).parameters:
        assert argument in inspect.getdoc(model_type), f"{name} does not explain {argument}"


@pytest.mark.parametrize("name", MODELS)
def test_no_model_imports_another(name):
    module = inspect.getmodule(MODELS[name])
    others = {model_type.__module__ for other, model_type in MODELS.items() if other != name}
    imported = set()
    for node in ast.walk(ast.parse(inspect.getsource(module))):
        if isinstance(node, ast.Import):
            imported |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            imported |= {node.module, *(f"{node.module}.{alias.name}" for alias in node.names)}
    assert not imported & (others | {"leadline.models"})


class Told(Identity):
    """Rows of tokens that say what they are."""

    def __init__(self, told):
        self.told = told

    def sizes(self, shape):
        return self.told


def read_by(model):
    """What `build` is told of the rows that a model reads: their shape, or data of tokens."""
    shape = getattr(model, "input_shape", (4,))
    if "num_tokens" not in inspect.signature(type(model)).parameters:
        return shape, 4
    told = {key: value for key, value in model.config.items() if key in FROM_DATA and key != "dim_output"}
    rows = Split(torch.zeros(3, *shape, dtype=torch.long), torch.zeros(3, *shape, dtype=torch.long))
    dim_output = model.config.get("dim_output", model.num_tokens)
    return Data(rows, rows, rows, Target("tokens", dim=dim_output), Told(told)), dim_output


@pytest.mark.parametrize("name", MODELS)
def test_build_draws_first_weights_from_the_seed_alone(name):
    model_type = MODELS[name]
    options = {key: value for key, value in model_type.tiny().config.items() if key in choices(model_type)}
    read, dim_output = read_by(model_type.tiny())
    torch.manual_seed(1)
    first = build(name, read, dim_output, seed=5, **options).state_dict()
    after_first = torch.rand(1)
    torch.manual_seed(2)
    again = build(name, read, dim_output, seed=5, **options).state_dict()
    other = build(name, read, dim_output, seed=6, **options).state_dict()
    assert all(torch.equal(first[key], again[key]) for key in first)
    nothing = not any(bool(value.any()) for value in first.values())  # a perceptron begins with no weights at all
    assert nothing or any(not torch.equal(first[key], other[key]) for key in first)
    torch.manual_seed(1)
    assert torch.equal(after_first, torch.rand(1)), "build moved torch's own random state"


def test_checking_changes_neither_the_model_nor_the_random_state():
    model = MLP.tiny()
    before = {key: value.clone() for key, value in model.state_dict().items()}
    torch.manual_seed(3)
    check_model(model)
    drawn = torch.rand(1)
    torch.manual_seed(3)
    assert torch.equal(drawn, torch.rand(1))
    assert model.training
    assert all(torch.equal(before[key], value) for key, value in model.state_dict().items())
    assert all(parameter.grad is None for parameter in model.parameters())


# ── models that are broken on purpose, one clause each ──


class Sound(nn.Module, Configured):
    """A model that keeps the contract; what follows breaks one thing each."""

    def __init__(self, dim_input=3, hidden=(4,)):
        super().__init__()
        self.dim_input, self.hidden = dim_input, tuple(hidden)
        self.map = nn.Linear(dim_input, 2)
        self.drop = Dropout(0.5, site=1)

    @classmethod
    def tiny(cls):
        return cls()

    def forward(self, x):
        return self.map(self.drop(x))


class NoTiny(Sound):
    tiny = None


class TinyOfAnother(Sound):
    @classmethod
    def tiny(cls):
        return Sound()


class ConfigLacksAnArgument(Sound):
    @property
    def config(self):
        return {"dim_input": self.dim_input}


class ConfigHoldsATensor(Sound):
    @property
    def config(self):
        return {"dim_input": 3, "hidden": torch.ones(1)}


class ConfigHoldsATuple(Sound):
    @property
    def config(self):
        return {"dim_input": 3, "hidden": (4,)}


class ConfigBuildsAnother(Sound):
    @property
    def config(self):
        return {"dim_input": 5, "hidden": [4]}


class RefusesItsConfig(Sound):
    def __init__(self, dim_input=3, hidden=(4,)):
        if isinstance(hidden, list):
            raise ValueError("hidden must be a tuple")
        super().__init__(dim_input, hidden)


class RemembersOutsideItsState(Sound):
    def __init__(self, dim_input=3, hidden=(4,)):
        super().__init__(dim_input, hidden)
        self.offset = random.random()

    def forward(self, x):
        return super().forward(x) + self.offset


class ReturnsAPair(Sound):
    def forward(self, x):
        return self.map(x), x


class LosesTheBatchAxis(Sound):
    def forward(self, x):
        return self.map(x).sum(0)


class OverFlows(Sound):
    def forward(self, x):
        return self.map(x) * torch.inf


class UnusedParameter(Sound):
    def __init__(self, dim_input=3, hidden=(4,)):
        super().__init__(dim_input, hidden)
        self.spare = nn.Parameter(torch.zeros(2))


class GradientOfRootAtZero(Sound):
    def forward(self, x):
        return super().forward(x) + (self.map.weight.sum() * 0).abs().sqrt()


class SeededByTheClock(Sound):
    def __init__(self, dim_input=3, hidden=(4,)):
        super().__init__(dim_input, hidden)
        with torch.no_grad():
            self.map.bias.fill_(time.perf_counter_ns() % 1_000_003)  # float32 holds these apart


class RandomInEval(Sound):
    def forward(self, x):
        return self.map(x) + torch.randn(2)


class CountsItsCalls(Sound):
    def __init__(self, dim_input=3, hidden=(4,)):
        super().__init__(dim_input, hidden)
        self.register_buffer("calls", torch.zeros(1))

    def forward(self, x):
        self.calls += 1
        return self.map(x)


class WritesIntoItsInput(Sound):
    def forward(self, x):
        return self.map(x.clamp_(0.0))


class Float32Only(Sound):
    def forward(self, x):
        return self.map(x.float())


class AnswersInFloat32(Sound):
    def forward(self, x):
        return self.map(x).float()


class MixesTheBatch(Sound):
    def forward(self, x):
        return self.map(x - x.mean(0))


class DropsWithTorch(Sound):
    def __init__(self, dim_input=3, hidden=(4,)):
        super().__init__(dim_input, hidden)
        self.drop = nn.Dropout(0.5)


class MixesTheBatchInTraining(Sound):
    def forward(self, x):
        return self.map(x - x.mean(0) if self.training else x)


class DropsByPositionInTheBatch(Sound):
    def forward(self, x):
        kept = torch.arange(len(x)) % 2 == 0 if self.training else torch.ones(len(x))
        return self.map(x) * kept[:, None]


BROKEN = {
    NoTiny: "has a classmethod tiny",
    TinyOfAnother: "tiny.. builds a Sound",
    ConfigLacksAnArgument: "config holds",
    ConfigHoldsATensor: "config is not plain JSON",
    ConfigHoldsATuple: "config changes on its way through JSON",
    ConfigBuildsAnother: "does not take the state",
    RefusesItsConfig: "config does not build it again: hidden must be a tuple",
    RemembersOutsideItsState: "with the same state, gives other outputs",
    ReturnsAPair: "forward returns a tuple",
    LosesTheBatchAxis: r"must be \(B, ...\)",
    OverFlows: "output is not finite",
    UnusedParameter: "parameter spare gets no gradient",
    GradientOfRootAtZero: "gradient of parameter map.weight is not finite",
    SeededByTheClock: "map.bias differs between two models of the same seed",
    CountsItsCalls: "changes calls",
    WritesIntoItsInput: "writes into its input",
    Float32Only: "float64 does not work",
    AnswersInFloat32: "output of type torch.float32",
    MixesTheBatch: "alone gives another output than in a batch",
    DropsWithTorch: "the same keys give other noise",
    MixesTheBatchInTraining: "noise depends on the other rows",
    DropsByPositionInTheBatch: "noise depends on the order",
}


def test_the_sound_model_passes():
    check_model(Sound)


@pytest.mark.parametrize("broken", BROKEN, ids=lambda broken: broken.__name__)
def test_a_broken_model_is_caught_by_the_clause_that_it_breaks(broken):
    with pytest.raises(ContractError, match=f"^{broken.__name__}: .*{BROKEN[broken]}"):
        check_model(broken)


def test_an_eval_mode_that_draws_is_caught():
    with pytest.raises(ContractError, match="gives other outputs|gives two outputs"):
        check_model(RandomInEval)


def test_without_dim_input_the_inputs_must_be_given():
    class NoWidth(Sound):
        def __init__(self):
            super().__init__()
            del self.dim_input

    with pytest.raises(UserError, match="Pass x"):
        check_model(NoWidth)
    check_model(NoWidth, torch.randn(3, 3))
